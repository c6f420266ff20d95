import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.settling import PATIENCE, Settling

S = 1_000_000_000


def settling(limit: int = 100) -> Settling:
    return Settling(settle_ns=2 * S, final_ns=10 * S, limit=limit)


def test_a_request_is_due_when_no_hop_has_come_in_for_the_time_to_settle():
    waiting = settling()
    waiting.arrived("a", 0)
    waiting.arrived("a", 1 * S)

    assert waiting.due(3 * S - 1, limit=9) == []
    assert waiting.due(3 * S, limit=9) == ["a"]
    assert waiting.due(99 * S, limit=9) == []


def test_a_late_hop_makes_its_request_due_again():
    waiting = settling()
    waiting.arrived("a", 0)
    waiting.due(2 * S, limit=9)
    waiting.arrived("a", 60 * S)

    assert waiting.due(62 * S, limit=9) == ["a"]


def test_requests_are_due_in_the_order_in_which_they_settled_and_no_more_than_asked():
    waiting = settling()
    for at, key in enumerate("cab"):
        waiting.arrived(key, at)

    assert waiting.due(99 * S, limit=2) == ["c", "a"]
    assert waiting.due(99 * S, limit=2) == ["b"]


def test_a_request_whose_hops_never_stop_is_judged_all_the_same():
    waiting = settling()
    judged = []
    for second in range(60):
        waiting.arrived("a", second * S)
        judged += [second] * len(waiting.due(second * S, limit=9))

    assert judged == [10, 21, 32, 43, 54]
    assert judged[0] == PATIENCE * 2


def test_an_open_request_is_judged_again_unless_a_hop_makes_it_due_before():
    waiting = settling()
    waiting.again("a", 5 * S)
    assert waiting.due(5 * S, limit=9) == ["a"]

    waiting.again("b", 20 * S)
    waiting.again("b", 30 * S)
    waiting.arrived("b", 10 * S)
    assert waiting.due(12 * S, limit=9) == ["b"]
    assert waiting.due(99 * S, limit=9) == []


def test_past_the_limit_new_requests_are_overlooked_and_counted_and_known_ones_are_not():
    waiting = settling(limit=2)
    for key in "abc":
        waiting.arrived(key, 0)
    waiting.arrived("a", S)

    assert (len(waiting), waiting.overlooked) == (2, 1)
    assert sorted(waiting.due(99 * S, limit=9)) == ["a", "b"]


def test_lateness_is_that_of_the_longest_due():
    waiting = settling()
    assert waiting.late_by(99 * S) == 0

    waiting.arrived("a", 0)
    waiting.arrived("a", S)
    assert waiting.late_by(2 * S) == 0
    assert waiting.late_by(5 * S) == 2 * S


def test_a_verdict_is_final_when_no_hop_has_come_in_for_long_under_any_of_the_keys():
    waiting = settling()
    waiting.arrived("a", 0)
    waiting.arrived("b", 4 * S)

    assert not waiting.is_final(["a"], 10 * S - 1)
    assert waiting.is_final(["a"], 10 * S)
    assert not waiting.is_final(["a", "b"], 10 * S)
    assert waiting.is_final(["a", "b"], 14 * S)


def test_where_a_hop_is_absent_it_takes_longer():
    waiting = settling()
    waiting.arrived("a", 4 * S)

    assert not waiting.is_final(["a"], 64 * S - 1, is_complete=False)
    assert waiting.is_final(["a"], 64 * S, is_complete=False)


@pytest.mark.parametrize(("is_complete", "after_s"), [(True, 10), (False, 60)])
def test_what_came_in_before_a_restart_is_final_when_exporters_had_their_time(is_complete: bool, after_s: int):
    waiting = Settling(settle_ns=2 * S, final_ns=10 * S, start_ns=100 * S)

    assert not waiting.is_final(["a"], (100 + after_s) * S - 1, is_complete=is_complete)
    assert waiting.is_final(["a"], (100 + after_s) * S, is_complete=is_complete)


def test_what_was_forgotten_for_want_of_room_is_not_final_too_early():
    waiting = settling(limit=2)
    for second, key in enumerate("abc"):
        waiting.arrived(key, (30 + second) * S)

    assert not waiting.is_final(["a"], 40 * S - 1)
    assert waiting.is_final(["a"], 40 * S)


def test_what_is_remembered_for_finality_is_let_go_when_it_serves_no_more():
    waiting = settling()
    waiting.arrived("a", 0)
    waiting.arrived("b", 61 * S)

    assert list(waiting._last_ns) == ["b"]
    assert waiting.is_final(["a"], 61 * S, is_complete=False)


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.integers(0, 3 * S), st.sampled_from(("hop", "again", "take"))),
        max_size=60,
    )
)
def test_every_request_with_a_new_hop_is_judged_after_it_within_bounded_time(steps):
    waiting = settling()
    now = 0
    last: dict[str, int] = {}
    for key, pause_ns, act in steps:
        now += pause_ns
        if act == "hop":
            waiting.arrived(key, now)
            last.setdefault(key, now)
        elif act == "again":
            waiting.again(key, now + S)
        for judged in waiting.due(now, limit=99):
            last.pop(judged, None)
        assert all(now - since <= PATIENCE * 2 * S for since in last.values())

    assert last.keys() <= set(waiting.due(now + 100 * S, limit=99))
    assert len(waiting) == 0
