"""Path → Verdict: the first hop where the gap grew, with the evidence, or an honest "cannot tell".

The question is always the same: the reader waited for the next piece of output, so who made it wait? The
answer is read off the decomposition (`otel.decompose`): the largest term above its own threshold. A hop, a
link, a reader or a sidecar adds nothing to a healthy stream, so their terms are judged flat; only the source
has a rhythm of its own, and only its term is excused by it. An answer that broke off comes before one that
came late: truncation is charged from the source on, a client that leaves from the reader on, because closing
travels upstream and makes every tap above look abnormal too.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Final

from otel.attempts import with_lost
from otel.breakoff import broken_off
from otel.causes import is_first_output
from otel.decompose import Wait
from otel.departure import with_ignored
from otel.evidence import IN_DOUBT, Stuck, Whereabouts, unread
from otel.findings import ATTEMPTS_TOLD, Cause, Finding, Policy, Reach, Status, Verdict
from otel.hop import CLIENT, Ending, Hop, TapRole
from otel.join import Path
from otel.lineup import Kind, Lineup, Segment, line_up, meets_websocket
from otel.rhythm import Rhythm
from otel.stretches import stretches_of
from otel.tempo import tempo_of
from otel.waits import Seen, look

SAME_SHARE: Final = 0.8
"""A silence above a segment that is as long as so much of the segment's term may be the very wait, matched wrongly."""


def judge(path: Path, policy: Policy | None = None) -> Verdict:
    """The verdict on one path. A pure function of it: no clock, and no hop's wall clock either."""
    policy = policy or Policy()
    lineup, unaligned = line_up(path.taps)
    missing = [*path.missing, *(f"events of {name} could not be lined up with the others" for name in unaligned)]
    broken = broken_off(path, lineup, timers_ns=policy.idle_timers_ns)
    breaks = [finding for each in broken for finding in with_ignored(each, path.taps)]
    seen, charged = Seen(findings=[]), tuple[Hop, ...]()
    if lineup is not None:
        seen, charged = with_lost(look(lineup, policy), path, floor_ns=policy.floor_ns)
        missing += [_rewriting(name, event, lineup) for name, event in lineup.rewriters.items()]
    path = replace(path, others=tuple(hop for hop in path.others if hop not in charged))
    missing += _attempts(path)
    hidden = [f for f in seen.findings if f.cause is Cause.HIDDEN_OUTPUT]
    doubts = {id(f): doubt for f in seen.findings if (doubt := _doubt(f, lineup, seen.rhythm, policy)) is not None}
    sure = [f for f in seen.findings if f not in hidden and id(f) not in doubts]
    unsure = [f for f in seen.findings if f not in hidden and id(f) in doubts]
    missing += dict.fromkeys(doubts[id(f)] for f in unsure)
    named = [*breaks, *sure]
    blind = _blind(path, lineup, seen, policy) if not (named or unsure) else None
    missing += [blind] if blind else []
    status = Status.NAMED if named else Status.INCONCLUSIVE if unsure or blind else Status.HEALTHY
    reach = _reach(path)
    return Verdict(
        status=status,
        cause=named[0].cause if named else Cause.NONE,
        findings=tuple(_weighed(f, path, lineup) for f in (*(named or unsure), *hidden, *seen.notes)),
        missing=tuple(missing),
        observed_to=reach,
        by_ordinal=lineup.by_ordinal if lineup else None,
        rhythm=seen.rhythm,
        longest=seen.longest,
        first=seen.first,
        gaps=seen.gaps,
        slow_source=next(
            (g for g in seen.gaps if g.tap == path.taps[0].place.tap and g.median_ns >= policy.slow_gap_ns), None
        ),
        tempo=tempo_of(path.taps[0], usual_ns=policy.pace_elsewhere_ns),
        unread=unread(path.taps[-1]) if reach is Reach.READER_KERNEL else None,
    )


