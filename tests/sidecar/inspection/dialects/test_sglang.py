"""SGLang: a text that repeats itself counts once, and pieces count as they come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.hop import EventClass, Usage
from sidecar.inspection.dialects.sglang import CHOICES, SGLANG
from sidecar.inspection.events import Reading
from tests.support.dialects import event


def text(value, *, index=0, reason=None, **about):
    return event({"text": value, "index": index, "meta_info": {"id": "s", "finish_reason": reason, **about}})


def chars(*events):
    read = SGLANG.begin()
    return [read(one).visible_chars for one in events]


def test_what_repeats_itself_counts_once_for_each_choice():
    assert chars(text("Pa"), text("Paris"), text("B", index=1), text("Paris."), text("Be", index=1)) == [2, 3, 1, 1, 1]
    assert chars(text("Pa"), text("Pa"), text("Pa")) == [2, 0, 0]


def test_pieces_count_as_they_come():
    assert chars(text("One"), text(" two"), text(", three"), text("!")) == [3, 4, 7, 1]


def test_two_streams_know_nothing_of_each_other():
    first, second = SGLANG.begin(), SGLANG.begin()

    assert [first(text("ab")).visible_chars, second(text("abc")).visible_chars] == [2, 3]
    assert SGLANG.read(text("abcd")).visible_chars == 4


@given(st.lists(st.text(max_size=8), max_size=8))
def test_a_growing_text_comes_to_its_length(pieces):
    so_far = ["".join(pieces[: at + 1]) for at in range(len(pieces))]

    assert sum(chars(*map(text, so_far))) == sum(map(len, pieces))


def test_no_more_choices_are_followed_than_a_request_has():
    read = SGLANG.begin()
    for index in range(CHOICES + 9):
        read(text("a", index=index))

    assert len(read.__self__._seen) == CHOICES
    assert read(text("ab", index=CHOICES + 1)).visible_chars == 2


def test_the_last_text_says_why_and_counts_and_the_mark_is_that_of_openai():
    last = SGLANG.read(text("a", reason={"type": "length", "length": 9}, prompt_tokens=6, completion_tokens=9))
    usage = Usage(input_tokens=6, output_tokens=9)

    assert last == Reading(EventClass.CONTENT, 1, None, "s", finish="length", usage=usage)
    assert SGLANG.read(event(b"[DONE]")) == Reading(EventClass.TERMINAL)


def test_an_abort_is_an_error():
    reason = {"type": "abort", "message": "secret words", "status_code": 503, "err_type": "ServiceUnavailableError"}

    assert SGLANG.read(text("", reason=reason)) == Reading(
        EventClass.ERROR, response_id="s", error_type="ServiceUnavailableError", error_code="503"
    )
    assert SGLANG.read(text("", reason={"type": "abort"})).error_type == "abort"
    assert SGLANG.read(event({"error": {"message": "m", "code": 400}})).error_code == "400"


@pytest.mark.parametrize("odd", [{"text": 7}, {"text": "a", "index": "1"}, {"meta_info": [1]}, {"text": "\ud83d"}])
def test_odd_events_are_read(odd):
    assert SGLANG.read(event(odd)).event_class in {EventClass.CONTENT, EventClass.CONTROL}


def test_an_abort_says_why():
    reason = {"type": "abort", "message": "input length 9000 exceeds the maximum allowed length"}

    assert SGLANG.read(text("", reason=reason)).error_detail == reason["message"]
