"""Attempts of a request that were lost before the one that carried the answer: who lost them is charged with them.

The decomposition sees the attempt that carried the answer. What was tried before it is time in which the app that
tried again held the answer back, though somebody else had lost it. So much of that app's part of the first wait as
lost attempts lasted moves to the segments in which they were lost; the terms add up as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from otel import decompose
from otel.decompose import Decomposition, Wait
from otel.departure import over_ns
from otel.findings import Cause, Finding
from otel.hop import OUTPUT, Ending, Hop
from otel.join import Path
from otel.lineup import SOURCE, Kind, Segment
from otel.waits import Seen

CERTAIN: Final = 0.9
LIKELY: Final = 0.7
"""Of an attempt on another clock only the length is known, and not when it was; and where the app that tried again had
several requests with this id, not of which of them it was."""
_ERROR_STATUS: Final = 400
_OUR_DOING: Final = frozenset({Ending.LOST, Ending.DRAINED, Ending.REJECTED})


@dataclass(frozen=True, slots=True)
class _Lost:
    """A lost attempt: its record nearest the app that tried again, where it was lost, and how long that took.

    is_sure: it is known to have been in this wait, and of this request.
    """

    hop: Hop
    segment: Segment
    took_ns: int
    is_sure: bool


def with_lost(seen: Seen, path: Path, *, floor_ns: int) -> tuple[Seen, tuple[Hop, ...]]:
    """What the waits show once lost attempts are charged, and the attempts that were."""
    late = next((f for f in seen.findings if _may_be_a_retry(f)), None)
    lost = [] if late is None else _lost_in(late, path)
    if late is None or late.decomposition is None or sum(each.took_ns for each in lost) < floor_ns:
        return seen, ()
    wait, left_ns = late.decomposition, late.term_ns
    terms = dict(wait.terms)
    found: list[tuple[Segment, int, list[_Lost]]] = []
    for segment, group in groupby(sorted(lost, key=_order), key=lambda each: each.segment):
        together = list(group)
        ns = min(left_ns, sum(each.took_ns for each in together))
        left_ns -= ns
        terms[segment] = terms.get(segment, 0) + ns
        found.append((segment, ns, together))
    terms[late.segment] = terms[late.segment] - late.term_ns + left_ns
    moved = replace(wait, terms=terms)
    retries = [_finding(late, moved, *each) for each in found if each[1] >= floor_ns]
    others = [_in(f, moved, left_ns if f is late else f.term_ns) for f in seen.findings]
    kept = [f for f in others if f.segment != late.segment or f.decomposition is not moved or left_ns >= floor_ns]
    findings = sorted([*retries, *kept], key=lambda f: -f.felt_ns)
    first = moved if seen.first == wait else seen.first
    return replace(seen, findings=findings, first=first), tuple(each.hop for each in lost)


def _may_be_a_retry(finding: Finding) -> bool:
    """Once output was passed on, no other attempt can carry the answer."""
    wait = finding.decomposition
    return finding.cause is Cause.SLOW_FIRST_EVENT and finding.segment.kind is Kind.BETWEEN and wait is not None


def _lost_in(late: Finding, path: Path) -> list[_Lost]:
    """The attempts that the app of this segment may have lost in this time."""
    taps = {hop.place.tap: n for n, hop in enumerate(path.taps)}
    n = taps[late.segment.upstream]
    carrier = path.taps[n]
    limit_ns = late.term_ns + decompose.HOLD_NS
    trying = path.taps[taps[late.segment.downstream]].place
    is_shared = path.is_shared or any(hop.place == trying for hop in path.others)
    again = [
        _Lost(
            hop,
            _segment(*_innermost(path, n, hop), path),
            _took_ns(hop, carrier),
            is_sure=_on_one_clock(hop, carrier) and not is_shared,
        )
        for hop in path.others
        if hop.place == carrier.place and _is_lost(hop) and _began_in(hop, carrier, limit_ns)
    ]
    elsewhere = [  # an attempt at a hop of another name stands on the path
        _Lost(hop, Segment(Kind.BETWEEN, SOURCE, hop.place.tap), over_ns(hop), is_sure=False)
        for hop in path.taps[: taps[late.segment.downstream]]
        if hop is not carrier and _is_lost(hop) and not hop.timeline.stamps
    ]
    return [each for each in (*again, *elsewhere) if 0 < each.took_ns <= limit_ns]


def _is_lost(hop: Hop) -> bool:
    end = hop.end
    is_whole = end is not None and end.ending is Ending.COMPLETE and (hop.exchange.status or 0) < _ERROR_STATUS
    return end is not None and not is_whole and not any(s.event_class in OUTPUT for s in hop.timeline.stamps)


def _on_one_clock(hop: Hop, other: Hop) -> bool:
    return bool(hop.anchor.clock_domain) and hop.anchor.clock_domain == other.anchor.clock_domain


def _took_ns(hop: Hop, carrier: Hop) -> int:
    """How long it kept the request from the attempt that carried the answer; one that was still running then no
    longer than until that one began."""
    if not _on_one_clock(hop, carrier):
        return over_ns(hop)
    return min(over_ns(hop), carrier.anchor.monotonic_ns - hop.anchor.monotonic_ns)


def _began_in(hop: Hop, carrier: Hop, limit_ns: int) -> bool:
    """Whether it began so shortly before the carrier that it can have been tried first; unknown counts as so."""
    if not _on_one_clock(hop, carrier):
        return True
    return 0 < carrier.anchor.monotonic_ns - hop.anchor.monotonic_ns <= limit_ns


def _innermost(path: Path, n: int, hop: Hop) -> tuple[int, Hop]:
    """How far towards the source the attempt was under way for all of its time: the place there, and its record."""
    while n:
        place, lasted_ns = path.taps[n - 1].place, over_ns(hop)
        inner = [
            other
            for other in path.others
            if other.place == place and _is_lost(other) and 0 <= lasted_ns - over_ns(other) < decompose.HOLD_NS
        ]
        if not inner:
            break
        n, hop = n - 1, inner[0]
    return n, hop


def _segment(n: int, hop: Hop, path: Path) -> Segment:
    name = path.taps[n].place.tap
    if hop.end is not None and hop.end.ending in _OUR_DOING:
        return Segment(Kind.SIDECAR, name, name)
    return Segment(Kind.SOURCE, SOURCE, name) if n == 0 else Segment(Kind.BETWEEN, path.taps[n - 1].place.tap, name)


def _finding(late: Finding, wait: Decomposition, segment: Segment, ns: int, lost: Sequence[_Lost]) -> Finding:
    trust = CERTAIN if all(each.is_sure for each in lost) else LIKELY
    attempts = "an earlier attempt" if len(lost) == 1 else f"{len(lost)} earlier attempts"
    return replace(
        late,
        cause=Cause.RETRY,
        segment=segment,
        term_ns=ns,
        decomposition=wait,
        confidence=min(1.0, ns / wait.gap_ns) * trust,
        kernel=None,
        where=None,
        detail=f"lost {attempts} at this request ({', '.join(_how(each.hop) for each in lost)})",
    )


def _how(hop: Hop) -> str:
    if hop.end is None or hop.end.ending is Ending.COMPLETE:
        return f"status {hop.exchange.status}"
    return hop.end.ending.value


def _in(finding: Finding, moved: Decomposition, term_ns: int) -> Finding:
    """The finding with the moved terms, where it is of that wait."""
    is_of_it = finding.decomposition is not None and finding.decomposition.wait is Wait.FIRST_EVENT
    if not is_of_it:
        return finding
    share = term_ns / finding.term_ns if finding.term_ns else 1.0
    return replace(finding, decomposition=moved, term_ns=term_ns, confidence=finding.confidence * share)


def _order(lost: _Lost) -> tuple[str, str]:
    return lost.segment.label, lost.segment.downstream
