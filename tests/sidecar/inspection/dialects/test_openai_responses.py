"""Responses: the type of an event tells all, and the end is known however long the event is."""

import time

import pytest

from otel.hop import EventClass, Usage
from sidecar.inspection.dialects.openai_responses import OPENAI_RESPONSES
from sidecar.inspection.events import Event, Reading, Unit
from tests.support.dialects import classes, event, seen

SSE = "text/event-stream"


def read(kind, name=None, **members):
    data = {"type": kind, **members} if kind else members
    return OPENAI_RESPONSES.read(event(data, (kind or "").encode() if name is None else name))


@pytest.mark.parametrize(
    ("kind", "members", "event_class", "chars"),
    [
        ("response.output_text.delta", {"delta": "Grüße"}, EventClass.CONTENT, 5),
        ("response.output_text.delta", {"delta": ""}, EventClass.CONTROL, 0),
        ("response.output_text.delta", {"delta": ["x"]}, EventClass.CONTROL, 0),
        ("response.refusal.delta", {"delta": "No"}, EventClass.CONTENT, 2),
        ("response.output_audio_transcript.delta", {"delta": "Hi"}, EventClass.CONTENT, 2),
        ("response.output_audio.delta", {"delta": "AAAA"}, EventClass.TOOL, 0),
        ("response.reasoning_text.delta", {"delta": "hm"}, EventClass.REASONING, 0),
        ("response.reasoning_summary_text.delta", {"delta": "hm"}, EventClass.REASONING, 0),
        ("response.function_call_arguments.delta", {"delta": "{"}, EventClass.TOOL, 0),
        ("response.mcp_call.arguments_delta", {"delta": "{"}, EventClass.TOOL, 0),
        ("response.code_interpreter_call_code.delta", {"delta": "x=1"}, EventClass.TOOL, 0),
        ("response.image_generation_call.partial_image", {"partial_image_b64": "iVBO"}, EventClass.TOOL, 0),
        ("response.output_item.added", {"item": {"type": "web_search_call"}}, EventClass.TOOL, 0),
        ("response.output_item.added", {"item": {"type": "message"}}, EventClass.CONTROL, 0),
        ("response.output_item.added", {"item": None}, EventClass.CONTROL, 0),
        ("response.output_text.done", {"text": "all of it again"}, EventClass.CONTROL, 0),
        ("response.output_text.annotation.added", {}, EventClass.CONTROL, 0),
        ("keepalive", {"sequence_number": 3}, EventClass.KEEPALIVE, 0),
        ("response.something_new", {}, EventClass.CONTROL, 0),
    ],
)
def test_an_event_is_classed_by_its_type(kind, members, event_class, chars):
    assert read(kind, **members) == Reading(event_class, chars)
    assert read(kind, b"", **members) == Reading(event_class, chars)


