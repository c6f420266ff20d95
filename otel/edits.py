"""Text that a hop edited: whether event k is still event k, and how far the same text may stand apart at two taps.

Hops mask names, put a sentence in front, take thoughts out. What lies behind an edit stands elsewhere in the visible
output than before it. One shift explains all positions between two edits; where events were neither merged nor split
this finds every edit, else the difference of the whole texts bounds the shift.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from otel.align import Lane, Window, window_of

EDITS: Final = 3
EVENTS_PER_EDIT: Final = 24
"""More edits of the text than both of these are none: the events are others, or positions drift apart."""
HOLD_NS: Final = 250_000_000
"""Silences from here on are worth a verdict."""
REACH_CHARS: Final = 64
REACH_EVENTS: Final = 1_000
"""On each side: many events may stand at one place of the text, each without any."""
ALIKE_SHARE: Final = 0.1
"""A silence so near to a window, and so near in length to the wait, is not there by chance."""
ALIKE: Final = 8
"""Of such silences, the most alike, that are asked whether the reader waited for them elsewhere."""
DRIFT_SHARE: Final = 0.25
"""Of the whole text: as much, edits move the positions of two hops against each other at most."""


def are_same_events(lanes: Sequence[Lane]) -> bool:
    """Whether event k is event k in all lanes: equal counts are trusted only where positions agree as well, but for a
    few edits, since a hop that merges and one that splits can meet by accident."""
    first, *rest = lanes
    return all(
        lane.event_count == first.event_count
        and lane.is_pending == first.is_pending
        and (edits := edits_between(first, lane)) is not None
        and len(edits) <= max(EDITS, first.event_count // EVENTS_PER_EDIT)
        for lane in rest
    )


def edits_between(lane: Lane, other: Lane) -> list[int] | None:
    """Events at which the other lane, of as many events, begins to have more or less text than before.

    Between two edits one shift explains all positions. None where the texts drift too far apart to be edits of one.
    """
    count = min(lane.event_count, other.event_count)
    limit = max(lane.total[1], other.total[1]) * DRIFT_SHARE
    least, most, edits = 0, 0, list[int]()
    for i in range(count):
        low, high = other.low[i] - lane.high[i], other.high[i] - lane.low[i]
        if low > limit or high < -limit:
            return None
        if high < least or low > most:
            edits.append(i)
            least, most = low, high
        elif edits:
            least, most = max(least, low), min(most, high)
    return edits


def edited_from(lane: Lane, other: Lane) -> int | None:
    """The first event at which the text of the other lane, of as many events, is another; None where it never is."""
    edits = edits_between(lane, other)
    return edits[0] if edits else None


def shift_of(lane: Lane, reader: Lane) -> tuple[int, int]:
    """By how much at least and at most the same text may stand further on in a lane than in the reader's.

    What hops add or take away lies anywhere between the beginning, where both are at 0, and the end, where the
    difference is known. (0, 0) where they agree, and where one of them has not seen the end.
    """
    if lane.is_pending or reader.is_pending:
        return 0, 0
    (low, high), (reader_low, reader_high) = lane.total, reader.total
    return (low - reader_high if high < reader_low else 0), (high - reader_low if low > reader_high else 0)


def silence_beside(lane: Lane, window: Window, *, reader: Lane, waited: Window, wanted_ns: int) -> int | None:
    """The event that ended a silence as long as the reader's wait right beside the window, None where there is none.

    Edits that cancel out, or are smaller than the quantum, move the text unseen. A silence that is worth a verdict
    and as long as the wait is that wait, though it seems to lie a few words off; but not where the reader waited for
    it at its own place. waited: the events of the reader between which it waited.
    """
    if wanted_ns < HOLD_NS or not lane.count:
        return None
    around = window_of(lane, lane.low[window.first] - REACH_CHARS, lane.high[window.last] + REACH_CHARS)
    first = max(around.first, window.first - REACH_EVENTS)
    last = min(around.last, window.last + REACH_EVENTS, lane.event_count - 1)
    alike = [
        (abs(lane.silence(i) - wanted_ns), i)
        for i in range(first + 1, last + 1)
        if lane.is_whole[i] and abs(lane.silence(i) - wanted_ns) <= wanted_ns * ALIKE_SHARE
    ]
    return next((i for _, i in sorted(alike)[:ALIKE] if not _was_waited_for(lane, i, reader, waited)), None)


def _was_waited_for(lane: Lane, i: int, reader: Lane, waited: Window) -> bool:
    """Whether the reader had a wait of its own, other than this one, where it would have it for the lane's event i."""
    own = window_of(reader, lane.low[i - 1], lane.high[i])
    last = min(own.last, own.first + REACH_EVENTS)
    whole = range(max(1, own.first), last + 1)  # merged, both sides of the silence may be in one event
    others = (k for k in whole if not waited.first < k <= waited.last)
    return any(reader.silence(k) >= lane.silence(i) / 2 for k in others)
