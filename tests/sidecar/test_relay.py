"""An exchange begins and ends: its ids, its place in a trace, and nothing written in its record."""

import asyncio
import gc

import pytest

from otel.hop import Ending, Side
from otel.ids import trace_id_of
from sidecar.carriage import Carriage
from sidecar.live import Live
from sidecar.recording.recorder import Recorder
from sidecar.upstream import Answer
from sidecar.upstream.connection import UpstreamConnection
from tests.support.exchanges import CHAT, DONE, SSE, exchange
from tests.support.script import (
    ask,
    chunk,
    cut,
    get,
    hang,
    head,
    last_chunk,
    post,
    send,
    sidecar,
    upstream,
)


async def test_a_request_id_is_passed_on_answered_and_recorded():
    reply, hop, asked = await exchange(head(200, "a/b"), last_chunk(), sent=get("/x", "x-request-id: Req-7"))

    assert asked[0].field("X-Request-Id") == reply.field("X-Request-Id") == [hop.request_id] == ["Req-7"]
    assert (hop.request_id_source, hop.trace_id) == ("header", trace_id_of("Req-7"))


async def test_a_missing_request_id_is_made_and_the_same_everywhere():
    reply, hop, asked = await exchange(head(200, "a/b"), last_chunk(), sent=get("/x", "X-Request-Id:  "))

    assert asked[0].field("X-Request-Id") == reply.field("X-Request-Id") == [hop.request_id]
    assert (hop.request_id_source, len(hop.request_id)) == ("generated", 36)


async def test_the_upstreams_own_request_id_stays_and_is_an_alias():
    reply, hop, _ = await exchange(
        head(200, "a/b", "x-request-id: theirs"), last_chunk(), sent=get("/x", "X-Request-Id: ours")
    )

    assert reply.field("X-Request-Id") == ["theirs"]
    assert (hop.request_id, hop.aliases) == ("ours", ("theirs",))


async def test_configured_names_are_asked_in_their_order():
    reply, hop, asked = await exchange(
        head(200, "a/b"),
        last_chunk(),
        sent=get("/x", "X-Request-Id: second", "X-Correlation-Id: first"),
        request_id_headers="x-correlation-id,x-request-id",
    )

    assert reply.field("X-Correlation-Id") == ["first"]
    assert (hop.request_id, hop.aliases) == ("first", ("second",))
    assert asked[0].field("X-Request-Id") == ["second"]


async def test_a_request_id_that_is_named_hop_by_hop_still_goes_on():
    sent = get("/x", "Connection: X-Request-Id", "X-Request-Id: r-1")
    _, hop, asked = await exchange(head(200, "a/b"), last_chunk(), sent=sent)

    assert asked[0].field("X-Request-Id") == [hop.request_id] == ["r-1"]


async def test_a_hostile_request_id_passes_but_only_its_digest_is_recorded():
    hostile = "a" * 300
    reply, hop, asked = await exchange(head(200, "a/b"), last_chunk(), sent=get("/x", f"X-Request-Id: {hostile}"))

    assert asked[0].field("X-Request-Id") == reply.field("X-Request-Id") == [hostile]
    assert hop.request_id.startswith("sha256:")


async def test_a_traceparent_passes_unchanged_and_places_the_span():
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    _, hop, asked = await exchange(head(200, "a/b"), last_chunk(), sent=get("/x", f"traceparent: {parent}"))

    assert asked[0].field("traceparent") == [parent]
    assert (hop.trace_id, hop.parent_span_id) == (parent[3:35], parent[36:52])


async def test_our_own_mistake_is_recorded_as_lost_and_looks_like_no_answer(monkeypatch, caplog):
    monkeypatch.setattr(Recorder, "answered", lambda *_, **__: {}["CANARY"])
    async with upstream(head(200, SSE), hang()) as up, sidecar(up.url) as proxy:
        reply = await ask(proxy.port, get(CHAT))
        await asyncio.wait_for(up.closed.wait(), 1)
        hop = await proxy.hop()
        assert proxy.sidecar.exchanges.relay_failure_count == 1

    assert (reply.raw, hop.end.ending, hop.end.ended_by) == (b"", Ending.LOST, Side.SIDECAR)
    (line,) = [record for record in caplog.records if record.getMessage() == "exchange lost"]
    assert (line.error, "CANARY" in caplog.text) == ("KeyError", False)


async def test_nothing_that_was_written_is_in_a_record(caplog):
    canary = "CANARY-7c1f"
    event = b'data: {"model":"m","choices":[{"delta":{"content":"%s"}}]}\n\n' % canary.encode()
    caplog.set_level("DEBUG")
    async with (
        upstream(head(200, SSE, f"X-Up: {canary}"), chunk(event + DONE), last_chunk()) as up,
        sidecar(up.url) as proxy,
    ):
        sent = post(f"/v1/x?q={canary}", canary.encode(), f"Authorization: {canary}", f"Cookie: {canary}")
        assert canary.encode() in (await ask(proxy.port, sent)).body
        await proxy.hop()

    assert canary not in repr(proxy.shelf.spans)
    assert canary not in caplog.text


@pytest.mark.parametrize(
    "body",
    [
        [head(200, SSE), last_chunk()],
        [head(200, SSE), chunk(b"data: x\n\n"), last_chunk()],
        [head(200, SSE, "Connection: close"), last_chunk()],
        [head(200, SSE), chunk(b"data: x\n\n"), cut()],
        [cut()],
    ],
    ids=["empty", "stream", "last of its connection", "broken off", "no answer"],
)
async def test_an_exchange_that_is_over_leaves_nothing_to_the_garbage_collector(body):
    kinds = {Live, Carriage, Recorder, Answer, UpstreamConnection}
    async with upstream(*body) as up, sidecar(up.url) as proxy:
        gc.collect()
        gc.disable()
        try:
            for _ in range(3):
                await ask(proxy.port, get("/x"))
            await proxy.hops(3)
            left = [kind.__name__ for kind in map(type, gc.get_objects()) if kind in kinds]
            kept_count = proxy.sidecar.sides[0].upstream.idle_count
        finally:
            gc.enable()

    assert left == ["UpstreamConnection"] * kept_count


async def test_what_a_connection_was_given_is_known_without_asking_the_kernel_again():
    compared = []

    async def compare(_exchange):
        (live,) = proxy.sidecar.exchanges.running()
        known_bytes = live.connection.sent_bytes()
        live.connection.sent(None)
        compared.append((known_bytes, live.connection.sent_bytes()))
        live.connection.sent(known_bytes)

    hints = send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
    steps = [compare, hints, head(200, SSE), chunk(b"data: x\n\n"), last_chunk()]
    async with upstream(*steps) as up, sidecar(up.url) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        for sent in (get("/x"), post("/x", b"y"), post("/x", b"y", "Expect: 100-continue"), get("/x")):
            writer.write(sent)
            await reader.readuntil(b"\r\n0\r\n\r\n")
        writer.close()

    assert [known for known, _ in compared] == [asked for _, asked in compared]
    assert len({known for known, _ in compared}) == 4
