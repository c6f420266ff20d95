"""The evidence beside the stamps of one exchange: what others collect of it, and the longest blocked stretches."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from otel.hop import Blocked, EngineEvidence, Interval, KernelSample

BLOCKED_NS: Final = 5_000_000
"""Waits for the reader below this are the scheduler's, not the reader's."""
BLOCKS: Final = 4_096
"""Blocked stretches kept: a reader that is a little slow all the time makes one with every read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Evidence that others collect: lag in readings of the clock, samples and the engine's in offsets from the anchor.

    is_thinned: some of it was left out.
    """

    lag: Sequence[Interval] = ()
    samples: Sequence[KernelSample] = ()
    window_peak_bytes: int | None = None
    round_trip_ns: int | None = None
    engine: EngineEvidence | None = None
    is_thinned: bool = False

    def since(self, offset_ns: int, *, anchor_ns: int) -> Beside:
        """What of it is younger than that offset from the anchor."""
        return replace(
            self,
            lag=[lag for lag in self.lag if lag.end_ns - anchor_ns > offset_ns],
            samples=[sample for sample in self.samples if sample.offset_ns > offset_ns],
        )


NOTHING: Final = Beside()


class Blocks:
    """The blocked stretches of one exchange, the longest `limit` of them; dropped_count are the others."""

    __slots__ = ("_count", "_heap", "_limit")

    def __init__(self, *, limit: int = BLOCKS) -> None:
        self._limit = limit
        self._count = 0
        self._heap: list[tuple[int, int, Blocked]] = []  # length and number, so that the shortest is on top

    @property
    def dropped_count(self) -> int:
        return self._count - len(self._heap)

    def add(self, block: Blocked) -> None:
        row = (block.end_ns - block.start_ns, self._count, block)
        self._count += 1
        if len(self._heap) < self._limit:
            heapq.heappush(self._heap, row)
        else:
            heapq.heappushpop(self._heap, row)

    def kept(self) -> list[Blocked]:
        """Those that are kept, in the order in which they came."""
        return [block for _, _, block in sorted(self._heap, key=lambda row: row[1])]
