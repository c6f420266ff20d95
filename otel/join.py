"""Hops of one request → Path: which hop stood where between the source and the reader.

No clock of one place is compared with a clock of another. Two hops that read the same monotonic clock are
ordered by it; all others by nesting: a request passes the outer hop first and its answer passes it last, so
the outer hop waits longer for the first output, however its clock is set. Where clocks may run at different
rates and a long wait leaves the order open, the likelier one is taken and the path says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise, product
from typing import Final, TypeVar

from otel.hop import EGRESS, OUTPUT, Blocked, Ending, Hop, Interval, State, TapRole, Timeline
from otel.ids import normalised

RATE_ERROR: Final = 250e-6
"""Largest relative difference of the rates of two machines' clocks that is allowed for (a free-running crystal
stays below 100 ppm): intervals closer together than this do not prove nesting."""

LIKENED: Final = 16
"""Exchanges of a place that are compared with as many of another one: an id that everybody sends has hundreds."""

EDITED_SHARE: Final = 0.25
EDITED_CHARS: Final = 64
"""Answers whose texts differ in length by more than both, and in their ids, are two answers."""
S = TypeVar("S", Blocked, Interval)
Key = tuple[str, str]
_WHY_ABSENT: Final = "its sidecar did not report, or a hop before it does not pass the request id on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """The hops of one request in order, the source's first and the reader's last.

    taps: one hop per place; a hop still open is put together from its segments.
    others: exchanges of the same request that are not on the path (retries, a request id used twice).
    missing: what is known not to be there, one sentence each. expected: names of the hops that usually stand
    on this path, source first, and absent those of them without a record.
    is_shared: several requests with this id reached the hop nearest the reader; some of the others may be theirs.
    unproven: neighbours whose order is only likely.
    """

    request_id: str
    trace_id: str
    taps: tuple[Hop, ...]
    others: tuple[Hop, ...] = ()
    missing: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    unproven: tuple[tuple[str, str], ...] = ()
    is_shared: bool = False

    @property
    def is_open(self) -> bool:
        return any(hop.state is State.OPEN for hop in self.taps)

    def absent_between(self, upstream: str | None, downstream: str | None) -> tuple[str, ...]:
        """Hops whose app lies between two taps besides that of the downstream one, source first: expected ones without
        a record, and one of which the tap before its app is not there. None is the source's and the reader's end."""
        order = list(self.expected)
        is_inner = upstream is not None and upstream.endswith(EGRESS)
        upstream, downstream = (tap and tap.removesuffix(EGRESS) for tap in (upstream, downstream))
        half = (upstream,) if is_inner and upstream is not None and upstream != downstream else ()
        begin = order.index(upstream) + 1 if upstream in order else 0 if upstream is None else len(order)
        end = order.index(downstream) if downstream in order else len(order) if downstream is None else 0
        return half + tuple(name for name in order[begin:end] if name in self.absent)


def join(hops: Iterable[Hop], *, expected_path: Sequence[str] = ()) -> Path:
    """The path of the latest request that these hops saw; see `paths`."""
    return paths(hops, expected_path=expected_path)[0]


def paths(hops: Iterable[Hop], *, expected_path: Sequence[str] = ()) -> tuple[Path, ...]:
    """Place the hops of one request id, the latest request first: one path for each exchange nearest the reader.

    Their order in the input does not matter, and no stamp is changed. A place with several exchanges on one path
    (a retry) gives the one that carried the answer. expected_path: names of hops from the source to the reader that
    are known to stand on this path; they decide the order where they are present, and are reported where they are
    not. Raises ValueError for no hops.
    """
    notes: list[str] = []
    exchanges = _exchanges(hops, notes)
    if not exchanges:
        raise ValueError("no hops to join")
    rank = {name: i for i, name in enumerate(expected_path)}
    places: dict[Key, list[Hop]] = {}
    for hop in exchanges:
        places.setdefault((hop.place.hop, hop.place.role), []).append(hop)
    besides = [places.pop(place) for place in _besides(places) if place[0] not in rank]
    outermost = _outermost(places, rank)
    for name, role in [place for place in places if place[1] is TapRole.CLIENT and place != outermost]:
        del places[name, role]
        notes.append(f"the record of {name} is left out: of several clients the outermost is the reader")
    requests = sorted(places.pop(outermost), key=_start_key, reverse=True)
    found = []
    for request in requests:
        strangers = [other for other in requests if other is not request]
        able = [[hop for hop in group if _may_be_of(hop, request, strangers)] for group in places.values()]
        chosen = [request, *(_nearest(request, group) for group in able if group)]
        others = [hop for group in able for hop in group if hop not in chosen]
        others += [hop for group in besides for hop in group if _may_be_of(hop, request, strangers)]
        path = _path(tuple(_ordered(chosen, rank)), tuple(others), notes, tuple(expected_path))
        found.append(replace(path, is_shared=len(requests) > 1))
    return tuple(found)


def _path(taps: tuple[Hop, ...], others: tuple[Hop, ...], notes: Sequence[str], expected: tuple[str, ...]) -> Path:
    rank = {name: i for i, name in enumerate(expected)}
    present = {hop.place.hop for hop in taps}
    absent = tuple(name for name in expected if name not in present)
    unproven = tuple(
        (inner.place.hop, outer.place.hop) for inner, outer in pairwise(taps) if not _compared(outer, inner, rank)[1]
    )
    missing = [
        *notes,
        *(f"no record from {name}, which usually stands on this path: {_WHY_ABSENT}" for name in absent),
        *(
            f"no proof that {outer} stands outside of {inner}: their clocks may differ by more"
            for inner, outer in unproven
        ),
    ]
    return Path(
        request_id=taps[-1].request_id,
        trace_id=taps[-1].trace_id,
        taps=taps,
        others=others,
        missing=tuple(missing),
        expected=expected,
        absent=absent,
        unproven=unproven,
    )


def _exchanges(hops: Iterable[Hop], notes: list[str]) -> list[Hop]:
    """One hop per exchange: the final record where there is one, else what its segments add up to."""
    unique = {hop.span_id: hop for hop in sorted(hops, key=_canonical)}
    exchanges = []
    for _, group in groupby(sorted(unique.values(), key=_exchange_key), key=_exchange_key):
        records = list(group)
        finals = [hop for hop in records if hop.state is State.FINAL]
        exchanges.append(finals[0] if finals else _merged(records, notes))
    return exchanges


def _merged(segments: Sequence[Hop], notes: list[str]) -> Hop:
    ordered = sorted(segments, key=lambda hop: hop.segment_index)
    last = ordered[-1]
    found = [hop.segment_index for hop in ordered]
    lost = sorted(set(range(last.segment_index + 1)) - set(found))
    if lost:
        notes.append(f"segment {', '.join(map(str, lost))} of {last.segment_index + 1} of {last.place.hop} is missing")
    sent = [hop.sent for hop in ordered if hop.sent is not None]
    return replace(last, timeline=_added([hop.timeline for hop in ordered]), sent=_added(sent) if sent else None)


def _added(parts: Sequence[Timeline]) -> Timeline:
    return Timeline(
        unit_ns=parts[-1].unit_ns,
        quantum=parts[-1].quantum,
        stamps=tuple(stamp for part in parts for stamp in part.stamps),
        blocked=_longest(b for part in parts for b in part.blocked),
        lag=_longest(i for part in parts for i in part.lag),
        samples=tuple(sorted({s for part in parts for s in part.samples}, key=lambda s: s.offset_ns)),
        window_peak_bytes=max((p.window_peak_bytes for p in parts if p.window_peak_bytes is not None), default=None),
        round_trip_ns=min((p.round_trip_ns for p in parts if p.round_trip_ns is not None), default=None),
        is_thinned=any(part.is_thinned for part in parts),
        is_cut_short=any(part.is_cut_short for part in parts),
        is_evidence_thinned=any(part.is_evidence_thinned for part in parts),
    )


def _longest(stretches: Iterable[S]) -> tuple[S, ...]:
    """What was told while it lasted is told again by the segments after it: of one beginning the latest end counts."""
    return tuple({s.start_ns: s for s in sorted(stretches, key=lambda s: (s.start_ns, s.end_ns))}.values())


def _may_be_of(hop: Hop, request: Hop, strangers: Sequence[Hop]) -> bool:
    """Whether an exchange behind the place of several requests can have served this one of them.

    Not where it carried the answer of another one, where one clock says that it began before the request or after its
    end, or where it had its first output later than the request: an outer hop waits longer.
    """
    if not strangers:
        return True
    if any(_is_same_answer(other, hop) for other in strangers) and not _is_same_answer(request, hop):
        return False
    if _has_same_clock(hop, request):
        return 0 <= hop.anchor.monotonic_ns - request.anchor.monotonic_ns <= request.moments.closed_ns
    mine, its = _first_output(hop), _first_output(request)
    return mine is None or its is None or mine <= its + RATE_ERROR * its


def _nearest(request: Hop, group: Sequence[Hop]) -> Hop:
    """Of several exchanges at one place the one that carried this request's answer."""
    return min(group, key=lambda hop: (_distance(request, hop), hop.span_id))


