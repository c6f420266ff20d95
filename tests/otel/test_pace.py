"""Falling behind: named where it was, by as much as was planted, and never where each wait explains itself."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.decompose import Wait
from otel.findings import Cause, Policy, Status
from otel.hop import Blocked, Hop, KernelSample
from otel.join import join
from otel.lineup import line_up
from otel.pace import fell_behind, gaps_of
from otel.timeline import thinned
from otel.verdict import judge
from tests.support.chain import GATEWAY, MS, NAMES, PROXY, WORKER, Chain, S, run

BEHIND_NS = Policy().behind_ns


def lineup_of(hops):
    lineup, _ = line_up(join(hops).taps)
    assert lineup is not None
    return lineup


def behind(hops):
    return {b.segment.label: b for b in fell_behind(lineup_of(hops), limit_ns=BEHIND_NS)}


def named(chain: Chain):
    verdict = judge(join(run(chain)))
    assert verdict.status is Status.NAMED, verdict
    return verdict.findings[0]


SLOW = pytest.mark.parametrize("every", [35 * MS, 60 * MS, 400 * MS], ids=lambda ns: f"{ns // MS} ms")


class TestWhoIsNamed:
    @SLOW
    @pytest.mark.parametrize("hop", [PROXY, GATEWAY])
    def test_an_app_that_passes_events_on_too_slowly(self, hop, every):
        finding = named(Chain(paces=[(hop, every)]))
        assert (finding.cause, finding.first_hop) == (Cause.THROTTLING, hop)
        assert finding.confidence >= 0.8

    @SLOW
    def test_a_reader_that_takes_events_too_slowly(self, every):
        finding = named(Chain(sluggish=every))
        assert (finding.cause, finding.first_hop) == (Cause.SLOW_READER, "client")

    @SLOW
    @pytest.mark.parametrize(("hop", "link"), [(WORKER, f"{WORKER}>{PROXY}"), (GATEWAY, f"{GATEWAY}>client")])
    def test_a_link_that_is_too_narrow(self, hop, link, every):
        finding = named(Chain(narrow=(hop, every)))
        assert (finding.cause, finding.segment.label) == (Cause.NETWORK, link)

    def test_a_link_that_loses_is_the_network_though_the_window_is_full(self):
        """While a lost segment is missing a small window stays full, and looks like a slow reader's."""
        *inner, last = run(Chain(sluggish=60 * MS))
        lossy = tuple(replace(s, lost_segments=1, congestion_state=4) for s in last.timeline.samples)
        verdict = judge(join([*inner, replace(last, timeline=replace(last.timeline, samples=lossy))]))
        assert (verdict.cause, verdict.findings[0].where.value) == (Cause.NETWORK, "in the network")

    @SLOW
    def test_a_reader_with_too_little_room_for_its_way_is_not_told_from_the_way(self, every):
        verdict = judge(join(with_little_room(run(Chain(narrow=(GATEWAY, every))), every)))
        assert (verdict.status, verdict.cause) == (Status.INCONCLUSIVE, Cause.NONE)
        assert verdict.findings[0].confidence < 0.8
        (why,) = verdict.missing
        assert why.startswith(
            "whether client has too little room or the way to it is too long: its window of 400 bytes"
        )

    def test_a_reader_that_stops_is_named_though_it_has_too_little_room_as_well(self):
        *inner, last = with_little_room(run(Chain(narrow=(GATEWAY, 60 * MS))), 60 * MS)
        before = [s for s in last.timeline.samples if s.acked_count <= 8]
        stop = [KernelSample(before[-1].offset_ns + k * 100 * MS, 8, 0, 4096, 0, 0, 0, 0) for k in range(1, 21)]
        after = [replace(s, offset_ns=s.offset_ns + 2 * S) for s in last.timeline.samples if s.acked_count > 8]
        samples = (*before, *stop, *after)
        verdict = judge(join([*inner, replace(last, timeline=replace(last.timeline, samples=samples))]))
        finding = verdict.findings[0]
        assert (verdict.status, finding.cause, finding.first_hop) == (Status.NAMED, Cause.SLOW_READER, "client")
        assert abs(finding.term_ns - 2 * S) <= 200 * MS
        assert verdict.missing[0].startswith("whether client has too little room")

    def test_a_hop_whose_kernel_is_never_asked_is_named_with_less_confidence(self):
        hops = [
            replace(h, timeline=replace(h.timeline, window_peak_bytes=None))
            for h in run(Chain(paces=[(PROXY, 60 * MS)]))
        ]
        finding = judge(join(hops)).findings[0]
        assert (finding.cause, finding.first_hop) == (Cause.THROTTLING, PROXY)
        assert finding.confidence < 0.8

    def test_our_own_sidecar(self):
        """Each hand-over takes a little longer than the one before."""
        worker, proxy, gateway = run(Chain())
        late = tuple(replace(s, taken_ns=s.taken_ns + k * 20 * MS) for k, s in enumerate(proxy.timeline.stamps))
        after = tuple(
            replace(s, arrived_ns=s.arrived_ns + k * 20 * MS, taken_ns=s.taken_ns + k * 20 * MS)
            for k, s in enumerate(gateway.timeline.stamps)
        )
        hops = [worker, with_stamps(proxy, late), with_stamps(gateway, after)]
        assert list(behind(hops)) == [f"self:{PROXY}"]
        verdict = judge(join(hops))
        assert (verdict.cause, verdict.findings[0].first_hop) == (Cause.SELF, PROXY)

    def test_the_hop_beside_one_that_merges(self):
        for merge in ({PROXY: 3}, {GATEWAY: 3}):
            finding = named(Chain(events=400, paces=[(PROXY, 60 * MS)], merge=merge))
            assert (finding.cause, finding.first_hop) == (Cause.THROTTLING, PROXY)

    def test_the_reader_while_all_hops_are_held_up_behind_each_other(self):
        """Nothing buffers: every tap is blocked, and the source has to wait as well."""
        hops = held_up(run(Chain(events=400)), after=40, every=60 * MS)
        assert list(behind(hops)) == [f"{GATEWAY}>client"]
        finding = judge(join(hops)).findings[0]
        assert (finding.cause, finding.first_hop) == (Cause.SLOW_READER, "client")
        assert (
            abs(finding.term_ns - 359 * 34 * MS) <= 100 * MS
        )  # blocked for 59 ms each, and the source would have taken 25


