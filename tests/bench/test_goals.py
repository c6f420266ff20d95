"""The figures that must be reached: met by their medians, and known only where both sides of a pair are."""

from __future__ import annotations

import pytest

from tests.bench.contenders import HAPROXY, NGINX, OURS, OURS_IN_PYTHON, PLAIN, UNSTAMPED, contenders
from tests.bench.goals import FIGURES, Row, rows
from tests.bench.loads import LOADS
from tests.bench.measured import Measured
from tests.bench.results import Results
from tests.bench.spreads import Spread

ROWS = rows(has_compiled=False)


def everything(cost: dict[str, float]) -> Results:
    """Each contender under each load, at so many times nginx's cost."""
    results = Results()
    for load in LOADS.values():
        for name, times in cost.items():
            for drift in (1.0, 1.3, 0.9):
                measured = Measured(
                    window_s=2.0,
                    cpu_s=0.4 * times * drift,
                    load_share=0.3,
                    streams=100,
                    events=20_000,
                    requests=1_000,
                    expected_events=20_000,
                    p50_us=60 + 10 * times,
                    all_cpu_s=0.8 * times,
                    all_events=30_000,
                    grown_bytes=round(times * 1_000_000),
                )
                results.add(load.name, name, measured)
    return results


def met(row: Row, results: Results) -> list[bool | None]:
    reached = [(goal, goal.of(results, OURS)) for goal in (*row.must, row.aim)]
    return [None if spread is None else goal.is_met(spread) for goal, spread in reached]


@pytest.mark.parametrize("row", ROWS, ids=[str(row.number) for row in ROWS])
def test_who_costs_no_more_than_nginx_reaches_everything(row: Row) -> None:
    results = everything({NGINX: 1.0, HAPROXY: 1.0, PLAIN: 1.6, UNSTAMPED: 1.0, OURS: 1.0})
    assert all(met(row, results))


@pytest.mark.parametrize("row", ROWS, ids=[str(row.number) for row in ROWS])
def test_who_costs_sixty_times_as_much_reaches_nothing_but_what_came(row: Row) -> None:
    results = everything({NGINX: 1.0, HAPROXY: 1.0, PLAIN: 1.6, UNSTAMPED: 1.0, OURS: 60.0})
    reached = met(row, results)
    assert reached[0] is False
    assert reached[-1] is False


def test_figures_of_nobody_are_not_known() -> None:
    assert all(set(met(row, Results())) == {None} for row in ROWS)


def test_a_compiled_part_has_to_cost_less() -> None:
    (alone,) = [row for row in ROWS if row.number == 3]
    compiled, in_python = [row for row in rows(has_compiled=True) if row.number == 3]
    between = Spread(1.1, 1.1, 1.1, 1)
    assert [row.must[0].is_met(between) for row in (alone, compiled, in_python)] == [True, False, True]
    assert (compiled.of, in_python.of) == (None, OURS_IN_PYTHON)


def test_rows_are_numbered_in_order_and_compare_with_whom_is_measured() -> None:
    assert [row.number for row in ROWS] == list(range(1, 10))
    by_name = {each.name: each for each in contenders(has_compiled=True)}
    for row in (*ROWS, *rows(has_compiled=True)):
        for goal in (*row.must, row.aim):
            assert goal.load.name in by_name[row.of or OURS].loads
            assert not goal.against or goal.load.name in by_name[goal.against].loads


def test_every_load_has_figures() -> None:
    assert FIGURES.keys() == LOADS.keys()


def test_limits_say_what_they_are_compared_with() -> None:
    texts = {row.number: [goal.text for goal in (*row.must, row.aim)] for row in ROWS}
    assert texts[1] == ["≤ 1.45 × nginx", "≤ 1.10 × nginx"]
    assert texts[4] == ["≤ +50 µs over nginx", "≤ +10 µs over nginx"]
    assert texts[5] == ["≤ 85 %", "≥ 99.0 %", "≤ 1.10 × nginx"]
    assert texts[7] == ["≤ 40 KB", "≤ 24 KB"]
