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

    def text(self, form: str = "{:.2f}", unit: str = "") -> str:
        """As `1.21 (1.18–1.30)`, each number in this form; a single figure has no spread."""
        told = form.format(self.median) + unit
        if self.count == 1:
            return told
        return f"{told} ({form.format(self.least)}–{form.format(self.most)})"


def ratios(figures: Sequence[float], others: Sequence[float]) -> list[float]:
    """Each by the other of its repetition."""
    return [figure / other for figure, other in zip(figures, others, strict=True)]


def differences(figures: Sequence[float], others: Sequence[float]) -> list[float]:
    """Each less the other of its repetition."""
    return [figure - other for figure, other in zip(figures, others, strict=True)]
