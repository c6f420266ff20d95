"""The levels of memory in use, in numbers: where they begin, where they end, and whom it meets."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.bounds.overload import WORTH_BYTES, Level, Overload, heaviest

LIMIT = 1_000
uses = st.lists(st.integers(0, 1_200), max_size=60)


def levels(*used):
    overload = Overload(LIMIT)
    return [overload.seen(each) for each in used]


def test_refusing_begins_at_85_percent_and_resetting_at_95():
    assert levels(849, 850, 949, 950) == [Level.CALM, Level.REFUSING, Level.REFUSING, Level.RESETTING]


def test_what_was_tight_is_calm_again_only_below_75_percent():
    assert levels(850, 800, 750, 749, 750, 849) == [Level.REFUSING] * 3 + [Level.CALM] * 3


def test_resetting_ends_at_once_and_refusing_goes_on():
    assert levels(1_100, 949, 750) == [Level.RESETTING, Level.REFUSING, Level.REFUSING]


def test_where_nothing_runs_nothing_is_refused_for_nothing_could_ever_free_memory():
    overload = Overload(LIMIT)

    assert overload.seen(850) is Level.REFUSING
    assert overload.seen(850, is_idle=True) is Level.CALM
    assert overload.seen(849) is Level.CALM
    assert overload.entered_count == 1


@given(uses)
def test_it_refuses_exactly_from_85_percent_until_below_75(used):
    is_refusing = False
    for each, level in zip(used, levels(*used), strict=True):
        is_refusing = each >= 850 or (is_refusing and each >= 750)
        assert (level is not Level.CALM) == is_refusing


@given(uses)
def test_streams_are_given_up_only_from_95_percent(used):
    assert [level is Level.RESETTING for level in levels(*used)] == [each >= 950 for each in used]


@given(uses)
def test_each_time_that_it_began_is_counted(used):
    overload = Overload(LIMIT)
    refusing = [False] + [overload.seen(each) is not Level.CALM for each in used]

    assert overload.entered_count == sum(now and not was for was, now in itertools.pairwise(refusing))


@given(uses)
def test_without_a_limit_it_is_always_calm(used):
    overload = Overload(None)

    assert all(overload.seen(each) is Level.CALM and not overload.is_tight(each) for each in used)


@given(uses, st.integers(0, 1_200))
def test_whatever_is_not_calm_is_tight(used, last):
    overload = Overload(LIMIT)
    for each in used:
        overload.seen(each)

    assert overload.is_tight(last) or overload.seen(last) is Level.CALM


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_nothing_is_refused(limit):
    with pytest.raises(ValueError, match=f"more than 0 bytes, and is {limit}"):
        Overload(limit)


def test_what_is_above_95_percent_is_the_excess():
    overload = Overload(LIMIT)
    assert overload.excess_bytes(0) < 0
    for used, excess in ((949, -1), (950, 0), (1_000, 50)):
        overload.seen(used)
        assert overload.excess_bytes(0) == excess
    assert Overload(None).excess_bytes(0) < 0


def test_what_is_on_its_way_out_is_no_excess_for_a_second():
    overload = Overload(LIMIT)
    overload.seen(1_000)
    overload.given_up(30, 0)
    overload.given_up(25, 600_000_000)

    assert [overload.excess_bytes(at_ms * 1_000_000) for at_ms in (600, 999, 1_000, 1_599, 1_600)] == [
        -5,
        -5,
        25,
        25,
        50,
    ]


def test_the_heaviest_go_first_and_nobody_whose_end_frees_nothing():
    held = [("a", 3), ("b", WORTH_BYTES), ("c", 3 * WORTH_BYTES), ("d", 0), ("e", WORTH_BYTES - 1)]
    both = [("c", 3 * WORTH_BYTES), ("b", WORTH_BYTES)]

    assert heaviest([], excess_bytes=10) == []
    assert heaviest(held, excess_bytes=-1) == []
    assert heaviest(held, excess_bytes=0) == both[:1]
    assert heaviest(held, excess_bytes=3 * WORTH_BYTES) == both
    assert heaviest(held, excess_bytes=100 * WORTH_BYTES) == both


@given(st.lists(st.integers(0, 10 * WORTH_BYTES), max_size=30), st.integers(0, 50 * WORTH_BYTES))
def test_no_more_streams_are_given_up_than_have_to_be(held, excess):
    chosen = dict(heaviest(enumerate(held), excess_bytes=excess))
    freed = list(chosen.values())
    most_spared = max((held[each] for each in range(len(held)) if each not in chosen), default=0)

    assert freed == sorted(freed, reverse=True)
    assert all(size_bytes >= WORTH_BYTES for size_bytes in freed)
    assert not freed or most_spared <= freed[-1]
    assert sum(freed[:-1]) <= excess
    assert sum(freed) > excess or most_spared < WORTH_BYTES
