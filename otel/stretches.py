"""Stretches of a tap's time, blocked or late: what they cover of a window, and whether input lay waiting behind them.

A record may hold ten thousand of them beside a quarter of a million events, so whatever is asked is found by halving.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from otel.hop import Blocked, Interval

SHADOW_NS: Final = 30_000_000
"""Input read within this time after we stopped being blocked or late may have lain waiting for us."""
STAMP_NS: Final = 1_000_000
"""A read may be stamped so much before the end of the stretch that it waited for: both are rounded."""


@dataclass(frozen=True, slots=True)
class Stretches:
    """Stretches in order of time, none of which overlap. before: for each, how long those before it were together."""

    starts: list[int]
    ends: list[int]
    before: list[int]

    def covered(self, start: int, end: int) -> int:
        """Time of [start, end] that they cover."""
        return max(0, self._until(end) - self._until(start))

    def shadow(self, before: int, at: int) -> int:
        """Their time in [before, at] where input read at `at` may have lain waiting, since one ended right before."""
        i = bisect_right(self.ends, max(before, at - SHADOW_NS))
        ends_in_time = i < len(self.ends) and self.ends[i] <= at + STAMP_NS
        return self.covered(before, at) if ends_in_time else 0

    def lagged(self, before: int, at: int) -> int:
        """The same where they are our own lag: one ended right before `at`, or later."""
        i = bisect_right(self.ends, at - SHADOW_NS)
        has_waited = i < len(self.starts) and self.starts[i] < at
        return self.covered(before, at) if has_waited else 0

    def beginning(self, after: int, before: int) -> int | None:
        """The beginning of the first one that ends behind `after`, where it lies before `before`; else None."""
        i = bisect_right(self.ends, after)
        return self.starts[i] if i < len(self.starts) and self.starts[i] < before else None

    def _until(self, at: int) -> int:
        i = bisect_right(self.starts, at) - 1
        return self.before[i] + min(at, self.ends[i]) - self.starts[i] if i >= 0 else 0


def stretches_of(intervals: Iterable[Interval | Blocked | tuple[int, int]]) -> Stretches:
    """Those that overlap count as one: what a record of somebody else's says twice has passed only once."""
    pairs = sorted(each if isinstance(each, tuple) else (each.start_ns, each.end_ns) for each in intervals)
    starts: list[int] = []
    ends: list[int] = []
    for start, end in pairs:
        if ends and start < ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            starts.append(start)
            ends.append(end)
    lengths = (end - start for start, end in zip(starts, ends, strict=True))
    return Stretches(starts, ends, list(accumulate(lengths, initial=0))[:-1])
