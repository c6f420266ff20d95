"""A hop as an OpenTelemetry span, and the hop of a span.

Which field an attribute carries says `otel.attributes`, what it means `otel.schema`. The packed timeline lies in one
span event, `gapline.timeline`; where the reader sends messages too, theirs lies in a second one, which a reader that
does not know of it passes over. What is derived from it for people (the longest gap, the notable events) is written
and never read back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from otel import grain, schema, timeline
from otel.attributes import (
    ANCHOR,
    DIGESTS,
    END,
    ENGINE,
    ENGINE_DURING,
    ENGINE_EARLIER,
    EXCHANGE,
    HOP,
    LEFT_OUT,
    LIMITS,
    MOMENTS,
    PACKED,
    PART_COUNT,
    PLACE,
    SCHEMA,
    TRAFFIC,
    USAGE,
    Attributes,
    AttributeValue,
    Rows,
    Scalar,
    SpanError,
    read,
    read_dimensions,
    shown,
    texts,
    write,
    write_dimensions,
)
from otel.hop import (
    OUTPUT,
    WEBSOCKET,
    Anchor,
    BodyDigests,
    End,
    Ending,
    EngineEvidence,
    EngineSnapshot,
    EventClass,
    Exchange,
    Hop,
    Moments,
    Place,
    RateLimits,
    Stamp,
    State,
    TapRole,
    Timeline,
    Traffic,
    Usage,
)
from otel.ids import normalised

__all__ = ["AttributeValue", "Attributes", "Scalar", "Span", "SpanError", "SpanEvent"]
__all__ += ["hop_to_span", "is_ours", "span_to_hop", "without_timeline"]

INTERNAL: Final = 1
SERVER: Final = 2
CLIENT: Final = 3
UNSET: Final = 0
ERROR: Final = 2

STALL_NS: Final = 1_000_000_000
"""Gaps from here on are notable events of their own."""
STALL_EVENTS: Final = 32
"""The longest ones; backends and their pages are made for tens of events a span."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"})
_OUTPUT: Final = OUTPUT | {EventClass.OPAQUE}
_NO_FAILURE: Final = frozenset({Ending.COMPLETE, Ending.CLIENT_DISCONNECT, Ending.UNKNOWN_END})


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened within a span, at a wall-clock time."""

    name: str
    time_ns: int
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A span as OTLP carries it, as far as we use it: no links, no trace state, no dropped counts.

    trace_id and span_id are lower-case hex digits; kind and status_code are OTLP's numbers.
    """

    trace_id: str
    span_id: str
    parent_span_id: str | None = None
    name: str
    kind: int = INTERNAL
    start_ns: int
    end_ns: int
    attributes: Attributes = field(default_factory=dict)
    events: tuple[SpanEvent, ...] = ()
    status_code: int = UNSET
    status_message: str = ""
    resource: Attributes = field(default_factory=dict)
    scope_name: str = ""
    scope_version: str = ""


def is_ours(span: Span) -> bool:
    """Whether the span claims to be a hop's."""
    return "gapline.schema" in span.attributes


def hop_to_span(hop: Hop) -> Span:
    """The span of a hop whose timeline is quantised.

    Raises SpanError for a hop that has no span: an end in an open segment or none in a final record, an
    instant that no double carries, a timeline that cannot be packed.
    """
    is_open = hop.state is State.OPEN
    if (hop.end is None) is not is_open:
        raise SpanError(f"gapline.ending: a hop in state {hop.state} has the end {hop.end}")
    attributes: dict[str, AttributeValue] = {
        "gapline.schema": schema.VERSION,
        "gapline.request_id.normalised": normalised(hop.request_id),
        **write(HOP, hop),
        **write(PLACE, hop.place),
        **write(ANCHOR, hop.anchor),
        **write(EXCHANGE, hop.exchange),
        **write_dimensions(hop.exchange.dimensions),
        **write(MOMENTS, hop.moments),
        **write(TRAFFIC, hop.traffic),
        **write(USAGE, hop.usage),
        **write(LIMITS, hop.limits),
        **({} if hop.digests is None else write(DIGESTS, hop.digests)),
        **({} if hop.engine is None else _engine_attributes(hop.engine)),
        **_summary(hop),
    }
    is_failure = False
    if hop.end is not None:
        attributes |= write(END, hop.end)
        is_failure = hop.end.ending not in _NO_FAILURE
        if is_failure:
            attributes["error.type"] = hop.end.ending.value
    method = hop.exchange.method if hop.exchange.method in _METHODS else "HTTP"
    end_ns = hop.anchor.wall_ns + hop.moments.closed_ns
    return Span(
        trace_id=hop.trace_id,
        span_id=hop.span_id,
        parent_span_id=hop.parent_span_id,
        name=f"{method} {hop.place.hop}" + " segment" * is_open,
        kind=INTERNAL if is_open else CLIENT if hop.place.role is TapRole.CLIENT else SERVER,
        start_ns=hop.anchor.wall_ns,
        end_ns=end_ns,
        attributes=attributes,
        events=(*_notable(hop), *_timeline_events(hop, end_ns)),
        status_code=ERROR if is_failure else UNSET,
        resource=dict(hop.place.resource),
        scope_name=schema.SCOPE,
        scope_version=str(schema.VERSION),
    )


