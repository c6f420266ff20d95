"""What the suites are, and what is made of how they ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance import tiers
from tests.conformance.tiers import ROOT, Outcome, Suite, Way, counts_of, edges, main, run, suites, table

REPORT = '<testsuites><testsuite tests="9" failures="2" errors="1" skipped="4" time="1.5"/></testsuites>'
CASES = Path("cases")
PULL, PUSH = Way("pull", "off"), Way("push", "on")


def names(**options):
    return [suite.name for suite in suites(**{"streams": 1, "soak_minutes": 1, "cases": None, **options})]


def test_edges_are_the_tests_that_start_a_sidecar():
    found = edges()

    assert {"tests/sidecar/test_carriage.py", "tests/sidecar/test_main.py"} <= set(found)
    assert "tests/sidecar/test_headers.py" not in found


def test_cases_are_run_where_there_are_some():
    assert set(names(cases=CASES)) - set(names()) == {"cases", "captures"}


def test_files_of_every_suite_are_there():
    for suite in suites(streams=1, soak_minutes=1, cases=None):
        assert all((ROOT / word).exists() for word in suite.words if word.startswith("tests/"))


def test_a_soak_is_given_its_own_time():
    (short, long) = (
        next(each for each in suites(streams=1, soak_minutes=minutes, cases=None) if each.name == "soak")
        for minutes in (1, 10)
    )
    assert long.within_s - short.within_s == 9 * 60


def test_a_report_is_added_up():
    assert counts_of(REPORT) == (2, 3, 4)


def test_the_table_has_a_row_each():
    lines = table([Outcome(PULL, "edges", 501, 0, 2, 49.4, ""), Outcome(PUSH, "soak", 0, 1, 0, 60, "FAILS")])

    assert [line.split() for line in lines.splitlines()[1:]] == [
        ["pull", "off", "edges", "501", "0", "2", "49"],
        ["push", "on", "soak", "0", "1", "0", "60"],
    ]


def written(folder, text):
    path = folder / "test_it.py"
    path.write_text(text)
    return Suite("it", ("pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(path)))


TEXT = """
import os
def test_a(): assert (os.environ["GAPLINE_TEST_TIER"], os.environ["GAPLINE_TEST_COMPILED"]) == ("pull", "off")
def test_b(): assert 1 == 2
"""


def test_a_suite_sees_the_way_and_its_tests_are_counted(tmp_path):
    outcome = run(written(tmp_path, TEXT), PULL)

    assert (outcome.passed, outcome.failed) == (1, 1)
    assert "assert 1 == 2" in outcome.said


@pytest.mark.parametrize("text", ["", "raise RuntimeError\n"], ids=["no tests", "no module"])
def test_a_suite_that_does_not_get_to_its_tests_has_failed(tmp_path, text):
    outcome = run(written(tmp_path, text), PULL)

    assert (outcome.passed, outcome.failed) == (0, 1)
    assert outcome.said


@pytest.mark.parametrize(("words", "failed"), [(("this",), 0), (("no_such_module",), 1)])
def test_a_module_passes_or_fails_as_one(words, failed):
    outcome = run(Suite("it", words), PULL)

    assert (outcome.passed, outcome.failed) == (1 - failed, failed)
    assert bool(outcome.said) == bool(failed)


def test_a_suite_that_takes_too_long_has_failed(tmp_path):
    outcome = run(Suite("it", ("timeit", "-n1", "-r1", "-s", "import time", "time.sleep(30)"), within_s=0.5), PULL)

    assert outcome.failed == 1
    assert outcome.said.endswith("not within 0.5 s")


@pytest.fixture
def tried(monkeypatch):
    """What main runs, and nothing of it is: push fails."""
    found = []

    def run(suite, way):
        found.append((way, suite.name))
        return Outcome(way, suite.name, 1, int(way.tier == "push"), 0, 1.0, "")

    monkeypatch.setattr(tiers, "run", run)
    monkeypatch.setattr(tiers, "COMPILED", "built")
    return found


def test_one_failure_makes_the_whole_fail(tried, capsys):
    assert main(["--suite", "edges"]) == 1
    assert main(["--suite", "edges", "--tier", "pull"]) == 0
    assert "push, compiled on: edges FAILS" in capsys.readouterr().out


def test_all_is_every_suite_over_every_way(tried):
    main([])

    assert len(set(tried)) == len(tried) == 3 * 2 * len(names())


def test_without_compiled_parts_there_is_one_way_for_each_tier(tried, monkeypatch, capsys):
    monkeypatch.setattr(tiers, "COMPILED", None)
    main(["--suite", "edges"])
    main(["--suite", "edges", "--brief"])

    assert [str(way) for way, _ in tried] == [f"{tier}, compiled off" for tier in ("pull", "push", "splice")] + [
        f"{tier}, compiled off" for tier in ("splice", "push", "pull")
    ]
    assert "not built here" in capsys.readouterr().out


def test_brief_is_each_tier_once_and_with_and_without_compiled_parts(tried):
    main(["--brief"])

    assert sorted({way.tier for way, _ in tried}) == ["pull", "push", "splice"]
    assert {way.compiled for way, _ in tried} == {"on", "off"}
    assert len({way for way, _ in tried}) == 3
    assert {name for _, name in tried} < set(names())


def test_what_is_named_is_run_though_it_is_brief(tried):
    main(["--brief", "--tier", "pull", "--compiled", "on", "--suite", "faults"])

    assert tried == [(Way("pull", "on"), "faults")]


def test_a_suite_that_is_none_is_told(capsys):
    with pytest.raises(SystemExit):
        main(["--suite", "edges", "--suite", "cases"])
    assert "--suite cases: must be one of edges, streams," in capsys.readouterr().err
