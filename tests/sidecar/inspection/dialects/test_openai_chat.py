"""OpenAI chat chunks are classed by what a reader sees of them."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.hop import EventClass, Usage
from sidecar.inspection.dialects.openai_chat import OPENAI_CHAT
from sidecar.inspection.events import Event, Reading, Unit


def event(data, name=b"", *, is_cut=False):
    data = data if isinstance(data, bytes) else orjson.dumps(data)
    return Event(Unit.EVENT, data, name, b"", len(data) + 8, is_cut)


def read(data, name=b"", **options):
    return OPENAI_CHAT.read(event(data, name, **options))


def chunk(*deltas, **members):
    return {"choices": [{"index": i, "delta": delta} for i, delta in enumerate(deltas)], **members}


def call(arguments):
    return {"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]}


@pytest.mark.parametrize(
    ("deltas", "event_class", "chars"),
    [
        ([{"content": "Hello"}], EventClass.CONTENT, 5),
        ([{"role": "assistant", "content": "Hi"}], EventClass.CONTENT, 2),
        ([{"content": "Grüße 🙂"}], EventClass.CONTENT, 7),
        ([{"content": "ab"}, {"content": "cde"}], EventClass.CONTENT, 5),
        ([{"content": [{"type": "text", "text": "ab"}, {"type": "text", "text": "c"}]}], EventClass.CONTENT, 3),
        ([{"refusal": "I cannot"}], EventClass.CONTENT, 8),
        ([{"content": "a", "refusal": "b"}], EventClass.CONTENT, 2),
        ([{"content": "a", "reasoning_content": "thought"}], EventClass.CONTENT, 1),
        ([call("{"), {"content": "a"}], EventClass.CONTENT, 1),
        ([{"content": "a"}, call("{")], EventClass.CONTENT, 1),
        ([call('{"error":')], EventClass.TOOL, 0),
        ([{"function_call": {"arguments": "{"}}], EventClass.TOOL, 0),
        ([{"reasoning": "hm"}, call("{")], EventClass.TOOL, 0),
        ([{"reasoning_content": "hm"}], EventClass.REASONING, 0),
        ([{"content": "", "reasoning": "hm"}], EventClass.REASONING, 0),
        ([{"content": [{"type": "thinking", "thinking": [{"text": "hm"}]}]}], EventClass.REASONING, 0),
        ([{"role": "assistant"}], EventClass.CONTROL, 0),
        ([{"role": "assistant", "content": ""}], EventClass.CONTROL, 0),
        ([{"content": None, "tool_calls": None, "reasoning": ""}], EventClass.CONTROL, 0),
        ([{}], EventClass.CONTROL, 0),
        ([None], EventClass.CONTROL, 0),
        ([{"content": 7, "refusal": {}}], EventClass.CONTROL, 0),
        ([{"content": [7, {"type": "text"}, {"type": "text", "text": None}]}], EventClass.CONTROL, 0),
    ],
)
def test_a_chunk_is_classed_by_the_most_visible_of_its_choices(deltas, event_class, chars):
    assert read(chunk(*deltas)) == Reading(event_class, chars)


def test_text_with_usage_and_a_finish_is_still_text():
    data = {"choices": [{"delta": {"content": "."}, "finish_reason": "length"}], "usage": {"total_tokens": 5}}

    assert read(data) == Reading(EventClass.CONTENT, 1, finish="length", usage=Usage(total_tokens=5))


def test_a_finish_is_control():
    assert read({"choices": [{"delta": {}, "finish_reason": "stop"}]}) == Reading(EventClass.CONTROL, finish="stop")


@pytest.mark.parametrize(
    ("data", "event_class"),
    [
        ({"choices": [], "usage": {"something": 5}}, EventClass.USAGE),
        ({"usage": {}}, EventClass.USAGE),
        ({"choices": None, "usage": None}, EventClass.CONTROL),
        ({"choices": [], "prompt_filter_results": []}, EventClass.CONTROL),
        ({"choices": {"delta": {"content": "a"}}}, EventClass.CONTROL),
        ({}, EventClass.CONTROL),
    ],
)
def test_a_chunk_without_choices_is_usage_or_control(data, event_class):
    assert read(data) == Reading(event_class)


def test_the_counts_are_those_of_the_answer_or_of_groq():
    counts = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13, "prompt_tokens_details": {}}
    usage = Usage(input_tokens=9, output_tokens=4, total_tokens=13)

    assert read({"choices": [], "usage": counts}) == Reading(EventClass.USAGE, usage=usage)
    assert read({"choices": [{"delta": {}}], "usage": counts}).usage == usage
    assert read({"choices": [{"delta": {}, "finish_reason": "stop"}], "x_groq": {"usage": counts}}).usage == usage
    for odd in ({"prompt_tokens": -1}, {"prompt_tokens": True}, {"prompt_tokens": "9"}, {"prompt_tokens": 1.5}):
        assert read({"choices": [], "usage": odd}).usage is None


@pytest.mark.parametrize("data", [b"[DONE]", b" [DONE]", b"[DONE] ", b"\t[DONE]\n", b"[DONE]" + b" " * 99])
def test_the_marker_ends_the_stream(data):
    assert read(data) == Reading(EventClass.TERMINAL)


@pytest.mark.parametrize("data", [b'"[DONE]"', b"[done]", b"[DONE", b"[DONE] [DONE]", b"[ DONE ]"])
def test_what_only_looks_like_the_marker_does_not(data):
    assert read(data) == Reading(EventClass.OPAQUE)


def test_text_that_quotes_the_marker_is_text():
    assert read(chunk({"content": "[DONE]"})) == Reading(EventClass.CONTENT, 6)


@pytest.mark.parametrize("data", [b"", b" ", b" " * 99, b"\n"])
def test_empty_data_keeps_the_stream_alive(data):
    assert read(data) == Reading(EventClass.KEEPALIVE)


@pytest.mark.parametrize("data", [b"{", b"null", b"text", b"[1,2]", b"\xff\xff"])
def test_what_is_no_chunk_is_opaque(data):
    assert read(data) == Reading(EventClass.OPAQUE)


def test_a_cut_event_is_opaque_even_when_its_beginning_is_whole():
    assert read(chunk({"content": "a"}), is_cut=True) == Reading(EventClass.OPAQUE)


def test_an_error_member_is_an_error_though_choices_and_usage_come_with_it():
    data = chunk({"content": ""}, id="gen-1", model="m", usage={}, error={"code": 400, "message": "secret"})

    assert read(data) == Reading(EventClass.ERROR, 0, "m", "gen-1", None, "400")
    assert read({**data, "usage": {"completion_tokens": 3}}).usage == Usage(output_tokens=3)


def test_a_choice_that_came_to_grief_is_an_error():
    failed = {"delta": {"content": ""}, "finish_reason": "error"}
    told = {**failed, "error": {"code": "server_error", "message": "secret words"}}

    assert read({"id": "g", "choices": [failed]}) == Reading(EventClass.ERROR, 0, None, "g", "error", None)
    assert read({"choices": [{"delta": {}}, told]}) == Reading(EventClass.ERROR, 0, None, None, "error", "server_error")
    assert read({"choices": [], "x_groq": {"error": "over capacity"}}).event_class is EventClass.ERROR


def test_vllm_once_sent_an_error_that_is_an_object_of_its_own():
    data = {"object": "error", "message": "secret words", "type": "BadRequestError", "param": None, "code": 400}

    assert read(data) == Reading(EventClass.ERROR, error_type="BadRequestError", error_code="400")


@pytest.mark.parametrize("data", [{"error": {"type": "server_error"}}, {"type": "server_error"}])
def test_an_event_named_error_is_an_error(data):
    assert read(data, b"error") == Reading(EventClass.ERROR, error_type="server_error")


@pytest.mark.parametrize("data", [b"", b"overloaded, try later", b"[DONE]"])
def test_an_event_named_error_is_an_error_whatever_it_says(data):
    assert read(data, b"error") == Reading(EventClass.ERROR)


@pytest.mark.parametrize(
    "data",
    [
        chunk({"content": '{"error": {"code": 500}}'}),
        chunk({"content": "a"}, error=None),
        chunk({"content": "a"}, error={}),
        chunk({"content": "a", "error": {"code": 1}}),
    ],
)
def test_what_only_looks_like_an_error_is_none(data):
    assert read(data).event_class is EventClass.CONTENT


def test_the_model_and_the_answer_are_named():
    data = chunk({"content": "a"}, id="chatcmpl-1", model="gpt-4o-mini")

    assert read(data) == Reading(EventClass.CONTENT, 1, "gpt-4o-mini", "chatcmpl-1")


@pytest.mark.parametrize("members", [{"id": "", "model": ""}, {"id": 7, "model": ["x"]}, {"model": "x" * 300}])
def test_empty_or_senseless_names_are_not_taken_over(members):
    assert read(chunk({"content": "a"}, **members)) == Reading(EventClass.CONTENT, 1)


def test_an_emoji_cut_in_two_is_text_in_both_halves_and_counts_once():
    first = read(b'{"choices":[{"delta":{"content":"\\ud83d"}}],"id":"a"}')
    second = read(b'{"choices":[{"delta":{"content":"\\ude42"}}],"id":"a"}')

    assert first == Reading(EventClass.CONTENT, 0, None, "a")
    assert second == Reading(EventClass.CONTENT, 1, None, "a")


@pytest.mark.parametrize(
    ("chunk", "is_known"),
    [
        (chunk({"role": "assistant"}, object="chat.completion.chunk"), True),
        (chunk({"role": "assistant"}, object="chat.completion"), True),
        ({"choices": [], "object": "chat.completion.chunk"}, True),
        ({"choices": [], "object": "", "prompt_filter_results": []}, True),
        ({"choices": [], "object": "text_completion"}, False),
        ({"choices": [{"text": "a"}], "object": "text_completion"}, False),
        ({"choices": {"delta": {}}}, False),
        ({"type": "message_start"}, False),
        (None, False),
    ],
)
def test_a_chat_stream_is_known_by_its_first_chunk(chunk, is_known):
    assert OPENAI_CHAT.begins(event(b""), chunk) is is_known


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "delta", "content", "error", "usage", "id", "model", "tool_calls", "type"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(_JSON | st.binary(max_size=40), st.sampled_from([b"", b"error", b"x"]), st.booleans())
def test_no_event_raises(data, name, is_cut):
    reading = read(data, name, is_cut=is_cut)

    assert reading.visible_chars == 0 or reading.event_class is EventClass.CONTENT


@given(st.lists(st.text(max_size=20), min_size=1, max_size=4))
def test_positions_are_the_code_points_of_all_choices(texts):
    assert read(chunk(*({"content": text} for text in texts))).visible_chars == sum(map(len, texts))


def test_no_text_leaves():
    canary = "canary with spaces"
    data = chunk({"content": canary, "reasoning": canary}, error={"message": canary, "type": canary, "code": canary})

    assert "canary" not in repr(read(data))
    assert "canary" not in repr(read(chunk({"content": canary, "reasoning": canary})))


def test_whoever_fails_says_why():
    failed = {"delta": {}, "finish_reason": "error", "error": {"message": "worker crashed"}}
    told = [
        {"choices": [failed]},
        {"choices": [], "x_groq": {"error": "worker crashed"}},
        {"object": "error", "message": "worker crashed"},
        {"error": {"message": "worker crashed", "code": 500}},
    ]

    assert {read(data).error_detail for data in told} == {"worker crashed"}
