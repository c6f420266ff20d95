"""Scripted upstreams and raw clients: what a fake upstream does is a list, and what a client got is bytes.

async with upstream(head(200, "text/event-stream"), send(b"data: a\\n\\n"), cut()) as up, sidecar(up.url) as proxy:
    reply = await ask(proxy.port, get("/v1/x"))
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from otel.hop import Hop, State
from otel.span import Span, span_to_hop
from sidecar.__main__ import Sidecar, build
from sidecar.clock import Clock, SystemClock
from sidecar.config import config_of
from sidecar.export.backlog import Backlog, Counters
from tests.support.tiers import variables

Step = Callable[["Exchange"], Awaitable[None]]


@dataclass
class Exchange:
    """One request as the fake upstream sees it."""

    head: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    body: bytes = b""
    is_whole: bool = False

    def field(self, name: str) -> list[str]:
        return [value.decode("latin-1") for value in re.findall(rb"(?im)^%s: *(.*?)\r?$" % name.encode(), self.head)]


@dataclass
class FakeUpstream:
    url: str
    exchanges: list[Exchange] = field(default_factory=list)
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Some connection of a request was closed by the other side."""


def head(
    status: int, content_type: str | None = None, *fields: str, chunked: bool = True, version: str = "1.1"
) -> Step:
    lines = [f"HTTP/{version} {status} Reason", *fields]
    lines += [f"Content-Type: {content_type}"] if content_type else []
    lines += ["Transfer-Encoding: chunked"] if chunked else []
    return send("\r\n".join([*lines, "", ""]).encode("latin-1"))


def send(data: bytes) -> Step:
    async def step(exchange: Exchange) -> None:
        exchange.writer.write(data)
        await exchange.writer.drain()

    return step


def chunk(data: bytes) -> Step:
    return send(b"%x\r\n%s\r\n" % (len(data), data))


def last_chunk() -> Step:
    return send(b"0\r\n\r\n")


def wait(seconds: float) -> Step:
    return lambda _exchange: asyncio.sleep(seconds)


def wait_for(event: asyncio.Event) -> Step:
    async def step(_exchange: Exchange) -> None:
        await event.wait()

    return step


def flood(data: bytes) -> Step:
    """Send the same again and again, until nobody takes it any more."""

    async def step(exchange: Exchange) -> None:
        while True:
            await send(data)(exchange)

    return step


def hang() -> Step:
    """Do nothing until the other side closes."""

    async def step(exchange: Exchange) -> None:
        while await exchange.reader.read(65_536):
            pass

    return step


def cut() -> Step:
    async def step(exchange: Exchange) -> None:
        exchange.writer.close()

    return step


def reset(after: float = 0.05) -> Step:
    async def step(exchange: Exchange) -> None:
        await asyncio.sleep(after)  # what was sent before must be read first: a reset overtakes it
        linger = struct.pack("ii", 1, 0)
        exchange.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        exchange.writer.transport.abort()

    return step


