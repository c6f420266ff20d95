"""What a reader gets through a whole sidecar over real sockets: what is put in, when, and how a stream ends then."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from hashlib import sha256

import pytest

from otel.hop import Ending, Side
from sidecar.inspection.stamper import Stamper
from tests.support.raw_peers import CUT, RESET, WHOLE, chunked, raw_client, raw_upstream, simple, streaming
from tests.support.script import get, post, sidecar

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
HELLO = b'data: {"id":"chatcmpl-1","model":"m","choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
ERROR = b'data: {"error":{"type":"server_error","code":503,"message":"the engine is gone"}}\n\n'
PING = b'event: ping\ndata: {"type":"ping"}\n\n'
KEEPALIVE = b": keepalive\n\n"
BEAT = {"keepalive": "0.1s"}
EARLY = {"keepalive_early": "true", **BEAT}
HOLD = {"hold_head": "5s"}
ENFORCE = {"guard": "enforce"}
JSON = "Content-Type: application/json"
WAIT_S = 0.35
"""In which at least one comment is due."""


@asynccontextmanager
async def between(answer, **options):
    async with raw_upstream(answer) as up, sidecar(up.url, **options) as proxy:
        yield up, proxy


async def exchanged(answer, sent=None, **options):
    """One request: what the client got, and the record."""
    async with between(answer, **options) as (_, proxy), raw_client(proxy.port) as client:
        client.send(sent or streamed(CHAT))
        return await client.answer(), await proxy.hop()


def streamed(path):
    return post(path, b'{"model":"m","stream":true}', JSON)


def saying(*parts, end=None, fields=()):
    """The head of a stream, then these parts: bytes are a chunk, a number is a pause in seconds."""

    async def answer(asked):
        await asked.send(streaming(*fields))
        for part in parts:
            if isinstance(part, float):
                await asyncio.sleep(part)
            else:
                await asked.chunk(part)
        if end is None:
            await asked.send(b"0\r\n\r\n")
        else:
            getattr(asked, end)()

    return answer


async def silent(asked):
    await asked.wire.gone.wait()


async def only_a_head(asked):
    await asked.send(streaming())
    await asked.wire.gone.wait()


class TestKeepalives:
    async def test_there_are_none_unless_asked_for(self):
        got, hop = await exchanged(saying(HELLO, WAIT_S, DONE))

        assert got.body == HELLO + DONE
        assert (hop.traffic.keepalive_count, hop.traffic.injected_bytes) == (0, 0)

    async def test_they_stand_before_and_between_events_never_behind_the_end(self):
        got, hop = await exchanged(saying(WAIT_S, HELLO, WAIT_S, DONE, WAIT_S), **BEAT)
        before, between_, after = got.body.partition(HELLO)[0], got.body.partition(HELLO)[2], got.body.endswith(DONE)

        assert before.count(KEEPALIVE) >= 2
        assert between_.count(KEEPALIVE) >= 2
        assert after
        assert got.body.replace(KEEPALIVE, b"") == HELLO + DONE
        assert hop.traffic.keepalive_count == got.body.count(KEEPALIVE)
        assert hop.traffic.injected_bytes == len(KEEPALIVE) * hop.traffic.keepalive_count
        assert hop.traffic.bytes_out == len(got.body)
        assert (hop.traffic.event_count, hop.traffic.comment_count) == (2, 0)
        assert hop.end.ending is Ending.COMPLETE

    @pytest.mark.parametrize("cut", [10, len(HELLO) - 1])
    async def test_there_is_none_in_an_open_event(self, cut):
        got, _ = await exchanged(saying(HELLO[:cut], WAIT_S, HELLO[cut:], DONE), **BEAT)

        assert got.body == HELLO + DONE

    async def test_there_is_none_between_cr_and_lf(self):
        event = HELLO.replace(b"\n", b"\r\n")
        got, _ = await exchanged(saying(event[:-1], WAIT_S, event[-1:], DONE), **BEAT)

        assert got.body == event + DONE

    async def test_there_is_none_while_the_blank_line_of_the_end_mark_is_missing(self):
        got, _ = await exchanged(saying(HELLO, b"data: [DONE]\n", WAIT_S, b"\n", WAIT_S), **BEAT)

        assert got.body.replace(KEEPALIVE, b"") == HELLO + DONE
        assert got.body.endswith(DONE)

    @pytest.mark.parametrize(
        "head",
        [
            streaming(content_type="application/x-ndjson"),
            streaming("Content-Encoding: gzip"),
            streaming("Signature: sig1=:x:"),
            streaming(status="503 Busy"),
        ],
        ids=["NDJSON", "encoded", "signed", "an error"],
    )
    async def test_there_are_none_in_what_is_no_plain_stream_of_events(self, head):
        async def answer(asked):
            await asked.send(head)
            await asyncio.sleep(WAIT_S)
            await asked.send(chunked(b"{}\n"))

        got, hop = await exchanged(answer, **BEAT)
        assert got.body == b"{}\n"
        assert hop.traffic.keepalive_count == 0

    async def test_a_signed_stream_has_some_where_that_is_asked_for(self):
        answer = saying(WAIT_S, DONE, fields=("Signature: sig1=:x:",))
        got, hop = await exchanged(answer, keepalive_signed="true", digests="true", **BEAT)

        assert hop.traffic.keepalive_count > 0
        assert hop.digests.upstream == "sha256:" + sha256(DONE).hexdigest()
        assert hop.digests.downstream == "sha256:" + sha256(got.body).hexdigest()

    async def test_a_rule_says_where_streams_are_signed(self):
        got, _ = await exchanged(saying(WAIT_S, DONE), guard_rule="path=/v1/*;signed=true", **BEAT)

        assert got.body == DONE

    async def test_nothing_goes_out_before_the_upstream_has_answered(self):
        async def late(asked):
            await asyncio.sleep(WAIT_S)
            await asked.send(simple("429 Slow Down", b"{}"))

        got, _ = await exchanged(late, **BEAT)
        assert (got.status, got.body) == (429, b"{}")

    async def test_a_byte_order_mark_behind_a_comment_spoils_no_field(self):
        got, _ = await exchanged(saying(WAIT_S, b"\xef", b"\xbb\xbf" + HELLO, DONE), **BEAT)

        assert got.body.replace(KEEPALIVE, b"") == b":\xef\xbb\xbf\n" + HELLO + DONE

    async def test_behind_an_id_it_is_a_line_and_no_block(self):
        event = b"id: 1\n" + HELLO
        got, _ = await exchanged(saying(event, WAIT_S, DONE), **BEAT)

        assert got.body.count(b": keepalive\n") > 0
        assert KEEPALIVE not in got.body
        assert got.body.replace(b": keepalive\n", b"") == event + DONE

    async def test_behind_an_id_that_was_taken_back_it_is_a_block_again(self):
        events = b"id: 1\n" + HELLO, b"id\n" + HELLO
        got, _ = await exchanged(saying(*events, WAIT_S, DONE), **BEAT)

        assert got.body.count(KEEPALIVE) > 0
        assert got.body.replace(KEEPALIVE, b"") == b"".join(events) + DONE

    async def test_a_reader_that_takes_nothing_gets_none(self):
        async def flood(asked):
            await asked.send(streaming())
            for _ in range(1_000):
                await asked.chunk(HELLO * 100)

        async with between(flood, **BEAT) as (_, proxy), raw_client(proxy.port, receive_bytes=4_096) as client:
            client.transport.pause_reading()
            client.send(streamed(CHAT))
            await asyncio.sleep(2 * WAIT_S)
            client.leave(by_reset=True)
            hop = await proxy.hop()

        assert hop.traffic.keepalive_count == 0
        assert hop.end.ending is Ending.CLIENT_DISCONNECT


@pytest.mark.parametrize(("options", "has_pulse"), [({}, False), (BEAT, True), (HOLD, True)])
async def test_only_streams_that_want_something_of_it_are_told_the_time(options, has_pulse):
    was_asked = asyncio.Event()

    async def answer(asked):
        was_asked.set()
        await silent(asked)

    async with between(answer, **options) as (_, proxy), raw_client(proxy.port) as client:
        client.send(streamed(CHAT))
        await was_asked.wait()
        (live,) = proxy.sidecar.exchanges.running()
        assert (live.pulse is not None) is has_pulse


class TestEarlyKeepalives:
    async def test_they_go_before_the_answer_behind_a_head_of_ours(self):
        async def late(asked):
            await asyncio.sleep(WAIT_S)
            await asked.send(streaming() + chunked(HELLO, DONE))

        got, hop = await exchanged(late, **EARLY)
        assert (got.status, got.end) == (200, WHOLE)
        assert got.values("content-type") == [b"text/event-stream"]
        assert got.body.startswith(KEEPALIVE)
        assert got.body.replace(KEEPALIVE, b"") == HELLO + DONE
        assert (hop.end.ending, hop.exchange.status) == (Ending.COMPLETE, 200)

    async def test_an_answer_that_is_no_stream_is_told_in_band(self):
        async def late(asked):
            await asyncio.sleep(WAIT_S)
            await asked.send(simple("429 Slow Down", b"{}"))

        got, hop = await exchanged(late, **EARLY)
        assert (got.status, got.end) == (200, CUT)
        error = json.loads(got.body.replace(KEEPALIVE, b"").removeprefix(b"data: "))["error"]
        assert "429" in error["message"]
        assert (hop.end.ending, hop.exchange.status) == (Ending.COMPLETE, 429)

    async def test_nor_is_one_that_is_no_stream_at_all(self):
        async def late(asked):
            await asyncio.sleep(WAIT_S)
            await asked.send(simple("200 OK", b"{}", "Content-Type: application/json"))

        got, hop = await exchanged(late, **EARLY)
        assert b"answered 200 with application/json" in got.body
        assert (got.end, hop.end.ending, hop.exchange.status) == (CUT, Ending.REJECTED, 502)

    async def test_the_upstream_is_asked_for_an_answer_that_is_not_packed(self):
        offered = []

        async def answer(asked):
            offered.append(asked.field("accept-encoding"))
            await asked.send(streaming() + chunked(DONE))

        for options in (EARLY, BEAT):
            await exchanged(answer, post(CHAT, b'{"stream":true}', JSON, "Accept-Encoding: gzip"), **options)

        assert offered == [[b"identity"], [b"gzip"]]

    @pytest.mark.parametrize(
        ("path", "content_type", "body"),
        [
            ("/api/chat", "application/x-ndjson", b'{"message":{"content":"x"},"done":true}\n'),
            ("/v1beta/models/g:streamGenerateContent", "application/json", b'[{"candidates":[]}]'),
            ("/model/m/converse-stream", "application/vnd.amazon.eventstream", b"frames"),
        ],
        ids=["lines", "an array", "frames"],
    )
    async def test_there_are_none_before_a_stream_that_is_not_sse(self, path, content_type, body):
        async def late(asked):
            await asyncio.sleep(WAIT_S)
            await asked.send(streaming(content_type=content_type) + chunked(body))

        got, _ = await exchanged(late, streamed(path), **EARLY)
        assert (got.values("content-type"), got.body) == ([content_type.encode()], body)

    async def test_an_array_that_was_asked_for_as_sse_is_one(self):
        async def late(asked):
            await asyncio.sleep(WAIT_S)
            await asked.send(streaming() + chunked(HELLO))

        got, _ = await exchanged(late, streamed("/v1beta/models/g:streamGenerateContent?alt=sse"), **EARLY)
        assert got.body.startswith(KEEPALIVE)

    async def test_an_answer_to_head_has_no_body_of_ours_and_its_connection_goes_on(self):
        async def late(asked):
            await asyncio.sleep(WAIT_S)
            await asked.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")

        async with between(late, **EARLY) as (_, proxy), raw_client(proxy.port) as client:
            for _ in range(2):
                client.send(b"HEAD /api/chat HTTP/1.1\r\nHost: h\r\nAccept: text/event-stream\r\n\r\n")
                got = await client.answer(b"HEAD")
                assert (got.status, got.end) == (200, WHOLE)

    async def test_who_asks_for_no_stream_gets_the_answer_as_it_is(self):
        async def late(asked):
            await asyncio.sleep(WAIT_S)
            await asked.send(simple(body=b"{}"))

        got, _ = await exchanged(late, post(CHAT, b'{"model":"m"}', JSON), **EARLY)
        assert got.body == b"{}"


class TestTheGuard:
    async def test_only_observing_it_ends_nothing_and_counts_once(self):
        answer = saying(HELLO, 0.6, HELLO, DONE)
        got, hop = await exchanged(answer, next_event_timeout="0.2s", first_event_timeout="0.2s")

        assert got.body == HELLO + HELLO + DONE
        assert (hop.end.ending, hop.exchange.guard_fired) == (Ending.COMPLETE, ("next_event_timeout",))

    async def test_off_it_does_not_even_look(self):
        _, hop = await exchanged(saying(HELLO, 0.5, DONE), guard="off", next_event_timeout="0.2s")

        assert hop.exchange.guard_fired == ()

    async def test_no_answer_in_time_is_a_504_in_the_form_of_the_api(self):
        got, hop = await exchanged(silent, streamed(MESSAGES), first_event_timeout="0.2s", **ENFORCE)

        assert got.status == 504
        assert json.loads(got.body)["type"] == "error"
        assert (hop.end.ending, hop.end.ended_by) == (Ending.TIMED_OUT_FIRST_EVENT, Side.SIDECAR)
        assert hop.exchange.error_type == "first_event_timeout"

    async def test_no_first_event_in_time_is_told_in_band_and_never_looks_whole(self):
        got, hop = await exchanged(only_a_head, first_event_timeout="0.2s", **ENFORCE)

        assert (got.status, got.end) == (200, CUT)
        error = json.loads(got.body.removeprefix(b"data: "))["error"]
        assert "0.2 s" in error["message"]
        assert b"[DONE]" not in got.body
        assert hop.end.ending is Ending.TIMED_OUT_FIRST_EVENT

    async def test_a_stream_of_comments_is_alive_and_makes_no_progress(self):
        async def pinging(asked):
            await asked.send(streaming())
            while asked.wire.is_open:
                await asked.chunk(b": ping\n\n")
                await asyncio.sleep(0.05)

        got, hop = await exchanged(
            pinging, first_event_timeout="0.2s", next_event_timeout="0.2s", content_timeout="0.7s", **ENFORCE
        )
        error = json.loads(got.body.rpartition(b"data: ")[2])["error"]
        assert error["type"] == "content_timeout"
        assert hop.exchange.guard_fired == ("content_timeout",)
        assert hop.end.ending is Ending.TIMED_OUT_NEXT_EVENT

    async def test_an_answer_that_is_no_stream_may_take_its_time(self):
        async def late(asked):
            await asyncio.sleep(0.5)
            await asked.send(simple(body=b"{}"))

        got, hop = await exchanged(late, post(CHAT, b'{"model":"m"}', JSON), first_event_timeout="0.2s", **ENFORCE)
        assert (got.status, hop.exchange.guard_fired) == (200, ())

    @pytest.mark.parametrize("end", ["close", "reset"])
    async def test_an_upstream_that_breaks_off_is_told_in_band(self, end):
        got, hop = await exchanged(saying(HELLO, 0.05, end=end), **ENFORCE)

        assert got.end == CUT
        assert got.body.startswith(HELLO)
        assert json.loads(got.body.removeprefix(HELLO).removeprefix(b"data: "))["error"]
        assert hop.end.ending is Ending.UPSTREAM_CUT
        assert hop.exchange.guard_fired == ("upstream_cut",)
        assert hop.traffic.injected_bytes == len(got.body) - len(HELLO)

    @pytest.mark.parametrize(
        "said", [(HELLO, HELLO[:20]), (HELLO, DONE), (ERROR,)], ids=["in an event", "behind the end", "behind an error"]
    )
    async def test_nothing_is_added_where_it_would_be_read_as_something_else(self, said):
        got, _ = await exchanged(saying(*said, 0.05, end="close"), **ENFORCE)

        assert (got.body, got.end) == (b"".join(said), CUT)

    async def test_a_body_that_its_connection_ends_is_reset_behind_the_error(self):
        sent = b"POST %s HTTP/1.0\r\nHost: h\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n{}" % CHAT.encode()
        got, hop = await exchanged(saying(HELLO, 0.05, end="close"), sent, **ENFORCE)

        assert got.end == RESET
        assert hop.end.ending is Ending.UPSTREAM_CUT

    async def test_an_end_without_its_mark_passes_unchanged(self):
        got, hop = await exchanged(saying(HELLO), **ENFORCE)

        assert (got.body, got.end) == (HELLO, WHOLE)
        assert hop.end.ending is Ending.MISSING_TERMINAL

    async def test_and_becomes_an_error_where_that_is_asked_for(self):
        got, hop = await exchanged(saying(HELLO), missing_terminal="error", **ENFORCE)

        assert got.end == CUT
        assert json.loads(got.body.removeprefix(HELLO).removeprefix(b"data: "))["error"]
        assert hop.end.ending is Ending.MISSING_TERMINAL
        assert hop.exchange.guard_fired == ("missing_terminal",)

    @pytest.mark.parametrize("end", ["close", None], ids=["broken off", "without its mark"])
    async def test_where_a_rule_says_off_nothing_is_ended_told_or_counted(self, end):
        options = {"guard_rule": "path=/v1/*;off=true", "missing_terminal": "error", **ENFORCE}
        got, hop = await exchanged(saying(HELLO, 0.05, end=end), **options)

        assert (got.body, got.end) == (HELLO, CUT if end else WHOLE)
        assert hop.exchange.guard_fired == ()

    async def test_where_a_rule_guards_a_path_a_break_is_told_too(self):
        answer = saying(b"data: x\n\n", 0.05, end="close")
        got, hop = await exchanged(answer, post("/events", b"{}", JSON), guard_rule="path=/events;first=5s", **ENFORCE)

        assert hop.exchange.guard_fired == ("upstream_cut",)
        assert json.loads(got.body.partition(b"event: error\ndata: ")[2])["error"]["type"] == "upstream_cut"

    async def test_an_answer_of_mcp_without_its_response_passes_as_it_came(self):
        said = b'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress"}\n\n'
        asked = post("/mcp", b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', JSON)
        got, hop = await exchanged(saying(said), asked, missing_terminal="error", **ENFORCE)

        assert (got.body, got.end) == (said, WHOLE)
        assert (hop.end.ending, hop.exchange.guard_fired) == (Ending.MISSING_TERMINAL, ())


class TestAHeldHead:
    async def test_a_stream_that_begins_well_passes_as_it_came(self):
        got, hop = await exchanged(saying(b": hi\n\n", 0.05, HELLO, DONE), **HOLD)

        assert (got.status, got.body, got.end) == (200, b": hi\n\n" + HELLO + DONE, WHOLE)
        assert hop.end.ending is Ending.COMPLETE

    async def test_an_error_first_keeps_its_status(self):
        got, hop = await exchanged(saying(ERROR), **HOLD)

        assert (got.status, got.end) == (503, WHOLE)
        assert "the engine is gone" in json.loads(got.body)["error"]["message"]
        assert (hop.end.ending, hop.exchange.status) == (Ending.ERROR_EVENT, 503)

    async def test_an_upstream_that_breaks_off_before_an_event_is_a_502(self):
        got, hop = await exchanged(saying(b": hi\n\n", 0.05, end="close"), **HOLD)

        assert (got.status, hop.end.ending) == (502, Ending.UPSTREAM_CUT)

    async def test_an_end_that_only_the_close_tells_proves_nothing_before_an_event(self):
        async def answer(asked):
            await asked.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hi\n\n")
            asked.close()

        got, hop = await exchanged(answer, **HOLD)
        assert (got.status, hop.end.ending) == (502, Ending.UPSTREAM_CUT)

    async def test_a_limit_that_passes_before_an_event_is_a_504(self):
        got, hop = await exchanged(only_a_head, first_event_timeout="0.2s", **HOLD, **ENFORCE)

        assert (got.status, hop.end.ending) == (504, Ending.TIMED_OUT_FIRST_EVENT)

    async def test_it_is_not_held_for_longer_than_asked(self):
        async with between(only_a_head, hold_head="0.2s") as (_, proxy), raw_client(proxy.port) as client:
            client.send(streamed(CHAT))
            assert (await client.head()).status == 200

    async def test_an_orderly_end_without_an_event_passes(self):
        got, _ = await exchanged(saying(b": hi\n\n"), **HOLD)

        assert (got.status, got.body, got.end) == (200, b": hi\n\n", WHOLE)

    async def test_what_passes_without_an_event_was_taken(self):
        got, hop = await exchanged(saying(PING, 0.05), streamed(MESSAGES), **HOLD)

        assert hop.traffic.bytes_out == len(got.body) == len(PING)
        assert hop.timeline.stamps[0].taken_ns is not None

    async def test_what_the_reader_does_not_take_was_not_taken(self):
        async def pinging(asked):
            await asked.send(streaming())
            await asked.chunk(PING * 6_000)
            await asked.wire.gone.wait()

        async with (
            between(pinging, hold_head="0.2s") as (_, proxy),
            raw_client(proxy.port, receive_bytes=4_096) as client,
        ):
            client.transport.pause_reading()
            client.send(streamed(MESSAGES))
            await asyncio.sleep(2 * WAIT_S)
            client.leave(by_reset=True)
            hop = await proxy.hop()

        assert hop.traffic.bytes_out == 0
        assert {stamp.taken_ns for stamp in hop.timeline.stamps} == {None}

    async def test_pings_are_not_looked_through_again_with_each_one(self, monkeypatch):
        looks = []
        stamps = Stamper.stamps
        monkeypatch.setattr(Stamper, "stamps", lambda self, **since: looks.append(1) or stamps(self, **since))
        got, _ = await exchanged(saying(*[PING, 0.01] * 10, DONE), streamed(MESSAGES), **HOLD)

        assert got.body == PING * 10 + DONE
        assert len(looks) <= 3  # one here, the others by the record

    async def test_an_error_of_mcp_is_the_answer(self):
        said = b'event: message\ndata: {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"unknown"}}\n\n'
        for path in ("/mcp", "/tools"):
            asked = post(path, b'{"jsonrpc":"2.0","id":1,"method":"x"}', JSON)
            got, _ = await exchanged(saying(said), asked, **HOLD)
            assert (got.status, got.body) == (200, said)

    async def test_half_a_surrogate_pair_in_an_error_does_no_harm(self):
        got, _ = await exchanged(saying(b'data: {"error":{"message":"gone \\ud800"}}\n\n'), **HOLD)

        assert got.status == 502
        assert "gone ?" in json.loads(got.body)["error"]["message"]

    async def test_a_request_that_will_never_be_whole_is_refused_as_without_a_head(self):
        async def early(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(streaming())
            await reader.read()
            writer.close()

        async with (
            await asyncio.start_server(early, "127.0.0.1", 0) as server,
            sidecar(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", **HOLD) as proxy,
            raw_client(proxy.port) as client,
        ):
            client.send(b"POST %s HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n" % CHAT.encode())
            await asyncio.sleep(0.1)
            client.send(b"zz\r\n")
            assert (await client.answer()).status == 400
            assert (await proxy.hop()).end.ending is Ending.REJECTED

    async def test_what_is_no_stream_is_not_held(self):
        async def answer(asked):
            await asked.send(simple(body=b"{}"))

        got, _ = await exchanged(answer, get("/v1/models"), **HOLD)
        assert got.body == b"{}"


async def test_digests_are_of_what_came_and_of_what_went():
    got, hop = await exchanged(saying(HELLO, DONE), digests="true")

    assert hop.digests.upstream == hop.digests.downstream == "sha256:" + sha256(got.body).hexdigest()


@pytest.mark.parametrize("end", ["close", None])
async def test_digests_tell_an_answer_of_our_own_from_what_came(end):
    said = b": hi\n\n" if end else ERROR
    got, hop = await exchanged(saying(said, 0.05, end=end) if end else saying(said), digests="true", **HOLD)

    assert got.status >= 500
    assert hop.digests.upstream == "sha256:" + sha256(said).hexdigest()
    assert hop.digests.downstream == "sha256:" + sha256(got.body).hexdigest()


async def test_they_have_what_went_before_the_answer():
    async def late(asked):
        await asyncio.sleep(WAIT_S)
        await asked.send(streaming() + chunked(HELLO, DONE))

    got, hop = await exchanged(late, digests="true", **EARLY)

    assert hop.digests.upstream == "sha256:" + sha256(HELLO + DONE).hexdigest()
    assert hop.digests.downstream == "sha256:" + sha256(got.body).hexdigest()


async def test_they_have_what_was_kept_back_and_let_go_once():
    got, hop = await exchanged(saying(b": hi\n\n", 0.05, HELLO, DONE), digests="true", **HOLD)

    assert hop.digests.upstream == hop.digests.downstream == "sha256:" + sha256(got.body).hexdigest()
