import time

import pytest

from sidecar.clock import DriftingClock, SystemClock, machine_domain
from tests.support.clock import FakeClock

HOUR_NS = 3_600_000_000_000


def test_the_clocks_are_the_machines():
    clock = SystemClock()

    assert 0 <= time.monotonic_ns() - clock.monotonic_ns() + 1_000_000_000 < 2_000_000_000
    assert abs(time.time_ns() - clock.wall_ns()) < 1_000_000_000
    assert clock.domain == machine_domain()


def test_an_offset_shifts_both_clocks_and_makes_a_domain_of_its_own():
    here, ahead = SystemClock(), SystemClock(offset_ns=HOUR_NS)

    assert abs(ahead.monotonic_ns() - here.monotonic_ns() - HOUR_NS) < 1_000_000_000
    assert abs(ahead.wall_ns() - here.wall_ns() - HOUR_NS) < 1_000_000_000
    assert ahead.domain == f"{here.domain}+{HOUR_NS}"


def test_processes_of_one_machine_share_a_domain():
    boot_id, _, namespace = machine_domain().partition("/")

    assert len(boot_id) == 36
    assert namespace.isdigit()


def test_a_clock_set_back_gives_no_negative_time():
    here, behind = SystemClock(), SystemClock(offset_ns=-(10**9) * HOUR_NS)

    assert behind.wall_ns() < here.wall_ns()
    assert behind.monotonic_ns() > here.monotonic_ns()
    assert behind.domain == f"{here.domain}-{10**9 * HOUR_NS}"


@pytest.mark.parametrize("ppm", [200.0, -200.0])
def test_a_drifting_clock_runs_away_from_its_making_on(monkeypatch, ppm):
    now = {"monotonic_ns": 10**18, "time_ns": 10**18}
    for name in ("monotonic_ns", "time_ns"):
        monkeypatch.setattr(time, name, lambda name=name: now[name])
    clock = DriftingClock(offset_ns=HOUR_NS, ppm=ppm)
    assert (clock.monotonic_ns(), clock.wall_ns()) == (10**18 + HOUR_NS, 10**18 + HOUR_NS)
    now = dict.fromkeys(now, 10**18 + 1_000_000_000)
    gained_ns = 1_000_000_000 + round(ppm * 1_000)
    assert (clock.monotonic_ns(), clock.wall_ns()) == (10**18 + HOUR_NS + gained_ns, 10**18 + HOUR_NS + gained_ns)
    assert clock.domain == f"{machine_domain()}+{HOUR_NS}~{ppm:+g}@{10**18 + HOUR_NS}"
    assert DriftingClock(offset_ns=HOUR_NS, ppm=ppm).domain != clock.domain  # made later, it is behind


def test_the_clock_of_the_tests_moves_both_ways_of_telling_time_and_never_back():
    clock = FakeClock(monotonic_ns=5, wall_ns=7)
    clock.advance(3)

    assert (clock.monotonic_ns(), clock.wall_ns()) == (8, 10)
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1)
