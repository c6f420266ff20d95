"""Errors that an upstream tells in band, in whatever shape; words that only look like one; and what is told of it."""

from __future__ import annotations

import json
import logging

import pytest

from otel.hop import OUTPUT, Ending, EventClass, Side
from otel.span import ERROR
from sidecar.telling.accesslog import ENDED
from tests.faults import report
from tests.faults.stage import CHAT, DONE, HELLO, MESSAGES, RESPONSES, delta, exchanged, said, stage
from tests.support.raw_peers import WHOLE

SECRET = "Zanzibar-17"
"""A word of a prompt, as servers like to quote them in their errors."""


def ended_line(caplog):
    (found,) = [record for record in caplog.records if record.getMessage() == ENDED]
    return vars(found)


@report("R068", "an error, then the end mark: one record and one line have all that is to be known of it")
@pytest.mark.parametrize("finish", [None, "stop"], ids=["at once", "behind a finish reason"])
async def test_an_error_before_the_end_mark_is_told_in_one_line(caplog, finish):
    caplog.set_level(logging.INFO)
    error = said(
        {
            "error": {
                "message": f"stream timeout: {SECRET} " + "x " * 5_000,
                "type": "server_error",
                "code": "engine_dead",
            }
        }
    )
    parts = (HELLO, delta(finish=finish)) if finish else (HELLO,)
    async with stage() as here:
        await here.say(*parts)
        await here.pass_s(7)
        await here.say(error)
        await here.pass_s(2)
        await here.say(DONE)
        got, hop = await here.end()
        (span,) = [span for span in here.proxy.shelf.spans if span.span_id == hop.span_id]

    line = ended_line(caplog)
    assert (bytes(got.body), got.end) == (b"".join(parts) + error + DONE, WHOLE)
    assert (hop.end.ending, hop.end.ended_by) == (Ending.ERROR_EVENT, Side.UPSTREAM)
    assert (hop.exchange.error_type, hop.exchange.error_code) == ("server_error", "engine_dead")
    assert hop.exchange.error_detail.startswith("stream timeout: …")
    assert len(hop.exchange.error_detail) <= 200
    assert span.status_code == ERROR
    told = ("outcome", "cause", "error_type", "error_code", "status", "total_duration_ms", "request_id")
    assert [line[key] for key in told] == [
        "error_event", "server_error", "server_error", "engine_dead", 200, 9_000.0, hop.request_id,
    ]  # fmt: skip
    assert (line["error_detail"], line["time_since_last_byte_ms"]) == (hop.exchange.error_detail, 0.0)
    assert SECRET not in str([vars(record) for record in caplog.records]) + str(hop) + str(span)


@report("R069", "an error behind content, no end mark: an error, no cut, with the provider's own id of the request")
async def test_an_error_in_place_of_the_end_mark_is_no_cut():
    parts = (
        b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","model":"c","usage":{}}}\n\n',
        *[b"event: content_block_delta\n" + said({"type": "content_block_delta", "delta": {"text": "a"}})] * 2,
        b"event: error\n" + said({"type": "error", "error": {"type": "overloaded_error"}, "request_id": "req_7Q"}),
    )
    got, hop = await exchanged(*parts, path=MESSAGES)

    assert (bytes(got.body), got.end) == (b"".join(parts), WHOLE)
    assert (hop.end.ending, hop.end.framing_incomplete) == (Ending.ERROR_EVENT, False)
    assert hop.exchange.error_type == "overloaded_error"
    assert "req_7Q" in hop.aliases
    assert [stamp.event_class for stamp in hop.timeline.stamps][-1] is EventClass.ERROR


