"""The answer of the worker that pours."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from otel.demo.reader import has_text
from tests.lab.pouring import answer


@given(st.integers(1, 200), st.integers(1, 5_000), st.floats(0, 100))
def test_it_has_as_many_events_as_large_and_as_far_apart_as_was_asked(events: int, chars: int, pace_ms: float) -> None:
    poured = answer(events=events, chars=chars, pace_ms=pace_ms)
    texts = [due for due in poured.events if has_text(due.data)]
    assert len(texts) == events
    assert all(due.data.count(b"w" * chars) == 1 for due in texts)
    assert all(abs((b.at_s - a.at_s) - pace_ms / 1e3) < 1e-6 for a, b in pairwise(texts))
    assert poured.is_whole
    assert poured.events[-1].data == b"data: [DONE]\n\n"
