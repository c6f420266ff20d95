"""Loads: what the upstream and the readers are told fits together."""

from __future__ import annotations

import pytest

from tests.bench.loads import ANCHOR, FLOOD, IDLE, LOADS, SHORT, STUCK, Kind, Load


@pytest.mark.parametrize("load", LOADS.values(), ids=list(LOADS))
def test_paced_streams_last_until_the_window_is_over(load: Load) -> None:
    if load.kind is Kind.PACED:
        assert load.events / load.rate >= load.ramp_s + load.settle_s + load.window_s


def test_the_anchor_is_ten_thousand_events_a_second() -> None:
    assert ANCHOR.streams * ANCHOR.rate == 10_000
    assert ANCHOR.shape == f"kind=paced&rate=50&events={ANCHOR.events}"


def test_what_is_counted_is_known_where_it_can_be() -> None:
    assert (FLOOD.events, IDLE.events, SHORT.events) == (0, 2, 0)


def test_readers_are_told_what_they_read() -> None:
    assert ANCHOR.reads == "stream"
    assert (FLOOD.reads, SHORT.reads, IDLE.reads, STUCK.reads) == ("flood", "short", "idle", "stuck")


def test_a_flood_that_nobody_reads_lasts_until_memory_was_looked_at() -> None:
    assert float(STUCK.shape.partition("seconds=")[2]) >= STUCK.ramp_s + STUCK.window_s
    assert STUCK.is_of_memory
    assert not FLOOD.is_of_memory


def test_what_leaves_something_behind_is_measured_alone() -> None:
    assert {load.name for load in LOADS.values() if load.is_alone} == {"flood", "idle", "stuck"}
