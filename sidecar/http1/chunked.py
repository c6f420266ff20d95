"""The chunked coding (RFC 9112, 7.1): read it as it comes, and write it.

Each piece of content is given out with the read that brought it, uncopied where a read lies within a chunk; chunks that
a read brings whole are one piece. Nothing raises: at the first byte that breaks the rules `error` is set, and what was
good before it is still given out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import Final

from sidecar.headers import HOP_BY_HOP, Fields
from sidecar.http1.head import Http1Error, Section, field_lines

LAST_CHUNK: Final = b"0\r\n\r\n"
"""The end of a body without trailers."""
TRAILER_BYTES: Final = 65_536
"""Longest trailer section: they carry a checksum or a status, and come when the reader has all it asked for."""
NEVER_TRAILERS: Final = HOP_BY_HOP | {
    "authorization",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "host",
    "set-cookie",
}
"""Fields that would change, after the fact, how a message was framed, routed or read (RFC 9110, 6.5.1)."""

_DIGITS: Final = rb"[0-9A-Fa-f]{1,16}"
_EXTENSIONS: Final = rb"[ \t]{0,16};[^\x00-\x08\x0a-\x1f\x7f]{0,4096}"
"""Nobody reads them, and 4 KiB are more than anybody sends; the size before them says 64 bits at most."""
_SIZE_LINE: Final = re.compile(rb"(%b)(?:%b)?\r\n" % (_DIGITS, _EXTENSIONS))
_PLAIN_SIZE_LINE: Final = re.compile(rb"(%b)\r\n" % _DIGITS)
_SIZE_LINE_BEGUN: Final = re.compile(rb"%b(?:[ \t]{0,16}|(?:%b)?\r?)" % (_DIGITS, _EXTENSIONS))


class _At(Enum):
    SIZE = "a size line"
    CONTENT = "content"
    CONTENT_END = "the line end after content"
    TRAILERS = "trailers"
    END = "nothing"


def whole_chunks(data: bytes, at: int) -> tuple[bytes, int]:
    """From a position at which a chunk begins: the content of the whole chunks there, and the position behind them.

    Only of such as have nothing in them but a size, content and line ends; before anything else it stops.
    """
    pieces: list[bytes] = []
    while size_line := _PLAIN_SIZE_LINE.match(data, at):
        start = size_line.end()
        stop = start + int(size_line[1], 16)
        if stop == start or not data.startswith(b"\r\n", stop):
            break
        pieces.append(data[start:stop])
        at = stop + 2
    return (pieces[0] if len(pieces) == 1 else b"".join(pieces)), at


WholeChunks = Callable[[bytes, int], tuple[bytes, int]]
"""What `whole_chunks` does."""


class ChunkedReader:
    """One chunked body. error: the rule it broke. rest: what came with its last bytes, and is none of it."""

    __slots__ = ("_at", "_begun", "_left_bytes", "_section", "_whole_chunks", "error", "rest")

    def __init__(self, whole_chunks: WholeChunks = whole_chunks) -> None:
        self._whole_chunks = whole_chunks
        self.error: str | None = None
        self.rest = b""
        self._at = _At.SIZE
        self._begun = b""  # of a size line or a line end, and the rest of it has not come
        self._left_bytes = 0  # of the chunk's content
        self._section = Section(is_head=False, limit_bytes=TRAILER_BYTES)

    @property
    def is_done(self) -> bool:
        """The body is complete, with its trailers."""
        return self._at is _At.END and self.error is None

    @property
    def trailers(self) -> tuple[tuple[str, str], ...]:
        """The fields after the content that may be passed on."""
        return tuple((name, value) for name, value in self._section.fields if name.lower() not in NEVER_TRAILERS)

    @property
    def is_between(self) -> bool:
        """The next byte begins a chunk. Whole chunks leave that so."""
        return self._at is _At.SIZE and not self._begun

    def feed(self, data: bytes) -> list[bytes]:
        """The content that these bytes bring, none of it empty; nothing after the end or an error."""
        pieces: list[bytes] = []
        if self._begun:
            data, self._begun = self._begun + data, b""
        at = 0
        while at < len(data):
            match self._at:
                case _At.SIZE:
                    at = self._chunks_came(data, at, pieces)
                case _At.CONTENT:
                    at = self._content_came(data, at, pieces)
                case _At.CONTENT_END:
                    at = self._content_ended(data, at)
                case _At.TRAILERS:
                    at = self._trailers_came(data, at)
                case _:  # the end
                    break
        return pieces

    # Each of these takes data from a position on, and returns the one at which something else comes.

    def _chunks_came(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        """The chunks that are whole, and the size line of the one that is not."""
        content, at = self._whole_chunks(data, at)
        if content:
            pieces.append(content)
        if size_line := _SIZE_LINE.match(data, at):
            self._left_bytes = int(size_line[1], 16)
            self._at = _At.CONTENT if self._left_bytes else _At.TRAILERS
            return size_line.end()
        if at < len(data):
            self._begun = data[at:]
            if not _SIZE_LINE_BEGUN.fullmatch(self._begun):
                self._fail("a chunk begins with its size of 1 to 16 hex digits, extensions and CRLF")
        return len(data)

    def _content_came(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        piece = data[at : at + self._left_bytes]
        pieces.append(piece)
        self._left_bytes -= len(piece)
        if not self._left_bytes:
            self._at = _At.CONTENT_END
        return at + len(piece)

    def _content_ended(self, data: bytes, at: int) -> int:
        if data.startswith(b"\r\n", at):
            self._at = _At.SIZE
            return at + 2
        self._begun = data[at:]
        if self._begun != b"\r":
            self._fail("CRLF comes after as much content as the size of a chunk says")
        return len(data)

    def _trailers_came(self, data: bytes, at: int) -> int:
        try:
            section_end = self._section.feed(data, at)
        except Http1Error as error:
            self._fail(error.rule)
            return len(data)
        if section_end < 0:
            return len(data)
        self.rest = data[section_end:]
        self._at = _At.END
        return section_end

    def _fail(self, rule: str) -> None:
        self.error = rule
        self._begun = b""
        self._at = _At.END


def encode_chunk(data: bytes) -> bytes:
    """One chunk. Of empty data nothing, since an empty chunk would be the last one."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


def last_chunk(trailers: Fields = ()) -> bytes:
    """The end of a body, with its trailers. Raises Http1Error for one that is no field."""
    return b"0\r\n%b\r\n" % field_lines(trailers) if trailers else LAST_CHUNK
