"""How fast a source sends: whether it slowed down in the middle of an answer, or is slower than in its other answers.

A source that is slow has no wait to name, and nobody can tell from outside whether it had a reason: a full batch makes
every answer slower. So what is found here is told beside a verdict and accuses nobody. Told it must be true all the
same: of pauses that are spread widely a few long ones look like a slower source. The pace is therefore the time per
event without the longest tenth of the pauses, a change is one that chance does not make, and both are large.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

from otel.align import overlap
from otel.hop import OUTPUT, WEBSOCKET, Hop, State
from otel.rhythm import BURST_GAP_NS, P90

BURSTS: Final = 20
"""Fewer show no pace: of twenty pauses that vary as much as they last, the mean is right to a fourth."""
SLOWER: Final = 2.0
"""How many times the pace must be: a healthy source's differ by less from one half of an answer to the other."""
ADDED_NS: Final = 1_000_000_000
"""What a slower pace must have cost the reader in all."""
CHANCE: Final = 6.0
"""How many standard errors apart two paces of one answer are: there are hundreds of places at which one may change."""
PLACES: Final = 200
"""At so many places of an answer a change is looked for: an answer may have tens of thousands of events."""
STEPS: Final = 8
"""Text of fewer steps of positions is too little to measure."""
HELD_SHARE: Final = 0.02
"""A source whose tap was blocked or late for more than this share of the answer may have been held by us."""


@dataclass(frozen=True, slots=True)
class Slowed:
    """The place in an answer from which on its source was slower, and the time per event before and from there."""

    at_seq: int
    at_position: int
    before_ns: int
    after_ns: int


@dataclass(frozen=True, slots=True)
class Tempo:
    """The time per event of a source in one answer. usual_ns: in its others, None where they are too few.

    is_slow: it was much slower than usual.
    """

    pace_ns: int
    usual_ns: int | None = None
    is_slow: bool = False
    slowed: Slowed | None = None


@dataclass(frozen=True, slots=True)
class _Burst:
    """Events that came at once, and the pause before them. first: the stamp that began it."""

    first: int
    pause_ns: int
    count: int


def tempo_of(source: Hop, *, usual_ns: int | None = None) -> Tempo | None:
    """The tempo of the answer that this hop, the one next to the source, recorded; None where it shows none."""
    if not _shows(source):
        return None
    bursts = _bursts(source)
    if len(bursts) < BURSTS:
        return None
    pace_ns = _pace(bursts)
    events = sum(burst.count for burst in bursts)
    is_slow = usual_ns is not None and pace_ns >= SLOWER * usual_ns and (pace_ns - usual_ns) * events >= ADDED_NS
    return Tempo(round(pace_ns), usual_ns, is_slow, _slowed(source, bursts))


def _shows(source: Hop) -> bool:
    """Whether nobody but the source made the times, and all of them are there."""
    timeline, exchange = source.timeline, source.exchange
    if timeline.is_thinned or timeline.is_cut_short or source.state is State.OPEN:
        return False
    if not exchange.is_stream or exchange.framing == WEBSOCKET or not timeline.stamps:
        return False
    start, stop = timeline.stamps[0].arrived_ns, timeline.stamps[-1].arrived_ns
    blocked = sum(max(0, min(stop, b.end_ns) - max(start, b.start_ns)) for b in timeline.blocked)
    return blocked + overlap(start, stop, timeline.lag) <= HELD_SHARE * (stop - start)


def _bursts(source: Hop) -> list[_Burst]:
    """All that a model made counts, shown or not. What came first waited for the prompt and not for a pace."""
    stamps = [(i, s.arrived_ns) for i, s in enumerate(source.timeline.stamps) if s.event_class in OUTPUT]
    bursts: list[_Burst] = []
    for (_, before), (i, at) in pairwise(stamps):
        if at - before >= BURST_GAP_NS:
            bursts.append(_Burst(i, at - before, 1))
        elif bursts:
            last = bursts[-1]
            bursts[-1] = _Burst(last.first, last.pause_ns, last.count + 1)
    return bursts


def _pace(bursts: Sequence[_Burst]) -> float:
    """Time per event in ns, without the longest tenth of the pauses: a stall or two is no pace."""
    kept = sorted(bursts, key=lambda burst: burst.pause_ns)[: math.ceil(P90 * len(bursts))]
    return sum(burst.pause_ns for burst in kept) / sum(burst.count for burst in kept)


def _slowed(source: Hop, bursts: Sequence[_Burst]) -> Slowed | None:
    at = _changed_at(bursts)
    if at is None:
        return None
    before, after = _pace(bursts[:at]), _pace(bursts[at:])
    events = sum(burst.count for burst in bursts[at:])
    if after < SLOWER * before or (after - before) * events < ADDED_NS or _is_larger(source, bursts, at):
        return None
    stamps = source.timeline.stamps
    first = bursts[at].first
    return Slowed(stamps[first].seq, stamps[first - 1].position, round(before), round(after))


def _changed_at(bursts: Sequence[_Burst]) -> int | None:
    """The burst from which on the source was slower, as far from chance as anywhere; None where chance explains it."""
    sums = [tuple(accumulate(column, initial=0.0)) for column in zip(*map(_powers, bursts), strict=True)]
    count = len(bursts)
    best, found = CHANCE, None
    for at in range(BURSTS, count - BURSTS + 1, max(1, count // PLACES)):
        (before, error), (after, other) = _estimate(sums, 0, at), _estimate(sums, at, count)
        apart = (after - before) / max(1.0, math.hypot(error, other))
        if apart >= best:
            best, found = apart, at
    return found


def _powers(burst: _Burst) -> tuple[float, ...]:
    pause, count = float(burst.pause_ns), float(burst.count)
    return pause, count, pause * pause, pause * count, count * count


def _estimate(sums: Sequence[Sequence[float]], first: int, stop: int) -> tuple[float, float]:
    """Time per event over some bursts, and its standard error: that of a ratio of two sums."""
    pause, count, pause_2, both, count_2 = (column[stop] - column[first] for column in sums)
    pace = pause / count
    spread = max(0.0, pause_2 - 2 * pace * both + pace * pace * count_2)
    return pace, math.sqrt(spread) / count


def _is_larger(source: Hop, bursts: Sequence[_Burst], at: int) -> bool:
    """Whether events came more seldom because each brought more text: then the text was no slower."""
    stamps = source.timeline.stamps
    ends = (bursts[0].first - 1, bursts[at].first - 1, len(stamps) - 1)
    chars = [stamps[b].position - stamps[a].position for a, b in pairwise(ends)]
    took = [stamps[b].arrived_ns - stamps[a].arrived_ns for a, b in pairwise(ends)]
    if min(chars) < source.timeline.quantum * STEPS:
        return False  # too little of it was visible
    return took[1] / chars[1] < SLOWER * took[0] / chars[0]
