"""Anthropic events are classed by their type and by what a reader sees of them."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.hop import EventClass, Usage
from sidecar.inspection.dialects.anthropic import ANTHROPIC
from sidecar.inspection.events import Event, Reading, Unit


def event(data, name=None, *, is_cut=False):
    if name is None:
        name = data["type"].encode() if isinstance(data, dict) and isinstance(data.get("type"), str) else b""
    data = data if isinstance(data, bytes) else orjson.dumps(data)
    return Event(Unit.EVENT, data, name, b"", len(data) + 8, is_cut)


def read(data, name=None, **options):
    return ANTHROPIC.read(event(data, name, **options))


def delta(**members):
    return {"type": "content_block_delta", "index": 0, "delta": members}


def start(**members):
    return {"type": "content_block_start", "index": 0, "content_block": members}


@pytest.mark.parametrize(
    ("data", "event_class", "chars"),
    [
        (delta(type="text_delta", text="Hello"), EventClass.CONTENT, 5),
        (delta(type="text_delta", text="你好🙂"), EventClass.CONTENT, 3),
        (delta(type="text_delta", text=""), EventClass.CONTROL, 0),
        (delta(type="thinking_delta", thinking="hm"), EventClass.REASONING, 0),
        (delta(type="input_json_delta", partial_json='{"a'), EventClass.TOOL, 0),
        (delta(type="signature_delta", signature="Eq"), EventClass.CONTROL, 0),
        (delta(type="something_new"), EventClass.CONTROL, 0),
        ({"type": "content_block_delta", "delta": None}, EventClass.CONTROL, 0),
        (start(type="text", text=""), EventClass.CONTROL, 0),
        (start(type="text", text="At once"), EventClass.CONTENT, 7),
        (start(type="tool_use", id="toolu_1", name="f", input={}), EventClass.TOOL, 0),
        (start(type="thinking", thinking=""), EventClass.CONTROL, 0),
        (start(type="thinking", thinking="hm"), EventClass.REASONING, 0),
        (start(type="redacted_thinking", data="EuQ"), EventClass.REASONING, 0),
        (start(type="server_tool_use", name="web_search"), EventClass.TOOL, 0),
        (start(type="web_search_tool_result", content=[]), EventClass.CONTROL, 0),
        ({"type": "content_block_stop", "index": 0}, EventClass.CONTROL, 0),
        ({"type": "message_delta", "delta": {"stop_sequence": None}}, EventClass.CONTROL, 0),
        ({"type": "message_delta", "delta": {}, "usage": {"server_tool_use": {}}}, EventClass.USAGE, 0),
        ({"type": "message_stop"}, EventClass.TERMINAL, 0),
        ({"type": "ping"}, EventClass.KEEPALIVE, 0),
        ({"type": "something_new"}, EventClass.CONTROL, 0),
        ({"type": ["ping"]}, EventClass.CONTROL, 0),
        ({}, EventClass.CONTROL, 0),
    ],
)
def test_an_event_is_classed_by_its_type(data, event_class, chars):
    assert read(data) == Reading(event_class, chars)


def test_padding_and_a_missing_event_name_do_not_matter():
    assert read(b'{"type":"message_stop"      }', b"") == Reading(EventClass.TERMINAL)


def test_the_start_names_the_model_and_the_answer():
    data = {"type": "message_start", "message": {"id": "msg_1", "model": "claude-x", "content": []}}

    assert read(data) == Reading(EventClass.CONTROL, 0, "claude-x", "msg_1")
    assert read({"type": "message_start", "message": None}) == Reading(EventClass.CONTROL)


def test_the_counts_and_the_reason_come_from_the_start_and_the_end():
    begun = {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 11, "output_tokens": 1}}}
    ended = {"type": "message_delta", "delta": {"stop_reason": "refusal"}, "usage": {"output_tokens": 5}}

    assert read(begun).usage == Usage(input_tokens=11, output_tokens=1)
    assert read(ended) == Reading(EventClass.USAGE, finish="refusal", usage=Usage(output_tokens=5))


def test_a_text_completion_ends_with_its_stop_reason():
    piece = {"type": "completion", "completion": " Hello", "stop_reason": None, "model": "claude-2", "id": "compl_1"}

    assert read(piece) == Reading(EventClass.CONTENT, 6, "claude-2", "compl_1")
    last = read({**piece, "completion": "", "stop_reason": "stop_sequence"})
    assert last == Reading(EventClass.TERMINAL, 0, "claude-2", "compl_1", finish="stop_sequence", is_end=True)
    assert read({**piece, "completion": ".", "stop_reason": "max_tokens"}).is_end


def test_an_error_gives_its_type_and_the_upstreams_id_and_no_message():
    data = {"type": "error", "error": {"type": "overloaded_error", "message": "secret"}, "request_id": "req_x"}
    reading = Reading(EventClass.ERROR, error_type="overloaded_error", request_id="req_x")

    assert read(data) == reading
    assert read(data, b"") == reading
    assert read({"error": {"code": 503}}, b"").error_code == "503"
    assert read(b"not json", b"error") == Reading(EventClass.ERROR)


def test_a_tool_that_speaks_of_errors_is_no_error():
    data = delta(type="input_json_delta", partial_json='{"error": {"type": "x"}}')

    assert read(data).event_class is EventClass.TOOL


def test_an_emoji_cut_in_two_is_text_in_both_halves_and_counts_once():
    halves = [
        b'{"type":"content_block_delta","delta":{"type":"text_delta","text":"%s"}}' % half
        for half in (rb"\ud83d", rb"\ude42")
    ]

    assert [read(half, b"content_block_delta") for half in halves] == [
        Reading(EventClass.CONTENT, 0),
        Reading(EventClass.CONTENT, 1),
    ]


@pytest.mark.parametrize(
    ("data", "event_class"), [(b"", EventClass.KEEPALIVE), (b"{", EventClass.OPAQUE), (b"[DONE]", EventClass.OPAQUE)]
)
def test_what_is_no_object_is_a_sign_of_life_or_opaque(data, event_class):
    assert read(data, b"") == Reading(event_class)


def test_a_cut_event_is_opaque():
    assert read(delta(type="text_delta", text="a"), is_cut=True) == Reading(EventClass.OPAQUE)
    assert read(b'{"type":"message_stop","padding":"', is_cut=True) == Reading(EventClass.TERMINAL)


@pytest.mark.parametrize(
    ("chunk", "name", "is_known"),
    [
        ({"type": "message_start"}, b"message_start", True),
        ({"type": "message_start"}, b"", True),
        ({"type": "content_block_delta"}, b"", True),
        (None, b"message_start", True),
        ({"type": "message-start"}, b"message-start", False),
        ({"type": "response.created"}, b"response.created", False),
        ({"type": ["message_start"]}, b"", False),
        ({"choices": []}, b"", False),
        (None, b"", False),
    ],
)
def test_a_message_stream_is_known_by_its_events(chunk, name, is_known):
    assert ANTHROPIC.begins(event(b"", name), chunk) is is_known


_VALUES = st.none() | st.integers(-5, 5) | st.text(max_size=5) | st.lists(st.text(max_size=3), max_size=2)
_INNER = st.dictionaries(st.sampled_from(["type", "text", "thinking", "id", "model"]), _VALUES, max_size=3)
_TYPES = st.sampled_from(["message_start", "content_block_start", "content_block_delta", "message_delta", "error"])
_OBJECTS = st.fixed_dictionaries(
    {"type": _TYPES | _VALUES},
    optional={
        "delta": _INNER | _VALUES,
        "message": _INNER | _VALUES,
        "content_block": _INNER | _VALUES,
        "error": _INNER | _VALUES,
        "usage": _VALUES,
    },
)


@given(_OBJECTS | st.binary(max_size=40), st.sampled_from([None, b"", b"error"]), st.booleans())
def test_no_event_raises(data, name, is_cut):
    reading = read(data, name, is_cut=is_cut)

    assert reading.visible_chars == 0 or reading.event_class is EventClass.CONTENT


def test_no_text_leaves():
    canary = "canary with spaces"

    for data in (
        delta(type="text_delta", text=canary),
        delta(type="thinking_delta", thinking=canary),
        start(type="text", text=canary),
        {"type": "error", "error": {"type": canary, "message": canary}},
    ):
        assert "canary" not in repr(read(data))
