"""Look for the model, the wish for a stream and the size of the prompt in a JSON request as it passes.

Only the members of the outermost object are looked at, and only the few that are asked for are kept, so a scan costs
the same memory whatever the body. It is no parser: what lies deeper is skipped by its brackets and strings, and a
body that is not JSON where it is looked at tells nothing. However the body was cut into pieces, the same is found.

Of members that come twice the last counts, as it does for the parsers of the servers.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

import orjson

from sidecar.headers import essence_of, is_packed
from sidecar.inspection.dialects.base import NAME_CHARS, name_of

TOKEN_BYTES: Final = 6 * NAME_CHARS + 2
"""Longest key or value that is kept: a name of which every character is written as an escape, in its quotes."""
STEPS: Final = 50_000
"""Brackets and top-level tokens looked at, 20 ms of a core: real requests have hundreds, and ten thousand with many
tools and a long history. What comes after is only counted."""
PROMPTS: Final = frozenset({"messages", "prompt", "input", "inputs", "contents", "system", "instructions"})
"""Members in which the APIs carry what the model is to read."""
BUCKETS: Final = tuple(
    (1 << 10 + 2 * step, f"<{name}") for step, name in enumerate(("1K", "4K", "16K", "64K", "256K", "1M", "4M"))
)
"""Powers of four: they tell a short question from a long document, and not one question from another."""
LARGEST: Final = ">=4M"

_KEPT: Final = frozenset({"model", "stream"})
_ASKED: Final = PROMPTS | _KEPT
_BLANK: Final = re.compile(rb"[ \t\n\r]*+")
_SCALAR: Final = re.compile(rb"[A-Za-z0-9+.\-]*+")
_STRING: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_SKIPPED: Final = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
"""Within a nested value: all up to the next bracket, or to a string whose end has not come."""
_QUOTE: Final = ord('"')
_OPENING: Final = frozenset(b"{[")
_FLAGS: Final = {b"true": True, b"false": False}


class _At(Enum):
    """What comes next."""

    START = auto()
    KEY = auto()
    COLON = auto()
    VALUE = auto()
    SCALAR = auto()
    NESTED = auto()
    COMMA = auto()
    OVER = auto()


class RequestScan:
    """A bounded look at one request body.

    model, is_stream: what the request says, None where it does not, or not as APIs have it.
    """

    __slots__ = (
        "_at",
        "_depth",
        "_in_string",
        "_is_escaped",
        "_is_whole",
        "_key",
        "_prompts",
        "_size_bytes",
        "_start_bytes",
        "_steps",
        "_token",
        "is_stream",
        "model",
    )

    def __init__(self) -> None:
        self.model: str | None = None
        self.is_stream: bool | None = None
        self._at = _At.START
        self._is_whole = False
        self._in_string = False
        self._is_escaped = False  # the last byte was a backslash inside a string
        self._depth = 0  # of brackets inside the value
        self._token = bytearray()  # the key or value that is being read
        self._key: str | None = None
        self._prompts: dict[str, int] = {}
        self._size_bytes = 0  # of all pieces before this one
        self._start_bytes = 0  # where the value begins
        self._steps = 0

    @property
    def prompt_bytes(self) -> int | None:
        """Size of the members that the model is to read, of the body where none was found; None without a body."""
        size_bytes = sum(self._prompts.values()) if self._is_whole and self._prompts else self._size_bytes
        return size_bytes or None

    @property
    def prompt_bucket(self) -> str | None:
        """That size, coarsely."""
        size_bytes = self.prompt_bytes
        if size_bytes is None:
            return None
        return next((name for limit_bytes, name in BUCKETS if size_bytes < limit_bytes), LARGEST)

    def feed(self, data: bytes) -> None:
        """The next bytes of the body. Never raises."""
        pos = 0
        while pos < len(data) and self._at is not _At.OVER:
            pos = self._string(data, pos) if self._in_string else self._step(data, pos)
        self._size_bytes += len(data)

    def _step(self, data: bytes, pos: int) -> int:
        """Go on to the next byte that means something, and take it; where to go on."""
        if self._at is _At.NESTED:
            return self._nested(data, pos)
        if self._at is _At.SCALAR:
            return self._scalar(data, pos)
        pos = _ends(_BLANK, data, pos)
        return pos if pos == len(data) else self._take(data, pos)

    def _take(self, data: bytes, pos: int) -> int:
        self._steps += 1
        if self._steps > STEPS:
            self._at = _At.OVER
            return pos
        byte = data[pos : pos + 1]
        match self._at, byte:
            case _At.START, b"{":
                self._at = _At.KEY
            case _At.KEY | _At.VALUE, b'"':
                self._begin_value(pos)
                self._in_string = True
                self._keep(byte)
            case _At.KEY, b"}":
                self._end()
            case _At.COLON, b":":
                self._at = _At.VALUE
            case _At.VALUE, b"{" | b"[":
                self._begin_value(pos)
                self._depth = 1
                self._at = _At.NESTED
            case _At.VALUE, _ if _SCALAR.fullmatch(byte):
                self._begin_value(pos)
                self._at = _At.SCALAR
                return pos
            case _At.COMMA, b",":
                self._at = _At.KEY
            case _At.COMMA, b"}":
                self._end()
            case _:
                self._give_up()
        return pos + 1

    def _string(self, data: bytes, pos: int) -> int:
        begin = pos
        if self._is_escaped:
            self._is_escaped = False
            pos += 1
        pos = _ends(_STRING, data, pos)
        if pos < len(data):
            self._is_escaped = data[pos] == ord("\\")  # the last byte: what it escapes has not come
            self._in_string = self._is_escaped
            pos += 1
        self._keep(data[begin:pos])
        if not self._in_string and self._at is not _At.NESTED:
            self._end_string(pos)
        return pos

    def _end_string(self, pos: int) -> None:
        if self._at is _At.VALUE:
            self._end_value(pos)
            return
        key = self._text()
        self._key = key if key in _ASKED else None
        self._token.clear()
        self._at = _At.COLON

    def _nested(self, data: bytes, pos: int) -> int:
        depth, steps = self._depth, self._steps
        while depth and steps <= STEPS and (pos := _ends(_SKIPPED, data, pos)) < len(data):
            byte = data[pos]
            pos += 1
            if byte == _QUOTE:
                self._in_string = True
                break
            steps += 1
            depth += 1 if byte in _OPENING else -1
        self._depth, self._steps = depth, steps
        if not depth:
            self._end_value(pos)
        if steps > STEPS:
            self._at = _At.OVER
        return pos

    def _scalar(self, data: bytes, pos: int) -> int:
        end = _ends(_SCALAR, data, pos)
        self._keep(data[pos:end])
        if end < len(data):
            self._end_value(end)
        return end

    def _begin_value(self, pos: int) -> None:
        self._token.clear()
        self._start_bytes = self._size_bytes + pos

    def _end_value(self, pos: int) -> None:
        self._at = _At.COMMA
        match self._key:
            case "model":
                self.model = name_of(self._text())
            case "stream":
                self.is_stream = _FLAGS.get(bytes(self._token))
            case str() as prompt:
                self._prompts[prompt] = self._size_bytes + pos - self._start_bytes
        self._token.clear()

    def _keep(self, data: bytes) -> None:
        if self._at is _At.KEY or (self._key in _KEPT and self._at is not _At.NESTED):
            self._token += data[: TOKEN_BYTES + 1 - len(self._token)]

    def _text(self) -> str | None:
        """The string that the token is, None when it is anything else."""
        if not self._token.startswith(b'"') or len(self._token) > TOKEN_BYTES:
            return None
        try:
            value = orjson.loads(self._token)
        except orjson.JSONDecodeError:
            return None
        return value if isinstance(value, str) else None

    def _end(self) -> None:
        self._is_whole = True
        self._at = _At.OVER

    def _give_up(self) -> None:
        """It is no JSON, so what was found in it means nothing."""
        self.model = self.is_stream = None
        self._at = _At.OVER


def scan_for(content_type: str | None, content_encoding: str | None) -> RequestScan | None:
    """A scan for a body of this media type, None for one that is not looked at: no JSON, or encoded."""
    essence = essence_of(content_type)
    is_json = essence == "application/json" or essence.endswith("+json")
    return RequestScan() if is_json and not is_packed(content_encoding) else None


def _ends(pattern: re.Pattern[bytes], data: bytes, pos: int) -> int:
    """Where a match at pos ends, of a pattern that matches anything."""
    found = pattern.match(data, pos)
    assert found is not None
    return found.end()
