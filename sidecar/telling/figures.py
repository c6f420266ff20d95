"""The few numbers that sum one exchange up, worked out once: its log line shows them, and the metrics count them.

So both say the same. What is worked out takes a look at every event, which the caller may do beside the event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from otel.hop import OUTPUT, Ending, EventClass, Hop, Stamp, Timeline
from sidecar.telling.measures import Tally, tally

BOUNDS_S: Final = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.5, 0.8, 1.6, 3.0, 6.0, 10.0, 20.0, 30.0, 60.0, 90.0, 120.0, 300.0, 600.0,
)  # fmt: skip
"""Ends of buckets: fine where people feel it, then the limits that proxies and clients have, up to 600 s."""
GENAI_BOUNDS_S: Final = (
    0.01, 0.02, 0.04, 0.08, 0.16, 0.2, 0.32, 0.4, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 90.0, 163.84,
    300.0, 600.0,
)  # fmt: skip
"""Those that the conventions advise, and what they lack: a stall of 90 s would be in the last one, with all longer."""
ERROR_STATUS: Final = 400
GAP_ENDS_NS: Final = tuple(sorted({round(bound * 1e9) for bound in (*BOUNDS_S, *GENAI_BOUNDS_S)}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one final record comes to. Instants are since the request's head arrived; None where it came to none.

    cause: the finest token for how it ended; None where its ending says it all. duration_ns: until the reader had the
    answer, or left. first_event_ns: of the first that is no keepalive. first_content_ns, last_content_ns: of the first
    and last that carry output. max_gap_ns: the longest time between two successive events that are no keepalives.
    content_gaps: the times between two successive events with output. since_last_byte_ns: silence of the upstream at
    the end. blocked_ns: time in which the reader took nothing.
    """

    cause: str | None
    duration_ns: int
    first_event_ns: int | None
    first_content_ns: int | None
    last_content_ns: int | None
    max_gap_ns: int | None
    content_gaps: Tally
    since_last_byte_ns: int
    blocked_ns: int


def figures(hop: Hop) -> Figures:
    """The figures of a final record with exact times."""
    moments, timeline = hop.moments, hop.timeline
    told = [stamp for stamp in timeline.stamps if stamp.event_class is not EventClass.KEEPALIVE]
    content = [stamp for stamp in told if stamp.event_class in OUTPUT]
    return Figures(
        cause=cause_of(hop),
        duration_ns=_first_known(moments.downstream_ended_ns, moments.client_left_ns, moments.closed_ns),
        first_event_ns=told[0].arrived_ns if told else None,
        first_content_ns=content[0].arrived_ns if content else None,
        last_content_ns=content[-1].arrived_ns if content else None,
        max_gap_ns=max(_gaps_ns(told, timeline), default=None),
        content_gaps=tally(_gaps_ns(content, timeline), GAP_ENDS_NS),
        since_last_byte_ns=0 if hop.end is None else hop.end.idle_ns,
        blocked_ns=sum(block.end_ns - block.start_ns for block in timeline.blocked),
    )


def cause_of(hop: Hop) -> str | None:
    """The finest token for how it ended. How the upstream's connection broke says more than that it did, and an error
    that came whole is told by its status where it says nothing else of itself."""
    cut = None if hop.end is None else hop.end.cut
    if cut is not None and hop.end is not None and hop.end.ending is Ending.UPSTREAM_CUT:
        return cut
    return hop.exchange.error_type or hop.exchange.error_code or _status_of_error(hop) or cut


def _status_of_error(hop: Hop) -> str | None:
    status = hop.exchange.status or 0
    is_whole = hop.end is not None and hop.end.ending is Ending.COMPLETE
    return str(status) if is_whole and status >= ERROR_STATUS else None


def _first_known(first: int | None, second: int | None, last: int) -> int:
    return first if first is not None else second if second is not None else last


def _gaps_ns(stamps: Sequence[Stamp], timeline: Timeline) -> list[int]:
    """Where there were more events than stamps, what lies before the last stamp is no gap."""
    last_seq = timeline.stamps[-1].seq if timeline.is_cut_short and stamps else None
    return [after.arrived_ns - before.arrived_ns for before, after in pairwise(stamps) if after.seq != last_seq]
