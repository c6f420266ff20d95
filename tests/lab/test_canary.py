"""The canary: it says when it was kept from its turn, and nothing of other times."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.lab.canary import Canary, longest_s, parse


def test_of_all_lags_those_that_touch_the_stretch_count() -> None:
    lags = [(1.0, 1.5), (2.0, 2.1), (9.0, 9.9)]
    assert longest_s(lags, 1.2, 3.0) == pytest.approx(0.5)
    assert longest_s(lags, 1.6, 3.0) == pytest.approx(0.1)
    assert longest_s(lags, 3.0, 8.0) == 0.0


def test_a_line_that_is_not_yet_whole_is_left() -> None:
    assert parse("1.0 1.5\n2.0 2.") == [(1.0, 1.5)]


@pytest.mark.e2e
def test_a_process_that_gets_no_turn_says_so_afterwards() -> None:
    with Canary() as canary:
        until_s = time.monotonic() + 20
        time.sleep(0.5)
        while time.monotonic() < until_s:  # it may not have begun yet
            begin_s = time.monotonic()
            os.kill(canary.pid, signal.SIGSTOP)
            time.sleep(0.3)
            os.kill(canary.pid, signal.SIGCONT)
            time.sleep(0.1)
            if canary.lag_s(begin_s, time.monotonic()) > 0.25:
                return
    pytest.fail("it said nothing")
