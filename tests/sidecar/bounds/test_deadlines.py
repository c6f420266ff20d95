"""For whom an exchange may wait how long, in numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.hop import Ending
from sidecar.bounds.deadlines import ANSWER_LATE, BODY_IDLE, SLOW_READER, STOPS, Limits, Waits, due

LIMITS = Limits(stall_after_ns=2, body_idle_ns=300, write_deadline_ns=60, answer_ns=100)
maybe = st.none() | st.integers(0, 1_000)


@pytest.mark.parametrize(
    ("waits", "limit_ns", "stop"),
    [
        (Waits(body_since_ns=1_000), 300, BODY_IDLE),
        (Waits(stuck_since_ns=1_000), 60, SLOW_READER),
        (Waits(asked_ns=1_000), 100, ANSWER_LATE),
    ],
)
def test_a_wait_is_over_at_its_limit_and_not_before(waits, limit_ns, stop):
    assert due(LIMITS, waits, 1_000 + limit_ns - 1) is None
    assert due(LIMITS, waits, 1_000 + limit_ns) is stop


def test_an_upstream_is_not_late_while_the_client_owes_it_bytes():
    waits = Waits(body_since_ns=900, asked_ns=0)

    assert due(LIMITS, waits, 1_000) is None
    assert due(LIMITS, Waits(asked_ns=0), 1_000) is ANSWER_LATE


def test_a_reader_who_takes_nothing_is_told_from_one_who_sends_nothing():
    assert due(LIMITS, Waits(body_since_ns=0, stuck_since_ns=0), 1_000) is SLOW_READER


@given(maybe, maybe, st.integers(0, 10_000))
def test_what_has_no_limit_may_take_for_ever(stuck_ns, asked_ns, at_ns):
    unlimited = Limits(stall_after_ns=2, body_idle_ns=300)

    assert due(unlimited, Waits(stuck_since_ns=stuck_ns, asked_ns=asked_ns), at_ns) is None


@given(maybe, maybe, maybe, st.integers(0, 2_000), st.integers(0, 2_000))
def test_what_is_due_stays_due(body_ns, stuck_ns, asked_ns, at_ns, later_ns):
    waits = Waits(body_since_ns=body_ns, stuck_since_ns=stuck_ns, asked_ns=asked_ns)

    if due(LIMITS, waits, at_ns) is not None:
        assert due(LIMITS, waits, at_ns + later_ns) is not None


def test_every_reason_has_a_name_of_its_own_and_blames_whom_it_should():
    assert len({stop.error_type for stop in STOPS}) == len(STOPS)
    assert {stop.error_type: stop.ending for stop in STOPS} == {
        "draining": Ending.DRAINED,
        "slow_reader": Ending.CLIENT_DISCONNECT,
        "request_timeout": Ending.REJECTED,
        "upstream_answer_timeout": Ending.TIMED_OUT_FIRST_EVENT,
        "overloaded": Ending.LOST,
        "first_event_timeout": Ending.TIMED_OUT_FIRST_EVENT,
        "next_event_timeout": Ending.TIMED_OUT_NEXT_EVENT,
        "content_timeout": Ending.TIMED_OUT_NEXT_EVENT,
    }
