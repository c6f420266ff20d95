"""Bedrock: frames by their type, and what is wrapped in them as its model says it."""

import base64

import pytest

from otel.hop import EventClass, Usage
from sidecar.inspection.dialects.bedrock import BEDROCK
from sidecar.inspection.events import Reading
from tests.support.dialects import Wrapped, classes, event, frame, seen

TYPE = "application/vnd.amazon.eventstream"
METRICS = {"amazon-bedrock-invocationMetrics": {"inputTokenCount": 9, "outputTokenCount": 2, "invocationLatency": 7}}
COUNTED = Usage(input_tokens=9, output_tokens=2)


def read(name, **members):
    return BEDROCK.read(event(members, b"event/" + name.encode()))


def said(**members):
    return BEDROCK.read(event(Wrapped(members), b"event/chunk"))


@pytest.mark.parametrize(
    ("name", "members", "reading"),
    [
        ("contentBlockDelta", {"delta": {"text": "Hi!"}}, Reading(EventClass.CONTENT, 3)),
        ("contentBlockDelta", {"delta": {"text": ""}}, Reading(EventClass.CONTROL)),
        ("contentBlockDelta", {"delta": {"reasoningContent": {"text": "hm"}}}, Reading(EventClass.REASONING)),
        ("contentBlockDelta", {"delta": {"toolUse": {"input": "{"}}}, Reading(EventClass.TOOL)),
        ("contentBlockStart", {"start": {"toolUse": {}}}, Reading(EventClass.TOOL)),
        ("contentBlockStart", {"start": {}}, Reading(EventClass.CONTROL)),
        (
            "messageStop",
            {"stopReason": "guardrail_intervened"},
            Reading(EventClass.TERMINAL, finish="guardrail_intervened"),
        ),
        ("metadata", {"usage": {"inputTokens": 9, "outputTokens": 2}}, Reading(EventClass.USAGE, usage=COUNTED)),
        ("somethingNew", {}, Reading(EventClass.CONTROL)),
    ],
)
def test_a_frame_of_converse_is_classed_by_its_type(name, members, reading):
    assert read(name, **members) == reading


@pytest.mark.parametrize(
    ("members", "reading"),
    [
        ({"type": "content_block_delta", "delta": {"text": "Hi"}}, Reading(EventClass.CONTENT, 2)),
        ({"type": "message_stop"}, Reading(EventClass.TERMINAL)),
        ({"type": "message_stop", **METRICS}, Reading(EventClass.TERMINAL, usage=COUNTED, is_end=True)),
        ({"generation": "Hi", "stop_reason": None}, Reading(EventClass.CONTENT, 2)),
        (
            {"generation": "", "stop_reason": "length", **METRICS},
            Reading(EventClass.TERMINAL, finish="length", usage=COUNTED, is_end=True),
        ),
        ({"outputs": [{"text": "Hi", "stop_reason": None}]}, Reading(EventClass.CONTENT, 2)),
        ({"outputText": "Hi", "completionReason": None}, Reading(EventClass.CONTENT, 2)),
        ({"choices": [{"delta": {"content": "Hi"}}]}, Reading(EventClass.CONTENT, 2)),
        ({"event_type": "text-generation", "text": "Hi"}, Reading(EventClass.CONTENT, 2)),
        ({"contentBlockDelta": {"delta": {"text": "Hi"}}}, Reading(EventClass.CONTENT, 2)),
        ({"error": {"type": "x"}, "type": "error"}, Reading(EventClass.ERROR, error_type="x")),
        ({}, Reading(EventClass.CONTROL)),
    ],
)
def test_a_wrapped_chunk_is_read_as_its_model_says_it(members, reading):
    assert said(**members) == reading


@pytest.mark.parametrize("value", [None, 7, "!", "not base64", base64.b64encode(b"text").decode(), "é"])
def test_a_chunk_that_cannot_be_unwrapped_is_opaque(value):
    assert read("chunk", bytes=value) == Reading(EventClass.OPAQUE)


def test_an_exception_is_an_error_of_its_type():
    failed = BEDROCK.read(event({"message": "secret words"}, b"exception/throttlingException"))

    assert failed == Reading(EventClass.ERROR, error_type="throttlingException")
    assert BEDROCK.read(event(b"", b"error/InternalFailure")).error_type == "InternalFailure"


def test_an_exception_in_a_stream_ends_it_without_its_end():
    body = seen(
        [
            frame(b'{"delta":{"text":"Hi"}}', b"event/contentBlockDelta"),
            frame(b'{"message":"secret"}', b"exception/modelStreamErrorException"),
        ],
        content_type=TYPE,
        path="/model/m/converse-stream",
    )

    assert (classes(body), body.terminal_seq, body.error.error_type) == ("ce", None, "modelStreamErrorException")


def test_other_services_with_the_same_frames_have_no_rule():
    body = seen([frame(b"raw", b"event/PayloadPart")], content_type=TYPE)

    assert (body.dialect.name, body.has_terminal_rule, classes(body)) == ("plain", False, "o")


def test_frames_that_break_their_rules_accuse_nobody():
    good = frame(b'{"delta":{"text":"Hi"}}', b"event/contentBlockDelta")
    body = seen([good, good[:-1] + b"x", b"more"], content_type=TYPE)

    assert (classes(body), body.has_terminal_rule, body.failure_count) == ("coo", False, 0)


@pytest.mark.parametrize(
    ("name", "is_known"),
    [(b"event/chunk", True), (b"event/messageStart", True), (b"event/PayloadPart", False), (b"chunk", False)],
)
def test_it_is_known_by_the_type_of_its_frames(name, is_known):
    assert BEDROCK.begins(event(b"", name), None) is is_known


def test_an_exception_says_why_and_a_gateway_may_say_it_as_others_do():
    failed = BEDROCK.read(event({"message": "model timed out"}, b"exception/modelTimeoutException"))

    assert failed.error_detail == "model timed out"
    assert BEDROCK.read(event({"error": {"type": "x"}}, b"event/chunk")).error_type == "x"
