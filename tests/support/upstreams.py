"""Raw servers under a test's own hands: what is done with a connection is a coroutine, written in the test.

async def serve(peer):
    request = await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n")

async with served(serve) as server, asking(server.url) as upstream:
    answer = await ask(upstream)
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sidecar.http1.head import ResponseHead
from sidecar.upstream import Answer, BrokenOff, Upstream, origin_of
from tests.support.certificates import make_pair

OK_EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\n\r\n"
POST_40_MB = [("Host", "h"), ("Content-Length", str(40 << 20))]
PAUSE_S = 0.03
"""Long enough that what was sent before is read before what is sent after."""


@dataclass
class Request:
    """One request as it came in."""

    head: bytes
    body: bytes = b""

    @property
    def line(self) -> str:
        return self.head.partition(b"\r\n")[0].decode("latin-1")


@dataclass
class Peer:
    """One connection as its server sees it. number: of the connection, from 0."""

    number: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def head(self) -> bytes:
        return await self.reader.readuntil(b"\r\n\r\n")

    async def request(self) -> Request:
        head = await self.head()
        length = re.search(rb"(?im)^content-length: *(\d+)", head)
        if length:
            return Request(head, await self.reader.readexactly(int(length[1])))
        if re.search(rb"(?im)^transfer-encoding: *chunked", head):
            return Request(head, await self._chunks())
        return Request(head)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def gone(self) -> None:
        """Wait until the other side has closed."""
        with suppress(ConnectionError):
            while await self.reader.read(65_536):
                pass

    def close(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        linger = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()

    async def _chunks(self) -> bytes:
        body = b""
        while True:
            size = int((await self.reader.readline()).split(b";")[0], 16)
            data = await self.reader.readexactly(size + 2)
            if not size:
                return body
            body += data[:-2]


@dataclass
class Server:
    """A running server. errors: what its coroutine raised, unless the connection's end explains it."""

    url: str
    port: int = 0
    peers: list[Peer] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)


@asynccontextmanager
async def served(
    serve: Callable[[Peer], Awaitable[None]],
    *,
    host: str = "127.0.0.1",
    unix: Path | None = None,
    context: ssl.SSLContext | None = None,
    limit_bytes: int = 65_536,
) -> AsyncIterator[Server]:
    """A server whose every connection is served by that coroutine, and closed after it."""
    running: set[asyncio.Task[None]] = set()

    async def each(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        peer = Peer(len(server.peers), reader, writer)
        server.peers.append(peer)
        try:
            await serve(peer)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError, ssl.SSLError):
            pass
        except Exception as error:
            server.errors.append(error)
        finally:
            running.discard(task)
            writer.close()

    if unix is not None:
        listening = await asyncio.start_unix_server(each, unix, limit=limit_bytes)
        server = Server(f"unix:{unix}")
    else:
        listening = await asyncio.start_server(each, host, 0, ssl=context, limit=limit_bytes)
        port = listening.sockets[0].getsockname()[1]
        name = f"[{host}]" if ":" in host else "localhost" if context else host
        server = Server(f"{'https' if context else 'http'}://{name}:{port}", port)
    try:
        yield server
    finally:
        listening.close()
        for task in list(running):
            task.cancel()
        if running:
            await asyncio.wait(list(running))
        await asyncio.sleep(0.01)  # until their connections have closed
    assert server.errors == []


def answering(*steps: bytes, then: str = "close") -> Callable[[Peer], Awaitable[None]]:
    """Serve one request: these parts, some time apart, and then the end: `close`, `reset`, or `open` for none."""

    async def serve(peer: Peer) -> None:
        await peer.request()
        for number, data in enumerate(steps):
            await asyncio.sleep(PAUSE_S if number else 0)
            await peer.send(data)
        await asyncio.sleep(PAUSE_S)
        if then == "reset":
            peer.reset()
        elif then == "open":
            await peer.gone()

    return serve


@asynccontextmanager
async def asking(
    url: str, *, context: ssl.SSLContext | None = None, connect_timeout_s: float = 2.0
) -> AsyncIterator[Upstream]:
    upstream = Upstream(origin_of(url), clock=time.monotonic_ns, ssl=context, connect_timeout_s=connect_timeout_s)
    try:
        yield upstream
    finally:
        await upstream.close()
        await asyncio.sleep(0.01)
        assert upstream.open_count == 0


def _nothing(*_: object) -> None:
    pass


async def ask(
    upstream: Upstream,
    method: str = "GET",
    target: str = "/x",
    fields: list[tuple[str, str]] | None = None,
    *,
    body: AsyncIterator[bytes] | None = None,
    head_sent: Callable[[], None] = _nothing,
    on_interim: Callable[[ResponseHead], None] = _nothing,
    wants_upgrade: bool = False,
) -> Answer:
    """One request, in so many words as the test cares for."""
    return await upstream.ask(
        method,
        target,
        fields or [("Host", "h")],
        body=body,
        head_sent=head_sent,
        on_interim=on_interim,
        wants_upgrade=wants_upgrade,
    )


async def whole(answer: Answer) -> bytes:
    """The body of an answer to its clean end."""
    pieces = []
    while (piece := await answer.read()) is not None:
        pieces.append(piece.data)
    return b"".join(pieces)


async def broken(answer: Answer) -> tuple[bytes, BrokenOff]:
    """The body of an answer that breaks off, and how."""
    pieces = []
    try:
        while (piece := await answer.read()) is not None:
            pieces.append(piece.data)
    except BrokenOff as error:
        return b"".join(pieces), error
    raise AssertionError("the answer ended cleanly")


async def pieces_of(*pieces: bytes, pause_s: float = 0.0) -> AsyncIterator[bytes]:
    """A body that comes in these pieces."""
    for piece in pieces:
        if pause_s:
            await asyncio.sleep(pause_s)
        yield piece


async def zeros(count: int, *, produced: list[int] | None = None) -> AsyncIterator[bytes]:
    """So many blocks of 16 KiB; how many bytes have been asked for is added up in `produced`."""
    for _ in range(count):
        if produced is not None:
            produced[0] += 16_384
        yield bytes(16_384)


def contexts(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's context with a new certificate for localhost, and a context that trusts it."""
    pair = make_pair(folder, "localhost")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pair.cert, pair.key)
    return server, ssl.create_default_context(cafile=str(pair.cert))
