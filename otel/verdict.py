"""Path → Verdict: the first hop where the gap grew, with the evidence, or an honest "cannot tell".

The question is always the same: the reader waited for the next piece of output, so who made it wait? The
answer is read off the decomposition (`otel.decompose`): the largest term above its own threshold. A hop, a
link, a reader or a sidecar adds nothing to a healthy stream, so their terms are judged flat; only the source
has a rhythm of its own, and only its term is excused by it. An answer that broke off comes before one that
came late: truncation is charged from the source on, a client that leaves from the reader on, because closing
travels upstream and makes every tap above look abnormal too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, TypedDict

from otel import decompose
from otel.align import Lane, overlap
from otel.breakoff import broken_off
from otel.decompose import Decomposition, Kind, Lineup, Segment, Wait
from otel.evidence import Stuck, Whereabouts, whereabouts
from otel.findings import MS, Cause, Finding, Policy, Reach, Status, Verdict
from otel.hop import Ending, EventClass, Hop, TapRole
from otel.join import Path
from otel.rhythm import Rhythm, rhythm_of

LOOK_NS: Final = 100 * MS
"""Waits from here on are decomposed: a hop that holds for less than its threshold still shows its comb."""
WAITS_LOOKED_AT: Final = 1_000
"""A slow steady stream has a wait before each of its events; the longest ones decide."""
TEETH: Final = 3
"""This many waits charged to one app are buffering; one release cannot be told from a stall."""


class Place(TypedDict):
    """Where in the reader's output a wait lies."""

    at_seq: int | None
    at_position: int | None
    is_position_exact: bool


def judge(path: Path, policy: Policy | None = None) -> Verdict:
    """The verdict on one path. A pure function of it: no clock, and no hop's wall clock either."""
    policy = policy or Policy()
    missing = list(path.missing)
    lineup, unaligned = decompose.line_up(path.taps)
    missing += [f"events of {name} could not be lined up with the others" for name in unaligned]
    missing += [_attempt(hop) for hop in path.others]
    breaks = broken_off(path, lineup)
    waits: list[Finding] = []
    rhythm = longest = first = None
    if lineup is not None:
        rhythm = _rhythm(lineup.lanes[0], policy)
        gaps = _gaps(lineup)
        first = decompose.first_event(lineup)
        longest = max(gaps, key=lambda d: d.gap_ns, default=None) or _longest(lineup)
        waits = _explained(_judged(lineup, [*gaps, first], rhythm, policy))
        rewritten = _rewritten(lineup)
        missing += [
            f"{name} passed on another amount of text than it got, so events are matched only roughly"
            for name in rewritten
        ]
    elif not breaks and not _is_empty(path):
        missing.append("no tap saw an event of the answer")
    notes = [f for f in waits if f.cause is Cause.HIDDEN_OUTPUT]
    unsure = [
        f for f in waits if f not in notes and (_is_unknown_rhythm(f, rhythm, policy) or _is_shown_above(f, lineup))
    ]
    sure = [f for f in waits if f not in notes and f not in unsure]
    findings = tuple(_weighed(f, path, lineup) for f in (*breaks, *sure, *unsure, *notes))
    if breaks or sure:
        status, cause = Status.NAMED, findings[0].cause
    elif unsure:
        status, cause = Status.INCONCLUSIVE, Cause.NONE
        missing += dict.fromkeys(_doubt(f, lineup, rhythm, policy) for f in unsure)
    elif lineup is not None and lineup.is_partial and any(longest_gap_ns(hop) >= policy.floor_ns for hop in path.taps):
        status, cause = Status.INCONCLUSIVE, Cause.NONE
        missing.append("the hops saw different events, so only the beginning and the end of the answer can be compared")
    elif (lineup is None and not _is_empty(path)) or _lost_segment(path):
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
        first=first,
        unaligned=tuple(unaligned),
    )


# ------------------------------------------------------------------------------------------ lining up


