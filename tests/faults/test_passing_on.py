"""Bodies on their way through every tier: chunks of any form, readers that come and go, other sidecars, TLS."""

from __future__ import annotations

import asyncio
import random
import ssl
from contextlib import AsyncExitStack
from itertools import product

import pytest

from otel.hop import Ending
from tests.faults import fault
from tests.faults.stage import CHAT, DONE, HELLO, delta, stage
from tests.support.certificates import make_pair
from tests.support.processes import until
from tests.support.raw_peers import CLOSED, CUT, WHOLE, asked_once, raw_client, raw_upstream, streaming
from tests.support.script import get, parsed, request, sidecar
from tests.support.tiers import tiers

TIERS = tiers()
EACH_TIER = pytest.mark.parametrize("tier", TIERS)
SMALL_BYTES = 4_096
"""Receive buffer of a reader that is to be slow: so little goes on without it."""
BODIES = 12
SIZES = (b"%x", b"%X", b"%04x", b"%016x")
EXTENSIONS = (b"", b"", b";a=b", b' ;a="b c"')
TRAILERS = b"X-Sum: 7\r\n"
LONG = (HELLO * 2_000) + DONE
"""Some 190 KB: more than the buffers of a slow reader's connection take."""
ALIKE = b"5\r\nhello\r\n0\r\n\r\n" * 8_000
"""What looks like chunks and is content."""


async def long_answer(asked):
    await asked.send(streaming())
    for at in range(0, len(LONG), len(HELLO)):
        await asked.chunk(LONG[at : at + len(HELLO)])
    await asked.send(b"0\r\n\r\n")


def in_chunks(rng, body):
    """A body in chunks whose sizes and forms are drawn anew for each, most of them plain and of one event."""
    wire, at = [], 0
    while at < len(body):
        size = len(HELLO) if rng.random() < 0.6 else rng.choice((1, 7, 500, 5_000, 40_000))
        piece = body[at : at + size]
        is_plain = rng.random() < 0.7
        line = b"%x" if is_plain else rng.choice(SIZES) + rng.choice(EXTENSIONS)
        wire.append((line % len(piece)) + b"\r\n" + piece + b"\r\n")
        at += size
    return wire


def in_writes(rng, chunks):
    """The same bytes as they are written: whole chunks, several at once, or cut anywhere."""
    writes = []
    while chunks:
        count = rng.choice((1, 1, 1, 3, 40))
        together, chunks = b"".join(chunks[:count]), chunks[count:]
        cut = rng.randrange(len(together)) if rng.random() < 0.3 else len(together)
        writes += [part for part in (together[:cut], together[cut:]) if part]
    return writes


async def now_and_then(client, rng):
    """The reader stops, and reads again."""
    while True:
        client.transport.pause_reading()
        await asyncio.sleep(rng.choice((0, 0.002, 0.01)))
        client.transport.resume_reading()
        await asyncio.sleep(rng.choice((0, 0.001)))


@fault(45, "whole ones, parts, extensions and sizes in any spelling pass in any mix, to a reader who stops in between")
@pytest.mark.parametrize("body", [LONG, ALIKE], ids=["events", "framing alike"])
@EACH_TIER
async def test_chunks_of_every_form_pass_in_any_mix(tier, body):
    async def answer(asked):
        rng = random.Random(asked.target)
        await asked.send(streaming())
        for write in in_writes(rng, in_chunks(rng, body)):
            await asked.send(write)
            await asyncio.sleep(0)
        await asked.send(b"0\r\n" + TRAILERS + b"\r\n")

    async with raw_upstream(answer) as up, sidecar(up.url, tier=tier) as proxy:
        for number in range(BODIES):
            rng = random.Random(number)
            async with raw_client(proxy.port, receive_bytes=SMALL_BYTES) as client, asyncio.TaskGroup() as group:
                client.send(get(f"{CHAT}?{number}"))
                reading = group.create_task(now_and_then(client, rng))
                got = await client.answer()
                reading.cancel()
            assert (got.end, got.trailers) == (WHOLE, [(b"X-Sum", b"7")]), number
            assert got.body == body, number
        hops = await proxy.hops(BODIES)

    assert {hop.traffic.bytes_out for hop in hops} == {len(body)}
    assert {hop.traffic.event_count for hop in hops} == {2_001 if body is LONG else 0}
    assert up.connection_count == 1


