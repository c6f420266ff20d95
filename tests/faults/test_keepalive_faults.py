"""Comments of ours in a stream: where they stand, where none may, and that nobody reads an event into them."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest

from otel.hop import Ending
from sidecar.inspection.eventstream import framed
from tests.faults import fault, report
from tests.faults.stage import CHAT, DONE, HELLO, KEEPALIVE, MESSAGES, HeldClock, Stage, stage, streamed
from tests.support.processes import until
from tests.support.raw_peers import WHOLE, raw_client, raw_upstream, streaming
from tests.support.script import sidecar

BEAT = {"keepalive": "15s"}
ERROR = b'data: {"error":{"type":"server_error","code":"overloaded","message":"m"}}\n\n'
SMALL_BYTES = 4_096
"""Receive buffer of a client that is to be stuck soon."""


def ours_in(body, said):
    """How many comments of ours a body has that is these bytes otherwise."""
    count, odd_bytes = divmod(len(body) - len(said), len(KEEPALIVE))
    assert bytes(body).replace(KEEPALIVE, b"") == said
    assert odd_bytes == 0
    return count


# --------------------------------------------------------------------------------------------- before and between


@fault(25, "before the first event and between events, at the pace that was asked for, and counted as ours")
async def test_comments_stand_before_and_between_events():
    async with stage(**BEAT) as here:
        await here.pass_s(70)
        await here.say(HELLO)
        await here.pass_s(40)
        await here.say(HELLO, DONE)
        got, hop = await here.end()

    assert bytes(got.body) == KEEPALIVE * 4 + HELLO + KEEPALIVE * 2 + HELLO + DONE
    assert (hop.end.ending, got.end) == (Ending.COMPLETE, WHOLE)
    assert (hop.traffic.keepalive_count, hop.traffic.injected_bytes) == (6, 6 * len(KEEPALIVE))
    assert [stamp.seq for stamp in hop.timeline.stamps] == [0, 1, 2]
    assert (hop.traffic.event_count, hop.traffic.comment_count) == (3, 0)
    assert hop.traffic.bytes_in == len(HELLO * 2 + DONE)


@fault(25, "never behind the event that marks the end, and never behind an error")
@pytest.mark.parametrize("last", [DONE, ERROR], ids=["the end mark", "an error"])
async def test_none_stands_behind_the_end(last):
    async with stage(**BEAT) as here:
        await here.say(HELLO)
        await here.pass_s(20)
        await here.say(last)
        await here.pass_s(200)
        got, hop = await here.end()

    assert bytes(got.body) == HELLO + KEEPALIVE + last
    assert hop.traffic.keepalive_count == 1


@fault(25, "events that come more often than comments are due need none")
async def test_a_lively_stream_has_none():
    async with stage(**BEAT) as here:
        for _ in range(20):
            await here.say(HELLO)
            await here.pass_s(14)
        await here.say(DONE)
        got, hop = await here.end()

    assert bytes(got.body) == HELLO * 20 + DONE
    assert hop.traffic.keepalive_count == 0


@fault(25, "a byte order mark behind comments of ours is none any more: it harms no field, and no byte of it is lost")
@report("R054", "a byte order mark that comes behind comments of ours")
@pytest.mark.parametrize("cut", range(6))
async def test_a_byte_order_mark_behind_comments_harms_no_field(cut):
    mark = b"\xef\xbb\xbf"
    parts = [part for part in ((mark + HELLO)[:cut], (mark + HELLO)[cut:]) if part]
    async with stage(**BEAT) as here:
        await here.pass_s(31)
        for part in parts:
            await here.asked.chunk(part)
            await here.heard(part[-1:])
        await here.pass_s(16)
        await here.say(DONE)
        got, hop = await here.end()

    assert by_the_standard(got.body.decode()) == [each[6:-2].decode() for each in (HELLO, DONE)]
    assert bytes(got.body) == KEEPALIVE * 2 + b":" + mark + b"\n" + HELLO + KEEPALIVE + DONE
    assert (hop.traffic.keepalive_count, hop.traffic.injected_bytes) == (3, 3 * len(KEEPALIVE) + 2)
    assert hop.traffic.bytes_out - hop.traffic.injected_bytes == hop.traffic.bytes_in


@report("R012", "what lies between us and the reader gives up after 60 s without a byte")
@pytest.mark.parametrize("has_head", [True, False], ids=["after the head", "before the head"])
async def test_somebody_who_waits_60_s_for_a_byte_sees_a_slow_model_through(has_head):
    options = BEAT | ({} if has_head else {"keepalive_early": "true"})
    async with stage(head=None if has_head else b"", **options) as here:
        for _ in range(4):
            await here.pass_s(16)
            await here.heard(KEEPALIVE)
        if not has_head:
            await here.asked.send(streaming())
        await here.say(HELLO, DONE)
        got, hop = await here.end()

    assert (got.status, got.end) == (200, WHOLE)
    assert ours_in(got.body, HELLO + DONE) == hop.traffic.keepalive_count == 4
    assert hop.end.ending is Ending.COMPLETE
    assert hop.timeline.stamps[0].arrived_ns > 60e9


# ------------------------------------------------------------------------------------------------ where none may


@fault(24, "within a block, between the bytes of a line end, and where the blank line is still missing")
@report("R019", "a pause between the name of an event and its data: one event, and the silence is still noticed")
@pytest.mark.parametrize(
    ("event", "cut"),
    [
        pytest.param(b'event: message_delta\ndata: {"x":1}\n\n', 21, id="between name and data"),
        pytest.param(HELLO, 3, id="within a field's name"),
        pytest.param(HELLO, 40, id="within data"),
        pytest.param(HELLO, len(HELLO) - 1, id="before the blank line"),
        pytest.param(HELLO.replace(b"\n", b"\r\n"), len(HELLO), id="within the last but one CRLF"),
        pytest.param(HELLO.replace(b"\n", b"\r\n"), len(HELLO) + 1, id="within the last CRLF"),
        pytest.param(b": of the upstream\n\n" + HELLO, 9, id="within a comment"),
        pytest.param(b"\xef\xbb\xbf" + HELLO, 2, id="within the byte order mark"),
    ],
)
async def test_there_is_none_in_what_has_begun(event, cut):
    async with stage(stall_after="10s", **BEAT) as here:
        await here.say(event[:cut])
        await here.pass_s(20)
        stall_count = here.proxy.sidecar.exchanges.stall_count
        await here.say(event[cut:], DONE)
        got, hop = await here.end()

    assert bytes(got.body) == event + DONE
    assert (hop.traffic.event_count, hop.traffic.keepalive_count) == (2, 0)
    assert stall_count == 1


ARRAY = b'[{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}'
FRAME = framed({":message-type": "event", ":event-type": "chunk", ":content-type": "application/json"}, b'{"bytes":""}')


@fault(24, "encoded, with a length, signed, and in any other framing")
@report("R008", "an encoded body has no comment of ours")
@pytest.mark.parametrize(
    ("head", "body"),
    [
        pytest.param(streaming("Content-Encoding: gzip"), gzip.compress(HELLO), id="gzip"),
        pytest.param(streaming("Content-Encoding: zstd"), b"\x28\xb5\x2f\xfd", id="zstd"),
        pytest.param(streaming("Content-Encoding: x-own"), HELLO, id="a coding of their own"),
        pytest.param(streaming("Signature: sig1=:x:"), HELLO, id="signed"),
        pytest.param(streaming(content_type="text/event-stream; charset=utf-16"), HELLO, id="UTF-16"),
        pytest.param(streaming(status="429 Slow Down"), HELLO, id="no success"),
        pytest.param(streaming(content_type="application/x-ndjson"), b'{"response":"a","done":false}\n', id="NDJSON"),
        pytest.param(streaming(content_type="application/json"), ARRAY, id="a JSON array"),
        pytest.param(streaming(content_type="application/vnd.amazon.eventstream"), FRAME, id="an event stream"),
        pytest.param(streaming(content_type="text/plain"), b"words\n\n", id="text"),
    ],
)
async def test_there_is_none_in_what_is_no_plain_stream_of_events(head, body):
    path = "/v1beta/models/m:streamGenerateContent" if body is ARRAY else CHAT
    async with stage(head=head, sent=streamed(path), **BEAT) as here:
        await here.pass_s(40)
        await here.say(body)
        await here.pass_s(40)
        got, hop = await here.end()

    assert (bytes(got.body), got.end) == (body, WHOLE)
    assert (hop.traffic.keepalive_count, hop.traffic.injected_bytes) == (0, 0)


@fault(24, "nor in a body whose length was announced")
async def test_there_is_none_in_a_body_with_a_length():
    said = HELLO + DONE
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(said)
    async with stage(head=head, **BEAT) as here:
        await here.asked.send(HELLO)
        (live,) = here.proxy.sidecar.exchanges.running()
        await until(lambda: live.recorder.event_count, "the first event has come")
        await here.pass_s(40)
        await here.asked.send(DONE)
        got, hop = await here.outcome()

    assert (bytes(got.body), got.end, got.values("content-length")) == (said, WHOLE, [b"%d" % len(said)])
    assert (hop.end.ending, hop.traffic.keepalive_count) == (Ending.COMPLETE, 0)


@report("R024", "where a reader cannot take comments, a rule for its path switches them off")
@pytest.mark.parametrize(("path", "count"), [(MESSAGES, 0), (CHAT, 2)])
async def test_a_path_can_be_without_comments(path, count):
    async with stage(sent=streamed(path), guard_rule=f"path={MESSAGES};signed=true", **BEAT) as here:
        await here.pass_s(31)
        await here.say(HELLO)
        got, _ = await here.end()

    assert ours_in(got.body, HELLO) == count


# ---------------------------------------------------------------------------------------------- who reads them


@report("R024", "a comment of the upstream's is no event, has no number, and is passed on")
async def test_a_comment_of_the_upstream_is_no_event():
    said = b": keepalive\n\n" + HELLO + b":\n\n" + b": a\n: b\n" + HELLO + DONE + b": bye\n\n"
    async with stage() as here:
        await here.say(said)
        got, hop = await here.end()

    assert bytes(got.body) == said
    assert [stamp.seq for stamp in hop.timeline.stamps] == [0, 1, 2]
    assert (hop.traffic.event_count, hop.traffic.comment_count) == (3, 3)
    assert (hop.end.ending, hop.exchange.error_type) == (Ending.COMPLETE, None)


def by_the_standard(body):
    """The data of all events, as WHATWG HTML, 9.2.6 has it."""
    return _events(body, is_dispatched=lambda data, last_id: data is not None)


def as_clients_once_did(body):
    """The same of clients for which any blank line ends an event once there has been an id."""
    return _events(body, is_dispatched=lambda data, last_id: data is not None or bool(last_id))


def by_blank_lines(body):
    """The same of readers that cut a body at blank lines, and look for data in each piece."""
    pieces = [piece.split("\n") for piece in body.split("\n\n")]
    found = [[line.removeprefix("data: ") for line in lines if line.startswith("data:")] for lines in pieces]
    return ["\n".join(data) for data in found if data]


def _events(body, *, is_dispatched):
    found, data, last_id = [], None, ""
    for line in body.removesuffix("\n").split("\n"):
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            found += [data or ""] if is_dispatched(data, last_id) else []
            data = None
        elif name == "data":
            data = value if data is None else f"{data}\n{value}"
        elif name == "id":
            last_id = value
    return found


READERS = (by_the_standard, as_clients_once_did, by_blank_lines)


@report("R021", "no kind of reader sees an event in a comment of ours, with ids or without")
@pytest.mark.parametrize("form", ["auto", "line"])
@pytest.mark.parametrize("field", [b"", b"id: 7\n"], ids=["without ids", "with ids"])
async def test_no_reader_takes_a_comment_for_an_event(form, field):
    said = [b'%bdata: {"n":%d}\n\n' % (field, number) for number in range(4)]
    async with stage(keepalive_form=form, **BEAT) as here:
        await here.pass_s(16)
        for part in said:
            await here.say(part)
            await here.pass_s(31)
        got, hop = await here.end()

    assert got.body.count(b": keepalive\n") == hop.traffic.keepalive_count == 1 + 2 * len(said)
    for read in READERS:
        data = read(got.body.decode())
        assert [json.loads(each) for each in data] == [{"n": number} for number in range(4)]
    assert hop.traffic.event_count == len(said)
    assert hop.traffic.bytes_in == len(b"".join(said))


@report("R021", "the form is the operator's to choose; with a blank line some readers see an empty event behind an id")
async def test_the_form_of_a_comment_can_be_chosen():
    async with stage(keepalive_form="block", **BEAT) as here:
        await here.say(b'id: 7\ndata: {"n":0}\n\n')
        await here.pass_s(16)
        got, _ = await here.end()

    assert got.body.endswith(b"\n\n" + KEEPALIVE)
    assert [len(read(got.body.decode())) for read in READERS] == [1, 2, 1]


@report("R022", "ours are comments, and never events with a name")
async def test_ours_are_never_named():
    async with stage(**BEAT) as here:
        await here.say(b"event: keepalive\n\n", HELLO)
        await here.pass_s(31)
        got, hop = await here.end()

    assert bytes(got.body) == b"event: keepalive\n\n" + HELLO + KEEPALIVE * 2
    assert (hop.traffic.event_count, hop.traffic.dataless_count, hop.traffic.comment_count) == (1, 1, 0)


# ------------------------------------------------------------------------------------------- a reader that is stuck


@report("R095", "a reader that has stopped in a flood: no comment waits behind it, and it goes on where it was")
async def test_no_comment_waits_behind_a_reader_that_takes_nothing():
    async with stage(receive_bytes=SMALL_BYTES, **BEAT) as here:
        (live,) = here.proxy.sidecar.exchanges.running()
        await here.flood()
        held_bytes = live.connection.buffered_bytes
        await here.pass_s(120)
        assert live.recorder.blocked_since_ns is not None
        assert 0 < live.connection.buffered_bytes <= held_bytes
        here.client.transport.resume_reading()
        await here.say(DONE)
        got, hop = await here.end()

    assert got.body.replace(HELLO, b"") == DONE
    assert (hop.end.ending, hop.traffic.keepalive_count) == (Ending.COMPLETE, 0)


@report("R095", "a reader that has stopped while nothing comes: one comment waits for it at most")
async def test_comments_do_not_pile_up_behind_a_reader_that_takes_nothing():
    options = {"keepalive": "100ms", "keepalive_text": "x" * 190}
    async with stage(receive_bytes=SMALL_BYTES, **options) as here:
        (live,) = here.proxy.sidecar.exchanges.running()
        here.client.transport.pause_reading()
        while not live.connection.buffered_bytes:
            await here.pass_s(10)
        for _ in range(120):
            await here.pass_s(1)
            assert live.connection.buffered_bytes <= 200
        assert live.connection.buffered_bytes > 0
        here.client.transport.resume_reading()
        await here.say(HELLO, DONE)
        got, hop = await here.end()

    assert (got.body.replace(b": " + b"x" * 190 + b"\n\n", b""), hop.end.ending) == (HELLO + DONE, Ending.COMPLETE)


# ---------------------------------------------------------------------------------------------------- the next hop


@report("R139", "comments of one hop change no number of the next: both count the same events, each once")
async def test_two_hops_number_events_alike_whatever_comments_stand_between():
    clock, began = HeldClock(), asyncio.get_running_loop().create_future()
    parts = (HELLO, HELLO + HELLO, HELLO[:20], HELLO[20:] + HELLO, DONE)

    async def answer(asked):
        await asked.send(streaming())
        began.set_result(asked)
        await asked.wire.gone.wait()

    async with (
        raw_upstream(answer) as up,
        sidecar(up.url, clock=clock, **BEAT) as inner,
        sidecar(f"http://127.0.0.1:{inner.port}", clock=clock) as outer,
        raw_client(outer.port, streamed()) as client,
    ):
        here = Stage(clock, inner, await began, client, None)
        for part in parts:
            await here.say(part)
            await here.pass_s(31)
        await here.asked.send(b"0\r\n\r\n")
        got = await client.rest(here.got)
        first, second = await inner.hop(), await outer.hop()

    numbered = [
        [(stamp.seq, stamp.event_class, stamp.position) for stamp in hop.timeline.stamps] for hop in (first, second)
    ]
    assert ours_in(got.body, HELLO * 5 + DONE) == first.traffic.keepalive_count == second.traffic.comment_count == 6
    assert numbered[0] == numbered[1]
    assert first.traffic.event_count == second.traffic.event_count == 6
    assert first.request_id == second.request_id


@report("R024", "nor does a head of ours come early where a rule switches comments off")
async def test_a_path_without_comments_has_no_early_head():
    options = BEAT | {"keepalive_early": "true", "guard_rule": f"path={CHAT};signed=true"}
    async with stage(head=b"", **options) as here:
        await here.pass_s(40)
        await here.asked.send(streaming("X-Kept: 1"))
        await here.say(HELLO, DONE)
        got, hop = await here.end()

    assert (bytes(got.body), hop.traffic.keepalive_count) == (HELLO + DONE, 0)
    assert got.values("x-kept") == [b"1"]


async def test_comments_end_when_the_head_that_comes_late_says_that_its_stream_is_signed():
    async with stage(head=b"", **BEAT, keepalive_early="true") as here:
        await here.pass_s(40)
        await here.asked.send(streaming("Signature: sig1=:x:"))
        await here.say(HELLO)
        await here.pass_s(40)
        await here.say(DONE)
        got, _ = await here.end()

    assert bytes(got.body).endswith(HELLO + DONE)
    assert bytes(got.body).startswith(b": ")
