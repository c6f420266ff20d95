"""One exchange through a whole sidecar, over real sockets: what upstream does, what the client gets, what is kept."""

import asyncio
import json
import random
import socket

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel.hop import Ending, EventClass, Phase, Side, State
from sidecar.clock import SystemClock
from tests.support.exchanges import CHAT, DONE, ERROR, HELLO, SSE, exchange
from tests.support.script import (
    ask,
    chunk,
    cut,
    flood,
    get,
    hang,
    head,
    last_chunk,
    parsed,
    post,
    request,
    reset,
    send,
    sidecar,
    upstream,
    wait,
    wait_for,
)

FAULTS = {
    "whole": ([head(200, SSE), chunk(HELLO), chunk(DONE), last_chunk()], Ending.COMPLETE, Phase.DRAIN, True),
    "no terminal event": ([head(200, SSE), chunk(HELLO), last_chunk()], Ending.MISSING_TERMINAL, Phase.DRAIN, True),
    "closed between chunks": ([head(200, SSE), chunk(HELLO), cut()], Ending.UPSTREAM_CUT, Phase.EVENTS, False),
    "closed within a chunk": (
        [head(200, SSE), send(b"ff\r\ndata: x"), cut()],
        Ending.UPSTREAM_CUT,
        Phase.FIRST_EVENT,
        False,
    ),
    "reset": ([head(200, SSE), chunk(HELLO), reset()], Ending.UPSTREAM_CUT, Phase.EVENTS, False),
    "bad chunk": (
        [head(200, SSE), chunk(HELLO), wait(0.05), send(b"zz\r\n")],
        Ending.UPSTREAM_CUT,
        Phase.EVENTS,
        False,
    ),
    "short body": (
        [head(200, "application/json", "Content-Length: 9", chunked=False), send(b"{}"), cut()],
        Ending.UPSTREAM_CUT,
        Phase.EVENTS,
        False,
    ),
    "terminal event, then cut": ([head(200, SSE), chunk(DONE), cut()], Ending.COMPLETE, Phase.TERMINAL, False),
    "error event, then the end": (
        [head(200, SSE), chunk(ERROR + DONE), last_chunk()],
        Ending.ERROR_EVENT,
        Phase.DRAIN,
        True,
    ),
    "error event, then cut": ([head(200, SSE), chunk(ERROR), cut()], Ending.ERROR_EVENT, Phase.EVENTS, False),
    "an error as JSON": (
        [head(429, "application/json", "Content-Length: 2", "Retry-After: 3", chunked=False), send(b"{}")],
        Ending.COMPLETE,
        Phase.DRAIN,
        True,
    ),
    "ended by its connection": (
        [head(200, "text/plain", chunked=False), send(b"abc"), cut()],
        Ending.UNKNOWN_END,
        Phase.DRAIN,
        True,
    ),
    "ended by a reset": (
        [head(200, "text/plain", chunked=False), send(b"abc"), reset()],
        Ending.UPSTREAM_CUT,
        Phase.EVENTS,
        False,
    ),
    "a stream ended by its connection": (
        [head(200, SSE, chunked=False), send(HELLO + DONE), cut()],
        Ending.COMPLETE,
        Phase.DRAIN,
        True,
    ),
}


@pytest.mark.parametrize(("steps", "ending", "phase", "is_clean"), FAULTS.values(), ids=FAULTS)
async def test_each_fault_has_its_ending_and_no_cut_looks_clean(steps, ending, phase, is_clean):
    reply, hop, _ = await exchange(*steps)

    assert (hop.end.ending, hop.end.ended_by, hop.end.phase) == (ending, Side.UPSTREAM, phase)
    assert reply.is_clean is is_clean
    assert hop.end.framing_incomplete is not is_clean


