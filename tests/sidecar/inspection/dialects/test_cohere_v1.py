"""Cohere, version 1: the last line repeats the answer, which counts once."""

import pytest

from otel.hop import EventClass, Usage
from sidecar.inspection.dialects.cohere_v1 import COHERE_V1
from sidecar.inspection.events import Reading
from tests.support.dialects import classes, event, seen


def read(kind, *, is_finished=False, **members):
    return COHERE_V1.read(event({"event_type": kind, "is_finished": is_finished, **members}))


@pytest.mark.parametrize(
    ("kind", "members", "event_class", "chars"),
    [
        ("stream-start", {}, EventClass.CONTROL, 0),
        ("text-generation", {"text": "Well"}, EventClass.CONTENT, 4),
        ("text-generation", {"text": None}, EventClass.CONTROL, 0),
        ("tool-calls-chunk", {}, EventClass.TOOL, 0),
        ("search-results", {"documents": []}, EventClass.CONTROL, 0),
        (["text-generation"], {"text": "a"}, EventClass.CONTROL, 0),
    ],
)
def test_a_line_is_classed_by_its_type(kind, members, event_class, chars):
    assert read(kind, **members) == Reading(event_class, chars)


def test_the_end_says_why_and_counts_and_repeats_nothing():
    answer = {"text": "Well", "chat_history": ["secret words"], "meta": {"billed_units": {"output_tokens": 3}}}
    end = read("stream-end", is_finished=True, finish_reason="COMPLETE", response=answer)

    assert end == Reading(EventClass.TERMINAL, finish="COMPLETE", usage=Usage(output_tokens=3))
    assert read("stream-end", finish_reason="ERROR") == Reading(EventClass.ERROR, error_type="ERROR")


def test_its_media_type_is_one_of_lines():
    lines = b'{"is_finished":false,"event_type":"text-generation","text":"a"}\n{"is_finished":true}\n'
    body = seen([lines], content_type="application/stream+json", path="/v1/chat")

    assert (body.dialect.name, classes(body), body.terminal_seq, body.has_terminal_rule) == ("cohere_v1", "c.", 1, True)


def test_it_is_known_by_its_type_and_its_flag():
    assert COHERE_V1.begins(event(b""), {"event_type": "x", "is_finished": False})
    assert not COHERE_V1.begins(event(b""), {"event_type": "x"})
    assert not COHERE_V1.begins(event(b""), None)
