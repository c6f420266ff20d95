"""From numbers to columns: an axis of time with ticks, and shares that add up exactly.

A bar whose parts do not add up to its length, or seconds that do not add up to their sum, make a reader
distrust the rest. So both are apportioned by the largest remainder and never rounded one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

TICK_CELLS: Final = 10  # the least room between two ticks: their labels have at most 8 cells


@dataclass(frozen=True, slots=True)
class Axis:
    """A stretch of time, start_s < end_s, over columns 0 to width - 1 (width at least 1)."""

    start_s: float
    end_s: float
    width: int

    @property
    def cell_s(self) -> float:
        return (self.end_s - self.start_s) / self.width

    def column(self, at_s: float) -> int:
        """The column in which the instant lies; before the first -1, after the last `width`."""
        if at_s < self.start_s:
            return -1
        if at_s > self.end_s:
            return self.width
        return min(int((at_s - self.start_s) / self.cell_s), self.width - 1)

    def has(self, start_s: float, end_s: float) -> bool:
        """Whether any of the stretch can be seen."""
        return end_s >= self.start_s and start_s <= self.end_s

    def columns(self, start_s: float, end_s: float) -> range:
        """The columns that the stretch touches, clipped to the axis; at least one where it can be seen."""
        if not self.has(start_s, end_s):
            return range(0)
        return range(max(self.column(start_s), 0), min(self.column(end_s), self.width - 1) + 1)

    @property
    def step_s(self) -> float:
        """The distance of two ticks."""
        return _round_step(self.cell_s * TICK_CELLS)

    @property
    def is_in_minutes(self) -> bool:
        """Whether the labels are minutes and seconds, and not decimal seconds."""
        return self.step_s >= MINUTE_STEPS_S[0]

    def ticks(self) -> list[tuple[int, str]]:
        """(column, label) of round instants, ascending, at least TICK_CELLS apart."""
        step = self.step_s
        first = math.ceil(self.start_s / step - 1e-9)
        last = math.floor(self.end_s / step + 1e-9)
        return [
            (min(max(self.column(n * step), 0), self.width - 1), _label(n * step, step)) for n in range(first, last + 1)
        ]


MINUTE_STEPS_S: Final = (15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)


def _round_step(least_s: float) -> float:
    if least_s <= 10:
        power = 10.0 ** math.floor(math.log10(least_s))
        return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least_s * (1 - 1e-9))
    for step in MINUTE_STEPS_S:
        if step >= least_s:
            return float(step)
    return 86_400.0 * math.ceil(least_s / 86_400)


def _label(at_s: float, step_s: float) -> str:
    if step_s < MINUTE_STEPS_S[0]:
        decimals = min(max(0, -math.floor(math.log10(step_s) + 1e-9)), 4)
        return f"{at_s:.{decimals}f}" if abs(at_s) >= step_s / 2 else "0"
    minutes, rest = divmod(round(abs(at_s)), 60)
    sign = "-" if at_s < 0 and (minutes or rest) else ""
    if minutes < 60:
        return f"{sign}{minutes}:{rest:02}"
    hours, minutes = divmod(minutes, 60)
    return f"{sign}{hours}h{minutes:02}" if hours < 10_000 else f"{sign}{hours // 24}d"


def apportion(shares: Sequence[float], total: int) -> list[int]:
    """Whole numbers in proportion to the shares (none negative) that add up to total; all 0 when every share is 0."""
    largest = max(shares, default=0.0)
    if largest <= 0:
        return [0] * len(shares)
    scaled = [share / largest for share in shares]  # the sum of huge shares would be infinite
    whole = math.fsum(scaled)
    exact = [share / whole * total for share in scaled]
    parts = [math.floor(share) for share in exact]
    by_remainder = sorted(range(len(parts)), key=lambda index: parts[index] - exact[index])
    for index in by_remainder[: total - sum(parts)]:
        parts[index] += 1
    return parts


def settle(terms_s: Sequence[float]) -> list[int]:
    """The terms in whole milliseconds, each off by less than one, that add up to the rounded sum of all."""
    exact = [term * 1000 for term in terms_s]
    parts = [math.floor(term) for term in exact]
    by_remainder = sorted(range(len(parts)), key=lambda index: parts[index] - exact[index])
    for index in by_remainder[: round(math.fsum(exact)) - sum(parts)]:
        parts[index] += 1
    return parts