@pytest.mark.parametrize(
    ("steps", "status", "error"),
    [
        ([cut()], 502, "upstream_broke_off"),
        ([send(b"SSH-2.0-OpenSSH\r\n")], 502, "upstream_protocol"),
        ([head(200, SSE, "Transfer-Encoding: foo", chunked=False), cut()], 502, "upstream_protocol"),
        ([head(200, SSE, "Transfer-Encoding: chunked")], 502, "upstream_protocol"),
        ([head(101, None, "Upgrade: x", "Connection: upgrade", chunked=False)], 502, "upstream_protocol"),
        ([head(200, SSE, "X-Bad: a\x01b"), last_chunk()], 502, "upstream_protocol"),
    ],
)
async def test_an_upstream_without_a_usable_head_is_a_502_that_names_the_hop(steps, status, error):
    reply, hop, _ = await exchange(*steps, sent=post(CHAT, b"{}"))

    assert reply.status == status
    assert json.loads(reply.body)["error"]["type"] == error
    assert "hop here" in json.loads(reply.body)["error"]["message"]
    assert hop.end.ending is Ending.UPSTREAM_CUT
    assert (hop.exchange.status, hop.exchange.error_type) == (status, error)


@pytest.mark.parametrize(("version", "spoken"), [("0.9", b"1.0"), ("2.0", b"1.1")])
async def test_a_version_that_is_not_spoken_here_is_refused_in_one_that_is(version, spoken):
    async with sidecar("http://127.0.0.1:1") as proxy:
        reply = await ask(proxy.port, request("GET", "/", version=version))

    assert reply.head.startswith(b"HTTP/%s 505 HTTP Version Not Supported\r\n" % spoken)


def ended_line(caplog):
    (line,) = [record for record in caplog.records if record.message == "exchange ended"]
    return line


async def test_the_line_of_a_failed_connection_says_why_and_where_it_went(caplog):
    caplog.set_level("INFO")
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    async with sidecar(f"http://127.0.0.1:{port}/secret") as proxy:
        reply = await ask(proxy.port, get())
        await proxy.hop()

    line = ended_line(caplog)
    assert (line.error_type, line.error_detail) == ("upstream_refused", "connection refused")
    assert (line.upstream, line.listener) == (f"127.0.0.1:{port}", "listen")
    assert line.queued_ms < 40
    assert reply.head.startswith(b"HTTP/1.1 502 Bad Gateway\r\n")


async def test_a_name_that_nobody_knows_is_a_failure_of_its_own(caplog):
    caplog.set_level("INFO")
    async with sidecar("http://nobody.invalid:1") as proxy:
        reply = await ask(proxy.port, get())
        await proxy.hop()

    assert (reply.status, json.loads(reply.body)["error"]["type"]) == (502, "upstream_name")
    assert ended_line(caplog).error_detail
    assert ended_line(caplog).upstream == "nobody.invalid:1"


@pytest.mark.parametrize(("options", "reason"), [({"max_queue": "0"}, "queue_full"), ({}, "queue_timeout")])
async def test_who_gets_no_place_hears_whether_the_line_was_full_or_too_slow(options, reason, caplog):
    caplog.set_level("INFO")
    async with upstream(head(200, SSE), chunk(HELLO), hang()) as up:
        async with sidecar(up.url, max_streams="1", queue_timeout="50ms", **options) as proxy:
            _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            writer.write(get())
            while not up.exchanges:
                await asyncio.sleep(0.005)
            reply = await ask(proxy.port, get())
            writer.close()
        told = [line for line in caplog.records if getattr(line, "error_type", None) == reason]

    assert (reply.status, json.loads(reply.body)["error"]["type"]) == (503, reason)
    assert [line.queued_ms >= 40 for line in told] == [reason == "queue_timeout"]


async def test_nobody_listening_upstream_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    async with sidecar(f"http://127.0.0.1:{port}") as proxy:
        reply = await ask(proxy.port, get())
        hop = await proxy.hop()

    assert (reply.status, hop.end.ending, hop.end.phase) == (502, Ending.REFUSED, Phase.CONNECT)


