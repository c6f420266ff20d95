"""A shape is learnt where nothing hangs on what stands in its holes, and nowhere else."""

import orjson
import pytest

from otel.hop import EventClass
from sidecar.inspection.dialects import DIALECTS
from sidecar.inspection.dialects.anthropic import ANTHROPIC
from sidecar.inspection.dialects.openai_chat import OPENAI_CHAT
from sidecar.inspection.dialects.openai_responses import OPENAI_RESPONSES
from sidecar.inspection.events import Event, Reading, Unit
from sidecar.inspection.shape import HOLES, SHAPE_BYTES, Hole, Learner, Shape, shape_of
from tests.support.dialects import SPOKEN, event

HEAD = {"id": "c-1", "created": 1764500000, "model": "m"}


def learnt(data, dialect=OPENAI_CHAT, name=b"", **options):
    one = event(data if isinstance(data, bytes) else orjson.dumps(data), name, **options)
    return shape_of(one, dialect.read(one), dialect.read)


def chunk(*deltas, **more):
    return (
        HEAD
        | {"choices": [{"index": n, "delta": delta, "finish_reason": None} for n, delta in enumerate(deltas)]}
        | more
    )


def test_the_usual_event_of_a_chat():
    assert learnt(chunk({"content": "hi"})) == Shape(
        (
            b'data: {"id":"c-1","created":',
            b',"model":"m","choices":[{"index":',
            b',"delta":{"content":"',
            b'"},"finish_reason":null}]}\n\n',
        ),
        (Hole.NUMBER, Hole.NUMBER, Hole.COUNTED),
        EventClass.CONTENT,
        0,
    )


@pytest.mark.parametrize(
    ("data", "holes", "event_class", "fixed_chars"),
    [
        (chunk({"content": "a"}, {"content": "b"}), "NNCNC", EventClass.CONTENT, 0),
        (chunk({"content": "a"}, {"delta": {}}), "NNCN", EventClass.CONTENT, 0),
        (chunk({"content": "", "reasoning_content": "a"}), "NNU", EventClass.REASONING, 0),
        (chunk({"content": None, "reasoning": "a"}), "NNU", EventClass.REASONING, 0),
        (chunk({"content": "a"}, obfuscation="xyz"), "NNCU", EventClass.CONTENT, 0),
        (chunk({"tool_calls": [{"function": {"arguments": "{"}}]}), "NNU", EventClass.TOOL, 0),
        (chunk({"content": [{"type": "text", "text": "ab"}]}), "NNC", EventClass.CONTENT, 0),
        (chunk({"refusal": "no"}), "NNC", EventClass.CONTENT, 0),
    ],
)
def test_what_is_counted_is_found_by_trial(data, holes, event_class, fixed_chars):
    shape = learnt(data)

    assert "".join(hole.name[0] for hole in shape.holes) == holes
    assert (shape.event_class, shape.fixed_chars) == (event_class, fixed_chars)


def test_other_apis():
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}
    named = learnt(delta, ANTHROPIC, b"content_block_delta")
    thought = learnt(delta | {"delta": {"type": "thinking_delta", "thinking": "Hm"}}, ANTHROPIC)
    response = learnt(
        {"type": "response.output_text.delta", "sequence_number": 7, "delta": "x", "obfuscation": "yy"},
        OPENAI_RESPONSES,
    )

    assert named.literals[0].startswith(b"event: content_block_delta\ndata: {")
    assert (named.holes, named.event_class) == ((Hole.NUMBER, Hole.COUNTED), EventClass.CONTENT)
    assert (thought.holes, thought.event_class) == ((Hole.NUMBER, Hole.UNCOUNTED), EventClass.REASONING)
    assert response.holes == (Hole.NUMBER, Hole.COUNTED, Hole.UNCOUNTED)


@pytest.mark.parametrize(
    "data",
    [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "a"}) | {"usage": {"completion_tokens": 1}},
        chunk({"content": "a"}) | {"error": {"message": "x"}},
        HEAD | {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]},
        b"[DONE]",
        b"",
        b'{"choices":[{"delta":{"content":"a"}}',
        chunk(*[{"content": "a"}] * HOLES),
        chunk({"content": "a"}, padding="x" * SHAPE_BYTES),
        b'{"choices":[{"delta":{"content":"a"},\n"index":0}]}',
    ],
)
def test_an_event_on_which_something_hangs_has_no_shape(data):
    assert learnt(data) is None


@pytest.mark.parametrize("options", [{"is_cut": True}, {"event_id": b"7"}])
def test_nor_has_one_with_an_id_or_one_that_was_cut(options):
    assert learnt(chunk({"content": "a"}), **options) is None


def test_a_member_that_comes_twice_counts_once():
    shape = learnt(b'{"choices":[{"delta":{"content":"one","content":"four"}}]}')

    assert shape.holes == (Hole.UNCOUNTED, Hole.COUNTED)


def test_what_only_looks_like_a_member_is_none():
    shape = learnt(b'{"choices":[{"delta":{"content":"\\"content\\": \\"x\\"","b\\"content":"y"}}]}')

    assert shape.holes == (Hole.COUNTED,)
    assert learnt(b'{"choices":[{"delta":{"content":1,"b":"content"}}]}') is None


@pytest.mark.parametrize(
    "read",
    [
        lambda event: Reading(EventClass.CONTENT, 2 * len(event.data)),
        lambda event: Reading(EventClass.CONTENT, 1, model=event.data[-9:].decode()),
        lambda event: Reading(EventClass.CONTENT if b'"x"' in event.data else EventClass.TOOL, 1),
        lambda event: Reading(EventClass.CONTENT, 1 + (b"999" in event.data)),
        lambda event: Reading(EventClass.CONTENT, 1, finish="a" if b'"x"' not in event.data else None),
    ],
)
def test_a_reading_that_hangs_on_more_has_no_shape(read):
    one = event(b'{"content":"x","created":1}')

    assert shape_of(one, read(one), read) is None


def test_ever_more_events_pass_before_the_next_is_learnt():
    learner, asked = Learner(), []

    def read(event):
        asked.append(event)
        return OPENAI_CHAT.read(event)

    one = Event(Unit.EVENT, orjson.dumps(chunk({"content": "hi"})), b"", b"", 100)
    assert learner.shape(one, Reading(EventClass.CONTROL), read, count=70) is None  # and that was no attempt
    found = [count for count in range(100) if learner.shape(one, OPENAI_CHAT.read(one), read, count=count)]

    assert found == [2, 4, 8, 16, 32, 64]
    assert len(asked) == len(found) * 4


NUMBERED = [
    (spoken.dialect, name, data)
    for spoken in SPOKEN.values()
    for name, data in spoken.events
    if isinstance(data, dict) and "sglang" not in spoken.dialect
]


@pytest.mark.parametrize("value", [1, 999_999_999_999_999, "xyz"])
def test_no_dialect_reads_what_only_numbers_or_pads(value):
    reads = {dialect.name: dialect.begin() for dialect in DIALECTS}
    for dialect, name, data in NUMBERED:
        keys = ("created", "sequence_number", "index") if isinstance(value, int) else ("obfuscation", "p")
        assert reads[dialect](event(_with(data, keys, value), name)) == reads[dialect](
            event(_with(data, keys, 0), name)
        )


def _with(data, keys, value):
    """The same, each object in it with these members."""
    if isinstance(data, dict):
        return {key: _with(inner, keys, value) for key, inner in data.items()} | dict.fromkeys(keys, value)
    return [_with(inner, keys, value) for inner in data] if isinstance(data, list) else data
