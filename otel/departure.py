"""What went on after a reader had left: how long each hop kept its upstream open, and how much came for nobody.

Leaving travels upstream, close by close, and every hop that passes it on late is charged with its own part. Between
two taps on one clock the times are exact. Otherwise the request is the bridge: it is forwarded before it arrives, so
an inner tap closed at least as late as its own clock and the forwarding before it say. Nobody is accused of more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from otel.findings import MS, Cause, Facts, Finding
from otel.hop import WEBSOCKET, EventClass, Hop
from otel.lineup import Kind, Segment

WENT_ON_NS: Final = 1_000 * MS
"""Many servers look for a reader that left now and then only: less is no fault."""


@dataclass(frozen=True, slots=True)
class _Late:
    """A segment that went on. term_ns: for how long. noticing_ns: for how long after it was handed the first event
    that it could only pass on to nobody; 0 when it was handed none. wasted_count: how many there were."""

    segment: Segment
    term_ns: int
    noticing_ns: int
    wasted_count: int


def with_ignored(left: Finding, taps: Sequence[Hop]) -> list[Finding]:
    """The departure and those who ignored it, the longest first.

    A reader takes nothing from anybody by leaving. Where one left and a hop went on although it was handed output for
    nobody, that hop is what went wrong, and comes before the departure.
    """
    n = _departed_from(left, taps)
    if n is None:
        return [left]
    late, facts = _late(taps[: n + 1])
    found = [
        (each, replace(left, cause=Cause.CANCEL_IGNORED, segment=each.segment, term_ns=each.term_ns, facts=facts))
        for each in sorted(late, key=lambda each: -each.term_ns)
    ]
    found = [(each, replace(finding, detail=_detail(each))) for each, finding in found]
    wrong = [f for each, f in found if left.segment.kind is Kind.READER and each.noticing_ns >= WENT_ON_NS]
    return [*wrong, left, *(f for _, f in found if f not in wrong)]


def _departed_from(left: Finding, taps: Sequence[Hop]) -> int | None:
    """Which tap saw its downstream leave first; None where nobody left."""
    names = [hop.place.tap for hop in taps]
    is_end = left.cause in {Cause.CLIENT_DISCONNECT, Cause.ABORTED, Cause.IDLE_TIMER}
    if not is_end or left.segment.upstream not in names or left.segment.kind is Kind.SIDECAR:
        return None
    n = names.index(left.segment.upstream)
    is_known = taps[n].moments.client_left_ns is not None and taps[n].exchange.framing != WEBSOCKET
    return n if is_known else None


def _late(taps: Sequence[Hop]) -> tuple[list[_Late], Facts]:
    """Who went on when the downstream of the last of these taps had left, and when each of them closed."""
    late: list[_Late] = []
    base_ns = -(taps[-1].moments.client_left_ns or 0)  # a tap's reading plus this is the time since the leaving
    closed_s, wasted = dict[str, float](), dict[str, int]()
    for n, tap in reversed(list(enumerate(taps))):
        is_first = n == len(taps) - 1
        count = tap.traffic.wasted_count if is_first else _events_after(tap, -base_ns)
        closed_s[tap.place.tap] = round(max(0, over_ns(tap) + base_ns) / 1e9, 6)
        wasted[tap.place.tap] = count
        left_ns = tap.moments.client_left_ns
        if left_ns is None:
            break  # it came to its own end: nothing told those before it to stop
        shut_ns = max(left_ns, tap.moments.upstream_closed_ns or 0)
        own_ns = shut_ns - left_ns
        late.append(_Late(Segment(Kind.SIDECAR, tap.place.tap, tap.place.tap), own_ns, own_ns, count))
        shift_ns = _shift(tap, taps[n - 1]) if n else None
        if shift_ns is None:
            break
        late.append(_app_between(taps[n - 1], tap, since_ns=shut_ns - shift_ns))
        base_ns += shift_ns
    facts: Facts = {"closed_after_s": closed_s, "events_for_nobody": wasted}
    return [each for each in late if each.term_ns >= WENT_ON_NS], facts


def _app_between(inner: Hop, outer: Hop, *, since_ns: int) -> _Late:
    """What the app between two taps did from since_ns on, when the outer tap closed; on the inner tap's clock."""
    handed = [s.arrived_ns for s in inner.timeline.stamps if s.arrived_ns > since_ns]
    ended_ns = over_ns(inner)
    return _Late(
        segment=Segment(Kind.BETWEEN, inner.place.tap, outer.place.tap),
        term_ns=ended_ns - since_ns,
        noticing_ns=ended_ns - handed[0] if handed else 0,
        wasted_count=_events_after(inner, since_ns),
    )


def _shift(outer: Hop, inner: Hop) -> int | None:
    """By how much the inner tap's clock began later than the outer one's: exactly on one clock, else at least."""
    domain = outer.anchor.clock_domain
    if domain and domain == inner.anchor.clock_domain:
        return inner.anchor.monotonic_ns - outer.anchor.monotonic_ns
    return outer.moments.request_forwarded_ns


def over_ns(hop: Hop) -> int:
    """When its downstream had left or had everything; of an exchange that still runs, the last that is known of it."""
    moments = hop.moments
    ends = (moments.client_left_ns, moments.downstream_ended_ns, moments.upstream_ended_ns, moments.closed_ns)
    return next(ns for ns in ends if ns is not None)


def _events_after(hop: Hop, at_ns: int) -> int:
    """Events that arrived later than that, also of a timeline from which some were left out."""
    stamps = [s for s in hop.timeline.stamps if s.event_class is not EventClass.KEEPALIVE]
    before = [s.seq for s in stamps if s.arrived_ns <= at_ns]
    return stamps[-1].seq - (before[-1] if before else -1) if stamps else 0


def _detail(late: _Late) -> str:
    events = f"{late.wasted_count:,} event{'s' * (late.wasted_count != 1)}"
    return f"it kept its upstream open for {late.term_ns / 1e9:.2f} s, and {events} came for nobody"
