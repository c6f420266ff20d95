"""What a delivery waited for: a stall is charged with all of its time, a hop that collects with none of a source's."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from otel import decompose
from otel.align import CONTENT, lane_of
from otel.findings import Policy
from otel.hop import Hop
from otel.join import join
from otel.lineup import line_up
from otel.release import TOGETHER_NS, awaited, together
from otel.verdict import judge
from tests.support.chain import GATEWAY, MS, NAMES, PROXY, WORKER, Chain, S, run

HOPS = st.sampled_from([PROXY, GATEWAY])
HOW = st.tuples(st.sampled_from(["merge", "collects"]), st.booleans())
"""How a hop keeps texts together, and whether positions are exact."""
KNOWN = Policy(rhythm_elsewhere_ns=30 * MS)
"""Of a source that is known to be steady."""


def term(chain: Chain, label: str, wait: int | None = None) -> int:
    """What the segment adds to the longest wait of the reader, or to the one before this event."""
    lineup, _ = line_up(run(chain))
    longest = max(range(1, lineup.last.count), key=lambda j: lineup.reader[j] - lineup.reader[j - 1])
    found = decompose.gap_before(lineup, longest if wait is None else wait)
    return {segment.label: ns for segment, ns in found.terms.items()}[label]


def before(hop: str) -> str:
    return f"{NAMES[NAMES.index(hop) - 1]}>{hop}"


@given(
    hop=HOPS,
    hold=st.integers(350, 3_000),
    at=st.integers(10, 60),
    after=st.integers(1, 8),
    pause=st.integers(50, 3_000),
)
def test_a_stall_is_charged_whole_though_the_source_pauses_meanwhile(hop, hold, at, after, pause):
    """Lab seed 5, case 15: 0.5 s of it were the source's."""
    assume(not -5 <= hold - pause - 25 * after <= 62)  # then it might have waited for what came behind the pause
    chain = Chain(stalls=[(hop, at, hold * MS), ("source", at + after, pause * MS)])
    assert abs(term(chain, before(hop), at) - hold * MS) <= 2 * MS


@given(hop=HOPS, hold=st.integers(350, 3_000), at=st.integers(10, 90), seed=st.integers(0, 1_000))
def test_a_stall_is_charged_whole_in_the_middle_of_a_burst(hop, hold, at, seed):
    """Lab seed 3, case 36: the hop stood still between two events of one burst, and was charged a pause too little."""
    chain = Chain(events=160, schedule=[100_000] * 7 + [200 * MS], seed=seed, stalls=[(hop, at, hold * MS)])
    assert abs(term(chain, before(hop), at) - hold * MS) <= 2 * MS


@given(
    hop=HOPS,
    size=st.integers(3, 16),
    at=st.integers(16, 100),
    stall=st.integers(600, 20_000),
    how=st.sampled_from(["merge", "collects"]),
)
def test_a_stall_of_the_source_within_what_a_hop_collects_is_the_sources(hop, size, at, stall, how):
    verdict = judge(join(run(Chain(events=130, stalls=[("source", at, stall * MS)], **{how: {hop: size}}))), KNOWN)
    assert verdict.findings[0].first_hop == WORKER
    assert verdict.findings[0].term_ns >= stall * MS


@given(
    hop=HOPS, size=st.integers(24, 64), rest=st.integers(8, 64), at=st.integers(1, 60), stall=st.integers(600, 9_000)
)
def test_so_is_one_before_a_short_rest(hop, size, rest, at, stall):
    chain = Chain(events=size + rest, stalls=[("source", at % size or 1, stall * MS)], collects={hop: size})
    found = {finding.segment.label: finding.term_ns for finding in judge(join(run(chain)), KNOWN).findings}
    assert found["source"] >= stall * MS
    assert found.get(before(hop), 0) <= size * 25 * MS + MS


@given(
    hop=HOPS,
    size=st.integers(8, 40),
    at=st.integers(2, 100),
    stall=st.integers(600, 2_000),
    how=HOW,
)
def test_so_is_one_that_the_source_makes_up_for_at_once(hop, size, at, stall, how):
    """Lab seed 2, cases 251 and 287: it sends in one piece what it owes, and so many events together were none of the
    pieces that the hop makes."""
    missed = stall // 25
    schedule = [25 * MS] * (at - 1) + [stall * MS] + [50_000] * missed + [25 * MS] * 300
    chain = Chain(events=at + missed + 80, schedule=schedule, is_exact=how[1], **{how[0]: {hop: size}})
    verdict = judge(join(run(chain)), KNOWN)
    found = {finding.segment.label: finding.term_ns for finding in verdict.findings}
    assert found["source"] >= stall * MS
    assert found.get(before(hop), 0) <= size * 25 * MS + MS


