"""Spans as OTLP requests and the answers to them, in protobuf and in JSON, both directions.

JSON is the OTLP mapping, not protobuf's own: trace and span ids are hex, enums are numbers; 64-bit integers are
strings, and numbers are accepted. What `Span` has no place for (links, trace state, map-valued attributes) is
left out when reading. The caller limits the size of a body before it comes here.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, islice
from typing import Any, Final, TypeVar

import orjson
from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1 import trace_pb2 as pb

from otel.attributes import Attributes, AttributeValue, Scalar, shown
from otel.span import Span, SpanEvent

SPANS_PER_REQUEST: Final = 100_000
"""An empty span has two bytes on the wire and a thousand in memory; exporters send at most some thousands."""

FIELDS_PER_REQUEST: Final = 4 * SPANS_PER_REQUEST
"""Fields above the spans and spans themselves, counted before parsing: parsed, each takes some 200 bytes."""
OBJECTS_PER_REQUEST: Final = 2_000_000
"""JSON objects of a request, counted before parsing: a body of the largest size in real life has half of them."""

_MESSAGE_CHARS: Final = 200
_SPANS_AT: Final = (1, 2)
"""Field numbers on the way from the request to its spans: resource_spans, scope_spans."""
_IDS: Final = ("traceId", "spanId", "parentSpanId")
_INVALID: Final = ("resource_spans", "scope_spans", "trace_id", "span_id", "parent_span_id")
"""Protobuf's JSON knows fields by these names too, OTLP's does not; they would go past the conversion of ids."""
_HEX_DIGITS: Final = frozenset("0123456789abcdefABCDEF")
_Message = TypeVar("_Message", bound=Message)


class OtlpError(ValueError):
    """The body is no OTLP request or answer, or the span does not fit into one; the message says the rule."""


def encode_request(spans: Iterable[Span]) -> bytes:
    """An ExportTraceServiceRequest; neighbours of one resource and scope share them, and the order is kept.

    The requests of two lists, one behind the other, are the request of both (protobuf merges repeated fields).
    Raises OtlpError for a span with an id that is not hex or a number that does not fit its field.
    """
    return _request(spans).SerializeToString()


def decode_request(body: bytes) -> list[Span]:
    """The spans of an ExportTraceServiceRequest. Raises OtlpError."""
    if sum(1 for _ in islice(_fields(body, 0, len(body)), FIELDS_PER_REQUEST + 1)) > FIELDS_PER_REQUEST:
        raise OtlpError(f"request has more than {SPANS_PER_REQUEST} spans")
    return _spans(_parsed(ExportTraceServiceRequest(), body))


def encode_request_json(spans: Iterable[Span]) -> bytes:
    """The same request as OTLP/JSON. Raises OtlpError."""
    tree = _to_tree(_request(spans))
    _convert_ids(tree, _hex_of_base64)
    return orjson.dumps(tree)


def decode_request_json(body: bytes) -> list[Span]:
    """The spans of an OTLP/JSON request; unknown fields are ignored. Raises OtlpError."""
    if body.count(b"{") > OBJECTS_PER_REQUEST:
        raise OtlpError(f"request has more than {OBJECTS_PER_REQUEST} JSON objects")
    tree = _json(body)
    _convert_ids(tree, _base64_of_hex)
    return _spans(_from_tree(ExportTraceServiceRequest(), tree))


def encode_response(rejected: int, message: str, *, as_json: bool) -> bytes:
    """The answer to a request: how many spans were refused for good, and why; empty when there is nothing to say."""
    response = ExportTraceServiceResponse()
    if rejected or message:
        response.partial_success.CopyFrom(ExportTracePartialSuccess(rejected_spans=rejected, error_message=message))
    return orjson.dumps(_to_tree(response)) if as_json else response.SerializeToString()


def decode_response(body: bytes, *, as_json: bool) -> tuple[int, str]:
    """(rejected, message) of an answer. Raises OtlpError."""
    response = ExportTraceServiceResponse()
    response = _from_tree(response, _json(body)) if as_json else _parsed(response, body)
    partial = response.partial_success
    return partial.rejected_spans, partial.error_message


def encode_error(message: str, *, as_json: bool) -> bytes:
    """The body of an answer that is not 2xx: a google.rpc.Status."""
    if as_json:
        return orjson.dumps({"message": message})
    return pb.Status(message=message).SerializeToString()  # the same field number as in google.rpc.Status


# Span to message, message to span.


def _request(spans: Iterable[Span]) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    try:
        for _, together in groupby(spans, key=lambda span: (repr(span.resource), span.scope_name, span.scope_version)):
            scope_spans = None
            for span in together:
                if scope_spans is None:
                    resource_spans = request.resource_spans.add()
                    _put_all(resource_spans.resource, span.resource)
                    scope_spans = resource_spans.scope_spans.add()
                    scope_spans.scope.name = _utf8(span.scope_name)
                    scope_spans.scope.version = _utf8(span.scope_version)
                _put_span(scope_spans.spans.add(), span)
    except ValueError as error:
        raise OtlpError(f"span cannot be encoded: {error}") from None
    return request


def _put_span(message: pb.Span, span: Span) -> None:
    message.trace_id = _bytes_of("trace_id", span.trace_id, 16)
    message.span_id = _bytes_of("span_id", span.span_id, 8)
    if span.parent_span_id is not None:
        message.parent_span_id = _bytes_of("parent_span_id", span.parent_span_id, 8)
    message.name = _utf8(span.name)
    message.kind = pb.Span.SpanKind.ValueType(span.kind)
    message.start_time_unix_nano = span.start_ns
    message.end_time_unix_nano = span.end_ns
    _put_all(message, span.attributes)
    for event in span.events:
        moment = message.events.add()
        moment.name = _utf8(event.name)
        moment.time_unix_nano = event.time_ns
        _put_all(moment, event.attributes)
    message.status.code = pb.Status.StatusCode.ValueType(span.status_code)
    message.status.message = _utf8(span.status_message)


def _spans(request: ExportTraceServiceRequest) -> list[Span]:
    spans: list[Span] = []
    for resource_spans in request.resource_spans:
        resource = _attributes(resource_spans.resource.attributes)
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
        attributes=_attributes(message.attributes),
        events=tuple(SpanEvent(e.name, e.time_unix_nano, _attributes(e.attributes)) for e in message.events),
        status_code=message.status.code,
        status_message=message.status.message,
        resource=resource,
        scope_name=scope.name,
        scope_version=scope.version,
    )


def _put_all(holder: pb.Span | pb.Span.Event | Resource, attributes: Attributes) -> None:
    for key, value in attributes.items():  # setting fields costs a third of building messages from arguments
        pair = holder.attributes.add()
        pair.key = _utf8(key)
        _put(pair.value, value)


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, AttributeValue]:
    return {pair.key: value for pair in pairs if (value := _value_of(pair.value)) is not None}


def _put(target: AnyValue, value: AttributeValue) -> None:
    match value:
        case str():
            target.string_value = _utf8(value)
        case bool():  # before int, which it is too
            target.bool_value = value
        case int():
            target.int_value = value
        case float():
            target.double_value = value
        case bytes():
            target.bytes_value = value
        case tuple():
            target.array_value.SetInParent()
            for item in value:
                _put(target.array_value.values.add(), item)


def _value_of(value: AnyValue) -> AttributeValue | None:
    """None for what a Span has no type for: no value, a map, a list in a list."""
    match value.WhichOneof("value"):
        case "array_value":
            items = tuple(map(_scalar_of, value.array_value.values))
            known = tuple(item for item in items if item is not None)
            return known if len(known) == len(items) else None
        case _:
            return _scalar_of(value)


def _scalar_of(value: AnyValue) -> Scalar | None:
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case "int_value":
            return value.int_value
        case "double_value":
            return value.double_value
        case "bytes_value":
            return value.bytes_value
        case _:
            return None


def _utf8(text: str) -> str:
    """The text, with what UTF-8 cannot carry (lone surrogates from undecodable paths) as escapes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _bytes_of(name: str, digits: str, size: int) -> bytes:
    value = bytes.fromhex(digits)
    if len(digits) != 2 * size or len(value) != size:
        raise ValueError(f"{name} {shown(digits)} does not have {2 * size} hex digits")
    return value


