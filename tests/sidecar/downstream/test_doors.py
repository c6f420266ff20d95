from hypothesis import given
from hypothesis import strategies as st

from sidecar.downstream.doors import LINGER_NS, REFUSED, Doors, Due
from tests.support.clock import FakeClock


class Standing:
    """A door that notes what it is told to do."""

    def __init__(self):
        self.told = []

    def __getattr__(self, name):
        return lambda: self.told.append(name)


def doors(**kwargs):
    clock = FakeClock()
    return Doors(now=clock.monotonic_ns, **kwargs), clock


def test_a_head_that_takes_too_long_is_told_so_once():
    registry, clock = doors(head_timeout_ns=10)
    door = Standing()
    registry.enter(door)
    registry.head_began(door)
    clock.advance(5)
    registry.head_began(door)  # more of it: the time runs from its first byte
    registry.tick(9)
    assert door.told == []
    registry.tick(10)
    registry.tick(20)

    assert door.told == ["head_is_late"]
    assert registry.slow_head_count == 1


def test_without_a_limit_of_time_no_head_is_late():
    registry, _ = doors()
    door = Standing()
    registry.enter(door)
    registry.head_began(door)
    registry.tick(10**18)

    assert door.told == []


def test_connections_beyond_the_limit_do_not_enter_and_get_a_moment():
    registry, _ = doors(limit=2)
    standing = [Standing() for _ in range(3)]
    assert [registry.enter(door) for door in standing] == [True, True, False]
    registry.tick(LINGER_NS)

    assert [door.told for door in standing] == [[], [], ["time_is_up"]]
    assert (registry.refused_count, registry.open_count) == (1, 3)
    registry.leave(standing[0])
    assert registry.enter(Standing())  # though the refused one is still there
    assert not registry.enter(Standing())


def test_when_too_many_are_being_refused_nobody_more_is_accepted():
    registry, _ = doors(limit=2)
    for _ in range(2 + REFUSED - 1):
        registry.enter(Standing())
    assert not registry.is_flooded
    registry.handshake_count += 1

    assert registry.is_flooded


def test_who_has_said_nothing_yet_may_still_ask_for_something():
    registry, _ = doors(head_timeout_ns=10)
    door = Standing()
    assert not registry.has_undecided
    registry.enter(door)
    assert registry.has_undecided
    registry.head_began(door)
    assert registry.has_undecided
    registry.head_ended(door)
    assert not registry.has_undecided


def test_while_it_drains_every_tick_closes_what_has_become_idle():
    registry, _ = doors()
    door = Standing()
    registry.enter(door)
    registry.tick(1)
    registry.is_draining = True
    registry.tick(2)

    assert door.told == ["close_idle"]


def test_who_is_gone_is_told_nothing():
    registry, _ = doors(head_timeout_ns=10)
    door = Standing()
    registry.enter(door)
    registry.head_began(door)
    registry.linger(door)
    registry.leave(door)
    registry.tick(10**18)

    assert door.told == []


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.booleans())), st.integers(1, 10))
def test_everybody_is_over_exactly_once_and_never_early(steps, limit_ns):
    due, at_ns, waiting = Due(limit_ns), 0, {}
    for passed_ns, number, is_start in steps:
        at_ns += passed_ns
        for door in due.over(at_ns):
            assert at_ns - waiting.pop(door) >= limit_ns
        assert all(at_ns - since_ns < limit_ns for since_ns in waiting.values())
        if is_start:
            due.start(number, at_ns)
            waiting.setdefault(number, at_ns)
        else:
            due.stop(number)
            waiting.pop(number, None)
        assert len(due) == len(waiting)
