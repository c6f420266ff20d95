"""The packaged OpenTelemetry exporters as senders: our spans as their spans."""

from __future__ import annotations

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from otel.span import Span

_KINDS = {1: SpanKind.INTERNAL, 2: SpanKind.SERVER, 3: SpanKind.CLIENT}


def readable(span: Span) -> ReadableSpan:
    return ReadableSpan(
        name=span.name,
        context=_context(span.trace_id, span.span_id),
        parent=None if span.parent_span_id is None else _context(span.trace_id, span.parent_span_id),
        resource=Resource(span.resource),
        attributes=span.attributes,
        events=[Event(event.name, event.attributes, event.time_ns) for event in span.events],
        kind=_KINDS[span.kind],
        instrumentation_scope=InstrumentationScope(span.scope_name, span.scope_version),
        status=Status(StatusCode(span.status_code)),
        start_time=span.start_ns,
        end_time=span.end_ns,
    )


def _context(trace_id: str, span_id: str) -> SpanContext:
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=TraceFlags(1))
