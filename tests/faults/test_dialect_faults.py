"""Streams of events as servers really write them: whatever their spelling, the same events and the right end."""

from __future__ import annotations

import json
import zlib

import pytest

from otel.hop import Ending, EventClass
from tests.faults import report
from tests.faults.stage import DONE, HELLO, RESPONSES, delta, exchanged, said
from tests.support.raw_peers import CUT, RESET, WHOLE, streaming

EXACT = {"exact": "true"}
CONTENT, CONTROL, TERMINAL, USAGE = EventClass.CONTENT, EventClass.CONTROL, EventClass.TERMINAL, EventClass.USAGE
NDJSON = streaming(content_type="application/x-ndjson")


def classes(hop):
    return [stamp.event_class for stamp in hop.timeline.stamps]


def positions(hop):
    return [stamp.position for stamp in hop.timeline.stamps]


# ------------------------------------------------------------------------------------------------- lines and fields


@report("R046", "characters that other languages take for line ends: only CR, LF and CRLF are")
@pytest.mark.parametrize("odd", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e"])
async def test_only_cr_and_lf_end_a_line(odd):
    text = f"one{odd}two{odd}"
    parts = [
        b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"%b"}\n\n',
        b'event: response.completed\ndata: {"type":"response.completed","response":{"note":"%b"}}\n\n',
    ]
    body = b"".join(part % text.encode() for part in parts)
    got, hop = await exchanged(body, path=RESPONSES, **EXACT)

    assert (bytes(got.body), got.end) == (body, WHOLE)
    assert hop.end.ending is Ending.COMPLETE
    assert (hop.traffic.event_count, hop.traffic.has_unterminated_tail) == (2, False)
    assert classes(hop)[-1] is TERMINAL


@report("R050", "no blank behind the colon: the same events, the same end, the same errors")
@pytest.mark.parametrize("blank", [b"", b" "])
async def test_the_blank_behind_a_colon_may_be_missing(blank):
    chunks = [b'data:%b{"choices":[]}\n\n' % blank] * 20
    got, hop = await exchanged(*chunks, HELLO, b"data:%b[DONE]\n\n" % blank, **EXACT)
    _, failed = await exchanged(b'event:%berror\ndata:%b{"type":"t"}\n\n' % (blank, blank))

    assert bytes(got.body).count(b"data:" + blank + b"{") >= 20
    assert (hop.traffic.event_count, hop.end.ending, positions(hop)[-1]) == (22, Ending.COMPLETE, 5)
    assert (failed.end.ending, failed.exchange.error_type) == (Ending.ERROR_EVENT, "t")


@report("R050", "at most one blank is taken off")
async def test_one_blank_is_taken_off_and_no_more():
    parts = [b"event: output\nid: 5:%d\ndata:%bx\n\n" % (number, b" " * number) for number in range(4)]
    _, hop = await exchanged(*parts, path="/v1/predictions", **EXACT)

    assert hop.exchange.dialect == "replicate"
    assert positions(hop) == [1, 2, 4, 7]


@report("R051", "data over several lines is one event, all of it; also where nothing is on them")
async def test_data_lines_of_one_event_belong_together():
    long = json.dumps({"choices": [{"index": 0, "delta": {"content": "four"}}]}, indent=1)
    event = "".join(f"data: {line}\n" for line in long.split("\n")).encode() + b"\n"
    body = event + b"data:\ndata:\n\n" + b"data\n\n" + event
    got, hop = await exchanged(body, DONE, **EXACT)
    _, failed = await exchanged(b'data: {"error":\ndata: {"code":\ndata: "late"}}\n\n')

    assert bytes(got.body) == body + DONE
    assert classes(hop) == [CONTENT, EventClass.KEEPALIVE, EventClass.KEEPALIVE, CONTENT, TERMINAL]
    assert positions(hop)[-1] == 8
    assert (failed.end.ending, failed.exchange.error_code) == (Ending.ERROR_EVENT, "late")


