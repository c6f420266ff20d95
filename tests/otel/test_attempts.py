"""Lost attempts: their time is charged to who lost them, and the waits add up as before."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.decompose import Wait
from otel.findings import ATTEMPTS_TOLD, Cause, Policy, Status
from otel.hop import Ending, Hop, Place, TapRole
from otel.join import join
from otel.query import verdict_answer
from otel.sentence import sentence
from otel.verdict import judge
from tests.support.broken import lost, tried_again
from tests.support.chain import GATEWAY, MS, NAMES, PROXY, WORKER, Chain, S, run, shifted

CUT, LEFT = Ending.UPSTREAM_CUT, Ending.CLIENT_DISCONNECT
POLICY = Policy(first_event_ns=S)


def on_another_clock(hop: Hop) -> Hop:
    return replace(hop, anchor=replace(hop.anchor, clock_domain="another pod", monotonic_ns=77 * S))


def judged(hops):
    path = join(hops, expected_path=NAMES)
    return path, judge(path, POLICY)


def waits_add_up(verdict) -> bool:
    return all(sum(f.decomposition.terms.values()) == f.decomposition.gap_ns for f in verdict.findings)


@pytest.mark.parametrize("ending", [CUT, LEFT, Ending.ERROR_EVENT, Ending.REFUSED])
@pytest.mark.parametrize(("by", "hop"), [(PROXY, WORKER), (GATEWAY, PROXY)])
def test_an_attempt_that_was_lost_is_charged_to_who_lost_it_not_to_who_tried_again(by, hop, ending):
    path, verdict = judged(tried_again(by=by, ending=ending))

    assert [(f.cause, f.first_hop) for f in verdict.findings] == [(Cause.RETRY, hop)]
    named = verdict.findings[0]
    assert (named.term_ns, named.decomposition.wait) == (4 * S, Wait.FIRST_EVENT)
    assert named.confidence >= 0.8
    assert waits_add_up(verdict)
    assert not any("another attempt" in note for note in verdict.missing)
    assert sentence(path, verdict).startswith(
        f"{hop.capitalize()} app lost an earlier attempt at this request ({ending.value}), which took 4.00 s: a 4.1"
    )


def test_an_error_status_is_a_lost_attempt_too():
    _, verdict = judged(tried_again(ending=Ending.COMPLETE, status=503))
    assert (verdict.cause, verdict.findings[0].first_hop) == (Cause.RETRY, WORKER)
    assert verdict.findings[0].detail == "lost an earlier attempt at this request (status 503)"


def test_several_attempts_are_all_shown_and_charged_together():
    hops = run(Chain(slow_first=[(PROXY, 5 * S)]))
    worker = hops[0]
    first, second = lost(worker, 3 * S, before_ns=5 * S, number=1), lost(worker, 2 * S, number=2)
    path, verdict = judged([second, first, *hops])

    assert (verdict.cause, verdict.findings[0].term_ns) == (Cause.RETRY, 5 * S)
    assert "model-worker app lost 2 earlier attempts at this request" in sentence(path, verdict).lower()
    evidence = verdict_answer(path, verdict, as_of="2026-01-01T00:00:00Z", is_final=True)["evidence"]
    assert evidence["attempts"] == 2
    assert evidence["other_attempts"] == (
        "model-worker upstream_cut (200) after 3.00 s, model-worker upstream_cut (200) after 2.00 s"
    )


def test_an_attempt_is_followed_to_the_hop_where_it_was_lost():
    hops = run(Chain(slow_first=[(GATEWAY, 4 * S)]))
    inner = lost(hops[0], 4 * S - 2 * MS, before_ns=4 * S, number=1, ending=LEFT)
    outer = lost(hops[1], 4 * S, number=2, ending=LEFT)
    _, verdict = judged([inner, outer, *hops])

    assert (verdict.cause, verdict.findings[0].first_hop) == (Cause.RETRY, WORKER)
    assert waits_add_up(verdict)


def test_what_the_app_waited_beside_its_lost_attempts_stays_its_own():
    hops = run(Chain(slow_first=[(PROXY, 7 * S)]))
    _, verdict = judged([lost(hops[0], 4 * S, before_ns=7 * S), *hops])

    assert [(f.cause, f.first_hop, f.term_ns // S) for f in verdict.findings] == [
        (Cause.RETRY, WORKER, 4),
        (Cause.SLOW_FIRST_EVENT, PROXY, 3),
    ]
    assert waits_add_up(verdict)


def test_a_second_attempt_beside_one_that_hangs_counts_until_it_began():
    hops = run(Chain(slow_first=[(PROXY, 2 * S)]))
    _, verdict = judged([lost(hops[0], 9 * S, before_ns=2 * S, ending=LEFT), *hops])
    assert (verdict.cause, verdict.findings[0].term_ns) == (Cause.RETRY, 2 * S)


def test_an_attempt_that_a_sidecar_ended_is_its_own():
    _, verdict = judged(tried_again(ending=Ending.DRAINED))
    assert verdict.findings[0].segment.label == f"self:{WORKER}"


def test_an_attempt_on_another_clock_is_charged_with_less_confidence():
    attempt, *hops = tried_again()
    _, verdict = judged([on_another_clock(attempt), *hops])
    assert (verdict.cause, verdict.findings[0].first_hop) == (Cause.RETRY, WORKER)
    assert verdict.findings[0].confidence < 0.8


def test_an_attempt_that_may_be_of_another_request_with_this_id_is_charged_with_less_confidence():
    """Two requests under one id: whose attempt it was, the records do not say."""
    attempt, worker, proxy, gateway = tried_again()
    earlier = {"monotonic_ns": gateway.anchor.monotonic_ns - 9 * S, "wall_ns": gateway.anchor.wall_ns - 9 * S}
    other = replace(gateway, span_id="f" * 16, anchor=replace(gateway.anchor, **earlier))
    path = join([attempt, worker, proxy, gateway, other], expected_path=NAMES)
    verdict = judge(path, POLICY)

    assert path.is_shared
    assert (verdict.cause, verdict.findings[0].first_hop) == (Cause.RETRY, WORKER)
    assert verdict.findings[0].confidence < 0.8


def test_an_attempt_at_a_worker_of_another_name_is_charged_to_that_worker():
    attempt, *hops = tried_again()
    other = replace(on_another_clock(attempt), place=Place("worker-b", TapRole.INGRESS))
    path = join([other, *hops], expected_path=("worker-b", *NAMES))
    verdict = judge(path, POLICY)

    assert (verdict.cause, verdict.findings[0].first_hop) == (Cause.RETRY, "worker-b")
    assert sentence(path, verdict).startswith("Worker-b app lost an earlier attempt")
    assert waits_add_up(verdict)


@pytest.mark.parametrize(
    "change",
    [
        {"before_ns": 20 * S},  # it began before the app had the request at all
        {"ending": Ending.COMPLETE},  # it was whole: another request under this id
        {"took_ns": 100 * MS},  # it took no time that the reader felt
    ],
    ids=["too early", "whole", "short"],
)
def test_an_attempt_that_cannot_have_made_the_wait_is_only_told(change):
    hops = run(Chain(slow_first=[(PROXY, 4 * S)]))
    _, verdict = judged([lost(hops[0], **{"took_ns": 4 * S, **change}), *hops])

    assert (verdict.cause, verdict.findings[0].first_hop) == (Cause.SLOW_FIRST_EVENT, PROXY)
    assert verdict.findings[0].confidence < 0.8
    assert any("another attempt at model-worker" in note for note in verdict.missing)


def test_a_retry_that_nobody_felt_is_healthy():
    hops = run(Chain())
    _, verdict = judged([lost(hops[0], 20 * MS), *hops])
    assert verdict.status is Status.HEALTHY


@given(
    took=st.integers(300, 60_000),
    more=st.integers(0, 5_000),
    by=st.sampled_from([PROXY, GATEWAY]),
    same_clock=st.booleans(),
    order=st.permutations([0, 1, 2, 3]),
    hours=st.lists(st.integers(-48, 48), min_size=4, max_size=4),
)
def test_whatever_the_clocks_and_the_order_the_terms_are_moved_and_add_up(*, took, more, by, same_clock, order, hours):
    hops = run(Chain(slow_first=[(by, (took + more) * MS)], same_clock=same_clock))
    at = NAMES.index(by) - 1
    hops = [lost(hops[at], took * MS, before_ns=(took + more) * MS), *hops]
    plain = judge(join(hops[1:], expected_path=NAMES), POLICY)
    _, verdict = judged([shifted(hops[n], wall_ns=hours[n] * 3_600 * S) for n in order])

    parts = {f.first_hop: f.term_ns for f in verdict.findings}
    assert verdict.cause in {Cause.RETRY, Cause.SLOW_FIRST_EVENT}
    assert parts[NAMES[at]] == took * MS
    assert abs(parts.get(by, 0) - more * MS) < 250 * MS
    assert set(parts) <= {NAMES[at], by}
    assert waits_add_up(verdict)
    assert verdict.first.gap_ns == plain.first.gap_ns


def test_of_very_many_attempts_some_are_told_and_the_others_counted():
    hops = run(Chain(slow_first=[(PROXY, 4 * S)]))
    tried = [lost(hops[0], 100 * MS, before_ns=20 * S + i * S, number=i) for i in range(ATTEMPTS_TOLD + 5)]
    _, verdict = judged([*tried, *hops])

    told = [note for note in verdict.missing if note.startswith("the part of")]
    assert len(told) == ATTEMPTS_TOLD + 1
    assert told[-1] == "the part of 5 more calls or attempts in this wait"
