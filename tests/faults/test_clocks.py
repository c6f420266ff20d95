"""Clocks: a stream may last, the wall clock may step, our own loop may be late, and every interval stays true."""

from __future__ import annotations

import asyncio
import time

from otel.hop import Ending
from sidecar.clock import SystemClock
from tests.faults import fault, report
from tests.support.raw_peers import asked_once, raw_client, raw_upstream, streaming
from tests.support.script import get, sidecar

CHAT = "/v1/chat/completions"
HELLO = b'data: {"id":"chatcmpl-1","model":"m","choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
HOUR_NS = 3_600_000_000_000


class MovedClock:
    """The machine's clocks, and what a test has added to each."""

    def __init__(self) -> None:
        self._real = SystemClock()
        self.domain = self._real.domain
        self.ahead_ns = 0
        self.wall_ahead_ns = 0

    def monotonic_ns(self) -> int:
        return self._real.monotonic_ns() + self.ahead_ns

    def wall_ns(self) -> int:
        return self._real.wall_ns() + self.ahead_ns + self.wall_ahead_ns


@fault(13, "not cut, and recorded in full")
@report("R013", "a total limit that cuts what still flows: there is none")
async def test_a_stream_of_steady_events_may_last_an_hour():
    clock, count = MovedClock(), 120

    async def answer(asked):
        await asked.send(streaming())
        for _ in range(count):
            await asked.chunk(HELLO)
            clock.ahead_ns += HOUR_NS // count
            await asyncio.sleep(0.005)
        await asked.chunk(DONE)
        await asked.send(b"0\r\n\r\n")

    async with (
        raw_upstream(answer) as up,
        sidecar(
            up.url, clock=clock, answer_timeout="5s", request_body_timeout="5s", slow_reader="end", write_deadline="5s"
        ) as proxy,
    ):
        got = await asked_once(proxy.port, get(CHAT))
        hop = await proxy.hop()

    assert (got.status, bytes(got.body), got.is_clean) == (200, HELLO * count + DONE, True)
    assert hop.end.ending is Ending.COMPLETE
    assert hop.moments.closed_ns >= HOUR_NS
    assert hop.traffic.event_count == count + 1


@fault(43, "gaps, order and limits unchanged")
@report("R138", "times of a record never come from the wall")
async def test_a_step_of_the_wall_clock_changes_no_interval():
    clock = MovedClock()

    async def answer(asked):
        await asked.send(streaming())
        await asked.chunk(HELLO)
        await asyncio.sleep(0.1)
        clock.wall_ahead_ns -= HOUR_NS
        await asked.chunk(HELLO)
        await asyncio.sleep(0.2)
        clock.wall_ahead_ns += 2 * HOUR_NS
        await asked.chunk(DONE)
        await asked.send(b"0\r\n\r\n")

    async with raw_upstream(answer) as up, sidecar(up.url, clock=clock, answer_timeout="5s") as proxy:
        before_ns = clock.wall_ns()
        got = await asked_once(proxy.port, get(CHAT))
        hop = await proxy.hop()

    offsets = [stamp.arrived_ns for stamp in hop.timeline.stamps]
    assert got.is_clean
    assert hop.end.ending is Ending.COMPLETE
    assert offsets == sorted(offsets)
    assert 0.09e9 < offsets[1] - offsets[0] < 0.19e9
    assert 0.19e9 < offsets[2] - offsets[1] < 0.4e9
    assert 0 < hop.moments.closed_ns < 2e9
    assert 0 <= hop.anchor.wall_ns - before_ns < 1e9


@fault(14, "recorded as our own lag, in the record of what it held up")
async def test_lag_of_our_own_loop_is_recorded_as_ours():
    async def answer(asked):
        await asked.send(streaming())
        await asked.chunk(HELLO)
        await asyncio.sleep(0.2)
        await asked.chunk(HELLO)
        await asyncio.sleep(0.05)
        time.sleep(0.5)  # everything in this loop stands still, the sidecar too
        await asyncio.sleep(0.1)
        await asked.chunk(DONE)
        await asked.send(b"0\r\n\r\n")

    async with raw_upstream(answer) as up, sidecar(up.url) as proxy, raw_client(proxy.port, get(CHAT)) as client:
        got = await client.answer()
        hop = await proxy.hop()

    longest_ns = max(lag.end_ns - lag.start_ns for lag in hop.timeline.lag)
    assert got.is_clean
    assert 0.4e9 < longest_ns < 1e9
    assert hop.timeline.blocked == ()
    assert proxy.sidecar.canary.lag_count >= 1
