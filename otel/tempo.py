"""How fast a source sends: whether it slowed down in the middle of an answer, or is slower than in its other answers.

A source that is slow has no wait to name, and nobody can tell from outside whether it had a reason: a full batch makes
every answer slower. So what is found here is told beside a verdict and accuses nobody. Told it must be true all the
same: of pauses that are spread widely a few long ones look like a slower source. The pace is therefore the time per
event without the longest quarter of the pauses, a change is one that chance does not make, and both are large.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

from otel.hop import OUTPUT, WEBSOCKET, Hop, State
from otel.rhythm import BURST_GAP_NS
from otel.stretches import stretches_of

BURSTS: Final = 20
"""Fewer show no pace: of twenty pauses that vary as much as they last, the mean is right to a fourth."""
KEPT_SHARE: Final = 0.75
"""Of the pauses, the shortest, that make a pace: where another request's prompt interrupts, one in ten may be long."""
LONG: Final = 4
"""Pauses longer than so many times the longest of these count as that long where a change is looked for."""
SLOWER: Final = 2.0
"""How many times the pace must be: a healthy source's differ by less from one half of an answer to the other."""
ADDED_NS: Final = 1_000_000_000
"""What a slower pace must have cost the reader in all."""
CHANCE: Final = 4.0
"""By how many standard deviations a source must have come further before the change than one that keeps its pace comes
by chance: an answer has hundreds of places at which a pace may change."""
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
class _Bursts:
    """Events that came at once, burst by burst: which stamp began it, the pause before it, how many events it had."""

    first: list[int]
    pause_ns: list[int]
    size: list[int]

    @property
    def count(self) -> int:
        return len(self.first)


def tempo_of(source: Hop, *, usual_ns: int | None = None) -> Tempo | None:
    """The tempo of the answer that this hop, the one next to the source, recorded; None where it shows none."""
    if not _shows(source):
        return None
    bursts = _bursts(source)
    if bursts.count < BURSTS:
        return None
    pace_ns = _pace(bursts, 0, bursts.count)
    added_ns = 0.0 if usual_ns is None else (pace_ns - usual_ns) * sum(bursts.size)
    is_slow = usual_ns is not None and pace_ns >= SLOWER * usual_ns and added_ns >= ADDED_NS
    return Tempo(round(pace_ns), usual_ns, is_slow, _slowed(source, bursts))


def _shows(source: Hop) -> bool:
    """Whether nobody but the source made the times, and all of them are there."""
    timeline, exchange = source.timeline, source.exchange
    if timeline.is_thinned or timeline.is_cut_short or source.state is State.OPEN:
        return False
    if not exchange.is_stream or exchange.framing == WEBSOCKET or not timeline.stamps:
        return False
    start, stop = timeline.stamps[0].arrived_ns, timeline.stamps[-1].arrived_ns
    held = sum(stretches_of(each).covered(start, stop) for each in (timeline.blocked, timeline.lag))
    return held <= HELD_SHARE * (stop - start)


def _bursts(source: Hop) -> _Bursts:
    """All that a model made counts, shown or not. What came first waited for the prompt and not for a pace."""
    bursts = _Bursts([], [], [])
    before: int | None = None
    for i, stamp in enumerate(source.timeline.stamps):
        if stamp.event_class not in OUTPUT:
            continue
        at = stamp.arrived_ns
        if before is not None and at - before >= BURST_GAP_NS:
            bursts.first.append(i)
            bursts.pause_ns.append(at - before)
            bursts.size.append(1)
        elif bursts.size:
            bursts.size[-1] += 1
        before = at
    return bursts


def _pace(bursts: _Bursts, start: int, stop: int) -> float:
    """Time per event in ns, without the longest quarter of the pauses: a few stalls are no pace."""
    ordered = sorted(range(start, stop), key=bursts.pause_ns.__getitem__)
    kept = ordered[: math.ceil(KEPT_SHARE * len(ordered))]
    return sum(bursts.pause_ns[i] for i in kept) / sum(bursts.size[i] for i in kept)


def _slowed(source: Hop, bursts: _Bursts) -> Slowed | None:
    at = _changed_at(bursts)
    if at is None:
        return None
    before, after = _pace(bursts, 0, at), _pace(bursts, at, bursts.count)
    added_ns = (after - before) * sum(bursts.size[at:])
    if added_ns < ADDED_NS or after < SLOWER * before * _growth(source, bursts, at):
        return None
    stamps = source.timeline.stamps
    first = bursts.first[at]
    return Slowed(stamps[first].seq, stamps[first - 1].position, round(before), round(after))


def _changed_at(bursts: _Bursts) -> int | None:
    """The burst from which on the source was slower, as far from chance as anywhere; None where chance explains it."""
    count = bursts.count
    longest_ns = LONG * sorted(bursts.pause_ns)[int(KEPT_SHARE * (count - 1))]
    pauses_ns = [min(ns, longest_ns) for ns in bursts.pause_ns]
    pace = sum(pauses_ns) / sum(bursts.size)
    ahead = [pace * size - ns for ns, size in zip(pauses_ns, bursts.size, strict=True)]
    spread = sum(ns * ns for ns in ahead) / count
    in_all = list(accumulate(ahead, initial=0.0))
    best, found = CHANCE, None
    for at in range(BURSTS, count - BURSTS + 1, max(1, count // PLACES)):
        apart = in_all[at] / math.sqrt(max(1.0, spread * at * (count - at) / count))
        if apart >= best:
            best, found = apart, at
    return found


def _growth(source: Hop, bursts: _Bursts, at: int) -> float:
    """How many times as much visible text an event brought from this burst on, at least 1. Events that come more seldom
    because each brings more are no slower; 1 too where too little was visible to measure."""
    stamps = source.timeline.stamps
    ends = (bursts.first[0] - 1, bursts.first[at] - 1, len(stamps) - 1)
    before, after = (stamps[b].position - stamps[a].position for a, b in pairwise(ends))
    if min(before, after) < source.timeline.quantum * STEPS:
        return 1.0
    return max(1.0, (after / sum(bursts.size[at:])) / (before / sum(bursts.size[:at])))
