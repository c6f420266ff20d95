"""Path → what broke the answer off: the segment that ended it early, if any did.

Closing travels in both directions, so every tap of a broken answer looks abnormal. An upstream that ended
early is charged from the source on: the first tap that saw it stands right behind the segment at fault. When
no tap saw that, a downstream that closed is charged from the reader on. An answer that a sidecar's limit ended is
charged to the segment in which the silence began, and the finding says whose limit it was. A cut that came as long
after the last byte as an idle timer lasts is that timer's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from otel.findings import IDLE_TIMERS_NS, Cause, Facts, Finding
from otel.hop import CLIENT, OUTPUT, Ending, Hop, Side, TapRole
from otel.join import Path
from otel.lineup import SOURCE, Kind, Lineup, Segment
from otel.silence import began, silent_ns, timer_behind, was_reaped

_UPSTREAM_ENDED: Final = {
    Ending.UPSTREAM_CUT: (Cause.TRUNCATED, "its upstream broke off"),
    Ending.MISSING_TERMINAL: (Cause.TRUNCATED, "its upstream ended without the terminal event"),
    Ending.REFUSED: (Cause.TRUNCATED, "its upstream could not be reached"),
    Ending.ERROR_EVENT: (Cause.ERROR_EVENT, "its upstream sent an error event"),
    Ending.TIMED_OUT_FIRST_EVENT: (Cause.TIMED_OUT, "its upstream sent nothing within its limit"),
    Ending.TIMED_OUT_NEXT_EVENT: (Cause.TIMED_OUT, "its upstream sent nothing within its limit"),
}
_LATE: Final = frozenset({Ending.TIMED_OUT_FIRST_EVENT, Ending.TIMED_OUT_NEXT_EVENT})
_CONTENT_LIMIT: Final = "content_timeout"
_DOWNSTREAM_ENDED: Final = frozenset({Ending.CLIENT_DISCONNECT})
_OUR_DOING: Final = {
    Ending.LOST: "the sidecar of {} failed",
    Ending.DRAINED: "the sidecar of {} was stopped before the answer was complete",
    Ending.REJECTED: "the sidecar of {} refused the request",
}
_CUTS: Final = frozenset({Cause.TRUNCATED, Cause.ERROR_EVENT, Cause.ABORTED, Cause.CLIENT_DISCONNECT})
"""Ends that an idle timer may have made."""
_ERROR_STATUS: Final = 400
_BY_CHANCE: Final = 0.7
"""Trust in an idle timer of the reader: a person who stops at a round time, or a test that does, leaves the same trace.
Hops end nobody's answer by hand."""


def broken_off(path: Path, lineup: Lineup | None, *, timers_ns: Sequence[int] = IDLE_TIMERS_NS) -> list[Finding]:
    """The finding of an answer that did not come to its end, if it did not; an ending has no terms.

    timers_ns: after how long without a byte hops of the path end a stream.
    """
    return [_timed(finding, path.taps, timers_ns) for finding in _broken_off(path, lineup, timers_ns)]


def _broken_off(path: Path, lineup: Lineup | None, timers_ns: Sequence[int]) -> list[Finding]:
    taps = path.taps
    ours: Finding | None = None
    for n, hop in enumerate(taps):
        if _was_replaced(hop, taps[-1]) or was_reaped(hop, timers_ns):
            continue
        found = _UPSTREAM_ENDED.get(hop.end.ending) if hop.end else None
        if (
            found is None
            and hop.end
            and (hop.exchange.status or 0) >= _ERROR_STATUS
            and hop.end.ending is Ending.COMPLETE
        ):
            found = (Cause.ERROR_EVENT, f"its upstream answered with status {hop.exchange.status}")
        if found is not None and hop.end and hop.end.ending in _LATE and ours is None:
            return [_silenced(taps, n, lineup)]
        if found is not None:  # what a sidecar nearer the source ended itself is what this tap saw
            return [ours or _ending(taps, n, found[0], f"{hop.place.hop} saw that {found[1]}", lineup)]
        ours = ours or _ours(hop) or _given_up(taps, n, lineup)
    for n in reversed(range(len(taps))):
        hop = taps[n]
        if was_reaped(hop, timers_ns):
            continue
        if hop.end and hop.end.ending in _DOWNSTREAM_ENDED:
            return [_given_up(taps, n, lineup) or _left(taps, n, "saw its downstream close first", lineup)]
        if (finding := _ours(hop)) is not None:
            return [finding]
    return []


def _was_replaced(hop: Hop, last: Hop) -> bool:
    """Whether the reader got a whole answer all the same, to which this hop contributed nothing: a fallback."""
    is_whole = (
        last.end is not None and last.end.ending is Ending.COMPLETE and (last.exchange.status or 0) < _ERROR_STATUS
    )
    return hop is not last and is_whole and not any(s.event_class in OUTPUT for s in hop.timeline.stamps)