async def test_an_upstream_that_cannot_be_reached_in_time_is_a_504():
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        fillers = [socket.socket() for _ in range(4)]  # the queue is full: a further SYN gets no answer
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        async with sidecar(f"http://127.0.0.1:{full.getsockname()[1]}", connect_timeout="200ms") as proxy:
            reply = await ask(proxy.port, get())
            hop = await proxy.hop()
        for filler in fillers:
            filler.close()

    assert (reply.status, hop.end.ending) == (504, Ending.REFUSED)
    assert hop.exchange.error_type == "upstream_connect_timeout"


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(max_size=70_000), seed=st.integers(0, 2**32), is_chunked=st.booleans())
def test_any_body_in_any_pieces_arrives_byte_for_byte(body, seed, is_chunked):
    rng = random.Random(seed)
    cuts = sorted(rng.randrange(len(body) + 1) for _ in range(rng.randrange(6)))
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    if is_chunked:
        steps = [head(200, SSE), *(chunk(piece) for piece in pieces if piece), last_chunk()]
    else:
        steps = [head(200, "x/y", f"Content-Length: {len(body)}", chunked=False), *map(send, pieces)]

    reply, hop, _ = asyncio.run(exchange(*steps))

    assert reply.body == body
    assert reply.is_clean
    assert hop.traffic.bytes_in == hop.traffic.bytes_out == len(body)


async def test_nothing_is_added_on_the_way_down_but_the_request_id():
    steps = [head(201, None, "Content-Length: 2", "set-cookie: a=1", "Set-Cookie: b=2", chunked=False), send(b"ok")]
    reply, _, _ = await exchange(*steps)

    lines = reply.head.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 201 Reason"
    assert lines[1:4] == [b"Content-Length: 2", b"set-cookie: a=1", b"Set-Cookie: b=2"]
    assert [line.partition(b":")[0] for line in lines[4:]] == [b"X-Request-Id"]


async def test_the_upstreams_own_server_and_date_pass():
    steps = [head(200, "a/b", "Server: theirs", "Date: Thu, 01 Jan 1970 00:00:00 GMT"), last_chunk()]
    reply, _, _ = await exchange(*steps)

    assert reply.field("Server") == ["theirs"]
    assert reply.field("Date") == ["Thu, 01 Jan 1970 00:00:00 GMT"]


@pytest.mark.parametrize("fields", [["Content-Length: 100"], ["Transfer-Encoding: chunked"]])
@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 304)])
async def test_a_head_without_a_body_passes_with_its_length(method, status, fields):
    reply, hop, _ = await exchange(head(status, "a/b", *fields, chunked=False), sent=request(method, "/x"))

    assert reply.status == status
    assert reply.field("Content-Length") == [f.split()[1] for f in fields if f.startswith("Content")]
    assert (hop.end.ending, hop.exchange.framing) == (Ending.COMPLETE, "none")


async def test_a_204_passes():
    reply, hop, _ = await exchange(head(204, chunked=False))

    assert (reply.status, reply.body, hop.end.ending) == (204, b"", Ending.COMPLETE)


async def test_redirects_and_cookies_are_the_clients_business():
    steps = [head(302, None, "Location: /y", "Set-Cookie: a=1", "Content-Length: 0", chunked=False)]
    async with upstream(*steps) as up, sidecar(up.url) as proxy:
        first = await ask(proxy.port, get("/x"))
        await ask(proxy.port, get("/y"))

    assert (first.status, first.field("Location")) == (302, ["/y"])
    assert up.exchanges[1].field("Cookie") == []


async def test_trailers_pass():
    steps = [head(200, SSE, "Trailer: X-Sum"), chunk(HELLO), send(b"0\r\nX-Sum: abc\r\n\r\n")]
    reply, _, _ = await exchange(*steps, sent=get())

    assert reply.field("Trailer") == ["X-Sum"]
    assert reply.raw.endswith(b"0\r\nX-Sum: abc\r\n\r\n")


async def test_field_bytes_that_are_no_utf_8_pass_both_ways():
    field = b"X-Raw: caf\xe9\r\n"
    async with (
        upstream(send(b"HTTP/1.1 200 OK\r\n" + field + b"Content-Length: 0\r\n\r\n")) as up,
        sidecar(up.url) as proxy,
    ):
        reply = await ask(proxy.port, b"GET /x HTTP/1.1\r\nHost: h\r\n" + field + b"\r\n")

    assert field in up.exchanges[0].head
    assert field in reply.raw


