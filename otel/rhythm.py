"""The rhythm of a source: which of its own pauses are ordinary.

Only the source has a rhythm, and only its own term is excused by it; a hop, a link or a reader adds nothing
to a healthy stream, whatever its rhythm. Gaps below BURST_GAP_NS belong to one burst. The median is no use
(it is 0 in a bursty stream), and neither are the reader's gaps (a hop that buffers would excuse itself).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

BURST_GAP_NS: Final = 5_000_000
BURSTS_KNOWN: Final = 5
"""Two or three bursts do not show a rhythm: all wrong verdicts of one experiment came from 30-event answers."""
CAP_FROM_GAPS: Final = 8
"""From here on a stall or two must not raise the bar to their own height: at most twice the third largest gap."""
P90: Final = 0.9


@dataclass(frozen=True, slots=True)
class Rhythm:
    """What a stream shows of its source's pauses.

    limit_ns: a pause beyond it is not rhythm. p90_ns: 90th percentile of the pauses, None without any.
    shows_own: the stream itself has bursts enough to show it. is_known: it does, or the source's other streams do.
    """

    limit_ns: int
    p90_ns: int | None
    is_known: bool
    shows_own: bool


def rhythm_of(gaps_ns: Sequence[int], *, floor_ns: int, ceiling_ns: int, elsewhere_ns: int | None = None) -> Rhythm:
    """The rhythm shown by the gaps between the arrivals of a source.

    elsewhere_ns: the p90 that the same source showed in other streams, None when it was never seen.
    """
    pauses = sorted(gap for gap in gaps_ns if gap >= BURST_GAP_NS)
    p90 = pauses[int(P90 * (len(pauses) - 1))] if pauses else None
    shows_own = len(pauses) + 1 >= BURSTS_KNOWN
    base = max(p90 if shows_own and p90 is not None else 0, elsewhere_ns or 0)
    is_known = shows_own or elsewhere_ns is not None
    limit = (2 + 0.45 * math.log(max(1, len(gaps_ns)))) * base
    if len(pauses) >= CAP_FROM_GAPS:
        limit = min(limit, max(2 * pauses[-3], 2 * (elsewhere_ns or 0)))
    return Rhythm(
        limit_ns=round(min(ceiling_ns, max(floor_ns, limit))), p90_ns=p90, is_known=is_known, shows_own=shows_own
    )
