"""What the APIs of OpenAI share: the sentinel, and the shapes of errors."""

import pytest

from otel.hop import EventClass, Usage
from sidecar.inspection.dialects.openai import bare_or_done, failed_choice, failure, is_error, usage_in
from sidecar.inspection.events import Reading
from tests.support.dialects import event


@pytest.mark.parametrize(
    ("data", "event_class"),
    [
        (b"[DONE]", EventClass.TERMINAL),
        (b" [DONE]\n", EventClass.TERMINAL),
        (b'"[DONE]"', EventClass.OPAQUE),
        (b"[DONE] ok", EventClass.OPAQUE),
        (b"", EventClass.KEEPALIVE),
        (b" ", EventClass.KEEPALIVE),
        (b"text", EventClass.OPAQUE),
    ],
)
def test_data_without_an_object_is_the_sentinel_or_a_beat_or_nothing_known(data, event_class):
    assert bare_or_done(event(data)) == Reading(event_class)


@pytest.mark.parametrize(
    ("chunk", "name", "is_failed"),
    [
        ({"error": {"code": 1}}, b"", True),
        ({"error": "words"}, b"", True),
        ({"object": "error", "message": "m"}, b"", True),
        (None, b"error", True),
        ({"error": None}, b"", False),
        ({"error": {}}, b"", False),
        ({"object": "chat.completion.chunk"}, b"", False),
        (None, b"", False),
    ],
)
def test_a_failure_is_told_by_name_member_or_kind(chunk, name, is_failed):
    assert is_error(event(b"", name), chunk) is is_failed


def test_a_failure_gives_tokens_and_counts():
    told = failure({"error": {"type": "server_error", "code": 502}, "model": "m", "usage": {"prompt_tokens": 1}})

    assert told == Reading(
        EventClass.ERROR, model="m", error_type="server_error", error_code="502", usage=Usage(input_tokens=1)
    )
    assert failure(None) == Reading(EventClass.ERROR)
    assert failed_choice({"id": "a"}, [{"error": {"type": "x"}}]).error_type == "x"


@pytest.mark.parametrize("chunk", [{}, {"usage": None}, {"usage": []}, {"x_groq": []}, {"x_groq": {"usage": "many"}}])
def test_no_counts_are_none(chunk):
    assert usage_in(chunk) is None
