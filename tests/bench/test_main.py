"""The command: the tables of earlier runs, and what it says where nothing can be measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench import __main__ as command
from tests.bench import report
from tests.bench.contenders import (
    HAPROXY,
    NGINX,
    OURS,
    OURS_IN_PYTHON,
    PLAIN,
    UNSTAMPED,
    UNSTAMPED_IN_PYTHON,
    contenders,
)
from tests.bench.goals import rows
from tests.bench.loads import ANCHOR
from tests.bench.machine import Cores
from tests.bench.results import Results
from tests.bench.test_goals import everything
from tests.readers.reading import Missing


def written(file: Path, results: Results) -> str:
    told = report.as_json(results, rows(has_compiled=False), subject=OURS, stored=[], about={"processor": "P"})
    file.write_text(json.dumps(told))
    return str(file)


def test_tables_of_earlier_runs_are_put_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alike = (NGINX, HAPROXY, UNSTAMPED, OURS, UNSTAMPED_IN_PYTHON, OURS_IN_PYTHON)
    results = everything({**dict.fromkeys(alike, 1.0), PLAIN: 1.6})
    parts: dict[bool, Results] = {True: Results(), False: Results()}
    for (load, contender), taken in results.taken.items():
        parts[load == "anchor"].taken[load, contender] = taken
    files = [written(tmp_path / f"{name}.json", part) for name, part in parts.items()]
    out = tmp_path / "out.md"
    words = [word for file in files for word in ("--read", file)]
    assert command.main([*words, "--markdown", str(out), "--json", str(tmp_path / "out.json")]) == 0
    assert "not measured" not in out.read_text()
    assert out.read_text().strip() in capsys.readouterr().out
    assert Results.from_json(json.loads((tmp_path / "out.json").read_text())["results"]) == results


def test_a_contender_that_nobody_knows_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--only", "apache"]) == 1
    assert "nothing was measured: apache is none of nginx" in capsys.readouterr().out


def test_without_a_compiler_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> dict[str, str]:
        raise Missing("there is none of cc here")

    monkeypatch.setattr(command, "built", missing)
    assert command.main(["--only", PLAIN, "--load", "anchor"]) == 1
    assert "nothing was measured: there is none of cc here" in capsys.readouterr().out


@pytest.mark.e2e
def test_who_does_not_start_is_left_out_and_the_others_are_measured(
    c_programs: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = next(each for each in contenders() if each.name == PLAIN)
    broken = replace(plain, name="broken", title="a broken one", arguments=("tests.bench.plain", "no-port", "${next}"))
    brief = replace(ANCHOR, streams=4, ramp_s=0.05, settle_s=0.1, window_s=0.3)
    monkeypatch.setattr(command, "built", lambda: c_programs)
    monkeypatch.setattr(command, "here", lambda: Cores(None, None, is_first=False))
    monkeypatch.setattr(command, "stand_aside", lambda _: None)
    monkeypatch.setattr(command, "contenders", lambda: (broken, plain))
    monkeypatch.setattr(command, "LOADS", {ANCHOR.name: brief})
    assert command.main(["--repetitions", "2"]) == 0
    said = capsys.readouterr().out
    assert "no a broken one in this run: broken ended before it was ready" in said
    assert said.count("anchor  plain aiohttp proxy on uvloop") == 2
    assert "| plain aiohttp proxy on uvloop |" in said