def span_to_hop(span: Span) -> Hop:
    """The hop that was made into this span; attributes that the schema does not know are ignored.

    Raises SpanError for anything else: another program's span, a newer schema, a missing or cut attribute,
    a timeline of which a part is lost.
    """
    attributes = span.attributes
    if not 1 <= (version := read(SCHEMA, attributes)["version"]) <= schema.VERSION:
        raise SpanError(f"gapline.schema: this reader knows 1 to {schema.VERSION}; {version} needs a newer gapline")
    _check_id("trace_id", span.trace_id, digits=32)
    _check_id("span_id", span.span_id, digits=16)
    if span.parent_span_id is not None:
        _check_id("parent_span_id", span.parent_span_id, digits=16)
    fields = read(HOP, attributes)
    is_open = fields["state"] is State.OPEN
    if is_open and "gapline.ending" in attributes:
        raise SpanError("gapline.ending: an open segment has none")
    resource = tuple((key, value if isinstance(value, str) else str(value)) for key, value in span.resource.items())
    return Hop(
        **fields,
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_span_id,
        place=Place(**read(PLACE, attributes), resource=resource),
        anchor=Anchor(**read(ANCHOR, attributes)),
        exchange=Exchange(**read(EXCHANGE, attributes), dimensions=read_dimensions(attributes)),
        moments=Moments(**read(MOMENTS, attributes)),
        traffic=Traffic(**read(TRAFFIC, attributes)),
        usage=Usage(**read(USAGE, attributes)),
        limits=RateLimits(**read(LIMITS, attributes)),
        digests=_digests_of(attributes),
        engine=_engine_of(attributes),
        timeline=_the_timeline_of(span),
        sent=_timeline_of(span, schema.SENT_EVENT),
        end=None if is_open else End(**read(END, attributes)),
    )


def without_timeline(span: Span) -> Span:
    """The span without the parts of its timeline, marked so: for a receiver that refuses the size of the whole.

    Its hop is the same with `grain.LEFT_OUT` for each timeline.
    """
    events = []
    for event in span.events:
        kept = dict(event.attributes)
        if event.name in {schema.TIMELINE_EVENT, schema.SENT_EVENT}:
            kept = {name: value for name, value in kept.items() if not name.startswith(schema.PART_PREFIX)}
            kept["gapline.timeline.left_out"] = True
        events.append(replace(event, attributes=kept))
    return replace(span, events=tuple(events))


def _timeline_events(hop: Hop, time_ns: int) -> Iterator[SpanEvent]:
    yield _timeline_event(schema.TIMELINE_EVENT, hop.timeline, time_ns)
    if hop.sent is not None:
        yield _timeline_event(schema.SENT_EVENT, hop.sent, time_ns)


def _timeline_event(name: str, kept: Timeline, time_ns: int) -> SpanEvent:
    try:
        packed = timeline.pack(kept)
    except timeline.TimelineError as error:
        raise SpanError(f"{name}: {error}") from None
    attributes = write(PACKED, packed)
    attributes["gapline.timeline.unit_ns"] = kept.unit_ns
    attributes["gapline.timeline.parts"] = len(packed.parts)
    attributes |= {_part(i): part for i, part in enumerate(packed.parts)}
    return SpanEvent(name, time_ns, attributes)


def _digests_of(attributes: Attributes) -> BodyDigests | None:
    return BodyDigests(**read(DIGESTS, attributes)) if _has_any(DIGESTS, attributes) else None


def _engine_attributes(engine: EngineEvidence) -> dict[str, AttributeValue]:
    attributes = write(ENGINE, engine) | write(ENGINE_DURING, engine.during)
    if engine.earlier is not None:
        ago_ns = engine.during.asked_ns - engine.earlier.asked_ns
        attributes |= write(ENGINE_EARLIER, replace(engine.earlier, asked_ns=ago_ns))
    return attributes


