"""When a head that waits for its first event goes on, and when another answer takes its place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.hop import EventClass
from sidecar.guard.holding import HOLD, LIMIT_BYTES, RELEASE, Decision, Held, Verdict, status_of

S = 1_000_000_000
classes = st.none() | st.sampled_from([each for each in EventClass if each is not EventClass.KEEPALIVE])


def refused(status: int) -> Decision:
    return Decision(Verdict.REFUSE, status)


@pytest.mark.parametrize("first", [each for each in EventClass if each not in {EventClass.KEEPALIVE, EventClass.ERROR}])
def test_the_first_event_lets_it_go(first):
    held = Held(0, limit_ns=5 * S)

    assert held.feed(20, first_class=None) == HOLD
    assert held.feed(100, first_class=first) == RELEASE
    assert held.held_bytes == 120


def test_an_error_that_comes_first_keeps_its_real_status():
    assert Held(0, limit_ns=S).feed(9, first_class=EventClass.ERROR, error_code="429") == refused(429)
    assert Held(0, limit_ns=S).feed(9, first_class=EventClass.ERROR, error_type="overloaded_error") == refused(529)


@pytest.mark.parametrize(
    ("code", "kind", "status"),
    [
        ("400", None, 400),
        ("599", None, 599),
        ("503", "rate_limit_error", 503),
        ("399", None, 502),
        ("600", None, 502),
        ("200", "rate_limit_error", 429),
        ("42", None, 502),
        ("4290", None, 502),
        ("٤٢٩", None, 502),
        ("rate_limit_exceeded", "throttlingException", 429),
        (None, None, 502),
        (None, "some_error", 502),
    ],
)
def test_the_status_is_that_of_the_error_or_that_of_a_bad_gateway(code, kind, status):
    assert status_of(code, kind) == status


def test_a_body_that_ends_in_order_without_an_event_passes():
    assert Held(0, limit_ns=S).ended() == RELEASE


def test_nothing_is_held_for_longer_than_the_limit_or_beyond_its_size():
    held = Held(3 * S, limit_ns=5 * S)
    assert held.due(8 * S - 1) == HOLD
    assert held.due(8 * S) == RELEASE

    held = Held(0, limit_ns=5 * S)
    assert held.feed(LIMIT_BYTES - 1, first_class=None) == HOLD
    assert held.feed(1, first_class=None) == RELEASE


@given(st.lists(st.tuples(st.sampled_from(["feed", "due", "ended"]), classes), max_size=12))
def test_the_first_decision_stands(steps):
    held, decided = Held(0, limit_ns=6), None
    for at_ns, (what, first_class) in enumerate(steps):
        match what:
            case "feed":
                decision = held.feed(50, first_class=first_class)
            case "due":
                decision = held.due(at_ns)
            case _:
                decision = held.ended()
        assert decision == held.decision
        assert decided in {None, decision}
        assert (decision.status is not None) is (decision.verdict is Verdict.REFUSE)
        if decision != HOLD:
            decided = decision
