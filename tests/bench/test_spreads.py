"""Medians with their least and most, and ratios within a repetition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.bench.spreads import Spread, differences, ratios

FIGURES = st.lists(st.floats(min_value=0.1, max_value=1e6), min_size=1, max_size=9)


@given(FIGURES)
def test_a_median_lies_between_the_least_and_the_most(figures: list[float]) -> None:
    spread = Spread.of(figures)
    assert spread is not None
    assert spread.least <= spread.median <= spread.most
    assert spread.count == len(figures)


@given(FIGURES, st.floats(min_value=0.1, max_value=10))
def test_what_hits_both_of_a_pair_changes_no_ratio(figures: list[float], drift: float) -> None:
    others = [figure * 2 for figure in figures]
    drifted = ratios([figure * drift for figure in figures], [other * drift for other in others])
    assert all(abs(ratio - 0.5) < 1e-9 for ratio in drifted)


def test_of_no_figures_there_is_no_spread() -> None:
    assert Spread.of([]) is None


def test_differences_are_taken_within_a_repetition() -> None:
    assert differences([5, 9], [4, 10]) == [1, -1]


def test_a_spread_is_told_where_there_is_one() -> None:
    assert Spread(1.21, 1.18, 1.3, 5).text() == "1.21 (1.18–1.30)"
    assert Spread(1.21, 1.21, 1.21, 1).text("{:.1f}", " KB") == "1.2 KB"
    assert Spread(85, 70, 90, 3).text("{:.0f}", " %") == "85 % (70–90)"
