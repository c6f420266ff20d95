"""What is asked of a path: its verdict and its timeline as plain data, for command line, page and scripts.

The shapes are described in `otel.view.openapi`; times are seconds, and nothing here is text of a user or a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median_low
from typing import Any, Final

from otel.align import window_of
from otel.decompose import Decomposition, Wait
from otel.engine import engine_facts
from otel.evidence import Stuck
from otel.findings import ATTEMPTS_TOLD, Cause, Finding, Status, Verdict
from otel.hop import Ending, Hop, Side, State, Timeline
from otel.instants import rfc3339
from otel.join import Path
from otel.lineup import Segment, line_up
from otel.sentence import blamed, owner, sentence
from otel.tempo import Tempo
from otel.verdict import lag_ns, longest_gap_ns

GAP_NS: Final = 250_000_000
"""Gaps drawn and listed in a timeline."""

_ERROR_STATUS: Final = 400

Answer = dict[str, Any]


def verdict_answer(path: Path, verdict: Verdict, *, as_of: str, is_final: bool) -> Answer:
    """The object that `gapline why --json` prints. as_of: RFC 3339 time of the answer."""
    named = verdict.named if verdict.status is Status.NAMED else None
    wait = named.decomposition if named else _longest(verdict)
    gap_ns = wait.gap_ns if wait else 0
    return {
        "request_id": path.request_id,
        "trace_id": path.trace_id,
        "status": verdict.status.value,
        "verdict_final": is_final and not path.is_open,
        "open": path.is_open,
        "as_of": as_of,
        "since": _since(path, verdict, named, as_of),
        "cause": verdict.cause.value,
        "first_hop": named.first_hop if named else None,
        "owner": blamed(path, named) if named else None,
        "segment": _ends(named.segment) if named else None,
        "gap_s": _s(gap_ns),
        "at_seq": named.at_seq if named else None,
        "at_position": named.at_position if named else None,
        "at_position_exact": named.is_position_exact if named else None,
        "wait": wait.wait.value if wait else None,
        "contributions": _contributions(path, wait),
        "others": [_other(path, f) for f in verdict.findings[1 if named else 0 :]],
        "confidence": named.confidence if named else _confidence_of_none(verdict),
        "missing": list(verdict.missing),
        "observed_to": verdict.observed_to.value,
        "evidence": _evidence(path, verdict, named),
        "hops": [_hop(hop) for hop in path.taps],
        "sentence": sentence(path, verdict),
    }


def timeline_answer(path: Path, verdict: Verdict, answer: Answer) -> Answer:
    """The stamps of all taps on one axis, for a picture. Shifts are for the eye only; no verdict uses them."""
    shifts = _shifts(path.taps)
    named = verdict.named
    wait = (named.decomposition if named else None) or _longest(verdict)
    return {
        "request_id": path.request_id,
        "trace_id": path.trace_id,
        "verdict": answer,
        "taps": [_tap(hop, shift) for hop, shift in zip(path.taps, shifts, strict=True)],
        "wait": _wait_on_last_lane(path, wait),
    }


def _ends(segment: Segment) -> Answer:
    return {"from": segment.upstream, "to": segment.downstream}


def _contributions(path: Path, wait: Decomposition | None) -> list[Answer]:
    if wait is None:
        return []
    return [{"segment": s.label, "owner": owner(path, s), "seconds": _s(ns)} for s, ns in wait.terms.items()]


def _other(path: Path, finding: Finding) -> Answer:
    wait = finding.decomposition
    return {
        "cause": finding.cause.value,
        "first_hop": finding.first_hop,
        "owner": blamed(path, finding),
        "segment": _ends(finding.segment),
        "seconds": _s(finding.term_ns),
        "wait": wait.wait.value if wait else None,
        "gap_s": _s(wait.gap_ns) if wait else 0.0,
        "at_seq": finding.at_seq,
    }


def _confidence_of_none(verdict: Verdict) -> float:
    """A healthy stream is as sure as its evidence reaches; nothing is sure of what is not known."""
    if verdict.status is Status.INCONCLUSIVE:
        return 0.0
    return 0.9 if verdict.by_ordinal else 0.8


def _evidence(path: Path, verdict: Verdict, named: Finding | None) -> Answer:
    rhythm = verdict.rhythm
    evidence: Answer = {
        "alignment": None if verdict.by_ordinal is None else "ordinal" if verdict.by_ordinal else "position",
        "position_quantum": max(hop.timeline.quantum for hop in path.taps),
        "source_limit_s": _s(rhythm.limit_ns) if rhythm else None,
        "source_rhythm_s": _s(rhythm.p90_ns) if rhythm and rhythm.p90_ns is not None else None,
        "blocked_s": {hop.place.tap: _s(_blocked_ns(hop)) for hop in path.taps},
        "lag_s": {hop.place.tap: _s(lag_ns(hop)) for hop in path.taps},
        "attempts": len(path.others),
    }
    if (said := next((text for hop in path.taps if (text := _error_said(hop))), None)) is not None:
        evidence["error_said"] = said
    if path.others:
        told = [_attempt(hop) for hop in path.others[:ATTEMPTS_TOLD]]
        evidence["other_attempts"] = ", ".join([*told, *(["…"] if len(path.others) > ATTEMPTS_TOLD else [])])
    if passed := [f"{token} at {hop.place.tap}" for hop in path.taps for token in hop.exchange.guard_fired]:
        evidence["limits_passed"] = ", ".join(passed)
    is_about_pace = any(f.decomposition and f.decomposition.wait is Wait.PACE for f in verdict.findings)
    if is_about_pace or verdict.slow_source is not None:
        evidence["median_gap_s"] = {gaps.tap: _s(gaps.median_ns) for gaps in verdict.gaps}
        evidence["p90_gap_s"] = {gaps.tap: _s(gaps.p90_ns) for gaps in verdict.gaps}
    if (tempo := verdict.tempo) is not None and (tempo.is_slow or tempo.slowed):
        evidence["source_pace"] = _pace(tempo)
    if (unread := verdict.unread) is not None:
        evidence["reader_window"] = {
            "unread_from_s": _s(unread.since_ns),
            "unread_for_s": _s(unread.lasted_ns),
            "window_bytes": unread.window_bytes,
            "window_peak_bytes": unread.window_peak_bytes,
        }
    for finding in reversed(verdict.findings):
        evidence |= finding.facts
    if named is not None:
        evidence["detail"] = named.detail or None
        evidence["bytes_were"] = named.where.value if named.where else None
        evidence["kernel"] = _kernel(named.kernel)
        if (engine := engine_facts(path, _silence_of(verdict, named))) is not None:
            evidence["engine"] = engine
    return evidence


def _pace(tempo: Tempo) -> Answer:
    """Seconds per event of a source that was slower than usual, or became slower in the middle."""
    slowed = tempo.slowed
    return {
        "pace_s": _s(tempo.pace_ns),
        "usual_pace_s": None if tempo.usual_ns is None else _s(tempo.usual_ns),
        "slowed_after_events": None if slowed is None else slowed.at_seq,
        "pace_before_s": None if slowed is None else _s(slowed.before_ns),
        "pace_after_s": None if slowed is None else _s(slowed.after_ns),
    }


def _silence_of(verdict: Verdict, named: Finding) -> Finding:
    """The wait that is named; for a segment whose silence a limit ended, the wait which that silence was."""
    if named.cause is not Cause.TIMED_OUT:
        return named
    return next((f for f in verdict.findings[1:] if f.segment == named.segment), named)


def _attempt(hop: Hop) -> str:
    how = hop.end.ending.value if hop.end else "open"
    status = f" ({hop.exchange.status})" if hop.exchange.status else ""
    return f"{hop.place.tap} {how}{status} after {hop.moments.closed_ns / 1e9:.2f} s"


def _error_said(hop: Hop) -> str | None:
    """What the upstream's own error was, as far as it was recorded: its type, its code, and its masked words."""
    seen = hop.exchange
    is_error = hop.end is not None and hop.end.ending is Ending.ERROR_EVENT
    if hop.end is None or hop.end.ended_by is Side.SIDECAR or not (is_error or (seen.status or 0) >= _ERROR_STATUS):
        return None
    name = " ".join(part for part in (seen.error_type, seen.error_code) if part)
    return ": ".join(part for part in (name, seen.error_detail) if part) or None


