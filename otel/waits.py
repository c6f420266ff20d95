"""The waits of one answer, each term held against its own threshold: what may be named, and for what cause.

A hop, a link, a reader or a sidecar adds nothing to a healthy stream, so their terms are judged flat; only the
source has a rhythm of its own, and only its term is excused by it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypedDict

from otel import decompose, pace
from otel.align import Lane
from otel.buffering import EDGE, LOOK_NS, Comb, combs_of
from otel.causes import cause_behind, cause_of, cause_of_pace, is_first_output
from otel.decompose import Decomposition, Wait
from otel.evidence import Stuck, Whereabouts
from otel.findings import Cause, Finding, Policy
from otel.hop import WEBSOCKET
from otel.lineup import Kind, Lineup, Segment
from otel.rhythm import Rhythm, rhythm_of

WAITS_LOOKED_AT: Final = 1_000
"""A slow steady stream has a wait before each of its events; the longest ones decide."""
EVENTS_LOOKED_AT: Final = 2_000_000
"""At all taps, over all waits: where half of a text was edited, each wait may lie anywhere in thousands of them."""
_EDGES: Final = frozenset({Cause.SLOW_FIRST_EVENT, Cause.END_HOLD})
ONE_PIECE: Final = "it let go once, of nearly everything: a buffer cannot be told from a stall"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the waits of an answer show: its findings, rhythm, longest and first wait, and the gaps at each tap.

    notes: what is no fault and worth telling.
    """

    findings: list[Finding]
    notes: list[Finding] = field(default_factory=list)
    rhythm: Rhythm | None = None
    longest: Decomposition | None = None
    first: Decomposition | None = None
    gaps: tuple[pace.Gaps, ...] = ()


def look(lineup: Lineup, policy: Policy) -> Seen:
    """Everything above its threshold in every wait of the answer, the longest first.

    In a conversation whoever speaks next may be waited for: nothing is a wait of the reader's but what one tap shows
    and the tap before it does not.
    """
    rhythm = _rhythm(lineup.lanes[0], policy)
    gaps = _gaps(lineup)
    if _is_conversation(lineup.lanes[0]):
        return Seen(_explained(_judged(lineup, gaps, rhythm, policy), combs_of(lineup, gaps)), rhythm=rhythm)
    first, ending = decompose.first_event(lineup), decompose.end(lineup)
    waits = [*gaps, first, *([ending] if ending is not None else [])]
    combs = combs_of(lineup, waits)
    found = sorted([*_judged(lineup, waits, rhythm, policy), *_behind(lineup, policy)], key=lambda f: -f.felt_ns)
    findings = _explained(found, combs)
    return Seen(
        findings=findings,
        notes=_short_holds(lineup, waits, combs, findings, policy=policy),
        rhythm=rhythm,
        longest=max(gaps, key=lambda d: d.gap_ns, default=None) or _longest(lineup),
        first=first,
        gaps=pace.gaps_of(lineup),
    )


class Place(TypedDict):
    """Where in the reader's output a wait lies."""

    at_seq: int | None
    at_position: int | None
    is_position_exact: bool


def _gaps(lineup: Lineup) -> list[Decomposition]:
    """The waits between two deliveries that are long enough to look at, the longest first."""
    waits = [j for j in _waits(lineup) if lineup.reader[j] - lineup.reader[j - 1] >= LOOK_NS]
    waits = sorted(waits, key=lambda j: lineup.reader[j - 1] - lineup.reader[j])[:WAITS_LOOKED_AT]
    found = []
    looked_at = 0
    for j in waits:
        if looked_at > EVENTS_LOOKED_AT:
            break
        found.append(decompose.gap_before(lineup, j))
        looked_at += sum(window.last - window.first for window in found[-1].windows)
    return found


def _longest(lineup: Lineup) -> Decomposition | None:
    waits = _waits(lineup)
    if not waits:
        return None
    return decompose.gap_before(lineup, max(waits, key=lambda j: lineup.reader[j] - lineup.reader[j - 1]))


