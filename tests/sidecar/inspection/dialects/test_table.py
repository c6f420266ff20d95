"""What holds of every dialect of the table, on a stream of each: any cut, any order, and nothing of what it says."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.hop import EventClass
from sidecar.inspection.dialects import DIALECTS, UNKNOWN, Ends, asked_for, dialect_for, recognise
from sidecar.inspection.events import Event, Unit
from tests.support.dialects import CLASSES, CONTENT_TYPES, SPOKEN, classes, event, payload_of, seen

NAMES = pytest.mark.parametrize("name", SPOKEN)
MARKED = [name for name, spoken in SPOKEN.items() if spoken.end_count is not None]
MIXED = [name for name in SPOKEN if name != "nova on bedrock"]
"""Streams whose events may have further members: of the other one they are told apart by the only member."""
CANARY = "canary with spaces"
TELLING = {"type", "object", "event_type", "jsonrpc", "method", "stop_reason", "done_reason", "stop_type"}
TELLING |= {"finish_reason", "completionReason", "finishReason", "stopReason", "role", "id", "model", "bytes"}
TELLING |= {"model_id", "modelVersion", "responseId", "conversation_id", "generation_id", "model_name"}


def facts(body):
    return {
        "dialect": body.dialect.name,
        "classes": classes(body),
        "chars": body.stamper.position,
        "model": body.model,
        "response_id": body.response_id,
        "finish": body.finish_reasons,
        "usage": body.usage,
        "failures": body.failure_count,
    }


def expected(spoken):
    return {
        "dialect": spoken.dialect,
        "classes": spoken.classes,
        "chars": spoken.chars,
        "model": spoken.model,
        "response_id": spoken.response_id,
        "finish": spoken.finish,
        "usage": spoken.usage,
        "failures": 0,
    }


def changed(value, change):
    """The JSON value with every object in it changed."""
    if isinstance(value, dict):
        return change({key: changed(item, change) for key, item in value.items()})
    return [changed(item, change) for item in value] if isinstance(value, list) else value


# ------------------------------------------------------------------------------------------- what a stream comes to


@NAMES
def test_a_stream_is_known_by_its_events_and_read(name):
    spoken = SPOKEN[name]
    body = spoken.seen(spoken.wire())

    assert facts(body) == expected(spoken)
    assert body.error is None
    assert (body.terminal_seq is None) is (spoken.end_count is None)


@pytest.mark.parametrize("name", MARKED)
def test_a_clean_end_without_the_mark_is_missing_it(name):
    spoken = SPOKEN[name]
    body = spoken.seen(spoken.wire(count=len(spoken.events) - spoken.end_count))

    assert (body.terminal_seq, body.has_terminal_rule) == (None, True)


@NAMES
@given(data=st.data())
def test_no_cut_changes_anything(name, data):
    spoken = SPOKEN[name]
    whole = spoken.wire()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    reads = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    body = spoken.seen(reads)

    assert facts(body) == expected(spoken)
    assert body.terminal_seq == spoken.seen(whole).terminal_seq


@pytest.mark.parametrize("name", MIXED)
@given(seed=st.integers(0, 1 << 16))
def test_the_order_of_members_does_not_matter_and_unknown_ones_are_ignored(name, seed):
    def shuffled(members):
        if list(members) == ["value"]:  # a piece of Writer's is known by having nothing beside it
            return members
        rng = random.Random(seed)
        items = [*members.items(), ("zz_new", rng.choice([None, 1, "text", {"error": 1}, [{"delta": "x"}]]))]
        rng.shuffle(items)
        return dict(items)

    spoken = SPOKEN[name]
    body = spoken.seen(spoken.wire(change=lambda value: changed(value, shuffled)))

    assert facts(body) == expected(spoken)


@NAMES
def test_the_path_tells_what_the_events_would(name):
    spoken = SPOKEN[name]
    dialect = next(row for row in DIALECTS if row.name == spoken.dialect)

    for end in dialect.path_ends:
        told = seen([spoken.wire()], content_type=CONTENT_TYPES[spoken.framing], path="/gateway" + end)
        assert facts(told) == expected(spoken)


@NAMES
@given(data=st.data())
def test_what_is_broken_never_raises_and_never_counts_what_is_not_there(name, data):
    spoken = SPOKEN[name]
    wire = bytearray(spoken.wire())
    for _ in range(data.draw(st.integers(1, 8))):
        wire[data.draw(st.integers(0, len(wire) - 1))] = data.draw(st.integers(0, 255))
    body = spoken.seen(bytes(wire))

    assert body.failure_count == 0
    assert body.size_bytes == len(wire)


@NAMES
def test_no_text_leaves(name):
    def planted(members):
        return {
            key: CANARY if isinstance(item, str) and key not in TELLING and item else item
            for key, item in members.items()
        }

    spoken = SPOKEN[name]
    body = spoken.seen(spoken.wire(change=lambda value: changed(value, planted)))
    told = [body.model, body.response_id, body.finish_reasons, body.usage, body.error, body.request_alias]

    assert "canary" not in repr(told)
    for event_name, data in spoken.events:
        payload = payload_of(data, lambda value: changed(value, planted))
        assert "canary" not in repr(body.dialect.read(Event(Unit.EVENT, payload, event_name, b"", 9)))


@NAMES
def test_an_error_whose_every_word_is_a_sentence_gives_none_of_them(name):
    spoken = SPOKEN[name]
    error = {"type": CANARY, "code": CANARY, "status": CANARY, "message": CANARY}
    error = {"jsonrpc": "2.0", "id": 1, "error": error, "request_id": CANARY, "model": CANARY, "error_type": CANARY}
    dialect = next(row for row in DIALECTS if row.name == spoken.dialect)
    reading = dialect.read(event(error, b"exception/" + CANARY.encode() if spoken.framing == "eventstream" else b""))

    assert reading.event_class is EventClass.ERROR
    assert "canary" not in repr(reading)


# ---------------------------------------------------------------------------------------------------------- any event

_WORDS = [
    *("choices", "delta", "content", "text", "error", "usage", "id", "model", "type", "tool_calls", "message", "done"),
    *("response", "candidates", "parts", "finishReason", "token", "generated_text", "meta_info", "text_output"),
    *("event_type", "is_finished", "results", "stop_reason", "value", "jsonrpc", "result", "method", "bytes", "errors"),
    *("usageMetadata", "promptFeedback", "details", "index", "finish_reason", "object", "x_groq", "stop", "outputs"),
]
_KINDS = ["error", "message_start", "content_block_delta", "response.completed", "response.output_text.delta", "stop"]
_KINDS += ["message-end", "content-delta", "conversation.response.done", "message.output.delta", "stream-end", "abort"]
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 1 << 70) | st.floats() | st.text(max_size=5) | st.sampled_from(_KINDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_WORDS), inner, max_size=5),
    max_leaves=16,
)
_EVENT_NAMES = [
    b"",
    b"error",
    b"output",
    b"done",
    b"message_start",
    b"response.completed",
    b"event/chunk",
    b"\xff/\xff",
]
_EVENT_NAMES += [b"event/contentBlockDelta", b"event/metadata", b"exception/x", b"event/messageStop"]


@given(
    data=_JSON.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=40),
    name=st.sampled_from(_EVENT_NAMES),
    is_cut=st.booleans(),
    unit=st.sampled_from([Unit.EVENT, Unit.TAIL]),
)
def test_no_event_raises_in_any_dialect(data, name, is_cut, unit):
    any_event = Event(unit, data, name, b"1:1", len(data), is_cut)
    recognise(any_event)

    for dialect in (*DIALECTS, *UNKNOWN):
        for reading in (dialect.read(any_event), dialect.begin()(any_event)):
            assert reading.visible_chars == 0 or reading.event_class is EventClass.CONTENT
            assert hash(reading) is not None


@given(st.lists(_JSON, max_size=6), st.sampled_from(["sse", "ndjson", "json_array", "eventstream"]), st.data())
def test_no_stream_of_any_events_fails(values, framing, data):
    names = [data.draw(st.sampled_from(_EVENT_NAMES[:7])) for _ in values]
    lines = [json.dumps(value).encode() for value in values]
    body = b"".join(b"event: " + name + b"\ndata: " + line + b"\n\n" for name, line in zip(names, lines, strict=True))
    if framing != "sse":
        body = b"[" + b",".join(lines) + b"]" if framing == "json_array" else b"\n".join(lines)
    path = data.draw(st.sampled_from(["/", "/m:streamGenerateContent", "/api/chat", "/v1/messages", "/mcp"]))

    assert seen([body[:9], body[9:]], content_type=CONTENT_TYPES[framing], path=path).failure_count == 0


# ---------------------------------------------------------------------------------------------------------- the table


@NAMES
def test_one_dialect_alone_has_such_events(name):
    spoken = SPOKEN[name]
    for number, (event_name, data) in enumerate(spoken.events):
        if spoken.classes[number] == "." or isinstance(data, bytes):
            continue
        found = event(data, event_name, event_id=spoken.ids + b"%d" % number if spoken.ids else b"")
        chunk = data if isinstance(data, dict) else None
        known = {row.name for row in DIALECTS if row.begins(found, chunk)}
        assert known <= {spoken.dialect, *({"openai_chat"} if spoken.dialect == "watsonx" else ())}


@pytest.mark.parametrize(
    ("path", "framing", "name"),
    [
        ("/v1/chat/completions", "sse", "openai_chat"),
        ("/openai/deployments/gpt/chat/completions", "sse", "openai_chat"),
        ("/v1/chat/completions/", "sse", "openai_chat"),
        ("/v1/messages", "sse", "anthropic"),
        ("/anthropic/v1/messages", "sse", "anthropic"),
        ("/v1/completions", "sse", "openai_completions"),
        ("/v1/responses", "sse", "openai_responses"),
        ("/v1beta/models/gemini-2.0-flash:streamGenerateContent", "sse", "gemini"),
        ("/v1beta/models/gemini-2.0-flash:streamGenerateContent", "json_array", "gemini"),
        ("/v1beta/models/gemini-2.0-flash:generateContent", "json_array", "plain"),
        ("/api/generate", "ndjson", "ollama"),
        ("/api/generate", "sse", "plain"),
        ("/v2/chat", "sse", "cohere"),
        ("/model/anthropic.claude-3/converse-stream", "eventstream", "bedrock"),
        ("/model/x/converse-stream", "opaque", "opaque"),
        ("/v1/messages/count_tokens", "sse", "plain"),
        ("/", "sse", "plain"),
        ("", "sse", "plain"),
        ("/v1/chat/completions", "ndjson", "plain"),
        ("/v1/chat/completions", "opaque", "opaque"),
        ("/v1/messages", "none", "opaque"),
    ],
)
def test_the_path_and_the_framing_tell_the_dialect(path, framing, name):
    assert dialect_for(path, framing).name == name


@pytest.mark.parametrize(
    ("path", "name", "streams"),
    [
        ("/v1/chat/completions", "openai_chat", False),
        ("/api/chat", "ollama", True),
        ("/v1beta/models/g:streamGenerateContent", "gemini", True),
        ("/v1beta/models/g:generateContent", "plain", False),
        ("/generate_stream/", "tgi", True),
        ("/generate", "sglang", False),
        ("/api/generate", "ollama", True),
        ("/completion", "llama_cpp", False),
        ("/v1/completions", "openai_completions", False),
        ("/model/m/converse-stream", "bedrock", True),
        ("/mcp", "mcp", False),
        ("/healthz", "plain", False),
    ],
)
def test_the_path_tells_what_is_asked_for_before_there_is_an_answer(path, name, streams):
    dialect = asked_for(path)

    assert (dialect.name, dialect.streams_unasked) == (name, streams)
    assert dialect.is_inference is (name not in {"plain", "mcp", "opaque"})


@pytest.mark.parametrize(
    "data", [b"plain text", b"", b"[DONE]", {}, {"error": {"type": "x"}}, {"type": "ping"}, {"id": 1}]
)
def test_what_anybody_may_send_tells_no_dialect(data):
    assert recognise(event(data)) is None


def test_a_cut_event_tells_nothing_but_by_its_name():
    assert recognise(event(b'{"choices":[]}', is_cut=True)) is None
    assert recognise(event(b'{"type":"message_start"', b"message_start", is_cut=True)).name == "anthropic"


def test_every_row_has_a_name_of_its_own_and_says_what_people_are_told():
    rows = (*DIALECTS, *UNKNOWN)
    ends = [end for row in rows for end in row.path_ends]

    assert len({row.name for row in rows}) == len(rows)
    assert len(set(ends)) == len(ends)
    assert all(row.spoken_by and row.end_mark and row.error_mark and row.output for row in rows)
    assert all(row.has_terminal_rule is (row.ends is not Ends.FRAMING) for row in rows)
    assert {spoken.dialect for spoken in SPOKEN.values()} == {row.name for row in DIALECTS}
    assert set("".join(spoken.classes for spoken in SPOKEN.values())) <= set(CLASSES)
