"""Peers that help nobody: an upstream that knows which connection a request came on, a client that reads strictly.

    async def answer(asked): await asked.send(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok")

    async with raw_upstream(answer) as up, raw_client(port) as client:
        client.send(b"GET / HTTP/1.1\\r\\nHost: h\\r\\n\\r\\n")
        got = await client.answer()
        assert (got.status, got.body, got.end) == (200, b"ok", WHOLE)

Both sides are protocols, not streams: what came before a reset is seen, a peer that leaves is noticed at once, and
how it left is known.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import socket
import struct
import termios
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

WHOLE, CLOSED, CUT, RESET, SILENT, MALFORMED = "whole", "closed", "cut", "reset", "silent", "malformed"
"""How an answer ended: by its framing; by the close that alone can end it; by a close or a reset before that; not at
all in the time given; or in bytes that are no HTTP."""

HEAD_BYTES = 1 << 20
WAIT_S = 8.0
"""Longest that a client waits for something that should be there at once."""

_LENGTH = re.compile(rb"(?im)^content-length: *(\d+) *\r?$")
_CHUNKED = re.compile(rb"(?im)^transfer-encoding: *chunked *\r?$")
_CHUNK_LINE = re.compile(rb"([0-9a-fA-F]{1,16})(;[^\r\n]*)?")


class _EndError(ConnectionError):
    """There is no more to read; `how` is one of the ends."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


class Wire(asyncio.Protocol):
    """One connection: what came and was not read, how it ended, and writing that waits for the peer."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.buffer = bytearray()
        self.left_by: str | None = None
        self.gone = asyncio.Event()
        self.received_bytes = 0
        self._changed = asyncio.Event()
        self._may_write = asyncio.Event()
        self._may_write.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self.received_bytes += len(data)
        self.buffer += data
        self._changed.set()

    def eof_received(self) -> bool:
        self._leave("fin")
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._leave("fin" if error is None else "reset")
        self._may_write.set()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    @property
    def socket(self) -> socket.socket:
        return self.transport.get_extra_info("socket")

    @property
    def is_open(self) -> bool:
        return not self.transport.is_closing()

    @property
    def has_unread(self) -> bool:
        """Bytes have come that nobody has looked at, here or in our kernel."""
        waiting = fcntl.ioctl(self.socket.fileno(), termios.FIONREAD, bytes(4))
        return bool(self.buffer) or waiting != bytes(4)

    async def drain(self) -> None:
        await self._may_write.wait()
        if not self.is_open:
            raise ConnectionResetError("the peer is gone")

    def reset(self) -> None:
        """Close with a reset."""
        if self.is_open:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()

    async def more(self) -> None:
        """Until there is more in the buffer. Raises _EndError when nothing more can come."""
        if self.left_by is not None:
            raise _EndError(CUT if self.left_by == "fin" else RESET)
        self._changed.clear()
        await self._changed.wait()

    def _leave(self, how: str) -> None:
        self.left_by = self.left_by or how
        self.gone.set()
        self._changed.set()


# ------------------------------------------------------------------------------------------------- the upstream


@dataclass(eq=False)
class Asked:
    """One request as it reached the upstream, and the means to answer it."""

    wire: Wire
    connection: int
    """Which connection it came on, counted from 0 in the order in which they were made."""
    head: bytes
    body: bytearray = field(default_factory=bytearray)
    is_whole: bool = False
    whole: asyncio.Event = field(default_factory=asyncio.Event)
    at_s: float = 0.0
    sent_bytes: int = 0

    @property
    def method(self) -> bytes:
        return self.head.split(b" ", 1)[0]

    @property
    def target(self) -> str:
        return self.head.split(b" ", 2)[1].decode("latin-1")

    def field(self, name: str) -> list[bytes]:
        return re.findall(rb"(?im)^%b: *(.*?) *\r?$" % re.escape(name.encode()), self.head)

    async def send(self, data: bytes) -> None:
        if not self.wire.is_open:
            raise ConnectionResetError("the peer is gone")
        self.wire.transport.write(data)
        self.sent_bytes += len(data)
        await self.wire.drain()

    async def chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    def close(self) -> None:
        # Event loops close a little later than they say: a request that comes in that moment would be reset.
        if self.wire.is_open and not self.wire.transport.get_write_buffer_size():
            copy = socket.socket(fileno=os.dup(self.wire.socket.fileno()))  # uvloop's own refuses shutdown()
            with copy, suppress(OSError):  # the peer has gone by itself
                copy.shutdown(socket.SHUT_RDWR)
        self.wire.transport.close()

    def reset(self) -> None:
        self.wire.reset()


Answering = Callable[[Asked], Awaitable[None]]


class _Upstream(Wire):
    """The upstream's side of one connection: requests one after the other."""

    def __init__(self, owner: RawUpstream) -> None:
        super().__init__()
        self._owner = owner
        self._number = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._number = self._owner.connection_count
        self._owner.connection_count += 1
        self._owner.wires.add(self)
        self._owner.start(self._serve())

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._owner.wires.discard(self)

    async def _serve(self) -> None:
        with suppress(_EndError, ConnectionError):
            while True:
                head = await self._until(b"\r\n\r\n")
                asked = Asked(self, self._number, head, at_s=asyncio.get_running_loop().time())
                self._owner.asked.append(asked)
                async with asyncio.TaskGroup() as group:
                    reading = group.create_task(self._body(asked))
                    if not self._owner.answers_at_head:
                        await reading
                    with suppress(ConnectionError):
                        await self._owner.answer(asked)
                    if not self.is_open:
                        reading.cancel()
                if not self.is_open or not asked.is_whole:
                    return
        self.transport.close()

    async def _body(self, asked: Asked) -> None:
        with suppress(_EndError, ConnectionError):
            if (length := _LENGTH.search(asked.head)) is not None:
                await self._into(asked.body, int(length[1]))
            elif _CHUNKED.search(asked.head):
                while size := int((await self._until(b"\r\n")).split(b";")[0], 16):
                    await self._into(asked.body, size)
                    await self._into(bytearray(), 2)
                while await self._until(b"\r\n") != b"\r\n":
                    pass
            asked.is_whole = True
            asked.whole.set()

    async def _until(self, mark: bytes) -> bytes:
        while (at := self.buffer.find(mark)) < 0:
            await self.more()
        found = bytes(self.buffer[: at + len(mark)])
        del self.buffer[: at + len(mark)]
        return found

    async def _into(self, body: bytearray, size: int) -> None:
        while size:
            if not self.buffer:
                await self.more()
            taken = min(size, len(self.buffer))
            body += self.buffer[:taken]
            del self.buffer[:taken]
            size -= taken


