"""What an upstream can do wrong: the reader is told the truth, the record says who it was, nothing goes out twice."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from contextlib import ExitStack, asynccontextmanager

import pytest

from otel.hop import Ending, Phase, Side
from tests.faults import fault, report
from tests.support.processes import until
from tests.support.raw_peers import (
    CLOSED,
    CUT,
    RESET,
    WHOLE,
    asked_once,
    chunked,
    raw_client,
    raw_upstream,
    simple,
    streaming,
)
from tests.support.script import get, post, sidecar

CHAT = "/v1/chat/completions"
HELLO = b'data: {"id":"chatcmpl-1","model":"m","choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
ERROR = b'data: {"error":{"type":"server_error","code":"overloaded","message":"m"}}\n\n'
SETTLE_S = 0.05
"""For bytes to be read before the reset that would overtake them."""


@asynccontextmanager
async def between(answer, **options):
    async with raw_upstream(answer) as up, sidecar(up.url, **options) as proxy:
        yield up, proxy


def answering(*parts, end=None):
    """Send these parts; then `close` or `reset`, or keep the connection."""

    async def answer(asked):
        for part in parts:
            await asked.send(part)
        if end == "reset":
            await asyncio.sleep(SETTLE_S)
        if end is not None:
            getattr(asked, end)()

    return answer


async def exchanged(answer, sent=None, **options):
    """One request: what the client got, the record, and how often the upstream was asked."""
    async with between(answer, **options) as (up, proxy):
        got = await asked_once(proxy.port, sent or get(CHAT))
        return got, await proxy.hop(), up


# ------------------------------------------------------------------------------------------------- bodies that break


@fault(1, "never a last chunk; recorded as cut off by the upstream")
@report("R028", "a close on a chunk boundary")
@report("R033", "three ends that are none")
@pytest.mark.parametrize(
    ("rest", "content"),
    [
        pytest.param(b"", b"", id="after a whole chunk"),
        pytest.param(b"ff\r\ndata: x", b"data: x", id="within a chunk"),
        pytest.param(b"0\r\n", b"", id="within the last chunk"),
        pytest.param(b"f", b"", id="within a chunk's head"),
    ],
)
async def test_a_close_within_the_framing_is_never_a_clean_end(rest, content):
    got, hop, _ = await exchanged(answering(streaming(), b"%x\r\n%b\r\n" % (len(HELLO), HELLO), rest, end="close"))

    assert (got.status, bytes(got.body)) == (200, HELLO + content)
    assert got.end in {CUT, RESET}
    assert 0 not in got.chunks
    assert (hop.end.ending, hop.end.ended_by, hop.end.cut) == (Ending.UPSTREAM_CUT, Side.UPSTREAM, "fin")
    assert hop.end.framing_incomplete


@fault(2, "as a close, and what was lost is not made up; the cut is a reset")
@report("R032", "a hard reset after 12,328 bytes")
async def test_a_reset_within_the_body_is_a_reset_in_the_record():
    body = (HELLO * 200)[:12_328]
    parts = [streaming(), b"%x\r\n%b\r\n" % (len(body), body)]
    got, hop, _ = await exchanged(answering(*parts, end="reset"))

    assert bytes(got.body) == body
    assert got.end in {CUT, RESET}
    assert (hop.end.ending, hop.end.cut) == (Ending.UPSTREAM_CUT, "reset")
    assert hop.traffic.bytes_in == hop.traffic.bytes_out == 12_328
    assert hop.traffic.event_count == 12_328 // len(HELLO)
    assert hop.traffic.has_unterminated_tail


@fault(3, "the same length, fewer bytes, a close; how many are missing is recorded")
@report("R035", "a body that stops at 600 of 1,000 bytes")
@pytest.mark.parametrize(("length", "sent"), [(100, 99), (1_000, 600), (5, 0)])
async def test_a_short_body_stays_short(length, sent):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % length
    got, hop, _ = await exchanged(answering(head, b"x" * sent, end="close"))

    assert got.values("content-length") == [b"%d" % length]
    assert (bytes(got.body), got.values("transfer-encoding")) == (b"x" * sent, [])
    assert got.end in {CUT, RESET}
    assert (hop.end.ending, hop.end.ended_by, hop.end.cut) == (Ending.UPSTREAM_CUT, Side.UPSTREAM, "fin")
    assert hop.traffic.missing_bytes == length - sent


@fault(4, "bytes and clean end unchanged; recorded as without its terminal event")
@report("R029", "a regular end after 40 events and no [DONE]")
async def test_nothing_is_added_to_a_stream_that_ends_without_its_mark():
    got, hop, _ = await exchanged(answering(streaming() + chunked(*[HELLO] * 40)))

    assert (bytes(got.body), got.end) == (HELLO * 40, WHOLE)
    assert (hop.end.ending, hop.end.framing_incomplete) == (Ending.MISSING_TERMINAL, False)


@fault(5, "complete, though only the reader's leaving ended it; no stall")
async def test_a_stream_is_complete_with_its_terminal_event_though_the_connection_stays_open():
    async def answer(asked):
        await asked.send(streaming())
        await asked.chunk(HELLO + DONE)
        await asked.wire.gone.wait()

    async with between(answer, stall_after="150ms") as (up, proxy), raw_client(proxy.port, get(CHAT)) as client:
        await client.at_least(await client.head(), len(HELLO + DONE))
        await asyncio.sleep(0.5)
        client.leave()
        hop = await proxy.hop()
        await asyncio.wait_for(up.asked[0].wire.gone.wait(), 1)
        stall_count = proxy.sidecar.exchanges.stall_count

    assert (hop.end.ending, stall_count) == (Ending.COMPLETE, 0)


@fault(6, "complete, with the framing noted as incomplete")
async def test_a_reset_behind_the_terminal_event_does_not_undo_it():
    parts = [streaming(), b"%x\r\n%b\r\n" % (len(HELLO + DONE), HELLO + DONE)]
    got, hop, _ = await exchanged(answering(*parts, end="reset"))

    assert bytes(got.body) == HELLO + DONE
    assert got.end in {CUT, RESET}
    assert (hop.end.ending, hop.end.framing_incomplete) == (Ending.COMPLETE, True)


@fault(7, "an error in band, though a terminal event follows")
async def test_an_error_event_outweighs_the_terminal_event_behind_it():
    got, hop, _ = await exchanged(answering(streaming() + chunked(HELLO, ERROR, DONE)))

    assert (bytes(got.body), got.end) == (HELLO + ERROR + DONE, WHOLE)
    assert hop.end.ending is Ending.ERROR_EVENT


@report("R039", "a last event with and without its blank line")
@pytest.mark.parametrize("end", [b"data: [DONE]\n\n", b"data: [DONE]\n", b"data: [DONE]"])
async def test_a_terminal_event_without_its_blank_line_is_one_and_is_noted(end):
    got, hop, _ = await exchanged(answering(streaming() + chunked(HELLO, end)))

    assert (bytes(got.body), got.end) == (HELLO + end, WHOLE)
    assert hop.end.ending is Ending.COMPLETE
    assert hop.traffic.has_unterminated_tail is not end.endswith(b"\n\n")


@report("R042", "an unfinished last event is not finished by us")
async def test_an_unfinished_event_is_passed_on_unfinished():
    tail = b'event: response.output_item.done\ndata: {"type":"x"}'
    got, hop, _ = await exchanged(answering(streaming() + chunked(HELLO, tail)))

    assert (bytes(got.body), got.end) == (HELLO + tail, WHOLE)
    assert (hop.end.ending, hop.traffic.has_unterminated_tail) == (Ending.MISSING_TERMINAL, True)


@report("R063", "no API's mark: framing decides, and a close proves nothing")
@pytest.mark.parametrize(
    ("head", "body", "end", "ending", "got_end"),
    [
        (streaming(), chunked(b"data: a\n\n"), None, Ending.COMPLETE, {WHOLE}),
        (streaming(), b"9\r\ndata: a\n\n\r\n", "close", Ending.UPSTREAM_CUT, {CUT, RESET}),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n",
            b"data: a\n\n",
            "close",
            Ending.UNKNOWN_END,
            {WHOLE},
        ),
    ],
    ids=["chunked", "cut", "close"],
)
async def test_a_stream_without_any_mark_is_judged_by_its_framing(head, body, end, ending, got_end):
    got, hop, _ = await exchanged(answering(head + body, end=end), get("/generate"))

    assert bytes(got.body) == b"data: a\n\n"
    assert got.end in got_end
    assert hop.end.ending is ending


# ---------------------------------------------------------------------------------------------------- no answer at all


@fault(11, "504 after the limit, and no 200 is invented")
async def test_an_upstream_that_never_answers_is_a_504():
    async def answer(asked):
        await asked.wire.gone.wait()

    async with between(answer, answer_timeout="300ms") as (up, proxy):
        began = asyncio.get_running_loop().time()
        got = await asked_once(proxy.port, post(CHAT, b"{}"))
        took_s = asyncio.get_running_loop().time() - began
        hop = await proxy.hop()
        await asyncio.wait_for(up.asked[0].wire.gone.wait(), 1)

    assert (got.status, got.end) == (504, WHOLE)
    assert json.loads(got.body)["error"]["type"] == "upstream_answer_timeout"
    assert 0.25 < took_s < 1.5
    assert (hop.end.ending, hop.end.ended_by, hop.end.phase) == (
        Ending.TIMED_OUT_FIRST_EVENT,
        Side.SIDECAR,
        Phase.HEADERS,
    )
    assert hop.exchange.error_type == "upstream_answer_timeout"


@fault(11, "an answer that is late but within the limit passes")
async def test_an_answer_within_its_limit_passes():
    async def answer(asked):
        await asyncio.sleep(0.4)
        await asked.send(simple())

    got, hop, _ = await exchanged(answer, answer_timeout="2s")

    assert (got.status, hop.end.ending) == (200, Ending.COMPLETE)


@fault(12, "connect refused: 502 at once")
async def test_a_refused_connection_is_a_502_at_once():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    async with sidecar(f"http://127.0.0.1:{port}", connect_timeout="5s") as proxy:
        began = asyncio.get_running_loop().time()
        got = await asked_once(proxy.port, get(CHAT))
        took_s = asyncio.get_running_loop().time() - began
        hop = await proxy.hop()

    assert (got.status, hop.end.ending, hop.end.phase) == (502, Ending.REFUSED, Phase.CONNECT)
    assert took_s < 1


def full_server(held):
    """A server whose queue is full: a further SYN gets no answer."""
    server = held.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
    for _ in range(4):
        filler = held.enter_context(socket.socket())
        filler.setblocking(False)
        filler.connect_ex(server.getsockname())
    return server


@fault(12, "no answer to the SYN: 504 after the connect timeout")
async def test_a_connection_that_is_not_even_refused_is_a_504():
    with ExitStack() as held:
        server = full_server(held)
        async with sidecar(f"http://127.0.0.1:{server.getsockname()[1]}", connect_timeout="200ms") as proxy:
            got = await asked_once(proxy.port, get(CHAT))
            hop = await proxy.hop()

    assert (got.status, hop.end.ending, hop.end.phase) == (504, Ending.REFUSED, Phase.CONNECT)
    assert hop.exchange.error_type == "upstream_connect_timeout"


@fault(12, "the time in our own queue is none of the connect timeout")
async def test_waiting_for_a_place_does_not_use_up_the_time_to_connect():
    async def answer(asked):
        await asyncio.sleep(0.5)
        await asked.send(simple())

    async with between(answer, connect_timeout="200ms", max_streams="1", queue_timeout="5s") as (_, proxy):
        got = await asyncio.gather(*(asked_once(proxy.port, get(CHAT)) for _ in range(2)))
        hops = await proxy.hops(2)

    assert [each.status for each in got] == [200, 200]
    assert {hop.end.ending for hop in hops} == {Ending.COMPLETE}


@fault(36, "no breaker: each request is tried, fails at once, and the first that can is served")
async def test_an_upstream_that_fails_again_and_again_is_tried_every_time():
    statuses = []
    async with between(answering(end="close")) as (up, proxy):
        for _ in range(6):
            began = asyncio.get_running_loop().time()
            statuses.append((await asked_once(proxy.port, post(CHAT, b"{}"))).status)
            assert asyncio.get_running_loop().time() - began < 1
        asked_count, up.answer = len(up.asked), answering(simple())
        statuses.append((await asked_once(proxy.port, post(CHAT, b"{}"))).status)

    assert statuses == [502] * 6 + [200]
    assert asked_count == 6


@fault(36, "clients that leave say nothing about the upstream")
async def test_clients_that_leave_do_not_count_against_the_upstream():
    async def answer(asked):
        if asked.target == "/leave":
            await asked.wire.gone.wait()
        else:
            await asked.send(simple())

    async with between(answer) as (up, proxy):
        for number in range(6):
            async with raw_client(proxy.port, get("/leave")) as client:
                await until(lambda count=number + 1: len(up.asked) == count, "it is asked")
                client.leave()
        got = await asked_once(proxy.port, get("/stay"))
        hops = await proxy.hops(7)

    assert got.status == 200
    assert [hop.end.ending for hop in hops].count(Ending.CLIENT_DISCONNECT) == 6


# --------------------------------------------------------------------------------------- answers that are errors


@fault(26, "status, fields and body unchanged")
@report("R026", "a refusal before any byte is a refusal for the reader too")
@pytest.mark.parametrize(
    ("status", "fields"),
    [
        ("429 Too Many Requests", ["Retry-After: 7", "Content-Type: application/json"]),
        ("400 Bad Request", ["Content-Type: application/json"]),
        ("503 Service Unavailable", ["Retry-After: Wed, 21 Oct 2065 07:28:00 GMT", "Content-Type: application/json"]),
        ("500 Oops", ["Content-Type: text/event-stream"]),
        ("307 Temporary Redirect", ["Location: http://elsewhere/x"]),
        ("401 Unauthorized", ["WWW-Authenticate: Bearer"]),
    ],
)
async def test_an_answer_that_is_no_success_passes_unchanged(status, fields):
    body = b'{"error":{"message":"slow down"}}'
    got, hop, up = await exchanged(answering(simple(status, body, *fields)), post(CHAT, b"{}"))

    assert (got.status, got.reason) == (int(status[:3]), status[4:].encode())
    assert (bytes(got.body), got.end) == (body, WHOLE)
    for line in fields:
        name, _, value = line.partition(": ")
        assert got.values(name) == [value.encode()]
    assert (len(up.asked), hop.exchange.status, hop.end.ending) == (1, int(status[:3]), Ending.COMPLETE)


# ------------------------------------------------------------------------------------------- nothing goes out twice


@fault(27, "POST sent once, 502")
@report("R128", "a connection that dies under a request that was written")
@pytest.mark.parametrize("end", ["close", "reset"])
async def test_a_post_on_a_used_connection_that_dies_is_sent_once(end):
    async def answer(asked):
        if len(up.asked) == 1:
            await asked.send(simple())
        else:
            getattr(asked, end)()

    async with between(answer) as (up, proxy), raw_client(proxy.port) as client:
        client.send(get("/first"))
        first = await client.answer()
        client.send(post(CHAT, b'{"id":1}'))
        second = await client.answer()
        hops = await proxy.hops(2)

    assert (first.status, second.status) == (200, 502)
    assert [asked.connection for asked in up.asked] == [0, 0]
    assert hops[1].end.ending is Ending.UPSTREAM_CUT


@fault(27, "GET without a body may be sent once more, on a new connection")
async def test_a_get_on_a_used_connection_that_dies_is_sent_once_more():
    async def answer(asked):
        if len(up.asked) == 2:
            asked.close()
        else:
            await asked.send(simple())

    async with between(answer) as (up, proxy):
        statuses = [(await asked_once(proxy.port, get("/x"))).status for _ in range(2)]
        hops = await proxy.hops(2)

    assert statuses == [200, 200]
    assert [asked.connection for asked in up.asked] == [0, 0, 1]
    assert [hop.end.ending for hop in hops] == [Ending.COMPLETE] * 2


@fault(28, "not even a GET is sent again once a byte of its answer has come")
@report("R127", "a reset that overtakes what was sent")
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("part", [b"H", b"HTTP/1.1 200 OK\r\n", streaming() + b"5\r\nhello\r\n"])
async def test_nothing_is_sent_again_behind_the_first_byte_of_an_answer(method, part):
    async def answer(asked):
        if len(up.asked) == 1:
            await asked.send(simple())
        else:
            await asked.send(part)
            await asyncio.sleep(SETTLE_S)
            asked.reset()

    async with between(answer) as (up, proxy):
        await asked_once(proxy.port, get("/first"))
        got = await asked_once(proxy.port, get(CHAT) if method == "GET" else post(CHAT, b"{}"))

    assert len(up.asked) == 2
    assert got.status == (200 if b"hello" in part else 502)
    assert not (got.status == 200 and got.is_clean)


@fault(29, "no request meets the close of an idle connection")
@report("R113", "an upstream that keeps idle connections for less time than we")
@report("R038", "an idle connection that is reaped is nobody's stream")
async def test_an_upstream_that_closes_idle_connections_loses_no_request():
    idle_s, count = 0.04, 150

    def close_if_idle(asked):
        # Not while a request lies in our kernel: that race is lost by every proxy, and would be a test of the machine.
        latest = next(each for each in reversed(up.asked) if each.connection == asked.connection)
        if latest is asked and asked.wire.is_open and not asked.wire.has_unread:
            asked.close()

    async def answer(asked):
        await asked.send(simple())
        asyncio.get_running_loop().call_later(idle_s, close_if_idle, asked)

    async with between(answer) as (up, proxy), raw_client(proxy.port) as client:
        statuses = []
        for number in range(count):
            client.send(post(CHAT, b"{}"))
            statuses.append((await client.answer()).status)
            await asyncio.sleep(idle_s * (0.9 + 0.2 * (number % 11) / 10))
        hops = await proxy.hops(count)

    assert statuses == [200] * count
    assert len(up.asked) == len(hops) == count


@report("R031", "other requests, failing ones too, do nothing to a stream that runs")
async def test_a_running_stream_does_not_feel_what_becomes_of_others():
    async def answer(asked):
        if asked.target != "/stream":
            asked.reset()
            return
        await asked.send(streaming())
        for _ in range(40):
            await asked.chunk(HELLO)
            await asyncio.sleep(0.01)
        await asked.send(b"0\r\n\r\n")

    async with between(answer) as (_, proxy), raw_client(proxy.port, get("/stream")) as client:
        head = await client.head()
        others = [await asked_once(proxy.port, post("/fails", b"{}")) for _ in range(20)]
        got = await client.rest(head)

    assert {other.status for other in others} == {502}
    assert (bytes(got.body), got.end) == (HELLO * 40, WHOLE)


# ---------------------------------------------------------------------------------------- bodies that end by a close


@report("R104", "bodies without a length: to the close, and never from a connection used again")
@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\nConnection: keep-alive\r\n\r\n",
    ],
)
@pytest.mark.parametrize(
    ("version", "body", "end", "ending"),
    [
        ("1.1", HELLO + DONE, WHOLE, Ending.COMPLETE),
        ("1.0", HELLO + DONE, CLOSED, Ending.COMPLETE),
        ("1.1", HELLO, CUT, Ending.MISSING_TERMINAL),
        ("1.0", HELLO, RESET, Ending.MISSING_TERMINAL),
    ],
)
async def test_a_body_without_a_length_is_read_to_the_close(head, version, body, end, ending):
    sent = b"GET %b HTTP/%b\r\nHost: h\r\n\r\n" % (CHAT.encode(), version.encode())
    async with between(answering(head, body, end="close")) as (up, proxy):
        got = await asked_once(proxy.port, sent)
        await asked_once(proxy.port, sent)
        hop = await proxy.hop()

    assert bytes(got.body) == body
    assert got.end == end
    assert hop.end.ending is ending
    assert [asked.connection for asked in up.asked] == [0, 1]


@report("R104", "a reset where only a close could end it is no end")
async def test_a_reset_in_place_of_the_close_is_no_clean_end():
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    got, hop, _ = await exchanged(answering(head, HELLO, end="reset"))

    assert bytes(got.body) == HELLO
    assert got.end in {CUT, RESET}
    assert (hop.end.ending, hop.end.cut) == (Ending.UPSTREAM_CUT, "reset")


def test_a_reset_of_these_peers_is_one():
    """What the tests above rest on: a peer that `reset`s is seen as such."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        accepted.close()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
