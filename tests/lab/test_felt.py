"""What the reader's stamps show: what the script explains of a wait, and what it does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.demo.answer import Answer, Receipt
from tests.lab.felt import has_rhythm, waits
from tests.lab.shapes import EVENTS, Shape, Spoken, answer
from tests.lab.told import Kind, Planted

SHAPES = st.sampled_from([shape for shape in Shape if shape is not Shape.FLOOD])


def spoken_of(shape: Shape) -> Spoken:
    return answer(shape, request_id="", events=EVENTS[shape], seed=5)


def seen(spoken: Spoken, *, held_s: float = 0.0, at_chars: int = 1, merged: int = 1) -> Answer:
    """What a reader gets behind a hop that makes one event of so many, and holds one character for so long."""
    receipts: list[Receipt] = []
    waiting = 0
    texts = spoken.texts
    free_s = 0.0
    for number, index in enumerate(texts, 1):
        due_s = spoken.script.events[index].at_s
        if spoken.reached[index] >= at_chars > spoken.reached[index] - spoken.chars[index]:
            free_s = due_s + held_s
        waiting += spoken.chars[index]
        if number % merged == 0 or number == len(texts):
            receipts.append(Receipt(max(due_s, free_s), waiting))
            waiting = 0
    return Answer(200, tuple(receipts), max(receipts[-1].at_s, spoken.script.events[-1].at_s), True, True)


@given(SHAPES)
def test_of_a_healthy_answer_the_script_explains_everything(shape: Shape) -> None:
    spoken = spoken_of(shape)
    assert all(abs(wait.added_s) < 1e-9 for wait in waits(seen(spoken), spoken))


@given(SHAPES, st.integers(10, 90), st.floats(0.5, 3.0))
def test_a_hold_is_felt_where_it_was_and_nowhere_else(shape: Shape, percent: int, held_s: float) -> None:
    """What comes meanwhile is read at once with what was held, and hides nothing of the hold."""
    spoken = spoken_of(shape)
    fault = Planted(Kind.STALL, "gateway", held_s, spoken.length * percent // 100)
    felt = waits(seen(spoken, held_s=held_s, at_chars=fault.at_chars), spoken)
    [here] = [wait for wait in felt if wait.holds(fault, spoken.length)]
    assert here.added_s == pytest.approx(held_s)
    assert all(wait.added_s < 1e-9 for wait in felt if wait is not here)


def test_a_hop_that_merges_a_few_events_adds_next_to_nothing() -> None:
    spoken = spoken_of(Shape.STEADY)
    felt = waits(seen(spoken, merged=4), spoken)
    assert max(wait.added_s for wait in felt) < 0.1
    assert max(wait.added_s for wait in waits(seen(spoken, merged=64), spoken)) > 1.5


@given(SHAPES, st.integers(1, 64))
def test_what_a_hop_adds_that_makes_one_event_of_some_is_what_it_gathers(shape: Shape, merged: int) -> None:
    spoken = spoken_of(shape)
    *felt, _ = waits(seen(spoken, merged=merged), spoken)
    assert all(wait.added_s - wait.gathered_s < 1e-9 for wait in felt)
    assert all(wait.gathered_s >= 0.0 for wait in felt)


def test_the_first_wait_and_the_last_are_those_of_the_first_text_and_the_end() -> None:
    spoken = spoken_of(Shape.REASONING)
    felt = waits(seen(spoken), spoken)
    assert felt[0].holds(Planted(Kind.SLOW_FIRST, "gateway", 1.0), spoken.length)
    assert felt[-1].holds(Planted(Kind.END_HOLD, "gateway", 1.0), spoken.length)
    assert felt[0].wait_s > 2.5


def test_an_answer_without_text_has_no_waits() -> None:
    assert waits(Answer(200, (), 1.0, True, True), spoken_of(Shape.STEADY)) == []


@pytest.mark.parametrize(("shape", "shows"), [(Shape.AT_ONCE, False), (Shape.BRIEF, True), (Shape.GROUPED, True)])
def test_a_rhythm_needs_some_pauses(shape: Shape, shows: bool) -> None:
    assert has_rhythm(spoken_of(shape)) == shows