async def test_a_head_of_12_kb_passes_both_ways():
    long = "X-Long: " + "a" * 12_000
    reply, _, asked = await exchange(head(200, "a/b", long), last_chunk(), sent=get("/x", long))

    assert len(asked[0].field("X-Long")[0]) == len(reply.field("X-Long")[0]) == 12_000


async def test_a_head_of_70_kb_is_refused_cleanly():
    async with upstream(head(200, "a/b"), last_chunk()) as up, sidecar(up.url) as proxy:
        reply = await ask(proxy.port, get("/x", "X-Long: " + "a" * 70_000))

    assert reply.status in {400, 431}
    assert not up.exchanges


async def test_a_client_of_http_1_0_gets_the_body_until_the_close():
    reply, _, _ = await exchange(
        head(200, SSE), chunk(HELLO), last_chunk(), sent=request("GET", "/x", "Connection: keep-alive", version="1.0")
    )

    assert (reply.is_clean, reply.body, reply.is_reset) == (None, HELLO, False)


async def test_a_cut_before_a_client_of_http_1_0_is_a_reset():
    reply, hop, _ = await exchange(
        head(200, SSE), chunk(HELLO), wait(0.05), cut(), sent=request("GET", "/x", version="1.0")
    )

    assert reply.is_reset
    assert hop.end.ending is Ending.UPSTREAM_CUT


async def test_both_connections_are_used_again():
    async with upstream(head(200, "a/b"), last_chunk()) as up, sidecar(up.url) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        for _ in range(3):
            writer.write(get("/x"))
            await reader.readuntil(b"0\r\n\r\n")
        writer.close()

    assert len({each.writer for each in up.exchanges}) == 1


async def test_what_had_arrived_before_a_cut_is_delivered_to_a_slow_reader():
    body = bytes(random.Random(1).randbytes(200_000))
    async with upstream(head(200, "a/b"), chunk(body), cut()) as up, sidecar(up.url) as proxy:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.connect(("127.0.0.1", proxy.port))
        client.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=client, limit=2_048)
        writer.write(get("/x"))
        await asyncio.wait_for(up.closed.wait(), 5)
        await asyncio.sleep(0.1)
        raw = await reader.read()
        writer.close()
        hop = await proxy.hop()

    assert parsed(raw).body == body
    assert not parsed(raw).is_clean
    assert hop.end.ending is Ending.UPSTREAM_CUT
    assert hop.traffic.bytes_out == len(body)


async def test_the_moments_stand_in_the_order_in_which_they_came():
    steps = [wait(0.05), head(200, SSE), wait(0.05), chunk(HELLO), wait(0.05), chunk(DONE), last_chunk()]
    _, hop, _ = await exchange(*steps, sent=post(CHAT, b"{}"))

    moments, stamps = hop.moments, hop.timeline.stamps
    assert 0 <= moments.request_forwarded_ns < moments.headers_received_ns - 40e6
    assert moments.headers_received_ns < stamps[0].arrived_ns - 40e6 < stamps[1].arrived_ns - 80e6
    assert stamps[1].arrived_ns <= moments.upstream_ended_ns <= moments.downstream_ended_ns <= moments.closed_ns
    assert [stamp.event_class for stamp in stamps] == [EventClass.CONTENT, EventClass.TERMINAL]
    assert all(stamp.taken_ns - stamp.arrived_ns < 20e6 for stamp in stamps)


async def test_an_event_is_passed_on_at_once():
    release = asyncio.Event()
    async with upstream(head(200, SSE), chunk(HELLO), wait_for(release), last_chunk()) as up, sidecar(up.url) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(get(CHAT))
        async with asyncio.timeout(2):
            await reader.readuntil(HELLO)
        release.set()
        await reader.readuntil(b"0\r\n\r\n")
        writer.close()


