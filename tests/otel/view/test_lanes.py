"""One lane: events by column, silences as voids, the state of the tap under them."""

from __future__ import annotations

import pytest

from otel.view.answers import Tap
from otel.view.lanes import (
    Frame,
    Silence,
    event_strip,
    handed_on,
    joined,
    lay,
    level,
    silences,
    state_strip,
    usual_count,
)
from otel.view.palette import UNICODE, Look, Tone
from otel.view.scale import Axis


def a_tap(*arrived_s, classes=None, taken_after_s=0.0, **more):
    classes = classes or ["content"] * len(arrived_s)
    stamps = tuple((at, at + taken_after_s, kind) for at, kind in zip(arrived_s, classes, strict=True))
    values = {"hop": "gateway", "role": "ingress", "shift_s": 0.0, "duration_s": arrived_s[-1] if arrived_s else 0.0}
    values |= {"outcome": "complete", "blocked": (), "lag": (), "gaps": (), "is_thinned": False}
    return Tap(stamps=stamps, **(values | more))


def a_frame(end_s=10.0, width=40, wait=None, usual=1.0):
    return Frame(Axis(0.0, end_s, width), usual, wait, Look())


def drawn(strip):
    return "".join(piece.text for piece in strip.pieces())


def events_of(tap, frame):
    return drawn(event_strip(tap, lay(tap, frame.axis), frame))


def state_of(tap, frame):
    return drawn(state_strip(tap, lay(tap, frame.axis), frame))


def test_a_gap_is_a_void_with_its_length():
    tap = a_tap(0.0, 9.9, gaps=((0.0, 9.9),))
    assert events_of(tap, a_frame()) == "▄╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌ 9.90 s ╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌▄"


def test_a_gap_that_is_too_narrow_for_its_length_is_a_void_alone():
    tap = a_tap(0.0, 1.3, gaps=((0.0, 1.3),), duration_s=10.0, outcome="complete")
    assert events_of(a_tap(0.0, 1.3, gaps=((0.0, 1.3),)), a_frame()).rstrip() == "▄╌╌╌╌▄"
    assert events_of(tap, a_frame()).startswith("▄╌╌╌╌▄")


def test_keepalives_in_a_gap_are_seen_in_it():
    tap = a_tap(0.0, 1.0, 2.0, classes=["content", "keepalive", "content"], gaps=((0.0, 1.0), (1.0, 2.0)))
    assert events_of(tap, a_frame(2.0, 21)) == "▄╌ 1.00 s · 1.00 s ╌▄"


@pytest.mark.parametrize(
    ("event_class", "mark"),
    [("content", "▄"), ("tool", "▄"), ("opaque", "▄"), ("reasoning", "░"), ("terminal", "■"), ("error", "✗"),
     ("control", "·"), ("keepalive", "·"), ("usage", "·"), ("of-a-later-version", "·")],
)  # fmt: skip
def test_every_class_has_its_mark(event_class, mark):
    assert events_of(a_tap(5.0, classes=[event_class]), a_frame(10.0, 10))[5] == mark


def test_the_wait_of_the_reader_colours_the_void():
    tap = a_tap(0.0, 4.0, 9.9, gaps=((0.0, 4.0), (4.0, 9.9)))
    frame = a_frame(wait=(4.0, 9.9))
    tones = {piece.tone for piece in event_strip(tap, lay(tap, frame.axis), frame).pieces() if "╌" in piece.text}
    assert tones == {Tone.QUIET, Tone.FAULT}


@pytest.mark.parametrize(
    ("outcome", "ends_with"), [("complete", "▄"), ("upstream_cut", "✗"), ("client_disconnect", "✗"), (None, "»")]
)
def test_how_it_ended_is_the_last_mark(outcome, ends_with):
    assert events_of(a_tap(0.0, 0.1, outcome=outcome), a_frame(0.1, 5)).endswith(ends_with)


def test_lanes_are_placed_by_their_shift():
    assert events_of(a_tap(0.0, shift_s=3.0), a_frame(10.0, 10)) == "   ▄      "


def test_what_lies_outside_of_the_window_is_not_drawn():
    tap = a_tap(0.0, 20.0, gaps=((0.0, 20.0),), shift_s=-5.0)
    assert events_of(tap, a_frame(10.0, 20)) == "╌╌╌╌╌╌ 20.0 s ╌╌╌╌╌╌"


def test_silences_before_the_first_event_and_after_the_last():
    assert silences(a_tap(1.0, 1.1, duration_s=3.1, outcome=None)) == [
        Silence(0.0, 1.0, "to the first event"),
        Silence(1.1, 3.1, "so far"),
    ]
    assert silences(a_tap(0.1, duration_s=3.1, outcome="upstream_cut")) == [Silence(0.1, 3.1, "to the end")]
    assert silences(a_tap(duration_s=2.0)) == [Silence(0.0, 2.0, "without an event")]


def test_after_the_end_mark_there_is_no_silence():
    assert silences(a_tap(0.1, duration_s=3.1, classes=["terminal"])) == []


def test_a_first_gap_that_the_collector_counts_is_drawn_once():
    assert silences(a_tap(1.0, gaps=((0.0, 1.0),))) == [Silence(0.0, 1.0)]


def test_blocked_lag_and_held_have_their_own_shapes():
    tap = a_tap(0.0, taken_after_s=0.5, blocked=((2.0, 2.4),), lag=((4.0, 9.9),), duration_s=10.0)
    state = state_of(tap, a_frame())
    assert state.startswith("┄┄┄")
    assert state[8:10] == "══"
    assert "≈ lag 5.90 s ≈" in state


def test_the_shortest_state_takes_a_column():
    assert state_of(a_tap(0.0, blocked=((5.0, 5.0),)), a_frame(10.0, 10)) == "     ═    "


def test_an_event_that_was_never_taken_is_held_to_the_end():
    tap = Tap(
        hop="g", role="ingress", shift_s=0.0, duration_s=10.0, outcome="client_disconnect",
        stamps=((4.0, None, "content"),), blocked=(), lag=(), gaps=(), is_thinned=False,
    )  # fmt: skip
    assert state_of(tap, a_frame(10.0, 10)) == "    ┄┄┄┄┄┄"
    assert handed_on(tap).stamps == ()


def test_handed_on_is_the_lane_behind_our_kernel():
    tap = Tap(
        hop="g", role="ingress", shift_s=0.0, duration_s=3.0, outcome="complete",
        stamps=((0.0, 0.1, "content"), (0.2, 2.0, "content")), blocked=(), lag=(), gaps=(), is_thinned=False,
    )  # fmt: skip
    assert handed_on(tap).gaps == ((0.1, 2.0),)


def test_half_height_is_the_usual_pace():
    assert level(UNICODE.content, 10, 10) == "▄"
    assert level(UNICODE.content, 40, 10) == level(UNICODE.content, 400, 10) == "█"
    assert level(UNICODE.content, 1, 10) == "▁"
    assert level(UNICODE.content, 3, 2) == "▄"


def test_the_usual_pace_is_that_of_columns_with_events():
    axis = Axis(0.0, 10.0, 10)
    assert usual_count([lay(a_tap(0.1, 0.2, 0.3, 5.1, 5.2, 5.3, 9.0), axis)]) == 3.0
    assert usual_count([lay(a_tap(), axis)]) == 1.0


def test_stretches_that_touch_are_one():
    assert joined([(3.0, 4.0), (0.0, 1.0), (0.5, 2.0), (2.0, 2.5)]) == [(0.0, 2.5), (3.0, 4.0)]
