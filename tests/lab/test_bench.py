"""The lab from end to end: a few cases in a real chain of four hops, one of which has two taps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.lab import bench
from tests.lab.chain import Chain, Links, Tap
from tests.lab.draw import Case
from tests.lab.marks import Mark
from tests.lab.middles import Part
from tests.lab.namespaces import missing
from tests.lab.rows import Row
from tests.lab.shapes import EVENTS, Shape
from tests.lab.told import Kind, Planted


@pytest.mark.e2e
@pytest.mark.timeout(180)
@pytest.mark.skipif(missing() is not None, reason=missing() or "")
def test_a_link_that_fails_is_named_where_it_is() -> None:
    chain = replace(Chain.of(Part.APP, Part.APP), links=Links((0.002, 0.0, 0.02)))
    planted = [
        Case(number, number + 1, chain, Shape.STEADY, 240, faults=(Planted(Kind.BLACK_HOLE, hop, 1.2, 300),))
        for number, hop in enumerate(("inference-proxy", "client"))
    ]
    results = list(bench.run(planted, paths={}, at_once=1, say=lambda _: None))
    assert [result.marked.mark for result in results] == [Mark.RIGHT, Mark.RIGHT]
    assert [result.marked.named for result in results] == ["network @ inference-proxy", "network @ client"]


@pytest.mark.e2e
@pytest.mark.timeout(180)
def test_cases_are_asked_marked_judged_again_and_kept_with_their_stamps() -> None:
    worker, router, proxy, gateway = Chain.of(Part.APP, Part.MERGER, Part.APP).hops
    chain = Chain((worker, router, proxy, replace(gateway, tap=Tap.BOTH, skew_s=1_800.0)))

    def case(number: int, *faults: Planted) -> Case:
        return Case(number, number + 1, chain, Shape.STEADY, EVENTS[Shape.STEADY], faults=faults)

    planted = [
        case(0),
        case(1, Planted(Kind.STALL, "gateway", 0.8, 300)),
        case(2, Planted(Kind.LEAVE, "client", 0.0)),
        case(3, Planted(Kind.SLOW_FIRST, "gateway", 0.9), Planted(Kind.STALL, "router", 1.4, 300)),
        case(4, Planted(Kind.FREEZE, "inference-proxy", 0.8, 300)),
    ]
    results = list(bench.run(planted, paths={}, at_once=3, say=lambda _: None))
    assert [result.marked.mark for result in results] == [Mark.HEALTHY, *[Mark.RIGHT] * 4]
    assert all(result.timeline["request_id"] == result.request_id for result in results)
    for result in results:
        assert {Row.TAPS, Row.RECORD, Row.QUANTISED, Row.TAP_AWAY, Row.EGRESS_AWAY} == {row for row, _ in result.rows}
        assert not any(marked.is_confidently_wrong for _, marked in result.rows)
