"""Everything that was measured, by load, contender and repetition; figures and their ratios are asked of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from tests.bench.measured import Measured
from tests.bench.spreads import Spread, differences, ratios

Figure = Callable[[Measured], float]
"""One number of a measurement that has no faults."""


@dataclass(frozen=True, slots=True)
class Results:
    """taken: the measurements of each (load, contender), one a repetition, in order."""

    taken: dict[tuple[str, str], list[Measured]] = field(default_factory=dict)

    def add(self, load: str, contender: str, measured: Measured) -> None:
        self.taken.setdefault((load, contender), []).append(measured)

    def replace(self, others: Results) -> None:
        """Take over the loads of another run, each as a whole: only what was measured together makes pairs."""
        loads = {load for load, _ in others.taken}
        for load, contender in list(self.taken):
            if load in loads:
                del self.taken[load, contender]
        self.taken.update(others.taken)

    def figures(self, load: str, contender: str, figure: Figure) -> list[float] | None:
        """One for each repetition. None: it was not measured, or something was wrong in any of them."""
        found = self.taken.get((load, contender))
        if not found or self.faults(load, contender):
            return None
        return [figure(each) for each in found]

    def faults(self, load: str, contender: str) -> list[str]:
        """What was wrong, each thing once."""
        found = self.taken.get((load, contender), [])
        return list(dict.fromkeys(fault for each in found for fault in each.faults))

    def alone(self, load: str, contender: str, figure: Figure) -> Spread | None:
        figures = self.figures(load, contender, figure)
        return None if figures is None else Spread.of(figures)

    def ratio(self, load: str, contender: str, other: str, figure: Figure) -> Spread | None:
        """Of the two in the same repetition."""
        return self._paired(load, contender, other, figure, ratios)

    def difference(self, load: str, contender: str, other: str, figure: Figure) -> Spread | None:
        return self._paired(load, contender, other, figure, differences)

    def _paired(
        self,
        load: str,
        contender: str,
        other: str,
        figure: Figure,
        pairing: Callable[[Sequence[float], Sequence[float]], list[float]],
    ) -> Spread | None:
        mine, theirs = self.figures(load, contender, figure), self.figures(load, other, figure)
        if mine is None or theirs is None or len(mine) != len(theirs):
            return None
        return Spread.of(pairing(mine, theirs))

    def as_json(self) -> list[dict[str, Any]]:
        return [
            {"load": load, "contender": contender, "repetitions": [each.as_json() for each in found]}
            for (load, contender), found in self.taken.items()
        ]

    @classmethod
    def from_json(cls, told: Sequence[Mapping[str, Any]]) -> Self:
        return cls(
            {
                (each["load"], each["contender"]): [Measured.from_json(one) for one in each["repetitions"]]
                for each in told
            }
        )
