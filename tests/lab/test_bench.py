"""The lab from end to end: three cases in a real chain."""

from __future__ import annotations

import pytest

from tests.lab import bench
from tests.lab.draw import Case, Chain, Kind
from tests.lab.shapes import EVENTS, Shape
from tests.lab.truth import Mark


@pytest.mark.e2e
@pytest.mark.timeout(120)
def test_cases_are_asked_marked_and_kept_with_their_stamps() -> None:
    chain = Chain(skew=(("gateway", 1_800.0),))
    planted = [
        Case(0, 1, chain, Shape.STEADY, EVENTS[Shape.STEADY]),
        Case(1, 2, chain, Shape.STEADY, EVENTS[Shape.STEADY], Kind.STALL, "gateway", 0.8),
        Case(2, 3, chain, Shape.STEADY, EVENTS[Shape.STEADY], Kind.LEAVE, "client"),
        Case(3, 4, chain, Shape.STEADY, EVENTS[Shape.STEADY], Kind.FREEZE, "inference-proxy", 0.8),
    ]
    results = list(bench.run(planted, paths={}, at_once=3, say=lambda _: None))
    assert [result.marked.mark for result in results] == [Mark.HEALTHY, Mark.RIGHT, Mark.RIGHT, Mark.RIGHT]
    assert all(result.timeline["request_id"] == result.request_id for result in results)
