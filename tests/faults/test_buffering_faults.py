"""Hops that hold output back for a moment and let it go in bursts: no gap grows, and most of them shrink."""

from __future__ import annotations

import pytest

from otel.findings import Cause, Status
from otel.hop import EventClass
from otel.join import join
from otel.verdict import judge
from tests.faults import report
from tests.support.builders import a_hop, a_timeline

EVENTS, FIRST_S, GAP_S = 50, 0.022, 0.0055
ROOM_BYTES, TIMER_S = 4_096, 0.25


def released(came_s: list[float], *, size_bytes: int) -> list[float]:
    """When each event leaves a hop that lets go at 4 KB, 250 ms after the first that it holds, or at the end."""
    left_s: list[float] = []
    held: list[float] = []
    for at_s in came_s:
        if held and at_s > held[0] + TIMER_S:
            left_s += [held[0] + TIMER_S] * len(held)
            held = []
        held.append(at_s)
        if len(held) * size_bytes >= ROOM_BYTES:
            left_s += [at_s] * len(held)
            held = []
    return left_s + [came_s[-1]] * len(held)


def seen(name: str, at_s: list[float]):
    return a_hop(name, timeline=a_timeline(at_s, classes=[EventClass.CONTENT] * len(at_s)))


@report(
    "R002", "a hop that holds output for 250 ms buffers, though the gaps fall: by the first output and by the bursts"
)
@pytest.mark.parametrize("size_bytes", [20, 60, 85])
def test_a_hop_that_holds_until_4_kb_or_250_ms_is_the_first_that_hurt_the_answer(size_bytes):
    came_s = [FIRST_S + k * GAP_S for k in range(EVENTS)]
    left_s = released(came_s, size_bytes=size_bytes)
    verdict = judge(join([seen("hop-a", came_s), seen("hop-b", [at_s + 0.015 for at_s in left_s])]))

    assert (verdict.status, verdict.cause) == (Status.NAMED, Cause.BUFFERING)
    assert [finding.first_hop for finding in verdict.findings] == ["hop-b"]
    source, behind = verdict.gaps
    assert source.median_ns == pytest.approx(5_500_000, abs=200_000)
    assert behind.median_ns == 0


def test_one_that_holds_for_half_as_long_is_noted_beside_a_healthy_answer():
    came_s = [FIRST_S + k * GAP_S for k in range(EVENTS)]
    left_s = released(came_s, size_bytes=200)
    verdict = judge(join([seen("hop-a", came_s), seen("hop-b", [at_s + 0.015 for at_s in left_s])]))

    assert verdict.status is Status.HEALTHY
    assert [(finding.cause, finding.first_hop) for finding in verdict.findings] == [(Cause.BUFFERING, "hop-b")]
