"""The order of measurements: every contender once in each repetition, forwards and backwards in turn."""

from __future__ import annotations

from collections import Counter

from tests.bench.contenders import contenders
from tests.bench.loads import ANCHOR, LOADS
from tests.bench.order import turns


def test_every_repetition_has_each_contender_once() -> None:
    found = list(turns(contenders(), [ANCHOR], repetitions=4))
    count = Counter((turn.repetition, turn.contender.name) for turn in found)
    there = [each.name for each in contenders() if ANCHOR.name in each.loads]
    assert count == Counter({(repetition, name): 1 for repetition in range(4) for name in there})


def test_directions_change() -> None:
    names = [turn.contender.name for turn in turns(contenders(), [ANCHOR], repetitions=2)]
    half = len(names) // 2
    assert names[half:] == names[:half][::-1]


def test_nobody_is_under_a_load_that_is_not_for_it() -> None:
    assert all(
        turn.load.name in turn.contender.loads for turn in turns(contenders(), list(LOADS.values()), repetitions=1)
    )
