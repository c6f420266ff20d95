"""What a sidecar says of an exchange while it runs: one glance at it, as an OTLP log record and back.

A log record shows at once what a span can show only at the end: that a stream hangs, and where. It carries ids, names,
numbers and words of ours, and nothing that a user or a model wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from otel.attributes import Attributes, AttributeValue, shown
from otel.ids import recorded
from otel.otlp_logs import LogRecord, Severity

NAME_CHARS: Final = 200
"""Longest name in a glance, of a hop, a listener, a model: a table of many glances must stay small."""
LONGEST_S: Final = 1e9
"""30 years; what says more is broken."""
COUNT_MAX: Final = 1 << 53
"""What JSON carries exactly."""


class Moment(StrEnum):
    """When a glance was taken; the value is the name of its event.

    OPEN is the heartbeat of a stream that runs on. STALLED and RESUMED frame a silence. CLOSED is the last one.
    """

    OPEN = "gapline.stream.open"
    STALLED = "gapline.stream.stalled"
    RESUMED = "gapline.stream.resumed"
    CLOSED = "gapline.stream.closed"


class GlanceError(ValueError):
    """The log record is no glance; the message names the attribute and the rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """One exchange at one moment.

    at_ns: by the sidecar's wall clock. trace_id, span_id: those of the exchange's final span. age_s: since its request
    head. silent_s: since it last went on; at RESUMED how long it did not. is_stalled: that was told and is not over.
    is_blocked: its reader takes nothing. stall_cause: why its reader's side holds it up, None where it does not, or
    that is not known. is_probe: probe traffic. heartbeat_s: an OPEN follows after so long, None
    where none does. phase and ending: as in the final record, in words that a later version may add to.
    """

    moment: Moment
    at_ns: int
    trace_id: str
    span_id: str
    request_id: str
    hop: str
    phase: str
    listener: str | None = None
    model: str | None = None
    status: int | None = None
    events: int = 0
    age_s: float = 0.0
    silent_s: float = 0.0
    is_blocked: bool = False
    is_stalled: bool = False
    stall_cause: str | None = None
    is_probe: bool = False
    heartbeat_s: float | None = None
    ending: str | None = None


EVENT_NAMES: Final = frozenset(Moment)


def is_ours(record: LogRecord) -> bool:
    """The record means to be a glance."""
    return record.event_name in EVENT_NAMES


def glance_to_log(glance: Glance) -> LogRecord:
    """The glance as a log record; names that are too long are cut."""
    written: dict[str, AttributeValue | None] = {
        "gapline.request_id": glance.request_id,
        "gapline.hop": _cut(glance.hop),
        "gapline.listener": _cut(glance.listener),
        "gen_ai.request.model": _cut(glance.model),
        "gapline.phase": _cut(glance.phase),
        "http.response.status_code": glance.status,
        "gapline.events": glance.events,
        "gapline.age": glance.age_s,
        "gapline.silent": glance.silent_s,
        "gapline.reader_blocked": glance.is_blocked,
        "gapline.stalled": glance.is_stalled,
        "gapline.stall.cause": _cut(glance.stall_cause),
        "gapline.probe": glance.is_probe or None,
        "gapline.heartbeat": glance.heartbeat_s,
        "gapline.ending": _cut(glance.ending),
    }
    return LogRecord(
        event_name=glance.moment.value,
        at_ns=glance.at_ns,
        trace_id=glance.trace_id,
        span_id=glance.span_id,
        severity=Severity.WARN if glance.moment is Moment.STALLED else Severity.INFO,
        attributes={name: value for name, value in written.items() if value is not None},
    )


def log_to_glance(record: LogRecord) -> Glance:
    """The glance in a log record; attributes that this version does not know are left. Raises GlanceError."""
    if not is_ours(record):
        raise GlanceError(f"event name {shown(record.event_name)} is not one of {', '.join(sorted(EVENT_NAMES))}")
    if not (record.trace_id.strip("0") and record.span_id.strip("0")):
        raise GlanceError("it has no trace id or no span id")
    given = record.attributes
    request_id = _text(given, "gapline.request_id")
    if recorded(request_id) != request_id:
        raise GlanceError("gapline.request_id: is not as request ids are recorded")
    heartbeat_s = _seconds(given, "gapline.heartbeat")
    return Glance(
        moment=Moment(record.event_name),
        at_ns=record.at_ns,
        trace_id=record.trace_id,
        span_id=record.span_id,
        request_id=request_id,
        hop=_text(given, "gapline.hop"),
        phase=_text(given, "gapline.phase"),
        listener=_text_or_none(given, "gapline.listener"),
        model=_text_or_none(given, "gen_ai.request.model"),
        status=_count(given, "http.response.status_code"),
        events=_count(given, "gapline.events") or 0,
        age_s=_seconds(given, "gapline.age") or 0.0,
        silent_s=_seconds(given, "gapline.silent") or 0.0,
        is_blocked=_flag(given, "gapline.reader_blocked"),
        is_stalled=_flag(given, "gapline.stalled"),
        stall_cause=_text_or_none(given, "gapline.stall.cause"),
        is_probe=_flag(given, "gapline.probe"),
        heartbeat_s=heartbeat_s or None,
        ending=_text_or_none(given, "gapline.ending"),
    )


def _cut(name: str | None) -> str | None:
    return None if name is None else name[:NAME_CHARS]


def _text(given: Attributes, name: str) -> str:
    value = _text_or_none(given, name)
    if value is None:
        raise GlanceError(f"{name}: missing")
    return value


def _text_or_none(given: Attributes, name: str) -> str | None:
    value = given.get(name)
    if value is None or (isinstance(value, str) and len(value) <= NAME_CHARS):
        return value
    raise GlanceError(f"{name}: {shown(value)} is not a text of at most {NAME_CHARS} characters")


def _count(given: Attributes, name: str) -> int | None:
    value = given.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= COUNT_MAX):
        return value
    raise GlanceError(f"{name}: {shown(value)} is not an integer from 0 to {COUNT_MAX}")


def _seconds(given: Attributes, name: str) -> float | None:
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LONGEST_S:
        return float(value)
    raise GlanceError(f"{name}: {shown(value)} is not a number of seconds from 0 to {LONGEST_S:.0f}")


def _flag(given: Attributes, name: str) -> bool:
    value = given.get(name, False)
    if isinstance(value, bool):
        return value
    raise GlanceError(f"{name}: {shown(value)} is not true or false")
