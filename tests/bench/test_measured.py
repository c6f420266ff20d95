"""What is measured: figures of what came, and none where anything was wrong."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from tests.bench.loads import ANCHOR, SHORT
from tests.bench.measured import Counted, Measured

WHOLE = Counted(
    events=30_000,
    window_events=20_000,
    window_bytes=4_000_000,
    window_requests=0,
    requests=0,
    streams=200,
    whole=200,
    left=0,
    p50_us=70.0,
    p90_us=90.0,
    p99_us=200.0,
    most_us=900.0,
    wrong={},
)


def measured(counted: Counted = WHOLE, *, sent_events: int | None = 30_000, **changes: Any) -> Measured:
    given = {"window_s": 2.0, "cpu_s": 0.5, "load_share": 0.4} | changes
    return Measured.of(counted, ANCHOR, sent_events=sent_events, **given)


def test_figures_are_of_the_window() -> None:
    found = measured()
    assert found.faults == ()
    assert found.cpu_us_per_event == 25.0
    assert found.cpu_share == 0.25
    assert found.delivered == 1.0
    assert found.events_per_core_s == 40_000


def test_a_look_that_came_late_changes_no_figure() -> None:
    assert measured(window_s=2.2, cpu_s=0.55).cpu_us_per_event == pytest.approx(25.0)


def test_what_readers_found_wrong_is_a_fault() -> None:
    assert measured(replace(WHOLE, wrong={"order": 2})).faults == ("2 × order",)


def test_streams_that_are_not_whole_are_a_fault() -> None:
    assert measured(replace(WHOLE, whole=199)).faults == ("199 of 200 whole",)


def test_events_that_nobody_missed_are_missed_by_the_upstream() -> None:
    assert measured(sent_events=30_001).faults == ("30000 events of 30001 came",)
    assert measured(sent_events=None).faults == ()


def test_what_was_left_of_a_flood_is_no_fault_and_is_not_compared() -> None:
    assert measured(replace(WHOLE, whole=190, left=10), sent_events=1_000_000).faults == ()
    assert measured(replace(WHOLE, whole=189, left=10)).faults == ("189 of 200 whole",)


def test_nothing_within_the_window_is_no_figure() -> None:
    assert measured(replace(WHOLE, window_events=0)).faults == ("nothing came within the window",)


def test_requests_are_counted_where_there_are_no_events() -> None:
    short = replace(WHOLE, events=0, window_events=0, window_requests=10_000, streams=32, whole=32)
    found = Measured.of(short, SHORT, window_s=1.5, cpu_s=1.0, load_share=0.1, sent_events=0)
    assert found.faults == ()
    assert found.cpu_us_per_request == 100.0


def test_what_readers_print_is_read_whole_or_not_at_all() -> None:
    told = asdict(WHOLE)
    assert Counted.of(json.dumps(told)) == WHOLE
    for broken in ("", "[]", json.dumps({**told, "more": 1}), json.dumps({"events": 1})):
        with pytest.raises(ValueError):
            Counted.of(broken)


def test_json_there_and_back() -> None:
    found = measured(replace(WHOLE, wrong={"cut": 1}))
    assert Measured.from_json(json.loads(json.dumps(found.as_json()))) == found
