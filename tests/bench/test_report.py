"""The tables: who has a figure, who has none and why, and what of the goals is met."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.bench import report
from tests.bench.contenders import HAPROXY, NGINX, OURS, PLAIN, UNSTAMPED, contenders
from tests.bench.goals import rows
from tests.bench.loads import ANCHOR
from tests.bench.measured import Measured
from tests.bench.results import Results
from tests.bench.stored import Stored
from tests.bench.test_goals import everything
from tests.lab.shapes import Shape

ROWS = rows(has_compiled=False)
STORED = [Stored(Shape.STEADY, 100, 250), Stored(Shape.FLOOD, 100, 330)]
SAME = {NGINX: 1.0, HAPROXY: 1.0, PLAIN: 1.6, UNSTAMPED: 1.0, OURS: 1.0}


def verdicts(table: str) -> dict[str, str]:
    """The last cell of every line, by the first."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    return {line[0]: line[-1] for line in cells}


def test_goals_are_met_or_not_or_not_known() -> None:
    table = report.goal_table(everything({**SAME, OURS: 1.2}), ROWS, subject=OURS, stored=STORED)
    assert verdicts(table) == {
        "1": "must",
        "2": "must",
        "3": "no",
        "4": "aim",
        "5": "must",
        "6": "no",
        "7": "aim",
        "8": "aim",
        "9": "aim",
        "10": "must",
    }
    unknown = report.goal_table(Results(), ROWS, subject=OURS, stored=[])
    assert set(verdicts(unknown).values()) == {"not measured"}


def test_an_aim_that_is_compared_with_another_tells_its_own_figure() -> None:
    table = report.goal_table(everything({**SAME, HAPROXY: 0.5}), ROWS, subject=OURS, stored=[])
    (line,) = [line for line in table.splitlines() if line.startswith("| 6")]
    assert "1.00 (1.00–1.00)" in line
    assert "0.50 (0.50–0.50)" in line
    assert line.rstrip("| ").endswith("must")


def test_who_did_anything_wrong_stands_without_a_figure_and_with_the_reason() -> None:
    results = everything(SAME)
    results.add(ANCHOR.name, PLAIN, Measured(window_s=2, cpu_s=0, load_share=0, streams=1, faults=("3 × order",)))
    table = report.load_table(results, contenders(), ANCHOR)
    assert table is not None
    assert "plain aiohttp proxy on uvloop has no figure: 3 × order" in table
    (line,) = [line for line in table.splitlines() if line.startswith("| plain")]
    assert {cell.strip() for cell in line.strip("|").split("|")[1:]} == {report.NONE}


def test_a_load_at_its_own_limit_is_told() -> None:
    results = everything(SAME)
    results.taken[ANCHOR.name, PLAIN] = [replace(taken, load_share=0.94) for taken in results.taken[ANCHOR.name, PLAIN]]
    table = report.load_table(results, contenders(), ANCHOR)
    assert table is not None
    assert table.count("had no more to give") == 1


def test_the_overview_has_a_line_for_everybody_who_has_a_figure() -> None:
    results = everything(SAME)
    results.add(ANCHOR.name, PLAIN, Measured(window_s=2, cpu_s=0, load_share=0, streams=1, faults=("3 × order",)))
    lines = report.overview(results, contenders()).splitlines()
    assert len(lines) == 2 + len(SAME)
    (plain,) = [line for line in lines if line.startswith("| plain")]
    cells = [cell.strip() for cell in plain.strip("|").split("|")]
    assert cells[1:4] == [report.NONE, report.NONE, report.NONE]
    assert cells[7:] == ["15.6", "16"]


def test_a_load_that_nobody_stood_under_has_no_table() -> None:
    assert report.load_table(Results(), contenders(), ANCHOR) is None


def test_everything_is_told_for_people_and_for_programs() -> None:
    results = everything(SAME)
    given = {"subject": OURS, "stored": STORED, "about": {"processor": "a fast one"}}
    text = report.markdown(results, contenders(), ROWS, **given)
    assert text.startswith("a fast one")
    assert text.count("|---") > 7
    told = json.loads(json.dumps(report.as_json(results, ROWS, **given)))
    assert Results.from_json(told["results"]) == results
    assert [row["row"] for row in told["rows"]] == list(range(1, 10))
    assert told["rows"][0]["must"][0]["reached"]["median"] == 1.0
    assert told["stored_bytes_per_event"] == {"steady": 2.5, "flood": 3.3}
