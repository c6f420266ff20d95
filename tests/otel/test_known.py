"""What is remembered of healthy answers, and what it is good for."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from otel.findings import Policy, Status
from otel.hop import Hop
from otel.join import join
from otel.known import ANSWERS, HOPS, PACES_NEEDED, SOURCES, Known, Paces
from otel.verdict import judge
from tests.support.builders import a_hop
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


def with_source(hops: list[Hop], *, model: str | None = None, **resource: str) -> list[Hop]:
    """The same hops, the one next to the model in another place."""
    first = hops[0]
    more = tuple((name.replace("_", "."), value) for name, value in resource.items())
    exchange = replace(first.exchange, model=model or first.exchange.model)
    return [replace(first, place=replace(first.place, resource=more), exchange=exchange), *hops[1:]]


def learned(*paths, times: int = 6) -> Known:
    known = Known()
    for path in paths * times:
        known.learn(path, judge(path))
    return known


BURSTY = Chain(schedule=[100_000] * 9 + [700 * MS], events=400)


def status_on(hops: list[Hop], known: Known) -> Status:
    path = join(hops)
    return judge(path, known.policy_for(path, Policy())).status


def test_the_workers_of_a_pool_are_one_source():
    one = with_source(run(BURSTY), service_name="chat", service_instance_id="chat-7f9c-a")
    two = with_source(run(ONE_PAUSE), service_name="chat", service_instance_id="chat-7f9c-b")
    renamed = [replace(two[0], place=replace(two[0].place, hop="chat-7f9c-b")), *two[1:]]
    assert status_on(renamed, learned(join(one))) is Status.HEALTHY


def test_another_pool_or_model_is_another_source():
    known = learned(join(with_source(run(BURSTY), service_name="chat", service_namespace="blue")))
    for other in (
        with_source(run(ONE_PAUSE), service_name="chat", service_namespace="green"),
        with_source(run(ONE_PAUSE), service_name="code", service_namespace="blue"),
        with_source(run(ONE_PAUSE), service_name="chat", service_namespace="blue", model="another"),
    ):
        assert status_on(other, known) is Status.INCONCLUSIVE
    same = with_source(run(ONE_PAUSE), service_name="chat", service_namespace="blue")
    assert status_on(same, known) is Status.HEALTHY


def test_a_source_is_known_by_what_the_worker_calls_its_model():
    def asked_as(name: str, chain: Chain) -> list[Hop]:
        first, *rest = run(chain)
        return [first, *(replace(hop, exchange=replace(hop.exchange, model=name)) for hop in rest)]

    assert status_on(asked_as("fast", ONE_PAUSE), learned(join(asked_as("cheap", BURSTY)))) is Status.HEALTHY


def test_an_answer_that_is_slower_than_the_others_of_its_source_is_told():
    path = join(run(Chain(gap=90 * MS)))
    for times, is_slow in ((PACES_NEEDED - 1, False), (PACES_NEEDED, True)):
        verdict = judge(path, taught(Chain(gap=30 * MS), times=times).policy_for(path, Policy()))
        assert verdict.status is Status.HEALTHY
        assert verdict.tempo is not None
        assert verdict.tempo.is_slow is is_slow


def test_a_pace_that_stays_is_the_usual_one_from_then_on():
    slow = join(run(Chain(gap=90 * MS)))
    known = taught(Chain(gap=30 * MS), times=ANSWERS)
    told = 0
    while (tempo := judge(slow, known.policy_for(slow, Policy())).tempo) is not None and tempo.is_slow:
        known.learn(slow, judge(slow))
        told += 1
    assert 1 <= told <= ANSWERS // 5


@given(st.lists(st.integers(1, 10**9), max_size=3 * ANSWERS))
def test_the_usual_pace_is_one_that_was_kept_and_nine_of_ten_were_no_slower(paces):
    known = Paces()
    for pace in paces:
        known = known.with_one(pace)
    latest = paces[-ANSWERS:]
    assert list(known.latest) == latest
    if len(latest) < PACES_NEEDED:
        assert known.usual_ns is None
    else:
        assert known.usual_ns in latest
        assert sum(pace <= known.usual_ns for pace in latest) >= 0.9 * len(latest) - 1


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


def test_hundreds_of_hops_under_one_id_are_no_path():
    hops = [a_hop(f"hop-{n}") for n in range(HOPS + 1)]
    assert taught_paths(hops[:HOPS]) == {hop.place.hop for hop in hops[:HOPS]}
    assert taught_paths(hops) == set()


def taught_paths(hops: list[Hop]) -> set[str]:
    known, path = Known(), join(hops)
    for _ in range(ANSWERS):
        known.learn(path, judge(path))
    return set(known.expected_path({hops[0].place.hop}, "demo-model"))


def test_few_answers_make_no_habit():
    assert taught(Chain(), times=4).expected_path([WORKER], "tiny") == ()


@given(st.integers(1, 3 * ANSWERS))
def test_memory_is_bounded_and_follows_the_latest(count):
    known = taught(Chain(), times=min(count, 8))
    assert len(known._rhythms) <= SOURCES
    assert all(len(kept) <= ANSWERS for kept in known._rhythms.values())