def _gaps(lineup: Lineup) -> list[Decomposition]:
    """The waits between two deliveries that are long enough to look at, the longest first."""
    waits = [j for j in _waits(lineup) if lineup.reader[j] - lineup.reader[j - 1] >= LOOK_NS]
    waits = sorted(waits, key=lambda j: lineup.reader[j - 1] - lineup.reader[j])[:WAITS_LOOKED_AT]
    return [decompose.gap_before(lineup, j) for j in waits]


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
        if source.is_whole[i]
    ]
    return rhythm_of(
        gaps, floor_ns=policy.floor_ns, ceiling_ns=policy.ceiling_ns, elsewhere_ns=policy.rhythm_elsewhere_ns
    )


def _is_unknown_rhythm(finding: Finding, rhythm: Rhythm | None, policy: Policy) -> bool:
    is_rhythmic = finding.decomposition is not None and finding.decomposition.wait is not Wait.FIRST_EVENT
    if finding.segment.kind is not Kind.SOURCE or not is_rhythmic or rhythm is None:
        return False
    return not rhythm.is_known and finding.term_ns < policy.ceiling_ns


def _attempt(hop: Hop) -> str:
    took = hop.moments.closed_ns / 1e9
    how = hop.end.ending.value if hop.end else "open"
    return f"the part of another attempt at {hop.place.hop} in this wait: it took {took:.2f} s and ended {how}"


def _is_shown_above(finding: Finding, lineup: Lineup | None) -> bool:
    """Whether, in a text that some hop rewrote, a tap above the segment shows the same silence at another place:
    then the events were matched wrongly, and the segment is not the one."""
    wait = finding.decomposition
    if lineup is None or lineup.is_partial or wait is None or wait.wait is not Wait.GAP or not _rewritten(lineup):
        return False
    if finding.segment.kind not in {Kind.BETWEEN, Kind.READER}:
        return False
    names = [lane.name for lane in lineup.lanes]
    above = lineup.lanes[: names.index(finding.segment.upstream) + 1]
    return any(
        lane.silence(i) >= 0.8 * finding.term_ns for lane in above for i in range(1, lane.count) if lane.is_whole[i]
    )


def _doubt(finding: Finding, lineup: Lineup | None, rhythm: Rhythm | None, policy: Policy) -> str:
    """Why a finding is not sure."""
    if _is_unknown_rhythm(finding, rhythm, policy):
        source = lineup.lanes[0].name if lineup else "it"
        return (
            "the rhythm of this source is unknown: the answer shows fewer than five bursts, and no other answer of "
            f"{source} has been seen"
        )
    return f"a hop above {finding.segment.downstream} shows the same silence elsewhere in the text, which was rewritten"


def _rewritten(lineup: Lineup) -> list[str]:
    """Hops that passed on another amount of visible text than they got: positions beyond them match only roughly."""
    if lineup.is_partial:
        return []
    pairs = pairwise(lane for lane in lineup.lanes if not lane.is_pending)
    return [outer.name for inner, outer in pairs if inner.total[1] < outer.total[0] or outer.total[1] < inner.total[0]]


def _is_empty(path: Path) -> bool:
    """A whole answer without a body that anyone waits for, such as a 204."""
    return all(
        hop.end is not None and hop.end.ending is Ending.COMPLETE and not hop.timeline.stamps for hop in path.taps
    )


# ---------------------------------------------------------------------------------------------- waits


def _judged(lineup: Lineup, waits: Sequence[Decomposition], rhythm: Rhythm, policy: Policy) -> list[Finding]:
    """Every cause above its threshold in every wait, the longest first."""
    ending = decompose.end(lineup)
    findings = [
        finding
        for wait in (*waits, *([ending] if ending is not None else []))
        for finding in _above(lineup, wait, policy, rhythm)
    ]
    combs = _combs(wait for wait in waits if wait.wait is Wait.GAP)
    findings = [
        replace(f, cause=Cause.BUFFERING) if f.cause is Cause.APP_STALL and _is_tooth(f, combs) else f for f in findings
    ]
    return sorted(findings, key=lambda f: -f.term_ns)


