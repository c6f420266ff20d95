"""What a delivery waited for: all of its text, as behind a hop that collects, or the first of it, as behind a stall.

Events that come in one piece after a wait were held somewhere. A hop that collects (a moderation window, a buffer of
4 KB) lets go when it has enough: then it waited for the last of them, and a silence of the source among them is the
source's. A hop that stood still lets go when it wakes: what the source did meanwhile made nobody wait, and only the
first of them was waited for. Two traces tell: a hop that collects lets go when something comes in, and it does so all
along, so that the delivery before or after is of the same kind; or it lets go right behind a silence so long that this
is no chance.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from otel.align import STEP_NS, Lane, Window, window_of
from otel.edits import shift_of
from otel.stretches import SHADOW_NS, STAMP_NS

TOGETHER_NS: Final = 1_000_000
"""Events that follow each other within this time came in one piece: one read takes no more than 16 KB."""
SPREAD_NS: Final = 20_000_000
"""What came in within so short a time was held by nobody."""
REST_NS: Final = 150_000_000
"""What came over so long a time and left in one piece with the end was gathered, however long the pieces before it."""
NO_CHANCE_NS: Final = 20 * SHADOW_NS
"""A stall that ends at no certain time ends right behind a silence of so long in one of twenty such cases."""
HELD_NS: Final = 10_000_000
"""From here on what a hop let go in one piece had lain there."""
ROUND_TRIPS: Final = 3
"""In so many a link carries 100 KB at the least, however carefully it begins."""
NEIGHBOURS: Final = 200
"""Events or deliveries on both sides that show how fast a hop is when it holds nothing: over more its clocks drift."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A release: of what share of the answer's text (or events, where it has none), whose first a hop held for held_ns.

    is_rest: it is the end of the answer.
    """

    held_ns: int
    share: float
    is_rest: bool = False


def holds(inner: Lane, outer: Lane, *, is_same: bool) -> list[Hold]:
    """What the hop between two neighbouring lanes let go in one piece though it had not come in one, in order; and what
    it held until the end of the answer. What lay waiting for our own tap is not the hop's.

    is_same: event k is event k at both lanes.
    """
    pieces, late = [], []
    first = 0
    while first < outer.event_count:
        last = together(outer, first)
        if (came := _came(inner, outer, first, last, is_same=is_same)) is not None:
            pieces.append((came, first, last))
            late.append(outer.arrived[last] - inner.taken[came.last])
        first = last + 1
    least = [min(late[i : i + NEIGHBOURS]) for i in range(0, len(late), NEIGHBOURS)]
    found: list[Hold] = []
    let_go_ns = None
    for i, (came, first, last) in enumerate(pieces):
        near = i // NEIGHBOURS
        usual = min(least[max(0, near - 1) : near + 2])
        is_rest = last + 1 == outer.event_count
        ready_ns = inner.taken[came.first] + usual
        if let_go_ns is not None and ready_ns < let_go_ns - SHADOW_NS:
            if found:  # it lay there when the hop let go, and is of the same release
                found[-1] = Hold(found[-1].held_ns, found[-1].share + _share(outer, first, last), is_rest=is_rest)
            continue
        let_go_ns = outer.arrived[first]
        is_ours = outer.blocked_before[first] > STEP_NS or outer.lag_before[first] > STEP_NS
        if let_go_ns - ready_ns >= HELD_NS and (came.last > came.first or is_rest) and not is_ours:
            found.append(Hold(let_go_ns - ready_ns, _share(outer, first, last), is_rest=is_rest))
    return found


def _share(lane: Lane, first: int, last: int) -> float:
    if not (total := lane.low[lane.event_count - 1]):
        return (last - first + 1) / lane.event_count
    return (lane.low[last] - (lane.low[first - 1] if first else 0)) / total


def together(lane: Lane, j: int) -> int:
    """The last of the events that came in one piece with event j."""
    while j + 1 < lane.event_count and lane.arrived[j + 1] - lane.arrived[j] <= TOGETHER_NS:
        j += 1
    return j


def awaited(lanes: Sequence[Lane], j: int, *, by_ordinal: bool, same: Sequence[bool]) -> int:
    """The last event, at the lane nearest the reader, that had to be there for the delivery that begins with event j.

    lanes: source first, lined up by number where by_ordinal, else by position. same: for each two neighbours, whether
    event k is event k at both.
    """
    last = _piece(lanes, j, same=same)
    if last == j or len(lanes) == 1:
        return last
    parts = [_part(lane, lanes[-1], j, last, by_ordinal=by_ordinal) for lane in lanes]
    spreads = [_spread(lane, part) for lane, part in zip(lanes, parts, strict=True)]
    gathered = [before - behind for before, behind in pairwise(spreads)]
    n = max(range(len(gathered)), key=gathered.__getitem__)
    if gathered[n] < SPREAD_NS:
        return last
    inner, outer, piece, is_same = lanes[n], lanes[n + 1], parts[n + 1], same[n]
    held = _came(inner, outer, piece.first, piece.last, is_same=is_same)
    if held is None or (is_same and not _came_when_let_go(inner, outer, held)):
        return j
    is_habit = _is_habit(inner, outer, held, piece, is_same=is_same)
    return last if is_habit or (is_same and _ended_a_silence(inner, outer, held)) else j


def _piece(lanes: Sequence[Lane], j: int, *, same: Sequence[bool]) -> int:
    """The last of the events that came in one piece with event j, at the last lane or at one before it that saw the
    same ones: a large piece takes some round trips of a link, and is one for all that. The end of the answer is the
    last of them where it came right behind."""
    outer = lanes[-1]
    last = together(outer, j)
    took_ns = SHADOW_NS
    for n in range(len(lanes) - 2, 0, -1):
        if not same[n]:
            break
        took_ns += ROUND_TRIPS * (lanes[n].hop.timeline.round_trip_ns or 0)
        more = together(lanes[n], j)
        if more > last and outer.arrived[more] - outer.arrived[j] <= took_ns:
            last = more
    is_last_text = outer.is_ended and last == outer.event_count - 1
    return last + 1 if is_last_text and outer.arrived[-1] - outer.arrived[last] <= SHADOW_NS else last


def _part(lane: Lane, reader: Lane, first: int, last: int, *, by_ordinal: bool) -> Window:
    """The events of a lane that carried the text of the reader's events first to last, and perhaps some before."""
    if by_ordinal or lane is reader:
        return Window(min(first, lane.count - 1), min(last, lane.count - 1))
    least, most = shift_of(lane, reader)
    window = window_of(lane, reader.low[first - 1] + least if first else 0, reader.high[last] + most)
    begin = window.first if first == 0 and lane.low[window.first] > 0 else window.first + 1
    return Window(min(begin, window.last), window.last)


