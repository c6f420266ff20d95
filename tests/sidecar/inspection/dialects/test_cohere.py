"""Cohere, version 2: the type of an event tells all, and the finish reason whether it was a failure."""

import pytest

from otel.hop import EventClass, Usage
from sidecar.inspection.dialects.cohere import COHERE
from sidecar.inspection.events import Reading
from tests.support.dialects import event


def read(kind, message=None, **members):
    return COHERE.read(event({"type": kind, "delta": {"message": message, **members}}, kind.encode()))


@pytest.mark.parametrize(
    ("kind", "message", "event_class", "chars"),
    [
        ("content-delta", {"content": {"text": "Grüße"}}, EventClass.CONTENT, 5),
        ("content-start", {"content": {"type": "text", "text": ""}}, EventClass.CONTROL, 0),
        ("content-start", {"content": {"text": "At once"}}, EventClass.CONTENT, 7),
        ("content-delta", {"content": {"thinking": "hm"}}, EventClass.REASONING, 0),
        ("content-delta", {"content": [7]}, EventClass.CONTROL, 0),
        ("content-delta", None, EventClass.CONTROL, 0),
        ("tool-plan-delta", {"tool_plan": "I will"}, EventClass.REASONING, 0),
        ("tool-call-delta", {"tool_calls": {}}, EventClass.TOOL, 0),
        ("tool-call-end", None, EventClass.CONTROL, 0),
        ("citation-start", {"citations": {"text": "a"}}, EventClass.CONTROL, 0),
        ("debug", None, EventClass.CONTROL, 0),
    ],
)
def test_an_event_is_classed_by_its_type(kind, message, event_class, chars):
    assert read(kind, message) == Reading(event_class, chars)


def test_the_end_says_why_and_counts_and_a_sentinel_may_follow():
    end = read("message-end", finish_reason="MAX_TOKENS", usage={"tokens": {"input_tokens": 9.0, "output_tokens": 5}})

    assert end == Reading(EventClass.TERMINAL, finish="MAX_TOKENS", usage=Usage(input_tokens=9, output_tokens=5))
    assert COHERE.read(event(b"[DONE]")) == Reading(EventClass.TERMINAL)


@pytest.mark.parametrize("reason", ["ERROR", "ERROR_TOXIC", "TIMEOUT"])
def test_some_reasons_are_failures(reason):
    assert read("message-end", finish_reason=reason, error="secret words") == Reading(
        EventClass.ERROR, error_type=reason
    )


def test_odd_reasons_are_none():
    assert read("message-end", finish_reason=["ERROR"]) == Reading(EventClass.TERMINAL)


@pytest.mark.parametrize(
    ("chunk", "is_known"),
    [({"type": "message-start"}, True), ({"type": "message_start"}, False), ({"type": {}}, False), (None, False)],
)
def test_it_is_known_by_its_types(chunk, is_known):
    assert COHERE.begins(event(b""), chunk) is is_known


def test_a_failure_says_why_and_a_sidecar_of_which_kind_it_is():
    failed = read("message-end", finish_reason="TIMEOUT", error="request timed out", error_type="next_event_timeout")

    assert (failed.error_type, failed.error_detail) == ("next_event_timeout", "request timed out")
