"""Lining events up: by number where that can be trusted, by position where hops merge, split or drop."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from otel.align import (
    CONTENT,
    OUTPUT,
    acknowledged,
    carriers_of,
    lane_of,
    longest_silence,
    window_of,
    with_end,
)
from otel.hop import Blocked, EventClass, Interval, KernelSample, Stamp
from otel.stretches import stretches_of
from tests.support.builders import a_hop, a_timeline
from tests.support.chain import GATEWAY, MS, PROXY, Chain, S, run


def lanes(chain: Chain):
    return [lane_of(hop, CONTENT) for hop in run(chain)]


def with_timeline(hop, **changes):
    return replace(hop, timeline=replace(hop.timeline, **changes))


def test_a_window_by_position_finds_the_events_that_were_merged():
    source, merged, _ = lanes(Chain(events=40, merge={PROXY: 4}, is_exact=True))
    window = window_of(source, merged.low[2], merged.high[3])
    assert (window.first, window.last) == (11, 15)


def test_a_window_by_rounded_positions_is_never_too_narrow():
    exact = lanes(Chain(events=80, chars=(3, 7), is_exact=True))[0]
    rough = lanes(Chain(events=80, chars=(3, 7)))[0]
    for i in range(1, 80):
        sharp = window_of(exact, exact.low[i - 1], exact.high[i])
        blurred = window_of(rough, exact.low[i - 1], exact.high[i])
        assert blurred.first <= sharp.first
        assert blurred.last >= sharp.last


def test_of_the_silences_in_a_blurred_window_the_one_nearest_the_wait_is_taken():
    lane = lanes(Chain(events=20, stalls=[("source", 5, 2 * S), ("source", 9, 3 * S)]))[0]
    window = window_of(lane, lane.low[1], lane.high[15])
    assert longest_silence(lane, window, wanted_ns=None) == 9
    assert longest_silence(lane, window, wanted_ns=2 * S) == 5


def test_one_event_that_delivered_everything_had_no_silence():
    lane = lanes(Chain())[0]
    assert longest_silence(lane, window_of(lane, 0, 0), wanted_ns=None) is None


def test_all_output_is_lined_up_and_content_where_that_does_not_work():
    hop = run(Chain())[0]
    thinking = with_timeline(
        hop, stamps=tuple(replace(s, event_class=EventClass.REASONING) for s in hop.timeline.stamps)
    )
    assert carriers_of([hop, thinking]) == (OUTPUT, CONTENT)


def test_unknown_streams_are_lined_up_by_their_opaque_events():
    hop = run(Chain())[0]
    opaque = with_timeline(hop, stamps=tuple(replace(s, event_class=EventClass.OPAQUE) for s in hop.timeline.stamps))
    assert carriers_of([opaque]) == ({EventClass.OPAQUE},)


def test_events_that_our_kernel_never_took_are_left_out():
    hop = run(Chain(events=10))[0]
    stamps = [replace(s, taken_ns=None) if s.seq >= 7 else s for s in hop.timeline.stamps]
    assert lane_of(with_timeline(hop, stamps=tuple(stamps)), CONTENT).count == 7


def test_blocked_time_counts_only_where_input_may_have_lain_waiting():
    hop = run(Chain(events=10, gap=S))[0]
    third, fourth = (hop.timeline.stamps[i].arrived_ns for i in (2, 3))
    right_before = Blocked(third + 10 * MS, fourth - 10 * MS, 100)
    long_before = Blocked(third + 10 * MS, fourth - 500 * MS, 0)
    assert lane_of(with_timeline(hop, blocked=(right_before,)), CONTENT).blocked_before[3] == fourth - third - 20 * MS
    assert lane_of(with_timeline(hop, blocked=(long_before,)), CONTENT).blocked_before[3] == 0


def test_a_block_that_ended_with_our_own_freeze_is_cut_at_its_start():
    hop = run(Chain(events=10, gap=S))[0]
    at = hop.timeline.stamps[3].arrived_ns
    frozen = with_timeline(hop, blocked=(Blocked(at, at + 800 * MS, 0),), lag=(Interval(at + 300 * MS, at + 790 * MS),))
    assert lane_of(frozen, CONTENT).blocked == stretches_of([(at, at + 300 * MS)])


def test_an_event_is_acknowledged_when_taken_unless_a_sample_shows_it_late():
    hop = run(Chain(events=4, gap=S))[2]
    taken = [s.taken_ns for s in hop.timeline.stamps]

    def sample(at, acked):
        return KernelSample(at, acked, 1, 0, 65_536, 0, 0, 0)

    late = with_timeline(
        hop, samples=(sample(taken[1] + 100 * MS, 1), sample(taken[1] + 300 * MS, 1), sample(taken[1] + 400 * MS, 2))
    )
    assert acknowledged(lane_of(late, CONTENT))[1] == taken[1] + 400 * MS
    delayed_ack = with_timeline(hop, samples=(sample(taken[1] + 100 * MS, 1), sample(taken[1] + 300 * MS, 2)))
    assert acknowledged(lane_of(delayed_ack, CONTENT))[1] == taken[1]


@given(st.integers(0, 100), st.integers(0, 5_000))
def test_acknowledgements_never_run_backwards(at, ms):
    lane = lane_of(run(Chain(slow_reader=(at, ms * MS)))[-1], CONTENT)
    times = acknowledged(lane)
    assert times == sorted(times)
    assert all(ack >= taken for ack, taken in zip(times, lane.taken, strict=True))


def test_a_merging_gateway_keeps_its_remainder_until_the_end():
    last = lanes(Chain(events=41, merge={GATEWAY: 4}))[-1]
    assert last.event_count == 11


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=60))
def test_bounds_of_positions_are_ordered_and_hold_the_truth(pieces):
    """An exact position beside rounded ones makes the rounded ones step back; the bounds do not."""
    hop, true, stamps = run(Chain(events=1))[0], 0, []
    for seq, (chars, is_exact) in enumerate(pieces):
        true += chars
        stamps.append(
            Stamp(seq, seq * MS, seq * MS, EventClass.CONTENT, true if is_exact else true // 32 * 32, is_exact)
        )
    lane = lane_of(with_timeline(hop, stamps=tuple(stamps)), CONTENT)
    assert lane.low == sorted(lane.low)
    assert lane.high == sorted(lane.high)
    true = 0
    for (chars, _), low, high in zip(pieces, lane.low, lane.high, strict=True):
        true += chars
        assert low <= true <= high


def test_an_acknowledgement_between_two_samples_is_placed_where_we_could_write_again():
    hop = run(Chain(events=4, gap=S))[2]
    taken = hop.timeline.stamps[1].taken_ns
    samples = [KernelSample(taken + ms * MS, acked, 1, 0, 0, 0, 0, 0) for ms, acked in ((300, 1), (600, 1), (700, 2))]
    blocked = (Blocked(taken - 10 * MS, taken + 640 * MS, 0),)
    late = with_timeline(hop, samples=tuple(samples), blocked=blocked)
    assert acknowledged(lane_of(late, CONTENT))[1] == taken + 640 * MS


@given(count=st.integers(2, 20), before=st.integers(0, 5), ms=st.integers(10, 5_000), is_blocked_before=st.booleans())
def test_the_first_of_many_that_were_read_at_once_was_handed_over_when_their_write_began_to_wait(
    count, before, ms, is_blocked_before
):
    """Lab seed 2, case 187, and seed 5, case 63: the reader had some of them at once, and waited for the rest."""
    held_s = ms / 1_000
    arrived = [0.1 + k / 100 for k in range(before)] + [1.0] * count
    taken = [0.0001] * before + [held_s] * count
    began_s = 0.9 if is_blocked_before else 1.0
    lane = lane_of(
        a_hop(
            timeline=a_timeline(
                arrived,
                taken_after_s=taken,
                classes=[EventClass.CONTENT] * len(arrived),
                blocked_s=[(began_s, 1.0 + held_s)],
            )
        ),
        CONTENT,
    )
    first = lane.taken[before] - lane.arrived[before]
    assert first == (ms * MS if is_blocked_before else 0)
    rest = range(before + 1, lane.count)
    assert all(lane.taken[i] - lane.arrived[i] == lane.blocked_within[i] == ms * MS for i in rest)
    assert acknowledged(lane) == lane.taken


def test_no_look_at_a_write_that_waits_counts_its_first_event_as_late():
    samples = [KernelSample(at * 100 * MS, 0, 1, 9_000, 0, 0, 0, 0) for at in range(11, 30)]
    after = KernelSample(3_050 * MS, 5, 0, 0, 9_000, 0, 0, 0)
    timeline = a_timeline(
        [1.0] * 5, taken_after_s=2.0, blocked_s=[(1.0, 3.0)], samples=[*samples, after], window_peak_bytes=9_000
    )
    lane = lane_of(a_hop(timeline=timeline), CONTENT)
    assert acknowledged(lane)[:2] == [1_000 * MS, 3_000 * MS]


@given(late_ms=st.integers(0, 5_000), collects=st.integers(1, 130))
def test_the_end_is_one_more_entry_behind_the_events(late_ms, collects):
    for lane in lanes(Chain(late_end=late_ms * MS, collects={GATEWAY: collects})):
        ended = with_end(lane)
        assert (ended.count, ended.event_count, ended.delivery_count) == (121, 120, 121)
        assert ended.total == lane.total
        assert ended.low[-1] > lane.high[-1]
        assert ended.arrived[-1] == lane.hop.moments.upstream_ended_ns
        assert ended.silence(120) == lane.hop.moments.downstream_ended_ns - lane.taken[-1]


def test_an_answer_that_broke_off_or_was_cut_short_has_none():
    [lane, *_] = lanes(Chain(cut=(PROXY, 30)))
    assert with_end(lane) is None
    short = run(Chain())[0]
    assert with_end(lane_of(replace(short, timeline=replace(short.timeline, is_cut_short=True)), CONTENT)) is None
