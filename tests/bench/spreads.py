"""Figures of several repetitions: ratios are taken within each, and told as a median with its least and its most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Self


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some repetitions, and the least and the most of them."""

    median: float
    least: float
    most: float
    count: int

    @classmethod
    def of(cls, figures: Sequence[float]) -> Self | None:
        """None where there is no figure."""
        return cls(median(figures), min(figures), max(figures), len(figures)) if figures else None

    def text(self, form: str = "{:.2f}") -> str:
        """As `1.21 (1.18–1.30)`, each number in this form; the spread of a single figure is none."""
        if self.count == 1:
            return form.format(self.median)
        return f"{form.format(self.median)} ({form.format(self.least)}–{form.format(self.most)})"


def ratios(figures: Sequence[float], others: Sequence[float]) -> list[float]:
    """Each by the other of its repetition."""
    return [figure / other for figure, other in zip(figures, others, strict=True)]


def differences(figures: Sequence[float], others: Sequence[float]) -> list[float]:
    """Each less the other of its repetition."""
    return [figure - other for figure, other in zip(figures, others, strict=True)]