def _came(inner: Lane, outer: Lane, first: int, last: int, *, is_same: bool) -> Window | None:
    """The events of the inner lane that are known to have left with the outer one's first to last; None for none."""
    if is_same:
        return Window(min(first, inner.count - 1), min(last, inner.count - 1))
    least, most = shift_of(inner, outer)
    begin = bisect_right(inner.low, outer.high[first - 1] + most) if first else 0
    end = min(bisect_right(inner.high, outer.low[last] + least), inner.event_count) - 1
    return Window(begin, end) if begin <= end else None


def _spread(lane: Lane, part: Window) -> int:
    return lane.taken[part.last] - lane.taken[part.first]


def _usual(inner: Lane, outer: Lane, part: Window) -> int:
    """What lies between the stamps of two lanes where the hop between them holds nothing, near that part."""
    near = range(
        max(0, part.first - NEIGHBOURS), min(part.last + NEIGHBOURS, inner.delivery_count, outer.delivery_count)
    )
    return min((outer.arrived[k] - inner.taken[k] for k in near), default=0)


def _came_when_let_go(inner: Lane, outer: Lane, part: Window) -> bool:
    """Whether an event came in when the hop between the lanes let go: the last of the part, or one of which a piece
    went with it."""
    let_go = outer.arrived[part.last] - _usual(inner, outer, part)
    return any(abs(let_go - inner.taken[k]) <= SHADOW_NS for k in (part.last, part.last + 1) if k < inner.count)


def _ended_a_silence(inner: Lane, outer: Lane, part: Window) -> bool:
    """Whether the hop let go right behind the end of a silence before it, so long that this is no chance; what it had
    itself made wait is none."""
    let_go = outer.arrived[part.first] - _usual(inner, outer, part)
    return any(
        -STAMP_NS <= let_go - inner.taken[k] <= SHADOW_NS
        and inner.arrived[k] - inner.arrived[k - 1] - inner.blocked_before[k] - inner.lag_before[k] >= NO_CHANCE_NS
        for k in range(part.last, part.first, -1)
        if inner.is_whole[k]
    )


def _is_habit(inner: Lane, outer: Lane, held: Window, piece: Window, *, is_same: bool) -> bool:
    """Whether the delivery before or after this one was gathered as well, or there is none: at least half as many
    events as had lain there, or the rest of the answer where that took a quarter of the time, or long enough.

    A source that stopped may make up for it at once: what came and went right behind the piece shows nothing.
    """
    beside = []
    if piece.first > 0:
        begin = piece.first - 1
        while begin > 0 and outer.arrived[begin] - outer.arrived[begin - 1] <= TOGETHER_NS:
            begin -= 1
        beside.append(Window(begin, piece.first - 1))
    after = bisect_right(outer.arrived, outer.arrived[piece.last] + SHADOW_NS, hi=outer.event_count)
    if after < outer.event_count:
        beside.append(Window(after, together(outer, after)))
    lain = _lain(inner, held)
    share = (lain.last - lain.first + 1) / (held.last - held.first + 1)
    count = share * (piece.last - piece.first + 1)
    rest_ns = max(SPREAD_NS, min(REST_NS, (_spread(inner, lain) - _longest(inner, lain)) // 4))
    for near in beside:
        is_as_much = 2 * (near.last - near.first + 1) >= count
        came = _came(inner, outer, near.first, near.last, is_same=is_same)
        if came is None or not (is_as_much or near.last == outer.event_count - 1):
            continue
        if _spread(inner, came) - _spread(outer, near) >= (SPREAD_NS if is_as_much else rest_ns):
            return True
    return not beside


def _lain(lane: Lane, part: Window) -> Window:
    """The events of a part that had lain somewhere when the last of it came; the first of it always."""
    first, last = part.first, part.last
    while last > first and lane.taken[part.last] - lane.taken[last] <= SPREAD_NS:
        last -= 1
    return Window(first, last)


def _longest(lane: Lane, part: Window) -> int:
    return max((lane.silence(i) for i in range(part.first + 1, part.last + 1) if lane.is_whole[i]), default=0)
