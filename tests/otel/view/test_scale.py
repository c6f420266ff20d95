"""Columns and shares: inside their width, in order, and adding up."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from otel.view.scale import TICK_CELLS, Axis, apportion, settle

finite = st.floats(-1e9, 1e9)


@st.composite
def axes(draw):
    start = draw(finite)
    length = draw(st.floats(0.001, 1e9))
    return Axis(start, start + max(length, abs(start) * 1e-9), draw(st.integers(20, 300)))


@given(axes(), finite, finite)
def test_columns_keep_the_order_of_time(axis, one, other):
    assert axis.column(min(one, other)) <= axis.column(max(one, other))
    assert -1 <= axis.column(one) <= axis.width


@given(axes(), finite, finite)
def test_a_stretch_that_can_be_seen_takes_at_least_one_column(axis, one, other):
    start, end = min(one, other), max(one, other)
    columns = axis.columns(start, end)
    assert bool(columns) == axis.has(start, end)
    assert all(0 <= column < axis.width for column in columns)


@given(axes())
def test_ticks_are_inside_and_apart(axis):
    columns = [column for column, _ in axis.ticks()]
    assert all(0 <= column < axis.width for column in columns)
    assert all(b - a >= TICK_CELLS - 1 for a, b in pairwise(columns))


@given(st.floats(-9_000, 9_000), st.floats(0.1, 9_000), st.integers(20, 300))
def test_labels_of_the_times_of_a_request_do_not_touch(start_s, length_s, width):
    assert all(len(label) < TICK_CELLS for _, label in Axis(start_s, start_s + length_s, width).ticks())


@pytest.mark.parametrize(
    ("end_s", "labels"),
    [
        (0.02, ["0", "0.005", "0.010", "0.015", "0.020"]),
        (6.2, ["0", "2", "4", "6"]),
        (60, ["0", "10", "20", "30", "40", "50", "60"]),
        (90, ["0:00", "0:15", "0:30", "0:45", "1:00", "1:15", "1:30"]),
        (7200, ["0:00", "30:00", "1h00", "1h30", "2h00"]),
    ],
)
def test_ticks_are_round(end_s, labels):
    assert [label for _, label in Axis(0, end_s, 60).ticks()] == labels


def test_a_day_is_counted_in_days():
    assert Axis(0, 86_400 * 9, 60).ticks()[1] == (13, "48h00")


@given(st.lists(st.floats(0, 1e300), min_size=1, max_size=20), st.integers(0, 500))
def test_shares_add_up_to_the_total(shares, total):
    parts = apportion(shares, total)
    assert sum(parts) == (total if max(shares) > 0 else 0)
    assert all(part >= 0 for part in parts)


@given(st.lists(st.floats(0, 1e3), min_size=2, max_size=20), st.integers(0, 500))
def test_no_share_is_off_by_a_whole_column(shares, total):
    whole = sum(shares)
    assume(whole > 1e-6)
    for share, part in zip(shares, apportion(shares, total), strict=True):
        assert abs(part - share / whole * total) < 1.001


def test_no_shares_and_empty_shares_are_nothing():
    assert apportion([], 10) == []
    assert apportion([0.0, 0.0], 10) == [0, 0]


@given(st.lists(st.floats(-1e6, 1e6), max_size=20))
def test_settled_terms_add_up_to_the_rounded_sum(terms):
    parts = settle(terms)
    assert abs(sum(parts) - sum(terms) * 1000) <= 0.501
    assert all(abs(part - term * 1000) <= 1 for part, term in zip(parts, terms, strict=True))


def test_thirds_do_not_lose_a_millisecond():
    assert settle([1 / 3, 1 / 3, 1 / 3]) == [334, 333, 333]
