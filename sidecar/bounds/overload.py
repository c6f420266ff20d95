"""Decide from the memory in use what must not happen any more: no new exchange, and then no stream that holds much.

Refusing begins early enough that what already runs can finish, and ends well below where it began, so that it does
not flicker. Streams are given up only close to the limit, where the alternative is the kernel killing all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import IntEnum
from operator import itemgetter
from typing import Final, TypeVar

T = TypeVar("T")

REFUSE_PERCENT: Final = 85
"""Of the limit; from here on nothing new is taken and connections are not kept."""
RESET_PERCENT: Final = 95
"""Of the limit; what is above it is freed at once, by giving up those streams that hold most. One at a time would be
kinder, and too slow: streams that were let in before go on filling their buffers."""
RECOVER_PERCENT: Final = 75
"""Of the limit; below it everything is as before."""
FREED_NS: Final = 1_000_000_000
"""How long what a stream held is taken for freed although it is seen to be in use: its record is still made from it."""
WORTH_BYTES: Final = 16_384
"""Least that a stream must hold to be given up: what a reset frees must be worth the stream."""


class Level(IntEnum):
    """How bad it is."""

    CALM = 0
    REFUSING = 1
    RESETTING = 2


class Overload:
    """The level at the last look. limit_bytes None: it is never anything but calm.

    entered_count: times that it went from calm to refusing.
    """

    __slots__ = ("_freed", "entered_count", "level", "limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int | None) -> None:
        if limit_bytes is not None and limit_bytes <= 0:
            raise ValueError(f"a memory limit must be more than 0 bytes, and is {limit_bytes}")
        self._freed: deque[tuple[int, int]] = deque()
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.level = Level.CALM
        self.entered_count = 0

    def seen(self, used_bytes: int, *, is_idle: bool = False) -> Level:
        """So much is in use now; the level that follows.

        is_idle: nothing runs. Then there is nobody to protect and nothing whose end could free anything, and refusing
        would never end.
        """
        self.used_bytes = used_bytes
        was_calm = self.level is Level.CALM
        self.level = Level.CALM if is_idle else self._level_of(used_bytes)
        self.entered_count += was_calm and self.level is not Level.CALM
        return self.level

    def excess_bytes(self, at_ns: int) -> int:
        """What is in use above the share from which streams are given up, and is not being freed already.

        Negative where there is none.
        """
        while self._freed and at_ns - self._freed[0][0] >= FREED_NS:
            self._freed.popleft()
        if self.limit_bytes is None:
            return -1
        freed_bytes = sum(size_bytes for _, size_bytes in self._freed)
        return self.used_bytes - self.limit_bytes * RESET_PERCENT // 100 - freed_bytes

    def given_up(self, size_bytes: int, at_ns: int) -> None:
        """A stream that holds so much is on its way out."""
        self._freed.append((at_ns, size_bytes))

    def is_tight(self, used_bytes: int) -> bool:
        """Not calm, or soon not: now it is worth looking for memory that is held for nothing."""
        return self.limit_bytes is not None and used_bytes * 100 >= self.limit_bytes * RECOVER_PERCENT

    def _level_of(self, used_bytes: int) -> Level:
        if self.limit_bytes is None:
            return Level.CALM
        percent_bytes = used_bytes * 100
        if percent_bytes >= self.limit_bytes * RESET_PERCENT:
            return Level.RESETTING
        if percent_bytes >= self.limit_bytes * REFUSE_PERCENT:
            return Level.REFUSING
        return Level.REFUSING if self.level is not Level.CALM and self.is_tight(used_bytes) else Level.CALM


def heaviest(held_bytes: Iterable[tuple[T, int]], *, excess_bytes: int) -> list[tuple[T, int]]:
    """Those that hold most, as few as free more than that, and nobody whose end would free nothing worth it."""
    chosen = []
    for each, size_bytes in sorted(held_bytes, key=itemgetter(1), reverse=True):
        if size_bytes < WORTH_BYTES or excess_bytes < 0:
            break
        chosen.append((each, size_bytes))
        excess_bytes -= size_bytes
    return chosen
