from hypothesis import given
from hypothesis import strategies as st

from sidecar.upstream.pool import IDLE_NS, LEARNT_NS, Pool

S = 1_000_000_000


def usable(_):
    return True


def test_the_connection_that_came_last_is_used_first():
    pool = Pool()
    for name, at_ns in (("a", 0), ("b", 1), ("c", 2)):
        assert pool.put(name, at_ns) == []

    assert [pool.take(10, usable) for _ in range(4)] == [("c", 8), ("b", 9), ("a", 10), None]


def test_one_that_is_not_usable_is_left_where_it_is():
    pool = Pool()
    pool.put("a", 0)
    pool.put("b", 0)

    assert pool.take(1, lambda name: name == "a") == ("a", 1)
    assert pool.take(1, usable) == ("b", 1)


def test_one_that_is_too_old_is_not_used_but_closed():
    pool = Pool()
    pool.put("a", 0)
    pool.put("b", 1)

    assert pool.take(IDLE_NS + 1, usable) is None
    assert pool.wait_ns(IDLE_NS - 5) == 5
    assert pool.expired(IDLE_NS) == ["a"]
    assert pool.expired(IDLE_NS + 1) == ["b"]
    assert pool.wait_ns(0) is None


def test_the_oldest_goes_when_there_are_too_many():
    pool = Pool(count_limit=2)

    assert [pool.put(name, 0) for name in "abc"] == [[], [], ["a"]]


def test_none_is_kept_for_as_long_as_the_upstream_says_that_it_keeps_it():
    pool = Pool()
    pool.put("a", 0, keep_alive_s=2.0)

    assert pool.idle_limit_ns(0) == 1.5 * S
    assert pool.put("b", 2 * S, keep_alive_s=60.0) == []
    assert pool.idle_limit_ns(0) == IDLE_NS
    assert pool.put("c", 2 * S, keep_alive_s=0.0) == ["a", "b", "c"]


def test_a_close_while_idle_teaches_for_how_long_the_upstream_keeps_one():
    pool = Pool()
    pool.put("a", 0)
    pool.closed("a", S)
    pool.put("b", S)

    assert pool.take(S + 3 * S // 4, usable) is None
    assert pool.take(S + 3 * S // 4 - 1, usable) == ("b", 3 * S // 4 - 1)


def test_a_close_is_not_remembered_for_ever():
    pool = Pool()
    pool.died_idle(0, 5)

    assert pool.idle_limit_ns(LEARNT_NS + 5) == 0
    assert pool.idle_limit_ns(LEARNT_NS + 6) == IDLE_NS


def test_a_later_close_after_a_longer_time_teaches_nothing():
    pool = Pool()
    pool.died_idle(S, 0)
    pool.died_idle(2 * S, LEARNT_NS)

    assert pool.idle_limit_ns(LEARNT_NS) == 3 * S // 4
    assert pool.idle_limit_ns(LEARNT_NS + 1) == IDLE_NS


def test_of_a_close_in_use_nothing_is_learnt():
    pool = Pool()
    pool.closed("a", 5)

    assert pool.idle_limit_ns(5) == IDLE_NS


def test_cleared_it_is_empty():
    pool = Pool()
    pool.put("a", 0)

    assert (pool.clear(), len(pool), pool.take(0, usable)) == (["a"], 0, None)


steps = st.lists(
    st.tuples(st.sampled_from(["put", "take", "closed", "expired"]), st.integers(0, 3 * S), st.integers(0, 30)),
    max_size=40,
)


@given(steps, st.integers(1, 5))
def test_each_connection_is_in_one_hand_at_a_time_and_none_is_used_too_late(steps, count_limit):
    pool, at_ns, kept, since_ns, number = Pool(count_limit=count_limit), 0, set(), {}, 0
    for step, later_ns, pick in steps:
        at_ns += later_ns
        gone = []
        if step == "put":
            number += 1
            kept.add(number)
            since_ns[number] = at_ns
            gone = pool.put(number, at_ns, keep_alive_s=pick)
        elif step == "take" and (taken := pool.take(at_ns, usable)) is not None:
            assert taken[1] == at_ns - since_ns[taken[0]] < pool.idle_limit_ns(at_ns)
            gone = [taken[0]]
        elif step == "closed" and kept:
            gone = [sorted(kept)[pick % len(kept)]]
            pool.closed(gone[0], at_ns)
        elif step == "expired":
            gone = pool.expired(at_ns)
        assert kept.issuperset(gone)
        kept.difference_update(gone)
        assert len(pool) == len(kept) <= count_limit
        assert 0 <= pool.idle_limit_ns(at_ns) <= IDLE_NS
