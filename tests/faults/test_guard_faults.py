"""Silence of an upstream: what passes, what the guard ends, and what reader and record are told of it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import threading
import time

import pytest

from otel.hop import Ending, EventClass, Side
from tests.faults import fault, report
from tests.faults.stage import CHAT, DONE, HELLO, MESSAGES, MS_NS, HeldClock, stage, streamed
from tests.support.processes import until
from tests.support.raw_peers import CUT, WHOLE, asked_once, chunked, raw_upstream, streaming
from tests.support.script import sidecar

ENFORCE = {"guard": "enforce"}
SECOND_NS = 1_000 * MS_NS
REST = chunked(HELLO + DONE)
ANTHROPIC_PING = b'event: ping\ndata: {"type":"ping"}\n\n'
ANTHROPIC_TEXT = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta",'
    b'"text":"hi"}}\n\n'
)
SIGNS_OF_LIFE = {
    "comments": (CHAT, b": ping\n\n"),
    "ping events": (MESSAGES, ANTHROPIC_PING),
    "events without data": (CHAT, b"data:\n\n"),
    "names without data": (CHAT, b"event: keepalive\n\n"),
}
ANY_SIGN = pytest.mark.parametrize(("path", "sign"), SIGNS_OF_LIFE.values(), ids=SIGNS_OF_LIFE)


def told(got, behind=b""):
    """What an error event behind these bytes says."""
    assert got.body.startswith(behind)
    return json.loads(got.body.removeprefix(behind).removeprefix(b"data: "))["error"]


def says(message, *, limit_s):
    """It tells the limit, and a silence that is no shorter and, at one look a second, hardly longer."""
    found = re.search(r" for (\d+\.\d) s \(limit (\d+) s\)", message)
    return found is not None and int(found[2]) == limit_s and limit_s <= float(found[1]) <= limit_s + 1


# --------------------------------------------------------------------------------------------- the first event


@fault(8, "93 s and 299 s pass, though 90 s are the limit between events")
@report("R077", "a first event after 93 s is slow, and no fault")
@pytest.mark.parametrize("silent_s", [93.04, 299])
async def test_a_first_event_may_be_late(silent_s):
    async with stage(**ENFORCE) as here:
        await here.pass_s(silent_s)
        await here.say(HELLO, DONE)
        got, hop = await here.end()

    assert (got.status, bytes(got.body), got.end) == (200, HELLO + DONE, WHOLE)
    assert (hop.end.ending, hop.exchange.guard_fired) == (Ending.COMPLETE, ())
    assert abs(hop.timeline.stamps[0].arrived_ns - silent_s * SECOND_NS) < MS_NS


@fault(8, "301 s do not: an error in band, and never a clean end")
@report("R077", "the limit of a first event, with the silence and the limit in what is told")
async def test_a_first_event_that_is_too_late_is_told_in_band():
    async with stage(**ENFORCE) as here:
        await here.pass_s(301)
        got, hop = await here.outcome()
        await asyncio.wait_for(here.asked.wire.gone.wait(), 1)

    assert (got.status, got.end) == (200, CUT)
    assert 0 not in got.chunks
    assert told(got)["type"] == "first_event_timeout"
    assert "here: " in told(got)["message"]
    assert says(told(got)["message"], limit_s=300)
    assert (hop.end.ending, hop.end.ended_by) == (Ending.TIMED_OUT_FIRST_EVENT, Side.SIDECAR)
    assert 300 <= hop.end.idle_ns / SECOND_NS <= 301
    assert hop.exchange.error_type == "first_event_timeout"
    assert hop.traffic.injected_bytes == hop.traffic.bytes_out == len(got.body)


@fault(8, "nor does a head that is too late: 504, and no 200 is invented")
async def test_a_head_that_is_too_late_is_a_504():
    async with stage(head=b"", **ENFORCE) as here:
        await here.pass_s(299)
        assert here.proxy.sidecar.exchanges.running_count == 1
        await here.pass_s(2)
        got, hop = await here.outcome()

    assert (got.status, got.end) == (504, WHOLE)
    assert json.loads(got.body)["error"]["type"] == "first_event_timeout"
    assert (hop.end.ending, hop.exchange.status) == (Ending.TIMED_OUT_FIRST_EVENT, 504)


@fault(8, "only observed it goes on; it is told in the log and counted, once")
@pytest.mark.parametrize(("silent_s", "is_told"), [(299, False), (301, True), (1_000, True)])
async def test_observed_a_first_event_may_be_as_late_as_it_likes(caplog, silent_s, is_told):
    caplog.set_level(logging.INFO)
    async with stage() as here:
        await here.pass_s(silent_s)
        await here.say(HELLO, DONE)
        got, hop = await here.end()
        counts = dict(here.proxy.sidecar.exchanges.guard_counts)

    assert (bytes(got.body), got.end, hop.end.ending) == (HELLO + DONE, WHOLE, Ending.COMPLETE)
    assert hop.exchange.guard_fired == ("first_event_timeout",) * is_told
    assert counts == ({("first_event_timeout", "would_have"): 1} if is_told else {})
    assert caplog.text.count("guard would have ended the stream") == is_told


# ------------------------------------------------------------------------------------------------ between events


@fault(9, "89 s pass, each time")
@report("R077", "89 s between events pass")
async def test_a_gap_within_the_limit_is_only_a_gap():
    async with stage(**ENFORCE) as here:
        for _ in range(4):
            await here.say(HELLO)
            await here.pass_s(89)
        await here.say(DONE)
        got, hop = await here.end()

    assert (bytes(got.body), got.end) == (HELLO * 4 + DONE, WHOLE)
    assert (hop.end.ending, hop.exchange.guard_fired) == (Ending.COMPLETE, ())


@fault(9, "91 s do not: what came stays as it is, and an error stands behind it")
@report("R077", "91 s between events are too long, with the silence and the limit in what is told")
async def test_a_gap_over_the_limit_is_told_in_band():
    async with stage(**ENFORCE) as here:
        await here.say(HELLO)
        await here.pass_s(80)
        await here.say(HELLO)
        await here.pass_s(91)
        got, hop = await here.outcome()
        await asyncio.wait_for(here.asked.wire.gone.wait(), 1)

    assert got.end == CUT
    assert told(got, HELLO * 2)["type"] == "next_event_timeout"
    assert says(told(got, HELLO * 2)["message"], limit_s=90)
    assert (hop.end.ending, hop.end.ended_by) == (Ending.TIMED_OUT_NEXT_EVENT, Side.SIDECAR)
    assert 90 <= hop.end.idle_ns / SECOND_NS <= 91
    assert hop.exchange.error_type == "next_event_timeout"
    assert hop.traffic.event_count == 2


@fault(9, "within an event, too; there the reader gets a cut and no word that it would read as something else")
async def test_a_gap_within_an_event_is_cut_without_a_word():
    async with stage(**ENFORCE) as here:
        await here.say(HELLO, HELLO[:30])
        await here.pass_s(91)
        got, hop = await here.outcome()

    assert (bytes(got.body), got.end) == (HELLO + HELLO[:30], CUT)
    assert (hop.end.ending, hop.traffic.injected_bytes) == (Ending.TIMED_OUT_NEXT_EVENT, 0)


@fault(9, "behind the end mark no gap is too long")
async def test_behind_the_end_mark_nobody_waits():
    async with stage(**ENFORCE) as here:
        await here.say(HELLO, DONE)
        await here.pass_s(400)
        got, hop = await here.end()

    assert (bytes(got.body), got.end) == (HELLO + DONE, WHOLE)
    assert (hop.end.ending, hop.exchange.guard_fired) == (Ending.COMPLETE, ())


@report("R084", "an event in the moment of the limit: it is delivered or it is late, never both")
@pytest.mark.parametrize("off_ms", [-1, 0, 1])
@pytest.mark.parametrize("looks_first", [False, True])
async def test_an_event_at_the_limit_has_one_outcome(off_ms, looks_first):
    limit_ms, count, waiting = 1_000, 40, []

    async def answer(asked):
        await asked.send(streaming())
        await asked.chunk(HELLO)
        waiting.append(asked)
        await asked.wire.gone.wait()

    clock, limits = HeldClock(), {"next_event_timeout": f"{limit_ms}ms", "first_event_timeout": "0"}
    async with raw_upstream(answer) as up, sidecar(up.url, clock=clock, **limits, **ENFORCE) as proxy:
        asking = [asyncio.ensure_future(asked_once(proxy.port, streamed())) for _ in range(count)]
        exchanges = proxy.sidecar.exchanges
        await until(
            lambda: sum(live.recorder.event_count for live in exchanges.running()) == count, "all have an event"
        )
        for pause_ms in (*[50] * (limit_ms // 50 - 1), 50 + off_ms):
            clock.at_ns += pause_ms * MS_NS
            if looks_first or pause_ms == 50:
                exchanges.look(clock.at_ns)
        for asked in waiting:
            asked.wire.transport.write(REST)
        await asyncio.sleep(0)
        exchanges.look(clock.at_ns)
        got = await asyncio.gather(*asking)
        hops = await proxy.hops(count)

    for each in got:
        is_late = b"next_event_timeout" in each.body
        assert (each.body.count(HELLO), each.body.count(DONE), each.end) == ((1, 0, CUT) if is_late else (2, 1, WHOLE))
    late_count = sum(b"next_event_timeout" in each.body for each in got)
    assert sum(hop.end.ending is Ending.TIMED_OUT_NEXT_EVENT for hop in hops) == late_count
    assert sum(hop.end.ending is Ending.COMPLETE for hop in hops) == count - late_count
    assert (late_count > 0) <= (off_ms >= 0)
    assert late_count == count or not (looks_first and off_ms >= 0)


@report("R084", "time in which our own loop stood still is ours, and no silence of the upstream")
@pytest.mark.parametrize("after_s", [0.1, 1.3], ids=["an event meanwhile", "an event right behind"])
async def test_a_loop_that_stands_still_lets_nobody_be_late(after_s):
    async def answer(asked):
        await asked.send(streaming())
        await asked.chunk(HELLO)
        await asyncio.sleep(0.35)
        fd = os.dup(asked.wire.socket.fileno())
        sending = threading.Timer(after_s, os.write, (fd, REST))
        sending.start()
        time.sleep(1.2)  # everything in this loop stands still, the sidecar too
        await asyncio.to_thread(sending.join)
        os.close(fd)
        await asked.wire.gone.wait()

    limits = {"next_event_timeout": "900ms", "first_event_timeout": "900ms"}
    async with raw_upstream(answer) as up, sidecar(up.url, **limits, **ENFORCE) as proxy:
        got = await asked_once(proxy.port, streamed())
        hop = await proxy.hop()

    assert (bytes(got.body), got.end) == (HELLO + HELLO + DONE, WHOLE)
    assert (hop.end.ending, hop.exchange.guard_fired) == (Ending.COMPLETE, ())
    assert max(lag.end_ns - lag.start_ns for lag in hop.timeline.lag) > 1e9


# ---------------------------------------------------------------------------------------------- signs of life


@fault(10, "alive for ever: they renew the limits of silence, of the first event as well")
@report("R079", "two minutes of pings, then an answer: healthy")
@report("R022", "an upstream's own names without data: passed on, liveness, no event")
@ANY_SIGN
async def test_signs_of_life_keep_a_stream_alive(path, sign):
    event = HELLO if path == CHAT else ANTHROPIC_TEXT
    async with stage(sent=streamed(path), **ENFORCE) as here:
        for _ in range(40):
            await here.say(sign)
            await here.pass_s(10)
        await here.say(event)
        for _ in range(12):
            await here.say(sign)
            await here.pass_s(10)
        await here.say(event)
        got, hop = await here.end()

    assert bytes(got.body) == sign * 40 + event + sign * 12 + event
    assert hop.exchange.guard_fired == ()
    content = [stamp for stamp in hop.timeline.stamps if stamp.event_class is EventClass.CONTENT]
    assert len(content) == 2
    assert content[1].arrived_ns - content[0].arrived_ns == 120 * SECOND_NS


@fault(10, "no progress: the limit of content ends them, and the record says what there was of life")
@report("R080", "a generation that died behind its heartbeats")
@ANY_SIGN
async def test_signs_of_life_are_no_progress(path, sign):
    async with stage(sent=streamed(path), content_timeout="300s", **ENFORCE) as here:
        for _ in range(29):
            await here.pass_s(10)
            await here.say(sign)
        assert here.proxy.sidecar.exchanges.running_count == 1
        await here.pass_s(11)
        got, hop = await here.outcome()

    assert got.end == CUT
    assert b"content_timeout" in got.body
    assert says(got.body.decode(), limit_s=300)
    assert (hop.end.ending, hop.exchange.error_type) == (Ending.TIMED_OUT_NEXT_EVENT, "content_timeout")
    assert hop.exchange.guard_fired == ("content_timeout",)
    assert 10 <= hop.end.idle_ns / SECOND_NS <= 11
    keepalives = [stamp for stamp in hop.timeline.stamps if stamp.event_class is EventClass.KEEPALIVE]
    assert hop.traffic.comment_count + hop.traffic.dataless_count + len(keepalives) == 29


@report("R055", "events without data are passed on and counted, as beats and not as content")
async def test_events_without_data_are_beats():
    beat = b"data:\n\n"
    async with stage(**ENFORCE) as here:
        for part in (HELLO, beat, beat, HELLO, DONE):
            await here.say(part)
            await here.pass_s(12)
        got, hop = await here.end()

    beats = [stamp.event_class is EventClass.KEEPALIVE for stamp in hop.timeline.stamps]
    assert bytes(got.body) == HELLO + beat + beat + HELLO + DONE
    assert beats == [False, True, True, False, False]
    assert hop.timeline.stamps[1].position == hop.timeline.stamps[0].position


@fault(10, "of an answer that is no stream of a model nobody asks for progress")
async def test_events_of_no_model_are_nobodys_business():
    async with stage(sent=b"GET /events HTTP/1.1\r\nHost: h\r\n\r\n", content_timeout="60s", **ENFORCE) as here:
        await here.pass_s(1_000)
        await here.say(b"data: news\n\n")
        got, hop = await here.end()

    assert (bytes(got.body), hop.exchange.guard_fired) == (b"data: news\n\n", ())


@fault(9, "a reader that takes nothing makes nobody late")
async def test_a_reader_that_takes_nothing_makes_nobody_late():
    async with stage(next_event_timeout="5s", **ENFORCE) as here:
        (live,) = here.proxy.sidecar.exchanges.running()
        await here.flood()
        assert live.recorder.blocked_since_ns is not None
        await here.pass_s(60)
        assert here.proxy.sidecar.exchanges.running_count == 1
        assert not here.proxy.sidecar.exchanges.guard_counts
        here.client.leave()
        hop = await here.proxy.hop()

    assert hop.end.ending is Ending.CLIENT_DISCONNECT


@pytest.mark.parametrize("is_over", [True, False])
async def test_behind_a_finish_reason_a_connection_that_stays_open_is_no_stalled_answer(is_over):
    """Of an API that marks no end: the reason is all there will be, unless output follows."""
    last = b'data: {"candidates":[{"content":{"parts":[{"text":"b"}]}%b}]}\n\n' % (
        b',"finishReason":"STOP"' if is_over else b""
    )
    async with stage(None, streamed("/v1/models/m:streamGenerateContent"), guard="enforce") as here:
        await here.say(b'data: {"candidates":[{"content":{"parts":[{"text":"a"}]}}]}\n\n', last)
        await here.pass_s(100)
        got, hop = await (here.end() if is_over else here.outcome())

    assert hop.exchange.guard_fired == (() if is_over else ("next_event_timeout",))
    assert got.end == (WHOLE if is_over else CUT)
