"""Let a bounded number of exchanges run; the others wait in line, or are told when to come back.

A free place goes to whoever has waited longest, and a place is handed over, never put back while somebody waits:
so no newcomer overtakes. Only what would be passed on to the upstream counts; health is asked elsewhere.
"""

from __future__ import annotations

import asyncio
from collections import deque
from math import ceil
from typing import Final

from sidecar.clock import Clock

RECENT: Final = 64
"""Exchanges whose duration is remembered: enough to be steady, few enough to be of late."""
LEAST_RETRY_S: Final = 1
"""The field Retry-After counts whole seconds, and 0 would be an invitation to hammer."""
MOST_RETRY_S: Final = 60
"""What a refused client is told is a guess, and nobody should be held to it for longer."""


class Full(Exception):  # noqa: N818  # it is nobody's error
    """No place, and none in time. reason: `queue_full` or `queue_timeout`. retry_after_s: for the field Retry-After."""

    def __init__(self, reason: str, *, retry_after_s: int) -> None:
        super().__init__(f"{reason}: no place for another exchange, try again in {retry_after_s} s")
        self.reason = reason
        self.retry_after_s = retry_after_s


class Admission:
    """Places for max_streams exchanges (0: for all), and a line of max_queue before them.

    An exchange that runs through two listeners of one process needs a place of each: they never share an admission,
    or the first half could hold the place for which the second one waits.

    running_count: exchanges that have a place. admitted_count, full_count, timeout_count, left_count: those that ever
    got one, found the line full, waited too long, left the line. waited_ns: what the admitted waited, added up.
    """

    def __init__(self, clock: Clock, *, max_streams: int, max_queue: int, queue_timeout_s: float) -> None:
        self._clock = clock
        self._timeout_s = queue_timeout_s
        self._line: deque[asyncio.Future[None]] = deque()
        self._held_ns: deque[int] = deque(maxlen=RECENT)
        self.max_streams = max_streams
        self.max_queue = max_queue
        self.running_count = 0
        self.admitted_count = 0
        self.full_count = 0
        self.timeout_count = 0
        self.left_count = 0
        self.waited_ns = 0

    @property
    def waiting_count(self) -> int:
        return len(self._line)

    @property
    def retry_after_s(self) -> int:
        """When a newcomer may hope for a place: behind all who wait, at the pace at which places were freed of late.

        As long as no exchange has ended, what those who wait are granted.
        """
        expected_s = self._timeout_s
        if self._held_ns:
            places = self.max_streams or max(1, self.running_count)
            mean_ns = sum(self._held_ns) / len(self._held_ns)
            expected_s = mean_ns * (self.waiting_count + 1) / places / 1e9
        return min(MOST_RETRY_S, max(LEAST_RETRY_S, ceil(expected_s)))

    async def enter(self) -> int:
        """Take a place, which `leave` gives back: since when it is held. Raises Full."""
        came_ns = self._clock.monotonic_ns()
        await self._enter()
        began_ns = self._clock.monotonic_ns()
        self.admitted_count += 1
        self.waited_ns += began_ns - came_ns
        return began_ns

    def leave(self, began_ns: int) -> None:
        """Give back the place that is held since then."""
        self._held_ns.append(self._clock.monotonic_ns() - began_ns)
        self._free()

    async def _enter(self) -> None:
        if not self.max_streams or self.running_count < self.max_streams:  # then nobody waits
            self.running_count += 1
            return
        if self.waiting_count >= self.max_queue:
            self.full_count += 1
            raise Full("queue_full", retry_after_s=self.retry_after_s)
        place = asyncio.get_running_loop().create_future()
        self._line.append(place)
        try:
            async with asyncio.timeout(self._timeout_s):
                await place
        except TimeoutError:
            self._withdraw(place)
            self.timeout_count += 1
            raise Full("queue_timeout", retry_after_s=self.retry_after_s) from None
        except asyncio.CancelledError:
            self._withdraw(place)
            self.left_count += 1
            raise

    def _withdraw(self, place: asyncio.Future[None]) -> None:
        """Whoever waited for this place does not want it any more, though it may have been given already."""
        if place.done() and not place.cancelled():
            self._free()
        elif place in self._line:
            self._line.remove(place)

    def _free(self) -> None:
        """Give a place that is left to whoever has waited longest."""
        while self._line:
            place = self._line.popleft()
            if not place.done():
                place.set_result(None)
                return
        self.running_count -= 1
