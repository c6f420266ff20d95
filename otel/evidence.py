"""Where the bytes were: what the kernel's samples at a tap say of the segment behind it.

Asked for one awaited event, over the time it was not acknowledged, weighted by time and not by samples.
Loss is asked before the window: during a loss a small window stays full and looks like a slow reader.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from otel.align import Lane, acknowledged, is_outstanding
from otel.hop import Hop, KernelSample

SPEAKS_NS: Final = 250_000_000
"""One sample speaks for at most this long: samples are taken every 100 ms while bytes are outstanding."""
LOSS_STATE: Final = 3
"""tcp_info: 3 is recovery, 4 loss."""
LOSS_FELT_NS: Final = 150_000_000
"""Loss for less than this explains no term by itself, unless the term is hardly longer than what no sample shows."""
UNSEEN_NS: Final = 200_000_000
"""What is kept of samples begins a round trip and so long after an event was taken: what is held for 100 ms, at the
next look."""
LATE_LOOK_NS: Final = 50_000_000
"""A sample that shows an event acknowledged may come so much later than it was: half of the time between two looks."""
STUCK_SHARE: Final = 0.5
"""Of a term: bytes that were on their way for less of it lay with the peer for the most of it."""
LOST_SHARE: Final = 0.2
"""Of the time on the way: loss for more of it is the network's, whatever the window says; a full one is small then."""
SHRUNK_SHARE: Final = 0.3
"""Of the time on the way: with a window at a quarter of its own peak for more of it, the peer did not read."""
WINDOW_MOVED_SHARE: Final = 0.05
"""Over a whole stretch a window that nobody shuts is never small, and that of a slow reader with room for 16 KB was in
37 % of the samples: what lies between tells neither."""
WINDOW_FILLED_SHARE: Final = 0.5
"""What passes in each round trip is never more than the reader's window: from half of that on it is the window that
lets no more pass, since segments seldom fill it."""
UNHEARD_NS: Final = 500_000_000
"""So long and a round trip pass, at the most, until a kernel that takes a window for shut has asked again and knows:
after 200 ms and a round trip it asks, then comes the answer, then our next look."""
UNREAD_NS: Final = 250_000_000
UNREAD_LOOKS: Final = 2
"""A window may be at half of its peak for a moment: this long, in so many looks, it is while nobody reads."""
CANDIDATES: Final = 30
"""Any event of the awaited text may be the one that is stuck; of very many, this many are asked."""
SAMPLES: Final = 10_000
"""Looked at for one wait in all, by which fewer of its events are asked: ten minutes of samples for two of them."""


class Whereabouts(Enum):
    """Where the awaited bytes were during a segment's term."""

    PEER = "with the peer"
    NETWORK = "in the network"
    WINDOW = "in the network, as many as the peer's window lets pass"
    UNHEARD = "with the peer, or its word that it has room again was lost"
    UNKNOWN = "not sampled"


IN_DOUBT: Final = frozenset({Whereabouts.WINDOW, Whereabouts.UNHEARD})
"""Neither the link nor the peer can be told from the other."""


@dataclass(frozen=True, slots=True)
class Stuck:
    """How long an event was outstanding in [start, end], and in what company. Seconds are ns, shares 0 to 1.

    window_bytes: the smallest meanwhile, window_peak_bytes: the largest that it had been until then.
    """

    covered_ns: int
    stuck_ns: int
    lost_share: float
    shrunk_share: float
    window_bytes: int
    window_peak_bytes: int


@dataclass(frozen=True, slots=True)
class Unread:
    """For how long a reader's window stood at half of its own peak or less, with nothing lost: it left unread what its
    kernel had. Sent and acknowledged was all the same, so nobody need have waited.

    since_ns: of the longest such time, since the tap's own anchor. window_bytes: the smallest then,
    window_peak_bytes: the largest until then.
    """

    since_ns: int
    lasted_ns: int
    window_bytes: int
    window_peak_bytes: int


