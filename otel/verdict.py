"""Path → Verdict: the first hop where the gap grew, with the evidence, or an honest "cannot tell".

The question is always the same: the reader waited for the next piece of output, so who made it wait? The
answer is read off the decomposition (`otel.decompose`): the largest term above its own threshold. A hop, a
link, a reader or a sidecar adds nothing to a healthy stream, so their terms are judged flat; only the source
has a rhythm of its own, and only its term is excused by it. An answer that broke off comes before one that
came late: truncation is charged from the source on, a client that leaves from the reader on, because closing
travels upstream and makes every tap above look abnormal too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from otel import decompose
from otel.align import Lane, carriers_of, lane_of, overlap
from otel.breakoff import broken_off
from otel.decompose import Decomposition, Kind, Lineup, Segment, Wait
from otel.evidence import Stuck, Whereabouts, whereabouts
from otel.findings import MS, Cause, Finding, Policy, Reach, Status, Verdict
from otel.hop import EventClass, Hop, TapRole
from otel.join import Path
from otel.rhythm import Rhythm, rhythm_of

LOOK_NS: Final = 100 * MS
"""Waits from here on are decomposed: a hop that holds for less than its threshold still shows its comb."""
WAITS_LOOKED_AT: Final = 1_000
"""A slow steady stream has a wait before each of its events; the longest ones decide."""
WAITS_NAMED: Final = 12
TEETH: Final = 3
"""This many waits charged to one app are buffering; one release cannot be told from a stall."""
SHARE: Final = 0.25
"""A term must make at least this share of the wait it is named for."""


def judge(path: Path, policy: Policy | None = None) -> Verdict:
    """The verdict on one path. A pure function of it: no clock, and no hop's wall clock either."""
    policy = policy or Policy()
    missing = list(path.missing)
    lineup, unaligned = _line_up(path.taps)
    missing += [f"events of {name} could not be lined up with the others" for name in unaligned]
    breaks = broken_off(path, lineup)
    waits: list[Finding] = []
    rhythm = longest = None
    if lineup is not None:
        rhythm = _rhythm(lineup.lanes[0], policy)
        gaps = _gaps(lineup)
        longest = max(gaps, key=lambda d: d.gap_ns, default=None) or _longest(lineup)
        waits = _explained(_judged(lineup, gaps, rhythm, policy))
    elif not breaks:
        missing.append("no tap saw an event of the answer")
    unsure = [f for f in waits if f.cause is Cause.SOURCE_STALL and _is_unknown_rhythm(f, rhythm, policy)]
    sure = [f for f in waits if f not in unsure]
    findings = tuple(_weighed(f, path, lineup) for f in (*breaks, *sure, *unsure))
    if breaks or sure:
        status, cause = Status.NAMED, findings[0].cause
    elif unsure:
        status, cause = Status.INCONCLUSIVE, Cause.NONE
        missing.append(
            f"the rhythm of this source is unknown: the answer shows fewer than five bursts, and no other answer of "
            f"{lineup.lanes[0].name if lineup else 'it'} has been seen"
        )
    elif lineup is None or _lost_segment(path):
        status, cause = Status.INCONCLUSIVE, Cause.NONE
    else:
        status, cause = Status.HEALTHY, Cause.NONE
    return Verdict(
        status=status,
        cause=cause,
        findings=findings,
        missing=tuple(missing),
        observed_to=_reach(path),
        by_ordinal=lineup.by_ordinal if lineup else None,
        rhythm=rhythm,
        longest=longest,
        unaligned=tuple(unaligned),
    )


# ------------------------------------------------------------------------------------------ lining up


def _line_up(taps: Sequence[Hop]) -> tuple[Lineup | None, list[str]]:
    """The taps whose events can be compared, and the names of those that cannot."""
    carriers = carriers_of(taps)
    lanes = [lane_of(hop, carriers) for hop in taps]
    usable = [lane for lane in lanes if lane.count]
    unaligned = [lane.name for lane in lanes if not lane.count]
    if not usable:
        return None, []
    lineup = decompose.line_up(usable)
    if not lineup.by_ordinal and not any(lane.high[-1] for lane in usable):
        return None, [lane.name for lane in lanes]  # nothing visible to line up by, and the counts differ
    return lineup, unaligned


