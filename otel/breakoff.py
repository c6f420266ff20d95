"""Path → what broke the answer off: the segment that ended it early, if any did.

Closing travels in both directions, so every tap of a broken answer looks abnormal. An upstream that ended
early is charged from the source on: the first tap that saw it stands right behind the segment at fault. When
no tap saw that, a downstream that closed is charged from the reader on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from otel import decompose
from otel.decompose import CLIENT, Kind, Lineup, Segment
from otel.findings import Cause, Finding
from otel.hop import Ending, Hop
from otel.join import Path

_UPSTREAM_ENDED: Final = {
    Ending.UPSTREAM_CUT: (Cause.TRUNCATED, "its upstream broke off"),
    Ending.MISSING_TERMINAL: (Cause.TRUNCATED, "its upstream ended without the terminal event"),
    Ending.REFUSED: (Cause.TRUNCATED, "its upstream could not be reached"),
    Ending.ERROR_EVENT: (Cause.ERROR_EVENT, "its upstream sent an error event"),
    Ending.TIMED_OUT_FIRST_EVENT: (Cause.TRUNCATED, "its limit for the first event fired"),
    Ending.TIMED_OUT_NEXT_EVENT: (Cause.TRUNCATED, "its limit for the next event fired"),
}
_DOWNSTREAM_ENDED: Final = frozenset({Ending.CLIENT_DISCONNECT})
_OUR_DOING: Final = {
    Ending.DRAINED: "the sidecar of {} was stopped before the answer was complete",
    Ending.REJECTED: "the sidecar of {} refused the request",
}
_ERROR_STATUS: Final = 400


def broken_off(path: Path, lineup: Lineup | None) -> list[Finding]:
    """The finding of an answer that did not come to its end, if it did not; an ending has no terms."""
    taps = path.taps
    for n, hop in enumerate(taps):
        found = _UPSTREAM_ENDED.get(hop.end.ending) if hop.end else None
        if (
            found is None
            and hop.end
            and (hop.exchange.status or 0) >= _ERROR_STATUS
            and hop.end.ending is Ending.COMPLETE
        ):
            found = (Cause.ERROR_EVENT, f"its upstream answered with status {hop.exchange.status}")
        if found is not None:
            return [_ending(taps, n, found[0], f"{hop.place.hop} saw that {found[1]}", lineup)]
    for n in reversed(range(len(taps))):
        hop = taps[n]
        if hop.end and hop.end.ending in _DOWNSTREAM_ENDED:
            is_reader = n == len(taps) - 1
            cause = Cause.CLIENT_DISCONNECT if is_reader else Cause.ABORTED
            return [_ending(taps, n + 1, cause, f"{hop.place.hop} saw its downstream close first", lineup)]
        if hop.end and hop.end.ending in _OUR_DOING:
            segment = Segment(Kind.SIDECAR, hop.place.hop, hop.place.hop)
            return [Finding(cause=Cause.SELF, segment=segment, detail=_OUR_DOING[hop.end.ending].format(hop.place.hop))]
    return []


def _ending(taps: Sequence[Hop], n: int, cause: Cause, detail: str, lineup: Lineup | None) -> Finding:
    if n == 0:
        segment = Segment(Kind.SOURCE, decompose.SOURCE, taps[0].place.hop)
    elif n == len(taps):
        segment = Segment(Kind.READER, taps[-1].place.hop, CLIENT)
    else:
        segment = Segment(Kind.BETWEEN, taps[n - 1].place.hop, taps[n].place.hop)
    last = lineup.last if lineup else None
    at = last.event_count - 1 if last else -1
    has_event = last is not None and at >= 0
    return Finding(
        cause=cause,
        segment=segment,
        at_seq=last.seq[at] if last and has_event else None,
        at_position=last.low[at] if last and has_event else None,
        detail=detail,
    )
