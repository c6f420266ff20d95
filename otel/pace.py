"""Who fell behind: a stretch in which one segment delivered ever later, though none of its waits was long.

A link, a reader or a hop that is always a little slow shows no gap worth naming: 40 ms more before each event are
three seconds at the end. What tells it is lateness, the time that a piece of output needs through a segment. On a
healthy path it stays what it was; behind a hop that holds and releases it comes back after each release; where it
only grows, the segment is slower than what feeds it. The rise of it over a stretch is the segment's term, and the
terms add up to the reader's time for that stretch, as those of one wait do.

Lateness is read where it is exact: at each event where all taps saw the same ones, else at the characters where the
positions of all taps take a step. Own lag does not count: a loop that is late now and then catches up each time.
Time in which a blocked tap let output wait moves behind it, as far as the output was late at all.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

from otel.align import STEP_NS, Lane, Window, acknowledged
from otel.decompose import Decomposition, Wait
from otel.hop import OUTPUT
from otel.lineup import Kind, Lineup, Segment
from otel.rhythm import BURST_GAP_NS, CAP_FROM_GAPS, P90

DRIFT_PPM: Final = 1_000
"""Two monotonic clocks, each slewed by the 500 ppm that time daemons may use, run apart by this."""
SEARCHES: Final = 16
"""A search that finds one long wait goes on at both sides of it, so often in all: a comb has hundreds."""


@dataclass(frozen=True, slots=True)
class Gaps:
    """The pauses between two pieces of output as one tap read them, without what it was itself blocked or late."""

    tap: str
    count: int
    median_ns: int
    p90_ns: int


@dataclass(frozen=True, slots=True)
class Behind:
    """A segment that fell behind: in which stretch, and whether the peer's kernel had the output on time."""

    segment: Segment
    wait: Decomposition
    is_delivered: bool

    @property
    def term_ns(self) -> int:
        return self.wait.terms[self.segment]


@dataclass(frozen=True, slots=True)
class _Course:
    """The points of an answer at which lateness can be read: for each lane the event that brought the same output.

    late: for each segment the time that the output needed through it, but for a constant; source first, adding up to
    the reader's clock. doubt: by how much the text that an event ended may have been less late than what it began with,
    which a hop that merges held. handed: for each lane when it would have handed the output on, had nothing blocked it.
    """

    points: Sequence[Sequence[int]]
    at_reader: Sequence[int]
    late: Sequence[tuple[Segment, Sequence[int]]]
    doubt: Sequence[Sequence[int]]
    handed: Sequence[Sequence[int]]

    def wait(self, first: int, last: int) -> Decomposition:
        return Decomposition(
            Wait.PACE,
            self.at_reader[last] - self.at_reader[first],
            self.points[last][-1],
            {segment: late[last] - late[first] for segment, late in self.late},
            [Window(a, b) for a, b in zip(self.points[first], self.points[last], strict=True)],
        )