def _above(lineup: Lineup, wait: Decomposition, policy: Policy, rhythm: Rhythm) -> Iterable[Finding]:
    if wait.gap_ns < policy.floor_ns:
        return  # whatever the terms are, the reader did not wait
    for segment, term in wait.terms.items():
        if term < _limit(lineup, wait, segment, rhythm, policy):
            continue
        cause, kernel, where = _cause(lineup, wait, segment, term, rhythm)
        yield Finding(
            cause=cause,
            segment=segment,
            term_ns=term,
            decomposition=wait,
            **_place_of(lineup, wait),
            confidence=min(1.0, term / wait.gap_ns),
            kernel=kernel,
            where=where,
        )


def _limit(lineup: Lineup, wait: Decomposition, segment: Segment, rhythm: Rhythm, policy: Policy) -> float:
    if segment.kind is not Kind.SOURCE:
        return policy.floor_ns
    if wait.wait is not Wait.FIRST_EVENT:
        return rhythm.limit_ns
    # an answer that is not streamed takes as long as the model needs for all of it
    return policy.first_event_ns if lineup.lanes[0].hop.exchange.is_stream else math.inf


def _place_of(lineup: Lineup, wait: Decomposition) -> Place:
    """Where in the output the wait lies: the event that ended it, and what had been delivered when it began."""
    last = lineup.last
    before = last.event_count - 1 if wait.wait is Wait.END else wait.ended_by - 1
    if before < 0:
        return {"at_seq": last.seq[0], "at_position": 0, "is_position_exact": True}
    return {
        "at_seq": None if wait.wait is Wait.END else last.seq[wait.ended_by],
        "at_position": last.low[before],
        "is_position_exact": last.low[before] == last.high[before],
    }


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
    where, kernel = whereabouts(lane, events, term, is_end=wait.wait is Wait.END)
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
        start, stop = source.arrived[-1], source.hop.moments.upstream_ended_ns or source.arrived[-1]
    elif wait.wait is Wait.FIRST_EVENT:
        start, stop = 0, source.arrived[0]
    else:
        window = wait.windows[0]
        start, stop = source.arrived[window.first], source.arrived[window.last]
    shown = frozenset({EventClass.REASONING, EventClass.TOOL, EventClass.CONTROL})
    hidden = [
        s.arrived_ns for s in source.hop.timeline.stamps if start < s.arrived_ns < stop and s.event_class in shown
    ]
    instants = [start, *hidden, stop] if wait.wait is not Wait.FIRST_EVENT else [*hidden, stop]
    if len(hidden) < 2:
        return False
    return max(b - a for a, b in pairwise(instants)) < rhythm.limit_ns


def _combs(gaps: Iterable[Decomposition]) -> dict[Segment, list[int]]:
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
    if lineup is not None and finding.decomposition is not None and (lineup.is_partial or _rewritten(lineup)):
        confidence *= 0.5
    if path.others and finding.segment.kind in {Kind.SOURCE, Kind.BETWEEN}:
        confidence *= 0.6  # an attempt that is not on the path may have taken part of the time
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
    if last.timeline.window_peak_bytes is None or path.absent_between(last.place.hop, None):
        return Reach.OUR_KERNEL  # never asked, or the peer was a hop whose record is missing, and not the reader
    return Reach.READER_KERNEL


def longest_gap_ns(hop: Hop) -> int:
    """The longest time between two events of a hop that follow each other."""
    pairs = pairwise(hop.timeline.stamps)
    return max((b.arrived_ns - a.arrived_ns for a, b in pairs if b.seq == a.seq + 1), default=0)


def lag_ns(hop: Hop) -> int:
    """Time in which the hop's own event loop was late."""
    return overlap(0, hop.moments.closed_ns, hop.timeline.lag)
