"""What is remembered of healthy answers, and what it is good for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from otel.findings import Policy, Status
from otel.join import join
from otel.known import ANSWERS, SOURCES, Known
from otel.verdict import judge
from tests.support.chain import GATEWAY, MS, NAMES, PROXY, WORKER, Chain, S, run

ONE_PAUSE = Chain(schedule=[100_000] * 29 + [800 * MS], events=60)


def taught(*chains: Chain, times: int = 6) -> Known:
    known = Known()
    for chain in chains * times:
        path = join(run(chain))
        known.learn(path, judge(path))
    return known


def test_a_source_seen_before_makes_a_short_answer_conclusive():
    path = join(run(ONE_PAUSE))
    assert judge(path, taught().policy_for(path, Policy())).status is Status.INCONCLUSIVE
    assert judge(path, taught(Chain()).policy_for(path, Policy())).status is Status.NAMED


def test_a_source_that_always_pauses_is_excused():
    path = join(run(ONE_PAUSE))
    bursty = Chain(schedule=[100_000] * 9 + [700 * MS], events=400)
    assert judge(path, taught(bursty).policy_for(path, Policy())).status is Status.HEALTHY


def test_answers_that_are_all_short_make_their_source_known_together():
    path = join(run(ONE_PAUSE))
    assert judge(path, taught(ONE_PAUSE, times=4).policy_for(path, Policy())).status is Status.INCONCLUSIVE
    assert judge(path, taught(ONE_PAUSE, times=5).policy_for(path, Policy())).status is Status.HEALTHY


def test_an_answer_of_one_event_teaches_no_rhythm():
    path = join(run(ONE_PAUSE))
    assert taught(Chain(events=1)).policy_for(path, Policy()) == Policy()


def test_a_hop_that_was_taken_away_is_forgotten():
    known = taught(Chain())
    without = join([h for h in run(Chain()) if h.place.hop != PROXY], expected_path=NAMES)
    for _ in range(ANSWERS):
        known.learn(without, judge(without))
    assert known.expected_path([WORKER, GATEWAY], "tiny") == (WORKER, GATEWAY)


def test_a_stall_teaches_no_rhythm():
    path = join(run(ONE_PAUSE))
    stalled = Chain(stalls=[("source", 60, 3 * S)])
    assert taught(stalled).policy_for(path, Policy()) == Policy()


def test_a_hop_that_usually_stands_on_the_path_is_expected():
    known = taught(Chain())
    for name in NAMES:
        assert known.expected_path([n for n in NAMES if n != name], "tiny") == NAMES
    assert known.expected_path([WORKER], "another model") == ()
    assert known.expected_path(["elsewhere"], "tiny") == ()


def test_a_hop_that_is_often_not_there_is_not_expected():
    known = taught(Chain(), Chain(names=(WORKER, GATEWAY)))
    assert known.expected_path([WORKER, GATEWAY], "tiny") == (WORKER, GATEWAY)
    assert known.expected_path([WORKER, PROXY, GATEWAY], "tiny") == NAMES


def test_few_answers_make_no_habit():
    assert taught(Chain(), times=4).expected_path([WORKER], "tiny") == ()


@given(st.integers(1, 3 * ANSWERS))
def test_memory_is_bounded_and_follows_the_latest(count):
    known = taught(Chain(), times=min(count, 8))
    assert len(known._rhythms) <= SOURCES
    assert all(len(kept) <= ANSWERS for kept in known._rhythms.values())
