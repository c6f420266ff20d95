"""Guards what an event costs by us against a plain aiohttp proxy, in one process: no root, no compiler, any machine.

    python -m tests.bench.inproc

Source, proxy and readers share one event loop on loopback. A round is one event on each of some streams, written and
then read everywhere; what a round costs without a proxy is taken off. Only processor time is looked at, in pairs, so
a busy machine changes little. The kernel's part is the same for all and small here: ratios are those of Python, and
the limit is far from where we are. Exit code 1 when it is passed, or when a stream was not passed on byte for byte.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Final, cast

import uvloop
from aiohttp import web

from sidecar.native import COMPILED
from tests.bench.contenders import OURS, OURS_IN_PYTHON, PLAIN, UNSTAMPED, tiers
from tests.bench.plain import application
from tests.bench.spreads import Spread, ratios
from tests.support.script import parsed, post, sidecar

STREAMS: Final = 20
ROUNDS: Final = 150
WARM_ROUNDS: Final = 10
REPETITIONS: Final = 9
WITHIN_S: Final = 10.0
"""Longest for the rounds of one measurement: what hangs is a failure."""
DIRECT: Final = "direct"
MOST: Final = 1.5
"""Times the plain proxy's cost of an event, with compiled parts; more than half above what it is, and noise is less."""
MOST_OF_SLOWER: Final = 2.0
"""The same without them, and of what passes bytes on by a task of its own."""
SLOWER: Final = frozenset({f"{OURS}-pull", OURS_IN_PYTHON})

HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END: Final = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
ASK: Final = post("/v1/chat/completions", b'{"model":"m1","stream":true}', "Content-Type: application/json")


def event(number: int) -> bytes:
    """One event of an answer."""
    return (
        b'data: {"id":"chatcmpl-7f3a9c","object":"chat.completion.chunk","created":1760000000,"model":"m1",'
        b'"choices":[{"index":0,"delta":{"content":"%06d"},"finish_reason":null}]}\n\n' % number
    )


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Source(asyncio.Protocol):
    """The upstream's side of one stream: it says its head when it is asked, and events when it is told."""

    def __init__(self, sources: set[Source]) -> None:
        self._sources = sources

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"POST"):
            self._sources.add(self)
            self.transport.write(HEAD)

    def connection_lost(self, _: Exception | None) -> None:
        self._sources.discard(self)


class Reader(asyncio.Protocol):
    """One stream as it arrives. lines: ends of lines so far, of which every event brings as many."""

    def __init__(self, moved: Callable[[], None]) -> None:
        self._moved = moved
        self.got = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(ASK)

    def data_received(self, data: bytes) -> None:
        self.got += data
        self._moved()


@dataclass(frozen=True, slots=True)
class Crowd:
    """Streams that are open, and their sources."""

    sources: set[Source]
    readers: list[Reader]
    moved: asyncio.Event

    async def until(self, is_done: Callable[[], bool]) -> None:
        while not is_done():
            self.moved.clear()
            await self.moved.wait()

    async def say(self, data: bytes) -> None:
        """All sources say it, and all readers have it."""
        wanted_bytes = [len(reader.got) + len(data) for reader in self.readers]
        for source in self.sources:
            source.transport.write(data)
        await self.until(lambda: all(len(r.got) >= n for r, n in zip(self.readers, wanted_bytes, strict=True)))


@asynccontextmanager
async def crowd(port: int, sources: set[Source]) -> AsyncIterator[Crowd]:
    """Streams that are open through this port."""
    moved = asyncio.Event()
    loop = asyncio.get_running_loop()
    readers = [(await loop.create_connection(lambda: Reader(moved.set), "127.0.0.1", port))[1] for _ in range(STREAMS)]
    found = Crowd(sources, readers, moved)
    try:
        await found.until(lambda: all(b"\r\n\r\n" in reader.got for reader in readers))
        yield found
    finally:
        for reader in readers:
            reader.transport.close()


