"""What was felt of a hold is what a hop that holds would have added, in any shape; and what a verdict earns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.demo.answer import Answer, Receipt
from tests.lab.felt import FELT_S
from tests.lab.holding import RELEASES, Felt, Mark, expected, felt, mark, waited
from tests.lab.middles import Hold
from tests.lab.shapes import Shape, Spoken, answer

DELAY_S = 0.01
NOTHING, HELD, HELD_OFTEN = Felt((0.0, 0.1, 0.0)), Felt((0.0, 2 * FELT_S)), Felt((0.0, *(2 * FELT_S,) * RELEASES, 0.0))


def spoken(shape: Shape, seed: int = 3) -> Spoken:
    return answer(shape, request_id="r", events=120, seed=seed)


def read_in_groups(of: Spoken, sizes: Sequence[int]) -> Answer:
    """What a reader gets whose texts come in groups of these sizes, each when its last is due."""
    receipts, texts = [], list(of.texts)
    for size in sizes:
        group, texts = texts[:size], texts[size:]
        if group:
            at_s = of.script.events[group[-1]].at_s + DELAY_S
            receipts.append(Receipt(at_s, sum(of.chars[index] for index in group)))
    return Answer(200, tuple(receipts), of.script.events[-1].at_s + DELAY_S, is_whole=True, is_done=True)


@given(st.sampled_from([Shape.STEADY, Shape.GROUPED, Shape.BURSTY, Shape.INTERLEAVED]), st.integers(0, 99))
def test_of_what_passes_at_once_nothing_is_felt_whatever_the_shape(shape: Shape, seed: int) -> None:
    healthy = spoken(shape, seed)
    assert felt(read_in_groups(healthy, [1] * 120), healthy).worst_s == pytest.approx(DELAY_S)


@given(st.lists(st.integers(1, 4), min_size=120, max_size=120))
def test_small_groups_of_a_steady_answer_are_not_felt(sizes: list[int]) -> None:
    healthy = spoken(Shape.STEADY)
    assert felt(read_in_groups(healthy, sizes), healthy).holds == 0


def test_groups_of_forty_texts_are_felt_at_the_first_text_and_between() -> None:
    healthy = spoken(Shape.STEADY)
    was = felt(read_in_groups(healthy, [40] * 3), healthy)
    assert (was.holds, was.gaps) == (3, 2)
    assert len(was.added_s) == 4
    assert was.added_s[0] == pytest.approx(39 * 0.025 + DELAY_S, rel=0.2)


def test_without_any_text_the_wait_for_the_end_is_all_that_there_is() -> None:
    healthy = spoken(Shape.STEADY)
    nothing = Answer(200, (), healthy.script.events[-1].at_s + 1, is_whole=True, is_done=True)
    assert felt(nothing, healthy).added_s == (pytest.approx(1.0),)


@given(st.sampled_from([Shape.STEADY, Shape.BURSTY, Shape.INTERLEAVED]), st.integers(1, 90))
def test_a_window_is_expected_to_be_felt_as_groups_of_its_size_are(shape: Shape, texts: int) -> None:
    healthy = spoken(shape)
    due = expected(healthy, Hold(texts=texts))
    assert due is not None
    assert due.holds == felt(read_in_groups(healthy, [texts] * 120), healthy).holds


def test_pieces_of_bytes_hold_what_fills_them_and_a_hold_of_no_size_is_not_known() -> None:
    healthy = spoken(Shape.STEADY)
    piece = expected(healthy, Hold(size_bytes=4_096))
    assert piece is not None
    assert 0.4 < piece.worst_s < 0.8
    assert expected(healthy, Hold()) is None


def test_what_a_small_hold_cannot_have_done_was_the_machine() -> None:
    small = expected(spoken(Shape.STEADY), Hold(texts=4))
    assert mark(verdict(), HELD, holders=["gateway"], due=small) is Mark.DISTURBED
    assert mark(verdict("app_stall", "model-worker"), HELD, holders=["gateway"], due=small) is Mark.DISTURBED
    assert mark(verdict("app_stall", "model-worker"), NOTHING, holders=["gateway"], due=small) is Mark.WRONG_HOP
    assert mark(verdict(), HELD, holders=["gateway"], due=HELD) is Mark.MISSED
    longer = verdict("app_stall", "model-worker") | {"contributions": [{"seconds": 3.0}]}
    assert mark(longer, HELD, holders=["gateway"], due=small) is Mark.WRONG_HOP


def test_what_the_machine_made_hides_no_hold() -> None:
    lag = verdict("self", "gateway")
    assert mark(lag, NOTHING, holders=[], is_noise=True) is Mark.DISTURBED
    assert mark(lag, NOTHING, holders=["gateway"], is_noise=True) is Mark.DISTURBED
    assert mark(lag, HELD, holders=["gateway"], is_noise=True) is Mark.WRONG_HOP
    assert mark(lag | {"others": [verdict("buffering", "gateway")]}, HELD, holders=["gateway"]) is Mark.WRONG_HOP
    beside = lag | {"others": [verdict("buffering", "gateway")]}
    assert mark(beside, HELD, holders=["gateway"], is_noise=True) is Mark.DISTURBED
    assert mark(verdict(), HELD, holders=["gateway"], is_noise=True) is Mark.MISSED


def test_nobody_is_accused_of_more_than_the_reader_felt() -> None:
    stalled = verdict("app_stall", "gateway")
    assert mark(stalled, HELD, holders=[]) is Mark.DISTURBED
    assert mark(stalled | {"contributions": [{"seconds": 3.0}]}, HELD, holders=[]) is Mark.ACCUSED


def test_an_engine_that_pauses_excuses_only_its_own_name() -> None:
    for hop, expected_mark in (("model-worker", Mark.DISTURBED), ("gateway", Mark.ACCUSED)):
        assert mark(verdict("app_stall", hop), HELD, holders=[], source="model-worker") is expected_mark


def test_of_an_answer_without_a_script_the_waits_are_all_that_is_known() -> None:
    seen = Answer(200, (Receipt(0.5, 3), Receipt(0.6, 0), Receipt(1.5, 2)), 1.6, is_whole=True, is_done=True)
    assert waited(seen).added_s == (0.5, 1.0, pytest.approx(0.1))


def verdict(cause: str | None = None, hop: str | None = None) -> dict[str, Any]:
    status = "healthy" if hop is None else "named"
    term = {"segment": "app", "seconds": 0.5}
    return {"status": status, "cause": cause or "none", "first_hop": hop, "others": [], "contributions": [term]}


@pytest.mark.parametrize(
    ("said", "was", "holders", "expected"),
    [
        (verdict(), NOTHING, [], Mark.HEALTHY),
        (verdict("app_stall", "gateway"), NOTHING, [], Mark.ACCUSED),
        (verdict("app_stall", "gateway"), HELD, [], Mark.DISTURBED),
        (verdict(), NOTHING, ["gateway"], Mark.UNFELT),
        (verdict(), HELD, ["gateway"], Mark.MISSED),
        (verdict("slow_first_event", "gateway"), HELD, ["gateway"], Mark.NAMED),
        (verdict("slow_first_event", "gateway"), HELD_OFTEN, ["gateway"], Mark.CALLED_OTHERWISE),
        (verdict("buffering", "gateway"), HELD_OFTEN, ["gateway"], Mark.NAMED),
        (verdict("buffering", "model-worker"), HELD_OFTEN, ["gateway"], Mark.WRONG_HOP),
        (verdict("self", "gateway"), HELD, ["gateway"], Mark.WRONG_HOP),
    ],
)
def test_the_mark_follows_from_who_holds_and_what_was_felt(
    said: dict[str, Any], was: Felt, holders: list[str], expected: Mark
) -> None:
    assert mark(said, was, holders=holders) is expected
