"""Records that are incomplete, doubled or numbered otherwise, and clocks that are wrong: what is made of them."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations

import pytest

from otel.findings import Cause, Policy, Status, Verdict
from otel.grouping import requests_of
from otel.hop import Ending, Hop
from otel.join import join, paths
from otel.query import timeline_answer, verdict_answer
from otel.verdict import judge
from tests.faults import report
from tests.support.broken import tried_again
from tests.support.chain import GATEWAY, MS, NAMES, PROXY, WORKER, Chain, S, run, shifted

POLICY = Policy(first_event_ns=S)
NOW = "2100-01-01T00:00:00.000Z"
STALLS = {"source": WORKER, PROXY: PROXY, GATEWAY: GATEWAY}


def verdict_on(hops: list[Hop]) -> Verdict:
    return judge(join(hops, expected_path=NAMES), POLICY)


def named(hops: list[Hop]) -> tuple[Cause, str | None]:
    verdict = verdict_on(hops)
    return verdict.cause, verdict.findings[0].first_hop if verdict.findings else None


# ------------------------------------------------------------------------------------------------------ wrong clocks


def at_rate(hop: Hop, ppm: int) -> Hop:
    """The hop as a clock would have timed it that runs so much too fast."""

    def timed(ns):
        return ns if ns is None else ns + ns * ppm // 1_000_000

    line, moments = hop.timeline, hop.moments
    stamps = [replace(s, arrived_ns=timed(s.arrived_ns), taken_ns=timed(s.taken_ns)) for s in line.stamps]
    names = ("request_forwarded_ns", "headers_received_ns", "upstream_ended_ns", "downstream_ended_ns", "closed_ns")
    return replace(
        hop,
        timeline=replace(line, stamps=tuple(stamps)),
        moments=replace(moments, **{name: timed(getattr(moments, name)) for name in names}),
    )


@report("R138", "clocks that are set apart and run apart name the same hop, and no way takes less than no time")
@pytest.mark.parametrize("where", STALLS)
@pytest.mark.parametrize("offsets_s", [(0, 0, 0), *permutations((5, -3, 0)), (-3_600, 3_600, 0)])
def test_a_verdict_is_the_same_however_the_clocks_are_wrong(where, offsets_s):
    hops = run(Chain(stalls=[(where, 60, 2 * S)]))
    wrong = [
        at_rate(shifted(hop, wall_ns=seconds * S), ppm)
        for hop, seconds, ppm in zip(hops, offsets_s, (100, -100, 0), strict=True)
    ]
    path = join(wrong)
    verdict = judge(path, POLICY)

    assert [hop.place.hop for hop in path.taps] == list(NAMES)
    assert verdict.findings[0].first_hop == STALLS[where]
    assert verdict.findings[0].term_ns == pytest.approx(2 * S, abs=50 * MS)
    answer = verdict_answer(path, verdict, as_of=NOW, is_final=True)
    lags = [tap["shift_s"] for tap in timeline_answer(path, verdict, answer)["taps"]]
    assert lags == sorted(lags, reverse=True)
    assert lags[-1] == 0


# -------------------------------------------------------------------------------- records that are not as they should


@report(
    "R139", "a hop without a record: the stretch from the one before it to the one behind it, and no name within it"
)
@pytest.mark.parametrize("where", [PROXY, GATEWAY])
def test_a_hop_without_a_record_leaves_one_stretch_and_no_wrong_name(where):
    worker, _, gateway = run(Chain(stalls=[(where, 60, 2 * S)]))
    path = join([worker, gateway], expected_path=NAMES)
    verdict = judge(path, POLICY)
    (finding,) = verdict.findings

    assert path.absent == (PROXY,)
    assert finding.segment.label == f"{WORKER}>{GATEWAY}"
    assert finding.confidence < 0.8
    assert PROXY in verdict_answer(path, verdict, as_of=NOW, is_final=True)["sentence"].lower()


@report("R139", "what another hop did is named as ever where a third one has no record")
@pytest.mark.parametrize("missing", NAMES)
@pytest.mark.parametrize("where", STALLS)
def test_no_other_hop_is_ever_named_for_one_without_a_record(where, missing):
    hops = [hop for hop in run(Chain(stalls=[(where, 60, 2 * S)])) if hop.place.hop != missing]
    verdict = verdict_on(hops)
    for finding in verdict.findings:
        assert finding.first_hop == STALLS[where] or finding.confidence < 0.8


@report(
    "R139", "a request that was tried twice: both attempts are kept apart, and the one that answered is on the path"
)
@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_two_attempts_are_kept_apart(order):
    hops = tried_again(by=PROXY, ending=Ending.UPSTREAM_CUT)
    (request,) = requests_of([hops[n] for n in order])
    (path,) = paths(request, expected_path=NAMES)

    assert [hop.place.hop for hop in path.taps] == list(NAMES)
    assert [hop.place.hop for hop in path.others] == [WORKER]
    assert path.others[0].span_id != path.taps[0].span_id


@report("R139", "comments of one hop, and events that another one passes on three at a time, move no name")
@pytest.mark.parametrize("where", STALLS)
def test_comments_and_events_that_share_a_time_move_no_name(where):
    worker, proxy, gateway = run(Chain(stalls=[(where, 60, 2 * S)], collects={PROXY: 3}))
    commented = replace(gateway, traffic=replace(gateway.traffic, comment_count=5))

    assert named([worker, proxy, commented])[1] == STALLS[where]


@report("R139", "of streams of which every tenth lacks the middle hop, none names a wrong one")
def test_of_a_hundred_streams_with_holes_none_has_a_wrong_name():
    draw = random.Random(139)
    for number in range(100):
        where = draw.choice([None, *STALLS])
        stalls = [] if where is None else [(where, draw.randrange(10, 35), 2 * S)]
        hops = run(Chain(stalls=stalls, request_id=f"r{number}", merge={PROXY: draw.choice([1, 3])}))
        if number % 10 == 0:
            del hops[1]
        verdict = verdict_on(draw.sample(hops, len(hops)))
        sure = [finding for finding in verdict.findings if finding.confidence >= 0.8]
        assert all(finding.first_hop == STALLS[where] for finding in sure)
        assert (verdict.status is Status.NAMED) == bool(stalls)


# ------------------------------------------------------------------------------------------------- calls at once


@pytest.mark.parametrize("where", STALLS)
def test_a_model_that_is_asked_besides_changes_no_name(where):
    hops = run(Chain(stalls=[(where, 60, 2 * S)]))
    (guard, *_) = run(Chain(events=8, first=60 * MS))
    guard = replace(guard, span_id="9" * 16, place=replace(guard.place, hop="guard"))
    path = join([guard, *hops])
    verdict = judge(path, POLICY)

    assert verdict.findings[0].first_hop == STALLS[where]
    assert (verdict.findings[0].confidence >= 0.8) == (where == "source")  # an app may have waited for it
    assert verdict.missing == ("the part of a call of guard in this wait: it took 0.24 s and ended complete",)


# ------------------------------------------------------------------------------------------------- bursts of a hop


@report("R003", "a hop that holds 16 KB of small events is named for it, and the model is not")
@pytest.mark.parametrize("where", [PROXY, GATEWAY])
def test_a_hop_that_passes_on_66_events_at_a_time_is_named_and_not_the_model(where):
    hops = run(Chain(events=240, gap=250 * MS, chars=(40,), collects={where: 66}))

    assert named(hops) == (Cause.BUFFERING, where)
