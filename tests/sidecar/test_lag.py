import asyncio
import time

from otel.hop import Interval
from sidecar.clock import SystemClock
from sidecar.lag import KEPT, LATE_NS, WAKE_NS, Canary
from tests.support.clock import FakeClock

MS = 1_000_000


def woken_after(*sleeps_ns: int) -> Canary:
    """A canary whose every sleep took so long; each begins 1 ms after the one before."""
    clock = FakeClock()
    canary = Canary(clock)
    for sleep_ns in sleeps_ns:
        canary.asleep(clock.monotonic_ns())
        clock.advance(sleep_ns)
        canary.woken(clock.monotonic_ns())
        clock.advance(MS)
    return canary


def test_waking_in_time_is_no_lag():
    canary = woken_after(WAKE_NS, WAKE_NS + LATE_NS, WAKE_NS + MS)

    assert canary.overlapping(0, 72 * MS) == ()
    assert (canary.lag_count, canary.lag_ns) == (0, 0)


def test_lag_lasts_from_when_it_should_have_woken_to_when_it_did():
    canary = woken_after(300 * MS)

    assert canary.overlapping(0, 301 * MS) == (Interval(WAKE_NS, 300 * MS),)
    assert (canary.lag_count, canary.lag_ns) == (1, 280 * MS)


def test_lag_is_cut_to_the_time_that_was_asked_for():
    canary = woken_after(300 * MS, 300 * MS)

    assert canary.overlapping(100 * MS, 350 * MS) == (Interval(100 * MS, 300 * MS), Interval(321 * MS, 350 * MS))
    assert canary.overlapping(0, WAKE_NS) == ()
    assert canary.overlapping(300 * MS, 320 * MS) == ()


def test_lag_that_still_lasts_is_seen_before_the_canary_wakes():
    canary = woken_after(WAKE_NS)
    canary.asleep(21 * MS)

    assert canary.overlapping(0, 500 * MS) == (Interval(41 * MS, 500 * MS),)
    assert canary.overlapping(100 * MS, 500 * MS) == (Interval(100 * MS, 500 * MS),)
    assert canary.overlapping(0, 41 * MS + LATE_NS) == ()


def test_the_newest_intervals_are_kept():
    canary = woken_after(*[100 * MS] * (KEPT + 3))

    assert len(canary.overlapping(0, 101 * MS * (KEPT + 3))) == KEPT
    assert [canary.has_forgotten(since_ns) for since_ns in (0, 3 * 101 * MS - MS - 1, 3 * 101 * MS)] == [
        True,
        True,
        False,
    ]
    assert not woken_after(*[100 * MS] * KEPT).has_forgotten(0)
    assert canary.lag_count == KEPT + 3


async def test_a_loop_that_is_held_up_is_noticed():
    clock = SystemClock()
    canary = Canary(clock)
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(canary.run())
        await asyncio.sleep(0.03)
        start_ns = clock.monotonic_ns()
        time.sleep(0.2)  # what a long callback does, or a stopped process
        await asyncio.sleep(0.03)
        watching.cancel()

    (lag,) = canary.overlapping(start_ns, clock.monotonic_ns())
    assert 150 * MS < lag.end_ns - lag.start_ns < 400 * MS
