"""What a client can do: however it leaves, the upstream hears of it at once, and nothing of it stays behind."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager

import pytest

from otel.hop import Ending, Phase, Side
from tests.faults import fault, report
from tests.support.processes import until
from tests.support.raw_peers import asked_once, chunked, raw_client, raw_upstream, simple, streaming
from tests.support.script import get, post, request, sidecar

CHAT = "/v1/chat/completions"
HELLO = b'data: {"id":"chatcmpl-1","model":"m","choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
CLOSED_WITHIN_S = 1.0
TOGETHER = 1_000
AT_A_TIME = 20

LEAVING = pytest.mark.parametrize(("by_reset", "cut"), [(False, "fin"), (True, "reset")], ids=["fin", "reset"])


@asynccontextmanager
async def between(answer, **options):
    peers = {name: options.pop(name) for name in ("answers_at_head",) if name in options}
    async with raw_upstream(answer, **peers) as up, sidecar(up.url, **options) as proxy:
        yield up, proxy


async def silent(asked):
    await asked.wire.gone.wait()


async def one_event(asked):
    await asked.send(streaming())
    await asked.chunk(HELLO)
    await asked.wire.gone.wait()


async def only_a_head(asked):
    await asked.send(streaming())
    await asked.wire.gone.wait()


async def gone(up):
    """Until the upstream has seen the end of its connection; in time."""
    await asyncio.wait_for(up.asked[-1].wire.gone.wait(), CLOSED_WITHIN_S)


PHASES = {
    "before the head": (silent, Phase.HEADERS),
    "before the first event": (only_a_head, Phase.FIRST_EVENT),
    "between events": (one_event, Phase.EVENTS),
}


@fault(15, "upstream closed within a second, whether by FIN or by RST; recorded which")
@report("R086", "a client that leaves while nothing was written yet")
@LEAVING
@pytest.mark.parametrize(("answer", "phase"), PHASES.values(), ids=PHASES)
async def test_a_client_that_leaves_ends_the_upstream_at_once(by_reset, cut, answer, phase):
    async with between(answer) as (up, proxy), raw_client(proxy.port, post(CHAT, b"{}")) as client:
        await until(lambda: up.whole_count, "the upstream is asked")
        if answer is not silent:
            await client.head()
        await asyncio.sleep(0.05)
        client.leave(by_reset=by_reset)
        await gone(up)
        hop = await proxy.hop()

    assert (hop.end.ending, hop.end.ended_by, hop.end.phase) == (Ending.CLIENT_DISCONNECT, Side.DOWNSTREAM, phase)
    assert hop.end.cut == cut
    assert hop.moments.client_left_ns <= hop.moments.upstream_closed_ns < hop.moments.client_left_ns + 1e9


@fault(16, "upstream closed, its connection not used again, and little more is read")
@report("R085", "a client that leaves after the fifth block")
@report("R088", "a client that is gone is not noticed by writing")
@LEAVING
async def test_a_client_that_leaves_in_mid_stream_takes_the_upstream_with_it(by_reset, cut):
    async def answer(asked):
        if asked.target == "/next":
            await asked.send(simple())
            return
        await asked.send(streaming())
        while True:
            await asked.chunk(HELLO)
            await asyncio.sleep(0.02)

    async with between(answer) as (up, proxy):
        async with raw_client(proxy.port, get(CHAT)) as client:
            await client.at_least(await client.head(), 5 * len(HELLO))
            client.leave(by_reset=by_reset)
            await gone(up)
            sent_bytes = up.asked[0].sent_bytes
        hop = await proxy.hop()
        following = await asked_once(proxy.port, get("/next"))

    assert (hop.end.ending, hop.end.cut) == (Ending.CLIENT_DISCONNECT, cut)
    assert 5 <= hop.traffic.event_count <= 8
    assert sent_bytes <= len(streaming()) + 9 * (len(HELLO) + 8)
    assert following.status == 200
    assert [asked.connection for asked in up.asked] == [0, 1]


@fault(16, "read-ahead is bounded while the upstream floods")
async def test_little_is_read_from_a_flooding_upstream_once_the_client_has_left():
    async def answer(asked):
        await asked.send(streaming())
        while True:
            await asked.chunk(HELLO * 100)

    async with between(answer) as (up, proxy), raw_client(proxy.port, get(CHAT)) as client:
        await client.at_least(await client.head(), len(HELLO) * 100)
        client.leave(by_reset=True)
        await gone(up)
        hop = await proxy.hop()

    assert hop.end.ending is Ending.CLIENT_DISCONNECT
    assert hop.traffic.bytes_in - hop.traffic.bytes_out <= 256 << 10


@fault(17, "it counts as leaving, and alike in every phase")
@report("R087", "the policy of half-closes")
@pytest.mark.parametrize(("answer", "phase"), PHASES.values(), ids=PHASES)
async def test_a_client_that_closes_its_sending_side_counts_as_gone(answer, phase):
    async with between(answer) as (up, proxy), raw_client(proxy.port, post(CHAT, b"{}")) as client:
        await until(lambda: up.whole_count, "the upstream is asked")
        if answer is not silent:
            await client.head()
        await asyncio.sleep(0.05)
        client.half_close()
        await gone(up)
        hop = await proxy.hop()

    assert (hop.end.ending, hop.end.ended_by, hop.end.phase) == (Ending.CLIENT_DISCONNECT, Side.DOWNSTREAM, phase)
    assert hop.end.cut == "fin"


@fault(17, "also when it comes in one breath with the request")
async def test_a_half_close_right_behind_the_request_counts_as_gone_too():
    async with between(silent) as (up, proxy), raw_client(proxy.port, get(CHAT)) as client:
        client.half_close()
        await until(lambda: not proxy.sidecar.exchanges.running_count, "nothing runs")
        await client.closed()
        assert up.open_count == 0


@fault(15, "an upload that the client breaks off never looks whole upstream")
@LEAVING
async def test_an_upload_that_breaks_off_is_never_whole(by_reset, cut):
    async with between(silent, answers_at_head=True) as (up, proxy):
        async with raw_client(proxy.port, request("POST", CHAT, "Transfer-Encoding: chunked")) as client:
            client.send(b"400\r\n" + b"x" * 1_024 + b"\r\n")
            await until(lambda: up.asked and up.asked[0].body, "the body has begun")
            client.leave(by_reset=by_reset)
            await gone(up)
        hop = await proxy.hop()

    assert not up.asked[0].is_whole
    assert hop.end.ending is Ending.CLIENT_DISCONNECT


@fault(18, "one outcome and one record each, and no exception anywhere")
async def test_both_sides_may_end_in_the_same_moment(caplog):
    caplog.set_level(logging.WARNING)
    waiting = {}

    async def answer(asked):
        await asked.send(streaming() + b"%x\r\n%b\r\n" % (len(HELLO), HELLO))
        waiting[asked.field("x-request-id")[0]] = asked
        await asked.wire.gone.wait()

    async def one(proxy, number):
        request_id = b"both-%d" % number
        sent = get(CHAT, f"X-Request-Id: {request_id.decode()}")
        async with raw_client(proxy.port, sent) as client:
            await client.at_least(await client.head(), len(HELLO))
            asked = waiting.pop(request_id)
            ends = [lambda: client.leave(by_reset=number % 2 == 0), (asked.close, asked.reset)[number // 2 % 2]]
            if number % 8 < 4:
                ends.reverse()
            for end in ends:
                end()

    async with between(answer) as (up, proxy):
        for start in range(0, TOGETHER, AT_A_TIME):
            await asyncio.gather(*(one(proxy, number) for number in range(start, start + AT_A_TIME)))
        hops = await proxy.hops(TOGETHER)
        await until(lambda: not up.open_count, "no connection is left")
        assert proxy.sidecar.exchanges.running_count == proxy.sidecar.exchanges.lingering_count == 0

    assert len({hop.request_id for hop in hops}) == len({hop.span_id for hop in hops}) == len(hops) == TOGETHER
    assert {hop.end.ending for hop in hops} <= {Ending.CLIENT_DISCONNECT, Ending.UPSTREAM_CUT}
    assert caplog.text == ""


@report("R015", "a client that gives up: how long it had waited stands in the record")
async def test_how_long_nothing_had_come_stands_in_the_record():
    async with between(one_event) as (_, proxy), raw_client(proxy.port, get(CHAT)) as client:
        await client.at_least(await client.head(), len(HELLO))
        await asyncio.sleep(0.3)
        client.leave()
        hop = await proxy.hop()

    assert hop.end.ending is Ending.CLIENT_DISCONNECT
    assert 0.28e9 < hop.end.idle_ns < 1e9


@report("R137", "one ended record, and not a word in the log")
@pytest.mark.parametrize("count", [0, 3])
async def test_a_client_that_leaves_leaves_one_record_and_a_quiet_log(caplog, count):
    caplog.set_level(logging.WARNING)

    async def answer(asked):
        await asked.send(streaming() + chunked(*[HELLO] * count)[:-5])
        await asked.wire.gone.wait()

    async with between(answer) as (up, proxy), raw_client(proxy.port, get(CHAT)) as client:
        await client.at_least(await client.head(), count * len(HELLO))
        client.leave()
        await gone(up)
        hops = await proxy.hops()
        await asyncio.sleep(0.1)

    assert len(hops) == len(await proxy.hops()) == 1
    assert hops[0].traffic.event_count == count
    assert caplog.text == ""


@report("R087", "a pipelined request behind a stream waits for its turn")
async def test_a_request_behind_a_stream_is_served_after_it():
    async def answer(asked):
        await asked.send(
            streaming() + chunked(HELLO, DONE) if asked.target == "/a" else simple(body=asked.target.encode())
        )

    async with between(answer) as (up, proxy), raw_client(proxy.port, get("/a") + get("/b")) as client:
        first, second = await client.answer(), await client.answer()
        hops = await proxy.hops(2)

    assert (bytes(first.body), bytes(second.body)) == (HELLO + DONE, b"/b")
    assert [asked.target for asked in up.asked] == ["/a", "/b"]
    assert [hop.end.ending for hop in hops] == [Ending.COMPLETE] * 2
