"""How what was told of a reader is marked, and the whole trial with real ones."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.lab import namespaces
from tests.lab.slow_readers import Mark, Told, Trial, Way, due_s, main, mark, report, trial
from tests.lab.stopping import Reading, Stop

STOPPING = Trial(0, Way.NEAR, None, 100, 20.0, 7.0, Stop(2.0, 3.0))
HEALTHY = Trial(1, Way.FAR, None, 100, 20.0, 7.0)


def reading(half_s: float | None, *, is_whole: bool = True) -> Reading:
    """A stop from 2 to 5; the window is at half from half_s on."""
    windows = [(0.5, 100), *([] if half_s is None else [(half_s, 50)])]
    return Reading(0.0, windows=windows, stopped_s=2.0, resumed_s=5.0, is_whole=is_whole)


def told(at_s: float, *, blocked_s: Sequence[float] = ()) -> Told:
    return Told([at_s, at_s + 1], [at_s + 0.5], [at_s], list(blocked_s))


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
    assert mark(HEALTHY, always, Told(verdict="network")) is Mark.QUIET
    assert mark(HEALTHY, always, Told(verdict="slow_reader")) is Mark.ACCUSED
    assert mark(HEALTHY, Reading(0.0), Told()) is Mark.BROKEN


def test_the_report_counts_and_says_how_soon() -> None:
    text = report([(STOPPING, reading(2.5), told(3.0)), (HEALTHY, Reading(0.0, is_whole=True), Told())])
    assert "1  told before a write blocked" in text
    assert "told 0.50 s after" in text
    assert "1 of 1 told before" in text


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
