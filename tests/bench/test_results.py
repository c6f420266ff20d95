"""Results: ratios of pairs, no figure where anything was wrong, and all of it there and back."""

from __future__ import annotations

import json

from tests.bench.measured import Measured
from tests.bench.results import Results


def taken(*cpu_s: float, faults: tuple[str, ...] = ()) -> list[Measured]:
    return [Measured(window_s=1.0, cpu_s=each, load_share=0.1, streams=1, events=100, faults=faults) for each in cpu_s]


def cpu_us(measured: Measured) -> float:
    return measured.cpu_us_per_event


def results(**others: list[Measured]) -> Results:
    return Results({("anchor", name): found for name, found in others.items()})


def test_ratios_are_taken_within_a_repetition() -> None:
    found = results(ours=taken(2, 6, 3), nginx=taken(1, 2, 3)).ratio("anchor", "ours", "nginx", cpu_us)
    assert found is not None
    assert (found.median, found.least, found.most) == (2, 1, 3)


def test_who_did_anything_wrong_has_no_figure_and_says_why() -> None:
    found = results(ours=[*taken(2), *taken(0, faults=("1 × cut",))], nginx=taken(1, 1))
    assert found.alone("anchor", "ours", cpu_us) is None
    assert found.ratio("anchor", "ours", "nginx", cpu_us) is None
    assert found.difference("anchor", "nginx", "ours", cpu_us) is None
    assert found.faults("anchor", "ours") == ["1 × cut"]


def test_what_was_not_measured_as_often_makes_no_pairs() -> None:
    assert results(ours=taken(2, 2), nginx=taken(1)).ratio("anchor", "ours", "nginx", cpu_us) is None
    assert results(ours=taken(2)).ratio("anchor", "ours", "nginx", cpu_us) is None


def test_a_load_of_another_run_is_taken_as_a_whole() -> None:
    found = results(ours=taken(2), nginx=taken(1))
    found.taken["flood", "ours"] = taken(7)
    found.replace(results(ours=taken(3)))
    assert found.taken == {("anchor", "ours"): taken(3), ("flood", "ours"): taken(7)}


def test_json_there_and_back() -> None:
    found = results(ours=taken(2, 3), nginx=taken(1, faults=("late",)))
    assert Results.from_json(json.loads(json.dumps(found.as_json()))) == found
