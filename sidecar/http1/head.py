"""Heads of HTTP/1: read a response's line by line, write a request's.

Strict, because what two parsers read differently can smuggle an answer to the wrong reader: lines end in CRLF and
nothing else, a field name is a token right before its colon, and no control byte but a tab is in a value. A folded
line is joined by a space (RFC 9112, 5.2). Fields keep order, repetition, spelling and every byte of their values: a
value is UTF-8, and bytes that are none stand in it as surrogates; so is the reason.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from sidecar.headers import Fields

HEAD_BYTES: Final = 262_144
"""Longest head of a response: heads with many cookies reach tens of KiB, and each connection may hold one."""
LINE_BYTES: Final = 65_536
"""Longest line of a head without its end: more than nginx or Envoy let through."""
LINES: Final = 256
"""Most lines of a head or of a trailer section, as many as are taken from downstream."""

_BEGINNING: Final = b"HTTP/1."
_WHITE: Final = b" \t"
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: ([^\x00-\x08\x0a-\x1f\x7f]*))?")
_TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")  # RFC 9110, 5.5
_TARGET: Final = re.compile(rb"[^\x00-\x20\x7f]+")


class Http1Error(ValueError):
    """A message is no HTTP/1 that may be passed on. It tells the broken rule, and nothing of what was received."""

    @property
    def rule(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """The head of a response, interim or final. The reason is empty when there is none."""

    version: tuple[int, int]
    status: int
    reason: str
    fields: tuple[tuple[str, str], ...]


class Section:
    """Field lines up to the blank one, however they are cut: a head, with its status line, or a trailer section.

    What raises, and with which rule, does not depend on the cut either. After an error it is of no more use.
    """

    __slots__ = ("_is_head", "_limit_bytes", "_line", "_line_count", "_size_bytes", "_status_line", "fields")

    def __init__(self, *, is_head: bool, limit_bytes: int = HEAD_BYTES) -> None:
        self.fields: list[tuple[str, str]] = []
        self._is_head = is_head
        self._limit_bytes = limit_bytes
        self._line = b""  # the beginning of a line whose end has not come
        self._line_count = 0
        self._size_bytes = 0  # of all lines that have ended
        self._status_line: re.Match[bytes] | None = None

    def feed(self, data: bytes, start: int = 0) -> int:
        """Take bytes from `start` on: the position after the blank line, -1 when that has not come."""
        at = start
        while (line_end := data.find(b"\n", at)) >= 0:
            line = self._line + data[at:line_end]
            self._check_beginning(line, end_bytes=1)
            self._line = b""
            self._size_bytes += len(line) + 1
            at = line_end + 1
            if not line.endswith(b"\r"):
                raise Http1Error("a line of a head ends in CRLF")
            if line == b"\r" and (self._status_line or not self._is_head):
                return at
            self._take_line(line[:-1])
        self._line += data[at:]
        self._check_beginning(self._line, end_bytes=0)
        return -1

    @property
    def size_bytes(self) -> int:
        """Of all lines that have ended."""
        return self._size_bytes

    def head(self) -> ResponseHead:
        """The head, once its blank line has come."""
        status_line = self._status_line
        assert status_line is not None, "a trailer section, or a head that has not begun"
        version = (1, int(status_line[1]))
        return ResponseHead(version, int(status_line[2]), _text(status_line[3] or b""), tuple(self.fields))

    def _check_beginning(self, line: bytes, *, end_bytes: int) -> None:
        """What can be said of a line before its end has come; `line` may hold the CR of its end."""
        if self._is_head and self._status_line is None and not _BEGINNING.startswith(line[: len(_BEGINNING)]):
            raise Http1Error("an answer begins with HTTP/1")
        if len(line) > LINE_BYTES + 1 or self._size_bytes + len(line) + end_bytes > self._limit_bytes:
            raise Http1Error("a head and its lines are no longer than their limits")

    def _take_line(self, line: bytes) -> None:
        self._line_count += 1
        if self._line_count > LINES:
            raise Http1Error("a head has no more lines than its limit")
        if self._is_head and self._status_line is None:
            self._status_line = _STATUS_LINE.fullmatch(line)
            if self._status_line is None:
                raise Http1Error("a status line has version 1.0 or 1.1, a status of 100 to 599 and a reason")
            return
        if _CONTROL.search(line):
            raise Http1Error("a field has no control byte")
        if line.startswith((b" ", b"\t")):
            if not self.fields:
                raise Http1Error("no white space comes before the first field")
            name, value = self.fields[-1]
            self.fields[-1] = (name, f"{value} {_text(line.strip(_WHITE))}".strip(" "))
            return
        raw_name, colon, raw_value = line.partition(b":")
        if not colon or not _TOKEN.fullmatch(raw_name):
            raise Http1Error("a field has a name, which is a token, and a colon right after it")
        self.fields.append((raw_name.decode("ascii"), _text(raw_value.strip(_WHITE))))


def parse_head(block: bytes) -> ResponseHead:
    """A whole head with its blank line. Raises Http1Error."""
    section = Section(is_head=True)
    if section.feed(block) != len(block):
        raise Http1Error("a head ends with its only blank line")
    return section.head()


def request_head(method: str, target: str, fields: Fields) -> bytes:
    """A request's head as it goes out, with its blank line. Raises Http1Error for what would not be read as meant."""
    raw_method, raw_target = _raw(method), _raw(target)
    if not _TOKEN.fullmatch(raw_method):
        raise Http1Error("a method is a token")
    if not _TARGET.fullmatch(raw_target):
        raise Http1Error("a target has neither white space nor control bytes, and is not empty")
    return b"%b %b HTTP/1.1\r\n%b\r\n" % (raw_method, raw_target, field_lines(fields))


def field_lines(fields: Fields) -> bytes:
    """Fields as their lines, each with its end. Raises Http1Error for a name or a value that is none."""
    lines = []
    for name, value in fields:
        raw_name, raw_value = _raw(name), _raw(value)
        if not _TOKEN.fullmatch(raw_name):
            raise Http1Error("a field name is a token")
        if _CONTROL.search(raw_value):
            raise Http1Error("a field value has no control byte")
        lines.append(b"%b: %b\r\n" % (raw_name, raw_value))
    return b"".join(lines)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _raw(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        raise Http1Error("a head is made of bytes") from None