def with_little_room(hops: list[Hop], every: int) -> list[Hop]:
    """The reader's window holds two events of 200 bytes, and they are under way for as long as two take."""
    *inner, last = hops
    samples = tuple(replace(s, window_bytes=400) for s in last.timeline.samples)
    far = replace(last.timeline, samples=samples, window_peak_bytes=400, round_trip_ns=2 * every)
    return [*inner, replace(last, timeline=far)]


def with_stamps(hop: Hop, stamps) -> Hop:
    end = stamps[-1].taken_ns + MS
    moments = replace(hop.moments, upstream_ended_ns=end, downstream_ended_ns=end + MS, closed_ns=end + 2 * MS)
    return replace(hop, timeline=replace(hop.timeline, stamps=tuple(stamps)), moments=moments)


def held_up(hops, *, after: int, every: int):
    """The hops as if nobody had room from an event on, and the reader took one in so long."""
    made = []
    for hop in hops:
        stamps, blocked, samples = list(hop.timeline.stamps), [], []
        for k in range(after, len(stamps)):
            at = stamps[after].arrived_ns + (k - after) * every
            stamps[k] = replace(stamps[k], arrived_ns=at, taken_ns=at + every - MS)
            blocked.append(Blocked(at, at + every - MS, 16_384))
            samples.append(KernelSample(at + every // 2, k, 0, 4_096, 0, 0, 0, 0))
        timeline = replace(hop.timeline, blocked=tuple(blocked), samples=tuple(samples))
        made.append(with_stamps(replace(hop, timeline=timeline), stamps))
    return made


class TestWhatIsNotFallingBehind:
    @pytest.mark.parametrize(
        "chain",
        [
            Chain(events=400, buffers=[(PROXY, 2 * S)]),
            Chain(events=400, buffers=[(PROXY, 300 * MS)]),
            Chain(stalls=[(PROXY, 60, 2 * S)]),
            Chain(stalls=[(PROXY, 30, 1 * S), (PROXY, 90, 1 * S)]),
            Chain(slow_reader=(60, 5 * S)),
            Chain(lossy=(GATEWAY, 60, 2 * S)),
            Chain(freeze=(PROXY, 60, 2 * S)),
            Chain(slow_first=[(PROXY, 3 * S)]),
            Chain(stalls=[("source", k, 400 * MS) for k in range(10, 110, 5)]),
        ],
        ids=["buffers", "short holds", "stall", "two stalls", "reader stops", "loss", "freeze", "late first", "source"],
    )
    def test_waits_that_explain_themselves(self, chain):
        assert not behind(run(chain))

    def test_less_than_the_limit(self):
        assert not behind(run(Chain(events=120, paces=[(PROXY, 29 * MS)])))  # 0.48 s in all
        assert behind(run(Chain(events=140, paces=[(PROXY, 29 * MS)])))

    def test_a_flood_that_some_hop_carries_more_slowly_than_it_came(self):
        """The reader had a thousand events a second, and cannot have waited."""
        assert not behind(run(Chain(events=3_000, gap=100_000, paces=[(PROXY, 1 * MS)])))

    def test_what_the_next_hop_made_up_for(self):
        worker, proxy, gateway = run(Chain(paces=[(PROXY, 60 * MS)]))
        on_time = run(Chain())[2]
        early = [
            replace(s, arrived_ns=t.arrived_ns, taken_ns=t.taken_ns)
            for s, t in zip(gateway.timeline.stamps, on_time.timeline.stamps, strict=True)
        ]
        assert not behind([worker, proxy, with_stamps(gateway, early)])

    def test_a_text_that_a_hop_cut_short(self):
        """Where less text comes out than went in, its last character is not the same as before."""
        worker, proxy, gateway = run(Chain(events=600))
        shorter = [replace(s, position=s.position * 3 // 4 // 32 * 32) for s in gateway.timeline.stamps[::2]]
        shorter = [replace(s, seq=i) for i, s in enumerate(shorter)]
        assert not behind([worker, proxy, with_stamps(gateway, shorter)])

    def test_a_record_of_which_events_were_left_out(self):
        hops = run(Chain(events=400, paces=[(PROXY, 60 * MS)]))
        assert behind(hops)
        assert not behind([replace(h, timeline=thinned(h.timeline)) for h in hops])

    def test_an_answer_that_is_not_streamed(self):
        hops = run(Chain(paces=[(PROXY, 60 * MS)]))
        assert not behind([replace(h, exchange=replace(h.exchange, is_stream=False)) for h in hops])

    @pytest.mark.parametrize("taps", [3, 1])
    @pytest.mark.parametrize("unread", [None, 0, 200])
    def test_a_reader_that_takes_each_event_slowly_but_before_the_next(self, taps, unread):
        """Blocked for 20 of 25 ms all the time, and never behind."""
        hops = run(Chain(events=400))
        stamps, blocked = list(hops[-1].timeline.stamps), []
        for k in range(40, 400):
            at = stamps[k].arrived_ns
            stamps[k] = replace(stamps[k], taken_ns=at + 22 * MS)
            blocked.append(Blocked(at, at + 22 * MS, unread))
        slow = replace(hops[-1], timeline=replace(hops[-1].timeline, blocked=tuple(blocked)))
        assert not behind([*hops[:-1], with_stamps(slow, stamps)][-taps:])


class TestSeveralFaults:
    def test_a_stall_and_a_slow_app_at_one_hop_are_both_told(self):
        chain = Chain(events=400, paces=[(PROXY, 30 * MS)], stalls=[(PROXY, 4, 6 * S)], gap=25 * MS)
        hops = run(chain)
        assert abs(behind(hops)[f"{WORKER}>{PROXY}"].term_ns - 395 * 5 * MS) <= 150 * MS
        assert [f.cause for f in judge(join(hops)).findings] == [Cause.APP_STALL, Cause.THROTTLING]

    def test_single_waits_in_a_stretch_are_part_of_it(self):
        """Each of its events comes 0.4 s after the one before: that is no buffering and no hold."""
        verdict = judge(join(run(Chain(paces=[(PROXY, 400 * MS)]))))
        assert [f.cause for f in verdict.findings] == [Cause.THROTTLING]
        assert verdict.findings[0].decomposition.wait is Wait.PACE

    @given(st.lists(st.integers(300, 3_000), min_size=3, max_size=3))
    def test_are_told_in_the_order_of_their_terms(self, sizes):
        planted = dict(zip(NAMES, (ms * MS for ms in sizes), strict=True))
        places = zip(("source", PROXY, GATEWAY), (20, 150, 280), planted.values(), strict=True)
        findings = judge(join(run(Chain(events=400, stalls=list(places))))).findings
        assert {f.first_hop for f in findings} == set(NAMES)
        assert all(abs(f.term_ns - planted[f.first_hop]) <= 50 * MS for f in findings)
        assert [f.term_ns for f in findings] == sorted((f.term_ns for f in findings), reverse=True)

    @given(st.integers(30, 300), st.integers(700, 20_000), st.sampled_from(["source", GATEWAY]))
    def test_a_slow_app_and_a_stall_elsewhere_are_both_told(self, every_ms, stall_ms, where):
        hops = run(Chain(paces=[(PROXY, every_ms * MS)], stalls=[(where, 119, stall_ms * MS)]))
        owed = behind(hops)[f"{WORKER}>{PROXY}"].term_ns
        findings = judge(join(hops)).findings
        assert [f.felt_ns for f in findings] == sorted((f.felt_ns for f in findings), reverse=True)
        assert PROXY in {f.first_hop for f in findings if f.term_ns == owed}
        if where == GATEWAY:
            assert GATEWAY in {f.first_hop for f in findings}


# ------------------------------------------------------------------------------------------------ properties


@given(
    st.sampled_from([PROXY, GATEWAY]),
    st.integers(60, 400),
    st.integers(5, 80),
    st.integers(1, 200),
    st.booleans(),
)
def test_the_term_is_the_planted_delay(hop, events, gap_ms, slower_ms, merges):
    """Told from half a second on, at the planted hop only, whatever another one does to the events."""
    merge = {GATEWAY: 4} if merges and hop == PROXY else {}
    chain = Chain(events=events, gap=gap_ms * MS, merge=merge, chars=(5,))
    every = (gap_ms + slower_ms) * MS
    found = behind(run(replace(chain, paces=[(hop, every)])))
    planted = (events - 1) * slower_ms * MS
    slack = 14 * every if merge else 10 * MS  # where the reader's last text begins is known to within a group
    label = f"{NAMES[NAMES.index(hop) - 1]}>{hop}"
    if planted > BEHIND_NS + slack + planted // 50:
        assert list(found) == [label]
        assert abs(found[label].term_ns - planted) <= slack
    else:
        assert set(found) <= {label}
    for wait in (b.wait for b in found.values()):
        assert sum(wait.terms.values()) == wait.gap_ns


@given(st.integers(0, 2**32))
def test_healthy_streams_fall_behind_nowhere(seed):
    """Whatever the rhythm, whatever merges, jitters or runs on clocks of another rate."""
    draw = random.Random(seed)
    kind = draw.choice(["steady", "bursty", "slow"])
    merge = {name: draw.randrange(1, 8) for name in (PROXY, GATEWAY) if draw.random() < 0.4}
    chain = Chain(events=draw.randrange(10, 500), jitter=draw.randrange(1, 30) * MS, seed=seed, merge=merge)
    match kind:
        case "bursty":
            chain = replace(chain, schedule=[100_000] * draw.randrange(3, 40) + [draw.randrange(30, 900) * MS])
        case "slow":
            chain = replace(chain, gap=draw.randrange(200, 2_000) * MS)
    hops = [at_rate(hop, draw.randrange(-500, 500)) for hop in run(chain)]
    assert not behind(hops)


def at_rate(hop: Hop, ppm: int) -> Hop:
    """The hop by a clock that runs too fast."""

    def told(ns: int) -> int:
        return ns + ns * ppm // 1_000_000

    stamps = tuple(replace(s, arrived_ns=told(s.arrived_ns), taken_ns=told(s.taken_ns)) for s in hop.timeline.stamps)
    return with_stamps(hop, stamps)


def test_clocks_that_run_apart_for_an_hour_accuse_nobody():
    hops = run(Chain(events=3_600, gap=1 * S))
    apart = [at_rate(hop, ppm) for hop, ppm in zip(hops, (200, -200, 200), strict=True)]
    assert not behind(apart)


# --------------------------------------------------------------------------------------------- slow all through


def test_the_gaps_at_each_tap_show_where_they_grew():
    found = {gaps.tap: gaps.median_ns // MS for gaps in gaps_of(lineup_of(run(Chain(paces=[(PROXY, 60 * MS)]))))}
    assert found == {WORKER: 25, PROXY: 60, GATEWAY: 60}


def test_a_source_that_is_slow_all_through_is_told_and_not_accused():
    verdict = judge(join(run(Chain(gap=400 * MS))))
    assert verdict.status is Status.HEALTHY
    assert (verdict.slow_source.tap, verdict.slow_source.median_ns) == (WORKER, 400 * MS)
    assert judge(join(run(Chain(gap=100 * MS)))).slow_source is None
    bursty = Chain(events=400, schedule=[100_000] * 15 + [1200 * MS])
    assert judge(join(run(bursty))).slow_source is None


def test_too_few_gaps_show_no_distribution():
    assert gaps_of(lineup_of(run(Chain(events=8, gap=1 * S)))) == ()
    assert len(gaps_of(lineup_of(run(Chain(events=9, gap=1 * S))))) == 3
