"""Many streams held open: what is told of them, and what is needed first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import many as command
from tests.bench.contenders import OURS, ours
from tests.bench.loads import many
from tests.bench.machine import Cores
from tests.bench.measured import Measured
from tests.bench.measuring import measure
from tests.bench.stage import staged

FREE = Cores(None, None, is_first=False)


def test_many_streams_are_opened_no_faster_than_they_can_be_answered() -> None:
    load = many(10_000)
    assert load.streams / load.ramp_s == 400
    assert load.events == 2


def test_what_they_take_is_told() -> None:
    measured = Measured(window_s=5.0, cpu_s=0.1, load_share=0.0, streams=10_000, grown_bytes=307_200_000, woken_s=1.5)
    said = command.told(ours(), measured)
    assert said == (
        "gapline: 10,000 streams, 307 MB more than before, 30.0 KB each; 2.0% of a core while they rest; woken at "
        "once, all had their event and their end after 1.50 s"
    )


def test_who_does_not_hold_them_has_no_figure() -> None:
    measured = Measured(window_s=5.0, cpu_s=0.1, load_share=0.0, streams=10_000, faults=("3 × cut",))
    assert command.told(ours(), measured) == "gapline does not hold 10,000 streams: 3 × cut"


def test_more_streams_than_descriptors_are_not_begun(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "built", dict)
    monkeypatch.setattr(command, "stand_aside", lambda _: None)
    assert command.main(["--streams", str(1 << 40)]) == 1
    assert "descriptors, and we may have" in capsys.readouterr().out


def test_a_contender_that_nobody_knows_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--only", "apache"]) == 1
    assert "apache is none of nginx" in capsys.readouterr().out


@pytest.mark.e2e
def test_a_few_are_held_and_all_of_them_woken(c_programs: dict[str, str], tmp_path: Path) -> None:
    contender = command.named(OURS)
    with (
        staged(folder=tmp_path, cores=FREE, paths=c_programs) as stage,
        stage.running([contender], flags=("--log-format", "text")) as running,
    ):
        measured = measure(stage, running, contender, many(20))
    assert measured.faults == ()
    assert 0 < measured.woken_s < 10