def _kernel(stuck: Stuck | None) -> Answer | None:
    if stuck is None:
        return None
    return {
        "sampled_s": _s(stuck.covered_ns),
        "unacknowledged_s": _s(stuck.stuck_ns),
        "lost_share": round(stuck.lost_share, 3),
        "window_shrunk_share": round(stuck.shrunk_share, 3),
        "window_bytes": stuck.window_bytes,
        "window_peak_bytes": stuck.window_peak_bytes,
    }


def _hop(hop: Hop) -> Answer:
    stamps, traffic, end = hop.timeline.stamps, hop.traffic, hop.end
    held = [s.taken_ns - s.arrived_ns for s in stamps if s.taken_ns is not None]
    return {
        "hop": hop.place.hop,
        "role": hop.place.role.value,
        "events": traffic.event_count,
        "messages_sent": None if hop.sent is None else _count(hop.sent),
        "outcome": end.ending.value if end else None,
        "ended_by": end.ended_by.value if end else None,
        "cut": end.cut if end else None,
        "phase": end.phase.value if end else None,
        "hold_s": _s(max(held, default=0)),
        "bytes_in": traffic.bytes_in,
        "bytes_out": traffic.bytes_out,
        "bytes_missing": traffic.missing_bytes,
        "status": hop.exchange.status,
        "model": hop.exchange.model,
        "prompt": hop.exchange.prompt_bucket,
        "duration_s": _s(hop.moments.closed_ns),
        "first_event_s": _s(stamps[0].arrived_ns) if stamps else None,
        "longest_gap_s": _s(longest_gap_ns(hop)),
        "blocked_s": _s(_blocked_ns(hop)),
        "lag_s": _s(lag_ns(hop)),
        "comments": traffic.comment_count,
        "wasted_events": traffic.wasted_count,
        "idle_at_end_s": _s(end.idle_ns) if end else None,
        "framing_incomplete": bool(end and end.framing_incomplete),
        "open": hop.state is State.OPEN,
        "started_at": rfc3339(hop.anchor.wall_ns),
        "trace_id": hop.trace_id,
        "span_id": hop.span_id,
    }