class RawUpstream:
    """The upstream while it runs: its address, what it was asked, and the connections that it has."""

    def __init__(self, answer: Answering, *, answers_at_head: bool) -> None:
        self.answer = answer
        self.answers_at_head = answers_at_head
        self.asked: list[Asked] = []
        self.wires: set[Wire] = set()
        """Those that are there now."""
        self.connection_count = 0
        self.port = 0
        self.errors: list[BaseException] = []
        """What went wrong in `answer` itself: a test's own mistake, raised when the upstream ends."""
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def open_count(self) -> int:
        return sum(wire.is_open for wire in self.wires)

    @property
    def whole_count(self) -> int:
        return sum(asked.is_whole for asked in self.asked)

    def start(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.errors.append(error)

    async def close(self) -> None:
        for wire in tuple(self.wires):
            wire.transport.abort()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def raw_upstream(
    answer: Answering, *, port: int = 0, answers_at_head: bool = False
) -> AsyncIterator[RawUpstream]:
    """A server on 127.0.0.1. answer: what it does with each request once the whole of it, or its head, is there."""
    upstream = RawUpstream(answer, answers_at_head=answers_at_head)
    server = await asyncio.get_running_loop().create_server(
        lambda: _Upstream(upstream), "127.0.0.1", port, backlog=1_024
    )
    upstream.port = server.sockets[0].getsockname()[1]
    try:
        yield upstream
    finally:
        server.close()
        await upstream.close()
        if upstream.errors:
            raise upstream.errors[0]


def simple(status: str = "200 OK", body: bytes = b"ok", *fields: str) -> bytes:
    """A whole answer with its length."""
    lines = [f"HTTP/1.1 {status}", *fields, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def streaming(*fields: str, content_type: str = "text/event-stream", status: str = "200 OK") -> bytes:
    """The head of a chunked answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", "Transfer-Encoding: chunked", *fields, "", ""]
    return "\r\n".join(lines).encode("latin-1")


def chunked(*pieces: bytes, trailers: bytes = b"") -> bytes:
    """A whole chunked body."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n" + trailers + b"\r\n"


# --------------------------------------------------------------------------------------------------- the client


@dataclass
class Got:
    """One answer as a client read it. raw: every byte of it, also those that are no HTTP."""

    status: int | None = None
    reason: bytes = b""
    version: bytes = b""
    fields: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)
    interims: list[tuple[int, list[tuple[bytes, bytes]]]] = field(default_factory=list)
    trailers: list[tuple[bytes, bytes]] = field(default_factory=list)
    end: str = SILENT
    chunks: list[int] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """A reader who trusts HTTP takes it for whole."""
        return self.end in {WHOLE, CLOSED}

    def values(self, name: str) -> list[bytes]:
        wanted = name.lower().encode()
        return [value for found, value in self.fields if found.lower() == wanted]


class RawClient(Wire):
    """A client on one connection. Its answers are read one after the other."""

    def send(self, data: bytes) -> None:
        self.transport.write(data)

    async def answer(self, method: bytes = b"GET", *, within_s: float = WAIT_S) -> Got:
        """The next answer, as far as it comes within that time."""
        got = Got()
        try:
            async with asyncio.timeout(within_s):
                await self._head(got)
                await self._rest(got, method)
                got.end = WHOLE
        except TimeoutError:
            got.end = SILENT
        except _EndError as end:
            got.end = end.how
        return got

    async def head(self, *, within_s: float = WAIT_S) -> Got:
        """The head of the next answer; `body_of` reads on."""
        got = Got()
        async with asyncio.timeout(within_s):
            await self._head(got)
        return got

    async def at_least(self, got: Got, size: int, *, within_s: float = WAIT_S) -> bytes:
        """The body so far, once it has this size; chunked bodies only."""
        async with asyncio.timeout(within_s):
            while len(got.body) < size:
                await self._chunk(got)
        return bytes(got.body)

    async def rest(self, got: Got, method: bytes = b"GET", *, within_s: float = WAIT_S) -> Got:
        """The rest of an answer whose head was read."""
        try:
            async with asyncio.timeout(within_s):
                await self._rest(got, method)
                got.end = WHOLE
        except TimeoutError:
            got.end = SILENT
        except _EndError as end:
            got.end = end.how
        return got

    async def closed(self, *, within_s: float = WAIT_S) -> str:
        """How the other side left; SILENT when it did not within that time."""
        try:
            async with asyncio.timeout(within_s):
                await self.gone.wait()
        except TimeoutError:
            return SILENT
        return self.left_by or SILENT

    def half_close(self) -> None:
        self.transport.write_eof()

    def leave(self, *, by_reset: bool = False) -> None:
        if by_reset:
            self.reset()
        else:
            self.transport.close()

    # Reading.

    async def _head(self, got: Got) -> None:
        while True:
            block = await self._until(b"\r\n\r\n")
            first, *lines = block[:-4].split(b"\r\n")
            found = re.fullmatch(rb"(HTTP/1\.[01]) ([1-9]\d\d)(?: ([^\r\n]*))?", first)
            if found is None:
                raise _EndError(MALFORMED)
            fields = self._fields(lines)
            if not 100 <= int(found[2]) < 200 or int(found[2]) == 101:
                got.version, got.status, got.reason, got.fields = found[1], int(found[2]), found[3] or b"", fields
                return
            got.interims.append((int(found[2]), fields))

    async def _rest(self, got: Got, method: bytes) -> None:
        if method == b"HEAD" or got.status in {101, 204, 304}:
            return
        if got.values("transfer-encoding"):
            if got.values("transfer-encoding") != [b"chunked"] or got.values("content-length"):
                raise _EndError(MALFORMED)
            while await self._chunk(got):
                pass
            return
        lengths = got.values("content-length")
        if lengths:
            await self._into(got.body, int(lengths[0]) - len(got.body))
            return
        try:
            while True:
                got.body += self.buffer
                self.buffer.clear()
                await self.more()
        except _EndError as end:
            raise _EndError(CLOSED if end.how == CUT else end.how) from None

    async def _chunk(self, got: Got) -> bool:
        line = _CHUNK_LINE.fullmatch((await self._until(b"\r\n"))[:-2])
        if line is None:
            raise _EndError(MALFORMED)
        size = int(line[1], 16)
        got.chunks.append(size)
        if size == 0:
            lines = []
            while (trailer := await self._until(b"\r\n")) != b"\r\n":
                lines.append(trailer[:-2])
            got.trailers = self._fields(lines)
            return False
        await self._into(got.body, size)
        end = bytearray()
        await self._into(end, 2)
        if end != b"\r\n":
            raise _EndError(MALFORMED)
        return True

    @staticmethod
    def _fields(lines: list[bytes]) -> list[tuple[bytes, bytes]]:
        fields = []
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon or not re.fullmatch(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
                raise _EndError(MALFORMED)
            fields.append((name, value.strip(b" \t")))
        return fields

    async def _until(self, mark: bytes) -> bytes:
        while (at := self.buffer.find(mark)) < 0:
            if len(self.buffer) > HEAD_BYTES:
                raise _EndError(MALFORMED)
            await self.more()
        found = bytes(self.buffer[: at + len(mark)])
        del self.buffer[: at + len(mark)]
        return found

    async def _into(self, body: bytearray, size: int) -> None:
        while size > 0:
            if not self.buffer:
                await self.more()
            taken = min(size, len(self.buffer))
            body += self.buffer[:taken]
            del self.buffer[:taken]
            size -= taken


@asynccontextmanager
async def raw_client(port: int, data: bytes = b"", *, receive_bytes: int | None = None) -> AsyncIterator[RawClient]:
    """A connection; it is closed with the block. receive_bytes: how much its kernel takes in advance."""
    loop = asyncio.get_running_loop()
    connection = socket.socket()
    connection.setblocking(False)
    if receive_bytes is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    try:
        await loop.sock_connect(connection, ("127.0.0.1", port))
    except BaseException:
        connection.close()
        raise
    _, client = await loop.create_connection(RawClient, sock=connection)
    try:
        if data:
            client.send(data)
        yield client
    finally:
        client.transport.abort()
        await asyncio.sleep(0)


async def asked_once(port: int, data: bytes, *, within_s: float = WAIT_S) -> Got:
    """One request on a connection of its own."""
    async with raw_client(port, data) as client:
        return await client.answer(data.split(b" ", 1)[0], within_s=within_s)