def unread(hop: Hop) -> Unread | None:
    """The longest time for which the samples show that the peer of this tap did not read; None where none do."""
    found: list[Unread] = []
    begun: Unread | None = None
    looks = peak = 0
    for before, sample in zip((None, *hop.timeline.samples), hop.timeline.samples, strict=False):
        peak = max(peak, sample.window_bytes)
        ever = peak or hop.timeline.window_peak_bytes or 0  # shut from the first look on, it had more before or later
        if 2 * sample.window_bytes > ever or not ever or _is_lossy(sample):
            begun, looks = None, 0
            continue
        looks += 1
        if begun is None or before is None:
            begun = Unread(sample.offset_ns, 0, sample.window_bytes, ever)
        else:
            passed_ns = min(sample.offset_ns - before.offset_ns, SPEAKS_NS)
            smallest = min(begun.window_bytes, sample.window_bytes)
            begun = replace(begun, lasted_ns=begun.lasted_ns + passed_ns, window_bytes=smallest)
        if looks >= UNREAD_LOOKS and begun.lasted_ns >= UNREAD_NS:
            found.append(begun)
    return max(found, key=lambda each: each.lasted_ns, default=None)


def stuck(lane: Lane, seq: int, start_ns: int, end_ns: int, *, is_sent: bool = False) -> Stuck | None:
    """What the samples in [start_ns, end_ns] say of the event; None when none lies there.

    The last sample speaks until the exchange was closed, which waits for the peer's kernel to have everything.
    is_sent: the event was sent at start_ns. Then a sample that shows it outstanding for longer than acknowledgements
    take speaks for all the time until then.
    """
    samples, peaks = lane.hop.timeline.samples, lane.window_peaks
    covered = stuck_ns = lost = shrunk = 0
    full = lane.hop.timeline.window_peak_bytes or (peaks[-1] if peaks else 0)
    windows: list[tuple[int, int]] = []
    begin = max(0, bisect_right(lane.sampled, start_ns) - 1)
    late_ns = start_ns + UNSEEN_NS + (lane.hop.timeline.round_trip_ns or 0)
    for i in range(begin, len(samples)):
        sample = samples[i]
        if sample.offset_ns > end_ns:
            break
        until = samples[i + 1].offset_ns if i + 1 < len(samples) else max(sample.offset_ns, lane.hop.moments.closed_ns)
        since = max(start_ns, sample.offset_ns)
        until = min(end_ns, until, since + SPEAKS_NS)
        covered += max(0, until - since)
        if not is_outstanding(sample, seq):
            continue
        is_late = is_sent and sample.offset_ns >= late_ns
        weight = until - start_ns - stuck_ns if is_late else until - since
        if weight <= 0:
            continue
        stuck_ns += weight
        windows.append((sample.window_bytes, peaks[i]))
        if _is_lossy(sample):
            lost += weight
        elif sample.window_bytes <= peaks[i] / 4:
            shrunk += weight
    if not covered:
        return None
    share = 1 / stuck_ns if stuck_ns else 0.0
    least = min(windows, default=(full, full))
    return Stuck(max(covered, stuck_ns), stuck_ns, lost * share, shrunk * share, *least)


def whereabouts(
    lane: Lane, events: Iterable[int], term_ns: int, *, is_end: bool = False
) -> tuple[Whereabouts, Stuck | None]:
    """Where the bytes of the awaited events (indices into the lane) were while the segment behind it took term_ns.

    is_end: what was awaited is the end of the response, behind the last of these events.

    A sampled connection without samples in that time had nothing outstanding: the peer's kernel had the bytes.
    """
    if lane.hop.timeline.window_peak_bytes is None:
        return Whereabouts.UNKNOWN, None
    indices = list(events)
    asked = _asked(lane, indices, term_ns)
    if is_end:
        ended = lane.hop.moments.downstream_ended_ns or lane.taken[-1]
        found = [stuck(lane, lane.hop.traffic.event_count, lane.taken[-1], ended + max(0, term_ns))]
    else:
        found = [_ask(lane, i, indices, term_ns) for i in asked]
    answers = [answer for answer in found if answer is not None]
    worst = max(answers, key=lambda s: s.stuck_ns, default=None)
    if worst is None or (worst.stuck_ns < STUCK_SHARE * term_ns and not _is_loss_felt(lane, worst, term_ns)):
        return Whereabouts.PEER, worst
    where = _company(worst)
    if where is Whereabouts.PEER and _may_be_unheard(lane, worst):
        return Whereabouts.UNHEARD, worst
    return where, worst