# Bytes to message, JSON to message, and back.


def _parsed(message: _Message, body: bytes) -> _Message:
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise OtlpError(f"body of {len(body)} bytes is not a protobuf {message.DESCRIPTOR.name}: {error}") from None
    return message


def _fields(body: bytes, at: int, end: int, level: int = 0) -> Iterator[int]:
    """Where each field begins, of the messages from the request down to the spans but not inside these.

    What breaks the rules of the format ends the walk; the parser says so later.
    """
    while at < end:
        yield at
        tag, at = _varint(body, at, end)
        match tag & 7:
            case 0:
                _, at = _varint(body, at, end)
            case 1:
                at += 8
            case 5:
                at += 4
            case 2:
                size, at = _varint(body, at, end)
                if size > end - at:
                    return
                if level < len(_SPANS_AT) and tag >> 3 == _SPANS_AT[level]:
                    yield from _fields(body, at, at + size, level + 1)
                at += size
            case _:
                return


def _varint(body: bytes, at: int, end: int) -> tuple[int, int]:
    """The number there and where the next begins; past the end when it is cut off."""
    value = shift = 0
    while at < end and shift < 70:
        byte = body[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    return 0, end


def _json(body: bytes) -> dict[str, Any]:
    try:
        tree = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise OtlpError(f"body of {len(body)} bytes is not JSON: {error}") from None
    if not isinstance(tree, dict):
        raise OtlpError(f"body is a JSON {type(tree).__name__}, not an object")
    return tree


def _to_tree(message: Message) -> dict[str, Any]:
    return json_format.MessageToDict(message, use_integers_for_enums=True)


def _from_tree(message: _Message, tree: dict[str, Any]) -> _Message:
    try:
        return json_format.ParseDict(tree, message, ignore_unknown_fields=True)
    except json_format.ParseError as error:
        raise OtlpError(
            f"JSON is not an {message.DESCRIPTOR.name}: {shown(str(error), chars=_MESSAGE_CHARS)}"
        ) from None


def _convert_ids(tree: dict[str, Any], convert: Callable[[str], str]) -> None:
    """Rewrite the ids of spans and links in place: protobuf's JSON has bytes in base64, OTLP's has ids in hex."""
    for resource_spans in _members(tree, "resourceSpans"):
        for scope_spans in _members(resource_spans, "scopeSpans"):
            for span in _members(scope_spans, "spans"):
                for holder in (*_members(span, "links"), span):
                    for name in _IDS:
                        if name in holder:
                            holder[name] = convert(holder[name])


def _members(holder: dict[str, Any], name: str) -> list[dict[str, Any]]:
    members = holder.get(name) or []
    if not isinstance(members, list) or not all(isinstance(member, dict) for member in members):
        raise OtlpError(f"{name} is not a list of objects")
    for cleaned in (holder, *members):
        for invalid in _INVALID:
            cleaned.pop(invalid, None)
    return members


def _base64_of_hex(digits: object) -> str:
    if not isinstance(digits, str) or len(digits) % 2 or not _HEX_DIGITS.issuperset(digits):
        raise OtlpError(f"id {shown(digits)} is not a string of hex digits")
    return base64.b64encode(bytes.fromhex(digits)).decode("ascii")


def _hex_of_base64(text: str) -> str:
    return base64.b64decode(text).hex()
