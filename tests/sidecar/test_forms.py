"""An error event of ours is one event behind any others, in every API and framing: an error of its type, and no end."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.hop import EventClass
from sidecar.forms import error_body, error_event
from sidecar.guard.complaint import TOKENS, Complaint, complaint_for
from sidecar.inspection.dialects import DIALECTS, OPAQUE, PLAIN, UNKNOWN
from sidecar.inspection.error_body import error_body_for
from sidecar.inspection.eventstream import strings_in
from sidecar.inspection.splitter import splitter_for
from tests.support.dialects import CONTENT_TYPES, SPOKEN, seen

FRAMINGS = list(CONTENT_TYPES)
ALL = (*DIALECTS, *UNKNOWN)
FORMED = [row for row in ALL if row.error_form is not None]
ASKED = complaint_for("next_event_timeout", hop="gw", waited_s=91, limit_s=90)
complaints = st.builds(
    complaint_for,
    st.sampled_from(TOKENS),
    hop=st.text(max_size=20),
    waited_s=st.none() | st.floats(0, 1e6),
    limit_s=st.none() | st.floats(0, 1e6),
)


def read_back(dialect, framing, written):
    """The classes and types of what was written, as our own splitter and the dialect read it."""
    splitter = splitter_for(framing)
    units = splitter.feed(b"[{}" + written if framing == "json_array" else written)
    assert splitter.is_at_boundary
    assert splitter.finish() == []
    read = dialect.begin()
    return [read(unit) for unit in (units[1:] if framing == "json_array" else units)]


@pytest.mark.parametrize("dialect", FORMED, ids=lambda row: row.name)
@given(framing=st.sampled_from(FRAMINGS), complaint=complaints)
def test_it_reads_as_one_error_of_its_type(dialect, framing, complaint):
    [reading] = read_back(dialect, framing, error_event(dialect, framing, complaint))

    assert reading.event_class is EventClass.ERROR
    assert reading.error_type == complaint.type
    assert not reading.is_end


@pytest.mark.parametrize("name", [name for name, spoken in SPOKEN.items() if spoken.dialect != "mcp"])
@given(data=st.data())
def test_behind_any_events_of_a_stream_it_ends_it_with_an_error(name, data):
    spoken = SPOKEN[name]
    whole = data.draw(st.integers(1, len(spoken.events)))
    told = spoken.wire(count=whole).removesuffix(b"\n]")
    before, body = spoken.seen(told), spoken.seen(told)
    assert body.is_at_boundary
    complaint = data.draw(complaints)
    written = error_event(body.dialect, spoken.framing, complaint)
    body.arrived(written, 1, is_wasted=False)
    body.ended(is_clean=False)

    assert body.stamper.count == before.stamper.count + 1
    assert body.error.error_type == complaint.type
    assert (body.terminal_seq is None) or body.terminal_seq < whole
    assert (body.failure_count, body.has_tail) == (0, False)


def test_what_has_no_events_has_no_place_for_one():
    for framing in ("opaque", "none", "websocket"):
        assert [error_event(dialect, framing, ASKED) for dialect in ALL] == [None] * len(ALL)
    for framing in FRAMINGS:
        assert error_event(OPAQUE, framing, ASKED) is None


def test_an_error_of_mcp_would_need_the_id_of_a_request():
    [mcp] = [row for row in DIALECTS if row.name == "mcp"]

    assert error_event(mcp, "sse", ASKED) is None


def said(name, framing="sse"):
    [dialect] = [row for row in DIALECTS if row.name == name]
    return error_event(dialect, framing, ASKED).decode()


def data_of(block):
    return json.loads(block.partition("data: ")[2])


def test_openai_has_an_error_member_that_its_clients_raise():
    for name in ("openai_chat", "openai_completions"):
        assert said(name).startswith('data: {"error":')
        assert data_of(said(name)) == {
            "error": {"type": ASKED.type, "message": ASKED.message, "param": None, "code": "504"}
        }


def test_a_response_has_the_members_of_its_error_event_too():
    block = said("openai_responses")

    assert block.startswith("event: error\n")
    assert data_of(block).keys() == {"type", "code", "message", "param", "sequence_number", "error"}
    assert data_of(block)["type"] == "error"


def test_anthropic_has_a_named_event():
    assert said("anthropic").startswith("event: error\n")
    assert data_of(said("anthropic")) == {"type": "error", "error": {"type": ASKED.type, "message": ASKED.message}}


def test_gemini_has_a_code_that_is_a_status_and_one_of_its_own_words():
    error = data_of(said("gemini"))["error"]

    assert (error["code"], error["status"], error["type"]) == (504, "DEADLINE_EXCEEDED", ASKED.type)
    assert said("gemini", "json_array") == "," + json.dumps({"error": error}, separators=(",", ":"))
    cut = complaint_for("upstream_cut", hop="gw")
    [gemini] = [row for row in DIALECTS if row.name == "gemini"]
    assert b'"status":"UNAVAILABLE"' in error_event(gemini, "sse", cut)


def test_ollama_and_tgi_have_a_sentence():
    assert json.loads(said("ollama", "ndjson")) == {"error": ASKED.message, "error_type": ASKED.type}
    assert said("ollama", "ndjson").endswith("}\n")
    assert data_of(said("tgi")) == json.loads(said("ollama", "ndjson"))


def test_cohere_has_its_last_event_with_a_reason_that_is_none_of_success():
    assert data_of(said("cohere"))["delta"]["finish_reason"] == "TIMEOUT"
    assert json.loads(said("cohere_v1", "ndjson"))["finish_reason"] == "ERROR"


def test_a_frame_has_what_clients_raise_in_its_headers():
    [bedrock] = [row for row in DIALECTS if row.name == "bedrock"]
    frame = error_event(bedrock, "eventstream", ASKED)
    headers_bytes = int.from_bytes(frame[4:8])

    assert strings_in(frame[12 : 12 + headers_bytes]) == {
        b":message-type": b"error",
        b":error-code": ASKED.type.encode(),
        b":error-message": ASKED.message.encode(),
        b":content-type": b"application/json",
    }


def test_in_a_framing_of_others_it_is_told_as_nearly_all_do():
    [ollama] = [row for row in DIALECTS if row.name == "ollama"]

    assert error_event(ollama, "sse", ASKED) == error_event(PLAIN, "sse", ASKED)


@pytest.mark.parametrize("dialect", ALL, ids=lambda row: row.name)
@given(complaint=complaints)
def test_a_body_of_ours_says_the_type_and_the_sentence(dialect, complaint):
    content_type, body = error_body(dialect, complaint)
    read = error_body_for(complaint.status, content_type, None)
    read.feed(body)

    assert content_type == "application/json"
    reading = read.reading()
    assert (reading.error_type, reading.error_text) == (complaint.type, complaint.message[:500])


def test_a_line_end_in_a_name_ends_no_line():
    hostile = Complaint("next_event_timeout", "a\n\ndata: [DONE]\n\n\r\r", 504)

    for dialect in FORMED:
        [reading] = read_back(dialect, "sse", error_event(dialect, "sse", hostile))
        assert reading.event_class is EventClass.ERROR
    assert seen([error_event(PLAIN, "sse", hostile)], content_type="text/event-stream").terminal_seq is None
