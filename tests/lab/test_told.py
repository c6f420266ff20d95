"""What a request tells the hops: it comes back as it was, and begins with the same character everywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.demo import faults
from otel.demo.faults import GATEWAY, WORKER
from tests.lab.shapes import EVENTS, Shape
from tests.lab.told import HEADER, TOLD, Kind, Planted, Told, first_event

PLANTED = st.builds(
    Planted, st.sampled_from(sorted(TOLD)), st.sampled_from(["filter", WORKER]), st.floats(0.1, 9), st.integers(1, 400)
)
TOLDS = st.builds(
    Told, st.sampled_from(Shape), st.integers(1, 99), st.integers(1, 9), st.integers(0, 99), st.tuples(PLANTED)
)


@given(TOLDS)
def test_what_is_told_comes_back_from_its_header(told: Told) -> None:
    assert Told.parse(told.header()) == told


def test_a_question_has_ids_of_its_own_and_tells_every_hop_the_same() -> None:
    told = Told(Shape.STEADY, 9, 1, 1)
    headers, body = told.question("r1")
    assert (headers["x-request-id"], Told.parse(headers[HEADER])) == ("r1", told)
    assert headers["traceparent"] != told.question("r1")[0]["traceparent"]
    assert (body["model"], body["max_tokens"]) == ("lab-steady", 9)


def test_a_hop_hears_what_it_is_to_do_and_nothing_of_the_others() -> None:
    here, there = Planted(Kind.STALL, GATEWAY, 1.0), Planted(Kind.CUT, WORKER, 1.0)
    told = Told(Shape.STEADY, 9, 1, 1, (there, here))
    assert (told.at(GATEWAY), told.at(WORKER), told.at("filter")) == (here, there, None)


@given(st.sampled_from([shape for shape in Shape if shape is not Shape.FLOOD]), st.integers(1, 3), st.integers(1, 99))
def test_source_and_hop_hold_the_event_that_brings_the_same_character(shape: Shape, words: int, percent: int) -> None:
    calm = Told(shape, EVENTS[shape], words, 7).calm()
    at_chars = max(1, calm.length * percent // 100)
    fault = Planted(Kind.STALL, GATEWAY, 1.0, at_chars)
    begins = fault.begins()
    held = next(index for index, due in enumerate(calm.script.events) if begins(due.data))
    assert held == first_event(calm, fault)
    assert calm.reached[held - 1] < at_chars <= calm.reached[held]


@pytest.mark.parametrize(("kind", "held"), [(Kind.SLOW_FIRST, 0), (Kind.END_HOLD, EVENTS[Shape.STEADY] + 1)])
def test_the_first_event_and_the_end_are_held_where_they_are(kind: Kind, held: int) -> None:
    calm = Told(Shape.STEADY, EVENTS[Shape.STEADY], 1, 7).calm()
    fault = Planted(kind, GATEWAY, 1.0)
    begins = fault.begins()
    assert next(index for index, due in enumerate(calm.script.events) if begins(due.data)) == held
    assert first_event(calm, fault) == held


@pytest.mark.parametrize("kind", sorted(TOLD))
def test_the_worker_plays_its_own_fault_and_no_other(kind: Kind) -> None:
    told = Told(Shape.STEADY, 120, 1, 7)
    at_worker = Planted(kind, WORKER, 0.7, 300)
    elsewhere = Planted(kind, GATEWAY, 0.7, 300)
    assert Told(Shape.STEADY, 120, 1, 7, (elsewhere,)).script() == told.calm().script
    assert Told(Shape.STEADY, 120, 1, 7, (at_worker,)).script() != told.calm().script


def test_a_hold_before_the_end_is_a_stall_in_the_words_of_the_apps() -> None:
    assert Planted(Kind.END_HOLD, GATEWAY, 2.0).fault.kind is faults.Kind.STALL
