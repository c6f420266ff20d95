"""Whose turn it is to be looked at: everybody's at each tick while they are few, and of many a part at a time.

A look costs 6 µs of an idle stream and 20 µs of a busy one. Ten times a second at ten thousand streams that would be
more than the process has, so what a tick costs has a bound: each of them is looked at once a second then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Generic, TypeVar

A_TICK: Final = 512
"""Most that one tick looks at, 10 ms of busy streams, unless a round of all would take too long."""
TICKS: Final = 8
"""Longest that a round takes, in ticks: whatever waits for a look waits no longer. A little less than a second, from
which on what the last look at a reader saw says nothing any more (`taking.py`)."""
BATCH: Final = 8
"""Looked at in one go, some 0.1 ms: events pass in between, and none waits for longer."""

Item = TypeVar("Item")


class Rounds(Generic[Item]):
    """Rounds through a changing number of things. Whoever comes within a round has its turn in the next one."""

    __slots__ = ("_left", "_quota")

    def __init__(self) -> None:
        self._left: list[Item] = []
        self._quota = A_TICK

    def turn(self, everybody: Iterable[Item]) -> Iterator[tuple[Item, ...]]:
        """The batches of one tick. Some of them may be gone by the time their batch comes."""
        if not self._left:
            self._left = list(everybody)
            self._left.reverse()
            self._quota = max(A_TICK, -(-len(self._left) // TICKS))
        due = [self._left.pop() for _ in range(min(self._quota, len(self._left)))]
        for start in range(0, len(due), BATCH):
            yield tuple(due[start : start + BATCH])