def gaps_of(lineup: Lineup) -> tuple[Gaps, ...]:
    """The distribution of gaps at each tap, source first; taps with too few to show one are left out."""
    if lineup.is_partial:
        return ()
    found = []
    for lane in lineup.lanes:
        gaps = sorted(
            max(0, lane.arrived[i] - lane.arrived[i - 1] - lane.blocked_before[i] - lane.lag_before[i])
            for i in range(1, lane.event_count)
            if lane.is_whole[i]
        )
        if lane.hop.exchange.is_stream and len(gaps) >= CAP_FROM_GAPS:
            last = len(gaps) - 1
            found.append(Gaps(lane.name, len(gaps), gaps[last // 2], gaps[int(P90 * last)]))
    return tuple(found)


def fell_behind(lineup: Lineup, *, limit_ns: int) -> list[Behind]:
    """Every segment but the source that fell behind by more than limit_ns, in the stretch where it did so most.

    Not told where nobody felt it: where the reader had more than an event every 5 ms, which is one burst, or where
    other segments made up for it.
    """
    points = _points(lineup)
    if len(points) < CAP_FROM_GAPS:
        return []
    course = _course(lineup, points)
    found = []
    for i, (segment, late) in enumerate(course.late):
        if segment.kind is Kind.SOURCE:
            continue
        drift_ppm = DRIFT_PPM if _has_two_clocks(lineup, segment) else 0
        felt = [
            (first, last)
            for first, last in _stretches(
                late, course.doubt[i], course.at_reader, limit_ns=limit_ns, drift_ppm=drift_ppm
            )
            if _is_felt(course.wait(first, last), segment)
        ]
        if felt:
            first, last = max(felt, key=lambda stretch: late[stretch[1]] - late[stretch[0]])
            has_peer = segment.kind in {Kind.BETWEEN, Kind.READER}
            is_delivered = has_peer and _is_delivered(lineup, course, (i - 1) // 2, first, last)
            found.append(Behind(segment, course.wait(first, last), is_delivered))
    return found


def _points(lineup: Lineup) -> list[tuple[int, ...]]:
    lanes = lineup.lanes
    if lineup.is_partial or not all(_has_pace(lane) for lane in lanes):
        return []
    if lineup.by_ordinal:
        return [(k,) * len(lanes) for k in range(lineup.last.event_count)]
    if lineup.rewriters or any(lane.is_pending for lane in lanes):
        return []  # the same place of two texts is not the same output
    step = math.lcm(*(lane.hop.timeline.quantum for lane in lanes))
    points = []
    reached = -1
    for low in lineup.last.low:
        place = low // step * step
        if place > reached:
            reached = place
            points.append(tuple(bisect_left(lane.low, place) for lane in lanes))
    return [point for point in points if all(k < lane.count for k, lane in zip(point, lanes, strict=True))]


def _has_pace(lane: Lane) -> bool:
    """Whether the tap saw a stream of visible output, and every piece of it is there."""
    shows = any(stamp.event_class in OUTPUT for stamp in lane.hop.timeline.stamps)
    return shows and lane.hop.exchange.is_stream and all(lane.is_whole)


def _course(lineup: Lineup, points: Sequence[Sequence[int]]) -> _Course:
    late: list[tuple[Segment, Sequence[int]]] = []
    certain = [0] * len(points)
    doubt: list[Sequence[int]] = []
    handed: list[Sequence[int]] = []
    for n, lane in enumerate(lineup.lanes):
        at = [point[n] for point in points]
        came = [lane.arrived[k] for k in at]
        if n:
            came_late = [b - a for a, b in zip(handed[-1], came, strict=True)]
            pressed = _pressed(lane, at, came_late)
            late.append((lineup.before(n), [ns - p for ns, p in zip(came_late, pressed, strict=True)]))
        else:
            pressed = _pressed_source(lane, at)
            late.append((lineup.source, [ns - p for ns, p in zip(came, pressed, strict=True)]))
        handed.append([lane.handed(k) - lane.blocked_within[k] - p for k, p in zip(at, pressed, strict=True)])
        within = [h - (ns - p) for h, ns, p in zip(handed[-1], came, pressed, strict=True)]
        late.append((lineup.within(n), within))
        doubt += [_merged(lineup, points, n) if n and not lineup.by_ordinal else certain, certain]
    read = [lineup.reader[point[-1]] for point in points]
    if not lineup.has_record:
        late.append((lineup.outermost(), [b - a for a, b in zip(handed[-1], read, strict=True)]))
        doubt.append(certain)
    return _Course(points, read, late, doubt, handed)


def _merged(lineup: Lineup, points: Sequence[Sequence[int]], n: int) -> list[int]:
    """For how long the lane before had to go on until it had all the text of an event that lane n passed on."""
    before, lane = lineup.lanes[n - 1], lineup.lanes[n]
    ends = [min(bisect_left(before.low, lane.high[point[n]]), before.count - 1) for point in points]
    return [max(0, before.taken[end] - before.taken[point[n - 1]]) for end, point in zip(ends, points, strict=True)]


def _pressed(lane: Lane, at: Sequence[int], late: Sequence[int]) -> list[int]:
    """How much of the lateness before a tap is the tap's own: it was blocked and did not read. Never more than all
    of it, so a segment that catches up after a block has paid it back."""
    blocked = list(accumulate(_backpressure(lane)))
    pressed = [0]
    usual = late[0]
    for k in range(1, len(at)):
        usual = min(usual, late[k])
        pressed.append(min(pressed[-1] + blocked[at[k]] - blocked[at[k - 1]], late[k] - usual))
    return pressed


def _pressed_source(lane: Lane, at: Sequence[int]) -> list[int]:
    """The same at the first tap. How fast a source would have been is seen before the first block only."""
    blocks = _backpressure(lane)
    blocked = list(accumulate(blocks))
    free = next((i for i, ns in enumerate(blocks) if ns), len(blocks)) - 1
    usual = (lane.arrived[free] - lane.arrived[0]) // free if free >= CAP_FROM_GAPS else 0
    pressed = [0]
    for before, k in pairwise(at):
        pressed.append(pressed[-1] + max(0, blocked[k] - blocked[before] - usual * (k - before)))
    return pressed


def _backpressure(lane: Lane) -> list[int]:
    """For each event the time before it in which the tap was blocked while it lay waiting: it was read at once when
    the block ended, and the tap is not known to have had nothing to read then."""
    ends = lane.blocked.ends
    dry = {block.start_ns for block in lane.hop.timeline.blocked if block.unread_bytes == 0}
    pressed = []
    for at, blocked in zip(lane.arrived, lane.blocked_before, strict=True):
        i = bisect_right(ends, at + lane.hop.timeline.unit_ns) - 1
        has_waited = blocked > 0 and i >= 0 and at - ends[i] <= STEP_NS and lane.blocked.starts[i] not in dry
        pressed.append(blocked if has_waited else 0)
    return pressed


def _stretches(
    late: Sequence[int], doubt: Sequence[int], at_reader: Sequence[int], *, limit_ns: int, drift_ppm: int
) -> list[tuple[int, int]]:
    """Stretches [first, last] over which lateness rose for certain by more than the limit, no step of it by half."""
    certain = [ns - d for ns, d in zip(late, doubt, strict=True)]
    found = []
    todo = [(0, len(late))]
    for _ in range(SEARCHES):
        if not todo:
            break
        start, stop = todo.pop()
        first, last = _steepest(late, certain, start, stop)
        rise = certain[last] - late[first]
        if rise <= limit_ns + (at_reader[last] - at_reader[first]) * drift_ppm // 1_000_000:
            continue
        longest = max(range(first + 1, last + 1), key=lambda k: late[k] - late[k - 1])
        if 2 * (late[longest] - late[longest - 1]) < rise:
            found.append((first, last))
        else:  # one wait explains it; what is at its two sides may still be a stretch
            todo += [(start, longest), (longest, stop)]
    return found


def _steepest(late: Sequence[int], certain: Sequence[int], start: int, stop: int) -> tuple[int, int]:
    """Between which two places of [start, stop) the largest certain rise lies."""
    lowest = first = last = start
    rise = 0
    for k in range(start, stop):
        if late[k] < late[lowest]:
            lowest = k
        if certain[k] - late[lowest] > rise:
            first, last, rise = lowest, k, certain[k] - late[lowest]
    return first, last


def _is_felt(wait: Decomposition, segment: Segment) -> bool:
    events = max(window.last - window.first for window in wait.windows)
    added = sum(ns for s, ns in wait.terms.items() if s.kind is not Kind.SOURCE)
    return wait.gap_ns >= events * BURST_GAP_NS and 2 * added >= wait.terms[segment]


def _is_delivered(lineup: Lineup, course: _Course, n: int, first: int, last: int) -> bool:
    """Whether the kernel behind lane n fell behind with acknowledging by less than half of what the segment did."""
    acked = acknowledged(lineup.lanes[n])
    late = [acked[course.points[k][n]] - course.handed[n][k] for k in (first, last)]
    rise = course.late[2 * n + 2][1]
    return 2 * (late[1] - late[0]) < rise[last] - rise[first]


def _has_two_clocks(lineup: Lineup, segment: Segment) -> bool:
    anchors = {lane.name: lane.hop.anchor for lane in lineup.lanes}
    ends = [anchors[name] for name in {segment.upstream, segment.downstream} if name in anchors]
    return len(ends) > 1 and not (ends[0].clock_domain and ends[0].clock_domain == ends[1].clock_domain)