async def test_a_reader_that_takes_nothing_blocks_us_and_that_is_recorded():
    async with upstream(head(200, "a/b"), flood(b"4000\r\n" + bytes(16_384) + b"\r\n")) as up, sidecar(up.url) as proxy:
        client = socket.create_connection(("127.0.0.1", proxy.port))
        client.sendall(get("/x"))
        await asyncio.sleep(0.5)
        (live,) = proxy.sidecar.exchanges.running()
        glance = live.recorder.glance(SystemClock().monotonic_ns())
        in_kernel_bytes = live.writer.output_size - live.connection.buffered_bytes
        stamper = live.recorder.seen.stamper
        assert stamper.acked_count(in_kernel_bytes) == sum(each.taken_ns is not None for each in stamper.stamps())
        assert in_kernel_bytes < live.writer.output_size
        client.close()
        hop = await proxy.hop()

    assert glance["is_blocked"]
    assert glance["silent_s"] > 0.25
    assert hop.end.ending is Ending.CLIENT_DISCONNECT
    assert hop.timeline.blocked[-1].end_ns - hop.timeline.blocked[-1].start_ns > 0.25e9
    assert hop.timeline.blocked[-1].unread_bytes > 20_000
    assert hop.timeline.window_peak_bytes > 0
    assert hop.timeline.samples[-1].unsent_bytes > 0
    assert hop.timeline.stamps[-1].taken_ns is None
    assert hop.traffic.bytes_in > hop.traffic.bytes_out


async def test_a_stall_is_reported_while_it_lasts_and_the_final_record_has_all():
    release = asyncio.Event()
    steps = [head(200, SSE), chunk(HELLO), wait_for(release), chunk(DONE), last_chunk()]
    async with upstream(*steps) as up, sidecar(up.url, stall_after="150ms") as proxy:
        asking = asyncio.ensure_future(ask(proxy.port, get(CHAT)))
        (segment,) = await proxy.hops(state=State.OPEN)
        await asyncio.sleep(0.35)  # the silence doubles: it is told again
        release.set()
        await asking
        hop = await proxy.hop()
        segments = await proxy.hops(state=State.OPEN)

    assert 1 < len(segments) <= 3
    assert (segment.segment_index, len(segment.timeline.stamps), segment.end) == (0, 1, None)
    assert segment.parent_span_id == hop.span_id != segment.span_id
    assert (hop.segment_index, len(hop.timeline.stamps)) == (len(segments), 2)


async def test_a_long_stream_is_reported_every_4096_events():
    piece = HELLO * 100
    steps = [head(200, SSE), *[chunk(piece)] * 50, chunk(DONE), last_chunk()]
    async with upstream(*steps) as up, sidecar(up.url) as proxy:
        await ask(proxy.port, get(CHAT))
        hop = await proxy.hop()
        (segment,) = await proxy.hops(state=State.OPEN)

    assert 4_096 <= len(segment.timeline.stamps) < 4_800, "with all that came in one read"
    assert hop.traffic.event_count == len(hop.timeline.stamps) == 5_001


@pytest.mark.parametrize("steps", [[hang()], [head(200, SSE), hang()], [head(200, SSE), chunk(HELLO), hang()]])
async def test_a_reader_that_leaves_ends_the_upstream_within_a_second_while_nothing_flows(steps):
    async with upstream(*steps) as up, sidecar(up.url) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(post(CHAT, b"{}"))
        if len(steps) > 1:
            await reader.read(100)
        while not up.exchanges:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        writer.close()
        async with asyncio.timeout(1):
            await up.closed.wait()
        hop = await proxy.hop()

    assert (hop.end.ending, hop.end.ended_by) == (Ending.CLIENT_DISCONNECT, Side.DOWNSTREAM)
    assert hop.end.phase is [Phase.HEADERS, Phase.FIRST_EVENT, Phase.EVENTS][len(steps) - 1]
    assert hop.moments.client_left_ns <= hop.moments.upstream_closed_ns
    assert not hop.end.framing_incomplete
    assert hop.end.idle_ns >= 40e6