def _distance(hop: Hop, other: Hop) -> tuple[bool, bool, int, int]:
    """How unlike the exchanges of two places are: the less, the likelier they carried one answer.

    The answer's own id comes first, then that neither was over before the other began, as far as one clock tells, then
    the amount of visible output, then how long they took: lengths of time are compared across clocks, instants never.
    """
    started_ns = hop.anchor.monotonic_ns - other.anchor.monotonic_ns
    is_apart = _has_same_clock(hop, other) and not (-hop.moments.closed_ns <= started_ns <= other.moments.closed_ns)
    return (
        not _is_same_answer(hop, other),
        is_apart,
        abs(_visible(hop) - _visible(other)),
        abs(hop.moments.closed_ns - other.moments.closed_ns),
    )


def _is_same_answer(hop: Hop, other: Hop) -> bool:
    mine, theirs = hop.exchange.response_id, other.exchange.response_id
    return mine is not None and theirs is not None and normalised(mine) == normalised(theirs)


def _besides(places: Mapping[Key, Sequence[Hop]]) -> list[Key]:
    """Places that carried another answer than most did: what an app asked besides, a guard or a title, stands on no
    path of this one. None where it cannot be told which answer is this one, nor the place that lasted longest: whoever
    asks lasts longer than what it asks."""
    whole = {place: [hop for hop in group[-LIKENED:] if _is_whole(hop)] for place, group in places.items()}
    left = sorted(place for place, group in whole.items() if group)
    answers: list[list[Key]] = []
    while left:
        answer = [left.pop(0)]
        for place in answer:  # grows as it is gone through
            alike = [
                other for other in left if any(_carried_one(*pair) for pair in product(whole[place], whole[other]))
            ]
            answer += alike
            left = [other for other in left if other not in alike]
        answers.append(answer)
    most = max(map(len, answers), default=0)
    if sum(len(answer) == most for answer in answers) != 1:
        return []
    longest = max(places, key=lambda place: (max(hop.moments.closed_ns for hop in places[place]), place))
    return [place for answer in answers if len(answer) < most for place in answer if place != longest]


