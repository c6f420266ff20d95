"""A gateway or an inference proxy: an app that passes a request on and streams the answer back event by event.

    python -m otel.demo.middle --hop gateway --port PORT --next URL [--real-engine]

All it does for its sidecar is what a good hop does anyway: it forwards `x-request-id` and `traceparent`.
URL is the address of the next hop's sidecar, where the next hop's own address would have stood.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from itertools import count
from typing import Final

import aiohttp
from aiohappyeyeballs import AddrInfoType
from aiohttp import web

from otel.demo import faults, script
from otel.demo.faults import Fault, FaultError, Kind
from otel.demo.worker import break_off, refusal, serve, sized_socket

FORWARDED: Final = ("content-type", "accept", "authorization", "x-request-id", "traceparent", faults.HEADER)
RETURNED: Final = ("content-type", "cache-control")

Write = Callable[[bytes], Awaitable[None]]
Passing = Callable[[Write], AbstractAsyncContextManager[Write]]
"""How a hop writes one answer: what it does with events before it writes them, and at the end with what it has kept."""
Begins = Callable[[bytes], bool]
"""Asked with every event of an answer, in order: whether the fault begins with it, or has begun."""


class Middle:
    """One hop in the middle; `next_url` is the hop that it asks. is_scripted: the worker behind it all is ours.

    passing: what it does with an answer's events; by default they are written as they are. buffer_bytes: of the
    kernel, for what the hop receives and sends; None is as the machine is set.
    """

    forwarded: tuple[str, ...] = FORWARDED
    _session: aiohttp.ClientSession

    def __init__(
        self,
        *,
        hop: str,
        next_url: str,
        is_scripted: bool = True,
        passing: Passing = nullcontext,
        buffer_bytes: int | None = None,
    ) -> None:
        self.hop = hop
        self._next_url = next_url
        self._is_scripted = is_scripted
        self._passing = passing
        self.buffer_bytes = buffer_bytes

    async def connect(self, _: web.Application) -> AsyncIterator[None]:
        """Keep connections to the next hop for as long as the app runs."""
        no_limit = aiohttp.ClientTimeout(total=None)
        connector = aiohttp.TCPConnector(socket_factory=self._socket)
        plain = {"Accept-Encoding": "identity"}  # events have to be found in what comes
        session = aiohttp.ClientSession(connector=connector, timeout=no_limit, auto_decompress=False, headers=plain)
        async with session as self._session:
            yield

    def _socket(self, address: AddrInfoType) -> socket.socket:
        made = sized_socket(*address[:3], buffer_bytes=self.buffer_bytes)
        made.setblocking(False)
        return made

    async def pass_on(self, request: web.Request) -> web.StreamResponse:
        """Ask the next hop and pass its answer on; an answer that breaks off there, or here, breaks off for all."""
        body = await request.read()
        try:
            fault, begins = self.planted(request, body)
        except FaultError as error:
            return refusal(error)
        cut_after_s = fault.seconds if fault is not None and fault.kind is Kind.CUT else None
        headers = {name: request.headers[name] for name in self.forwarded if name in request.headers}
        url = self._next_url + request.path_qs
        response: web.StreamResponse = web.Response(status=502)
        try:
            async with asyncio.timeout(cut_after_s), self._session.post(url, data=body, headers=headers) as answer:
                kept = {name: answer.headers[name] for name in RETURNED if name in answer.headers}
                response = web.StreamResponse(status=answer.status, headers=kept)
                await response.prepare(request)
                async with self._passing(response.write) as write:
                    await deliver(events_of(answer.content), write, fault, begins)
        except (TimeoutError, aiohttp.ClientError):
            break_off(request)
        return response

    def planted(self, request: web.Request, body: bytes) -> tuple[Fault | None, Begins]:
        """The fault that the request asks this hop for, and with which event it begins. Raises FaultError."""
        fault = faults.planted(request.headers.get(faults.HEADER), is_scripted=self._is_scripted)
        if fault is None or fault.hop != self.hop:
            return None, from_event(0)
        first = {Kind.STALL: _middle_of(body), Kind.BUFFER: script.OPENING_EVENTS}.get(fault.kind, 0)
        return fault, from_event(first)


async def events_of(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """The events of an SSE stream, bytes untouched, each as soon as its blank line is there (LF only, as ours are)."""
    pending = b""
    async for data in content.iter_any():
        *events, pending = (pending + data).split(b"\n\n")
        for event in events:
            yield event + b"\n\n"
    if pending:
        yield pending


def from_event(first: int) -> Begins:
    """A fault that begins with the event of this index."""
    passed = count()
    return lambda _: next(passed) >= first


async def deliver(events: AsyncIterator[bytes], write: Write, fault: Fault | None, begins: Begins) -> None:
    """Write every event, with the fault of this hop in between. What is held is written later, never lost."""
    match fault:
        case Fault(kind=Kind.BUFFER, seconds=seconds):
            await _deliver_in_flushes(events, write, begins, every_s=seconds)
        case Fault(kind=Kind.STALL | Kind.SLOW_FIRST, seconds=seconds):
            has_held = False
            async for event in events:
                if not has_held and begins(event):
                    has_held = True
                    await asyncio.sleep(seconds)
                await write(event)
        case _:
            async for event in events:
                await write(event)


async def _deliver_in_flushes(events: AsyncIterator[bytes], write: Write, begins: Begins, *, every_s: float) -> None:
    held: list[bytes] = []

    async def flush() -> None:
        data = b"".join(held)
        held.clear()
        if data:
            await write(data)

    async def flush_for_ever() -> None:
        while True:
            await asyncio.sleep(every_s)
            await flush()

    flusher: asyncio.Task[None] | None = None
    try:
        async for event in events:
            if flusher is None and not begins(event):
                await write(event)
            else:
                held.append(event)
                flusher = flusher or asyncio.create_task(flush_for_ever())
    finally:
        if flusher is not None:
            flusher.cancel()
    await flush()


def _middle_of(body: bytes) -> int:
    """The event to hold, from the length that the request asks for."""
    try:
        return script.middle_of(int(json.loads(body)["max_tokens"]))
    except (ValueError, TypeError, KeyError):
        return script.middle_of(script.DEFAULT_EVENTS)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m otel.demo.middle", description=__doc__)
    parser.add_argument("--hop", choices=(faults.GATEWAY, faults.PROXY), required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--next", required=True, metavar="URL")
    parser.add_argument("--real-engine", action="store_true", help="the model worker cannot be told to misbehave")
    arguments = parser.parse_args(argv)
    run(Middle(hop=arguments.hop, next_url=arguments.next, is_scripted=not arguments.real_engine), port=arguments.port)
    return 0


def run(hop: Middle, *, port: int) -> None:
    """Serve until we are told to stop."""
    app = web.Application()
    app.cleanup_ctx.append(hop.connect)
    app.router.add_post("/{path:.*}", hop.pass_on)
    serve(app, port=port, buffer_bytes=hop.buffer_bytes)


if __name__ == "__main__":
    sys.exit(main())
