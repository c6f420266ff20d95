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
    windows: for each lane the part that was searched, or the stretch of it; in the wait for the first output, where its
    silence behind that lies. is_to_end: what ended the wait came with the end of the answer, which was waited for as
    well. held_ns: how long the source was silent behind its first output, while a hop held that.
    """

    wait: Wait
    gap_ns: int
    ended_by: int
    terms: Mapping[Segment, int]
    windows: Sequence[Window] = ()
    is_to_end: bool = False
    held_ns: int = 0


@dataclass(frozen=True, slots=True)
class _Part:
    """What one lane has of a wait, in ns: until it was read and until it was handed over; blocked and late within the
    first, blocked within the second; and frozen before the stamp of the hand-over."""

    arrived: int = 0
    taken: int = 0
    blocked: int = 0
    late: int = 0
    within: int = 0
    frozen: int = 0


def gap_before(lineup: Lineup, j: int) -> Decomposition:
    """The wait that ended with the reader's event j, j >= 1."""
    gap = lineup.reader[j] - lineup.reader[j - 1]
    seen, until = _until(lineup, j)
    last = seen.last
    needed = [] if seen.by_ordinal else _needed(seen, until)
    parts, windows = [], []
    for n, lane in enumerate(seen.lanes):
        if seen.by_ordinal or lane is last:
            window = Window(j - 1, min(until, lane.count - 1))
        else:
            least, most = shift_of(lane, last)
            window = window_of(lane, last.low[j - 1] + least, needed[n] + most)
        at = _awaited_at(seen, lane, window, j, until)
        frozen = max((lane.frozen(i) for i in range(window.first + 1, window.last + 1)), default=0)
        parts.append(replace(_Part() if at is None else _before(lane, at), frozen=frozen))
        windows.append(_of_events(lineup.lanes[n], window))
    terms = _terms(lineup, parts, gap)
    return Decomposition(Wait.GAP, gap, j, terms, windows, is_to_end=seen is not lineup)


def first_event(lineup: Lineup) -> Decomposition:
    """The wait from the request to the first visible output; its gap is counted from the last tap's anchor.

    A hop that merges or collects sends its first event only when it has enough: the longest silence that a point had
    until the reader's first delivery was complete is added to that point's time.
    """
    lineup = _since_asked(lineup)
    seen, until = _until(lineup, 0)
    parts, windows = [], []
    held_ns = 0
    for n, lane in enumerate(seen.lanes):
        part = _Part(
            lane.arrived[0],
            lane.handed(0),
            lane.blocked_before[0],
            lane.lag_before[0],
            lane.blocked_within[0],
            lane.frozen(0),
        )
        at = _held_at(lane, seen, until)
        if at is not None:
            held = _before(lane, at)
            part = _Part(
                part.arrived + held.arrived,
                part.taken + held.taken,
                part.blocked + held.blocked,
                part.late + held.late,
                part.within + held.within,
                part.frozen,
            )
            held_ns = held_ns if n else held.arrived - held.blocked - held.late
        parts.append(part)
        windows.append(_of_events(lineup.lanes[n], Window(0, 0) if at is None else Window(at - 1, at)))
    reached = lineup.reader[0] + (parts[-1].taken - lineup.last.handed(0))
    terms = _terms(lineup, parts, reached)
    return Decomposition(Wait.FIRST_EVENT, reached, 0, terms, windows, is_to_end=seen is not lineup, held_ns=held_ns)


def end(lineup: Lineup) -> Decomposition | None:
    """The wait from the last visible output to the end of the response, None where a tap did not see a whole one."""
    if not lineup.ended:
        return None
    parts = [_before(lane, lane.count - 1) for lane in lineup.ended]
    closed = end_acknowledged(lineup.last)
    reached = parts[-1].taken if closed is None else closed - lineup.reader[-1]
    return Decomposition(Wait.END, reached, lineup.last.event_count, _terms(lineup, parts, reached), is_to_end=True)


def _terms(lineup: Lineup, parts: Sequence[_Part], gap_ns: int) -> dict[Segment, int]:
    """What each segment added; what no tap accounts for is the last one's.

    What was frozen between reading the awaited event and the stamp of its hand-over counts as handed over before.
    Where the next tap had it only afterwards, we froze before we wrote: then it is our own.
    """
    terms: dict[Segment, int] = {}
    before = _Part()
    carried = 0
    for n, part in enumerate(parts):
        added = part.arrived - before.taken + carried - part.blocked - part.late
        frozen = min(before.frozen, max(0, added)) if n else 0
        terms[lineup.before(n)] = added - frozen
        if frozen:
            terms[lineup.within(n - 1)] += frozen
        terms[lineup.within(n)] = part.taken - part.arrived - part.within + part.late
        before, carried = part, part.blocked + part.within
    last = lineup.outermost()
    terms[last] = terms.get(last, 0) + gap_ns - before.taken + carried
    return terms


def _before(lane: Lane, at: int) -> _Part:
    """The silence before an event of a lane."""
    return _Part(
        lane.arrived[at] - lane.arrived[at - 1],
        lane.silence(at),
        lane.blocked_before[at],
        lane.lag_before[at],
        lane.blocked_within[at] - lane.blocked_within[at - 1],
        lane.frozen(at),
    )


def _of_events(lane: Lane, window: Window) -> Window:
    """The window without the end of the answer."""
    return Window(min(window.first, lane.count - 1), min(window.last, lane.count - 1))


def _until(lineup: Lineup, j: int) -> tuple[Lineup, int]:
    """The last event that was waited for with event j; and the lineup, with the end of the answer as one more event
    where that is it."""
    whole = lineup.to_end()
    until = awaited(whole.lanes, j, by_ordinal=whole.by_ordinal, same=whole.same)
    return (whole if until >= lineup.last.count else lineup), until


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


def _since_asked(lineup: Lineup) -> Lineup:
    """The lineup without a reader's record that began after the reader asked: it shows nothing of the first wait.

    Whoever asks waits longer than whoever is asked, on any clock.
    """
    if not lineup.has_record or len(lineup.lanes) == 1:
        return lineup
    *taps, record = lineup.lanes
    if record.arrived[0] >= taps[-1].taken[0]:
        return lineup
    return replace(lineup, lanes=taps, ended=lineup.ended[:-1], reader=acknowledged(taps[-1]))


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
    last = min(last, bisect_right(lane.arrived, reader.arrived[0]) - 1, lane.delivery_count - 1)
    at = longest_silence(lane, Window(0, max(0, last)), wanted_ns=None)
    return None if at is None or lane.silence(at) <= HOLD_NS else at
