"""A canary in the event loop, so that our own delay is never booked as somebody else's.

It sleeps for a short time and looks how late it wakes. Whatever held the loop up, a long callback or a stopped
process, held every stream up for as long.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from otel.hop import Interval
from sidecar.clock import Clock

WAKE_NS: Final = 20_000_000
"""Time between two looks; each costs about 20 µs of CPU."""
LATE_NS: Final = 50_000_000
"""Lateness from which it counts: a fifth of the least delay that a verdict speaks of."""
KEPT: Final = 500
"""Newest intervals kept. A loop that lags without end fills them in half a minute, and then the oldest go."""


class Canary:
    """The times in which this process was late, newest last, in readings of the monotonic clock."""

    __slots__ = ("_clock", "_due_ns", "_forgotten_ns", "_intervals", "lag_count", "lag_ns")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.asleep(clock.monotonic_ns())
        self._intervals: deque[Interval] = deque(maxlen=KEPT)
        self._forgotten_ns: int | None = None
        self.lag_count = 0
        self.lag_ns = 0

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            self.asleep(self._clock.monotonic_ns())
            await asyncio.sleep(WAKE_NS / 1e9)
            self.woken(self._clock.monotonic_ns())

    def asleep(self, at_ns: int) -> None:
        """The canary goes to sleep."""
        self._due_ns = at_ns + WAKE_NS

    def woken(self, at_ns: int) -> None:
        """The canary wakes."""
        if at_ns - self._due_ns > LATE_NS:
            if len(self._intervals) == KEPT:
                self._forgotten_ns = self._intervals[0].end_ns
            self._intervals.append(Interval(self._due_ns, at_ns))
            self.lag_count += 1
            self.lag_ns += at_ns - self._due_ns

    def has_forgotten(self, since_ns: int) -> bool:
        """Whether lag after this time is no longer among the intervals kept."""
        return self._forgotten_ns is not None and self._forgotten_ns > since_ns

    def overlapping(self, start_ns: int, end_ns: int) -> tuple[Interval, ...]:
        """The lag inside a stretch of time, cut to it; also one that still lasts at its end, not yet woken from."""
        found = []
        for lag in reversed(self._intervals):  # of an exchange that ends now it is one of the last ones, if any
            if lag.end_ns <= start_ns:
                break
            if lag.start_ns < end_ns:
                found.append(Interval(max(lag.start_ns, start_ns), min(lag.end_ns, end_ns)))
        found.reverse()
        is_noted = bool(self._intervals) and self._intervals[-1].end_ns > self._due_ns
        if end_ns - self._due_ns > LATE_NS and not is_noted:
            found.append(Interval(max(self._due_ns, start_ns), end_ns))
        return tuple(found)