def _left(taps: Sequence[Hop], n: int, how: str, lineup: Lineup | None) -> Finding:
    """Tap n saw its downstream leave, or is the reader's own and says that it left."""
    reader = _reader_at(taps)
    if n == reader:
        return _ending(taps, n, Cause.CLIENT_DISCONNECT, f"{taps[n].place.hop} says that it left", lineup)
    cause = Cause.CLIENT_DISCONNECT if n + 1 == reader else Cause.ABORTED
    return _ending(taps, n + 1, cause, f"{taps[n].place.hop} {how}", lineup)


def _reader_at(taps: Sequence[Hop]) -> int:
    """The place of the reader behind the taps, or of the record that it made itself."""
    return len(taps) - (taps[-1].place.role is TapRole.CLIENT)


def _given_up(taps: Sequence[Hop], n: int, lineup: Lineup | None) -> Finding | None:
    """A downstream that took nothing until our limit fired is charged like one that closed."""
    end = taps[n].end
    if end is None or end.ending not in _DOWNSTREAM_ENDED or end.ended_by is not Side.SIDECAR:
        return None
    return _left(taps, n, "gave up its downstream, which took nothing", lineup)


def _silenced(taps: Sequence[Hop], n: int, lineup: Lineup | None) -> Finding:
    """The sidecar of tap n ended the answer at a limit: to blame is the segment in which the silence began."""
    hop = taps[n]
    limit = hop.exchange.error_type or "a limit"
    waited_ns = silent_ns(hop) if limit == _CONTENT_LIMIT or hop.end is None else hop.end.idle_ns
    at = began(taps, n, waited_ns)
    detail = f"the sidecar of {hop.place.hop} ended the answer after {waited_ns / 1e9:.2f} s of silence ({limit})"
    facts: Facts = {"limit_fired": {"limit": limit, "at": hop.place.tap, "silence_s": round(waited_ns / 1e9, 6)}}
    return replace(_ending(taps, at, Cause.TIMED_OUT, detail, lineup), facts=facts)


def _timed(finding: Finding, taps: Sequence[Hop], timers_ns: Sequence[int]) -> Finding:
    """The same end, but of an idle timer, where it came when such a timer ends a stream."""
    if finding.cause not in _CUTS or finding.segment.kind is Kind.SIDECAR:
        return finding
    names = [hop.place.tap for hop in taps]
    n = _reader_at(taps) if finding.segment.kind is Kind.READER else names.index(finding.segment.downstream)
    if n == 0 and finding.cause is not Cause.TRUNCATED:
        return finding
    found = timer_behind(taps, n, timers_ns)
    if found is None:
        return finding
    timer_ns, silence_ns = found
    first = names[began(taps, n, silence_ns)] if n else names[0]
    detail = f"{silence_ns / 1e9:.2f} s after the last byte, as an idle timer of {timer_ns / 1e9:g} s does"
    facts: Facts = {
        "idle_timer": {"timer_s": timer_ns / 1e9, "silence_s": round(silence_ns / 1e9, 6), "silent_before": first}
    }
    trust = min(finding.confidence, _BY_CHANCE) if finding.segment.kind is Kind.READER else finding.confidence
    return replace(finding, cause=Cause.IDLE_TIMER, confidence=trust, detail=detail, facts=facts)


def _ours(hop: Hop) -> Finding | None:
    if hop.end is None or hop.end.ending not in _OUR_DOING:
        return None
    segment = Segment(Kind.SIDECAR, hop.place.tap, hop.place.tap)
    return Finding(cause=Cause.SELF, segment=segment, detail=_OUR_DOING[hop.end.ending].format(hop.place.hop))


def _ending(taps: Sequence[Hop], n: int, cause: Cause, detail: str, lineup: Lineup | None) -> Finding:
    if n == 0:
        segment = Segment(Kind.SOURCE, SOURCE, taps[0].place.tap)
    elif n == _reader_at(taps):
        segment = Segment(Kind.READER, taps[n - 1].place.tap, CLIENT)
    else:
        segment = Segment(Kind.BETWEEN, taps[n - 1].place.tap, taps[n].place.tap)
    last = lineup.last if lineup else None
    at = last.event_count - 1 if last else -1
    has_event = last is not None and at >= 0
    is_exact = last is not None and has_event and last.low[at] == last.high[at]
    return Finding(
        cause=cause,
        segment=segment,
        at_seq=last.seq[at] if last and has_event else None,
        at_position=last.low[at] if last and has_event else None,
        is_position_exact=is_exact,
        detail=detail,
    )
