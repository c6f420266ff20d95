"""A stage for what takes long: a sidecar whose clock stands still until the test moves it, between real sockets.

async with stage(guard="enforce") as here:
    await here.say(HELLO)
    await here.pass_s(91)
    got, hop = await here.outcome()

Time passes in steps of one look, so that a minute takes some milliseconds, and every limit is met to the tick.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from otel.hop import Hop
from sidecar.clock import SystemClock
from sidecar.kernel import TICK_NS
from tests.support.processes import until
from tests.support.raw_peers import Asked, Got, RawClient, asked_once, raw_client, raw_upstream, streaming
from tests.support.script import Proxy, get, post, sidecar

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
HELLO = b'data: {"id":"chatcmpl-1","model":"m","choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
KEEPALIVE = b": keepalive\n\n"
MS_NS = 1_000_000
STUCK_S = 0.3
"""After which a write that is not through is stuck."""


def streamed(path: str = CHAT) -> bytes:
    """A request for a streamed answer of a model."""
    return post(path, b'{"model":"m","stream":true}', "Content-Type: application/json")


def said(value: object) -> bytes:
    """An event with this JSON."""
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


def delta(text: str | None = None, finish: str | None = None, **more: object) -> bytes:
    """A chunk of a chat; more: members of the chunk."""
    choice = {"index": 0, "delta": {} if text is None else {"content": text}, "finish_reason": finish}
    return said({"id": "chatcmpl-9", "model": "m", "choices": [choice], **more})


class HeldClock:
    """Both clocks, standing still."""

    def __init__(self) -> None:
        self.domain = SystemClock().domain
        self.at_ns = 1_000_000 * MS_NS

    def monotonic_ns(self) -> int:
        return self.at_ns

    def wall_ns(self) -> int:
        return 1_700_000_000_000_000_000 + self.at_ns


@dataclass
class Stage:
    """One exchange: its upstream's side, its reader's, and the sidecar between them."""

    clock: HeldClock
    proxy: Proxy
    asked: Asked
    client: RawClient
    got: Got | None

    @property
    def body(self) -> bytes:
        """What the reader has read so far."""
        return b"" if self.got is None else bytes(self.got.body)

    async def say(self, *parts: bytes) -> None:
        """The upstream sends these, each in a write, and the reader has them before time goes on."""
        for part in parts:
            await self.asked.chunk(part)
            await self.heard(part)

    async def heard(self, part: bytes) -> None:
        """Until the reader has read on to where this is the last of it."""
        if self.got is None:
            self.got = await self.client.head()
        until_bytes = len(self.body) + len(part)
        while len(self.body) < until_bytes or not self.body.endswith(part):
            await self.client.at_least(self.got, len(self.body) + 1)

    async def flood(self) -> None:
        """The reader stops, and the upstream sends until nothing goes any more."""
        (live,) = self.proxy.sidecar.exchanges.running()
        self.client.transport.pause_reading()
        is_stuck = False
        while not is_stuck or live.recorder.blocked_since_ns is None:
            try:
                await asyncio.wait_for(self.asked.chunk(HELLO * 200), STUCK_S)
            except TimeoutError:
                is_stuck = True

    async def pass_s(self, seconds: float) -> None:
        """Time passes, look by look; what the sidecar ends in it is over before it goes on."""
        exchanges, end_ns = self.proxy.sidecar.exchanges, self.clock.at_ns + round(seconds * 1_000) * MS_NS
        while self.clock.at_ns < end_ns:
            self.clock.at_ns += min(TICK_NS, end_ns - self.clock.at_ns)
            exchanges.look(self.clock.at_ns)
            await asyncio.sleep(0)
            if any(live.stopping for live in exchanges.running()):
                await until(lambda: not exchanges.running_count, "what is ended is over")

    async def end(self) -> tuple[Got, Hop]:
        """The upstream ends the body in order."""
        await self.asked.send(b"0\r\n\r\n")
        return await self.outcome()

    async def outcome(self) -> tuple[Got, Hop]:
        """What the reader got in all, and the record."""
        got = await (self.client.answer() if self.got is None else self.client.rest(self.got))
        return got, await self.proxy.hop()


@asynccontextmanager
async def stage(
    head: bytes | None = None, sent: bytes | None = None, *, receive_bytes: int | None = None, **options: str
) -> AsyncIterator[Stage]:
    """The request has gone up, and the upstream has sent this head (of a stream of events); none where it is empty.

    receive_bytes: how much the reader's kernel takes in advance.
    """
    clock, began = HeldClock(), asyncio.get_running_loop().create_future()
    head = streaming() if head is None else head

    async def answer(asked: Asked) -> None:
        began.set_result(asked)
        await asked.wire.gone.wait()

    async with (
        raw_upstream(answer) as up,
        sidecar(up.url, clock=clock, **options) as proxy,
        raw_client(proxy.port, sent or streamed(), receive_bytes=receive_bytes) as client,
    ):
        here = Stage(clock, proxy, await asyncio.wait_for(began, 8), client, None)
        if head:
            await here.asked.send(head)
            (live,) = proxy.sidecar.exchanges.running()
            await until(lambda: live.recorder.answer_since_ns is not None, "the head has come")
        yield here


async def exchanged(
    *parts: bytes, path: str = CHAT, head: bytes | None = None, end: str | None = None, **options: str
) -> tuple[Got, Hop]:
    """One answer without delay, a chunk for each part. end: `close` or `reset` in place of its last chunk."""

    async def answer(asked: Asked) -> None:
        await asked.send(streaming() if head is None else head)
        for part in parts:
            await asked.chunk(part)
        if end is None:
            await asked.send(b"0\r\n\r\n")
        else:
            await asyncio.sleep(0.05)  # for what was sent to be read: a reset would overtake it
            getattr(asked, end)()

    async with raw_upstream(answer) as up, sidecar(up.url, **options) as proxy:
        return await asked_once(proxy.port, get(path)), await proxy.hop()
