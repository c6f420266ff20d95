"""Bounds: more streams than may run, readers that do not read, uploads nobody takes; each costs only itself."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import pairwise

import pytest

from otel.hop import Ending, Side
from tests.faults import fault, report
from tests.support.processes import until
from tests.support.raw_peers import CUT, RESET, WHOLE, asked_once, raw_client, raw_upstream, simple, streaming
from tests.support.script import get, request, sidecar

CHAT = "/v1/chat/completions"
HELLO = b'data: {"id":"chatcmpl-1","model":"m","choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
CLIENTS, PLACES, LINE = 500, 40, 60
LONG_GAP_NS = 100_000_000
UNEXPLAINED_NS = 60_000_000
"""Own lag below 50 ms is not recorded, so that much of a gap may have no name; the reader here waits 200 ms."""
SMALL_BYTES = 4_096
"""Receive buffer of a client that is to be stuck soon."""


@asynccontextmanager
async def between(answer, **options):
    async with raw_upstream(answer) as up, sidecar(up.url, **options) as proxy:
        yield up, proxy


async def flood(asked):
    if asked.target == "/good":
        await asked.send(simple(body=b"good"))
        return
    await asked.send(streaming())
    while True:
        await asked.chunk(HELLO * 100)


@asynccontextmanager
async def stuck_clients(proxy, count):
    """Clients that ask for a flood and never read."""
    async with AsyncExitStack() as stack:
        clients = []
        for _ in range(count):
            client = await stack.enter_async_context(raw_client(proxy.port, receive_bytes=SMALL_BYTES))
            client.transport.pause_reading()
            client.send(get(CHAT))
            clients.append(client)
        yield clients


@fault(30, "as many as may run do; the others get 503 and Retry-After in time, and nobody's stream suffers")
async def test_more_streams_than_may_run():
    release = asyncio.Event()

    async def answer(asked):
        await asked.send(streaming())
        await asked.chunk(HELLO)
        await release.wait()
        await asked.chunk(DONE)
        await asked.send(b"0\r\n\r\n")

    options = {"max_streams": str(PLACES), "max_queue": str(LINE), "queue_timeout": "500ms"}
    async with between(answer, **options) as (up, proxy):
        loop = asyncio.get_running_loop()

        async def one():
            began = loop.time()
            got = await asked_once(proxy.port, get(CHAT), within_s=20)
            return got, loop.time() - began

        tasks = [asyncio.ensure_future(one()) for _ in range(CLIENTS)]
        await until(lambda: sum(task.done() for task in tasks) == CLIENTS - PLACES, "the others are refused")
        await until(lambda: len(up.asked) >= PLACES, "the places are taken")
        refused = [task.result() for task in tasks if task.done()]
        release.set()
        got = [each for each, _ in await asyncio.gather(*tasks)]
        hops = await proxy.hops(CLIENTS)

    served = [each for each in got if each.status == 200]
    assert len(up.asked) == len(served) == PLACES
    assert all((bytes(each.body), each.end) == (HELLO + DONE, WHOLE) for each in served)
    assert {each.status for each, _ in refused} == {503}
    assert all(int(each.values("retry-after")[0]) >= 1 for each, _ in refused)
    assert max(took_s for _, took_s in refused) < 5
    endings = [hop.end.ending for hop in hops]
    assert (endings.count(Ending.COMPLETE), endings.count(Ending.REJECTED)) == (PLACES, CLIENTS - PLACES)


@fault(30, "who waits in line and leaves, leaves the line")
async def test_a_client_that_leaves_the_line_makes_place():
    release = asyncio.Event()

    async def answer(asked):
        await release.wait()
        await asked.send(simple(body=asked.target.encode()))

    async with between(answer, max_streams="1", max_queue="1", queue_timeout="5s") as (up, proxy):
        async with raw_client(proxy.port, get("/first")) as first:
            await until(lambda: len(up.asked) == 1, "the first runs")
            async with raw_client(proxy.port, get("/second")) as second:
                await asyncio.sleep(0.1)
                second.leave()
            await asyncio.sleep(0.1)
            async with raw_client(proxy.port, get("/third")) as third:
                await asyncio.sleep(0.1)
                release.set()
                got = [bytes((await each.answer()).body) for each in (first, third)]
        hops = await proxy.hops(3)

    assert got == [b"/first", b"/third"]
    assert [asked.target for asked in up.asked] == ["/first", "/third"]
    assert sorted(hop.end.ending.value for hop in hops) == ["client_disconnect", "complete", "complete"]


@fault(19, "ended after the write deadline where that is asked for, as a slow reader")
@report("R092", "a handler that waits for a reader for ever")
async def test_a_reader_that_takes_nothing_is_ended_at_the_deadline_where_that_is_asked_for():
    async with between(flood, slow_reader="end", write_deadline="500ms") as (up, proxy), stuck_clients(proxy, 1):
        hop = await proxy.hop()
        await asyncio.wait_for(up.asked[0].wire.gone.wait(), 1)

    assert (hop.end.ending, hop.end.ended_by) == (Ending.CLIENT_DISCONNECT, Side.SIDECAR)
    assert hop.exchange.error_type == "slow_reader"
    assert sum(block.end_ns - block.start_ns for block in hop.timeline.blocked) > 0.4e9


@fault(19, "by default the upstream waits, for as long as it takes")
async def test_a_reader_that_takes_nothing_is_waited_for_by_default():
    async with between(flood, write_deadline="200ms") as (up, proxy), stuck_clients(proxy, 1) as (client,):
        await asyncio.sleep(0.8)
        sent_bytes = up.asked[0].sent_bytes
        await asyncio.sleep(0.3)
        assert up.asked[0].sent_bytes == sent_bytes
        assert proxy.sidecar.exchanges.running_count == 1
        client.transport.resume_reading()
        await until(lambda: up.asked[0].sent_bytes > sent_bytes + (1 << 20), "it flows again")


@fault(20, "no loss; every gap is booked as the reader's, none as the upstream's")
@report("R093", "a reader slower than its upstream")
async def test_a_slow_reader_loses_nothing_and_is_no_stall_of_the_upstream():
    body = HELLO.replace(b"hello", b"hello" * 200) * 1_700  # below the number of events at which a report is cut

    async def answer(asked):
        await asked.send(streaming())
        for start in range(0, len(body), 16_384):
            await asked.chunk(body[start : start + 16_384])
        await asked.chunk(DONE)
        await asked.send(b"0\r\n\r\n")

    async with (
        between(answer, slow_reader="end", write_deadline="1s") as (_, proxy),
        raw_client(proxy.port, receive_bytes=SMALL_BYTES) as client,
    ):
        client.transport.pause_reading()
        client.send(get(CHAT))

        async def sip():
            for _ in range(8):
                await asyncio.sleep(0.2)
                client.transport.resume_reading()
                await asyncio.sleep(0.01)
                client.transport.pause_reading()
            client.transport.resume_reading()

        _, got = await asyncio.gather(sip(), client.answer())
        hop = await proxy.hop()

    assert bytes(got.body) == body + DONE
    assert hop.end.ending is Ending.COMPLETE
    assert sum(block.end_ns - block.start_ns for block in hop.timeline.blocked) > 0.6e9
    arrivals = [stamp.arrived_ns for stamp in hop.timeline.stamps]
    gaps = [(start, end) for start, end in pairwise(arrivals) if end - start > LONG_GAP_NS]
    assert gaps
    assert max(end - start - explained_ns(hop, start, end) for start, end in gaps) < UNEXPLAINED_NS


def explained_ns(hop, start_ns, end_ns):
    """How long of this stretch we were blocked by the reader, or late ourselves."""
    stretches = (*hop.timeline.blocked, *hop.timeline.lag)
    overlaps = (min(end_ns, each.end_ns) - max(start_ns, each.start_ns) for each in stretches)
    return sum(overlap for overlap in overlaps if overlap > 0)


@fault(20, "a reader that takes nothing for a while is counted as no stall of the upstream")
async def test_a_reader_that_takes_nothing_is_not_counted_as_a_stall():
    async with between(flood, stall_after="300ms") as (up, proxy), stuck_clients(proxy, 1):
        await until(lambda: up.asked, "it is asked")
        await asyncio.sleep(1.0)
        assert proxy.sidecar.exchanges.stall_count == 0


@fault(21, "the good one is served as ever, and the places of the stuck come back")
async def test_a_hundred_stuck_clients_do_not_harm_a_good_one():
    options = {"slow_reader": "end", "write_deadline": "1s", "max_streams": "101"}
    async with between(flood, **options) as (up, proxy):
        async with stuck_clients(proxy, 100):
            await until(lambda: len(up.asked) == 100, "all are asked for")
            loop = asyncio.get_running_loop()
            began = loop.time()
            good = await asked_once(proxy.port, get("/good"))
            took_s = loop.time() - began
            await until(lambda: not proxy.sidecar.exchanges.running_count, "all places are free", within_s=20)
        hops = await proxy.hops(101)
        await until(lambda: up.open_count <= 1, "no upstream connection but the idle one is left")

    assert (good.status, bytes(good.body)) == (200, b"good")
    assert took_s < 2
    endings = [hop.end.ending for hop in hops]
    assert (endings.count(Ending.CLIENT_DISCONNECT), endings.count(Ending.COMPLETE)) == (100, 1)


@fault(21, "a stuck client that goes away is seen though nothing can be written to it")
@pytest.mark.parametrize("by_reset", [False, True])
async def test_a_stuck_client_that_leaves_is_noticed(by_reset):
    async with between(flood) as (up, proxy), stuck_clients(proxy, 1) as (client,):
        await until(lambda: up.asked, "it is asked")
        await asyncio.sleep(0.3)
        client.leave(by_reset=by_reset)
        await asyncio.wait_for(up.asked[0].wire.gone.wait(), 1.5)
        hop = await proxy.hop()

    assert hop.end.ending is Ending.CLIENT_DISCONNECT


@report("R092", "the limits of the upstream hold while the reader is stuck")
async def test_an_upstream_that_breaks_off_behind_a_stuck_reader_is_recorded_as_that():
    async def answer(asked):
        await asked.send(streaming())
        for _ in range(30):
            await asyncio.wait_for(asked.chunk(HELLO * 100), 0.3)

    async def broken(asked):
        with suppress(TimeoutError):
            await answer(asked)
        asked.close()

    async with between(broken) as (up, proxy), stuck_clients(proxy, 1) as (client,):
        await until(lambda: up.asked and not up.asked[0].wire.is_open, "the upstream has closed")
        client.transport.resume_reading()
        got = await client.answer()
        hop = await proxy.hop()

    assert got.end in {CUT, RESET}
    assert hop.end.ending is Ending.UPSTREAM_CUT
    assert bytes(got.body) == (HELLO * (len(got.body) // len(HELLO) + 1))[: len(got.body)]


@report("R109", "an upload that the upstream does not take is held back, not held")
async def test_an_upload_nobody_takes_is_not_read():
    async def answer(asked):
        asked.wire.transport.pause_reading()
        await asked.wire.gone.wait()

    async with (
        raw_upstream(answer, answers_at_head=True) as up,
        sidecar(up.url) as proxy,
        raw_client(proxy.port, request("POST", "/x", "Content-Length: 200000000")) as client,
    ):
        taken = 0
        while True:
            client.send(bytes(1 << 18))
            try:
                await asyncio.wait_for(client.drain(), 0.4)
            except TimeoutError:
                break
            taken += 1 << 18
            assert taken < 64 << 20
        client.leave(by_reset=True)
        hop = await proxy.hop()

    assert hop.end.ending is Ending.CLIENT_DISCONNECT