def whereabouts_over(lane: Lane, first: int, last: int, *, is_delivered: bool) -> tuple[Whereabouts, Stuck | None]:
    """Where the bytes were while the segment behind the lane fell behind from one of its events to another.

    is_delivered: the peer's kernel had them on time. Else it does not matter which of them are asked for: what is
    always a little slow holds each for a little.
    """
    if lane.hop.timeline.window_peak_bytes is None:
        return Whereabouts.UNKNOWN, None
    acked = acknowledged(lane)
    company = stuck(lane, lane.hop.traffic.event_count, lane.arrived[first], acked[last] + SPEAKS_NS)
    if is_delivered:
        return Whereabouts.PEER, company
    if company is None or not company.stuck_ns:
        return Whereabouts.UNKNOWN, None
    if company.lost_share <= LOST_SHARE and company.shrunk_share < SHRUNK_SHARE:
        if _fills_the_window(lane, lane.seq[last] - lane.seq[first], acked[last] - acked[first]):
            return Whereabouts.WINDOW, company
        if company.shrunk_share >= WINDOW_MOVED_SHARE:
            return Whereabouts.UNKNOWN, company
    return _company(company), company


def _is_lossy(sample: KernelSample) -> bool:
    """Whether something is being sent again. Backing off with nothing in flight is asking a shut window."""
    is_resending = sample.backoff > 0 and sample.in_flight_segments > 0
    return sample.congestion_state >= LOSS_STATE or sample.lost_segments > 0 or is_resending


def _may_be_unheard(lane: Lane, found: Stuck) -> bool:
    """Whether a window may have seemed shut because the link, which loses, lost the word that there is room again:
    with nothing under way nobody says it a second time until our kernel asks."""
    timeline = lane.hop.timeline
    is_short = found.stuck_ns <= UNHEARD_NS + (timeline.round_trip_ns or 0)
    return is_short and any(_is_lossy(sample) for sample in timeline.samples)


def _fills_the_window(lane: Lane, events: int, took_ns: int) -> bool:
    """Whether about as much passed in each round trip as the reader has room for."""
    hop = lane.hop
    travel_ns, peak_bytes = hop.timeline.round_trip_ns, hop.timeline.window_peak_bytes
    if not travel_ns or not peak_bytes or took_ns <= 0:
        return False
    passed_bytes = hop.traffic.bytes_out * events / max(1, hop.traffic.event_count)
    return passed_bytes * travel_ns >= WINDOW_FILLED_SHARE * peak_bytes * took_ns


def _is_loss_felt(lane: Lane, found: Stuck, term_ns: int) -> bool:
    """Whether something was lost for long enough: on a far path a segment that was sent again once is seen for a
    moment, though its reader waited for it for two round trips."""
    lost_ns = found.lost_share * found.stuck_ns
    unseen_ns = UNSEEN_NS + (lane.hop.timeline.round_trip_ns or 0)
    return lost_ns >= LOSS_FELT_NS or (lost_ns > 0 and 2 * (lost_ns + unseen_ns) >= term_ns)


def _company(found: Stuck) -> Whereabouts:
    """Loss is asked first: while a lost segment fills a small window it looks like a slow reader's."""
    if found.lost_share > LOST_SHARE or found.shrunk_share < SHRUNK_SHARE:
        return Whereabouts.NETWORK
    return Whereabouts.PEER


def _asked(lane: Lane, indices: list[int], term_ns: int) -> list[int]:
    """The events of a wait that are asked for: the last, and of the others as many as may be."""
    first, last = lane.arrived[indices[0]], lane.taken[indices[-1]] + max(0, term_ns)
    near = bisect_right(lane.sampled, last) - bisect_right(lane.sampled, first)
    count = max(1, min(CANDIDATES, SAMPLES // max(1, near)))
    return indices[:: max(1, len(indices) // count)] + indices[-1:]


def _ask(lane: Lane, i: int, indices: list[int], term_ns: int) -> Stuck | None:
    blocked = lane.blocked.beginning(lane.arrived[indices[0]], lane.taken[indices[-1]])
    start = lane.arrived[i] if blocked is None else min(blocked, lane.arrived[i])
    travel_ns = lane.hop.timeline.round_trip_ns or 0  # an acknowledgement comes that much after the reader had it
    end = lane.taken[i] + max(0, term_ns) + travel_ns + LATE_LOOK_NS
    return stuck(lane, lane.seq[i], start, end, is_sent=start == lane.arrived[i])