def _is_whole(hop: Hop) -> bool:
    """All of its answer was seen, and some of it was output."""
    return hop.end is not None and hop.end.ending is Ending.COMPLETE and _first_output(hop) is not None


def _carried_one(hop: Hop, other: Hop) -> bool:
    """Whether they may have carried one answer: it has one id, or about as much text however it was edited."""
    mine, theirs = _visible(hop), _visible(other)
    return _is_same_answer(hop, other) or abs(mine - theirs) <= max(EDITED_CHARS, EDITED_SHARE * max(mine, theirs))


def _outermost(places: Mapping[Key, Sequence[Hop]], rank: dict[str, int]) -> Key:
    """The place that stands outside of most others, as those exchanges of two places say that are most alike."""
    latest = {place: sorted(group, key=_start_key)[-LIKENED:] for place, group in places.items()}

    def stands_outside(place: Key, other: Key) -> bool:
        pairs = product(latest[place], latest[other])
        hop, inner = min(pairs, key=lambda pair: (_distance(*pair), pair[0].span_id, pair[1].span_id))
        return _compared(hop, inner, rank)[0]

    wins = {place: sum(stands_outside(place, other) for other in places if other != place) for place in places}
    return max(places, key=lambda place: (wins[place], place))


def _ordered(hops: Sequence[Hop], rank: dict[str, int]) -> list[Hop]:
    """Sort by how many of the others each hop stands outside of: a tournament, so one odd pair cannot turn the rest."""
    ordered = sorted(hops, key=_canonical)
    wins = {
        hop.span_id: sum(_compared(hop, other, rank)[0] for other in ordered if other is not hop) for hop in ordered
    }
    return sorted(ordered, key=lambda hop: wins[hop.span_id])


