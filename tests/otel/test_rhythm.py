"""The rhythm of a source excuses its ordinary pauses, and nothing more."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from otel.rhythm import rhythm_of

MS = 1_000_000
FLOOR, CEILING = 250 * MS, 5_000 * MS


def limit(gaps, elsewhere=None):
    return rhythm_of(gaps, floor_ns=FLOOR, ceiling_ns=CEILING, elsewhere_ns=elsewhere)


def test_a_steady_stream_excuses_nothing_beyond_the_floor():
    assert limit([25 * MS] * 100).limit_ns == FLOOR


def test_pauses_of_a_bursty_stream_are_rhythm():
    bursty = ([MS] * 9 + [300 * MS]) * 40
    assert limit(bursty).limit_ns == 600 * MS  # twice the third longest pause


def test_one_stall_does_not_raise_the_bar_to_its_own_height():
    gaps = [25 * MS] * 100 + [2_000 * MS]
    assert limit(gaps).limit_ns == FLOOR


def test_fewer_than_five_bursts_show_no_rhythm():
    assert not limit([MS] * 29 + [800 * MS]).is_known
    assert limit(([MS] * 9 + [300 * MS]) * 4).is_known


def test_other_streams_of_the_source_make_it_known():
    rhythm = limit([MS] * 29 + [800 * MS], elsewhere=5 * MS)
    assert rhythm.is_known
    assert rhythm.limit_ns == FLOOR


@given(st.lists(st.integers(0, 10**11)), st.none() | st.integers(0, 10**11))
def test_the_limit_stays_between_floor_and_ceiling(gaps, elsewhere):
    assert FLOOR <= limit(gaps, elsewhere).limit_ns <= CEILING


@given(st.lists(st.integers(0, 10**10)), st.integers(0, 10**10))
def test_knowing_more_never_accuses_more(gaps, elsewhere):
    assert limit(gaps, elsewhere).limit_ns >= limit(gaps).limit_ns or not limit(gaps).is_known
