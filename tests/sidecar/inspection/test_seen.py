"""What was seen of an answer joins what was asked: what neither says stays unknown."""

from __future__ import annotations

from dataclasses import fields

import pytest

from otel.hop import EventClass, Exchange, Traffic, Usage
from sidecar.inspection.dialects import dialect_for
from sidecar.inspection.events import Reading
from sidecar.inspection.seen import Seen, merged
from sidecar.inspection.stamper import Stamper

ASKED = Exchange(method="POST", path="/v1/chat/completions", status=200, error_type="ours")


def seen(**fields: object) -> Seen:
    found = Seen(framing="sse", dialect=dialect_for(ASKED.path, "sse"), is_stream=True)
    for name, value in fields.items():
        setattr(found, name, value)
    return found


@pytest.mark.parametrize(
    ("asked", "answered", "model"),
    [("asked", "answered", "asked"), ("asked", None, "asked"), (None, "answered", "answered"), (None, None, None)],
)
def test_the_model_is_the_one_that_was_asked_for_else_the_one_that_answered(asked, answered, model):
    exchange = seen(model=answered).exchange(Exchange(method="POST", path="/", model=asked))
    assert (exchange.model, exchange.response_model) == (model, answered)


def test_an_error_event_says_more_than_our_own_type():
    error = Reading(EventClass.ERROR, error_type="overloaded", error_code="529")
    exchange = seen(error=error).exchange(ASKED)
    assert (exchange.error_type, exchange.error_code) == ("overloaded", "529")
    assert (seen().exchange(ASKED).error_type, seen().exchange(ASKED).error_code) == ("ours", None)


def test_what_an_error_says_is_told_masked_and_a_refusal_says_it_too():
    error = Reading(EventClass.ERROR, error_type="overloaded", error_code="529", error_detail="busy")
    told = seen(refusal=error).exchange(ASKED)

    assert (told.error_type, told.error_code, told.error_detail) == ("ours", "529", "busy")
    assert seen(refusal=error).exchange(Exchange(method="POST", path="/")).error_type == "overloaded"
    assert seen(error=error).exchange(ASKED).error_detail == "busy"
    assert seen(refusal=error, error=Reading(EventClass.ERROR)).failure == Reading(EventClass.ERROR)
    assert (seen().failure, seen(refusal=error).lacks_mark) == (None, True)


def test_an_event_is_what_says_more_than_that_somebody_lives():
    assert [seen().has_event, seen(comment_count=3).has_event, seen(progress_ns=0).has_event] == [False, False, True]
    blind = seen(is_blind=True)
    assert not blind.has_event
    blind.size_bytes = 1
    assert blind.has_event
    assert not seen().is_at_boundary


def test_what_passed_is_kept_beside_what_was_found():
    traffic = seen(size_bytes=7, comment_count=1, has_tail=True).traffic(Traffic(request_bytes=3, missing_bytes=9))
    assert (traffic.request_bytes, traffic.missing_bytes, traffic.bytes_in) == (3, 9, 7)
    assert (traffic.comment_count, traffic.has_unterminated_tail) == (1, True)


OF_THE_ANSWER = {"framing", "dialect", "model", "response_model", "response_id", "is_stream", "has_terminal_rule"}
OF_THE_ANSWER |= {"error_type", "error_code", "error_detail", "finish_reasons"}
FOUND = {"bytes_in", "event_count", "comment_count", "dataless_count", "wasted_count", "has_unterminated_tail"}


@pytest.mark.parametrize(
    ("made", "kind", "told"),
    [("exchange", Exchange, OF_THE_ANSWER), ("traffic", Traffic, FOUND)],
    ids=["asked", "passed"],
)
def test_all_else_of_it_stays_as_it_was(made, kind, told):
    before = kind(**{field.name: object() for field in fields(kind)})
    after = getattr(seen(), made)(before)

    assert {f.name for f in fields(kind) if getattr(after, f.name) is not getattr(before, f.name)} <= told


def test_where_nothing_is_looked_at_nothing_can_mark_the_end():
    found = seen()
    assert (found.has_terminal_rule, found.has_begun) == (True, False)
    found.mute()
    assert (found.has_terminal_rule, found.has_begun) == (False, False)
    found.size_bytes = 1
    assert found.has_begun


def test_there_is_another_direction_only_where_there_is_one():
    assert (seen().counts, seen().sent_since(0)) == ((0, 0), None)
    both = Seen(framing="websocket", dialect=dialect_for("/", "opaque"), is_stream=False, sent=Stamper(limit_count=0))
    assert both.sent_since(0).stamps == ()


@pytest.mark.parametrize(
    ("before", "after", "known"),
    [(None, None, None), (None, 0, 0), (0, 5, 5), (5, None, 5), (5, 0, 5), (15, 13, 13)],
)
def test_of_counts_that_come_again_the_later_one_is_known_unless_it_says_nothing(before, after, known):
    counts = [Usage(input_tokens=count, output_tokens=count, total_tokens=count) for count in (before, after, known)]

    assert merged(counts[0], counts[1]) == counts[2]


def test_a_mark_that_may_be_missing_for_a_good_reason_is_not_asked_for():
    assert not seen(is_mark_unsure=True).has_terminal_rule
