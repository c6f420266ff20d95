"""A listener in front of a scripted relay, and raw clients of it: to test what stands before the relay."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from otel.settings import Address, Endpoint
from sidecar.bounds.deadlines import Limits
from sidecar.downstream.doors import Doors
from sidecar.downstream.listener import Listener
from sidecar.downstream.refusals import RefusedHeads
from sidecar.downstream.response import Response
from sidecar.downstream.sniff import Opening
from sidecar.downstream.sockets import open_sockets
from sidecar.downstream.tunnel import Dial
from sidecar.exchanges import Exchanges
from sidecar.export.records import Records
from sidecar.lag import Canary
from sidecar.tls.contexts import ServerTls
from sidecar.upstream import ConnectFailed
from tests.support.clock import FakeClock

Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]

SECOND_NS = 1_000_000_000


@dataclass
class ScriptedRelay:
    """Takes every request to one function, and remembers what came."""

    answer: Handle
    seen: list[web.Request] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request)
        return await self.answer(request)


@dataclass
class Front:
    listener: Listener
    doors: Doors
    exchanges: Exchanges
    relay: ScriptedRelay
    refused_heads: RefusedHeads

    @property
    def port(self) -> int:
        return self.listener.port


async def no_dial(opening: Opening, protocol: Callable[[], asyncio.Protocol]) -> object:
    raise ConnectFailed(f"nothing unread is expected here, not {opening}")


async def say_ok(request: web.Request) -> web.StreamResponse:
    """Read the whole body, and answer with 200 and `ok`."""
    if request.method != "CONNECT":  # to aiohttp its body is all that follows
        await request.content.read()
    response = Response(request)
    response.begin(200, "OK", [("Content-Length", "2")])
    response.write(b"ok")
    response.end()
    return response.handed()


@asynccontextmanager
async def front(
    answer: Handle = say_ok,
    *,
    endpoint: Endpoint = Address("127.0.0.1", 0),  # noqa: B008
    dial: Dial = no_dial,
    tls: ServerTls | None = None,
    limit: int | None = None,
    head_timeout_ns: int | None = None,
) -> AsyncIterator[Front]:
    clock = FakeClock()
    canary = Canary(clock)
    doors = Doors(now=time.monotonic_ns, limit=limit, head_timeout_ns=head_timeout_ns)
    exchanges = Exchanges(
        clock,
        canary=canary,
        records=Records(None, is_exact=False),
        limits=Limits(stall_after_ns=SECOND_NS, body_idle_ns=SECOND_NS),
    )
    relay, refused_heads = ScriptedRelay(answer), RefusedHeads(time.monotonic_ns)
    listener = Listener(
        relay,
        sockets=open_sockets(endpoint),
        tls=tls,
        exchanges=exchanges,
        doors=doors,
        refused_heads=refused_heads,
        dial=dial,
    )
    await listener.start()
    try:
        yield Front(listener, doors, exchanges, relay, refused_heads)
    finally:
        await listener.close()


async def ask_raw(port: int, data: bytes, *, timeout_s: float = 5) -> bytes:
    """Send, and read until the other side closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        async with asyncio.timeout(timeout_s):
            return await reader.read()
    finally:
        writer.close()


async def until(condition: Callable[[], object], *, timeout_s: float = 5) -> None:
    """Wait for something that will be true soon."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.005)