@report("R052", "ids, empty lines of data, names in any order, and a comment behind the end")
async def test_named_events_with_ids_have_their_end_and_what_comes_behind_is_none():
    parts = (
        b"event: output\nid: 1700000000:0\ndata: hey\ndata: \n\n",
        b"id: 1700000000:1\ndata: you\nevent: output\n\n",
        b"event: logs\nid: 1700000000:2\ndata: warm\n\n",
        b"event: done\nid: 1700000000:3\ndata: {}\n\n",
        b": 408 Request Timeout\n\n",
    )
    got, hop = await exchanged(*parts, path="/v1/predictions", **EXACT)

    assert (bytes(got.body), got.end) == (b"".join(parts), WHOLE)
    assert (hop.end.ending, hop.exchange.error_type) == (Ending.COMPLETE, None)
    assert classes(hop) == [CONTENT, CONTENT, CONTROL, TERMINAL]
    assert positions(hop) == [4, 7, 7, 7]
    assert [stamp.seq for stamp in hop.timeline.stamps] == [0, 1, 2, 3]
    assert hop.traffic.comment_count == 1


@report("R054", "fields that say nothing, a NUL in an id, a byte order mark where it is one and where it is none")
async def test_odd_fields_do_no_harm():
    mark = b"\xef\xbb\xbf"
    odd = mark + b"retry: 30x\nretry: 9999999999999999999999\nid: a\x00b\nfoo: bar\nno colon at all\n:\ndata: ok\n\n"
    parts = (odd, mark + b"data: not data\n\n", HELLO, DONE)
    got, hop = await exchanged(*parts)

    assert (bytes(got.body), got.end) == (b"".join(parts), WHOLE)
    assert (hop.traffic.event_count, hop.traffic.dataless_count) == (3, 1)
    assert hop.end.ending is Ending.COMPLETE


@report("R009", "`identity` in a list of codings is none: the field passes as it came, and every block has its stamp")
@pytest.mark.parametrize("coding", ["identity, gzip", "gzip,identity", "identity", "Identity,  GZIP"])
async def test_identity_is_no_coding(coding):
    packer = zlib.compressobj(wbits=31)
    is_packed = "gzip" in coding.lower()
    parts = [
        packer.compress(part) + packer.flush(zlib.Z_SYNC_FLUSH) if is_packed else part
        for part in (HELLO, HELLO, HELLO, DONE)
    ]
    got, hop = await exchanged(*parts, head=streaming(f"Content-Encoding: {coding}"))

    assert got.values("content-encoding") == [coding.encode()]
    assert (bytes(got.body), got.end) == (b"".join(parts), WHOLE)
    assert classes(hop) == [CONTENT, CONTENT, CONTENT, TERMINAL]
    assert hop.end.ending is Ending.COMPLETE


# --------------------------------------------------------------------------------------------------------- the end


@report("R057", "five events end a response, and each says how")
@pytest.mark.parametrize(
    ("kind", "response", "ending", "reason", "error_code"),
    [
        ("response.completed", {"status": "completed"}, Ending.COMPLETE, "completed", None),
        ("response.done", {"status": "completed"}, Ending.COMPLETE, "completed", None),
        (
            "response.incomplete",
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            Ending.COMPLETE,
            "max_output_tokens",
            None,
        ),
        (
            "response.failed",
            {"error": {"code": "server_error", "message": "m"}},
            Ending.ERROR_EVENT,
            None,
            "server_error",
        ),
        ("error", None, Ending.ERROR_EVENT, None, "rate_limit_exceeded"),
    ],
)
async def test_a_response_ends_in_five_ways(kind, response, ending, reason, error_code):
    last = {"type": kind, "response": response} if response else {"type": kind, "code": error_code, "message": "m"}
    parts = [said({"type": "response.output_text.delta", "delta": "hi"}), b"event: %b\n" % kind.encode() + said(last)]
    got, hop = await exchanged(*parts, path=RESPONSES)

    assert (bytes(got.body), got.end) == (b"".join(parts), WHOLE)
    assert hop.end.ending is ending
    assert hop.exchange.finish_reasons == ((reason,) if reason else ())
    assert hop.exchange.error_code == error_code


def gemini(text=None, finish=None):
    candidate = {"content": {"role": "model", "parts": [] if text is None else [{"text": text}]}, "index": 0}
    return said({"candidates": [candidate | ({"finishReason": finish} if finish else {})], "modelVersion": "gemini-x"})


STOPS_EVERYWHERE = (
    [gemini(finish="STOP")] * 2
    + [gemini("a", "STOP" if number % 2 else None) for number in range(7)]
    + [gemini(finish="STOP")]
)
GEMINI = "/v1beta/models/gemini-x:streamGenerateContent"


