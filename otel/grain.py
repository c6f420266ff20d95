"""How much of a timeline may leave: times and positions rounded, and events beside no gap left out when it is too long.

Sizes and times of single events tell which words they were, so only a few positions are kept as they are. Gaps are
what verdicts are about: from NOISE_NS on they survive everything here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from otel.hop import OUTPUT, EventClass, Interval, Stamp, Timeline

UNIT_NS: Final = 100_000
"""Default unit, 0.1 ms: finer times of single events would tell which tokens they were."""
EXACT_UNIT_NS: Final = 1_000
QUANTUM: Final = 32
"""Default step of positions in characters, for the same reason."""
NOISE_NS: Final = 250_000_000
"""Gaps from here on can matter to a verdict: thinning keeps the events beside them."""
EXACT_POSITIONS: Final = 32
"""Positions kept exact at most, before the longest gaps: enough for any verdict, too few to read a text from."""
LEFT_OUT: Final = Timeline(unit_ns=UNIT_NS, quantum=QUANTUM, is_thinned=True, is_evidence_thinned=True)
"""What is known where a whole timeline had to be left out."""

_OUTPUT: Final = OUTPUT | {EventClass.OPAQUE}


def quantised(timeline: Timeline, *, unit_ns: int = UNIT_NS, quantum: int = QUANTUM, is_open: bool = False) -> Timeline:
    """Round every time down to unit_ns and every position down to quantum, as they are kept.

    Rounding is of offsets from the anchor and of running sums, so errors never add up. A position stays exact at the
    output event before a gap of at least NOISE_NS that is longer than the gaps beside it, for the EXACT_POSITIONS
    longest of these. So no two successive outputs are exact, nor is the first one, and no length of one can be told;
    is_open: the record is a segment, whose last gap may have a longer neighbour that is in the next one.
    """

    def floor(ns: int) -> int:
        return ns // unit_ns * unit_ns

    arrived = [floor(stamp.arrived_ns) for stamp in timeline.stamps]
    exact = _before_long_gaps(timeline.stamps, arrived, is_open=is_open) if len(arrived) > 2 else frozenset[int]()
    rounded = tuple(
        Stamp(
            seq=s.seq,
            arrived_ns=arrived_ns,
            taken_ns=None if s.taken_ns is None else floor(s.taken_ns),
            event_class=s.event_class,
            position=s.position if quantum == 1 or i in exact else s.position // quantum * quantum,
            is_exact=quantum == 1 or i in exact,
        )
        for i, (s, arrived_ns) in enumerate(zip(timeline.stamps, arrived, strict=True))
    )
    return Timeline(
        unit_ns=unit_ns,
        quantum=quantum,
        stamps=rounded,
        blocked=tuple(replace(b, start_ns=floor(b.start_ns), end_ns=floor(b.end_ns)) for b in timeline.blocked),
        lag=tuple(Interval(floor(i.start_ns), floor(i.end_ns)) for i in timeline.lag),
        samples=tuple(replace(s, offset_ns=floor(s.offset_ns)) for s in timeline.samples),
        window_peak_bytes=timeline.window_peak_bytes,
        round_trip_ns=timeline.round_trip_ns,
        is_thinned=timeline.is_thinned,
        is_cut_short=timeline.is_cut_short,
        is_evidence_thinned=timeline.is_evidence_thinned,
    )


def thinned(timeline: Timeline) -> Timeline:
    """Leave out the events beside no gap of at least NOISE_NS; the first, the last and every one taken late stay.

    What is left keeps its sequence numbers, positions and times, and the timeline says that it is thinned. Gaps are
    those between any two events and those between two with output, whatever else came in between.
    """
    stamps = timeline.stamps
    kept = {0, len(stamps) - 1}
    if timeline.is_cut_short:
        kept.add(len(stamps) - 2)  # so that it shows where the hole begins
    kept |= {i for i, s in enumerate(stamps) if s.taken_ns is None or s.taken_ns - s.arrived_ns >= NOISE_NS}
    for before, after in (*pairwise(range(len(stamps))), *pairwise(_outputs(stamps))):
        if stamps[after].arrived_ns - stamps[before].arrived_ns >= NOISE_NS:
            kept |= {before, after}
    return replace(timeline, stamps=tuple(s for i, s in enumerate(stamps) if i in kept), is_thinned=True)


def _outputs(stamps: Sequence[Stamp]) -> Iterator[int]:
    return (i for i, stamp in enumerate(stamps) if stamp.event_class in _OUTPUT)


def _before_long_gaps(stamps: Sequence[Stamp], arrived: Sequence[int], *, is_open: bool) -> set[int]:
    """The events whose position may stay exact."""
    outputs = list(_outputs(stamps))
    gaps = [
        arrived[after] - arrived[before] if stamps[after].seq - stamps[before].seq == after - before else 0
        for before, after in pairwise(outputs)
    ]
    gaps += [] if is_open else [0]
    peaks = [k for k in range(1, len(gaps) - 1) if gaps[k - 1] < gaps[k] >= max(gaps[k + 1], NOISE_NS)]
    peaks.sort(key=lambda k: -gaps[k])
    return {outputs[k] for k in peaks[:EXACT_POSITIONS]}