@fault(45, "a reader of HTTP/1.0 gets their content, and none of their framing")
@EACH_TIER
async def test_an_old_reader_gets_no_chunks(tier):
    async with raw_upstream(long_answer) as up, sidecar(up.url, tier=tier) as proxy:
        got = await asked_once(proxy.port, request("GET", CHAT, version="1.0"))

    assert (got.end, bytes(got.body)) == (CLOSED, LONG)


@fault(45, "what we say ourselves stands behind a whole event though its chunk is none, and is a chunk of its own")
@EACH_TIER
async def test_our_own_words_stand_behind_half_a_chunk(tier):
    async with stage(tier=tier, guard="enforce") as here:
        await here.say(HELLO)
        await here.asked.send(b"%x\r\n%b" % (len(HELLO) + 100, HELLO))
        await here.heard(HELLO)
        await here.pass_s(91)
        got, hop = await here.outcome()

    assert got.end == CUT
    assert got.body.startswith(HELLO + HELLO + b"data: {")
    assert b'"error"' in got.body[2 * len(HELLO) :]
    assert got.chunks[:2] == [len(HELLO), len(HELLO)]
    assert hop.end.ending is Ending.TIMED_OUT_NEXT_EVENT


@fault(45, "a cut within a chunk is one, whatever came whole before it")
@EACH_TIER
async def test_a_cut_within_a_chunk_is_one_behind_whole_chunks(tier):
    async def answer(asked):
        await asked.send(streaming())
        for _ in range(3):
            await asked.chunk(HELLO)
            await asyncio.sleep(0)
        await asked.send(b"fff\r\n" + HELLO)
        asked.close()

    async with raw_upstream(answer) as up, sidecar(up.url, tier=tier) as proxy, raw_client(proxy.port) as client:
        client.send(get(CHAT))
        got = await client.answer()
        hop = await proxy.hop()

    assert (got.end, bytes(got.body)) == (CUT, HELLO * 4)
    assert hop.end.ending is Ending.UPSTREAM_CUT


@fault(20, "looked at or not, from one moment to the next: no byte is lost")
@EACH_TIER
async def test_a_stream_that_is_looked_at_no_more_goes_on_as_before(tier):
    may_go_on = asyncio.Event()

    async def answer(asked):
        await asked.send(streaming())
        await asked.chunk(HELLO)
        await may_go_on.wait()
        for at in range(0, len(LONG), 5_000):
            await asked.chunk(LONG[at : at + 5_000])
        await asked.send(b"0\r\n\r\n")

    async with (
        raw_upstream(answer) as up,
        sidecar(up.url, tier=tier) as proxy,
        raw_client(proxy.port, get(CHAT), receive_bytes=SMALL_BYTES) as client,
    ):
        got = await client.head()
        await client.at_least(got, len(HELLO))
        proxy.sidecar.exchanges.switch_passthrough(is_on=True)
        may_go_on.set()
        client.transport.pause_reading()
        await asyncio.sleep(0.05)
        client.transport.resume_reading()
        await client.rest(got)
        await until(lambda: not proxy.sidecar.exchanges.running_count, "it is over")

    assert (got.end, bytes(got.body)) == (WHOLE, HELLO + LONG)


async def slowly(reader):
    """All that a reader gets who takes little at a time, and rests in between."""
    raw = b""
    while not parsed(raw).is_clean and (more := await asyncio.wait_for(reader.read(3_000), 8)):
        raw += more
        if len(raw) % 16 == 0:
            await asyncio.sleep(0.002)
    return parsed(raw)


@fault(20, "through two hops, whichever way each passes bodies on: nothing is lost")
@pytest.mark.parametrize(("first", "second"), list(product(TIERS, TIERS)))
async def test_a_slow_reader_behind_two_sidecars_loses_nothing(first, second):
    async with (
        raw_upstream(long_answer) as up,
        sidecar(up.url, tier=second) as inner,
        sidecar(f"http://127.0.0.1:{inner.port}", tier=first) as outer,
        raw_client(outer.port, receive_bytes=SMALL_BYTES) as client,
        asyncio.TaskGroup() as group,
    ):
        client.send(get(CHAT))
        reading = group.create_task(now_and_then(client, random.Random(1)))
        got = await client.answer()
        reading.cancel()
        hops = [await inner.hop(), await outer.hop()]

    assert (got.end, bytes(got.body)) == (WHOLE, LONG)
    assert [hop.end.ending for hop in hops] == [Ending.COMPLETE] * 2
    assert [hop.traffic.bytes_out for hop in hops] == [len(LONG)] * 2


