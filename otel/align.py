"""Events of neighbouring taps lined up: which silence at each tap belongs to one wait of the reader.

A `Lane` is what one tap saw of the visible output, prepared for that question. Where all lanes carried the
same number of events and agree on positions, event k is event k. Otherwise they are lined up by position in
the visible output: a hop that merges, splits, drops or adds events still delivers the same characters.

Positions are intervals [low, high]: a position that was rounded down to the quantum may lie anywhere up to
the next step. A window by position is never too narrow; where it may be too wide, the silence in it that is
closest to the reader's wait is taken.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Final

from otel.hop import OUTPUT, Ending, EventClass, Hop, KernelSample, Stamp, State, TapRole
from otel.stretches import SHADOW_NS, STAMP_NS, Stretches, stretches_of

CONTENT: Final = frozenset({EventClass.CONTENT})
STEP_NS: Final = 5_000_000
"""Blocked for less than this is scheduling, not backpressure."""
LATE_STAMP_NS: Final = 50_000_000
"""Own lag between arrival and hand-over counts from here on."""
LATE_ACK_NS: Final = 200_000_000
"""Delayed acknowledgements (up to 200 ms) are no fault."""
SAMPLE_NS: Final = 200_000_000
"""What is still outstanding is sampled again within two ticks of the sidecar; where no sample follows, it was not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """The events of one tap that carry visible output, and the tap's own part in their times.

    All lists from seq to lag_within, and is_whole, have one entry per event. arrived, taken: ns since the tap's own
    anchor. low, high: bounds of the position. blocked_before: time blocked on the reader in the gap before an event
    that was read right after; lag_before: own lag likewise. blocked_within, lag_within: between arrived and taken.
    blocked, lag: when it was blocked for longer than by scheduling, and when it was itself late. sampled: when its
    kernel was asked, and window_peaks the largest window until then: what it grows to later says nothing.
    is_whole: no event between this one and the one before it was left out, so the time between them is a silence.
    is_pending: the last entry is no event but the moment up to which the tap had waited for one.
    is_ended: the last entry is no event but the end of the answer.
    """

    hop: Hop
    seq: list[int]
    arrived: list[int]
    taken: list[int]
    low: list[int]
    high: list[int]
    blocked_before: list[int]
    lag_before: list[int]
    blocked_within: list[int]
    lag_within: list[int]
    blocked: Stretches
    lag: Stretches
    sampled: list[int]
    window_peaks: list[int]
    is_whole: list[bool]
    is_pending: bool = False
    is_ended: bool = False

    @property
    def name(self) -> str:
        return self.hop.place.tap

    @property
    def count(self) -> int:
        return len(self.arrived)

    @property
    def event_count(self) -> int:
        return self.count - self.is_pending - self.is_ended

    @property
    def delivery_count(self) -> int:
        """The events, and the end where it is one of the entries."""
        return self.count - self.is_pending

    @property
    def total(self) -> tuple[int, int]:
        """Bounds of the visible characters delivered in all."""
        last = self.event_count - 1
        return (self.low[last], self.high[last]) if last >= 0 else (0, 0)

    def silence(self, i: int) -> int:
        """How long the tap delivered nothing before event i, i >= 1."""
        return self.handed(i) - self.handed(i - 1)

    def handed(self, i: int) -> int:
        """When event i was handed over: what our own freeze stamped late was handed over early all the same, for we
        write as soon as we have read."""
        return self.taken[i] - self.frozen(i)

    def frozen(self, i: int) -> int:
        """How long we were frozen between reading event i and the stamp of its hand-over."""
        return max(0, self.lag_within[i] - self.blocked_within[i])


@dataclass(frozen=True, slots=True)
class Window:
    """Where in a lane one wait lies: after event `first`, up to event `last`; equal when one event had all of it."""

    first: int
    last: int


