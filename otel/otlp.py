"""Spans as OTLP requests and the answers to them, in protobuf and in JSON, both directions.

What `Span` has no place for (links, trace state, map-valued attributes) is left out when reading. The caller limits
the size of a body before it comes here.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Final

import orjson
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.trace.v1 import trace_pb2 as pb

from otel.attributes import Attributes
from otel.otlp_values import (
    OtlpError,
    as_json_body,
    attributes_of,
    encode_error,
    from_tree,
    has_more_fields,
    id_bytes,
    json_object,
    parsed,
    parsed_json,
    put_all,
    to_tree,
    utf8,
)
from otel.span import Span, SpanEvent

__all__ = [
    "FIELDS_PER_REQUEST",
    "SPANS_PER_REQUEST",
    "OtlpError",
    "decode_request",
    "decode_request_json",
    "decode_response",
    "encode_error",
    "encode_request",
    "encode_request_json",
    "encode_response",
]

SPANS_PER_REQUEST: Final = 100_000
"""An empty span has two bytes on the wire and a thousand in memory; exporters send at most some thousands."""

FIELDS_PER_REQUEST: Final = 4 * SPANS_PER_REQUEST
"""Fields above the spans and spans themselves, counted before parsing: parsed, each takes some 200 bytes."""

_SPANS_AT: Final = (1, 2)
"""Field numbers on the way from the request to its spans: resource_spans, scope_spans."""
_SPANS_IN: Final = ("resourceSpans", "scopeSpans", "spans")
_IDS: Final = ("traceId", "spanId", "parentSpanId")


def encode_request(spans: Iterable[Span]) -> bytes:
    """An ExportTraceServiceRequest; neighbours of one resource and scope share them, and the order is kept.

    The requests of two lists, one behind the other, are the request of both (protobuf merges repeated fields).
    Raises OtlpError for a span with an id that is not hex or a number that does not fit its field.
    """
    return _request(spans).SerializeToString()


def decode_request(body: bytes) -> list[Span]:
    """The spans of an ExportTraceServiceRequest. Raises OtlpError."""
    if has_more_fields(body, _SPANS_AT, FIELDS_PER_REQUEST):
        raise OtlpError(f"request has more than {SPANS_PER_REQUEST} spans")
    return _spans(parsed(ExportTraceServiceRequest(), body))


def encode_request_json(spans: Iterable[Span]) -> bytes:
    """The same request as OTLP/JSON. Raises OtlpError."""
    return as_json_body(_request(spans), _SPANS_IN, _IDS)


def decode_request_json(body: bytes) -> list[Span]:
    """The spans of an OTLP/JSON request; unknown fields are ignored. Raises OtlpError."""
    return _spans(parsed_json(ExportTraceServiceRequest(), body, _SPANS_IN, _IDS))


def encode_response(rejected: int, message: str, *, as_json: bool) -> bytes:
    """The answer to a request: how many spans were refused for good, and why; empty when there is nothing to say."""
    response = ExportTraceServiceResponse()
    if rejected or message:
        response.partial_success.CopyFrom(ExportTracePartialSuccess(rejected_spans=rejected, error_message=message))
    return orjson.dumps(to_tree(response)) if as_json else response.SerializeToString()


def decode_response(body: bytes, *, as_json: bool) -> tuple[int, str]:
    """(rejected, message) of an answer. Raises OtlpError."""
    response = ExportTraceServiceResponse()
    response = from_tree(response, json_object(body)) if as_json else parsed(response, body)
    partial = response.partial_success
    return partial.rejected_spans, partial.error_message


# Span to message, message to span.


def _request(spans: Iterable[Span]) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    try:
        for _, together in groupby(spans, key=lambda span: (repr(span.resource), span.scope_name, span.scope_version)):
            scope_spans = None
            for span in together:
                if scope_spans is None:
                    resource_spans = request.resource_spans.add()
                    put_all(resource_spans.resource, span.resource)
                    scope_spans = resource_spans.scope_spans.add()
                    scope_spans.scope.name = utf8(span.scope_name)
                    scope_spans.scope.version = utf8(span.scope_version)
                _put_span(scope_spans.spans.add(), span)
    except ValueError as error:
        raise OtlpError(f"span cannot be encoded: {error}") from None
    return request


def _put_span(message: pb.Span, span: Span) -> None:
    message.trace_id = id_bytes("trace_id", span.trace_id, 16)
    message.span_id = id_bytes("span_id", span.span_id, 8)
    if span.parent_span_id is not None:
        message.parent_span_id = id_bytes("parent_span_id", span.parent_span_id, 8)
    message.name = utf8(span.name)
    message.kind = pb.Span.SpanKind.ValueType(span.kind)
    message.start_time_unix_nano = span.start_ns
    message.end_time_unix_nano = span.end_ns
    put_all(message, span.attributes)
    for event in span.events:
        moment = message.events.add()
        moment.name = utf8(event.name)
        moment.time_unix_nano = event.time_ns
        put_all(moment, event.attributes)
    message.status.code = pb.Status.StatusCode.ValueType(span.status_code)
    message.status.message = utf8(span.status_message)


def _spans(request: ExportTraceServiceRequest) -> list[Span]:
    spans: list[Span] = []
    for resource_spans in request.resource_spans:
        resource = attributes_of(resource_spans.resource.attributes)
        for scope_spans in resource_spans.scope_spans:
            if len(spans) + len(scope_spans.spans) > SPANS_PER_REQUEST:
                raise OtlpError(f"request has more than {SPANS_PER_REQUEST} spans")
            spans += [_span_of(message, resource, scope_spans.scope) for message in scope_spans.spans]
    return spans


def _span_of(message: pb.Span, resource: Attributes, scope: InstrumentationScope) -> Span:
    return Span(
        trace_id=message.trace_id.hex(),
        span_id=message.span_id.hex(),
        parent_span_id=message.parent_span_id.hex() or None,
        name=message.name,
        kind=message.kind,
        start_ns=message.start_time_unix_nano,
        end_ns=message.end_time_unix_nano,
        attributes=attributes_of(message.attributes),
        events=tuple(SpanEvent(e.name, e.time_unix_nano, attributes_of(e.attributes)) for e in message.events),
        status_code=message.status.code,
        status_message=message.status.message,
        resource=resource,
        scope_name=scope.name,
        scope_version=scope.version,
    )