def _gaps(lineup: Lineup) -> list[Decomposition]:
    reader = lineup.reader
    long = [j for j in range(1, lineup.last.count) if reader[j] - reader[j - 1] >= LOOK_NS]
    long = sorted(long, key=lambda j: reader[j - 1] - reader[j])[:WAITS_LOOKED_AT]
    return [decompose.gap_before(lineup, j) for j in long]


def _longest(lineup: Lineup) -> Decomposition | None:
    reader = lineup.reader
    if lineup.last.count < 2:
        return None
    return decompose.gap_before(lineup, max(range(1, lineup.last.count), key=lambda j: reader[j] - reader[j - 1]))


def _rhythm(source: Lane, policy: Policy) -> Rhythm:
    gaps = [
        source.arrived[i] - source.arrived[i - 1] - source.blocked_before[i] - source.lag_before[i]
        for i in range(1, source.event_count)
    ]
    return rhythm_of(
        gaps, floor_ns=policy.floor_ns, ceiling_ns=policy.ceiling_ns, elsewhere_ns=policy.rhythm_elsewhere_ns
    )


def _is_unknown_rhythm(finding: Finding, rhythm: Rhythm | None, policy: Policy) -> bool:
    return rhythm is not None and not rhythm.is_known and finding.term_ns < policy.ceiling_ns


# ---------------------------------------------------------------------------------------------- waits


def _judged(lineup: Lineup, gaps: Sequence[Decomposition], rhythm: Rhythm, policy: Policy) -> list[Finding]:
    """Every cause above its threshold in every wait, the longest first."""
    findings: list[Finding] = []
    for wait in gaps[:WAITS_NAMED]:
        findings += _above(lineup, wait, policy, source_limit=rhythm.limit_ns, rhythm=rhythm)
    findings += _above(lineup, decompose.first_event(lineup), policy, source_limit=policy.first_event_ns, rhythm=rhythm)
    ending = decompose.end(lineup)
    if ending is not None:
        findings += _above(lineup, ending, policy, source_limit=rhythm.limit_ns, rhythm=rhythm)
    combs = _combs(gaps)
    findings = [
        replace(f, cause=Cause.BUFFERING) if f.cause is Cause.APP_STALL and _is_tooth(f, combs) else f for f in findings
    ]
    return sorted(findings, key=lambda f: -f.term_ns)


def _above(
    lineup: Lineup, wait: Decomposition, policy: Policy, *, source_limit: int, rhythm: Rhythm
) -> Iterable[Finding]:
    for segment, term in wait.terms.items():
        limit = source_limit if segment.kind is Kind.SOURCE else policy.floor_ns
        if term < limit or term < SHARE * wait.gap_ns:
            continue
        cause, kernel, where = _cause(lineup, wait, segment, term, rhythm)
        at = min(wait.ended_by, lineup.last.count - 1)
        yield Finding(
            cause=cause,
            segment=segment,
            term_ns=term,
            decomposition=wait,
            at_seq=None if wait.wait is Wait.END else lineup.last.seq[at],
            at_position=lineup.last.low[at],
            confidence=min(1.0, term / wait.gap_ns) if wait.gap_ns else 0.0,
            kernel=kernel,
            where=where,
        )


def _cause(
    lineup: Lineup, wait: Decomposition, segment: Segment, term: int, rhythm: Rhythm
) -> tuple[Cause, Stuck | None, Whereabouts | None]:
    if segment.kind is Kind.SIDECAR:
        return Cause.SELF, None, None
    if segment.kind is Kind.SOURCE:
        if _had_hidden_output(lineup.lanes[0], wait, rhythm):
            return Cause.HIDDEN_OUTPUT, None, None
        return _by_wait(wait, Cause.SOURCE_STALL), None, None
    late = Cause.SLOW_READER if segment.kind is Kind.READER else Cause.APP_STALL
    n = next(
        i for i, lane in enumerate(lineup.lanes) if lane.name == segment.upstream and lineup.before(i + 1) == segment
    )
    lane = lineup.lanes[n]
    if wait.wait is Wait.GAP:
        window = wait.windows[n]
        events: Sequence[int] = range(min(window.first + 1, window.last), window.last + 1)
    else:
        events = [0] if wait.wait is Wait.FIRST_EVENT else [lane.count - 1]
    where, kernel = whereabouts(lane, events, term)
    if where is Whereabouts.NETWORK:
        return Cause.NETWORK, kernel, where
    return (late if segment.kind is Kind.READER else _by_wait(wait, late)), kernel, where


