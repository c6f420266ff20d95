"""The silence in which an answer ended: at which tap it began, and whether an idle timer made the end.

Most servers, proxies and clients close a stream on which nothing has come for a round time. Such a close is seen
by the tap before the one that closed, so long after the last byte that it passed on. Where no tap stands before it,
the tap behind it saw the stream break off as long after its last byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from otel import decompose
from otel.hop import WEBSOCKET, Ending, EventClass, Hop, Side
from otel.stretches import stretches_of

TIMER_SLACK_NS: Final = 50_000_000
"""How far from its nominal length an idle timer may seem to fire, seen from a tap beside it."""
_CUT: Final = frozenset({Ending.UPSTREAM_CUT, Ending.MISSING_TERMINAL})
_LISTENS: Final = ("GET", "mcp")
"""Method and dialect of a stream on which a client waits for what may never come."""


def began(taps: Sequence[Hop], n: int, waited_ns: int) -> int:
    """At which tap, from the source on, a silence that ended at tap n was first seen: the segment before it fell
    silent."""
    at = n
    while at and waited_ns - silent_ns(taps[at - 1]) < decompose.HOLD_NS:
        at -= 1
    return at


def silent_ns(hop: Hop) -> int:
    """How long no event had come when the exchange was over, less the time in which nobody took any; 0 for a whole
    answer, after which nothing is due."""
    if hop.end is not None and hop.end.ending is Ending.COMPLETE:
        return 0
    events = [s.arrived_ns for s in hop.timeline.stamps if s.event_class is not EventClass.KEEPALIVE]
    since, until = events[-1] if events else 0, _until_ns(hop)
    return max(0, until - since - _blocked_ns(hop, since, until))


def timer_behind(taps: Sequence[Hop], n: int, timers_ns: Iterable[int]) -> tuple[int, int] | None:
    """(the idle timer, the time without a byte) where the segment before tap n ended its answer as that timer would;
    n is the number of taps for the reader. None where no timer fits, or nothing shows it."""
    silence_ns = _untaken_ns(taps[n - 1]) if n else _unheard_ns(taps[0])
    timer_ns = None if silence_ns is None else _fitting(silence_ns, timers_ns)
    return None if timer_ns is None or silence_ns is None else (timer_ns, silence_ns)


def was_reaped(hop: Hop, timers_ns: Iterable[int]) -> bool:
    """Whether a connection was closed by an idle timer while nobody owed anything on it: no answer was cut."""
    if hop.end is None or hop.end.ending not in {*_CUT, Ending.CLIENT_DISCONNECT}:
        return False
    heard = [s.arrived_ns for s in hop.timeline.stamps]
    said = [s.arrived_ns for s in hop.sent.stamps] if hop.sent else []
    is_owed = bool(said) and (not heard or said[-1] > heard[-1])
    is_idle = hop.exchange.framing == WEBSOCKET or (hop.exchange.method, hop.exchange.dialect) == _LISTENS
    last_ns = max([*heard, *said], default=hop.moments.headers_received_ns or 0)
    return is_idle and not is_owed and _fitting(_until_ns(hop) - last_ns, timers_ns) is not None


def _untaken_ns(hop: Hop) -> int | None:
    """How long the downstream had been sent nothing when it closed; None where it was sent something, or took none."""
    end = hop.end
    if end is None or end.ending is not Ending.CLIENT_DISCONNECT or end.ended_by is not Side.DOWNSTREAM:
        return None
    until = _until_ns(hop)
    is_blocked = _blocked_ns(hop, until - end.idle_ns, until) > TIMER_SLACK_NS
    is_known = hop.moments.request_forwarded_ns is not None and not hop.traffic.keepalive_count
    return end.idle_ns if is_known and not is_blocked else None


def _unheard_ns(hop: Hop) -> int | None:
    """How long the upstream had sent nothing when it broke off; None where it did not."""
    end = hop.end
    if end is None or end.ending not in _CUT or hop.moments.request_forwarded_ns is None:
        return None
    return end.idle_ns


def _fitting(silence_ns: int, timers_ns: Iterable[int]) -> int | None:
    return next((timer_ns for timer_ns in timers_ns if abs(silence_ns - timer_ns) <= TIMER_SLACK_NS), None)


def _until_ns(hop: Hop) -> int:
    """When the exchange was over for whoever ended it."""
    moments = hop.moments
    ends = (moments.client_left_ns, moments.upstream_ended_ns, moments.closed_ns)
    return next(ns for ns in ends if ns is not None)


def _blocked_ns(hop: Hop, since: int, until: int) -> int:
    return stretches_of(hop.timeline.blocked).covered(since, until)