@fault(20, "with TLS on both sides of a hop, too")
@EACH_TIER
async def test_a_slow_reader_over_tls_loses_nothing(tmp_path, tier):
    pair = make_pair(tmp_path, "here")
    listening = {"tls_cert": str(pair.cert), "tls_key": str(pair.key)}
    context = ssl.create_default_context(cafile=str(pair.cert))
    async with AsyncExitStack() as stack:
        up = await stack.enter_async_context(raw_upstream(long_answer))
        inner = await stack.enter_async_context(sidecar(up.url, tier=tier, **listening))
        url = f"https://localhost:{inner.port}"
        outer = await stack.enter_async_context(sidecar(url, tier=tier, upstream_ca=str(pair.cert), **listening))
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", outer.port, ssl=context, server_hostname="localhost", limit=SMALL_BYTES
        )
        writer.write(get(CHAT))
        reply = await slowly(reader)
        writer.close()
        hops = [await inner.hop(), await outer.hop()]

    assert reply.is_clean
    assert reply.body == LONG
    assert [hop.end.ending for hop in hops] == [Ending.COMPLETE] * 2


@fault(34, "at whatever moment it is: what a full kernel keeps waiting is ended, and its reader sees a cut")
@EACH_TIER
async def test_a_body_that_waits_for_its_reader_is_ended_like_any_other(tier):
    async with stage(tier=tier, receive_bytes=SMALL_BYTES) as here:
        await here.say(HELLO)
        await here.flood()
        here.proxy.sidecar.exchanges.stop_running()
        await until(lambda: not here.proxy.sidecar.exchanges.running_count, "it is over")
        here.client.transport.resume_reading()
        got, hop = await here.outcome()

    assert not got.is_clean
    assert hop.end.ending is Ending.DRAINED
    assert here.asked.wire.left_by is not None or not here.asked.wire.is_open


@fault(45, "an end behind an event that waits for the reader comes behind it")
@EACH_TIER
async def test_the_last_chunk_comes_behind_what_waits(tier):
    words = [delta(f"word {number} ") for number in range(3_000)]

    async def answer(asked):
        await asked.send(streaming())
        await asked.send(b"".join(b"%x\r\n%b\r\n" % (len(word), word) for word in words) + b"0\r\n\r\n")

    async with (
        raw_upstream(answer) as up,
        sidecar(up.url, tier=tier) as proxy,
        raw_client(proxy.port, receive_bytes=SMALL_BYTES) as client,
    ):
        for _ in range(2):
            client.send(get(CHAT))
            got = await client.head()
            client.transport.pause_reading()
            await asyncio.sleep(0.1)
            client.transport.resume_reading()
            await client.rest(got)
            assert (got.end, bytes(got.body)) == (WHOLE, b"".join(words))

    assert up.connection_count == 1


@fault(20, "while its own request is still on its way up: both go on, each at its pace")
@EACH_TIER
async def test_a_body_passes_while_the_request_is_still_coming(tier):
    part = b"x" * 1_000
    is_sent = asyncio.Event()

    async def answer(asked):
        await asked.send(streaming())
        for at in range(0, len(LONG), len(HELLO) * 50):
            await asked.chunk(LONG[at : at + len(HELLO) * 50])
        await is_sent.wait()
        await asked.whole.wait()
        await asked.send(b"0\r\n\r\n")

    async with (
        raw_upstream(answer, answers_at_head=True) as up,
        sidecar(up.url, tier=tier) as proxy,
        raw_client(proxy.port, receive_bytes=SMALL_BYTES) as client,
    ):
        client.send(request("POST", CHAT, "Transfer-Encoding: chunked"))
        got = await client.head()
        for _ in range(20):
            client.send(b"%x\r\n%b\r\n" % (len(part), part))
            await client.at_least(got, min(len(got.body) + 1, len(LONG)))
            await asyncio.sleep(0.001)
        assert got.body
        client.send(b"0\r\n\r\n")
        is_sent.set()
        await client.rest(got)
        hop = await proxy.hop()

    assert (got.end, bytes(got.body)) == (WHOLE, LONG)
    assert bytes(up.asked[0].body) == part * 20
    assert hop.end.ending is Ending.COMPLETE
