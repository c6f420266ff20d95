"""Memory, measured on a process of its own: what nobody reads and what never ends costs a bounded amount."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import AsyncExitStack

import pytest

from tests.faults import fault, report
from tests.support.processes import Fleet, until
from tests.support.processes import get as asked_url
from tests.support.raw_peers import WHOLE, asked_once, raw_client, raw_upstream, simple, streaming
from tests.support.script import get
from tests.support.sidecars import collecting, ended_lines, idle, is_quiet

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

CHAT = "/v1/chat/completions"
HELLO = b'data: {"id":"chatcmpl-1","model":"m","choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
OFFERED_BYTES = 200 << 20
STUCK_GROWTH_BYTES = 8 << 20
STUCK_CLIENTS, STUCK_EACH_BYTES = 100, 512 << 10
LINE_GROWTH_BYTES = 16 << 20
PIECE = b"a" * 65_536
LOOPS = pytest.mark.parametrize("loop", ["uvloop", "asyncio"])


class Watched:
    """How far the resident memory of a process rose above where it was."""

    def __init__(self, sidecar):
        self.sidecar = sidecar
        self.base_bytes = self.peak_bytes = sidecar.resident_bytes

    def look(self):
        self.peak_bytes = max(self.peak_bytes, self.sidecar.resident_bytes)
        return self.peak_bytes - self.base_bytes


async def warmed(sidecar):
    for _ in range(5):
        assert (await asked_once(sidecar.port, get("/good"))).status == 200
    return Watched(sidecar)


async def flood(asked):
    if asked.target == "/good":
        await asked.send(simple(body=b"good"))
        return
    await asked.send(streaming())
    while asked.sent_bytes < OFFERED_BYTES:
        await asked.chunk(HELLO * 160)


@fault(19, "memory grows by less than 8 MB while 200 MB are offered")
@LOOPS
async def test_a_client_that_never_reads_costs_little(tmp_path, loop):
    with Fleet(tmp_path) as fleet:
        async with raw_upstream(flood) as up:
            sidecar = fleet.sidecar("here", up.url, "--loop", loop)
            await fleet.ready()
            watched = await warmed(sidecar)
            async with raw_client(sidecar.port, receive_bytes=4_096) as client:
                client.transport.pause_reading()
                client.send(get(CHAT))
                await settled(watched, up)
                assert up.asked[-1].sent_bytes < OFFERED_BYTES // 4
                assert watched.look() < STUCK_GROWTH_BYTES
                assert (await asked_once(sidecar.port, get("/good"))).status == 200
            await idle(sidecar)


async def settled(watched, up, *, every_s=0.3):
    """Until nothing more goes up to anybody."""
    last = -1
    while not up.asked or last != (last := sum(asked.sent_bytes for asked in up.asked)):
        await asyncio.sleep(every_s)
        watched.look()


@fault(21, "memory grows by less than 512 KB for each of them while floods are offered")
@LOOPS
async def test_a_hundred_clients_that_never_read_cost_little_each(tmp_path, loop):
    with Fleet(tmp_path) as fleet:
        async with raw_upstream(flood) as up, AsyncExitStack() as stack:
            sidecar = fleet.sidecar("here", up.url, "--loop", loop)
            await fleet.ready()
            watched = await warmed(sidecar)
            for _ in range(STUCK_CLIENTS):
                client = await stack.enter_async_context(raw_client(sidecar.port, receive_bytes=4_096))
                client.transport.pause_reading()
                client.send(get(CHAT))
            await until(lambda: len(up.asked) >= STUCK_CLIENTS, "all have asked")
            await settled(watched, up)
            assert watched.look() < STUCK_CLIENTS * STUCK_EACH_BYTES
            assert (await asked_once(sidecar.port, get("/good"))).status == 200


async def line(asked):
    """One line without an end, of so many megabytes."""
    if asked.target == "/good":
        await asked.send(simple(body=b"good"))
        return
    size = int(asked.target.rpartition("=")[2]) << 20
    await asked.send(streaming())
    await asked.chunk(b"data: ")
    for _ in range(size // len(PIECE)):
        await asked.chunk(PIECE)
    await asked.chunk(b"\n\n" + DONE)
    await asked.send(b"0\r\n\r\n")


@fault(22, "4 MB and 300 MB pass, memory flat")
@report("R097", "a line longer than any line limit")
@report("R098", "a body without a line end")
@pytest.mark.parametrize("size_mb", [4, 300])
async def test_a_line_without_an_end_passes_in_flat_memory(tmp_path, size_mb):
    expected = hashlib.sha256(b"data: " + PIECE * ((size_mb << 20) // len(PIECE)) + b"\n\n" + DONE).hexdigest()
    with Fleet(tmp_path) as fleet:
        async with collecting() as records, raw_upstream(line) as up:
            sidecar = fleet.sidecar("here", up.url, export=records.url)
            await fleet.ready()
            watched = await warmed(sidecar)
            digest, got_bytes = hashlib.sha256(), 0
            async with raw_client(sidecar.port, get(f"{CHAT}?mb={size_mb}", "X-Request-Id: long")) as client:
                got = await client.head()
                size = (size_mb << 20) + len(b"data: \n\n" + DONE)
                while got_bytes < size:
                    await client.at_least(got, 1, within_s=10)
                    digest.update(got.body)
                    got_bytes += len(got.body)
                    got.body.clear()
                    if got_bytes % (16 << 20) < 200_000:
                        watched.look()
                await client.rest(got)
            hop = await records.hop("long")

    assert (got.end, digest.hexdigest()) == (WHOLE, expected)
    assert watched.peak_bytes - watched.base_bytes < LINE_GROWTH_BYTES
    assert hop.traffic.event_count == 2
    assert hop.end.ending.value == "complete"


@report("R099", "the last event by far the largest")
async def test_a_huge_last_event_does_not_hold_up_the_others(tmp_path):
    small, big = b'data: {"a":1}\n\n', b"data: [" + b"1," * (1 << 20) + b"1]\n\n"

    async def answer(asked):
        if asked.target == "/paced":
            await asked.send(streaming())
            for _ in range(60):
                await asked.chunk(small)
                await asyncio.sleep(0.02)
            await asked.send(b"0\r\n\r\n")
            return
        await asked.send(streaming())
        await asked.chunk(small * 100)
        for start in range(0, len(big), 65_536):
            await asked.chunk(big[start : start + 65_536])
            await asyncio.sleep(0.02)
        await asked.chunk(DONE)
        await asked.send(b"0\r\n\r\n")

    with Fleet(tmp_path) as fleet:
        async with raw_upstream(answer) as up:
            sidecar = fleet.sidecar("here", up.url)
            await fleet.ready()
            lag_s = (await sidecar.metrics())["gapline_loop_lag_seconds_total"]
            big_one, paced = await asyncio.gather(
                asked_once(sidecar.port, get(CHAT), within_s=20), asked_once(sidecar.port, get("/paced"), within_s=20)
            )
            lag_s = (await sidecar.metrics())["gapline_loop_lag_seconds_total"] - lag_s

    assert bytes(big_one.body) == small * 100 + big + DONE
    assert bytes(paced.body) == small * 60
    assert lag_s < 0.1


@fault(31, "new requests 503 and Retry-After, connections not kept, health answers, and it recovers")
async def test_memory_that_runs_out_costs_new_requests_first(tmp_path):
    stuck = 60
    with Fleet(tmp_path) as fleet:
        async with raw_upstream(flood) as up:
            measured = fleet.sidecar("measured", up.url, "--memory-limit", "off")
            await fleet.ready()
            base_bytes = (await warmed(measured)).base_bytes
            limit_bytes = int((base_bytes + (4 << 20)) / 0.85)
            sidecar = fleet.sidecar("here", up.url, "--memory-limit", str(limit_bytes))
            await fleet.ready()
            await warmed(sidecar)
            async with AsyncExitStack() as stack:
                for _ in range(stuck):
                    client = await stack.enter_async_context(raw_client(sidecar.port, receive_bytes=4_096))
                    client.transport.pause_reading()
                    client.send(get(CHAT))

                async def is_refused():
                    got = await asked_once(sidecar.port, get("/good"))
                    return got if got.status == 503 else None

                refused = await until(is_refused, "new requests are refused", within_s=20)
                assert int(refused.values("retry-after")[0]) >= 1
                assert refused.values("connection") == [b"close"]
                assert (await asked_url(f"{sidecar.admin_url}/healthz"))[0] == 200

            async def is_served():
                return (await asked_once(sidecar.port, get("/good"))).status == 200

            await until(is_served, "it recovers", within_s=20)
            await idle(sidecar)
            endings = {line["outcome"] for line in ended_lines(sidecar.said)}

    assert "rejected" in endings
    assert is_quiet(sidecar.said)