@report("R070", "an error in a chunk that has no choices: no counts, and no first content")
@pytest.mark.parametrize("behind", [(), (DONE,)], ids=["alone", "before the end mark"])
async def test_an_error_without_choices_is_no_chunk_of_counts(caplog, behind):
    caplog.set_level(logging.INFO)
    parts = (said({"choices": [], "usage": None, "error": {"code": 502, "message": "limit reached"}}), *behind)
    got, hop = await exchanged(*parts)

    assert bytes(got.body) == b"".join(parts)
    assert (hop.end.ending, hop.exchange.error_code, hop.exchange.error_detail) == (
        Ending.ERROR_EVENT, "502", "limit reached",
    )  # fmt: skip
    assert hop.timeline.stamps[0].event_class is EventClass.ERROR
    assert not {stamp.event_class for stamp in hop.timeline.stamps} & OUTPUT
    assert ended_line(caplog)["time_to_first_content_ms"] is None


@report("R072", "a stream that fails behind its first words and says only that it is done: whole, and without a reason")
@pytest.mark.parametrize(("last", "reasons"), [((), ()), ((delta(finish="length"),), ("length",))])
async def test_an_end_without_a_reason_can_be_told_from_one_with_a_reason(last, reasons):
    role = said({"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant"}}]})
    parts = (role, *[delta("w")] * 3, *last, DONE)
    got, hop = await exchanged(*parts)

    assert (bytes(got.body), got.end) == (b"".join(parts), WHOLE)
    assert (hop.end.ending, hop.exchange.finish_reasons) == (Ending.COMPLETE, reasons)


@report("R075", "an error of another shape than the events before it, and then the end")
@pytest.mark.parametrize("path", ["/generate_stream", CHAT, "/anything"])
async def test_an_error_of_another_shape_is_an_error(path):
    tokens = [b'data:{"token":{"id":%d,"text":"a","special":false},"generated_text":null}\n\n' % n for n in range(5)]
    last = b'data:{"error":"Request failed during generation: worker died","error_type":"generation"}\n\n'
    got, hop = await exchanged(*tokens, last, path=path)

    assert bytes(got.body) == b"".join(tokens) + last
    assert (hop.end.ending, hop.exchange.error_type) == (Ending.ERROR_EVENT, "generation")
    assert hop.exchange.error_detail.startswith("Request failed during generation")
    assert hop.exchange.dialect == "tgi"


ARGUMENTS = {"index": 0, "function": {"name": "f", "arguments": '{"error":"none","event":"error"}'}}
HARMLESS = {
    "an error object in a text": (CHAT, delta('{"error":{"code":500}}')),
    "the word": (CHAT, delta("error: event: error\n\ndata: [DONE]")),
    "arguments of a tool": (CHAT, said({"choices": [{"index": 0, "delta": {"tool_calls": [ARGUMENTS]}}]})),
    "an error further down": (CHAT, delta("a", result={"output": {"error": {"code": 1}}})),
    "no error": (CHAT, delta("a", error=None)),
    "an empty error": (CHAT, delta("a", error={})),
    "a response's own null": (
        RESPONSES,
        said({"type": "response.created", "response": {"id": "r", "status": "in_progress", "error": None}}),
    ),
    "a null in any event": (RESPONSES, said({"type": "response.output_text.delta", "delta": "error", "error": None})),
    "a tool's result": (
        MESSAGES,
        said({"type": "content_block_start", "content_block": {"type": "tool_result", "error": {"type": "t"}}}),
    ),
}
ENDS = {
    CHAT: DONE,
    RESPONSES: said({"type": "response.completed", "response": {"status": "completed", "error": None}}),
    MESSAGES: b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
}


@report("R076", "texts, arguments and members further down that have to do with errors: none is one")
@pytest.mark.parametrize(("path", "event"), HARMLESS.values(), ids=HARMLESS)
async def test_what_only_speaks_of_errors_is_none(path, event):
    got, hop = await exchanged(event, ENDS[path], path=path)

    assert (bytes(got.body), got.end) == (event + ENDS[path], WHOLE)
    assert (hop.end.ending, hop.exchange.error_type, hop.exchange.error_code) == (Ending.COMPLETE, None, None)
    assert EventClass.ERROR not in {stamp.event_class for stamp in hop.timeline.stamps}
    assert json.loads(event.partition(b"data: ")[2])