@pytest.mark.parametrize(
    ("kind", "response", "finish"),
    [
        ("response.completed", {"status": "completed"}, "completed"),
        ("response.done", {}, None),
        (
            "response.incomplete",
            {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
            "content_filter",
        ),
        ("response.cancelled", {"status": "cancelled"}, "cancelled"),
    ],
)
def test_four_types_are_the_end_and_say_why(kind, response, finish):
    assert read(kind, response=response) == Reading(EventClass.TERMINAL, finish=finish)


def test_the_end_counts_and_names():
    usage = {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12, "output_tokens_details": {}}
    reading = read("response.completed", response={"id": "r", "model": "m", "usage": usage, "error": None})

    assert reading == Reading(
        EventClass.TERMINAL, 0, "m", "r", usage=Usage(input_tokens=7, output_tokens=5, total_tokens=12)
    )


@pytest.mark.parametrize(
    ("kind", "members", "error_type", "error_code"),
    [
        ("response.failed", {"response": {"error": {"code": "server_error", "message": "m"}}}, None, "server_error"),
        ("error", {"code": "rate_limit_exceeded", "message": "m", "param": None}, "error", "rate_limit_exceeded"),
        ("error", {"error": {"type": "server_error", "code": None}}, "server_error", None),
        (None, {"error": {"type": "invalid"}}, "invalid", None),
    ],
)
def test_a_failure_gives_tokens(kind, members, error_type, error_code):
    reading = read(kind, **members)

    assert (reading.event_class, reading.error_type, reading.error_code) == (EventClass.ERROR, error_type, error_code)


def test_an_event_named_error_is_one_whatever_its_data_says():
    assert read("server_error", b"error").event_class is EventClass.ERROR
    assert OPENAI_RESPONSES.read(event(b"no json", b"error")).event_class is EventClass.ERROR


@pytest.mark.parametrize(
    "quoted", [{"error": None}, {"item": {"error": {"code": 1}}}, {"delta": '{"error":{"code":1}}'}]
)
def test_what_only_looks_like_an_error_is_none(quoted):
    assert read("response.output_text.delta", **{"delta": "x", **quoted}).event_class is EventClass.CONTENT


def test_a_name_alone_is_enough_and_half_an_event_is_not():
    assert OPENAI_RESPONSES.read(event(b'{"sequence', b"response.completed", is_cut=True)) == Reading(
        EventClass.TERMINAL
    )
    assert OPENAI_RESPONSES.read(event(b'{"type":"response.completed","response":{', is_cut=True)) == Reading(
        EventClass.TERMINAL
    )
    half = b'event: response.completed\ndata: {"type":"response.completed","resp'
    assert seen([half], content_type=SSE, path="/v1/responses").terminal_seq is None


@pytest.mark.parametrize("name", [b"event: response.completed\n", b""])
def test_two_megabytes_that_are_the_end_are_known_at_once(name):
    delta = b'data: {"type":"response.output_text.delta","delta":"x"}\n\n'
    big = name + b'data: {"type":"response.completed","response":{"output":[' + b'{"a":["b"]},' * 180_000 + b"{}]}}\n\n"
    assert len(big) > 2 << 20
    reads = [delta] * 100 + [big[at : at + 32_768] for at in range(0, len(big), 32_768)]
    began_ns = time.perf_counter_ns()
    body = seen(reads, content_type=SSE)

    assert classes(body) == "c" * 100 + "."
    assert (body.terminal_seq, body.has_terminal_rule) == (100, True)
    assert time.perf_counter_ns() - began_ns < 2_000_000_000


def test_an_end_too_long_to_be_known_accuses_nobody():
    late = b'data: {"response":{"output":"' + b"x" * (2 << 20) + b'"},"type":"response.completed"}\n\n'
    body = seen([b'data: {"type":"response.created","response":{}}\n\n', late], content_type=SSE)

    assert (body.terminal_seq, body.has_terminal_rule) == (None, False)


def test_a_response_may_be_taken_up_in_its_middle():
    assert OPENAI_RESPONSES.begins(event(b""), {"type": "response.output_text.delta"})
    assert OPENAI_RESPONSES.begins(Event(Unit.EVENT, b"x", b"response.created", b"", 1), None)
    assert not OPENAI_RESPONSES.begins(event(b""), {"type": "keepalive"})
    assert not OPENAI_RESPONSES.begins(event(b""), {"type": ["response."]})


def test_the_id_is_the_first_one_though_it_may_change_with_every_event():
    events = [
        b'data: {"type":"response.%s","response":{"id":"resp_%d","model":"m"}}\n\n' % (kind, number)
        for number, kind in enumerate([b"created", b"in_progress", b"completed"])
    ]

    assert seen(events, content_type=SSE).response_id == "resp_0"


def test_an_error_member_is_an_error_whatever_the_name_but_no_part_of_a_response_is():
    error = {"type": "server_error", "message": "stream closed"}

    assert OPENAI_RESPONSES.read(event({"error": error}, b"gateway.problem")).error_detail == "stream closed"
    assert OPENAI_RESPONSES.read(event({"type": "response.created", "error": error})).event_class is EventClass.CONTROL
