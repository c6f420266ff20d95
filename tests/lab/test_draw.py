"""What is drawn: the same for the same seed, and nothing that cannot be planted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.demo import faults
from otel.demo.faults import HOPS
from tests.lab import draw
from tests.lab.draw import FREEZING, OURS, TOLD, Case, Kind, Part

SEEDS = st.integers(0, 10_000)
NUMBERS = st.integers(0, 300)
PARTS = st.sets(st.sampled_from(Part)).map(lambda parts: parts | OURS)


@given(SEEDS, NUMBERS, PARTS)
def test_a_case_is_the_same_however_many_are_drawn(seed: int, number: int, parts: set[Part]) -> None:
    assert draw.case(seed, number, parts) == draw.cases(seed, number + 3, parts)[number]


@given(SEEDS, NUMBERS, PARTS)
def test_cases_of_a_block_share_a_chain_of_parts_that_are_there(seed: int, number: int, parts: set[Part]) -> None:
    case = draw.case(seed, number, parts)
    assert case.chain == draw.chain(seed, number // draw.BLOCK, parts)
    assert set(case.chain.parts.values()) <= parts


@given(SEEDS, NUMBERS, PARTS)
def test_what_is_told_to_a_hop_is_understood_by_it_and_is_felt(seed: int, number: int, parts: set[Part]) -> None:
    case = draw.case(seed, number, parts)
    if case.fault is not None:
        assert faults.parse(str(case.fault)) is not None
        assert faults.unnoticed(case.fault) is None
    assert (case.fault is not None) == (case.kind in TOLD)


@given(SEEDS, NUMBERS, PARTS)
def test_real_parts_are_only_stopped_and_sidecars_only_where_they_are(seed: int, number: int, parts: set[Part]) -> None:
    case = draw.case(seed, number, parts)
    if case.hop in HOPS and case.chain.parts[case.hop] not in OURS:
        assert case.kind in FREEZING
    if case.kind is Kind.SELF:
        assert case.hop in case.chain.tapped


@given(SEEDS, NUMBERS)
def test_a_cut_falls_into_the_answer(seed: int, number: int) -> None:
    case = draw.case(seed, number, OURS)
    if case.kind is Kind.CUT:
        assert 0 < case.seconds < script_s(case)


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_is_drawn(kind: Kind) -> None:
    assert any(case.kind is kind for case in draw.cases(1, 200, list(Part)))


def script_s(case: Case) -> float:
    from tests.lab.shapes import answer

    return answer(case.shape, request_id="", events=case.events, seed=case.seed).events[-1].at_s
