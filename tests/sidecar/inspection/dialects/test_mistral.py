"""Mistral conversations: the type of an event tells all."""

import pytest

from otel.hop import EventClass, Usage
from sidecar.inspection.dialects.mistral import MISTRAL
from sidecar.inspection.events import Reading
from tests.support.dialects import event


def read(kind, name=None, **members):
    return MISTRAL.read(event({"type": kind, **members}, kind.encode() if name is None else name))


@pytest.mark.parametrize(
    ("kind", "members", "event_class", "chars"),
    [
        ("message.output.delta", {"content": "Salut"}, EventClass.CONTENT, 5),
        ("message.output.delta", {"content": {"type": "text", "text": "ab"}}, EventClass.CONTENT, 2),
        ("message.output.delta", {"content": {"type": "thinking", "thinking": []}}, EventClass.REASONING, 0),
        ("message.output.delta", {"content": {"type": "tool_file"}}, EventClass.CONTROL, 0),
        ("message.output.delta", {"content": ["a"]}, EventClass.CONTROL, 0),
        ("function.call.delta", {"arguments": "{"}, EventClass.TOOL, 0),
        ("tool.execution.started", {"name": "web_search"}, EventClass.TOOL, 0),
        ("agent.handoff.started", {}, EventClass.CONTROL, 0),
    ],
)
def test_an_event_is_classed_by_its_type(kind, members, event_class, chars):
    assert read(kind, **members) == Reading(event_class, chars)


def test_the_end_counts():
    counts = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}

    assert read("conversation.response.done", usage=counts) == Reading(
        EventClass.TERMINAL, usage=Usage(input_tokens=3, output_tokens=2, total_tokens=5)
    )


def test_an_error_gives_its_code():
    failed = read("conversation.response.error", message="secret words", code=500)

    assert (failed.event_class, failed.error_code) == (EventClass.ERROR, "500")
    assert MISTRAL.read(event(b"words", b"error")) == Reading(EventClass.ERROR)


def test_it_is_known_by_its_types():
    assert MISTRAL.begins(event(b""), {"type": "conversation.response.started"})
    assert not MISTRAL.begins(event(b""), {"type": "conversation"})
    assert not MISTRAL.begins(event(b""), None)