def _blind(path: Path, lineup: Lineup | None, seen: Seen, policy: Policy) -> str | None:
    """Why nothing can be said where nothing was found, None where there is nothing to be found."""
    if meets_websocket(path.taps):
        return "who was waited for, where messages of a WebSocket meet the events of an answer"
    if lineup is None:
        return None if _is_empty(path) else "no tap saw an event of the answer"
    if lineup.is_partial and any(longest_gap_ns(hop) >= policy.floor_ns for hop in path.taps):
        return "the hops saw different events, so only the beginning and the end of the answer can be compared"
    return "the segments that were lost" if _lost_segment(path) else _unobserved(path, lineup, seen, policy)


def _unobserved(path: Path, lineup: Lineup, seen: Seen, policy: Policy) -> str | None:
    """What a hop without a record may have done that nobody else can show: behind the last tap anything, and before the
    first one whatever the rhythm of a source would excuse. Between two taps it adds nothing that they do not show."""
    taps = path.taps
    if behind := path.absent_between(taps[-1].place.tap, None):
        return f"whether {' and '.join(behind)} passed it on in time: {taps[-1].place.hop} was the last to be observed"
    waits = (wait for wait in (seen.longest, seen.first) if wait is not None)
    longest_ns = max((wait.terms[lineup.source] for wait in waits), default=0)
    if longest_ns >= policy.floor_ns and (before := path.absent_between(None, taps[0].place.tap)):
        hidden = f"{' and '.join(before)} and {taps[0].place.hop}"
        return f"whose the {longest_ns / 1e9:.2f} s before {taps[0].place.hop} are: no tap tells {hidden} apart"
    return None


def _is_unknown_rhythm(finding: Finding, rhythm: Rhythm | None, policy: Policy) -> bool:
    wait = finding.decomposition
    if finding.segment.kind is not Kind.SOURCE or wait is None or rhythm is None:
        return False
    if is_first_output(wait, finding.term_ns, rhythm, policy):
        return False
    return not rhythm.is_known and finding.term_ns < policy.ceiling_ns


def _rewriting(name: str, event: int | None, lineup: Lineup) -> str:
    if event is None:
        return f"{name} passed on other text than it got: events match only roughly"
    return f"{name} passed on other text than it got, from about character {lineup.last.low[event]} on"


def _is_besides(hop: Hop, path: Path) -> bool:
    """Whether it is no attempt at this answer, but a whole one to something else that an app asked."""
    is_elsewhere = all(tap.place.hop != hop.place.hop for tap in path.taps)
    return is_elsewhere and hop.end is not None and hop.end.ending is Ending.COMPLETE


def _attempts(path: Path) -> list[str]:
    told = [_attempt(hop, path) for hop in path.others[:ATTEMPTS_TOLD]]
    more = len(path.others) - len(told)
    return [*told, *([f"the part of {more} more calls or attempts in this wait"] if more else [])]


def _attempt(hop: Hop, path: Path) -> str:
    what = "a call of" if _is_besides(hop, path) else "another attempt at"
    took = hop.moments.closed_ns / 1e9
    how = hop.end.ending.value if hop.end else "open"
    return f"the part of {what} {hop.place.hop} in this wait: it took {took:.2f} s and ended {how}"


def _is_shown_above(finding: Finding, lineup: Lineup | None) -> bool:
    """Whether, in a text that some hop rewrote, a tap above the segment shows the same silence at another place:
    then the events were matched wrongly, and the segment is not the one."""
    wait = finding.decomposition
    if lineup is None or lineup.by_ordinal or wait is None or wait.wait is not Wait.GAP or not lineup.rewriters:
        return False
    if finding.segment.kind not in {Kind.BETWEEN, Kind.READER}:
        return False
    names = [lane.name for lane in lineup.lanes]
    above = lineup.lanes[: names.index(finding.segment.upstream) + 1]
    return any(
        lane.silence(i) >= SAME_SHARE * finding.term_ns
        for lane in above
        for i in range(1, lane.count)
        if lane.is_whole[i]
    )


