"""A path in arithmetic: hops as a perfect chain of taps would have recorded them, with planted faults.

Everything is computed from integers, so a planted delay of 2 s is 2,000,000,000 ns in the stamps. `run`
returns the hops, source first; a reader sits behind the last one.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from otel.grain import QUANTUM, UNIT_NS, quantised
from otel.hop import (
    Anchor,
    Blocked,
    End,
    Ending,
    EventClass,
    Exchange,
    Hop,
    Interval,
    KernelSample,
    Moments,
    Phase,
    Place,
    Side,
    Stamp,
    TapRole,
    Timeline,
    Traffic,
)
from otel.ids import span_id_of, trace_id_of

MS = 1_000_000
S = 1_000 * MS
WORKER, PROXY, GATEWAY = NAMES = ("model-worker", "inference-proxy", "gateway")
LINK = 300_000
HAND_OVER = 60_000
APP = 1 * MS
ROOM = 20
PEAK = 131_072


@dataclass(frozen=True)
class Text:
    """A piece of visible output on its way: when it is there, and how many characters there are with it."""

    at: int
    position: int
    event_class: EventClass = EventClass.CONTENT


@dataclass(frozen=True)
class Chain:
    """What happens on the path. Times in ns; hop-keyed dictionaries name the hop whose app or sidecar is meant.

    stall: (hop or "source", event, ns), buffer: (hop, ns), merge: hop -> events joined into one,
    collects: hop -> events let go together, each as it came, keeps_rest: what is too little for that goes with the end,
    late_end: ns by which the source ends later than it must.
    freeze: (hop, event, ns) of a sidecar, slow_reader: (event, ns), lossy: (hop, event, ns) on the link behind it,
    paces: (hop, ns) whose app passes on one event in so long; narrow: (hop, ns) behind which the link carries one in so
    long; sluggish: the reader takes one in so long, with room for ROOM of them.
    has_record: the reader makes a record of its own. unread, unconsumed: (event, ns) for which it reads nothing of what
    its kernel has, or consumes nothing of what it has read.
    cut: (segment's hop or "source", event), leave: the event after which the reader leaves. phases: (class, events)
    one after the other, content for the rest. strips: a hop -> the class that it does not pass on. split: hop -> events
    made of one. rewrites: hop -> (event, characters) that its app adds there, or takes away where fewer than none.
    """

    events: int = 120
    gap: int = 25 * MS
    first: int = 120 * MS
    jitter: int = 0
    chars: Sequence[int] = (4,)
    phases: Sequence[tuple[EventClass, int]] = ()
    strips: dict[str, EventClass] = field(default_factory=dict)
    stalls: Sequence[tuple[str, int, int]] = ()
    slow_first: Sequence[tuple[str, int]] = ()
    buffers: Sequence[tuple[str, int]] = ()
    merge: dict[str, int] = field(default_factory=dict)
    collects: dict[str, int] = field(default_factory=dict)
    keeps_rest: bool = False
    late_end: int = 0
    split: dict[str, int] = field(default_factory=dict)
    rewrites: dict[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    freeze: tuple[str, int, int] | None = None
    slow_reader: tuple[int, int] | None = None
    lossy: tuple[str, int, int] | None = None
    paces: Sequence[tuple[str, int]] = ()
    narrow: tuple[str, int] | None = None
    sluggish: int | None = None
    cut: tuple[str, int] | None = None
    leave: int | None = None
    names: Sequence[str] = NAMES
    seed: int = 0
    request_id: str = "req-1"
    is_exact: bool = False
    schedule: Sequence[int] | None = None
    wall: dict[str, int] = field(default_factory=dict)
    same_clock: bool = False
    egress: Sequence[str] = ()
    has_record: bool = False
    unread: tuple[int, int] | None = None
    unconsumed: tuple[int, int] | None = None


def run(chain: Chain) -> list[Hop]:
    """The hops that the chain leaves behind, source first."""
    count = len(chain.names)
    asked = [APP * (count - 1 - i) for i in range(count)]  # when the request head reached each tap
    texts = _source(chain, asked[0])
    ended = (texts[-1].at if texts else asked[0] + chain.first) + MS + chain.late_end
    hops: list[Hop] = []
    for i, name in enumerate(chain.names):
        arriving = texts
        texts = _held(texts, chain, name, at_source=i == 0, ended=ended)
        cut_here = chain.cut is not None and chain.cut[0] == ("source" if i == 0 else name)
        if cut_here and chain.cut is not None:
            texts = texts[: chain.cut[1]]
        if name in chain.egress:
            between, link = _tap(
                replace(chain, slow_reader=None, lossy=None, freeze=None),
                i,
                arriving,
                asked[i],
                cut_here=False,
                ended_at=ended,
            )
            hops.append(_as_egress(between, name))
            assert link
        hop, texts = _tap(chain, i, texts, asked[i], cut_here=cut_here, ended_at=ended)
        ended = max(ended, asked[i] + (hop.moments.upstream_ended_ns or 0))
        hops.append(hop)
    return [*hops, _record(chain, hops[-1], texts, asked[-1] - APP)] if chain.has_record else hops


def _record(chain: Chain, last: Hop, texts: Sequence[Text], asked: int) -> Hop:
    """What the reader itself recorded of an answer that the last tap passed on."""
    received = _stopped([text.at + LINK for text in texts], chain.unread)
    consumed = _stopped(received, chain.unconsumed)
    stamps = [
        Stamp(k, at - asked, done - asked, text.event_class, text.position)
        for k, (at, done, text) in enumerate(zip(received, consumed, texts, strict=True))
    ]
    ended = MS + (consumed[-1] if consumed else asked) - asked
    unit, quantum = (1_000, 1) if chain.is_exact else (UNIT_NS, QUANTUM)
    return replace(
        last,
        span_id=span_id_of(last.trace_id, "browser"),
        place=Place("browser", TapRole.CLIENT),
        anchor=Anchor(last.anchor.wall_ns - 5 * S, 77 * S, ""),
        moments=Moments(upstream_ended_ns=ended, downstream_ended_ns=ended, closed_ns=ended),
        timeline=quantised(Timeline(unit_ns=1, quantum=1, stamps=tuple(stamps)), unit_ns=unit, quantum=quantum),
    )


def _stopped(times: Sequence[int], stop: tuple[int, int] | None) -> list[int]:
    """The times with what came while the reader stopped moved to when it went on."""
    if stop is None:
        return list(times)
    begin = times[stop[0]]
    return [begin + stop[1] if begin <= at < begin + stop[1] else at for at in times]


def _as_egress(hop: Hop, name: str) -> Hop:
    """The tap between a hop's app and the hops behind it: it saw the request later than the tap before the app."""
    later = APP // 2
    shifted_stamps = tuple(
        replace(s, arrived_ns=s.arrived_ns - later, taken_ns=None if s.taken_ns is None else s.taken_ns - later)
        for s in hop.timeline.stamps
    )
    return replace(
        hop,
        span_id=span_id_of(hop.trace_id, name, "egress"),
        place=Place(name, TapRole.EGRESS),
        anchor=replace(hop.anchor, monotonic_ns=hop.anchor.monotonic_ns + later, wall_ns=hop.anchor.wall_ns + later),
        timeline=replace(hop.timeline, stamps=shifted_stamps),
    )


def longest_wait(hop: Hop) -> int:
    """The longest time between two texts at a tap's hand-over."""
    taken = [s.taken_ns for s in hop.timeline.stamps if s.taken_ns is not None and s.event_class is EventClass.CONTENT]
    return max((b - a for a, b in pairwise(taken)), default=0)


def _source(chain: Chain, asked: int) -> list[Text]:
    draw = random.Random(chain.seed)
    texts: list[Text] = []
    kinds = [event_class for event_class, count in chain.phases for _ in range(count)]
    at, position = asked + chain.first, 0
    for k in range(chain.events):
        if k:
            step = chain.schedule[(k - 1) % len(chain.schedule)] if chain.schedule else chain.gap
            at += step + (draw.randrange(chain.jitter) if chain.jitter else 0)
        at += sum(ns for name, event, ns in chain.stalls if name == "source" and event == k)
        at += sum(ns for name, ns in chain.slow_first if name == "source" and k == 0)
        event_class = kinds[k] if k < len(kinds) else EventClass.CONTENT
        position += chain.chars[k % len(chain.chars)] if event_class is EventClass.CONTENT else 0
        texts.append(Text(at, position, event_class))
    return texts


def _held(texts: Sequence[Text], chain: Chain, name: str, *, at_source: bool, ended: int) -> list[Text]:
    """What an app makes of its input: held, buffered, merged, never reordered. ended: when its input is over."""
    held: list[Text] = []
    for k, text in enumerate(texts):
        at = text.at + (0 if at_source else APP)
        if not at_source:
            at += sum(ns for hop, event, ns in chain.stalls if hop == name and event == k)
            at += sum(ns for hop, ns in chain.slow_first if hop == name and k == 0)
            if held:
                at = max([at, *(held[-1].at + ns for hop, ns in chain.paces if hop == name)])
        held.append(replace(text, at=max(at, held[-1].at if held else 0)))
    held = [text for text in held if text.event_class is not chain.strips.get(name)]
    for hop, every in chain.buffers:
        if hop == name and held:
            start, end = held[0].at, held[-1].at + APP  # what is left goes when nothing more comes
            held = [replace(t, at=min(start + -(-(t.at - start + 1) // every) * every, end)) for t in held]
    rest_at = ended + APP if chain.keeps_rest else None
    size = chain.collects.get(name, 1)
    if size > 1:
        held = [replace(text, at=at) for at, group in _pieces(held, size, rest_at=rest_at) for text in group]
    for event, more in chain.rewrites.get(name, ()):
        last = held[min(event, len(held)) - 1].position if event and held else 0
        held = [replace(t, position=max(last, t.position + more)) if k >= event else t for k, t in enumerate(held)]
    if (parts := chain.split.get(name, 1)) > 1:
        before = [0, *(text.position for text in held)]
        held = [
            replace(text, position=start + (text.position - start) * (n + 1) // parts)
            for start, text in zip(before, held, strict=False)
            for n in range(parts)
        ]
    size = chain.merge.get(name, 1)
    if size > 1:
        held = [replace(group[-1], at=at) for at, group in _pieces(held, size, rest_at=rest_at)]
    return held


def _pieces(texts: Sequence[Text], size: int, *, rest_at: int | None) -> list[tuple[int, Sequence[Text]]]:
    """The texts in groups, each with the time of the last of them; what is too little for one at rest_at."""
    groups = [texts[i : i + size] for i in range(0, len(texts), size)]
    return [(group[-1].at if len(group) == size or rest_at is None else rest_at, group) for group in groups]


def _tap(
    chain: Chain, i: int, texts: Sequence[Text], asked: int, *, cut_here: bool, ended_at: int
) -> tuple[Hop, list[Text]]:
    name = chain.names[i]
    is_last = i == len(chain.names) - 1
    blocked: list[Blocked] = []
    lag: list[Interval] = []
    samples: list[KernelSample] = []
    frozen = _interval(chain.freeze, name, texts)
    stuck, event = None, 0
    if is_last and chain.slow_reader is not None:
        event, ns = min(chain.slow_reader[0], len(texts) - 1), chain.slow_reader[1]
        stuck = (texts[event].at + LINK, texts[event].at + LINK + ns)
        blocked.append(Blocked(stuck[0] - asked, stuck[1] - asked, 4096))
        samples += _samples(stuck, asked, event, window=0, lost=0)
    lost = None
    if chain.lossy is not None and chain.lossy[0] == name:
        at = min(chain.lossy[1], len(texts) - 1)
        begin = texts[at].at + LINK + HAND_OVER
        lost = (begin, begin + chain.lossy[2])
        samples += _samples(lost, asked, at, window=PEAK, lost=1)
    pull = chain.sluggish if is_last else None
    stamps: list[Stamp] = []
    passed: list[Text] = []
    freed: list[int] = []  # when the peer's kernel had each event
    for k, text in enumerate(texts):
        arrived = text.at + LINK
        if frozen and frozen[0] <= arrived < frozen[1]:
            arrived = frozen[1]
        taken = arrived + HAND_OVER
        if stuck and k >= event:
            if k > event:
                arrived = max(arrived, stuck[1])
            taken = max(arrived, stuck[1]) + HAND_OVER
        if pull is not None:
            arrived = max(arrived, stamps[-1].taken_ns + asked if stamps else 0)
            taken = max(arrived + HAND_OVER, freed[k - ROOM] if k >= ROOM else 0)
            freed.append(max(taken, (freed[-1] if freed else 0) + pull))
            if taken > arrived + HAND_OVER:
                blocked.append(Blocked(arrived + HAND_OVER // 2 - asked, taken - asked, 4096))
        stamps.append(Stamp(k, arrived - asked, taken - asked, text.event_class, text.position))
        out = taken
        if chain.narrow is not None and chain.narrow[0] == name:
            out = max(out, passed[-1].at + chain.narrow[1]) if passed else out
            freed.append(out)
        if lost and lost[0] <= out < lost[1]:
            out = lost[1]
        passed.append(replace(text, at=out))
    if freed:
        samples += _watched([s.taken_ns + asked for s in stamps if s.taken_ns is not None], freed, asked, pull=pull)
    if frozen:
        lag.append(Interval(frozen[0] - asked, frozen[1] - asked))
    last = stamps[-1].taken_ns if stamps else chain.first
    ended = max((last or 0) + MS, ended_at + LINK - asked if chain.late_end else 0)
    ending, side, left = Ending.COMPLETE, Side.UPSTREAM, None
    if chain.cut is not None:
        cut_at = len(chain.names) - 1 if chain.cut[0] not in chain.names else chain.names.index(chain.cut[0])
        cut_at = 0 if chain.cut[0] == "source" else cut_at
        if i >= cut_at:
            ending = Ending.UPSTREAM_CUT
        else:
            ending, side, left = Ending.CLIENT_DISCONNECT, Side.DOWNSTREAM, ended
    elif chain.leave is not None:
        stamps = stamps[: chain.leave]
        ended = (stamps[-1].taken_ns or 0) + MS
        ending, side, left = Ending.CLIENT_DISCONNECT, Side.DOWNSTREAM, ended
    timeline = Timeline(
        unit_ns=1,
        quantum=1,
        stamps=tuple(stamps),
        blocked=tuple(blocked),
        lag=tuple(lag),
        samples=tuple(samples),
        window_peak_bytes=PEAK,
    )
    unit, quantum = (1_000, 1) if chain.is_exact else (UNIT_NS, QUANTUM)
    offset = 0 if chain.same_clock else (i + 1) * 7_919 * S
    trace_id = trace_id_of(chain.request_id)
    hop = Hop(
        request_id=chain.request_id,
        request_id_source="header",
        trace_id=trace_id,
        span_id=span_id_of(trace_id, name, i),
        place=Place(name, TapRole.INGRESS),
        anchor=Anchor(
            wall_ns=1_800_000_000 * S + asked + chain.wall.get(name, 0),
            monotonic_ns=asked + offset,
            clock_domain="one" if chain.same_clock else f"clock-{i}",
        ),
        exchange=Exchange(
            method="POST",
            path="/v1/chat/completions",
            status=200,
            framing="sse",
            dialect="openai-chat",
            model="tiny",
            is_stream=True,
            has_terminal_rule=True,
        ),
        moments=Moments(
            request_forwarded_ns=100_000,
            headers_received_ns=(stamps[0].arrived_ns if stamps else chain.first) - 50_000,
            upstream_ended_ns=None if left is not None else ended,
            downstream_ended_ns=ended + 50_000 if ending is Ending.COMPLETE else None,
            client_left_ns=left,
            upstream_closed_ns=left,
            closed_ns=ended + 100_000,
        ),
        traffic=Traffic(event_count=len(stamps), bytes_in=200 * len(stamps), bytes_out=200 * len(stamps)),
        timeline=quantised(timeline, unit_ns=unit, quantum=quantum),
        end=End(ending, side, Phase.EVENTS, MS),
    )
    return hop, passed


def _interval(fault: tuple[str, int, int] | None, name: str, texts: Sequence[Text]) -> tuple[int, int] | None:
    if fault is None or fault[0] != name:
        return None
    begin = texts[min(fault[1], len(texts) - 1)].at + LINK
    return begin, begin + fault[2]


def _samples(span: tuple[int, int], asked: int, acked: int, *, window: int, lost: int) -> list[KernelSample]:
    def sample(at: int, *, is_over: bool) -> KernelSample:
        return KernelSample(
            offset_ns=at - asked,
            acked_count=acked + (1 if is_over else 0),
            in_flight_segments=0 if is_over else 1,
            unsent_bytes=0 if is_over or lost else 4096,
            window_bytes=PEAK if is_over else window,
            lost_segments=0 if is_over else lost,
            congestion_state=4 if lost and not is_over else 0,
            backoff=1 if lost and not is_over else 0,
        )

    inside = [sample(at, is_over=False) for at in range(span[0] + 100 * MS, span[1], 100 * MS)]
    return [*inside, sample(span[1] + MS, is_over=True)]


def _watched(taken: Sequence[int], freed: Sequence[int], asked: int, *, pull: int | None) -> list[KernelSample]:
    """Samples of a connection whose peer has each event when `freed` says; it shuts its window where it has to pull."""
    samples = []
    for at in range(taken[0] + 100 * MS, freed[-1] + 200 * MS, 100 * MS):
        acked = bisect_right(freed, at)
        is_idle = acked == len(freed) or taken[acked] > at
        samples.append(
            KernelSample(
                offset_ns=at - asked,
                acked_count=acked,
                in_flight_segments=0 if is_idle or pull else 1,
                unsent_bytes=0 if is_idle or not pull else 4096,
                window_bytes=0 if pull and not is_idle else PEAK,
                lost_segments=0,
                congestion_state=0,
                backoff=0,
            )
        )
    return samples


def shifted(hop: Hop, *, wall_ns: int) -> Hop:
    """The same hop under a wall clock that is wrong by wall_ns."""
    return replace(hop, anchor=replace(hop.anchor, wall_ns=hop.anchor.wall_ns + wall_ns))