def carriers_of(hops: Iterable[Hop]) -> tuple[frozenset[EventClass], ...]:
    """The sets of classes whose events may be lined up, the first that works counts.

    All output where every hop saw the same of it; else content, which can be lined up by position; and where no
    hop saw any output, whatever came. Control, keepalive and usage events never take part beside output: hops add
    and drop them freely.
    """
    seen = [{stamp.event_class for stamp in hop.timeline.stamps} for hop in hops if hop.timeline.stamps]
    if not seen or any(classes & OUTPUT for classes in seen):
        return OUTPUT, CONTENT
    return (frozenset({EventClass.OPAQUE}),)


def lane_of(hop: Hop, carriers: frozenset[EventClass]) -> Lane:
    """Prepare one tap's record. Events that our kernel never took are left out: nobody behind us can have them."""
    timeline = hop.timeline
    every = timeline.stamps
    if hop.place.role is TapRole.CLIENT and all(s.taken_ns is None for s in every):
        every = tuple(replace(s, taken_ns=s.arrived_ns) for s in every)  # it does not say when it consumed
    stamps = [s for s in every if s.event_class in carriers and s.taken_ns is not None]
    seq = [s.seq for s in stamps]
    arrived = [s.arrived_ns for s in stamps]
    taken = [s.taken_ns for s in stamps if s.taken_ns is not None]
    # Positions only grow, so an exact one also bounds its neighbours that were rounded down.
    low = list(accumulate((s.position for s in stamps), max))
    ceilings = [s.position if s.is_exact else s.position + timeline.quantum - 1 for s in stamps]
    high = list(accumulate(reversed(ceilings), min))[::-1]
    waited_until = _pending_until(hop)
    is_pending = waited_until is not None and (not taken or waited_until > taken[-1])
    if is_pending and waited_until is not None:
        seq.append(seq[-1] + 1 if seq else 0)
        arrived.append(waited_until)
        taken.append(waited_until)
        low.append(high[-1] + 1 if high else 1)
        high.append(low[-1])
    lag = stretches_of(timeline.lag)
    blocked = stretches_of(
        (b.start_ns, _cut_at_lag(b.start_ns, b.end_ns, lag))
        for b in timeline.blocked
        if b.end_ns - b.start_ns > STEP_NS
    )
    blocked_before, lag_before = _waited_for_us(arrived, blocked, lag, start=hop.moments.request_forwarded_ns or 0)
    taken = _handed_first(arrived, taken, blocked)
    blocked_within = [blocked.covered(a, t) for a, t in zip(arrived, taken, strict=True)]
    lag_within = [_lagged_within(lag, a, t) for a, t in zip(arrived, taken, strict=True)]
    return Lane(
        hop=hop,
        seq=seq,
        arrived=arrived,
        taken=taken,
        low=low,
        high=high,
        blocked_before=blocked_before,
        lag_before=lag_before,
        blocked_within=blocked_within,
        lag_within=lag_within,
        blocked=blocked,
        lag=lag,
        sampled=[sample.offset_ns for sample in timeline.samples],
        window_peaks=list(accumulate((sample.window_bytes for sample in timeline.samples), max)),
        is_whole=_whole(hop, stamps) + [True] * is_pending,
        is_pending=is_pending,
    )


def lane_of_ends(hop: Hop) -> Lane:
    """The first and the last event of a hop, of whatever class, with nothing known of the time between them."""
    every = lane_of(hop, frozenset(EventClass))
    if every.event_count < 2:
        return every
    kept = [0, every.event_count - 1]

    def ends(values: list[int]) -> list[int]:
        return [values[i] for i in kept]

    return replace(
        every,
        seq=ends(every.seq),
        arrived=ends(every.arrived),
        taken=ends(every.taken),
        low=[0, 0],
        high=[0, 0],
        blocked_before=ends(every.blocked_before),
        lag_before=ends(every.lag_before),
        blocked_within=ends(every.blocked_within),
        lag_within=ends(every.lag_within),
        is_whole=[True, False],
        is_pending=False,
    )


