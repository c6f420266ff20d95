"""Gemini: every event is a response, and a finish reason is the end only if nothing follows it."""

import pytest

from otel.hop import EventClass, Usage
from sidecar.inspection.dialects.gemini import GEMINI
from sidecar.inspection.events import Reading
from tests.support.dialects import event, seen, wire

SSE = "text/event-stream"


def read(data, **options):
    return GEMINI.read(event(data, **options))


def candidate(*parts, **members):
    return {"content": {"parts": list(parts), "role": "model"}, **members}


def said(*parts, **members):
    return {"candidates": [candidate(*parts, **members)]}


def body_of(*chunks, is_clean=True):
    lines = [(b"", event(chunk).data) for chunk in chunks]
    return seen([wire(lines, "sse")], content_type=SSE, is_clean=is_clean)


@pytest.mark.parametrize(
    ("parts", "event_class", "chars"),
    [
        ([{"text": "Grüße"}], EventClass.CONTENT, 5),
        ([{"text": "a"}, {"text": "b"}], EventClass.CONTENT, 2),
        ([{"text": "hm", "thought": True}], EventClass.REASONING, 0),
        ([{"text": "hm", "thought": True}, {"text": "a"}], EventClass.CONTENT, 1),
        ([{"functionCall": {"name": "f"}}], EventClass.TOOL, 0),
        ([{"executableCode": {"code": "1"}}, {"text": "hm", "thought": True}], EventClass.TOOL, 0),
        ([{"inlineData": {"mimeType": "image/png", "data": "iVBO"}}], EventClass.TOOL, 0),
        ([{"text": "", "thoughtSignature": "Eq"}], EventClass.CONTROL, 0),
        ([], EventClass.CONTROL, 0),
        ([7, None], EventClass.CONTROL, 0),
    ],
)
def test_a_response_is_classed_by_the_most_visible_of_its_parts(parts, event_class, chars):
    assert read(said(*parts)) == Reading(event_class, chars)
    assert read({"response": said(*parts)}) == Reading(event_class, chars)


def test_the_text_of_all_candidates_counts_and_they_end_together():
    one, two = candidate({"text": "ab"}, finishReason="STOP"), candidate({"text": "c"}, index=1)

    assert read({"candidates": [one, two]}) == Reading(EventClass.CONTENT, 3)
    both = read({"candidates": [one, {**two, "finishReason": "MAX_TOKENS"}]})
    assert (both.is_end, both.finish, both.visible_chars) == (True, "STOP", 3)


def test_names_and_counts():
    counts = {"promptTokenCount": 13, "candidatesTokenCount": 8, "thoughtsTokenCount": 20, "totalTokenCount": 41}
    usage = Usage(input_tokens=13, output_tokens=28, total_tokens=41)
    reading = read({**said({"text": "a"}), "modelVersion": "g", "responseId": "r", "usageMetadata": counts})

    assert reading == Reading(EventClass.CONTENT, 1, "g", "r", usage=usage)
    assert read({"usageMetadata": {"promptTokenCount": 2}}) == Reading(EventClass.USAGE, usage=Usage(input_tokens=2))
    assert read({"usageMetadata": {"candidatesTokenCount": 2}}).usage == Usage(output_tokens=2)


def test_a_prompt_that_was_blocked_is_an_end():
    reading = read({"promptFeedback": {"blockReason": "SAFETY"}})

    assert reading == Reading(EventClass.CONTROL, finish="SAFETY", is_end=True)
    assert not read({"promptFeedback": {"safetyRatings": []}}).is_end
    assert not read(said({"text": "a"}, finishReason="FINISH_REASON_UNSPECIFIED")).is_end


def test_an_error_gives_its_status_as_type():
    data = {"error": {"code": 503, "message": "The model is overloaded", "status": "UNAVAILABLE"}}

    assert read(data) == Reading(
        EventClass.ERROR, error_type="UNAVAILABLE", error_code="503", error_detail="The model is overloaded"
    )


STOPPED = said(finishReason="STOP")
TALKS = said({"text": "a"})
TALKS_AND_STOPS = said({"text": "a"}, finishReason="STOP")


@pytest.mark.parametrize(
    ("chunks", "is_clean", "terminal_seq"),
    [
        ([STOPPED, STOPPED, TALKS, TALKS_AND_STOPS, TALKS, STOPPED], True, 5),
        ([STOPPED, STOPPED, TALKS, TALKS_AND_STOPS, TALKS], True, None),
        ([STOPPED, STOPPED, TALKS, TALKS_AND_STOPS], False, None),
        ([TALKS, TALKS_AND_STOPS], True, 1),
        ([TALKS, TALKS_AND_STOPS, {"usageMetadata": {"totalTokenCount": 9}}], True, 1),
        ([TALKS, STOPPED, said({"functionCall": {}})], True, None),
        ([TALKS, TALKS], True, None),
    ],
)
def test_a_finish_is_withdrawn_by_output_and_decided_when_the_body_has_ended(chunks, is_clean, terminal_seq):
    body = body_of(*chunks, is_clean=is_clean)

    assert (body.terminal_seq, body.has_terminal_rule) == (terminal_seq, True)


def test_the_error_of_a_stream_that_is_an_array_is_an_element_of_it():
    answer = b'[{"error": {\n "code": 429,\n "status": "RESOURCE_EXHAUSTED"\n}}\n]'
    body = seen([answer], content_type="application/json", path="/v1beta/models/g:streamGenerateContent")

    assert (body.framing, body.error.error_type) == ("json_array", "RESOURCE_EXHAUSTED")


def test_json_that_is_no_array_is_a_body_of_its_own():
    body = seen([b'{"error"', b':{"code":400}}'], content_type="application/json", path="/m:streamGenerateContent")

    assert (body.dialect.name, body.error, body.stamper.count, body.has_terminal_rule) == ("opaque", None, 2, False)


@pytest.mark.parametrize(
    ("chunk", "is_known"),
    [
        ({"candidates": []}, True),
        ({"response": {"candidates": []}}, True),
        ({"response": "text"}, False),
        (None, False),
    ],
)
def test_it_is_known_by_its_members(chunk, is_known):
    assert GEMINI.begins(event(b""), chunk) is is_known