@report("R059", "a finish reason on every chunk, and too early: what follows withdraws it, the end of the body decides")
@pytest.mark.parametrize("count", [10, 9, 5, 2])
async def test_a_finish_reason_is_only_a_candidate(count):
    parts = STOPS_EVERYWHERE[:count]
    got, hop = await exchanged(*parts, path=GEMINI)

    is_finished = b"STOP" in parts[-1]
    assert (bytes(got.body), got.end) == (b"".join(parts), WHOLE)
    assert hop.end.ending is (Ending.COMPLETE if is_finished else Ending.MISSING_TERMINAL)
    assert classes(hop).count(CONTENT) == min(max(0, count - 2), 7)


@report("R059", "cut off behind a finish reason it is cut off")
@pytest.mark.parametrize("count", [5, 6, 10])
@pytest.mark.parametrize("end", ["close", "reset"])
async def test_a_cut_behind_a_finish_reason_is_a_cut(count, end):
    parts = STOPS_EVERYWHERE[:count]
    got, hop = await exchanged(*parts, path=GEMINI, end=end)

    assert bytes(got.body) == b"".join(parts)
    assert got.end in {CUT, RESET}
    assert hop.end.ending is Ending.UPSTREAM_CUT


@report("R060", "the counts behind the finish reason, with no choices and without the member")
async def test_counts_may_come_without_choices():
    counts = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
    parts = (delta("hi"), delta(finish="stop"), said({"choices": [], "usage": counts}), said({"usage": counts}), DONE)
    got, hop = await exchanged(*parts, **EXACT)

    assert bytes(got.body) == b"".join(parts)
    assert classes(hop) == [CONTENT, CONTROL, USAGE, USAGE, TERMINAL]
    assert positions(hop) == [2] * 5
    assert (hop.usage.input_tokens, hop.usage.output_tokens, hop.usage.total_tokens) == (11, 3, 14)
    assert (hop.end.ending, hop.exchange.finish_reasons, hop.exchange.error_type) == (Ending.COMPLETE, ("stop",), None)


@report("R065", "spellings of the end mark, and what only looks like one")
@pytest.mark.parametrize(
    ("mark", "is_end"),
    [
        (b"data: [DONE]\n\n", True),
        (b"data:[DONE]\n\n", True),
        (b"data: [DONE] \n\n", True),
        (b"data:  [DONE]\n\n", True),
        (b"data: [DONE]\r\n\r\n", True),
        (b'data: "[DONE]"\n\n', False),
        (b"data: [done]\n\n", False),
        (b"data: [DONE\n\n", False),
        (b": [DONE]\n\n", False),
        (b"event: [DONE]\n\n", False),
        (delta("[DONE]"), False),
        (b"data: [DONE] or not\n\n", False),
    ],
)
async def test_the_end_mark_has_spellings_and_likenesses(mark, is_end):
    got, hop = await exchanged(HELLO, mark)

    assert (bytes(got.body), got.end) == (HELLO + mark, WHOLE)
    assert hop.end.ending is (Ending.COMPLETE if is_end else Ending.MISSING_TERMINAL)


def line(**values):
    return json.dumps({"model": "llama", "created_at": "2026-01-01T00:00:00Z", **values}).encode() + b"\n"


@report("R066", "lines of JSON: one says it is done, one that it failed, and text that says so says nothing")
@pytest.mark.parametrize(
    ("last", "ending", "error_code"),
    [
        (line(response="", done=True, done_reason="stop", eval_count=3), Ending.COMPLETE, None),
        (line(error="the runner has gone"), Ending.ERROR_EVENT, None),
        (b'{"error":{"code":"oom","message":"m"}}\n', Ending.ERROR_EVENT, "oom"),
        (line(response='"done":true', done=False), Ending.MISSING_TERMINAL, None),
        (line(response='{"error":"x"}', done=False), Ending.MISSING_TERMINAL, None),
    ],
    ids=["done", "error", "an object as error", "done as text", "error as text"],
)
async def test_lines_of_json_have_their_own_end(last, ending, error_code):
    parts = [line(response=text, done=False) for text in ("one", 'say "done": true', "three")] + [last]
    got, hop = await exchanged(*parts, path="/api/generate", head=NDJSON)

    assert (bytes(got.body), got.end) == (b"".join(parts), WHOLE)
    assert (hop.exchange.framing, hop.exchange.dialect) == ("ndjson", "ollama")
    assert (hop.end.ending, hop.exchange.error_code) == (ending, error_code)
    assert hop.traffic.event_count == 4