def _count(timeline: Timeline) -> int:
    """Events of a timeline, also of one that was thinned."""
    return timeline.stamps[-1].seq + 1 if timeline.stamps else 0


def _tap(hop: Hop, shift_ns: int) -> Answer:
    stamps = hop.timeline.stamps
    return {
        "hop": hop.place.hop,
        "role": hop.place.role.value,
        "shift_s": _s(shift_ns),
        "duration_s": _s(hop.moments.closed_ns),
        "outcome": hop.end.ending.value if hop.end else None,
        "stamps": [
            [
                s.seq,
                _s(s.arrived_ns),
                None if s.taken_ns is None else _s(s.taken_ns),
                s.event_class.name.lower(),
                s.position,
            ]
            for s in stamps
        ],
        "blocked": [[_s(b.start_ns), _s(b.end_ns)] for b in hop.timeline.blocked],
        "lag": [[_s(i.start_ns), _s(i.end_ns)] for i in hop.timeline.lag],
        "gaps": [
            {"seq": b.seq, "start_s": _s(a.arrived_ns), "end_s": _s(b.arrived_ns)}
            for a, b in pairwise(stamps)
            if b.arrived_ns - a.arrived_ns >= GAP_NS and b.seq == a.seq + 1
        ],
        "is_thinned": hop.timeline.is_thinned,
    }


def _shifts(taps: Sequence[Hop]) -> list[int]:
    """Where each lane's zero lies behind the reader-side lane's.

    Taps that read one clock are placed by it. Others are moved as late as causality allows: no event may
    leave a tap after it arrived at the next one, so the picture shows the shortest possible travel.
    """
    shifts = [0]
    for inner, outer in zip(reversed(taps[:-1]), reversed(taps[1:]), strict=True):
        domain = inner.anchor.clock_domain
        if domain and domain == outer.anchor.clock_domain:
            shift = inner.anchor.monotonic_ns - outer.anchor.monotonic_ns
        else:
            shift = _latest_start(inner, outer)
        shifts.append(shifts[-1] + shift)
    return shifts[::-1]


def _latest_start(inner: Hop, outer: Hop) -> int:
    lineup, _ = line_up([inner, outer])
    if lineup is None or len(lineup.lanes) < 2:
        return outer.moments.request_forwarded_ns or 0
    sent, received = lineup.lanes
    if lineup.by_ordinal:
        arrivals = list(received.arrived)
    else:
        arrivals = [received.arrived[window_of(received, low, low).first] for low in sent.low]
    return max(0, min(at - taken for at, taken in zip(arrivals, sent.taken, strict=False)))


def _longest(verdict: Verdict) -> Decomposition | None:
    """The longest wait of an answer in which nothing was wrong: between two deliveries, or for the first."""
    waits = [wait for wait in (verdict.longest, verdict.first) if wait is not None]
    return max(waits, key=lambda wait: wait.gap_ns, default=None)


def _since(path: Path, verdict: Verdict, named: Finding | None, as_of: str) -> str | None:
    """When it began: the wait, or what broke the answer off. Never after the answer itself.

    Every hop's clock says when; the middle one of them is taken, so that one clock that is wrong does not matter.
    """
    last = path.taps[-1]
    if named is not None and named.decomposition is None:
        moments = last.moments
        ends = [m for m in (moments.upstream_ended_ns, moments.client_left_ns, moments.closed_ns) if m is not None]
        start = min(ends)
    else:
        span = _span_of_wait(path, (named.decomposition if named else None) or _longest(verdict))
        if span is None:
            return None
        start = span[0]
    readings = [hop.anchor.wall_ns - shift for hop, shift in zip(path.taps, _shifts(path.taps), strict=True)]
    return min(rfc3339(median_low(readings) + start), as_of)


def _wait_on_last_lane(path: Path, wait: Decomposition | None) -> Answer | None:
    span = _span_of_wait(path, wait)
    return None if span is None else {"start_s": _s(span[0]), "end_s": _s(span[1])}


def _span_of_wait(path: Path, wait: Decomposition | None) -> tuple[int, int] | None:
    """From when until when the reader waited, ns on the last tap's lane."""
    lineup, _ = line_up(path.taps)
    if wait is None or lineup is None:
        return None
    stop = {
        Wait.FIRST_EVENT: wait.gap_ns,
        Wait.GAP: lineup.reader[min(wait.ended_by, lineup.last.count - 1)],
        Wait.PACE: lineup.reader[min(wait.ended_by, lineup.last.count - 1)],
        Wait.END: lineup.reader[-1] + wait.gap_ns,
    }[wait.wait]
    return stop - wait.gap_ns, stop


def _blocked_ns(hop: Hop) -> int:
    return sum(b.end_ns - b.start_ns for b in hop.timeline.blocked)


def _s(ns: int) -> float:
    return round(ns / 1e9, 6)
