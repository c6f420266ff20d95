"""Instants as text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from otel.instants import rfc3339

S = 1_000_000_000
WALL_NS = 1_764_500_000 * S


def test_times_are_rfc_3339_in_utc():
    assert rfc3339(WALL_NS) == "2025-11-30T10:53:20.000Z"
    assert rfc3339(WALL_NS + 7_999_999) == "2025-11-30T10:53:20.007Z"


@given(st.integers(0, 4_000_000_000 * S), st.integers(0, 4_000_000_000 * S))
def test_texts_sort_like_instants(one, other):
    assert (rfc3339(one) <= rfc3339(other)) == (one // 1_000_000 <= other // 1_000_000)