def _waits(lineup: Lineup) -> list[int]:
    return [j for j in range(1, lineup.last.count) if lineup.last.is_whole[j]]


def _rhythm(source: Lane, policy: Policy) -> Rhythm:
    gaps = [
        source.arrived[i] - source.arrived[i - 1] - source.blocked_before[i] - source.lag_before[i]
        for i in range(1, source.event_count)
        if source.is_whole[i] and not _is_conversation(source)
    ]
    return rhythm_of(
        gaps, floor_ns=policy.floor_ns, ceiling_ns=policy.ceiling_ns, elsewhere_ns=policy.rhythm_elsewhere_ns
    )


def _judged(lineup: Lineup, waits: Sequence[Decomposition], rhythm: Rhythm, policy: Policy) -> list[Finding]:
    """Every cause above its threshold in every wait, the longest first."""
    findings = [finding for wait in waits for finding in _above(lineup, wait, policy, rhythm)]
    return sorted(findings, key=lambda f: -f.felt_ns)


def _above(lineup: Lineup, wait: Decomposition, policy: Policy, rhythm: Rhythm) -> Iterable[Finding]:
    if wait.gap_ns < policy.floor_ns:
        return  # whatever the terms are, the reader did not wait
    for segment, term in wait.terms.items():
        if term < _limit(lineup, wait, segment, rhythm, policy):
            continue
        cause, kernel, where = cause_of(lineup, wait, segment, term, rhythm, policy=policy)
        yield _finding(lineup, wait, segment, cause, kernel=kernel, where=where)


def _finding(
    lineup: Lineup,
    wait: Decomposition,
    segment: Segment,
    cause: Cause,
    *,
    kernel: Stuck | None,
    where: Whereabouts | None,
) -> Finding:
    return Finding(
        cause=cause,
        segment=segment,
        term_ns=wait.terms[segment],
        decomposition=wait,
        **_place_of(lineup, wait),
        confidence=min(1.0, wait.terms[segment] / wait.gap_ns),
        kernel=kernel,
        where=where,
    )


def _behind(lineup: Lineup, policy: Policy) -> Iterable[Finding]:
    """Who fell behind without one long wait. How long the source itself took for the stretch is no fault of anyone."""
    for behind in pace.fell_behind(lineup, limit_ns=policy.behind_ns):
        cause, kernel, where = cause_of_pace(lineup, behind)
        added = sum(max(0, ns) for s, ns in behind.wait.terms.items() if s.kind is not Kind.SOURCE)
        yield Finding(
            cause=cause,
            segment=behind.segment,
            term_ns=behind.term_ns,
            decomposition=behind.wait,
            **_place_of(lineup, behind.wait),
            confidence=behind.term_ns / added,
            kernel=kernel,
            where=where,
        )


def _limit(lineup: Lineup, wait: Decomposition, segment: Segment, rhythm: Rhythm, policy: Policy) -> float:
    if segment.kind is not Kind.SOURCE:
        return policy.floor_ns
    if _is_conversation(lineup.lanes[0]):
        return math.inf
    if not is_first_output(wait, wait.terms[segment], rhythm, policy):
        return rhythm.limit_ns
    # an answer that is not streamed takes as long as the model needs for all of it
    return policy.first_event_ns if lineup.lanes[0].hop.exchange.is_stream else math.inf


def _is_conversation(source: Lane) -> bool:
    """Whether the source may wait for the reader as well as the reader for the source, so that neither has a rhythm."""
    return source.hop.exchange.framing == WEBSOCKET