@asynccontextmanager
async def upstream(*steps: Step, reads_body: bool = True) -> AsyncIterator[FakeUpstream]:
    """A server on a free port that does the same steps for every request."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                exchange = Exchange(await reader.readuntil(b"\r\n\r\n"), reader, writer)
                fake.exchanges.append(exchange)
                if reads_body:
                    exchange.body = await _body(exchange.head, reader)
                    exchange.is_whole = True
                for step in steps:
                    await step(exchange)
                if writer.is_closing():
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            fake.closed.set()
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20)
    fake = FakeUpstream(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    tasks_before = asyncio.all_tasks()
    try:
        yield fake
    finally:
        server.close()
        for task in asyncio.all_tasks() - tasks_before - {asyncio.current_task()}:
            if task.get_coro().__qualname__ == serve.__qualname__:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


async def _body(head_bytes: bytes, reader: asyncio.StreamReader) -> bytes:
    length = re.search(rb"(?im)^content-length: *(\d+)", head_bytes)
    if length:
        return await reader.readexactly(int(length[1]))
    if not re.search(rb"(?im)^transfer-encoding: *chunked", head_bytes):
        return b""
    body = b""
    while True:
        size = int((await reader.readline()).split(b";")[0], 16)
        data = await reader.readexactly(size + 2)
        if not size:
            return body
        body += data[:-2]


@dataclass
class Shelf:
    """An exporter that keeps what it gets."""

    spans: list[Span] = field(default_factory=list)

    def offer(self, span: Span) -> bool:
        self.spans.append(span)
        return True

    @property
    def counters(self) -> Counters:
        return Backlog(limit_bytes=1).counters(0)


@dataclass
class Proxy:
    """A running sidecar."""

    sidecar: Sidecar
    shelf: Shelf

    @property
    def port(self) -> int:
        return self.sidecar.listener.port

    async def hops(self, count: int = 1, *, state: State = State.FINAL) -> list[Hop]:
        """The first records of that state; waits until there are so many."""
        async with asyncio.timeout(8):
            while len(hops := [hop for hop in map(span_to_hop, self.shelf.spans) if hop.state is state]) < count:
                await asyncio.sleep(0.005)
        return hops

    async def hop(self) -> Hop:
        return (await self.hops())[0]


@asynccontextmanager
async def sidecar(url: str, *, clock: Clock | None = None, **options: str) -> AsyncIterator[Proxy]:
    """A whole sidecar in this event loop, on a free port, its records on a shelf."""
    flags = {"listen": "127.0.0.1:0", "hop": "here", "upstream": url, "admin": "off", **options}
    shelf = Shelf()
    parts = build(config_of(flags, variables()), clock=clock or SystemClock(), exporter=shelf)  # type: ignore[arg-type]
    await parts.start()
    async with asyncio.TaskGroup() as group:
        running = [parts.canary.run(), parts.exchanges.run(), parts.records.run()]
        running += [] if parts.engine is None else [parts.engine.run()]
        tasks = [group.create_task(each) for each in running]
        try:
            yield Proxy(parts, shelf)
        finally:
            parts.exchanges.close_lingering()
            await parts.close()
            for task in tasks:
                task.cancel()


@dataclass(frozen=True)
class Reply:
    """What a raw client got. is_clean: the framing says that it is whole; None when only the close ended it."""

    raw: bytes
    status: int | None
    head: bytes
    body: bytes
    is_clean: bool | None
    is_reset: bool = False

    def field(self, name: str) -> list[str]:
        return [value.decode("latin-1") for value in re.findall(rb"(?im)^%s: *(.*?)\r?$" % name.encode(), self.head)]


def request(method: str, target: str, *fields: str, body: bytes = b"", version: str = "1.1") -> bytes:
    return "\r\n".join([f"{method} {target} HTTP/{version}", "Host: h", *fields, "", ""]).encode("latin-1") + body


def get(target: str = "/x", *fields: str) -> bytes:
    return request("GET", target, *fields)


def post(target: str, body: bytes, *fields: str) -> bytes:
    return request("POST", target, f"Content-Length: {len(body)}", *fields, body=body)


async def ask(port: int, data: bytes, *, timeout_s: float = 8.0) -> Reply:
    """Send a request, and read until the answer is whole or the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    raw, is_reset, method = b"", False, data.partition(b" ")[0]
    try:
        writer.write(data)
        async with asyncio.timeout(timeout_s):
            while not parsed(raw, method).is_clean:
                more = await reader.read(65_536)
                if not more:
                    break
                raw += more
    except ConnectionError:
        is_reset = True
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
    reply = parsed(raw, method)
    return Reply(raw, reply.status, reply.head, reply.body, reply.is_clean, is_reset)


def parsed(raw: bytes, method: bytes = b"GET") -> Reply:
    head_bytes, found, rest = raw.partition(b"\r\n\r\n")
    if not found:
        return Reply(raw, None, head_bytes, b"", is_clean=False)
    status = int(head_bytes.split()[1])
    lower = head_bytes.lower()
    if 100 <= status < 200:
        return parsed(rest, method)
    if status in {204, 304} or method == b"HEAD":
        return Reply(raw, status, head_bytes, rest, is_clean=not rest)
    if b"transfer-encoding: chunked" in lower:
        body, is_clean = _unchunked(rest)
        return Reply(raw, status, head_bytes, body, is_clean=is_clean)
    length = re.search(rb"content-length: *(\d+)", lower)
    if length:
        return Reply(raw, status, head_bytes, rest, is_clean=len(rest) >= int(length[1]))
    return Reply(raw, status, head_bytes, rest, is_clean=None)


def _unchunked(rest: bytes) -> tuple[bytes, bool]:
    body = b""
    while match := re.match(rb"([0-9a-fA-F]+)[^\r]*\r\n", rest):
        size, rest = int(match[1], 16), rest[match.end() :]
        if not size:
            return body, rest.startswith(b"\r\n") or b"\r\n\r\n" in rest  # behind trailers
        body += rest[:size]
        if len(rest) < size + 2:
            return body, False
        rest = rest[size + 2 :]
    return body, False
