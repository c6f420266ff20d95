"""The course of an exchange: told in any order, it has one end, and says how the side that ended it did so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.hop import Ending, Phase, Side
from sidecar.inspection.messages import Messages
from sidecar.recording.course import Course

CLOSE = 0x8


def end(course: Course, seen=None, *, at_ns=100, taken_count=0):
    return course.end(at_ns, seen, status=200, taken_count=taken_count)


def told(*steps) -> Course:
    course = Course()
    for step in steps:
        step(course)
    return course


def head(at_ns=5, *, is_delimited=True):
    return lambda course: course.headers_received(at_ns, is_delimited=is_delimited)


def upstream(at_ns, *, is_clean=False, cut=None, missing_bytes=None):
    return lambda course: course.upstream_ended(at_ns, is_clean=is_clean, cut=cut, missing_bytes=missing_bytes)


def left(at_ns, cut=None):
    return lambda course: course.client_left(at_ns, cut=cut)


def stopped(ending, at_ns=50):
    return lambda course: course.stopped(ending, at_ns)


@pytest.mark.parametrize(
    ("steps", "ending", "side", "cut"),
    [
        ([head(), upstream(20, cut="reset")], Ending.UPSTREAM_CUT, Side.UPSTREAM, "reset"),
        ([head(), upstream(20, cut="fin"), left(30, "reset")], Ending.UPSTREAM_CUT, Side.UPSTREAM, "fin"),
        ([head(), left(30, "reset"), upstream(40, is_clean=True)], Ending.CLIENT_DISCONNECT, Side.DOWNSTREAM, "reset"),
        ([head(), upstream(20, is_clean=True)], Ending.COMPLETE, Side.UPSTREAM, None),
        ([head(), stopped(Ending.CLIENT_DISCONNECT)], Ending.CLIENT_DISCONNECT, Side.SIDECAR, "timeout"),
        ([head(), stopped(Ending.TIMED_OUT_NEXT_EVENT)], Ending.TIMED_OUT_NEXT_EVENT, Side.SIDECAR, "timeout"),
        ([stopped(Ending.TIMED_OUT_FIRST_EVENT)], Ending.TIMED_OUT_FIRST_EVENT, Side.SIDECAR, "timeout"),
        ([head(), stopped(Ending.DRAINED)], Ending.DRAINED, Side.SIDECAR, None),
        ([stopped(Ending.REFUSED)], Ending.REFUSED, Side.UPSTREAM, None),
        ([head(is_delimited=False), upstream(20, is_clean=True)], Ending.UNKNOWN_END, Side.UPSTREAM, None),
    ],
)
def test_how_it_ended_and_how_that_side_did_so(steps, ending, side, cut):
    found = end(told(*steps))
    assert (found.ending, found.ended_by, found.cut) == (ending, side, cut)


def test_only_the_first_that_is_told_of_a_side_counts():
    course = told(upstream(20, cut="reset", missing_bytes=7), left(30, "fin"), stopped(Ending.DRAINED))
    assert not course.upstream_ended(40, is_clean=True, cut="fin", missing_bytes=None)
    assert not course.stopped(Ending.LOST, 60)
    course.client_left(70, cut="reset")

    assert (course.upstream_ended_ns, course.client_left_ns, course.missing_bytes) == (20, 30, 7)
    assert (end(course).ending, end(course).cut) == (Ending.UPSTREAM_CUT, "reset")


def test_nothing_missing_is_not_known_to_be_missing():
    assert told(upstream(20, is_clean=True, missing_bytes=0)).missing_bytes is None


def test_how_long_nothing_came_counts_from_the_last_byte_to_the_end_of_that_side():
    course = told(head(5))
    assert not course.heard(12)
    course.client_left(30, cut=None)
    assert course.heard(40)

    assert end(course).idle_ns == 30 - 12
    assert end(told(head(5))).idle_ns == 100 - 5


def test_a_reader_that_was_given_up_did_not_get_what_our_kernel_did_not_take():
    seen = Messages()
    seen.received(CLOSE, 4, 10, is_wasted=False)
    course = told(head(is_delimited=False), stopped(Ending.CLIENT_DISCONNECT))

    assert end(course, seen).ending is Ending.CLIENT_DISCONNECT
    assert end(course, seen, taken_count=1).ending is Ending.COMPLETE


class TestAWebSocket:
    def steps(self, *rows) -> tuple[Ending, Side]:
        """The end of one in which these closed: 'upstream' and 'reader' with a close frame, 'fin', 'reset', 'left'."""
        seen, course = Messages(), told(head(is_delimited=False))
        for at_ns, row in enumerate(rows, start=10):
            match row:
                case "upstream":
                    seen.received(CLOSE, 4, at_ns, is_wasted=False)
                case "reader":
                    seen.passed_up(CLOSE, 4, at_ns, at_ns)
                case "fin" | "reset":
                    course.upstream_ended(at_ns, is_clean=row == "fin", cut=row, missing_bytes=None)
                case "left":
                    course.client_left(at_ns, cut="fin")
        found = end(course, seen, taken_count=seen.stamper.count)
        return found.ending, found.ended_by

    @pytest.mark.parametrize(
        ("rows", "ending", "side"),
        [
            (["upstream", "reader", "fin"], Ending.COMPLETE, Side.UPSTREAM),
            (["reader", "upstream", "fin"], Ending.COMPLETE, Side.DOWNSTREAM),
            (["upstream", "left"], Ending.COMPLETE, Side.UPSTREAM),
            (["reader", "left"], Ending.COMPLETE, Side.DOWNSTREAM),
            (["reader", "reset"], Ending.COMPLETE, Side.DOWNSTREAM),
            (["left"], Ending.CLIENT_DISCONNECT, Side.DOWNSTREAM),
            (["fin"], Ending.UNKNOWN_END, Side.UPSTREAM),
            (["reset"], Ending.UPSTREAM_CUT, Side.UPSTREAM),
        ],
    )
    def test_ends_in_order_once_either_side_said_so(self, rows, ending, side):
        assert self.steps(*rows) == (ending, side)


@pytest.mark.parametrize(
    ("steps", "phase"),
    [
        ([], Phase.CONNECT),
        ([lambda course: course.request_forwarded(1)], Phase.HEADERS),
        ([head()], Phase.FIRST_EVENT),
        ([head(), upstream(20, is_clean=True)], Phase.DRAIN),
        ([head(), upstream(20)], Phase.FIRST_EVENT),
    ],
)
def test_the_phase_before_any_event(steps, phase):
    assert told(*steps).phase(None) is phase


def test_the_phase_of_an_answer():
    course, seen = told(head()), Messages()
    assert course.phase(seen) is Phase.FIRST_EVENT
    seen.received(0x1, 5, 10, is_wasted=False)
    assert course.phase(seen) is Phase.EVENTS
    seen.received(CLOSE, 5, 10, is_wasted=False)
    assert course.phase(seen) is Phase.TERMINAL


STEPS = {
    "head": lambda course, at: course.headers_received(at, is_delimited=at % 2 == 0),
    "clean": lambda course, at: course.upstream_ended(at, is_clean=True, cut="fin", missing_bytes=at),
    "cut": lambda course, at: course.upstream_ended(at, is_clean=False, cut="reset", missing_bytes=None),
    "left": lambda course, at: course.client_left(at, cut="fin"),
    "given_up": lambda course, at: course.stopped(Ending.CLIENT_DISCONNECT, at),
    "timed_out": lambda course, at: course.stopped(Ending.TIMED_OUT_NEXT_EVENT, at),
    "heard": lambda course, at: course.heard(at),
}


@given(st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 1_000)), max_size=8))
def test_whatever_is_told_the_idle_time_is_none_or_some_and_the_cut_is_the_enders(steps):
    course = Course()
    for name, at_ns in steps:
        STEPS[name](course, at_ns)

    found = end(course, at_ns=1_000)
    assert found.idle_ns >= 0
    cuts = {Side.UPSTREAM: {"fin", "reset", None}, Side.DOWNSTREAM: {"fin"}, Side.SIDECAR: {"timeout", None}}
    assert found.cut in cuts[found.ended_by]