def _engine_of(attributes: Attributes) -> EngineEvidence | None:
    if not _has_any((*ENGINE, *ENGINE_DURING, *ENGINE_EARLIER), attributes):
        return None
    during, earlier = EngineSnapshot(**read(ENGINE_DURING, attributes)), None
    if _has_any(ENGINE_EARLIER, attributes):
        ago = EngineSnapshot(**read(ENGINE_EARLIER, attributes))
        earlier = replace(ago, asked_ns=during.asked_ns - ago.asked_ns)
    return EngineEvidence(**read(ENGINE, attributes), during=during, earlier=earlier)


def _has_any(rows: Rows, attributes: Attributes) -> bool:
    return any(name in attributes for name, _, _ in rows)


def _the_timeline_of(span: Span) -> Timeline:
    found = _timeline_of(span, schema.TIMELINE_EVENT)
    if found is None:
        raise SpanError(f"{schema.TIMELINE_EVENT}: 0 events of this name, there must be one")
    return found


def _timeline_of(span: Span, name: str) -> Timeline | None:
    found = [event.attributes for event in span.events if event.name == name]
    if not found:
        return None
    if len(found) > 1:
        raise SpanError(f"{name}: {len(found)} events of this name, there must be one")
    attributes = found[0]
    if read(LEFT_OUT, attributes)["is_left_out"]:
        return grain.LEFT_OUT
    part_count = read(PART_COUNT, attributes)["count"]
    if part_count > len(attributes):
        raise SpanError(f"gapline.timeline.parts: {part_count} parts, but only {len(attributes)} attributes")
    parts = read(texts(map(_part, range(part_count))), attributes)
    try:
        return timeline.unpack(timeline.Packed(**read(PACKED, attributes), parts=tuple(parts.values())))
    except timeline.TimelineError as error:
        raise SpanError(f"{name}: {error}") from None


def _part(index: int) -> str:
    return f"{schema.PART_PREFIX}{index:02d}"


def _summary(hop: Hop) -> dict[str, AttributeValue]:
    blocked_ns = sum(block.end_ns - block.start_ns for block in hop.timeline.blocked)
    summary: dict[str, AttributeValue] = {"gapline.blocked": blocked_ns / 1e9}
    if (first := _first_output(hop.timeline)) is not None and hop.exchange.is_stream:
        summary["gen_ai.response.time_to_first_chunk"] = first.arrived_ns / 1e9
    if (longest := max(_gaps(hop.timeline), key=lambda gap: gap[0], default=None)) is not None:
        summary |= {"gapline.gap.max": longest[0] / 1e9, "gapline.gap.max_seq": longest[1].seq}
    return summary


def _notable(hop: Hop) -> list[SpanEvent]:
    """The first output, the longest stalls and the client's leaving, in order of time.

    In a WebSocket nobody knows who waited for whom, so no silence there is a stall.
    """
    wall_ns = hop.anchor.wall_ns
    events = []
    if (first := _first_output(hop.timeline)) is not None:
        events.append(SpanEvent(schema.FIRST_EVENT, wall_ns + first.arrived_ns, {"gapline.event.seq": first.seq}))
    gaps = () if hop.exchange.framing == WEBSOCKET else _gaps(hop.timeline)
    stalls = sorted((gap for gap in gaps if gap[0] >= STALL_NS), key=lambda gap: -gap[0])
    for gap_ns, stamp in stalls[:STALL_EVENTS]:
        about: Attributes = {"gapline.event.seq": stamp.seq, "gapline.event.gap": gap_ns / 1e9}
        events.append(SpanEvent(schema.STALL_EVENT, wall_ns + stamp.arrived_ns, about))
    if hop.moments.client_left_ns is not None:
        events.append(SpanEvent(schema.CLIENT_LEFT_EVENT, wall_ns + hop.moments.client_left_ns))
    return sorted(events, key=lambda event: event.time_ns)


def _first_output(kept: Timeline) -> Stamp | None:
    """The first event with output, None when the timeline does not show which one it was."""
    for seq, stamp in enumerate(kept.stamps):
        if stamp.seq != seq:
            return None
        if stamp.event_class in _OUTPUT:
            return stamp
    return None


def _gaps(kept: Timeline) -> Iterator[tuple[int, Stamp]]:
    """(ns, the event that ended it) of every two neighbouring events."""
    for before, after in pairwise(kept.stamps):
        if after.seq == before.seq + 1:
            yield after.arrived_ns - before.arrived_ns, after


def _check_id(name: str, value: str, *, digits: int) -> None:
    if len(value) != digits or value.strip("0123456789abcdef") or not value.strip("0"):
        raise SpanError(f"{name}: {shown(value)} is not {digits} lower-case hex digits, not all zero")
