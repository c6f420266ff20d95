"""The table of open streams: rows come, follow the youngest glance, and go by themselves when nobody speaks of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel import live as module
from otel.glance import Moment
from otel.live import LiveStreams
from tests.support.builders import WALL_NS
from tests.support.glances import a_glance

S = 1_000_000_000


def at(glance, seconds: float):
    """The same, taken so much later."""
    return replace(glance, at_ns=WALL_NS + round(seconds * S))


def ids(live: LiveStreams, at_s: float = 0.0) -> list[str]:
    return [stream.glance.request_id for stream in live.open_streams(round(at_s * S))]


def test_a_stream_comes_with_its_first_glance_and_goes_with_its_last():
    live = LiveStreams()
    live.seen(a_glance(Moment.STALLED), at_ns=0)
    assert ids(live) == ["req-1"]
    live.seen(at(a_glance(Moment.CLOSED), 1), at_ns=S)
    assert ids(live) == []


def test_its_final_span_ends_it_and_what_was_on_its_way_does_not_bring_it_back():
    live = LiveStreams()
    live.seen(a_glance(), at_ns=0)
    live.ended("0" * 31 + "1", "0" * 15 + "1")
    live.seen(at(a_glance(), 10), at_ns=S)
    assert (ids(live), live.late_count) == ([], 1)


def test_a_span_that_came_first_ends_it_too():
    live = LiveStreams()
    live.ended("0" * 31 + "1", "0" * 15 + "1")
    live.seen(a_glance(), at_ns=0)
    assert ids(live) == []


def test_two_hops_of_one_request_are_two_streams():
    live = LiveStreams()
    live.seen(a_glance(), at_ns=0)
    live.seen(a_glance(span_id="f" * 16, hop="gateway"), at_ns=0)
    assert ids(live) == ["req-1", "req-1"]


def test_the_silence_of_a_stalled_stream_goes_on_and_that_of_others_is_as_told():
    live = LiveStreams()
    live.seen(a_glance(Moment.STALLED, is_stalled=True, silent_s=2.0), at_ns=0)
    live.seen(a_glance(number=2, silent_s=0.5), at_ns=0)
    stalled, flowing = live.open_streams(7 * S)
    assert (stalled.silent_s, stalled.age_s, stalled.told_s) == (9.0, 27.0, 7.0)
    assert (flowing.silent_s, flowing.age_s, flowing.told_s) == (0.5, 27.0, 7.0)


def test_after_a_stall_it_goes_on():
    live = LiveStreams()
    live.seen(a_glance(Moment.STALLED, is_stalled=True, silent_s=2.0), at_ns=0)
    live.seen(at(a_glance(Moment.RESUMED, silent_s=5.0, events=13), 5), at_ns=5 * S)
    (stream,) = live.open_streams(6 * S)
    assert (stream.glance.is_stalled, stream.glance.events) == (False, 13)
    assert stream.silent_s == 0.0  # the 5 s are those that are over


def test_the_oldest_silence_is_first():
    live = LiveStreams()
    for number, silent_s in ((1, 3.0), (2, 70.0), (3, 0.0)):
        live.seen(a_glance(number=number, silent_s=silent_s), at_ns=0)
    assert ids(live) == ["req-2", "req-1", "req-3"]


@given(st.permutations([(0, False), (10, False), (12, True), (20, True), (30, False)]))
def test_glances_in_any_order_leave_the_youngest(order):
    live = LiveStreams()
    for at_s, is_stalled in order:
        live.seen(at(a_glance(is_stalled=is_stalled, events=at_s), at_s), at_ns=0)
    (stream,) = live.open_streams(0)
    assert stream.glance.events == 30


@given(st.permutations([Moment.OPEN, Moment.STALLED]))
def test_news_of_the_same_moment_outweighs_a_heartbeat(order):
    live = LiveStreams()
    for moment in order:
        live.seen(a_glance(moment, is_stalled=moment is Moment.STALLED), at_ns=0)
    assert live.open_streams(0)[0].glance.is_stalled


def test_a_batch_that_is_sent_again_changes_nothing():
    live = LiveStreams()
    for _ in range(2):
        live.seen(a_glance(), at_ns=0)
    assert (len(live), live.late_count) == (1, 0)


@pytest.mark.parametrize(
    ("heartbeat_s", "kept_s", "gone_s"),
    [(10.0, 30, 31), (0.1, 5, 6), (1e8, 3 * 3600, 3 * 3600 + 1), (None, 900, 901)],
)
def test_a_sidecar_that_is_not_heard_of_any_more_takes_its_rows_along(heartbeat_s, kept_s, gone_s):
    live = LiveStreams()
    live.seen(a_glance(heartbeat_s=heartbeat_s), at_ns=0)
    assert ids(live, kept_s) == ["req-1"]
    assert (ids(live, gone_s), live.expired_count) == ([], 1)


def test_each_heartbeat_keeps_it_for_three_more():
    live = LiveStreams()
    for beat in range(10):
        live.seen(at(a_glance(), 10 * beat), at_ns=10 * beat * S)
        assert ids(live, 10 * beat + 29) == ["req-1"]


def test_a_full_table_keeps_what_it_has_and_counts_the_rest():
    live = LiveStreams(limit=2)
    for number in (1, 2, 3, 4):
        live.seen(a_glance(number=number), at_ns=0)
    assert (sorted(ids(live)), live.overflow_count) == (["req-1", "req-2"], 2)
    live.seen(at(a_glance(silent_s=9.0), 1), at_ns=0)
    assert ids(live) == ["req-1", "req-2"]


def test_room_is_made_of_what_expired():
    live = LiveStreams(limit=1)
    live.seen(a_glance(), at_ns=0)
    live.seen(a_glance(number=2), at_ns=31 * S)
    assert (ids(live, 31), live.overflow_count, live.expired_count) == (["req-2"], 0, 1)


def test_looking_for_room_is_not_done_for_every_stream(monkeypatch):
    live = LiveStreams(limit=1)
    looks: list[int] = []
    monkeypatch.setattr(live, "expire", looks.append)
    for number in range(100):
        live.seen(a_glance(number=number + 1), at_ns=number * S // 100)
    assert len(looks) == 1


def test_ends_are_remembered_up_to_a_number(monkeypatch):
    monkeypatch.setattr(module, "ENDED", 3)
    live = LiveStreams()
    for number in range(1, 6):
        live.ended(f"{number:032x}", f"{number:016x}")
    for number in range(1, 6):
        live.seen(a_glance(number=number), at_ns=0)
    assert sorted(ids(live)) == ["req-1", "req-2"]


@given(st.lists(st.tuples(st.sampled_from(Moment), st.integers(1, 4), st.integers(0, 60)), max_size=40))
def test_the_table_never_has_more_than_its_limit_and_no_row_twice(told):
    live = LiveStreams(limit=3)
    for number, (moment, stream, at_s) in enumerate(told):
        live.seen(at(a_glance(moment, number=stream), at_s), at_ns=number * S)
        assert len(live) <= 3
    found = ids(live, len(told))
    assert len(found) == len(set(found)) == len(live)
