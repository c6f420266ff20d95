"""The verdict: right on planted faults, silent on healthy streams, and unmoved by what must not matter."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from otel.decompose import Wait
from otel.findings import Cause, Policy, Reach, Status
from otel.hop import Blocked, End, Ending, EventClass, KernelSample, Phase, Side, Stamp, State
from otel.join import join
from otel.sentence import owner
from otel.timeline import thinned
from otel.verdict import judge
from tests.support.builders import WALL_NS, a_conversation, a_hop
from tests.support.chain import GATEWAY, MS, NAMES, PEAK, PROXY, WORKER, Chain, S, longest_wait, run, shifted

LOW_FIRST = Policy(first_event_ns=1 * S)
QUANTUM_OF_TIME = 8 * 25 * MS  # 32 characters at 4 characters each 25 ms


def verdict_on(chain: Chain, policy: Policy = LOW_FIRST):
    return judge(join(run(chain)), policy)


def named(chain: Chain, policy: Policy = LOW_FIRST) -> tuple[Cause, str]:
    verdict = verdict_on(chain, policy)
    assert verdict.status is Status.NAMED, verdict
    return verdict.cause, verdict.findings[0].first_hop


SIZES = pytest.mark.parametrize("size", [400 * MS, 2 * S, 40 * S])


@SIZES
def test_a_stall_of_the_source_is_named_at_the_model_worker(size):
    assert named(Chain(stalls=[("source", 60, size)])) == (Cause.SOURCE_STALL, WORKER)


@SIZES
@pytest.mark.parametrize("hop", [PROXY, GATEWAY])
def test_a_stall_of_an_app_is_named_at_its_hop(hop, size):
    assert named(Chain(stalls=[(hop, 60, size)])) == (Cause.APP_STALL, hop)


@pytest.mark.parametrize("where", ["source", PROXY, GATEWAY])
def test_a_slow_first_event_is_named_where_it_was_slow(where):
    expected = WORKER if where == "source" else where
    assert named(Chain(slow_first=[(where, 2 * S)])) == (Cause.SLOW_FIRST_EVENT, expected)


class TestAConversation:
    """In a WebSocket whoever speaks next is waited for, and nobody knows who that is."""

    def verdict(self, *hops):
        return judge(join(hops), LOW_FIRST)

    def path(self, *, held_s: float = 0.0):
        """Worker and gateway of one in which messages came after 30 s and after another minute."""
        received = [30.0, 30.5, 90.0]
        later = [received[0], received[1], received[2] + held_s]
        return (
            a_conversation("model-worker", received_s=received, sent_s=[29.0, 89.0]),
            a_conversation("gateway", received_s=[at + 1 for at in later], sent_s=[29.9, 89.9], wall_ns=WALL_NS - S),
        )

    def test_is_healthy_however_long_its_silences(self):
        verdict = self.verdict(*self.path())
        assert verdict.status is Status.HEALTHY, verdict
        assert (verdict.longest, verdict.first, verdict.rhythm.p90_ns) == (None, None, None)

    @pytest.mark.parametrize("ending", [Ending.COMPLETE, Ending.UNKNOWN_END])
    def test_may_end_without_a_word(self, ending):
        hops = [replace(hop, end=replace(hop.end, ending=ending)) for hop in self.path()]
        assert self.verdict(*hops).status is Status.HEALTHY

    def test_a_message_that_a_hop_holds_back_is_that_hops(self):
        verdict = self.verdict(*self.path(held_s=3.0))
        assert (verdict.cause, verdict.findings[0].first_hop) == (Cause.APP_STALL, "gateway")
        assert verdict.findings[0].term_ns == 3 * S

    def test_one_that_breaks_off_is_charged_all_the_same(self):
        end = End(Ending.UPSTREAM_CUT, Side.UPSTREAM, Phase.EVENTS, 0, cut="reset")
        verdict = self.verdict(*(replace(hop, end=end) for hop in self.path()))
        assert (verdict.cause, verdict.findings[0].first_hop) == (Cause.TRUNCATED, "model-worker")

    def test_is_never_lined_up_with_the_answers_that_it_carries(self):
        worker, talk = a_hop("model-worker"), self.path()[1]
        verdict = self.verdict(worker, talk)
        assert verdict.status is Status.INCONCLUSIVE
        assert not verdict.findings
        assert verdict.missing[-2:] == (
            "events of gateway could not be lined up with the others",
            "who was waited for, where messages of a WebSocket meet the events of an answer",
        )


def test_a_source_may_take_its_time_to_the_first_event():
    assert verdict_on(Chain(first=4 * S), Policy()).status is Status.HEALTHY


@pytest.mark.parametrize("hop", [PROXY, GATEWAY])
def test_an_app_that_buffers_is_named_for_buffering(hop):
    assert named(Chain(events=400, buffers=[(hop, 2 * S)])) == (Cause.BUFFERING, hop)


@pytest.mark.parametrize("hop", [PROXY, GATEWAY])
def test_one_release_of_a_buffer_is_a_hold_of_that_app(hop):
    cause, first_hop = named(Chain(events=60, buffers=[(hop, 2 * S)]))
    assert first_hop == hop
    assert cause in {Cause.APP_STALL, Cause.SLOW_FIRST_EVENT, Cause.BUFFERING}


@SIZES
def test_a_reader_that_stops_is_named_and_nobody_else(size):
    assert named(Chain(slow_reader=(60, size))) == (Cause.SLOW_READER, "client")


@pytest.mark.parametrize("hop", NAMES)
def test_a_frozen_sidecar_accuses_itself(hop):
    verdict = verdict_on(Chain(freeze=(hop, 60, 2 * S)))
    assert (verdict.cause, verdict.findings[0].first_hop) == (Cause.SELF, hop)
    assert {f.segment.label for f in verdict.findings} == {f"self:{hop}"}


def test_loss_on_the_last_link_is_the_network_and_never_a_slow_reader():
    verdict = verdict_on(Chain(lossy=(GATEWAY, 60, 2 * S)))
    assert verdict.cause is Cause.NETWORK
    assert Cause.SLOW_READER not in {f.cause for f in verdict.findings}


def test_loss_between_two_hops_is_the_network_between_them():
    verdict = verdict_on(Chain(lossy=(WORKER, 60, 2 * S)))
    assert (verdict.cause, verdict.findings[0].segment.label) == (Cause.NETWORK, f"{WORKER}>{PROXY}")


@pytest.mark.parametrize(("where", "hop"), [("source", WORKER), (PROXY, PROXY), (GATEWAY, GATEWAY)])
def test_a_cut_is_charged_to_the_segment_before_the_first_tap_that_saw_it(where, hop):
    assert named(Chain(cut=(where, 40))) == (Cause.TRUNCATED, hop)


def test_a_client_that_leaves_never_makes_a_hop_guilty():
    verdict = verdict_on(Chain(leave=40))
    assert (verdict.cause, verdict.findings[0].first_hop) == (Cause.CLIENT_DISCONNECT, "client")
    assert len(verdict.findings) == 1


@pytest.mark.parametrize(
    "chain",
    [
        Chain(),
        Chain(jitter=20 * MS),
        Chain(events=1_000, gap=5 * MS),
        Chain(events=30_000, gap=2 * MS),
        Chain(merge={PROXY: 4}),
        Chain(chars=(1, 9, 3)),
        Chain(schedule=[100_000] * 9 + [300 * MS], events=400),
        Chain(gap=1 * S, events=40),
        Chain(events=2),
        Chain(events=1),
    ],
    ids=lambda c: f"{c.events} events",
)
def test_a_healthy_stream_is_never_accused(chain):
    verdict = verdict_on(chain)
    assert verdict.status is not Status.NAMED, verdict.findings


def test_a_healthy_verdict_says_how_far_it_reaches():
    assert verdict_on(Chain()).observed_to is Reach.READER_KERNEL


def test_a_pause_of_an_unknown_source_is_inconclusive_until_its_rhythm_is_known():
    one_pause = Chain(schedule=[100_000] * 29 + [800 * MS], events=60)
    verdict = verdict_on(one_pause)
    assert verdict.status is Status.INCONCLUSIVE
    assert "rhythm" in verdict.missing[0]
    assert verdict_on(one_pause, Policy(rhythm_elsewhere_ns=5 * MS)).cause is Cause.SOURCE_STALL
    assert verdict_on(one_pause, Policy(rhythm_elsewhere_ns=700 * MS)).status is Status.HEALTHY


@pytest.mark.parametrize("hop", ["source", PROXY, GATEWAY])
@pytest.mark.parametrize("merge", [{PROXY: 7}, {GATEWAY: 3}, {PROXY: 5, GATEWAY: 2}])
def test_a_stall_beside_a_merging_hop_is_charged_where_it_was(hop, merge):
    chain = Chain(events=240, stalls=[(hop, 20 if hop == GATEWAY else 100, 2 * S)], merge=merge)
    assert named(chain)[1] == (WORKER if hop == "source" else hop)


def test_an_unfinished_answer_has_a_verdict_on_the_wait_so_far():
    hops = [
        replace(hop, state=State.OPEN, end=None, moments=replace(hop.moments, closed_ns=hop.moments.closed_ns + 9 * S))
        for hop in run(Chain(events=60))
    ]
    verdict = judge(join(hops), LOW_FIRST)
    assert (verdict.cause, verdict.findings[0].first_hop) == (Cause.SOURCE_STALL, WORKER)
    assert abs(verdict.findings[0].term_ns - 9 * S) < 50 * MS


def test_a_hop_that_holds_an_unfinished_answer_is_named_while_it_does():
    worker, *rest = run(Chain(events=60))
    cut = [
        replace(
            hop,
            state=State.OPEN,
            end=None,
            timeline=replace(hop.timeline, stamps=hop.timeline.stamps[:30]),
            moments=replace(hop.moments, closed_ns=hop.timeline.stamps[29].arrived_ns + 6 * S),
        )
        for hop in rest
    ]
    verdict = judge(join([worker, *cut]), LOW_FIRST)
    assert (verdict.cause, verdict.findings[0].first_hop) == (Cause.APP_STALL, PROXY)


# -------------------------------------------------------------------------------------------- properties

FAULTS = st.one_of(
    st.builds(
        lambda where, at, ms: Chain(stalls=[(where, at, ms * MS)]),
        st.sampled_from(["source", PROXY, GATEWAY]),
        st.integers(2, 110),
        st.integers(600, 20_000),
    ),
    st.builds(lambda at, ms: Chain(slow_reader=(at, ms * MS)), st.integers(2, 110), st.integers(600, 20_000)),
    st.builds(
        lambda hop, at, ms: Chain(freeze=(hop, at, ms * MS)),
        st.sampled_from(NAMES),
        st.integers(2, 110),
        st.integers(600, 20_000),
    ),
    st.builds(
        lambda where, at: Chain(cut=(where, at)), st.sampled_from(["source", PROXY, GATEWAY]), st.integers(1, 110)
    ),
    st.builds(lambda at: Chain(leave=at), st.integers(1, 110)),
    st.builds(lambda jitter: Chain(jitter=jitter * MS), st.integers(1, 40)),
    st.builds(lambda hop, ms: Chain(paces=[(hop, ms * MS)]), st.sampled_from([PROXY, GATEWAY]), st.integers(35, 900)),
    st.builds(lambda ms: Chain(sluggish=ms * MS), st.integers(35, 900)),
)


@given(FAULTS, st.lists(st.integers(-3_600 * S, 3_600 * S), min_size=3, max_size=3))
def test_shifting_wall_clocks_changes_nothing(chain, offsets):
    hops = run(chain)
    moved = [shifted(hop, wall_ns=offset) for hop, offset in zip(hops, offsets, strict=True)]
    assert judge(join(moved), LOW_FIRST) == judge(join(hops), LOW_FIRST)


@given(FAULTS)
def test_the_order_in_which_hops_arrive_changes_nothing(chain):
    hops = run(chain)
    verdicts = {repr(judge(join(order), LOW_FIRST)) for order in permutations(hops)}
    assert len(verdicts) == 1


@given(FAULTS)
def test_hops_on_one_clock_are_judged_as_hops_on_three(chain):
    assert judge(join(run(replace(chain, same_clock=True))), LOW_FIRST) == judge(join(run(chain)), LOW_FIRST)


@given(FAULTS, st.sampled_from([1, 2, 3]))
def test_terms_add_up_to_the_wait_at_the_reader(chain, merge):
    for chars in (chain, replace(chain, merge={PROXY: merge})):
        verdict = verdict_on(chars)
        for finding in verdict.findings:
            if finding.decomposition is not None:
                assert sum(finding.decomposition.terms.values()) == finding.decomposition.gap_ns
        if verdict.longest is not None:
            assert sum(verdict.longest.terms.values()) == verdict.longest.gap_ns


@given(FAULTS)
def test_quantised_positions_change_no_owner(chain):
    exact, rough = verdict_on(replace(chain, is_exact=True)), verdict_on(chain)
    assert (exact.status, exact.cause) == (rough.status, rough.cause)
    assert [f.segment for f in exact.findings[:1]] == [f.segment for f in rough.findings[:1]]


@given(
    st.sampled_from(["source", PROXY, GATEWAY]), st.integers(2, 110), st.integers(600, 20_000), st.integers(0, 30_000)
)
def test_a_longer_delay_raises_its_own_term_and_no_other(where, at, ms, more_ms):
    short = verdict_on(Chain(stalls=[(where, at, ms * MS)])).findings[0].decomposition
    long = verdict_on(Chain(stalls=[(where, at, (ms + more_ms) * MS)])).findings[0].decomposition
    assert short is not None
    assert long is not None
    raised = {segment.label: long.terms[segment] - ns for segment, ns in short.terms.items() if segment in long.terms}
    label = "source" if where == "source" else f"{NAMES[NAMES.index(where) - 1]}>{where}"
    for segment, ns in raised.items():
        assert abs(ns - (more_ms * MS if segment == label else 0)) <= MS


@given(st.sampled_from(["source", PROXY, GATEWAY]), st.integers(2, 110), st.integers(600, 20_000))
def test_the_term_of_the_planted_segment_is_the_planted_delay(where, at, ms):
    finding = verdict_on(Chain(stalls=[(where, at, ms * MS)])).findings[0]
    assert abs(finding.term_ns - ms * MS) <= max(50 * MS, QUANTUM_OF_TIME)


@given(FAULTS)
def test_the_wait_is_what_the_last_tap_stamped(chain):
    hops = run(chain)
    verdict = judge(join(hops), LOW_FIRST)
    finding = verdict.named
    if finding is None or finding.decomposition is None or finding.decomposition.wait is not Wait.GAP:
        return
    assert abs(finding.decomposition.gap_ns - longest_wait(hops[-1])) <= MS


@given(FAULTS, st.sampled_from(NAMES))
def test_a_late_hop_only_refines(chain, late):
    """Without the hop nobody is named outside the segment in which its findings lie."""
    hops = run(chain)
    whole = judge(join(hops, expected_path=NAMES), LOW_FIRST)
    part = judge(join([hop for hop in hops if hop.place.hop != late], expected_path=NAMES), LOW_FIRST)
    if whole.named is None or part.named is None:
        return
    assert part.named.confidence <= whole.named.confidence
    if late not in {whole.named.segment.upstream, whole.named.segment.downstream}:
        assert part.named.segment == whole.named.segment


@given(st.integers(0, 2**32))
def test_random_healthy_rhythms_of_a_seen_source_are_not_accused(seed):
    draw = random.Random(seed)
    kind = draw.choice(["steady", "bursty", "batching"])
    if kind == "steady":
        chain = Chain(events=draw.randrange(30, 600), gap=draw.randrange(5, 80) * MS, jitter=draw.randrange(1, 30) * MS)
        elsewhere = 60 * MS
    else:
        pause = draw.randrange(30, 600) * MS
        burst = draw.randrange(5, 40)
        schedule = [100_000] * burst + [pause + draw.randrange(max(1, pause // 3)) for _ in range(1)]
        chain = Chain(events=draw.randrange(60, 800), schedule=schedule)
        elsewhere = pause
    verdict = verdict_on(chain, Policy(rhythm_elsewhere_ns=elsewhere))
    assert verdict.status is Status.HEALTHY, verdict.findings


def hanging(*events: int, waited: int = 9 * S):
    """An answer still open: each hop has so many events and has waited since."""
    hops = []
    for hop, count in zip(run(Chain(events=60)), events, strict=True):
        stamps = hop.timeline.stamps[:count]
        silent_since = stamps[-1].arrived_ns if stamps else 0
        hops.append(
            replace(
                hop,
                state=State.OPEN,
                end=None,
                timeline=replace(hop.timeline, stamps=stamps),
                moments=replace(hop.moments, closed_ns=silent_since + waited),
            )
        )
    return judge(join(hops, expected_path=NAMES), LOW_FIRST)


@pytest.mark.parametrize(
    ("events", "cause", "hop"),
    [
        ((0, 0, 0), Cause.SLOW_FIRST_EVENT, WORKER),
        ((5, 0, 0), Cause.SLOW_FIRST_EVENT, PROXY),
        ((5, 5, 0), Cause.SLOW_FIRST_EVENT, GATEWAY),
        ((30, 30, 30), Cause.SOURCE_STALL, WORKER),
        ((40, 30, 30), Cause.APP_STALL, PROXY),
        ((40, 40, 30), Cause.APP_STALL, GATEWAY),
    ],
)
def test_an_answer_that_hangs_now_is_judged_by_what_each_hop_has(events, cause, hop):
    verdict = hanging(*events)
    assert (verdict.cause, verdict.findings[0].first_hop) == (cause, hop)


def test_a_client_that_gave_up_before_the_first_event_left_a_slow_source_behind():
    hops = [
        replace(
            hop,
            timeline=replace(hop.timeline, stamps=()),
            end=End(Ending.CLIENT_DISCONNECT, Side.DOWNSTREAM, Phase.FIRST_EVENT, 30 * S),
            moments=replace(
                hop.moments,
                upstream_ended_ns=None,
                downstream_ended_ns=None,
                client_left_ns=30 * S,
                closed_ns=30 * S + MS,
            ),
        )
        for hop in run(Chain())
    ]
    verdict = judge(join(hops, expected_path=NAMES), LOW_FIRST)
    assert [(f.cause, f.first_hop) for f in verdict.findings] == [
        (Cause.CLIENT_DISCONNECT, "client"),
        (Cause.SLOW_FIRST_EVENT, WORKER),
    ]


# ------------------------------------------------------------------------------------- hops without a record


def without(chain: Chain, *absent: str):
    """The verdict where these hops are known to stand on the path, and left no record."""
    return judge(join([hop for hop in run(chain) if hop.place.hop not in absent], expected_path=NAMES), LOW_FIRST)


@pytest.mark.parametrize("absent", [(GATEWAY,), (PROXY, GATEWAY)])
def test_behind_the_last_tap_nothing_is_healthy_where_a_hop_stands_there(absent):
    """Lab seed 7, cases 15, 16 and 18: a gateway without a sidecar held the answer back, and nobody could see it."""
    verdict = without(Chain(stalls=[(GATEWAY, 60, 2 * S)]), *absent)
    assert (verdict.status, verdict.observed_to) == (Status.INCONCLUSIVE, Reach.OUR_KERNEL)
    assert verdict.missing[-1].startswith(f"whether {' and '.join(absent)} passed it on in time")


def test_what_stands_behind_the_last_tap_excuses_nobody_before_it():
    assert without(Chain(stalls=[(PROXY, 60, 2 * S)]), GATEWAY).findings[0].first_hop == PROXY


def test_the_rhythm_of_a_source_excuses_no_hop_that_no_tap_tells_from_it():
    """Lab seed 3, cases 1, 3 and 6: what the proxy held back was shorter than the pauses of the source."""
    bursty = Chain(events=400, schedule=[100_000] * 15 + [700 * MS])
    for chain in (bursty, replace(bursty, stalls=[(PROXY, 200, 500 * MS)]), Chain(slow_first=[(PROXY, 700 * MS)])):
        verdict = without(chain, WORKER)
        assert verdict.status is Status.INCONCLUSIVE
        assert verdict.missing[-1].endswith(f"before {PROXY} are: no tap tells {WORKER} and {PROXY} apart")
    assert without(Chain(), WORKER).status is Status.HEALTHY, "nobody waited for as long as a hop may add"


def test_a_hop_without_a_record_between_two_taps_hides_nothing_of_a_healthy_answer():
    bursty = Chain(events=400, schedule=[100_000] * 15 + [700 * MS])
    assert without(bursty, PROXY).status is Status.HEALTHY
    assert without(Chain(stalls=[(PROXY, 60, 2 * S)]), PROXY).findings[0].first_hop == GATEWAY


@given(FAULTS, st.sets(st.sampled_from(NAMES), min_size=1, max_size=2))
def test_whoever_is_named_without_a_tap_is_not_far_from_whom_all_taps_name(chain, absent):
    """The hop itself, or the one at whose tap the segment ends that hides it."""
    whole, part = judge(join(run(chain), expected_path=NAMES), LOW_FIRST), without(chain, *absent)
    if part.named is None or whole.named is None:
        return
    order = [*NAMES, "client"]
    seen = [name for name in order if name not in absent]
    right = {next(name for name in seen if order.index(name) >= order.index(f.first_hop)) for f in whole.findings}
    assert part.named.first_hop in right


# ------------------------------------------------------------------------------- answers of several kinds

R, T, C = EventClass.REASONING, EventClass.TOOL, EventClass.CONTENT
AGENT = [(C, 40), (T, 80)]
THINKER = [(R, 400)]
KINDS = pytest.mark.parametrize(
    "phases",
    [AGENT, THINKER, [(R, 60), (C, 40), (T, 60)], [(T, 120)], [(R, 120)], [(EventClass.OPAQUE, 120)]],
    ids=["text then tool", "thinks first", "thinks, says, calls", "calls only", "thinks only", "unknown stream"],
)


@KINDS
def test_no_kind_of_answer_is_accused_when_healthy(phases):
    events = sum(count for _, count in phases) + (60 if phases is THINKER else 0)
    assert verdict_on(Chain(events=events, phases=phases)).status is Status.HEALTHY


@KINDS
@pytest.mark.parametrize("where", ["source", PROXY, GATEWAY])
def test_a_stall_is_named_in_every_kind_of_answer(phases, where):
    events = sum(count for _, count in phases) + (60 if phases is THINKER else 0)
    for at in (20, events // 2, events - 5):
        cause, hop = named(Chain(events=events, phases=phases, stalls=[(where, at, 3 * S)]))
        assert (cause, hop) == ((Cause.SOURCE_STALL, WORKER) if where == "source" else (Cause.APP_STALL, where))


def test_reasoning_that_a_hop_keeps_back_is_no_stall_of_anybody():
    verdict = verdict_on(Chain(events=460, phases=THINKER, strips={GATEWAY: R}))
    assert verdict.status is Status.HEALTHY
    assert [f.cause for f in verdict.findings] == [Cause.HIDDEN_OUTPUT]


@pytest.mark.parametrize("strips", [{}, {GATEWAY: R}])
def test_thoughts_do_not_excuse_the_time_before_them(strips):
    chain = Chain(events=460, first=7 * S, phases=THINKER, strips=strips)
    assert named(chain, Policy()) == (Cause.SLOW_FIRST_EVENT, WORKER)
    assert verdict_on(replace(chain, first=4 * S), Policy()).status is Status.HEALTHY


def test_a_source_that_falls_silent_while_it_thinks_is_named():
    chain = Chain(events=460, phases=THINKER, strips={GATEWAY: R}, stalls=[("source", 200, 30 * S)])
    assert named(chain)[1] == WORKER


def test_streams_without_positions_that_a_hop_merges_are_inconclusive():
    verdict = verdict_on(Chain(phases=[(EventClass.TOOL, 120)], merge={PROXY: 3}, stalls=[("source", 60, 3 * S)]))
    assert verdict.status is Status.INCONCLUSIVE
    assert "the hops saw different events" in verdict.missing[0]


def moved(hop, chars: int):
    """The hop as if it had passed on so many characters less at the beginning."""
    stamps = [
        replace(s, seq=i, position=max(0, s.position - chars), is_exact=False)
        for i, s in enumerate(hop.timeline.stamps[chars // 4 :])
    ]
    stamps = [replace(s, position=s.position // 32 * 32) for s in stamps]
    return replace(hop, timeline=replace(hop.timeline, stamps=tuple(stamps)))


@pytest.mark.parametrize("where", ["source", PROXY])
def test_a_gateway_that_rewrites_the_text_is_not_charged_with_what_others_show(where):
    worker, proxy, gateway = run(Chain(events=300, stalls=[(where, 200, 3 * S)]))
    verdict = judge(join([worker, proxy, moved(gateway, 240)]), LOW_FIRST)
    of_gaps = [finding for finding in verdict.findings if finding.decomposition.wait is Wait.GAP]
    right = WORKER if where == "source" else where
    assert verdict.status is Status.INCONCLUSIVE or all(finding.first_hop == right for finding in of_gaps[:1])
    assert all(finding.confidence < 0.6 for finding in verdict.findings)


def opaque(hop, *at: int, taken: int = MS):
    """The hop as one that saw so many opaque arrivals."""
    stamps = tuple(Stamp(i, ns, ns + taken, EventClass.OPAQUE, 0) for i, ns in enumerate(at))
    return replace(hop, timeline=replace(hop.timeline, stamps=stamps))


def test_a_large_body_that_came_in_other_pieces_is_healthy():
    hops = [
        opaque(hop, *(120 * MS + i * MS + k * 200_000 for k in range(3 + 2 * i))) for i, hop in enumerate(run(Chain()))
    ]
    hops = [replace(h, exchange=replace(h.exchange, is_stream=False, framing="opaque")) for h in hops]
    hops = [with_end(h, h.timeline.stamps[-1].taken_ns + MS) for h in hops]
    assert judge(join(hops)).status is Status.HEALTHY


def with_end(hop, at: int):
    moments = replace(hop.moments, upstream_ended_ns=at, downstream_ended_ns=at + 100_000, closed_ns=at + MS)
    return replace(hop, moments=moments)


def test_a_gateway_that_collects_the_stream_and_holds_it_is_named():
    worker, proxy, gateway = run(Chain())
    at = gateway.moments.upstream_ended_ns + 5 * S
    late = with_end(opaque(gateway, at), at + MS)
    assert judge(join([worker, proxy, late]), LOW_FIRST).findings[0].first_hop == GATEWAY


def test_an_attempt_that_was_lost_takes_its_part_of_the_blame():
    worker, proxy, gateway = run(Chain(slow_first=[(PROXY, 4 * S)]))
    lost = replace(
        with_end(worker, 4 * S),
        span_id="a" * 16,
        anchor=replace(
            worker.anchor, monotonic_ns=worker.anchor.monotonic_ns - 1, wall_ns=worker.anchor.wall_ns - 4 * S
        ),
        timeline=replace(worker.timeline, stamps=()),
        end=End(Ending.UPSTREAM_CUT, Side.UPSTREAM, Phase.HEADERS, 4 * S),
    )
    verdict = judge(join([lost, worker, proxy, gateway]), LOW_FIRST)
    assert any("another attempt at model-worker" in note for note in verdict.missing)
    assert verdict.findings[0].confidence < 0.8


def test_an_answer_that_is_not_streamed_takes_the_time_it_needs():
    hops = [
        replace(hop, exchange=replace(hop.exchange, is_stream=False, framing="opaque"))
        for hop in run(Chain(events=1, first=20 * S, phases=[(EventClass.OPAQUE, 1)]))
    ]
    assert judge(join(hops)).status is Status.HEALTHY


def test_the_share_of_a_hop_in_the_first_wait_is_judged_flat():
    chain = Chain(first=4900 * MS, slow_first=[(GATEWAY, 1500 * MS)])
    assert named(chain, Policy()) == (Cause.SLOW_FIRST_EVENT, GATEWAY)


def test_many_ordinary_pauses_of_the_source_hide_no_stall_of_a_hop():
    bursty = Chain(events=400, schedule=[100_000] * 15 + [1200 * MS], stalls=[(GATEWAY, 200, 1 * S)])
    assert named(bursty)[1] == GATEWAY


def test_a_text_that_a_hop_rewrites_lowers_the_confidence():
    whole = run(Chain(stalls=[(PROXY, 60, 3 * S)]))
    short = replace(
        whole[2],
        timeline=replace(
            whole[2].timeline,
            stamps=tuple(
                replace(s, position=max(0, s.position - 200) // 32 * 32) for s in whole[2].timeline.stamps[1:]
            ),
        ),
    )
    verdict = judge(join([*whole[:2], short]), LOW_FIRST)
    assert any("passed on other text" in note for note in verdict.missing)
    assert verdict.findings[0].confidence < 0.6


def test_a_fallback_that_the_reader_did_not_notice_is_no_error():
    worker, proxy, gateway = run(Chain())
    failed = replace(
        worker,
        exchange=replace(worker.exchange, status=503),
        timeline=replace(worker.timeline, stamps=()),
    )
    assert judge(join([failed, proxy, gateway]), LOW_FIRST).cause is not Cause.ERROR_EVENT


def test_an_answer_without_a_body_is_healthy():
    hops = [
        replace(hop, exchange=replace(hop.exchange, status=204), timeline=replace(hop.timeline, stamps=()))
        for hop in run(Chain())
    ]
    assert judge(join(hops)).status is Status.HEALTHY


# --------------------------------------------------------------------------- at the edges of an answer


@pytest.mark.parametrize("at", [0, 1, 118, 119])
def test_a_reader_that_stops_at_either_end_of_an_answer_is_named(at):
    assert named(Chain(slow_reader=(at, 3 * S))) == (Cause.SLOW_READER, "client")


def test_a_reader_that_lets_the_end_wait_is_named():
    hops = run(Chain())
    moments = hops[-1].moments
    ended = moments.downstream_ended_ns
    late = replace(
        hops[-1],
        moments=replace(moments, downstream_ended_ns=ended + 3 * S, closed_ns=ended + 4 * S),
        timeline=replace(hops[-1].timeline, blocked=(Blocked(ended, ended + 3 * S, None),)),
    )
    verdict = judge(join([*hops[:2], late]), LOW_FIRST)
    assert (verdict.cause, verdict.findings[0].first_hop) == (Cause.SLOW_READER, "client")
    assert verdict.findings[0].decomposition.wait is Wait.END


def test_an_end_that_is_lost_on_the_last_link_is_the_network():
    hops = run(Chain())
    ended, events = hops[-1].moments.downstream_ended_ns, hops[-1].traffic.event_count
    samples = [KernelSample(ended + i * 100 * MS, events, 1, 0, 65_536, 1, 4, 1) for i in range(1, 40)]
    samples.append(KernelSample(ended + 4 * S, events + 1, 0, 0, 65_536, 0, 0, 0))
    late = replace(hops[-1], timeline=replace(hops[-1].timeline, samples=tuple(samples)))
    verdict = judge(join([*hops[:2], late]), LOW_FIRST)
    assert verdict.cause is Cause.NETWORK
    assert verdict.findings[0].decomposition.wait is Wait.END


@pytest.mark.parametrize("told", [(16,), (2, 16), (2, 4, 8, 16)])
def test_a_reader_that_blocks_a_running_answer_is_named_however_often_it_was_told(told):
    worker, proxy, gateway = run(Chain(events=60))
    begin = gateway.timeline.stamps[-1].arrived_ns
    last = replace(gateway.timeline.stamps[-1], taken_ns=None)
    segments = [
        replace(
            gateway,
            span_id=f"{i:016x}",
            state=State.OPEN,
            end=None,
            segment_index=i,
            moments=replace(gateway.moments, upstream_ended_ns=None, downstream_ended_ns=None, closed_ns=begin + s * S),
            timeline=replace(
                gateway.timeline,
                stamps=(*gateway.timeline.stamps[:-1], last) if i == 0 else (),
                blocked=(Blocked(begin, begin + s * S, None),),
            ),
        )
        for i, s in enumerate(told)
    ]
    verdict = judge(join([worker, proxy, *segments]), LOW_FIRST)
    assert (verdict.cause, verdict.findings[0].first_hop) == (Cause.SLOW_READER, "client")


def test_the_round_trip_of_a_far_reader_is_no_fault():
    hops = run(Chain())
    taken = [s.taken_ns for s in hops[-1].timeline.stamps]
    rtt = 320 * MS
    samples = [
        KernelSample(at, sum(t + rtt <= at for t in taken), 9, 0, 65_536, 0, 0, 0)
        for at in range(taken[0] + 100 * MS, taken[-1] + rtt, 100 * MS)
    ]
    far = replace(hops[-1], timeline=replace(hops[-1].timeline, samples=tuple(samples), round_trip_ns=rtt))
    assert judge(join([*hops[:2], far]), LOW_FIRST).status is Status.HEALTHY


def test_a_thinned_timeline_shows_no_silence_where_events_were_left_out():
    hops = [replace(h, timeline=thinned(h.timeline)) for h in run(Chain(events=3_000))]
    assert judge(join(hops), LOW_FIRST).status is Status.HEALTHY
    stalled = [replace(h, timeline=thinned(h.timeline)) for h in run(Chain(events=3_000, stalls=[(PROXY, 900, 3 * S)]))]
    assert judge(join(stalled), LOW_FIRST).findings[0].first_hop == PROXY


@pytest.mark.parametrize("where", ["source", PROXY, GATEWAY])
def test_an_egress_tap_splits_a_segment_and_the_terms_still_add_up(where):
    verdict = verdict_on(Chain(stalls=[(where, 60, 3 * S)], egress=[PROXY]))
    assert verdict.findings[0].first_hop == (WORKER if where == "source" else where)
    decomposition = verdict.findings[0].decomposition
    assert sum(decomposition.terms.values()) == decomposition.gap_ns
    labels = [segment.label for segment in decomposition.terms]
    assert labels[2:6] == [
        f"{WORKER}>{PROXY} egress",
        f"self:{PROXY} egress",
        f"{PROXY} egress>{PROXY}",
        f"self:{PROXY}",
    ]


def test_where_an_egress_tap_ends_the_segment_its_hidden_app_is_named_and_not_the_one_behind_the_tap():
    """Lab seed 1, case 276: the record of one tap was late, and its app was taken for the next hop's."""
    hops = run(Chain(stalls=[(PROXY, 60, 3 * S)], egress=[PROXY, GATEWAY]))
    path = join([hop for hop in hops if hop.place.tap != PROXY])
    verdict = judge(path)
    assert (verdict.findings[0].first_hop, verdict.findings[0].confidence) == (PROXY, pytest.approx(0.6, abs=0.05))
    link = f"network between {PROXY} egress and {GATEWAY} egress"
    assert owner(path, verdict.findings[0].segment) == f"{PROXY} app or {link}"


