"""A raw model worker and a raw reader: what the one sends and the other gets is bytes, and nothing in between helps.

async with worker({"/v1/x": answer}) as up:      # async def answer(asked): await asked.head(); await asked.chunk(b"a")
    async with asking(up.port, get("/v1/x")) as reader:
        assert await reader.rest() == b"a"
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress

LIMIT_BYTES = 1 << 20
READ_BYTES = 1 << 16

Answering = Callable[["Asked"], Awaitable[None]]


class Asked:
    """One request as the worker got it, and the means to answer it."""

    def __init__(self, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> None:
        self.raw_head = head
        self.body = body
        self.writer = writer
        self.gone = asyncio.Event()
        self.gone_s: float | None = None
        self.sent_bytes = 0
        self.method, self.target, _ = head.split(b" ", 2)

    def fields(self, name: str) -> list[bytes]:
        return fields_of(self.raw_head, name)

    async def raw(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()
        self.sent_bytes += len(data)

    async def head(self, *fields: str, status: str = "200 OK", content_type: str = "text/event-stream") -> None:
        """A response head; the body is chunked unless the fields have a Content-Length."""
        lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", *fields]
        if not any(line.lower().startswith("content-length:") for line in lines):
            lines.append("Transfer-Encoding: chunked")
        await self.raw("\r\n".join([*lines, "", ""]).encode())

    async def chunk(self, data: bytes) -> None:
        await self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    async def end(self) -> None:
        await self.raw(b"0\r\n\r\n")

    async def cut(self) -> None:
        """Break off: close the connection within the body."""
        self.writer.close()

    async def hold(self) -> None:
        """Send nothing until the other side closes."""
        await self.gone.wait()


class Worker:
    """The worker while it runs: its address, and what it was asked."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.asked: list[Asked] = []

    def of(self, request_id: str | bytes) -> Asked:
        """The one request that came with this id."""
        raw = request_id if isinstance(request_id, bytes) else request_id.encode()
        (found,) = [asked for asked in self.asked if asked.fields("x-request-id") == [raw]]
        return found


@asynccontextmanager
async def worker(answers: Mapping[str, Answering]) -> AsyncIterator[Worker]:
    """A server on a free port. answers: how each path, without its query, is answered."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):  # cancelled at the end
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                asked = Asked(head, await _body(head, reader), writer)
                running.asked.append(asked)
                async with asyncio.TaskGroup() as group:
                    watching = group.create_task(_watch(reader, asked))
                    with suppress(ConnectionError):
                        await answers[asked.target.decode().partition("?")[0]](asked)
                    watching.cancel()
        writer.close()
        tasks.discard(asyncio.current_task())

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=LIMIT_BYTES, backlog=256)
    running = Worker(server.sockets[0].getsockname()[1])
    try:
        yield running
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _watch(reader: asyncio.StreamReader, asked: Asked) -> None:
    """Note when the other side closes."""
    with suppress(ConnectionError):
        await reader.read(1)
    asked.gone_s = asyncio.get_running_loop().time()
    asked.gone.set()


async def _body(head: bytes, reader: asyncio.StreamReader) -> bytes:
    if length := fields_of(head, "content-length"):
        return await reader.readexactly(int(length[0]))
    if not fields_of(head, "transfer-encoding"):
        return b""
    body = bytearray()
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)
    return bytes(body)


def fields_of(head: bytes, name: str) -> list[bytes]:
    return re.findall(rb"(?im)^%b: *(.*?) *\r?$" % re.escape(name.encode()), head)


class Reader:
    """A client that sees what comes as soon as it is there."""

    def __init__(self, stream: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._stream = stream
        self.writer = writer
        self.raw_head = b""
        self.body = bytearray()
        self.is_whole: bool | None = None
        self._left_bytes: int | None = None
        self._is_chunked = False

    @property
    def status(self) -> int:
        return int(self.raw_head.split()[1])

    def fields(self, name: str) -> list[bytes]:
        return fields_of(self.raw_head, name)

    async def head(self) -> bytes:
        """The head of the response, once it is there."""
        self.raw_head = await self._stream.readuntil(b"\r\n\r\n")
        length = self.fields("content-length")
        self._is_chunked = bool(self.fields("transfer-encoding"))
        self._left_bytes = 0 if self._is_chunked else int(length[0]) if length else None
        return self.raw_head

    async def at_least(self, count: int) -> bytes:
        """The body so far, once it has this many bytes or has ended."""
        if not self.raw_head:
            await self.head()
        while len(self.body) < count and self.is_whole is None:
            await self._read()
        return bytes(self.body)

    async def rest(self) -> bytes:
        """The body when there is no more of it; `is_whole` says whether its framing had an end."""
        return await self.at_least(1 << 62)

    async def _read(self) -> None:
        try:
            if self._is_chunked and self._left_bytes == 0:
                self._left_bytes = int((await self._stream.readuntil(b"\r\n")).split(b";")[0], 16)
                if self._left_bytes == 0:
                    self.is_whole = await self._stream.readexactly(2) == b"\r\n"
                    return
            wanted = READ_BYTES if self._left_bytes is None else min(READ_BYTES, self._left_bytes)
            data = await self._stream.read(wanted) if wanted else b""
            self.body += data
            if self._left_bytes is not None and data:
                self._left_bytes -= len(data)
                if self._left_bytes == 0 and self._is_chunked:
                    await self._stream.readexactly(2)
            if (self._left_bytes == 0 and not self._is_chunked) or not data:
                self.is_whole = self._left_bytes == 0
        except (asyncio.IncompleteReadError, ConnectionError):
            self.is_whole = False

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


@asynccontextmanager
async def asking(port: int, request: bytes) -> AsyncIterator[Reader]:
    """Send a request; the connection is closed with the block."""
    stream, writer = await asyncio.open_connection("127.0.0.1", port, limit=LIMIT_BYTES)
    reader = Reader(stream, writer)
    try:
        writer.write(request)
        yield reader
    finally:
        await reader.close()


@asynccontextmanager
async def tapped(port: int) -> AsyncIterator[tuple[int, bytearray]]:
    """A port that leads to that one: (port, every byte that was sent to it so far)."""
    sent, tasks = bytearray(), set[asyncio.Task[None]]()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, copy: bytearray | None) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(READ_BYTES):
                if copy is not None:
                    copy += data
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        with suppress(ConnectionError, asyncio.CancelledError):
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(carry(reader, there_writer, sent))
                    group.create_task(carry(there_reader, writer, None))
            finally:
                there_writer.close()
        writer.close()
        tasks.discard(asyncio.current_task())

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], sent
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Stuck:
    """A client that asks and then never reads a byte."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    @classmethod
    async def ask(cls, port: int, request: bytes) -> Stuck:
        connection = socket.socket()
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(connection, ("127.0.0.1", port))
        await loop.sock_sendall(connection, request)
        return cls(connection)

    def leave(self, *, by_reset: bool = False) -> None:
        if by_reset:
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._connection.close()


def request(method: str, target: str, *fields: str | bytes, body: bytes | None = None) -> bytes:
    """A request; the body is sent with its length."""
    lines = [f"{method} {target} HTTP/1.1", "Host: model.example", *fields]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    encoded = [line if isinstance(line, bytes) else line.encode() for line in lines]
    return b"\r\n".join([*encoded, b"", b""]) + (body or b"")


def get(target: str, *fields: str | bytes) -> bytes:
    return request("GET", target, *fields)


def post(target: str, *fields: str | bytes, body: bytes = b"{}") -> bytes:
    return request("POST", target, *fields, body=body)
