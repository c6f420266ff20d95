"""The additive decomposition: every second of the reader's wait, given to the segment that added it.

    wait at the reader = silence at the source + sum over segments (silence after it - silence before it)

Each term is a difference of readings of one clock, so clocks need no synchronising and every sum can be
checked by hand. A negative term is a segment that absorbed part of a silence. The observation points are, per
tap, `arrived` and `taken`, and at the reader's end the acknowledgement of its kernel. Where the reader recorded for
itself, they are when it received and when it consumed: what lies between is `ui`, and nothing lies behind it.

When the reader stops, buffers fill back towards the source. Blocked time moves, second by second, from the
segment before a blocked tap to the one after it; our own lag moves to ourselves (`self`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from otel.align import (
    Lane,
    Window,
    acknowledged,
    end_acknowledged,
    longest_silence,
    surely_of,
    window_of,
)
from otel.edits import shift_of, silence_beside
from otel.lineup import Lineup, Segment
from otel.release import awaited

HOLD_NS: Final = 250_000_000
"""Silences from here on delay a merging hop's first output as well."""
END_SLACK_NS: Final = 50_000_000
"""So much longer than the reader a tap may have waited for the end that the last text waited for as well."""


class Wait(StrEnum):
    """From what to what the reader waited."""

    GAP = "gap"
    FIRST_EVENT = "first_event"
    END = "end"
    PACE = "pace"
    """A stretch in which a segment fell behind, without one long gap."""


@dataclass(frozen=True, slots=True)
class Decomposition:
    """One wait at the reader and who made it; the terms add up to gap_ns.

    ended_by: index of the reader's event that ended the wait, its event count for the end of the stream.
    windows: for each lane the part that was searched, or the stretch of it.
    """

    wait: Wait
    gap_ns: int
    ended_by: int
    terms: Mapping[Segment, int]
    windows: Sequence[Window] = ()


def gap_before(lineup: Lineup, j: int) -> Decomposition:
    """The wait that ended with the reader's event j, j >= 1."""
    last, reader = lineup.last, lineup.reader
    until = awaited(lineup.lanes, j, by_ordinal=lineup.by_ordinal, same=lineup.same)
    needed = [] if lineup.by_ordinal else _needed(lineup, until)
    gap = reader[j] - reader[j - 1]
    terms: dict[Segment, int] = {}
    windows = []
    previous = carried = frozen = 0
    for n, lane in enumerate(lineup.lanes):
        if lineup.by_ordinal or lane is last:
            window = Window(j - 1, min(until, lane.count - 1))
        else:
            least, most = shift_of(lane, last)
            window = window_of(lane, last.low[j - 1] + least, needed[n] + most)
        windows.append(window)
        at = _awaited_at(lineup, lane, window, j, until)
        arrived, taken, blocked, late, blocked_within = _silences(lineup, lane, at, gap, until)
        terms[lineup.before(n)] = arrived - previous + carried - blocked - late
        _keep_what_froze(lineup, terms, n, frozen)
        frozen = max((lane.frozen(i) for i in range(window.first + 1, window.last + 1)), default=0)
        terms[lineup.within(n)] = taken - arrived - blocked_within + late
        previous, carried = taken, blocked + blocked_within
    _reach_the_reader(lineup, terms, gap - previous + carried)
    return Decomposition(Wait.GAP, gap, j, terms, windows)


def _needed(lineup: Lineup, until: int) -> list[int]:
    """Up to which position each lane had to have the text, in the reader's positions, for its events up to `until`.

    An event comes whole: a hop that joins events waits for all that goes into the one in which that text ends, also
    where a hop behind it takes that one apart.
    """
    last = lineup.last
    reach = last.high[until]
    needed = [reach]
    for lane in reversed(lineup.lanes[:-1]):
        needed.append(reach)
        at = bisect_left(lane.low, reach)
        if at < lane.event_count and shift_of(lane, last) == (0, 0):
            reach = lane.high[at]
    return needed[::-1]


def first_event(lineup: Lineup) -> Decomposition:
    """The wait from the request to the first visible output; its gap is counted from the last tap's anchor.

    A hop that merges or collects sends its first event only when it has enough: the longest silence that a point had
    until the reader's first delivery was complete is added to that point's time.
    """
    lineup = _since_asked(lineup)
    until = awaited(lineup.lanes, 0, by_ordinal=lineup.by_ordinal, same=lineup.same)
    terms: dict[Segment, int] = {}
    previous = carried = frozen = 0
    for n, lane in enumerate(lineup.lanes):
        late, blocked, within = lane.lag_before[0], lane.blocked_before[0], lane.blocked_within[0]
        arrived, taken = lane.arrived[0], lane.handed(0)
        if (at := _held_at(lane, lineup, until)) is not None:
            arrived, taken = arrived + lane.arrived[at] - lane.arrived[at - 1], taken + lane.silence(at)
            late, blocked = late + lane.lag_before[at], blocked + lane.blocked_before[at]
            within += lane.blocked_within[at] - lane.blocked_within[at - 1]
        terms[lineup.before(n)] = arrived - previous + carried - blocked - late
        _keep_what_froze(lineup, terms, n, frozen)
        frozen = lane.frozen(0)
        terms[lineup.within(n)] = taken - arrived - within + late
        previous, carried = taken, blocked + within
    reached = lineup.reader[0] + (previous - lineup.last.handed(0))
    _reach_the_reader(lineup, terms, reached - previous + carried)
    return Decomposition(Wait.FIRST_EVENT, reached, 0, terms)