def test_of_two_stalls_the_one_comes_first_of_which_the_reader_felt_more():
    """The gateway made up for most of the source's silence."""
    verdict = verdict_on(Chain(events=240, stalls=[(GATEWAY, 60, 2 * S), ("source", 64, 2_700 * MS)]))
    assert [(f.cause, f.first_hop) for f in verdict.findings] == [
        (Cause.APP_STALL, GATEWAY),
        (Cause.SOURCE_STALL, WORKER),
    ]


# ------------------------------------------------------------------------- what must never change a verdict, or does

MERGERS = st.dictionaries(st.sampled_from([PROXY, GATEWAY]), st.integers(2, 3), max_size=2)
"""Such as hold an event for less than a hop may add."""
SPLITTERS = st.dictionaries(st.sampled_from([PROXY, GATEWAY]), st.integers(2, 4), max_size=1)


@given(st.integers(1, 110), st.integers(0, 40), st.sampled_from([(4,), (1, 9, 3)]))
def test_a_client_that_leaves_makes_no_hop_above_it_guilty(at, jitter, chars):
    verdict = verdict_on(Chain(leave=at, jitter=jitter * MS, chars=chars))
    assert [(f.cause, f.first_hop) for f in verdict.findings] == [(Cause.CLIENT_DISCONNECT, "client")]