def _place_of(lineup: Lineup, wait: Decomposition) -> Place:
    """Where in the output the wait lies: the event that ended it (the first of a stretch), and what had been delivered
    when it began."""
    last = lineup.last
    before = last.event_count - 1 if wait.wait is Wait.END else wait.ended_by - 1
    if wait.wait is Wait.PACE:
        before = wait.windows[-1].first
    if before < 0:
        return {"at_seq": last.seq[0], "at_position": 0, "is_position_exact": True}
    return {
        "at_seq": None if wait.wait is Wait.END else last.seq[before + 1],
        "at_position": last.low[before],
        "is_position_exact": last.low[before] == last.high[before],
    }


def _explained(findings: Sequence[Finding], combs: Mapping[Segment, Comb]) -> list[Finding]:
    """Say what buffers, and leave out what another finding explains: the late first event and the held end of an app
    that buffers, the single waits of a stretch in which their segment fell behind, and all but the longest of one
    segment's findings of one cause."""
    findings = [_buffered(f, combs, {Cause.APP_STALL}) for f in findings]
    buffers = {f.segment: f.term_ns for f in reversed(findings) if f.cause is Cause.BUFFERING}
    stretches = [f for f in findings if f.decomposition is not None and f.decomposition.wait is Wait.PACE]
    kept: list[Finding] = []
    for finding in findings:
        if any(_is_part_of(finding, other) for other in stretches):
            continue
        if finding.cause in _EDGES and finding.term_ns < EDGE * buffers.get(finding.segment, 0):
            continue
        told = _buffered(finding, combs, _EDGES)
        if not any(f.segment == told.segment and f.cause is told.cause for f in kept):
            kept.append(told)
    return kept


def _buffered(finding: Finding, combs: Mapping[Segment, Comb], causes: Collection[Cause]) -> Finding:
    """The finding as buffering, where it is one of these causes and the app does so all along."""
    comb = combs.get(finding.segment)
    if comb is None or finding.segment.kind is not Kind.BETWEEN or finding.cause not in causes:
        return finding
    is_tooth = finding.cause is Cause.APP_STALL and comb.has_teeth_like(finding.term_ns)
    if is_tooth or comb.has_pieces_like(finding.term_ns):
        return replace(finding, cause=Cause.BUFFERING)
    return replace(finding, detail=ONE_PIECE) if comb.is_one_piece() else finding


def _short_holds(
    lineup: Lineup,
    waits: Sequence[Decomposition],
    combs: Mapping[Segment, Comb],
    findings: Sequence[Finding],
    *,
    policy: Policy,
) -> list[Finding]:
    """Apps that buffer for less than a hop may add, the longest hold of each: a note, and no fault."""
    notes = []
    for segment in combs.keys() - {f.segment for f in findings}:
        if segment.kind is not Kind.BETWEEN:
            continue
        wait = max(waits, key=lambda w: w.terms.get(segment, 0))
        term = wait.terms.get(segment, 0)
        if not LOOK_NS <= term < policy.floor_ns or wait.gap_ns < LOOK_NS:
            continue  # too short, or made up for before the reader could feel it
        cause, kernel, where = cause_behind(lineup, wait, segment, term)
        note = _finding(lineup, wait, segment, cause, kernel=kernel, where=where)
        if _buffered(note, combs, {Cause.APP_STALL, *_EDGES}).cause is Cause.BUFFERING:
            notes.append(replace(note, cause=Cause.BUFFERING))
    return sorted(notes, key=lambda f: (-f.term_ns, f.segment.label))


def _is_part_of(finding: Finding, stretch: Finding) -> bool:
    """Whether a wait of a segment is one of many in a stretch in which it fell behind: no wait in it explains half.

    That a window is too small for the way does not explain what else the peer did.
    """
    if stretch.where is Whereabouts.WINDOW and finding.cause is not stretch.cause:
        return False
    wait, behind = finding.decomposition, stretch.decomposition
    if wait is None or behind is None or wait.wait is not Wait.GAP or behind.wait is not Wait.PACE:
        return False
    last = behind.windows[-1]
    is_within = last.first < wait.ended_by <= last.last
    return finding.segment == stretch.segment and is_within and 2 * finding.term_ns <= stretch.term_ns
