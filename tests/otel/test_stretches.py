"""Stretches of time: what they cover of a window is what one would count, whatever a record says, and in no time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from otel.hop import Blocked, Interval
from otel.stretches import SHADOW_NS, STAMP_NS, stretches_of
from tests.support.chain import MS

TIMES = st.integers(0, 60)
PAIRS = st.lists(st.tuples(TIMES, TIMES).map(lambda pair: (min(pair), max(pair))), max_size=12)


@given(PAIRS, TIMES, TIMES)
def test_what_is_covered_is_what_one_counts(pairs, start, end):
    """Also where stretches overlap: no moment counts twice."""
    counted = sum(any(a <= at < b for a, b in pairs) for at in range(start, end))
    assert stretches_of(pairs).covered(start, end) == counted


def test_stretches_of_a_record_are_as_good_as_pairs():
    pairs = [(0, 10), (20, 30), (40, 50)]
    assert stretches_of(pairs).covered(5, 45) == 5 + 10 + 5
    assert stretches_of(Interval(*pair) for pair in pairs) == stretches_of(pairs)
    assert stretches_of(Blocked(*pair, None) for pair in pairs) == stretches_of(pairs)


@given(PAIRS, TIMES, TIMES)
def test_the_first_one_behind_a_moment_is_found(pairs, after, before):
    stretches = stretches_of(pairs)
    behind = [a for a, b in zip(stretches.starts, stretches.ends, strict=True) if b > after and a < before]
    assert stretches.beginning(after, before) == min(behind, default=None)


def test_input_lay_waiting_where_it_was_read_right_after_a_block():
    block = stretches_of([(100 * MS, 200 * MS)])
    assert block.shadow(50 * MS, 200 * MS + SHADOW_NS - 1) == 100 * MS
    assert block.shadow(50 * MS, 200 * MS + SHADOW_NS) == 0
    assert block.shadow(50 * MS, 200 * MS - STAMP_NS) == 100 * MS - STAMP_NS
    assert block.shadow(50 * MS, 200 * MS - STAMP_NS - 1) == 0
    assert block.shadow(200 * MS, 210 * MS) == 0


def test_input_lay_waiting_for_our_own_lag_while_it_lasted_too():
    late = stretches_of([(100 * MS, 200 * MS)])
    assert late.lagged(50 * MS, 200 * MS + SHADOW_NS - 1) == 100 * MS
    assert late.lagged(50 * MS, 200 * MS + SHADOW_NS) == 0
    assert late.lagged(50 * MS, 150 * MS) == 50 * MS
    assert late.lagged(50 * MS, 100 * MS) == 0
