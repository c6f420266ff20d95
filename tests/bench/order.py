"""In which order contenders are measured: interleaved, forwards and backwards in turn, so that drift hits all alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.bench.contenders import Contender
from tests.bench.loads import Load


@dataclass(frozen=True, slots=True)
class Turn:
    """One measurement that is to be made."""

    repetition: int
    load: Load
    contender: Contender


def turns(contenders: Sequence[Contender], loads: Sequence[Load], *, repetitions: int) -> Iterator[Turn]:
    """Under each load, in every repetition all contenders that stand under it, once."""
    for load in loads:
        there = [each for each in contenders if load.name in each.loads]
        for repetition in range(repetitions):
            for contender in there if repetition % 2 == 0 else reversed(there):
                yield Turn(repetition, load, contender)