async def test_events_that_come_when_the_reader_has_left_are_wasted():
    body = HELLO * 2_000
    async with upstream(head(200, SSE), chunk(body), hang()) as up, sidecar(up.url) as proxy:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.connect(("127.0.0.1", proxy.port))
        client.sendall(get(CHAT))
        await asyncio.sleep(0.3)
        client.close()
        hop = await proxy.hop()

    assert hop.traffic.wasted_count > 0
    assert hop.end.ending is Ending.CLIENT_DISCONNECT
    assert all(stamp.taken_ns is None for stamp in hop.timeline.stamps[-hop.traffic.wasted_count :])


async def test_a_reader_that_leaves_before_a_refusal_is_recorded_as_gone():
    async with upstream(wait(0.1), cut()) as up, sidecar(up.url) as proxy:
        _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(post(CHAT, b"{}"))
        await asyncio.sleep(0.05)
        writer.transport.abort()
        hop = await proxy.hop()

    assert hop.end.ending is Ending.CLIENT_DISCONNECT


async def test_a_426_keeps_the_upgrade_that_it_asks_for():
    steps = [head(426, "a/b", "Upgrade: websocket", "Connection: Upgrade"), last_chunk()]
    reply, _, _ = await exchange(*steps, sent=get())

    assert (reply.status, reply.field("Upgrade"), reply.field("Connection")) == (426, ["websocket"], ["Upgrade"])


async def test_a_clients_broken_upload_beside_a_running_answer_is_the_clients():
    is_broken = asyncio.Event()
    steps = [head(200, SSE), chunk(HELLO), wait_for(is_broken), hang()]
    async with upstream(*steps, reads_body=False) as up, sidecar(up.url) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(request("POST", CHAT, "Transfer-Encoding: chunked", body=b"1\r\n{\r\n"))
        await reader.readuntil(HELLO)
        writer.write(b"zz\r\n")
        rest = await reader.read()
        is_broken.set()
        hop = await proxy.hop()
        writer.close()

    assert b"0\r\n\r\n" not in rest
    assert (hop.end.ending, hop.end.ended_by, hop.exchange.error_type) == (Ending.REJECTED, Side.SIDECAR, "bad_request")


async def test_our_own_mistake_in_asking_is_counted_and_told(monkeypatch, caplog):
    monkeypatch.setattr("sidecar.upstream.connection.UpstreamConnection.exchange", None)
    async with upstream(head(200, "a/b"), last_chunk()) as up, sidecar(up.url) as proxy:
        reply = await ask(proxy.port, get())
        await proxy.hop()

        assert (reply.status, proxy.sidecar.exchanges.relay_failure_count) == (500, 1)
    assert "exchange lost" in caplog.text


async def test_rate_limits_that_a_head_tells_are_recorded_as_numbers():
    _, hop, _ = await exchange(head(200, SSE, "x-ratelimit-remaining-tokens: 149984"), chunk(DONE), last_chunk())

    assert hop.limits.token_remaining == 149_984


async def test_the_close_of_a_connection_is_no_proof_of_an_end_that_its_api_marks():
    reply, hop, _ = await exchange(head(200, SSE, chunked=False), send(HELLO), cut())

    assert (reply.body, reply.is_clean) == (HELLO, False)
    assert (hop.end.ending, hop.end.ended_by) == (Ending.MISSING_TERMINAL, Side.UPSTREAM)


async def test_where_only_the_events_look_like_an_api_the_close_stands_for_the_end():
    steps = [head(200, SSE, chunked=False), send(HELLO), cut()]
    reply, hop, _ = await exchange(*steps, sent=get("/somewhere"))

    assert (reply.body, reply.is_clean) == (HELLO, True)
    assert hop.end.ending is Ending.MISSING_TERMINAL


async def test_the_close_of_a_connection_ends_what_its_api_has_ended_or_does_not_mark():
    for content_type, body in (
        (SSE, HELLO + DONE),
        (SSE, HELLO + DONE[:-1]),
        (SSE, HELLO + ERROR),
        ("text/plain", b"abc"),
    ):
        reply, _, _ = await exchange(head(200, content_type, chunked=False), send(body), cut())

        assert (reply.body, reply.is_clean) == (body, True)