async def cost_ns(port: int, sources: set[Source], *, rounds: int = ROUNDS) -> float:
    """Processor time of an event through this port. Raises ValueError where it is not passed on as it was said."""
    async with asyncio.timeout(WITHIN_S), crowd(port, sources) as found:
        events = [event(number) for number in range(WARM_ROUNDS + rounds)]
        for said in events[:WARM_ROUNDS]:
            await found.say(chunk(said))
        gc.collect()
        before_ns = time.process_time_ns()
        for said in events[WARM_ROUNDS:]:
            await found.say(chunk(said))
        spent_ns = time.process_time_ns() - before_ns
        await found.say(END)
        expected = b"".join(events) + b"data: [DONE]\n\n"
        for reader in found.readers:
            if parsed(bytes(reader.got)).body != expected:
                raise ValueError("a stream is not what its source said")
    return spent_ns / (rounds * STREAMS)


@asynccontextmanager
async def plain(url: str) -> AsyncIterator[int]:
    """The plain proxy's port."""
    runner = web.AppRunner(application(url), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def ours(url: str, **flags: str) -> AsyncIterator[int]:
    """A whole sidecar's port."""
    async with sidecar(url, **flags) as proxy:
        yield proxy.port


def proxies(url: str) -> dict[str, AbstractAsyncContextManager[int]]:
    """Everything that is compared, not yet running."""
    others = {f"{OURS}-{tier}": ours(url, tier=tier) for tier in tiers()}
    in_python = {} if COMPILED is None else {OURS_IN_PYTHON: ours(url, compiled="off")}
    return {PLAIN: plain(url), OURS: ours(url), UNSTAMPED: ours(url, passthrough="true"), **others, **in_python}


async def compare(*, repetitions: int = REPETITIONS) -> dict[str, Spread]:
    """What an event costs by each, as times the plain proxy's, in pairs."""
    sources: set[Source] = set()
    server = await asyncio.get_running_loop().create_server(lambda: Source(sources), "127.0.0.1", 0)
    taken: dict[str, list[float]] = {}
    async with server:
        port = server.sockets[0].getsockname()[1]
        names = [DIRECT, *proxies("http://127.0.0.1")]
        for repetition in range(repetitions):
            found = proxies(f"http://127.0.0.1:{port}")
            for name in names if repetition % 2 == 0 else reversed(names):
                if name == DIRECT:
                    cost = await cost_ns(port, sources)
                else:
                    async with found[name] as proxy_port:
                        cost = await cost_ns(proxy_port, sources)
                taken.setdefault(name, []).append(cost)
    return compared(taken)


def compared(taken: dict[str, list[float]]) -> dict[str, Spread]:
    """Each proxy's cost above that of no proxy, as times the plain one's."""
    direct = taken[DIRECT]

    def above(name: str) -> list[float]:
        return [cost - floor for cost, floor in zip(taken[name], direct, strict=True)]

    spreads = {name: Spread.of(ratios(above(name), above(PLAIN))) for name in taken if name != DIRECT}
    return {name: spread for name, spread in spreads.items() if spread is not None}


def too_dear(found: dict[str, Spread], *, has_compiled: bool) -> list[str]:
    """Those that cost more than they may."""
    complaints = []
    for name, spread in found.items():
        most = MOST if has_compiled and name not in SLOWER else MOST_OF_SLOWER
        if spread.median > most:
            complaints.append(f"{name} costs {spread.text()} times the plain proxy's, more than {most:g}")
    return complaints


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.inproc", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, metavar="N", help="of each [%(default)s]")
    options = parser.parse_args(argv)
    found = uvloop.run(compare(repetitions=options.repetitions))
    for name, spread in found.items():
        print(f"{name:<14} {spread.text()} × {PLAIN}")
    for complaint in (complaints := too_dear(found, has_compiled=COMPILED is not None)):
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
