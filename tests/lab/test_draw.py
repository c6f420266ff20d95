"""What is drawn: the same for the same seed, and nothing that cannot be planted."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel.demo import faults
from otel.demo.faults import CLIENT, WORKER
from tests.lab import draw
from tests.lab.chain import NAMES, Chain, Tap
from tests.lab.draw import Case, Here
from tests.lab.middles import MIDDLES, Part
from tests.lab.shapes import Shape
from tests.lab.told import LINKING, READING, STOPPING, TOLD, Kind

SEEDS = st.integers(0, 10_000)
NUMBERS = st.integers(0, 300)
HERES = st.builds(
    Here, st.sets(st.sampled_from(sorted(MIDDLES))).map(lambda parts: frozenset(parts | {Part.APP})), st.booleans()
)
APPS, ALL = Here(frozenset({Part.APP})), Here(frozenset(MIDDLES), has_links=True)


@settings(max_examples=40)
@given(SEEDS, NUMBERS, HERES)
def test_a_case_is_the_same_however_many_are_drawn(seed: int, number: int, here: Here) -> None:
    assert draw.case(seed, number, here) == draw.case(seed, number, here)


@settings(max_examples=40)
@given(SEEDS, NUMBERS, HERES)
def test_a_chain_has_only_parts_that_are_there_and_at_most_one_that_holds(seed: int, number: int, here: Here) -> None:
    made = draw.chain(seed, number // draw.BLOCK, here)
    assert draw.case(seed, number, here).chain == made
    worker, *middles = made.hops
    assert worker.part is Part.SCRIPTED
    assert {place.part for place in middles} <= here.parts
    assert sum(bool(MIDDLES[place.part].holds) for place in middles) <= 1
    assert not any(MIDDLES[place.part].is_heavy for place in middles)


@settings(max_examples=40)
@given(SEEDS, NUMBERS)
def test_at_most_one_sidecar_is_missing(seed: int, number: int) -> None:
    made = draw.chain(seed, number, APPS)
    assert len(made.tapped) >= len(made.hops) - (made.links is None)
    assert made.hops[0].tap is not Tap.BOTH


@settings(max_examples=40)
@given(SEEDS, NUMBERS, HERES)
def test_what_is_planted_is_felt_and_planted_where_it_can_be(seed: int, number: int, here: Here) -> None:
    case = draw.case(seed, number, here)
    told = {WORKER} | {p.name for p in case.chain.hops[1:] if MIDDLES[p.part].is_told}
    for fault in case.faults:
        if fault.kind in TOLD:
            assert faults.unnoticed(fault.fault) is None
            assert fault.hop in told
        if fault.kind in READING:
            assert fault.hop == CLIENT
        if fault.kind in LINKING:
            assert case.chain.links is not None
            assert fault.hop in (*case.chain.names[1:], CLIENT)
        if fault.kind is Kind.SELF:
            assert fault.hop in case.chain.tapped
        if fault.kind in {Kind.STALL, Kind.FREEZE, Kind.BUFFER}:
            assert fault.at_chars - 1 in (0, *case.told.calm().reached)


@settings(max_examples=40)
@given(SEEDS, NUMBERS)
def test_two_faults_are_at_two_hops_in_the_order_in_which_they_come(seed: int, number: int) -> None:
    case = draw.case(seed, number, APPS)
    if len(case.faults) == 2:
        one, two = case.faults
        assert one.hop != two.hop
        assert not case.kinds & (STOPPING | READING)
        ordered = {Kind.SLOW_FIRST: 0, Kind.STALL: 1, Kind.END_HOLD: 2}
        assert ordered[one.kind] <= ordered[two.kind]
        assert one.at_chars < two.at_chars or one.kind is not two.kind


@settings(max_examples=40)
@given(SEEDS, NUMBERS)
def test_a_healthy_case_is_the_same_answer_without_a_fault(seed: int, number: int) -> None:
    healthy, drawn = (draw.case(seed, number, APPS, is_healthy=is_healthy) for is_healthy in (True, False))
    assert healthy.faults == ()
    assert (healthy.chain, healthy.shape, healthy.seed) == (drawn.chain, drawn.shape, drawn.seed)


@settings(max_examples=40)
@given(SEEDS, NUMBERS)
def test_a_cut_falls_into_the_answer(seed: int, number: int) -> None:
    case = draw.case(seed, number, APPS)
    if (cut := case.fault(Kind.CUT)) is not None:
        assert 0 < cut.seconds < case.told.calm().script.events[-1].at_s + 0.1


@cache
def drawn(count: int = 300) -> list[Case]:
    return draw.cases(1, count, ALL)


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_is_drawn(kind: Kind) -> None:
    assert any(kind in case.kinds for case in drawn())


@pytest.mark.parametrize("shape", Shape)
def test_every_shape_is_drawn(shape: Shape) -> None:
    assert any(case.shape is shape for case in drawn())


def test_every_length_of_chain_every_kind_of_tap_and_two_faults_are_drawn() -> None:
    chains: list[Chain] = [case.chain for case in drawn()]
    assert {len(each.hops) for each in chains} == {*NAMES}
    assert {place.tap for each in chains for place in each.hops} == {*Tap}
    assert {each.is_exact for each in chains} == {each.has_small_buffers for each in chains} == {True, False}
    assert any(len(case.faults) == 2 for case in drawn())
    assert any(not case.faults for case in drawn())
