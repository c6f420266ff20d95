"""The reader's own record on a path: what it shows that no tap can, and that it names nobody else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel import decompose
from otel.findings import Cause, Policy, Reach, Status
from otel.hop import End, Ending, Moments, Phase, Side, TapRole
from otel.join import join
from otel.known import Known
from otel.lineup import line_up
from otel.query import timeline_answer, verdict_answer
from otel.span import hop_to_span, span_to_hop
from otel.verdict import judge
from otel.view.answers import read_timeline
from otel.view.palette import Look
from otel.view.picture import timeline
from tests.support.chain import GATEWAY, MS, NAMES, PROXY, WORKER, Chain, S, run

POLICY = Policy(first_event_ns=1 * S)
RECORDED = Chain(has_record=True)
LATE = 2 * S


def verdict_on(chain: Chain):
    return judge(join(run(chain)), POLICY)


def answer_on(chain: Chain):
    path = join(run(chain))
    return verdict_answer(path, judge(path, POLICY), as_of="2030-01-01T00:00:00.000Z", is_final=True)


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        (Chain(has_record=True, unread=(60, LATE)), (Cause.SLOW_READER, "client", f"{GATEWAY}>client")),
        (Chain(has_record=True, unconsumed=(60, LATE)), (Cause.UI_BLOCKED, "client", "ui")),
        (Chain(has_record=True, unconsumed=(0, LATE)), (Cause.UI_BLOCKED, "client", "ui")),
        (Chain(has_record=True, unread=(0, LATE)), (Cause.SLOW_FIRST_EVENT, "client", f"{GATEWAY}>client")),
        (Chain(has_record=True, lossy=(GATEWAY, 60, LATE)), (Cause.NETWORK, "client", f"{GATEWAY}>client")),
        (Chain(has_record=True, slow_reader=(60, LATE)), (Cause.SLOW_READER, "client", f"{GATEWAY}>client")),
        (Chain(has_record=True, stalls=[(PROXY, 60, LATE)]), (Cause.APP_STALL, PROXY, f"{WORKER}>{PROXY}")),
        (Chain(has_record=True, stalls=[("source", 60, LATE)]), (Cause.SOURCE_STALL, WORKER, "source")),
        (Chain(has_record=True, freeze=(GATEWAY, 60, LATE)), (Cause.SELF, GATEWAY, f"self:{GATEWAY}")),
        (Chain(has_record=True, sluggish=50 * MS), (Cause.SLOW_READER, "client", f"{GATEWAY}>client")),
    ],
)
def test_a_fault_is_named_where_it_was(chain, expected):
    (finding, *others) = verdict_on(chain).findings
    assert (finding.cause, finding.first_hop, finding.segment.label) == expected
    assert not others


def test_what_fits_into_the_kernel_of_a_reader_that_stopped_is_seen_by_its_record_alone():
    unread = Chain(unread=(60, LATE))
    taps_only, recorded = verdict_on(unread), verdict_on(replace(unread, has_record=True))
    assert (taps_only.status, taps_only.observed_to) == (Status.HEALTHY, Reach.READER_KERNEL)
    assert (recorded.cause, recorded.observed_to) == (Cause.SLOW_READER, Reach.CONSUMED)


def test_a_healthy_answer_is_said_to_be_consumed():
    verdict = verdict_on(RECORDED)
    assert (verdict.status, verdict.observed_to) == (Status.HEALTHY, Reach.CONSUMED)
    assert not verdict.missing


def test_a_record_that_does_not_say_when_it_consumed_reaches_as_far_as_it_received():
    def received_only(hops):
        stamps = tuple(replace(s, taken_ns=None) for s in hops[-1].timeline.stamps)
        return [*hops[:-1], replace(hops[-1], timeline=replace(hops[-1].timeline, stamps=stamps))]

    healthy = judge(join(received_only(run(RECORDED))), POLICY)
    assert (healthy.status, healthy.observed_to) == (Status.HEALTHY, Reach.RECEIVED)
    unread = judge(join(received_only(run(Chain(has_record=True, unread=(60, LATE))))), POLICY)
    assert (unread.cause, unread.findings[0].term_ns) == (Cause.SLOW_READER, pytest.approx(LATE, abs=MS))


@given(
    st.sampled_from(["source", PROXY, GATEWAY, "unread", "unconsumed"]),
    st.integers(1, 118),
    st.integers(300 * MS, 20 * S),
    st.booleans(),
    st.sampled_from([(), (PROXY,), (PROXY, GATEWAY)]),
)
def test_a_delay_raises_its_own_term_and_the_terms_add_up_to_the_wait(where, event, size, is_exact, egress):
    base = Chain(has_record=True, is_exact=is_exact, egress=egress)
    if where in {"unread", "unconsumed"}:
        chain, label = replace(base, **{where: (event, size)}), {"unread": f"{GATEWAY}>client", "unconsumed": "ui"}
        expected = label[where]
    else:
        chain = replace(base, stalls=[(where, event, size)])
        expected = {"source": "source", GATEWAY: f"{PROXY}>{GATEWAY}"}.get(where, "")
        expected = expected or f"{WORKER}>{PROXY}"
        if where in egress:
            expected = f"{where} egress>{where}"
    verdict = verdict_on(chain)
    (finding, *_) = verdict.findings
    wait = finding.decomposition
    assert wait is not None
    assert finding.segment.label == expected
    assert finding.term_ns == pytest.approx(size, abs=30 * MS)
    assert sum(wait.terms.values()) == wait.gap_ns
    assert all(abs(ns) <= 30 * MS for segment, ns in wait.terms.items() if segment.label != expected)


def test_a_record_that_began_after_the_request_hides_no_late_first_output():
    """Some clients begin to count when the head of the answer is there."""
    *taps, record = run(Chain(has_record=True, slow_first=[(GATEWAY, LATE)]))
    stamps = tuple(
        replace(s, arrived_ns=s.arrived_ns - LATE, taken_ns=(s.taken_ns or 0) - LATE) for s in record.timeline.stamps
    )
    ended_ns = record.moments.closed_ns - LATE
    late = replace(
        record,
        timeline=replace(record.timeline, stamps=stamps),
        moments=Moments(upstream_ended_ns=ended_ns, downstream_ended_ns=ended_ns, closed_ns=ended_ns),
    )
    for reader in (record, late):
        (finding, *others) = judge(join([*taps, reader]), POLICY).findings
        assert (finding.cause, finding.first_hop, others) == (Cause.SLOW_FIRST_EVENT, GATEWAY, [])
        assert finding.decomposition is not None
        assert sum(finding.decomposition.terms.values()) == finding.decomposition.gap_ns
        assert finding.decomposition.gap_ns > LATE


def test_the_record_of_a_client_is_the_last_lane_and_nothing_lies_behind_it():
    lineup, _ = line_up(join(run(RECORDED)).taps)
    assert lineup is not None
    labels = [segment.label for segment in decompose.gap_before(lineup, 5).terms]
    assert labels[-3:] == [f"self:{GATEWAY}", f"{GATEWAY}>client", "ui"]


def test_of_several_clients_the_outermost_is_the_reader():
    hops = run(RECORDED)
    inner = replace(
        hops[-1],
        span_id="b" * 16,
        place=replace(hops[-1].place, hop="bff"),
        timeline=replace(
            hops[-1].timeline,
            stamps=tuple(replace(s, arrived_ns=s.arrived_ns - 20 * MS) for s in hops[-1].timeline.stamps),
        ),
    )
    path = join([inner, *hops])
    assert [hop.place.hop for hop in path.taps] == [*NAMES, "browser"]
    assert path.missing == ("the record of bff is left out: of several clients the outermost is the reader",)


class TestAnEnd:
    """What a reader says of its own end."""

    def hops(self, ending: Ending, side: Side, *, gateway: Ending = Ending.CLIENT_DISCONNECT):
        *taps, record = run(Chain(leave=60, has_record=True))
        taps[-1] = replace(taps[-1], end=End(gateway, Side.DOWNSTREAM, Phase.EVENTS, MS))
        return [*taps, replace(record, end=End(ending, side, Phase.EVENTS, MS))]

    @pytest.mark.parametrize("ending", [Ending.CLIENT_DISCONNECT, Ending.UNKNOWN_END])
    def test_a_reader_that_left_is_named_as_it_is_without_its_record(self, ending):
        verdict = judge(join(self.hops(ending, Side.DOWNSTREAM)), POLICY)
        finding = verdict.findings[0]
        assert (finding.cause, finding.segment.label) == (Cause.CLIENT_DISCONNECT, f"{GATEWAY}>client")

    def test_a_reader_that_did_not_leave_was_cut_off_on_the_way_to_it(self):
        path = join(self.hops(Ending.UPSTREAM_CUT, Side.UPSTREAM))
        verdict = judge(path, POLICY)
        answer = verdict_answer(path, verdict, as_of="2030-01-01T00:00:00.000Z", is_final=True)
        assert (answer["cause"], answer["first_hop"]) == ("truncated", "client")
        assert answer["owner"] == "client or the network between gateway and client"


def test_a_record_is_a_client_span_and_comes_back_as_it_was():
    record = run(RECORDED)[-1]
    span = hop_to_span(record)
    assert span.kind == 3
    assert span_to_hop(span) == record


def test_a_record_that_is_not_made_is_not_missed():
    known = Known()
    for _ in range(10):
        path = join(run(RECORDED))
        known.learn(path, judge(path))
    assert known.expected_path([WORKER], "tiny") == NAMES


def test_the_picture_has_a_lane_for_it_and_says_where_it_was_late():
    path = join(run(Chain(has_record=True, unconsumed=(60, LATE))))
    verdict = judge(path, POLICY)
    answer = verdict_answer(path, verdict, as_of="2030-01-01T00:00:00.000Z", is_final=True)
    text = timeline(read_timeline(timeline_answer(path, verdict, answer)), Look(width=100, is_ascii=True))
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("browser"))
    assert "ui_blocked  +2.00 s  client" in lines[at + 2]
    assert lines[at + 3].startswith("consumed")


def test_the_other_roles_keep_their_names():
    assert [hop.place.role for hop in run(RECORDED)][-1] is TapRole.CLIENT
    assert [hop.place.tap for hop in run(replace(RECORDED, egress=[PROXY]))] == [
        WORKER,
        f"{PROXY} egress",
        PROXY,
        GATEWAY,
        "client",
    ]
