"""When a request is judged: once its hops have stopped coming in for a while, and again while it is open.

Hops of one request arrive within seconds of each other, and a verdict over half of them would be wrong for a
moment. Keys are request ids as recorded; times are monotonic and given by the caller. Whether an answer is final
is told from the same arrivals, and after a start only once the exporters have had time to bring what they held.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

REQUESTS: Final = 100_000
"""Requests that wait at a time, some 30 MB. Past it new ones are overlooked: they miss the lists, not the questions."""
PATIENCE: Final = 5
"""A request whose hops never stop coming is judged after that many times the time to settle."""
ABSENT_PATIENCE: Final = 6
"""A hop that is expected and absent is waited for that many times longer: it may still run, or not reach us."""


class Settling:
    """Which requests wait to be judged and until when. `overlooked` counts those there was no room for.

    start_ns: when the collector began to listen.
    """

    def __init__(self, *, settle_ns: int, final_ns: int, start_ns: int = 0, limit: int = REQUESTS) -> None:
        self.overlooked = 0
        self._start_ns = start_ns
        self._forgotten_ns = start_ns
        self._settle_ns = settle_ns
        self._final_ns = final_ns
        self._limit = limit
        self._due_ns: dict[str, int] = {}
        self._first_ns: dict[str, int] = {}
        self._queue: list[tuple[int, str]] = []
        self._last_ns: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._due_ns)

    def arrived(self, key: str, at_ns: int) -> None:
        """A hop of the request is in the store."""
        self._last_ns[key] = at_ns
        self._last_ns.move_to_end(key)
        kept_ns = ABSENT_PATIENCE * self._final_ns
        while len(self._last_ns) > self._limit or at_ns - next(iter(self._last_ns.values())) > kept_ns:
            _, self._forgotten_ns = self._last_ns.popitem(last=False)
        first_ns = self._first_ns.get(key, at_ns)
        self._wait(key, min(at_ns + self._settle_ns, first_ns + PATIENCE * self._settle_ns), first_ns)

    def again(self, key: str, due_ns: int) -> None:
        """Judge the request once more at that time, if nothing makes it due before."""
        if due_ns < self._due_ns.get(key, due_ns + 1):
            self._wait(key, due_ns, due_ns)

    def due(self, at_ns: int, *, limit: int) -> list[str]:
        """The requests to judge now, the longest due first. They wait no longer."""
        keys: list[str] = []
        while self._queue and self._queue[0][0] <= at_ns and len(keys) < limit:
            due_ns, key = heapq.heappop(self._queue)
            if self._due_ns.get(key) == due_ns:
                del self._due_ns[key], self._first_ns[key]
                keys.append(key)
        return keys

    def late_by(self, at_ns: int) -> int:
        """How long the longest due request has been due; 0 when none is."""
        while self._queue and self._due_ns.get(self._queue[0][1]) != self._queue[0][0]:
            heapq.heappop(self._queue)
        return max(0, at_ns - self._queue[0][0]) if self._queue else 0

    def is_final(self, keys: Iterable[str], at_ns: int, *, is_complete: bool = True) -> bool:
        """No hop under any of these keys has arrived for so long that none is expected any more.

        is_complete: no hop that is expected on the path is absent.
        """
        patience_ns = self._final_ns if is_complete else ABSENT_PATIENCE * self._final_ns
        if at_ns - self._start_ns < patience_ns or at_ns - self._forgotten_ns < self._final_ns:
            return False
        return all(at_ns - self._last_ns.get(key, self._start_ns) >= patience_ns for key in keys)

    def _wait(self, key: str, due_ns: int, first_ns: int) -> None:
        if key not in self._due_ns and len(self._due_ns) >= self._limit:
            self.overlooked += 1
            return
        if self._due_ns.get(key) != due_ns:
            self._due_ns[key] = due_ns
            heapq.heappush(self._queue, (due_ns, key))
        self._first_ns[key] = first_ns
