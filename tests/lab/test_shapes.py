"""The shapes: whole answers of a few seconds, each with the pauses that make it what it is."""

from __future__ import annotations

from itertools import pairwise

import pytest

from otel.demo.reader import receipt
from tests.lab.shapes import EVENTS, REASONING, Shape, Spoken, answer, longest_pause_s


def made(shape: Shape, **changes: object) -> Spoken:
    return answer(shape, **{"request_id": "r-1", "events": EVENTS[shape], "seed": 5, **changes})


@pytest.mark.parametrize("shape", Shape)
def test_an_answer_is_whole_in_order_and_of_a_length_that_a_lab_can_wait_for(shape: Shape) -> None:
    events = made(shape).script.events
    assert events[-1].data == b"data: [DONE]\n\n"
    assert all(a.at_s <= b.at_s for a, b in pairwise(events))
    assert (0.05 if shape in {Shape.AT_ONCE, Shape.BRIEF} else 2) < events[-1].at_s < 11


@pytest.mark.parametrize("shape", Shape)
def test_the_seed_alone_decides(shape: Shape) -> None:
    assert made(shape) == made(shape)
    assert made(shape) != made(shape, seed=6)


@pytest.mark.parametrize("words", [1, 60])
@pytest.mark.parametrize("shape", [shape for shape in Shape if shape is not Shape.FLOOD])
def test_every_event_brings_the_characters_that_it_is_said_to(shape: Shape, words: int) -> None:
    spoken = made(shape, words=words)
    received = [receipt(due.data.removesuffix(b"\n\n"), at_s=0.0).chars for due in spoken.script.events]
    assert received == list(spoken.chars)
    assert spoken.reached[-1] == spoken.length == sum(received)


def test_thoughts_bring_no_text_and_come_first() -> None:
    spoken = made(Shape.REASONING)
    thoughts = [due for due in spoken.script.events if REASONING.encode() in due.data]
    assert len(thoughts) == 111
    assert spoken.script.events[spoken.texts[0]].at_s > thoughts[-1].at_s > 2.5


def test_thoughts_between_leave_the_reader_without_text_while_nothing_stalls() -> None:
    spoken = made(Shape.INTERLEAVED)
    texts_s = [spoken.script.events[index].at_s for index in spoken.texts]
    assert max(b - a for a, b in pairwise(texts_s)) > 0.7
    assert longest_pause_s(spoken) < 0.11


def test_a_flood_is_thirty_thousand_events_that_come_many_at_a_time() -> None:
    spoken = made(Shape.FLOOD)
    assert len(spoken.texts) == 30_000
    assert len({due.at_s for due in spoken.script.events}) == 300