def with_end(lane: Lane) -> Lane | None:
    """The lane with the end of the answer behind its events, None where the tap did not see a whole one."""
    ended, closed = lane.hop.moments.upstream_ended_ns, lane.hop.moments.downstream_ended_ns
    if not lane.count or lane.is_pending or lane.hop.timeline.is_cut_short or ended is None or closed is None:
        return None
    (blocked,), (late,) = _waited_for_us([ended], lane.blocked, lane.lag, start=lane.arrived[-1])
    position = lane.high[-1] + 1
    return replace(
        lane,
        seq=[*lane.seq, lane.hop.traffic.event_count],
        arrived=[*lane.arrived, ended],
        taken=[*lane.taken, closed],
        low=[*lane.low, position],
        high=[*lane.high, position],
        blocked_before=[*lane.blocked_before, blocked],
        lag_before=[*lane.lag_before, late],
        blocked_within=[*lane.blocked_within, lane.blocked.covered(ended, closed)],
        lag_within=[*lane.lag_within, _lagged_within(lane.lag, ended, closed)],
        is_whole=[*lane.is_whole, True],
        is_ended=True,
    )


def window_of(lane: Lane, low: int, high: int) -> Window:
    """The part of a lane in which it delivered what lies after position `low` up to `high`."""
    first = bisect_left(lane.high, low)
    last = min(bisect_left(lane.low, high), lane.count - 1)
    return Window(min(first, lane.count - 1), max(last, min(first, lane.count - 1)))


def surely_of(lane: Lane, low: int, high: int, *, is_sharp: bool) -> Window:
    """The events of a lane whose text can only begin behind position `low` and before `high`: who waited for that had
    to wait for them. They lie behind the first of the window, up to its last.

    is_sharp: `low` is where the text that was waited for begins, and no later. Then the event behind one that ends
    there brought its first characters, however little of them is known to have been waited for.
    """
    first = min(bisect_left(lane.low, low), lane.count - 1)
    last = max(first, min(bisect_left(lane.high, high), lane.count - 1))
    if is_sharp and lane.low[first] == lane.high[first] == low:
        last = max(last, min(first + 1, lane.count - 1))
    return Window(first, last)


def longest_silence(lane: Lane, window: Window, *, wanted_ns: int | None) -> int | None:
    """The event that ended the silence of a wait, None where one event delivered all of it.

    wanted_ns: the reader's wait, where the window may be too wide; None where it is exact.
    """
    inside = [i for i in range(window.first + 1, window.last + 1) if lane.is_whole[i]]
    if not inside:
        return None
    if wanted_ns is None:
        return max(inside, key=lane.silence)
    return min(inside, key=lambda i: (abs(lane.silence(i) - wanted_ns), i))


def acknowledged(lane: Lane) -> list[int]:
    """When the reader's kernel had each event: on the hand-over, unless a sample LATE_ACK_NS later shows it on its way.

    Then it is somewhere between that sample and the first that shows it acknowledged; where we became able to write
    again in between, the reader had made room, and that instant is taken. The connection's own round trip is no wait.
    """
    samples = lane.hop.timeline.samples
    travel = lane.hop.timeline.round_trip_ns or 0
    times = lane.sampled
    counts = [s.acked_count for s in samples]
    block_ends = lane.blocked.ends
    result: list[int] = []
    for i, seq in enumerate(lane.seq):
        when = taken = lane.handed(i)
        shown = bisect_right(counts, seq)  # the first sample that shows it acknowledged
        late = bisect_left(times, max(taken + travel + LATE_ACK_NS, _stamped(lane, i)))
        if late < shown:
            when = min(times[min(shown, len(times) - 1)], times[shown - 1] + SAMPLE_NS)
            freed = bisect_right(block_ends, times[shown - 1])
            if freed < len(block_ends) and block_ends[freed] < when:
                when = block_ends[freed]
            when = max(taken, when - travel)  # an acknowledgement is a round trip old when we see it
        result.append(max(when, result[-1]) if result else when)
    return result