def _by_wait(wait: Decomposition, during_stream: Cause) -> Cause:
    match wait.wait:
        case Wait.FIRST_EVENT:
            return Cause.SLOW_FIRST_EVENT
        case Wait.END:
            return Cause.END_HOLD
        case Wait.GAP:
            return during_stream


def _had_hidden_output(source: Lane, wait: Decomposition, rhythm: Rhythm) -> bool:
    """Whether the source sent reasoning, tool or control events all through the wait: nothing stalled there."""
    if wait.wait is Wait.END:
        return False
    if wait.wait is Wait.FIRST_EVENT:
        start, stop = 0, source.arrived[0]
    else:
        window = wait.windows[0]
        start, stop = source.arrived[window.first], source.arrived[window.last]
    shown = frozenset({EventClass.REASONING, EventClass.TOOL, EventClass.CONTROL})
    hidden = [
        s.arrived_ns for s in source.hop.timeline.stamps if start < s.arrived_ns < stop and s.event_class in shown
    ]
    if len(hidden) < 2:
        return False
    instants = [start, *hidden, stop]
    silence = max(b - a for a, b in pairwise(instants))
    return silence < max(rhythm.limit_ns, wait.gap_ns // 2)


def _combs(gaps: Sequence[Decomposition]) -> dict[Segment, list[int]]:
    """For each segment the terms of the waits that are mostly its own: the teeth of a comb when there are many."""
    combs: dict[Segment, list[int]] = {}
    for wait in gaps:
        segment = max(wait.terms, key=lambda s: wait.terms[s])
        if wait.terms[segment] >= wait.gap_ns / 2:
            combs.setdefault(segment, []).append(wait.terms[segment])
    return combs


def _is_tooth(finding: Finding, combs: dict[Segment, list[int]]) -> bool:
    like = [tooth for tooth in combs.get(finding.segment, ()) if tooth > 0.35 * finding.term_ns]
    return len(like) >= TEETH


def _explained(findings: Sequence[Finding]) -> list[Finding]:
    """Leave out what another finding explains: the late first event and the held end of an app that buffers,
    and all but the longest of one segment's findings of one cause."""
    buffers = {f.segment: f.term_ns for f in reversed(findings) if f.cause is Cause.BUFFERING}
    kept: list[Finding] = []
    for finding in findings:
        edge = finding.cause in {Cause.SLOW_FIRST_EVENT, Cause.END_HOLD}
        if edge and finding.term_ns < 1.6 * buffers.get(finding.segment, 0):
            continue
        if not any(f.segment == finding.segment and f.cause is finding.cause for f in kept):
            kept.append(finding)
    return kept


# ------------------------------------------------------------------------------------ trust and reach


def _weighed(finding: Finding, path: Path, lineup: Lineup | None) -> Finding:
    """Lower the confidence for everything the evidence lacks."""
    confidence = finding.confidence
    if lineup is not None and finding.decomposition is not None and not lineup.by_ordinal:
        confidence *= 0.9
    if finding.where is Whereabouts.UNKNOWN:
        confidence *= 0.7
    if any(lane.hop.timeline.is_thinned for lane in (lineup.lanes if lineup else ())):
        confidence *= 0.9
    if _hides_a_hop(path, finding.segment):
        confidence *= 0.6
    if _lost_segment(path) or path.unproven:
        confidence *= 0.7
    return replace(finding, confidence=round(confidence, 3))


def _hides_a_hop(path: Path, segment: Segment) -> bool:
    if segment.kind is Kind.SIDECAR:
        return False
    upstream = None if segment.kind is Kind.SOURCE else segment.upstream
    downstream = None if segment.kind is Kind.READER else segment.downstream
    return bool(path.absent_between(upstream, downstream))


def _lost_segment(path: Path) -> bool:
    return any(note.startswith("segment ") for note in path.missing)


def _reach(path: Path) -> Reach:
    last = path.taps[-1]
    if last.place.role is TapRole.CLIENT:
        has_consumed = all(s.taken_ns is not None for s in last.timeline.stamps)
        return Reach.CONSUMED if has_consumed else Reach.RECEIVED
    return Reach.OUR_KERNEL if last.timeline.window_peak_bytes is None else Reach.READER_KERNEL


def lag_ns(hop: Hop) -> int:
    """Time in which the hop's own event loop was late."""
    return overlap(0, hop.moments.closed_ns, hop.timeline.lag)
