"""Why a segment added what it added to a wait: the cause, and what the kernel at the tap before it said meanwhile."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice, pairwise, takewhile
from typing import Final

from otel.align import window_of
from otel.decompose import Decomposition, Wait
from otel.evidence import IN_DOUBT, Stuck, Whereabouts, whereabouts, whereabouts_over
from otel.findings import Cause, Policy
from otel.hop import OUTPUT, EventClass
from otel.lineup import Kind, Lineup, Segment
from otel.pace import Behind
from otel.rhythm import Rhythm

_OWN: Final = {Kind.SIDECAR: Cause.SELF, Kind.UI: Cause.UI_BLOCKED}
"""Whatever these add is theirs, however it came about."""
_HIDDEN: Final = frozenset({EventClass.REASONING, EventClass.TOOL, EventClass.CONTROL})
_SENT: Final = _HIDDEN | OUTPUT
"""By any of these a source shows that it goes on; a window of text may hold some that was seen."""

Why = tuple[Cause, Stuck | None, Whereabouts | None]
"""The cause, and where the kernel's samples say that the bytes were, for causes that they decide."""


def cause_of(
    lineup: Lineup, wait: Decomposition, segment: Segment, term: int, rhythm: Rhythm, *, policy: Policy
) -> Why:
    """Why a segment added its term to one wait."""
    if segment.kind in _OWN:
        return _OWN[segment.kind], None, None
    if segment.kind is Kind.SOURCE:
        if _had_hidden_output(lineup, wait, rhythm, policy):
            return Cause.HIDDEN_OUTPUT, None, None
        return _by_wait(wait, Cause.SOURCE_STALL), None, None
    return cause_behind(lineup, wait, segment, term)


def cause_behind(lineup: Lineup, wait: Decomposition, segment: Segment, term: int) -> Why:
    """Why a segment behind a tap added its term: its kernel says where the bytes were."""
    late = Cause.SLOW_READER if segment.kind is Kind.READER else Cause.APP_STALL
    n = _lane_before(lineup, segment)
    lane = lineup.lanes[n]
    events = _awaited_of(lineup, wait, n)
    where, kernel = whereabouts(lane, events, term, is_end=wait.wait is Wait.END)
    if where is Whereabouts.NETWORK or where in IN_DOUBT:
        return Cause.NETWORK, kernel, where
    if segment.kind is Kind.READER and not (lineup.has_record and wait.wait is Wait.FIRST_EVENT):
        return late, kernel, where  # a record shows the way of the request as well, and nobody can be late for that
    return _by_wait(wait, late), kernel, where


def cause_of_pace(lineup: Lineup, behind: Behind) -> Why:
    """Why a segment fell behind over a stretch."""
    segment = behind.segment
    if segment.kind in _OWN:
        return _OWN[segment.kind], None, None
    n = _lane_before(lineup, segment)
    stretch = behind.wait.windows[n]
    where, kernel = whereabouts_over(lineup.lanes[n], stretch.first, stretch.last, is_delivered=behind.is_delivered)
    if where is Whereabouts.NETWORK or where in IN_DOUBT:
        return Cause.NETWORK, kernel, where
    return Cause.SLOW_READER if segment.kind is Kind.READER else Cause.THROTTLING, kernel, where


def _awaited_of(lineup: Lineup, wait: Decomposition, n: int) -> Sequence[int]:
    """The events of lane n that the segment behind it had to pass on in this wait."""
    lane = lineup.lanes[n]
    if wait.wait is Wait.END:
        return [lane.count - 1]
    if wait.wait is Wait.GAP:
        window = wait.windows[n]
        return range(min(window.first + 1, window.last), window.last + 1)
    if n + 1 >= len(wait.windows) or not wait.windows[n + 1].last:
        return [0]
    silence = wait.windows[n + 1]  # what came before the next tap was silent cannot be what it waited for
    if lineup.by_ordinal:
        return [0, silence.last]
    outer = lineup.lanes[n + 1]
    window = window_of(lane, outer.high[silence.first], outer.high[silence.last])
    return sorted({0, *range(min(window.first + 1, window.last), window.last + 1)})


def _lane_before(lineup: Lineup, segment: Segment) -> int:
    return next(
        i for i, lane in enumerate(lineup.lanes) if lane.name == segment.upstream and lineup.before(i + 1) == segment
    )


def _by_wait(wait: Decomposition, during_stream: Cause) -> Cause:
    match wait.wait:
        case Wait.FIRST_EVENT:
            return Cause.SLOW_FIRST_EVENT
        case Wait.END:
            return Cause.END_HOLD
        case Wait.GAP | Wait.PACE:
            return during_stream


def is_first_output(wait: Decomposition, term_ns: int, rhythm: Rhythm, policy: Policy) -> bool:
    """Whether a source's term is its time to a first output, and not a pause behind that, which a hop held as well."""
    is_pause = wait.held_ns >= rhythm.limit_ns and term_ns - wait.held_ns < policy.first_event_ns
    return wait.wait is Wait.FIRST_EVENT and not is_pause


def _had_hidden_output(lineup: Lineup, wait: Decomposition, rhythm: Rhythm, policy: Policy) -> bool:
    """Whether the source sent reasoning, tool or control events all through the wait: nothing stalled there.

    Before the first of them it may be silent for as long as before a first output that is seen.
    """
    source = lineup.lanes[0]
    is_from_asked = is_first_output(wait, wait.terms[lineup.source], rhythm, policy)
    if wait.wait is Wait.END:
        start, stop = source.arrived[-1], source.hop.moments.upstream_ended_ns or source.arrived[-1]
    elif is_from_asked:
        start, stop = 0, source.arrived[0]
    else:
        window = wait.windows[0]
        start, stop = source.arrived[window.first], source.arrived[window.last]
        if wait.is_to_end and window.last == source.count - 1:
            stop = source.hop.moments.upstream_ended_ns or stop
    stamps = source.hop.timeline.stamps
    begin = bisect_right(stamps, start, key=lambda stamp: stamp.arrived_ns)
    within = list(takewhile(lambda stamp: stamp.arrived_ns < stop, islice(stamps, begin, None)))
    hidden = [stamp.arrived_ns for stamp in within if stamp.event_class in _HIDDEN]
    if len(hidden) < 2 or (is_from_asked and hidden[0] > policy.first_event_ns):
        return False
    shown = [stamp.arrived_ns for stamp in within if stamp.event_class in _SENT]
    instants = [*hidden, stop] if is_from_asked else [start, *shown, stop]
    return max(b - a for a, b in pairwise(instants)) < rhythm.limit_ns