def end_acknowledged(lane: Lane) -> int | None:
    """When the reader's kernel had the end of the response, None where our own kernel never had it."""
    taken = lane.hop.moments.downstream_ended_ns
    if taken is None:
        return None
    travel = lane.hop.timeline.round_trip_ns or 0
    events = lane.hop.traffic.event_count
    late = [s.offset_ns for s in lane.hop.timeline.samples if s.acked_count <= events and s.offset_ns > taken]
    if not late or late[-1] < taken + travel + LATE_ACK_NS:
        return taken
    after = [s.offset_ns for s in lane.hop.timeline.samples if s.offset_ns > late[-1]]
    return max(taken, min([*after, late[-1] + SAMPLE_NS]) - travel)


def is_outstanding(sample: KernelSample, seq: int) -> bool:
    return sample.acked_count <= seq and sample.in_flight_segments + sample.unsent_bytes > 0


def _whole(hop: Hop, carried: Sequence[Stamp]) -> list[bool]:
    if not (hop.timeline.is_thinned or hop.timeline.is_cut_short):
        return [True] * len(carried)
    place = {stamp.seq: i for i, stamp in enumerate(hop.timeline.stamps)}
    first = [True] * bool(carried)
    return first + [b.seq - a.seq == place[b.seq] - place[a.seq] for a, b in pairwise(carried)]


def _pending_until(hop: Hop) -> int | None:
    """Until when the tap is known to have waited for more; None for an exchange that got everything."""
    moments = hop.moments
    if hop.state is State.OPEN or hop.end is None:
        return moments.closed_ns
    if hop.end.ending in {Ending.COMPLETE, Ending.ERROR_EVENT, Ending.UNKNOWN_END}:
        return None
    ends = (moments.upstream_ended_ns, moments.client_left_ns, moments.closed_ns)
    return min(end for end in ends if end is not None)


def _cut_at_lag(start: int, end: int, lag: Stretches) -> int:
    """A block that ends with our own lag was over when we froze: the socket was writable at once when we woke."""
    froze = lag.beginning(max(start, end - SHADOW_NS), end)
    return end if froze is None else max(start, froze)


def _handed_first(arrived: list[int], taken: list[int], blocked: Stretches) -> list[int]:
    """When each event was handed over, where several were read at once and their write was blocked: one stamp says when
    the kernel had the last of them, and it had the first when that began."""
    result = list(taken)
    for i in range(len(arrived) - 1):
        is_first_of_many = arrived[i] == arrived[i + 1] and (i == 0 or arrived[i - 1] < arrived[i])
        if not is_first_of_many or taken[i] - arrived[i] <= STEP_NS:
            continue
        began = blocked.beginning(arrived[i], taken[i])
        if began is not None and began >= arrived[i] - STAMP_NS:
            result[i] = max(arrived[i], began)
    return result


def _stamped(lane: Lane, i: int) -> int:
    """When the hand-over of what was read with event i was stamped: no sample counts it as acknowledged before."""
    is_of_many = i + 1 < lane.event_count and lane.arrived[i + 1] == lane.arrived[i]
    return max(lane.taken[i], lane.taken[i + 1]) if is_of_many else lane.taken[i]


def _lagged_within(lag: Stretches, arrived: int, taken: int) -> int:
    return lag.covered(arrived, taken) if taken - arrived > LATE_STAMP_NS else 0


def _waited_for_us(
    arrived: list[int], blocked: Stretches, lag: Stretches, *, start: int
) -> tuple[list[int], list[int]]:
    """For each event, the blocked and the lag time in the gap before it, where it was read right after."""
    by_block, by_lag = [], []
    previous = min(start, arrived[0]) if arrived else start
    for at in arrived:
        late = blocked_ns = 0
        if at - previous > STEP_NS:
            blocked_ns = blocked.shadow(previous, at)
            late = max(0, lag.lagged(previous, at) - blocked_ns)
        by_block.append(blocked_ns)
        by_lag.append(late)
        previous = at
    return by_block, by_lag