@given(
    hop=HOPS,
    size=st.integers(8, 40),
    events=st.integers(1, 170),
    ms=st.integers(600, 20_000),
    how=HOW,
)
def test_so_is_one_before_the_end_that_a_hop_waits_for_to_let_the_rest_go(hop, size, events, ms, how):
    """Lab seed 2, cases 64 and 100: where nothing else had let it go, it was charged with the end that came late."""
    chain = Chain(
        events=events, chars=(40,), late_end=ms * MS, keeps_rest=True, is_exact=how[1], **{how[0]: {hop: size}}
    )
    verdict = judge(join(run(chain)), KNOWN)
    found = {finding.segment.label: finding.term_ns for finding in verdict.findings}
    assert found["source"] >= ms * MS
    assert found.get(before(hop), 0) <= size * 25 * MS + 3 * MS


@given(hop=HOPS, ms=st.integers(600, 9_000), hold=st.integers(350, 3_000), back=st.integers(1, 60))
def test_a_stall_near_the_end_is_charged_whole_though_the_source_ends_late(hop, ms, hold, back):
    assume(not -5 <= hold - ms - 25 * (back - 1) <= 62)  # then it might have waited for the end
    chain = Chain(late_end=ms * MS, stalls=[(hop, 120 - back, hold * MS)])
    assert abs(term(chain, before(hop), 120 - back) - hold * MS) <= 2 * MS


@pytest.mark.parametrize("how", ["merge", "collects"])
@pytest.mark.parametrize("hop", [PROXY, GATEWAY])
def test_the_first_of_what_a_hop_collects_is_not_late_for_a_stall_of_the_source(hop, how):
    chain = Chain(events=160, stalls=[("source", 5, 8 * S)], **{how: {hop: 32}})
    found = decompose.first_event(line_up(run(chain))[0])
    terms = {segment.label: ns for segment, ns in found.terms.items()}
    assert terms["source"] > 8 * S
    assert terms[before(hop)] < 1 * S


@given(hop=HOPS, size=st.integers(20, 64))
def test_a_hop_that_collects_is_charged_with_what_it_holds(hop, size):
    chain = Chain(events=size * 5, collects={hop: size})
    held = (size - 1) * 25 * MS
    assert abs(term(chain, before(hop)) - held) <= 2 * MS


def test_a_hop_that_lets_go_by_the_clock_is_charged_whole_though_the_source_pauses_meanwhile():
    """It does so twice in a row, and yet waited for nothing: no event came when it let go."""
    hold, pause = 2_050 * MS, 800 * MS
    stalls = [(PROXY, 60, hold), ("source", 66, pause), (PROXY, 73, hold), ("source", 79, pause)]
    chain = Chain(events=120, gap=100 * MS, stalls=stalls)
    assert [term(chain, before(PROXY), at) // MS for at in (60, 73)] == [2_050, 2_000]


@given(
    size=st.integers(30, 64),
    window=st.integers(16, 40),
    round_trip=st.sampled_from([0, 8, 40, 200]),
    stall=st.integers(600, 4_000),
    at=st.integers(2, 28),
)
def test_a_piece_that_crosses_a_link_in_some_round_trips_is_one(size, window, round_trip, stall, at):
    """Lab seed 2, case 89: the first of it alone was waited for, and what went wrong before the rest was not told."""
    hops = run(Chain(events=160, stalls=[("source", at, stall * MS)], collects={PROXY: size}))
    lineup, _ = line_up([*hops[:-2], *crossed(hops[-2], hops[-1], round_trip * MS, window)])
    found = decompose.first_event(lineup)
    terms = {segment.label: ns for segment, ns in found.terms.items()}
    assert terms["source"] > stall * MS
    assert terms[before(PROXY)] <= size * 25 * MS


def crossed(inner: Hop, outer: Hop, round_trip: int, window: int) -> tuple[Hop, Hop]:
    """The tap before a link, which knows its round trip, and that behind it. So many events pass in each round trip."""
    inner_hop = replace(inner, timeline=replace(inner.timeline, round_trip_ns=round_trip))
    stamps, begin = [], 0
    for k, stamp in enumerate(outer.timeline.stamps):
        begin = begin if k and stamp.arrived_ns == outer.timeline.stamps[begin].arrived_ns else k
        late = (k - begin) // window * round_trip
        stamps.append(replace(stamp, arrived_ns=stamp.arrived_ns + late, taken_ns=stamp.taken_ns + late))
    return inner_hop, replace(outer, timeline=replace(outer.timeline, stamps=tuple(stamps)))


def test_what_comes_in_one_piece_is_together():
    lane = lane_of(run(Chain(events=40, collects={GATEWAY: 8}))[-1], CONTENT)
    assert [together(lane, j) for j in (0, 7, 8, 20, 39)] == [7, 7, 15, 23, 39]
    assert TOGETHER_NS < 25 * MS
    assert together(lane_of(run(Chain())[-1], CONTENT), 5) == 5


def test_what_the_source_sent_in_one_piece_was_held_by_nobody():
    lanes = [lane_of(hop, CONTENT) for hop in run(Chain(schedule=[100_000] * 9 + [300 * MS]))]
    assert awaited(lanes, 10, by_ordinal=True, same=[True, True]) == 19
    assert awaited(lanes[:1], 10, by_ordinal=True, same=[]) == 19