@given(st.sampled_from(NAMES), st.integers(2, 110), st.integers(300, 20_000), MERGERS)
def test_a_freeze_of_a_sidecar_names_nobody_else(hop, at, ms, merge):
    verdict = verdict_on(Chain(events=600, freeze=(hop, at, ms * MS), merge=merge), STEADY)
    named = [f for f in verdict.findings if f.term_ns >= STEADY.floor_ns]
    assert {(f.cause, f.segment.label) for f in named} == {(Cause.SELF, f"self:{hop}")}


@given(st.sampled_from(NAMES), st.integers(2, 110), st.integers(600, 20_000), st.booleans())
def test_loss_is_the_network_behind_its_tap_and_never_a_slow_reader(hop, at, ms, is_exact):
    verdict = verdict_on(Chain(lossy=(hop, at, ms * MS), is_exact=is_exact))
    behind = [*NAMES, "client"][NAMES.index(hop) + 1]
    assert {(f.cause, f.segment.label) for f in verdict.findings} == {(Cause.NETWORK, f"{hop}>{behind}")}


@example(where="source", at=41, ms=600, hops=({PROXY: 3, GATEWAY: 3}, {GATEWAY: 2}), is_exact=True)
@given(
    where=st.sampled_from(["source", PROXY, GATEWAY]),
    at=st.integers(20, 60),
    ms=st.integers(600, 20_000),
    hops=st.tuples(MERGERS, SPLITTERS),
    is_exact=st.booleans(),
)
def test_a_stall_beside_hops_that_merge_and_split_is_charged_where_it_was(where, at, ms, hops, is_exact):
    chain = Chain(events=600, stalls=[(where, at, ms * MS)], merge=hops[0], split=hops[1], is_exact=is_exact)
    named = [f for f in verdict_on(chain, STEADY).findings if f.term_ns >= STEADY.floor_ns]
    assert {f.first_hop for f in named} == {WORKER if where == "source" else where}


