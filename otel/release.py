"""What a delivery waited for: all of its text, as behind a hop that collects, or the first of it, as behind a stall.

Events that come in one piece after a wait were held somewhere. A hop that collects (a moderation window, a buffer of
4 KB) lets go when it has enough: then it waited for the last of them, and a silence of the source among them is the
source's. A hop that stood still lets go when it wakes: what the source did meanwhile made nobody wait, and only the
first of them was waited for. Two traces tell: a hop that collects lets go when something comes in, and it does so all
along, so that the delivery before or after is of the same kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from otel.align import SHADOW_NS, STEP_NS, Lane, Window, window_of
from otel.edits import shift_of

TOGETHER_NS: Final = 1_000_000
"""Events that follow each other within this time came in one piece: one read takes no more than 16 KB."""
SPREAD_NS: Final = 20_000_000
"""What came in within so short a time was held by nobody."""
HELD_NS: Final = 10_000_000
"""From here on what a hop let go in one piece had lain there."""
NEIGHBOURS: Final = 200
"""Events or deliveries on both sides that show how fast a hop is when it holds nothing: over more its clocks drift."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A delivery of which a hop held the first for held_ns: events `first` to `last` of the lane behind the hop."""

    held_ns: int
    first: int
    last: int


def holds(lanes: Sequence[Lane], n: int, *, by_ordinal: bool) -> list[Hold]:
    """What the hop before lane n, n >= 1, let go in one piece though it had not come in one, in order; and what it held
    until the end of the answer. What lay waiting for our own tap is not the hop's."""
    inner, outer = lanes[n - 1], lanes[n]
    pieces, late = [], []
    first = 0
    while first < outer.event_count:
        last = together(outer, first)
        part = _part(inner, outer, first, last, by_ordinal=by_ordinal)
        pieces.append((part, first, last))
        late.append(outer.arrived[last] - inner.taken[part.last])
        first = last + 1
    least = [min(late[i : i + NEIGHBOURS]) for i in range(0, len(late), NEIGHBOURS)]
    found = []
    for i, (part, first, last) in enumerate(pieces):
        near = i // NEIGHBOURS
        usual = min(least[max(0, near - 1) : near + 2])
        held_ns = outer.arrived[first] - inner.taken[part.first] - usual
        is_ours = outer.blocked_before[first] > STEP_NS or outer.lag_before[first] > STEP_NS
        is_piece = part.last > part.first or last + 1 == outer.event_count
        if held_ns >= HELD_NS and is_piece and not is_ours:
            found.append(Hold(held_ns, first, last))
    return found


def together(lane: Lane, j: int) -> int:
    """The last of the events that came in one piece with event j."""
    while j + 1 < lane.event_count and lane.arrived[j + 1] - lane.arrived[j] <= TOGETHER_NS:
        j += 1
    return j


def awaited(lanes: Sequence[Lane], j: int, *, by_ordinal: bool) -> int:
    """The last event, at the lane nearest the reader, that had to be there for the delivery that begins with event j.

    lanes: source first, lined up by number where by_ordinal, else by position.
    """
    last = together(lanes[-1], j)
    if last == j or len(lanes) == 1:
        return last
    parts = [_part(lane, lanes[-1], j, last, by_ordinal=by_ordinal) for lane in lanes]
    gathered = [_spread(inner, a) - _spread(outer, b) for inner, outer, a, b in _pairs(lanes, parts)]
    n = max(range(len(gathered)), key=gathered.__getitem__)
    if gathered[n] < SPREAD_NS:
        return last
    inner, outer = lanes[n], lanes[n + 1]
    part = parts[n]
    if by_ordinal and not _came_when_let_go(inner, outer, part):
        return j
    return last if _is_habit(inner, outer, part, parts[n + 1], by_ordinal=by_ordinal) else j


def _pairs(lanes: Sequence[Lane], parts: Sequence[Window]) -> list[tuple[Lane, Lane, Window, Window]]:
    return list(zip(lanes, lanes[1:], parts, parts[1:], strict=False))


def _part(lane: Lane, reader: Lane, first: int, last: int, *, by_ordinal: bool) -> Window:
    """The events of a lane that carried the text of the reader's events first to last."""
    if by_ordinal:
        return Window(min(first, lane.count - 1), min(last, lane.count - 1))
    least, most = shift_of(lane, reader)
    window = window_of(lane, reader.low[first - 1] + least if first else 0, reader.high[last] + most)
    begin = window.first if first == 0 and lane.low[window.first] > 0 else window.first + 1
    return Window(min(begin, window.last), window.last)


def _spread(lane: Lane, part: Window) -> int:
    return lane.taken[part.last] - lane.taken[part.first]


def _came_when_let_go(inner: Lane, outer: Lane, part: Window) -> bool:
    """Whether an event came in when the hop between the lanes let go: the last of the part, or one of which a piece
    went with it."""
    near = range(max(0, part.first - NEIGHBOURS), min(part.last + NEIGHBOURS, inner.event_count, outer.event_count))
    usual = min(outer.arrived[k] - inner.taken[k] for k in near) if near else 0
    let_go = outer.arrived[part.last] - usual
    return any(abs(let_go - inner.taken[k]) <= SHADOW_NS for k in (part.last, part.last + 1) if k < inner.count)


def _is_habit(inner: Lane, outer: Lane, held: Window, passed: Window, *, by_ordinal: bool) -> bool:
    """Whether the delivery before or after this one was collected as well, or there is none: at least half as many
    events, or the rest of the answer, which came in over a quarter of the time at least, longest silences aside."""
    beside = []
    if passed.first > 0:
        begin = passed.first - 1
        while begin > 0 and outer.arrived[begin] - outer.arrived[begin - 1] <= TOGETHER_NS:
            begin -= 1
        beside.append((begin, passed.first - 1))
    if passed.last + 1 < outer.event_count:
        beside.append((passed.last + 1, together(outer, passed.last + 1)))
    count, steady_ns = passed.last - passed.first + 1, _spread(inner, held) - _longest(inner, held)
    return not beside or any(
        (2 * (last - first + 1) >= count or last == outer.event_count - 1)
        and _spread(inner, _part(inner, outer, first, last, by_ordinal=by_ordinal)) >= max(SPREAD_NS, steady_ns // 4)
        for first, last in beside
    )


def _longest(lane: Lane, part: Window) -> int:
    return max((lane.silence(i) for i in range(part.first + 1, part.last + 1) if lane.is_whole[i]), default=0)
