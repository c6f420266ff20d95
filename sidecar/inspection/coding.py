"""Decode a copy of an encoded body as it flows by, so that its events can be seen; the bytes sent on stay as they are.

What cannot be decoded is no error: `decoder_for` says None, and the arrivals are opaque. A body that breaks its
coding, or that unpacks to more than a stream of text can, raises CodingError, and the rest of it is opaque.
"""

from __future__ import annotations

import zlib
from typing import Final, Protocol

CALL_BYTES: Final = 4 << 20
"""Most that one read may unpack to. A read is some 16 KB, and text rarely packs better than 50 to 1."""
RATIO: Final = 200
"""Most that a body may unpack to per byte. Deflate reaches 1,032; nearly equal JSON events stay under 60."""
RATIO_FREE_BYTES: Final = 1 << 20
"""The ratio is not asked below this: a short run of equal padding is no bomb."""
CODINGS: Final = 3
"""Most codings in a stack. Real ones are one, by mistake two; each costs 40 KB of memory."""
MEMBERS: Final = 64
"""Most gzip members that one read may end. Real bodies are one member; thousands of empty ones only burn time."""

_GZIP: Final = 16 + zlib.MAX_WBITS
_ZLIB: Final = zlib.MAX_WBITS
_RAW: Final = -zlib.MAX_WBITS
_GZIP_MAGIC: Final = 0x1F


class CodingError(ValueError):
    """The body breaks its coding or a limit; the message names the coding or the numbers."""


class Stage(Protocol):
    """One coding of a stack."""

    def decode(self, data: bytes) -> bytes:
        """What data unpacks to, at most CALL_BYTES. Raises CodingError for more, or when data breaks the coding."""


def decoder_for(content_encoding: str | None) -> Decoder | None:
    """A decoder of one body, None when a coding is not known. No coding and `identity` pass the bytes through.

    content_encoding is the whole list: repeated fields joined by commas.
    """
    names = [name.strip().lower() for name in (content_encoding or "").split(",")]
    names = [name for name in names if name not in {"", "identity"}]
    if len(names) > CODINGS:
        return None
    stages: list[Stage] = []
    for name in reversed(names):  # the last one was applied last
        match name:
            case "gzip" | "x-gzip":
                stages.append(_Gzip())
            case "deflate":
                stages.append(_Deflate())
            case _:
                return None
    return Decoder(stages)


class Decoder:
    """The stack of codings of one body. After a CodingError it must not be used any more."""

    __slots__ = ("_in_bytes", "_out_bytes", "_stages")

    def __init__(self, stages: list[Stage]) -> None:
        self._stages = stages
        self._in_bytes = 0
        self._out_bytes = 0

    def decode(self, data: bytes) -> bytes:
        """What data, the next bytes of the body, unpacks to: at most CALL_BYTES, often nothing. Raises CodingError."""
        if not self._stages:
            return data
        self._in_bytes += len(data)
        for stage in self._stages:
            data = stage.decode(data)
        self._out_bytes += len(data)
        if self._out_bytes > max(RATIO_FREE_BYTES, RATIO * self._in_bytes):
            raise CodingError(f"{self._in_bytes} bytes unpack to {self._out_bytes}, more than {RATIO} to 1")
        return data


class _Gzip:
    """Gzip members, one after the other (RFC 1952, 2.2). Anything else behind a member is ignored, as readers do."""

    __slots__ = ("_inflate", "_is_between", "_is_over")

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(_GZIP)
        self._is_between = False  # a member has ended, and the next byte tells whether another one follows
        self._is_over = False

    def decode(self, data: bytes) -> bytes:
        out = bytearray()
        member_count = 0
        while data and not self._is_over:
            if self._is_between:
                self._is_between = False
                self._is_over = data[0] != _GZIP_MAGIC
                self._inflate = zlib.decompressobj(_GZIP)
                continue
            out += _inflated(self._inflate, data, CALL_BYTES - len(out), "gzip")
            if not self._inflate.eof:
                break
            self._is_between = True
            data = self._inflate.unused_data
            member_count += 1
            if member_count > MEMBERS:
                raise CodingError(f"gzip: more than {MEMBERS} members end in one read")
        return bytes(out)


class _Deflate:
    """RFC 1950 as the name says, or RFC 1951 without its wrapping as some servers send it: the first two bytes tell."""

    __slots__ = ("_head", "_inflate")

    def __init__(self) -> None:
        self._head = b""
        self._inflate: zlib._Decompress | None = None

    def decode(self, data: bytes) -> bytes:
        if self._inflate is None:
            data = self._head + data
            if len(data) < 2:
                self._head = data
                return b""
            is_wrapped = data[0] & 0x0F == zlib.DEFLATED and int.from_bytes(data[:2]) % 31 == 0  # RFC 1950, 2.2
            self._inflate = zlib.decompressobj(_ZLIB if is_wrapped else _RAW)
        return b"" if self._inflate.eof else _inflated(self._inflate, data, CALL_BYTES, "deflate")


def _inflated(inflate: zlib._Decompress, data: bytes, room_bytes: int, coding: str) -> bytes:
    try:
        out = inflate.decompress(data, room_bytes + 1)
    except zlib.error as error:
        raise CodingError(f"{coding}: {error}") from None
    if len(out) > room_bytes:
        raise CodingError(f"{coding}: one read unpacks to more than {CALL_BYTES} bytes")
    return out