STEADY = Policy(rhythm_elsewhere_ns=30 * MS)
"""Of a source that is known to be steady."""
ADDED = {
    "link": lambda ns: Chain(lossy=(WORKER, 60, ns)),
    "last link": lambda ns: Chain(lossy=(GATEWAY, 60, ns)),
    "sidecar": lambda ns: Chain(freeze=(PROXY, 60, ns)),
    "reader": lambda ns: Chain(slow_reader=(60, ns)),
    "first": lambda ns: Chain(slow_first=[(PROXY, ns)]),
}


@given(st.sampled_from(sorted(ADDED)), st.integers(600, 9_000), st.integers(100, 9_000))
def test_more_delay_raises_its_own_term_by_as_much_and_no_other(where, ms, more_ms):
    short, long = (verdict_on(ADDED[where](ns * MS)).findings[0] for ns in (ms, ms + more_ms))
    raised = {s.label: long.decomposition.terms[s] - ns for s, ns in short.decomposition.terms.items()}
    assert raised.pop(short.segment.label) == pytest.approx(more_ms * MS, abs=MS)
    assert all(abs(ns) <= MS for ns in raised.values())


@pytest.mark.parametrize(("is_lossy", "status"), [(True, Status.INCONCLUSIVE), (False, Status.NAMED)])
def test_a_short_stop_behind_a_link_that_loses_is_not_told_from_a_word_that_was_lost(is_lossy, status):
    """A window of 4 KB behind a link with 3 % loss: the reader read all the time, and its window seemed shut."""
    *inner, last = run(Chain(slow_reader=(60, 450 * MS)))
    first = last.timeline.samples[0]
    lost = replace(first, offset_ns=S, acked_count=30, window_bytes=PEAK, lost_segments=int(is_lossy))
    mended = replace(
        lost, offset_ns=S + 100 * MS, acked_count=40, in_flight_segments=0, unsent_bytes=0, lost_segments=0
    )
    samples = (lost, mended, *last.timeline.samples)
    verdict = judge(join([*inner, replace(last, timeline=replace(last.timeline, samples=samples))]))
    assert verdict.status is status
    assert [finding.cause for finding in verdict.findings] == [Cause.NETWORK if is_lossy else Cause.SLOW_READER]
    assert verdict.missing[:1] == (
        ("whether client did not read or a link that loses lost the word that it has room again",) if is_lossy else ()
    )