def _compared(hop: Hop, other: Hop, rank: dict[str, int]) -> tuple[bool, bool]:
    """(whether `hop` stands nearer the reader than `other`, whether that is proven)."""
    if (hop.place.role is TapRole.CLIENT) != (other.place.role is TapRole.CLIENT):
        return hop.place.role is TapRole.CLIENT, True
    if hop.place.hop == other.place.hop:  # egress stands between the app and the source, ingress before the app
        return hop.place.role is TapRole.INGRESS, True
    if hop.place.hop in rank and other.place.hop in rank:
        return rank[hop.place.hop] > rank[other.place.hop], True
    mine, theirs = hop.anchor, other.anchor
    if _has_same_clock(hop, other) and mine.monotonic_ns != theirs.monotonic_ns:
        return mine.monotonic_ns < theirs.monotonic_ns, True
    same_rate = bool(_machine(hop)) and _machine(hop) == _machine(other)
    pairs = [(a, b) for a, b in zip(_nested(hop), _nested(other), strict=True) if a is not None and b is not None]
    for a, b in pairs:
        if abs(a - b) > (0 if same_rate else RATE_ERROR * max(a, b)):
            return a > b, True
    for a, b in pairs:
        if a != b:
            return a > b, False
    return hop.place.hop > other.place.hop, False


def _has_same_clock(hop: Hop, other: Hop) -> bool:
    return bool(hop.anchor.clock_domain) and hop.anchor.clock_domain == other.anchor.clock_domain


def _machine(hop: Hop) -> str:
    """The boot id: clocks of one machine may be set apart (time namespaces), but run at one rate."""
    return hop.anchor.clock_domain.partition(":")[0]


def _nested(hop: Hop) -> tuple[int | None, ...]:
    """Intervals from the request's arrival that are longer at an outer hop than at an inner one, surest first."""
    stamps = hop.timeline.stamps
    first_event = stamps[0].arrived_ns if stamps else None
    moments = hop.moments
    return _first_output(hop), first_event, moments.headers_received_ns, moments.upstream_ended_ns, moments.closed_ns


def _first_output(hop: Hop) -> int | None:
    return next((stamp.arrived_ns for stamp in hop.timeline.stamps if stamp.event_class in OUTPUT), None)


def _visible(hop: Hop) -> int:
    return hop.timeline.stamps[-1].position if hop.timeline.stamps else 0


def _start_key(hop: Hop) -> tuple[int, int]:
    return hop.anchor.wall_ns, hop.anchor.monotonic_ns


def _exchange_key(hop: Hop) -> tuple[str, ...]:
    anchor = hop.anchor
    return (hop.place.hop, hop.place.role, anchor.clock_domain, f"{anchor.monotonic_ns:020d}", f"{anchor.wall_ns:020d}")


def _canonical(hop: Hop) -> tuple[str, ...]:
    return (*_exchange_key(hop), hop.state, f"{hop.segment_index:06d}", hop.span_id)
