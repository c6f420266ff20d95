"""How what was told of a reader is marked, and the whole trial with real ones."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from otel.demo.faults import CLIENT, WORKER
from otel.view.openapi import LIVE_PATH
from tests.lab import namespaces
from tests.lab.linked import ADMIN, QUERY, connected, running
from tests.lab.namespaces import CONTROL, Network
from tests.lab.slow_readers import Mark, Told, Trial, Way, due_s, main, mark, report, trial
from tests.lab.stopping import Reading, Stop, read

STOPPING = Trial(0, Way.NEAR, None, 100, 20.0, 7.0, Stop(2.0, 3.0))
HEALTHY = Trial(1, Way.FAR, None, 100, 20.0, 7.0)


def reading(half_s: float | None, *, is_whole: bool = True) -> Reading:
    """A stop from 2 to 5; the window is at half from half_s on."""
    windows = [(0.5, 100), *([] if half_s is None else [(half_s, 50)])]
    return Reading(0.0, windows=windows, stopped_s=2.0, resumed_s=5.0, is_whole=is_whole)


def told(at_s: float, *, blocked_s: Sequence[float] = ()) -> Told:
    return Told([at_s, at_s + 1], [at_s + 0.5], [at_s], list(blocked_s), is_kept=True)


@pytest.mark.parametrize(
    ("half_s", "of_it", "expected"),
    [
        (2.5, told(3.0), Mark.EARLY),
        (2.5, told(3.0, blocked_s=[3.1]), Mark.EARLY),
        (2.5, told(3.0, blocked_s=[3.0]), Mark.LATE),
        (2.5, told(3.6), Mark.MISSED),
        (2.5, Told(), Mark.MISSED),
        (2.5, Told(listed_s=[3.0], logged_s=[3.0]), Mark.MISSED),
        (2.5, Told(listed_s=[3.0], collected_s=[3.5]), Mark.MISSED),
        (None, Told(), Mark.UNSEEN),
        (4.9, Told(), Mark.UNSEEN),
        (None, Told(blocked_s=[2.5]), Mark.MISSED),
        (None, told(4.0, blocked_s=[2.5]), Mark.LATE),
        (None, Told(blocked_s=[4.0]), Mark.UNSEEN),
        (2.5, told(1.9), Mark.ACCUSED),
        (2.5, replace(told(3.0), is_kept=False), Mark.FORGOTTEN),
        (2.5, replace(told(3.0), verdict="network"), Mark.MISNAMED),
    ],
)
def test_a_reader_that_stops_must_be_told_of_soon_after_its_window_fell_or_a_write_blocked(
    half_s: float | None, of_it: Told, expected: Mark
) -> None:
    assert mark(STOPPING, reading(half_s), of_it) is expected


def test_where_something_is_lost_that_may_take_longer() -> None:
    far = Trial(0, Way.FAR, None, 100, 20.0, 7.0, Stop(2.0, 3.0))
    assert due_s(far, reading(2.5), Told()) == pytest.approx(2.5 + 2.0 + 0.1)


def test_who_reads_all_the_time_must_not_be_told_of() -> None:
    always = Reading(0.0, is_whole=True)
    assert mark(HEALTHY, always, Told(blocked_s=[3.0])) is Mark.QUIET
    assert mark(HEALTHY, always, Told(logged_s=[3.0])) is Mark.ACCUSED
    assert mark(replace(HEALTHY, way=Way.FAR), always, Told(verdict="network")) is Mark.QUIET
    assert mark(replace(HEALTHY, way=Way.NEAR), always, Told(verdict="network")) is Mark.MISNAMED
    assert mark(HEALTHY, always, Told(verdict="slow_reader")) is Mark.ACCUSED
    assert mark(HEALTHY, Reading(0.0), Told()) is Mark.BROKEN


def test_the_report_counts_and_says_how_soon() -> None:
    text = report([(STOPPING, reading(2.5), told(3.0)), (HEALTHY, Reading(0.0, is_whole=True), Told())])
    assert "1  told before a write blocked" in text
    assert "told 0.50 s after" in text
    assert "1 of 1 told before" in text
    assert "stopped and were told of: 1 none\n" in text
    assert "stopped and left no trace: -\n" in text


def test_a_trial_is_the_same_for_the_same_seed_and_healthy_ones_never_stop() -> None:
    assert trial(3, 7, is_stopped=True) == trial(3, 7, is_stopped=True) != trial(4, 7, is_stopped=True)
    assert all(trial(1, number, is_stopped=False).stop is None for number in range(50))
    assert {trial(1, number, is_stopped=False).way for number in range(50)} == set(Way)


@pytest.mark.e2e
@pytest.mark.timeout(120)
@pytest.mark.skipif((why := namespaces.missing()) is not None, reason=str(why))
def test_real_readers_are_told_of_while_they_stop_and_no_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "1", "--stopped", "2", "--healthy", "1"]) == 0
    assert "1 of 1 told before a write blocked" in capsys.readouterr().out


@pytest.mark.e2e
@pytest.mark.timeout(60)
@pytest.mark.skipif(why is not None, reason=str(why))
def test_gapline_live_shows_it_while_it_has_stopped_of_a_collector_and_of_a_sidecar(tmp_path: Path) -> None:
    with (
        Network((WORKER, CLIENT)) as network,
        running(network, tmp_path) as linked,
        connected(linked, receive_bytes=16_384) as wire,
        ThreadPoolExecutor(1) as pool,
    ):
        body: dict[str, object] = {"events": 250, "chars": 300, "pace_ms": 20.0}
        reading = pool.submit(read, wire, request_id="stopped", body=body, stop=Stop(1.0, 4.0))
        until_s = time.monotonic() + 4.0
        while time.monotonic() < until_s:
            time.sleep(0.05)
            if any(row["stall_cause"] for row in linked.collected(LIVE_PATH)["streams"]):
                break
        asked = {CONTROL: ("--collector", f"http://127.0.0.1:{QUERY}"), WORKER: ("--sidecar", f"127.0.0.1:{ADMIN}")}
        for place, words in asked.items():
            with network.inside(place):
                said = subprocess.run(
                    (sys.executable, "-m", "sidecar.cli", "live", *words), capture_output=True, text=True, check=True
                ).stdout
            assert "slow_reader" in said
        assert not reading.done()
        assert reading.result().is_whole