def _doubt(finding: Finding, lineup: Lineup | None, rhythm: Rhythm | None, policy: Policy) -> str | None:
    """Why a finding is not sure, None when it is."""
    if _is_unknown_rhythm(finding, rhythm, policy):
        source = lineup.lanes[0].name if lineup else "it"
        return (
            "the rhythm of this source is unknown: the answer shows fewer than five bursts, and no other answer of "
            f"{source} has been seen"
        )
    if finding.where in IN_DOUBT and finding.kernel is not None:
        return _doubt_of_the_peer(finding, finding.kernel)
    if _is_shown_above(finding, lineup):
        return f"a hop above {finding.segment.downstream} shows the same silence at another place of the rewritten text"
    return None


def _doubt_of_the_peer(finding: Finding, kernel: Stuck) -> str:
    who = CLIENT if finding.segment.kind is Kind.READER else finding.segment.downstream
    if finding.where is Whereabouts.UNHEARD:
        return f"whether {who} did not read or a link that loses lost the word that it has room again"
    room = f"its window of {kernel.window_peak_bytes:,} bytes is all that can be on its way"
    return f"whether {who} has too little room or the way to it is too long: {room}"


def _is_empty(path: Path) -> bool:
    """A whole answer without a body that anyone waits for, such as a 204."""
    return all(
        hop.end is not None and hop.end.ending is Ending.COMPLETE and not hop.timeline.stamps for hop in path.taps
    )


# ------------------------------------------------------------------------------------ trust and reach


def _weighed(finding: Finding, path: Path, lineup: Lineup | None) -> Finding:
    """Lower the confidence for everything the evidence lacks."""
    confidence = finding.confidence
    if lineup is not None and finding.decomposition is not None and not lineup.by_ordinal:
        confidence *= 0.9
    if finding.where in IN_DOUBT | {Whereabouts.UNKNOWN}:
        confidence *= 0.7
    if any(lane.hop.timeline.is_thinned for lane in (lineup.lanes if lineup else ())):
        confidence *= 0.9
    hidden = _hidden(path, finding.segment)
    if hidden:
        confidence *= 0.6
    if _lost_segment(path) or path.unproven:
        confidence *= 0.7
    if lineup is not None and finding.decomposition is not None:
        confidence *= lineup.likeness(finding.decomposition.ended_by)
    tried = [hop for hop in path.others if not _is_besides(hop, path)]
    if (tried and finding.segment.kind is Kind.SOURCE) or (path.others and finding.segment.kind is Kind.BETWEEN):
        confidence *= 0.6  # an attempt that is not on the path, or a call besides, may have taken part of the time
    return replace(finding, confidence=round(confidence, 3), hidden=hidden)


def _hidden(path: Path, segment: Segment) -> tuple[str, ...]:
    """The hops whose app lies in a segment besides that of the tap behind it, source first."""
    if segment.kind in {Kind.SIDECAR, Kind.UI}:
        return ()
    upstream = None if segment.kind is Kind.SOURCE else segment.upstream
    downstream = None if segment.kind is Kind.READER else segment.downstream
    return path.absent_between(upstream, downstream)


def _lost_segment(path: Path) -> bool:
    return any(note.startswith("segment ") for note in path.missing)


def _reach(path: Path) -> Reach:
    last = path.taps[-1]
    if last.place.role is TapRole.CLIENT:
        has_consumed = all(s.taken_ns is not None for s in last.timeline.stamps)
        return Reach.CONSUMED if has_consumed else Reach.RECEIVED
    if last.timeline.window_peak_bytes is None or path.absent_between(last.place.tap, None):
        return Reach.OUR_KERNEL  # never asked, or the peer was a hop whose record is missing, and not the reader
    return Reach.READER_KERNEL


def longest_gap_ns(hop: Hop) -> int:
    """The longest time between two events of a hop that follow each other."""
    pairs = pairwise(hop.timeline.stamps)
    return max((b.arrived_ns - a.arrived_ns for a, b in pairs if b.seq == a.seq + 1), default=0)


def lag_ns(hop: Hop) -> int:
    """Time in which the hop's own event loop was late."""
    return stretches_of(hop.timeline.lag).covered(0, hop.moments.closed_ns)
