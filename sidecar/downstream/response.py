"""Write the answer to the reader, on the connection that aiohttp accepted: the head as it came, framing, trailers.

aiohttp reads requests and keeps connections; an answer it would change: it writes no byte that is not UTF-8, puts
fields of its own in, drops trailers and knows no interim answers. So it gets a `Handed`, which has nothing left to do.
"""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter

from sidecar.headers import Fields
from sidecar.http1.chunked import encode_chunk, last_chunk

BODYLESS: Final = frozenset({204, 304})
_HTTP_1_0: Final = (1, 0)
_HTTP_1_1: Final = (1, 1)
_FORBIDDEN: Final = {204: frozenset({"content-length"})}  # RFC 9110, 8.6


class Handed(web.StreamResponse):
    """What aiohttp gets of an answer that is written: nothing to do, and whether the connection may go on. It has
    nothing of its exchange, so there are two for all of them."""

    def __init__(self, *, may_go_on: bool) -> None:
        super().__init__()
        self._may_go_on = may_go_on

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        del request
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        del data

    @property
    def keep_alive(self) -> bool:
        return self._may_go_on


_GOES_ON: Final = Handed(may_go_on=True)
_IS_LAST: Final = Handed(may_go_on=False)


class Response:
    """The one answer to a request. Writing to a reader that has left raises ConnectionResetError.

    output_size: bytes of the answer given to the connection, head and framing included; interim answers are not part
    of it. has_length: its end can be told from a cut without the framing of chunks.
    """

    __slots__ = (
        "_head",
        "_is_bodyless_method",
        "_transport",
        "_version",
        "_writer",
        "has_length",
        "is_chunked",
        "is_ended",
        "is_started",
        "may_go_on",
        "output_size",
    )

    def __init__(self, request: web.Request) -> None:
        self._transport: asyncio.Transport | None = request.transport
        self._writer: AbstractStreamWriter = request.writer
        self._version = max(_HTTP_1_0, min((request.version.major, request.version.minor), _HTTP_1_1))
        self._head = b""  # what goes out with the next bytes
        self._is_bodyless_method = request.method == hdrs.METH_HEAD
        self.is_chunked = False
        self.may_go_on = request.keep_alive
        self.has_length = False
        self.is_started = False
        self.is_ended = False
        self.output_size = 0

    @property
    def can_have_interim(self) -> bool:
        """RFC 9110, 15.2: a client of HTTP/1.0 would take it for the answer."""
        return self._version >= _HTTP_1_1 and not self.is_started

    def interim(self, status: int, reason: str, fields: Fields = ()) -> None:
        """Pass on an answer that comes before the answer."""
        if self.can_have_interim:
            self._give(head_bytes(self._version, status, reason, fields))

    def begin(self, status: int, reason: str, fields: Fields, *, is_followed: bool = False) -> None:
        """Write the head. fields: end-to-end ones; framing and connection are put behind them. is_followed: something
        of the body is written at once, so that both go out together."""
        forbidden = _FORBIDDEN.get(status, frozenset())
        passed = [(name, value) for name, value in fields if name.lower() not in forbidden]
        is_bodyless = self._is_bodyless_method or status in BODYLESS
        self.has_length = is_bodyless or any(name.lower() == "content-length" for name, _ in passed)
        self.is_chunked = not self.has_length and self._version >= _HTTP_1_1
        if self.is_chunked:
            passed.append(("Transfer-Encoding", "chunked"))
        elif not self.has_length:
            self.may_go_on = False  # nothing but its own end can end this body
        if not self.may_go_on:
            passed.append(("Connection", "close"))
        elif self._version < _HTTP_1_1:
            passed.append(("Connection", "keep-alive"))
        self._begin(head_bytes(self._version, status, reason, passed), is_followed=is_followed)

    def switch(self, reason: str, fields: Fields) -> None:
        """Write the head of a 101: what follows it is no HTTP."""
        self.has_length = self.may_go_on = False
        self._begin(head_bytes(self._version, 101, reason, fields))

    def write(self, data: bytes, framed: bytes | None = None) -> bool:
        """Hand on a piece of the body, which is not empty; whether our kernel has all of the answer by now. framed: the
        piece in whole chunks, which pass as they are where the reader gets chunks."""
        transport = self._transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the reader left")
        if self.is_chunked:
            data = encode_chunk(data) if framed is None else framed
        self.output_size += len(data)
        if self._head:
            data, self._head = self._head + data, b""
        transport.write(data)
        if transport.is_closing():  # lost, it keeps nothing either
            raise ConnectionResetError("the reader left before it had everything")
        return not transport.get_write_buffer_size()

    def end(self, trailers: Fields = ()) -> None:
        """End the body in order. Trailers pass where the framing has a place for them."""
        self.is_ended = True
        if self.is_chunked:
            self._count(last_chunk(trailers))

    async def drain(self) -> None:
        """Until our kernel has everything. Raises ConnectionResetError when the reader is gone."""
        await self._writer.drain()

    def handed(self) -> Handed:
        """What aiohttp gets in the end; only an answer that ended in order lets the connection go on."""
        return _GOES_ON if self.may_go_on and self.is_ended else _IS_LAST

    def _begin(self, head: bytes, *, is_followed: bool = False) -> None:
        if is_followed:
            self._check_open()
            self._head = head
            self.output_size += len(head)
        else:
            self._count(head)
        self.is_started = True

    def _count(self, data: bytes) -> None:
        self._give(data)
        self.output_size += len(data)

    def _give(self, data: bytes) -> None:
        transport = self._check_open()
        head, self._head = self._head, b""
        transport.write(head + data)

    def _check_open(self) -> asyncio.Transport:
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the reader left")
        return self._transport


def head_bytes(version: tuple[int, int], status: int, reason: str, fields: Fields) -> bytes:
    """A response head on the wire, in the version of the request. Raises ValueError for what would be two lines."""
    lines = [f"HTTP/{version[0]}.{version[1]} {status} {reason}", *(f"{name}: {value}" for name, value in fields)]
    text = "\r\n".join([*lines, "", ""])
    if text.count("\r") != len(lines) + 1 or text.count("\n") != len(lines) + 1 or "\0" in text:
        raise ValueError("a field of the head holds CR, LF or NUL")
    return text.encode("utf-8", "surrogateescape")
