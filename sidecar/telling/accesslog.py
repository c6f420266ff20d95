"""The log lines of one exchange: the one when it has ended, and the one when it begins, where that is wanted.

Both always have the same keys, and nothing that a user or a model wrote. What is not known, or was not so, is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from otel.hop import Hop
from sidecar.telling.figures import Figures
from sidecar.telling.figures import figures as figures_of

STARTED: Final = "exchange started"
ENDED: Final = "exchange ended"

MASKED: Final = "masked"
FULL: Final = "full"
OFF: Final = "off"
ERROR_TEXTS: Final = (MASKED, FULL, OFF)
"""How much of an upstream's error text a line shows: its words that errors are told in, all of it, or nothing."""

NOTHING: Final[Mapping[str, object]] = {}

_AT_START: Final = ("hop", "request_id", "trace_id", "method", "path", "probe", "dimensions")
_WHERE: Final = ("listener", "upstream")
_ABOUT: Final = (*_WHERE, "queued_ms")


def start_line(glance: Mapping[str, object], about: Mapping[str, object] = NOTHING) -> dict[str, object]:
    """What is known when the head of a request is there. glance: as the recorder gives it; about: see `line`."""
    return {key: glance.get(key) for key in _AT_START} | {key: about.get(key) for key in _WHERE}


def line(
    hop: Hop,
    about: Mapping[str, object] = NOTHING,
    *,
    figures: Figures | None = None,
    is_stamped: bool = True,
    error_text: str = MASKED,
) -> dict[str, object]:
    """What a final record comes to. figures: of that record, where they have been worked out already.

    about: what is known beside the record: `listener`, `upstream`, `queued_ms`, `error_detail` (why there was no
    answer, in words of the system) and `error_text` (what an error event said, as it came). error_text: one of
    ERROR_TEXTS. is_stamped: what passed was looked at and timed.
    """
    exchange, traffic, end = hop.exchange, hop.traffic, hop.end
    known = figures_of(hop) if figures is None else figures
    return {
        "hop": hop.place.hop,
        "request_id": hop.request_id,
        "trace_id": hop.trace_id,
        "outcome": None if end is None else end.ending.value,
        "cause": known.cause,
        "ended_by": None if end is None else end.ended_by.value,
        "phase": None if end is None else end.phase.value,
        "cut": None if end is None else end.cut,
        "error_type": exchange.error_type,
        "error_code": exchange.error_code,
        "error_detail": _error_detail(hop, about, error_text),
        "finish_reasons": exchange.finish_reasons,
        "guard_fired": exchange.guard_fired,
        "method": exchange.method,
        "path": exchange.path,
        "status": exchange.status,
        "model": exchange.model,
        "dialect": exchange.dialect,
        "total_duration_ms": ms(known.duration_ns),
        "time_to_first_event_ms": ms(known.first_event_ns),
        "time_to_first_content_ms": ms(known.first_content_ns),
        "time_since_last_byte_ms": ms(known.since_last_byte_ns),
        "max_gap_ms": ms(known.max_gap_ns),
        "blocked_ms": ms(known.blocked_ns),
        "closed_after_ms": ms(_closed_after_ns(hop)),
        "events": traffic.event_count,
        "wasted_events": traffic.wasted_count,
        "bytes": traffic.bytes_out,
        "bytes_in": traffic.bytes_in,
        "missing_bytes": traffic.missing_bytes,
        "request_bytes": traffic.request_bytes,
        "keepalives": traffic.keepalive_count,
        "injected_bytes": traffic.injected_bytes,
        "upstream_digest": None if hop.digests is None else hop.digests.upstream,
        "downstream_digest": None if hop.digests is None else hop.digests.downstream,
        "input_tokens": hop.usage.input_tokens,
        "output_tokens": hop.usage.output_tokens,
        "probe": exchange.is_probe,
        "dimensions": dict(exchange.dimensions),
        **{key: about.get(key) for key in _ABOUT},
        "stamped": is_stamped,
    }


def ms(ns: int | None) -> float | None:
    """Milliseconds to the microsecond, as all times of a line are given."""
    return None if ns is None else round(ns / 1e6, 3)


def _error_detail(hop: Hop, about: Mapping[str, object], error_text: str) -> object:
    """What we say ourselves of a failed connection is nobody's text, and always told."""
    ours = about.get("error_detail")
    if error_text == OFF:
        return ours
    said = about.get("error_text") if error_text == FULL else None
    return said or ours or hop.exchange.error_detail


def _closed_after_ns(hop: Hop) -> int | None:
    """How long after the reader's leaving our connection to the upstream was closed."""
    left_ns, closed_ns = hop.moments.client_left_ns, hop.moments.upstream_closed_ns
    return None if left_ns is None or closed_ns is None else max(0, closed_ns - left_ns)