def _keep_what_froze(lineup: Lineup, terms: dict[Segment, int], n: int, frozen_ns: int) -> None:
    """Give what the segment before lane n added back to our own tap before it, as far as that was frozen between
    reading the awaited event and the stamp of its hand-over.

    It counts as handed over before the freeze. Where the next tap had it only afterwards, we froze before we wrote.
    """
    if n and frozen_ns:
        late_ns = min(frozen_ns, max(0, terms[lineup.before(n)]))
        terms[lineup.before(n)] -= late_ns
        terms[lineup.within(n - 1)] += late_ns


def _since_asked(lineup: Lineup) -> Lineup:
    """The lineup without a reader's record that began after the reader asked: it shows nothing of the first wait.

    Whoever asks waits longer than whoever is asked, on any clock.
    """
    if not lineup.has_record or len(lineup.lanes) == 1:
        return lineup
    *taps, record = lineup.lanes
    if record.arrived[0] >= taps[-1].taken[0]:
        return lineup
    return replace(lineup, lanes=taps, reader=acknowledged(taps[-1]))


def end(lineup: Lineup) -> Decomposition | None:
    """The wait from the last visible output to the end of the response, None where a tap did not see a whole one."""
    terms: dict[Segment, int] = {}
    previous = carried = 0
    for n, lane in enumerate(lineup.lanes):
        ended, closed = lane.hop.moments.upstream_ended_ns, lane.hop.moments.downstream_ended_ns
        if lane.is_pending or lane.hop.timeline.is_cut_short or ended is None or closed is None:
            return None
        arrived, taken = ended - lane.arrived[-1], closed - lane.handed(-1)
        blocked = lane.blocked.shadow(lane.arrived[-1], ended)
        late = max(0, lane.lag.lagged(lane.arrived[-1], ended) - blocked)
        within = lane.blocked.covered(ended, closed) - lane.blocked_within[-1]
        terms[lineup.before(n)] = arrived - previous + carried - blocked - late
        terms[lineup.within(n)] = taken - arrived - within + late
        previous, carried = taken, blocked + within
    closed = end_acknowledged(lineup.last)
    reached = previous if closed is None else closed - lineup.reader[-1]
    _reach_the_reader(lineup, terms, reached - previous + carried)
    return Decomposition(Wait.END, reached, lineup.last.event_count, terms)


def _reach_the_reader(lineup: Lineup, terms: dict[Segment, int], left_ns: int) -> None:
    """Give what no tap accounts for to the last segment."""
    segment = lineup.outermost()
    terms[segment] = terms.get(segment, 0) + left_ns


def _awaited_at(lineup: Lineup, lane: Lane, window: Window, j: int, until: int) -> int | None:
    """The event of a lane that ended its silence in the wait for the reader's events j to `until`, None for none."""
    last, gap = lineup.last, lineup.reader[j] - lineup.reader[j - 1]
    is_same_text = shift_of(lane, last) == (0, 0)
    is_known = lineup.by_ordinal or lane is last or (_is_sharp(lane, window) and is_same_text)
    at = longest_silence(lane, window, wanted_ns=None if is_known else gap)
    if is_known:
        return at
    if at is None or lane.silence(at) < gap / 2:
        beside = silence_beside(lane, window, reader=last, waited=Window(j - 1, until), wanted_ns=gap)
        at = at if beside is None else beside
    if is_same_text:  # one that lies within for certain counts though a hop made up for most of it
        begin = last.high[j - 1]
        within = surely_of(lane, begin, last.low[until], is_sharp=last.low[j - 1] == begin)
        sure = longest_silence(lane, within, wanted_ns=None)
        at = sure if sure is not None and (at is None or lane.silence(sure) > lane.silence(at)) else at
    return at


def _silences(lineup: Lineup, lane: Lane, at: int | None, gap: int, until: int) -> tuple[int, int, int, int, int]:
    """(silence arriving, silence taken, blocked and own lag in the first, blocked within the hand-over)."""
    arrived = taken = blocked = late = within = 0
    if at is not None:
        arrived = lane.arrived[at] - lane.arrived[at - 1]
        taken = lane.silence(at)
        blocked, late = lane.blocked_before[at], lane.lag_before[at]
        within = lane.blocked_within[at] - lane.blocked_within[at - 1]
    is_last_text = until == lineup.last.count - 1 and not lineup.by_ordinal and not lane.is_pending
    moments = lane.hop.moments
    if is_last_text and moments.upstream_ended_ns is not None and moments.downstream_ended_ns is not None:
        # a merging hop keeps its remainder until the end: then the end counts as an event
        until_end = moments.upstream_ended_ns - lane.arrived[-1]
        if arrived < until_end <= gap + END_SLACK_NS:
            return until_end, moments.downstream_ended_ns - lane.handed(-1), 0, 0, 0
    return arrived, taken, blocked, late, within


def _is_sharp(lane: Lane, window: Window) -> bool:
    return lane.low[window.first] == lane.high[window.first] and lane.low[window.last] == lane.high[window.last]


def _held_at(lane: Lane, lineup: Lineup, until: int) -> int | None:
    """The event that ended the longest silence of an inner lane before the text of the reader's events up to `until`
    was complete there, None where there was none worth telling.

    What came after the reader had its event cannot have been waited for: an outer hop's clock started earlier, so
    of two times since the request's arrival the inner one is the shorter.
    """
    reader = lineup.last
    if lane is reader:
        return None
    _, most = shift_of(lane, reader)
    last = until if lineup.by_ordinal else window_of(lane, 0, reader.high[until] + most).last
    last = min(last, bisect_right(lane.arrived, reader.arrived[0]) - 1, lane.event_count - 1)
    at = longest_silence(lane, Window(0, max(0, last)), wanted_ns=None)
    return None if at is None or lane.silence(at) <= HOLD_NS else at
