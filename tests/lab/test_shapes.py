"""The shapes: whole answers of about three seconds, each with the pauses that make it what it is."""

from __future__ import annotations

from itertools import pairwise

import pytest

from otel.demo import faults
from otel.demo.reader import has_text
from tests.lab.shapes import EVENTS, REASONING, Shape, answer, longest_pause_s, texts_s


def made(shape: Shape, **changes: object):
    return answer(shape, **{"request_id": "r-1", "events": EVENTS[shape], "seed": 5, **changes})


@pytest.mark.parametrize("shape", Shape)
def test_an_answer_is_whole_in_order_and_of_a_length_that_a_lab_can_wait_for(shape: Shape) -> None:
    events = made(shape).events
    assert events[-1].data == b"data: [DONE]\n\n"
    assert all(a.at_s <= b.at_s for a, b in pairwise(events))
    assert 2 < events[-1].at_s < 7


@pytest.mark.parametrize("shape", Shape)
def test_the_seed_alone_decides(shape: Shape) -> None:
    assert made(shape) == made(shape)
    assert made(shape) != made(shape, seed=6)


@pytest.mark.parametrize("shape", Shape)
def test_a_stall_of_the_source_is_in_mid_stream(shape: Shape) -> None:
    calm, stalled = made(shape), made(shape, fault=faults.parse("model-worker:stall=2"))
    middle = EVENTS[shape] // 2
    assert longest_pause_s(stalled) == pytest.approx(2)
    assert stalled.events[middle].at_s - stalled.events[middle - 1].at_s == pytest.approx(2)
    assert [due.data for due in calm.events] == [due.data for due in stalled.events]


def test_thoughts_bring_no_text() -> None:
    events = made(Shape.REASONING).events
    thoughts = [due for due in events if REASONING.encode() in due.data]
    assert len(thoughts) == 52
    assert not any(has_text(due.data) for due in thoughts)
    assert texts_s(made(Shape.REASONING))[0] > thoughts[-1].at_s


def test_thoughts_between_leave_the_reader_without_text_while_nothing_stalls() -> None:
    answered = made(Shape.INTERLEAVED)
    assert max(b - a for a, b in pairwise(texts_s(answered))) > 0.7
    assert longest_pause_s(answered) < 0.11
