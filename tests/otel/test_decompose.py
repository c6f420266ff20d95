"""The decomposition: every second is given to one segment, and the terms add up to the wait."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel import decompose
from otel.decompose import Wait
from otel.hop import Interval
from otel.lineup import line_up
from tests.support.chain import GATEWAY, MS, NAMES, PROXY, WORKER, Chain, S, run


def lineup(chain: Chain):
    found, unaligned = line_up(run(chain))
    assert found is not None
    assert not unaligned
    return found


def terms(wait) -> dict[str, int]:
    return {segment.label: ns for segment, ns in wait.terms.items()}


def test_an_ordinary_gap_is_the_sources():
    wait = decompose.gap_before(lineup(Chain()), 5)
    assert terms(wait)["source"] == wait.gap_ns == 25 * MS


def test_a_hop_that_absorbs_part_of_a_silence_has_a_negative_term():
    """The proxy is late by 2 s when the source falls silent for 3: the reader waits only the rest."""
    chain = Chain(events=60, stalls=[(PROXY, 20, 2 * S), ("source", 21, 3 * S)])
    wait = decompose.gap_before(lineup(chain), 21)
    assert terms(wait)["source"] == 3 * S + 25 * MS
    assert terms(wait)[f"{WORKER}>{PROXY}"] == pytest.approx(-2 * S, abs=MS)


def test_the_first_event_is_decomposed_from_the_requests_arrival():
    wait = decompose.first_event(lineup(Chain(first=700 * MS, slow_first=[(GATEWAY, 2 * S)])))
    assert wait.wait is Wait.FIRST_EVENT
    assert terms(wait)["source"] == pytest.approx(700 * MS, abs=MS)
    assert terms(wait)[f"{PROXY}>{GATEWAY}"] == pytest.approx(2 * S, abs=5 * MS)


def test_a_merging_hop_is_not_charged_with_the_silence_it_waited_out():
    wait = decompose.first_event(lineup(Chain(merge={PROXY: 8}, stalls=[("source", 4, 3 * S)])))
    assert terms(wait)["source"] > 3 * S
    assert terms(wait)[f"{WORKER}>{PROXY}"] < 250 * MS


def test_the_end_is_decomposed_from_the_last_output():
    wait = decompose.end(lineup(Chain()))
    assert wait is not None
    assert wait.wait is Wait.END
    assert wait.gap_ns == pytest.approx(MS, abs=MS)


def test_an_answer_that_broke_off_has_no_end_to_decompose():
    assert decompose.end(lineup(Chain(cut=(PROXY, 30)))) is None


@given(
    st.sampled_from(["source", PROXY, GATEWAY]),
    st.integers(1, 118),
    st.integers(0, 9_000),
    st.integers(1, 5),
    st.integers(1, 5),
)
def test_terms_always_add_up(where, at, ms, merge, again):
    lines = lineup(Chain(stalls=[(where, at, ms * MS)], merge={PROXY: merge, GATEWAY: again}))
    waits = [decompose.gap_before(lines, j) for j in range(1, lines.last.count)]
    waits += [decompose.first_event(lines)]
    waits += [end] if (end := decompose.end(lines)) else []
    for wait in waits:
        assert sum(wait.terms.values()) == wait.gap_ns


@given(hop=st.sampled_from([PROXY, GATEWAY]), ms=st.integers(300, 9_000), size=st.integers(2, 130))
def test_what_came_with_the_end_waited_for_the_end(hop, ms, size):
    lines = lineup(Chain(late_end=ms * MS, collects={hop: size}, keeps_rest=True))
    first = 120 // size * size
    wait = decompose.gap_before(lines, first) if 0 < first < 120 else decompose.first_event(lines)
    assert wait.is_to_end == (first < 120)
    assert sum(wait.terms.values()) == wait.gap_ns
    if first < 120:
        assert terms(wait)["source"] >= ms * MS


@given(
    merge=st.integers(1, 8), source=st.integers(2_500, 6_000), hold=st.integers(1_500, 2_000), is_exact=st.booleans()
)
def test_a_silence_of_the_source_that_a_hop_made_up_for_in_part_is_whole(merge, source, hold, is_exact):
    """Lab seed 202, case 9: in rounded positions a short gap of the source was nearer to what was left of its stall."""
    at = 120 // merge * merge
    stalls = [(GATEWAY, at // merge - 4, hold * MS), ("source", at, source * MS)]
    lines = lineup(Chain(events=240, merge={PROXY: merge}, stalls=stalls, is_exact=is_exact, chars=(7, 3)))
    longest = max(range(at // merge, lines.last.count), key=lambda j: lines.reader[j] - lines.reader[j - 1])
    assert terms(decompose.gap_before(lines, longest))["source"] == pytest.approx(source * MS + 25 * MS, abs=2 * MS)


@given(
    at=st.integers(40, 200),
    source=st.integers(2_500, 6_000),
    hold=st.integers(1_500, 2_000),
    gap=st.sampled_from([2 * MS, 25 * MS]),
    is_exact=st.booleans(),
)
def test_so_is_one_behind_which_a_hop_passes_on_what_it_had_kept_in_smaller_pieces(at, source, hold, gap, is_exact):
    """Lab seed 1, case 176: of what the reader waited for only the first piece was awaited, some characters long."""
    stalls = [(GATEWAY, at - 4, hold * MS), ("source", at, source * MS)]
    lines = lineup(Chain(events=240, gap=gap, split={GATEWAY: 2}, stalls=stalls, is_exact=is_exact, chars=(7, 3)))
    longest = sorted(range(1, lines.last.count), key=lambda j: lines.reader[j - 1] - lines.reader[j])[:2]
    found = max(terms(decompose.gap_before(lines, j))["source"] for j in longest)
    assert found == pytest.approx(source * MS + gap, abs=2 * MS)


@given(st.sampled_from(NAMES), st.integers(0, 119), st.integers(300, 9_000))
def test_a_freeze_between_hand_over_and_stamp_is_counted_from_the_hand_over(hop, at, ms):
    """Lab seed 2, case 21: the reader had the event before, and its wait seemed to begin one event too early."""
    hops, handed, end = frozen_at_hand_over(hop, at, ms, is_written_before=True)
    found, _ = line_up(hops)
    wait = decompose.gap_before(found, at + 1) if at < 119 else decompose.end(found)
    assert terms(wait)[f"self:{hop}"] == pytest.approx(ms * MS, abs=30 * MS)
    if hop == GATEWAY:
        assert wait.gap_ns == pytest.approx(end - handed, abs=2 * MS)


@given(st.sampled_from([WORKER, PROXY]), st.integers(0, 119), st.integers(300, 9_000))
def test_a_freeze_between_reading_and_hand_over_is_our_own_though_it_counts_as_handed_over(hop, at, ms):
    """Lab seed 1, case 235: the next hop had that event only afterwards, and was charged with all of it."""
    hops, _, _ = frozen_at_hand_over(hop, at, ms, is_written_before=False)
    found, _ = line_up(hops)
    wait = decompose.gap_before(found, at) if at else decompose.first_event(found)
    assert terms(wait)[f"self:{hop}"] == pytest.approx(ms * MS, abs=30 * MS)
    assert sum(wait.terms.values()) == wait.gap_ns


def frozen_at_hand_over(hop, at, ms, *, is_written_before):
    """Hops of which one's sidecar froze for ms when it had read event `at`, the moment of its hand-over without the
    freeze, and the end of the freeze: only the stamp of that event is late, and all that came behind it, or the event
    itself as well."""
    hops = run(Chain())
    n = NAMES.index(hop)
    stamps = list(hops[n].timeline.stamps)
    handed = stamps[at].taken_ns
    begin, end = stamps[at].arrived_ns + 100_000, stamps[at].arrived_ns + ms * MS
    for tap in range(n, len(hops)):
        first = at + 1 if tap == n or is_written_before else at
        moved = [
            replace(s, arrived_ns=max(s.arrived_ns, end), taken_ns=max(s.taken_ns, end + 100_000)) if k >= first else s
            for k, s in enumerate(hops[tap].timeline.stamps)
        ]
        if tap == n:
            moved[at] = replace(moved[at], taken_ns=end)
        last = moved[-1].taken_ns + MS
        hops[tap] = replace(
            hops[tap],
            timeline=replace(hops[tap].timeline, stamps=tuple(moved), lag=(Interval(begin, end),) if tap == n else ()),
            moments=replace(hops[tap].moments, upstream_ended_ns=last, downstream_ended_ns=last + 100_000),
        )
    return hops, handed, end
