"""Log records as OTLP requests and the answers to them, in protobuf and in JSON, both directions.

A record is encoded by itself, so that a sender knows its size and may send it again; `request_of` puts the resource
and the scope around a batch. The text of a foreign record (its body) is never read. The caller limits the size of a
body before it comes here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

import orjson
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.logs.v1 import logs_pb2 as pb
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from otel.attributes import Attributes
from otel.otlp_values import (
    OtlpError,
    as_json_body,
    attributes_of,
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

RECORDS_PER_REQUEST: Final = 100_000
"""As for spans: an empty record has two bytes on the wire and a thousand in memory."""
FIELDS_PER_REQUEST: Final = 4 * RECORDS_PER_REQUEST
"""Fields above the records and records themselves, counted before parsing."""

_RECORDS_AT: Final = (1, 2)
"""Field numbers on the way from the request to its records: resource_logs, scope_logs."""
_RECORDS_IN: Final = ("resourceLogs", "scopeLogs", "logRecords")
_IDS: Final = ("traceId", "spanId")
_RECORD_TAG: Final = b"\x12"
"""Field 2 of ScopeLogs, with a length: one log record."""
_SCOPE_LOGS_TAG: Final = b"\x12"
"""Field 2 of ResourceLogs."""
_RESOURCE_LOGS_TAG: Final = b"\x0a"
"""Field 1 of the request."""


class Severity(IntEnum):
    """The severities that we give, by OTLP's numbers."""

    INFO = 9
    WARN = 13


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """One event as OTLP has it, without a text. trace_id and span_id are lower-case hex digits, or empty for none."""

    event_name: str
    at_ns: int
    trace_id: str = ""
    span_id: str = ""
    severity: int = Severity.INFO
    attributes: Attributes = field(default_factory=dict)


def encode_record(record: LogRecord) -> bytes:
    """A record as `request_of` takes it. Raises OtlpError for an id or a number that does not fit its field."""
    body = _message(record).SerializeToString()
    return _RECORD_TAG + _varint(len(body)) + body


def request_of(records: Iterable[bytes], *, resource: Attributes, scope_name: str, scope_version: str = "") -> bytes:
    """An ExportLogsServiceRequest of encoded records."""
    about, scope = _about(resource, scope_name, scope_version)
    inner = scope.SerializeToString() + b"".join(records)
    outer = about.SerializeToString() + _SCOPE_LOGS_TAG + _varint(len(inner)) + inner
    return _RESOURCE_LOGS_TAG + _varint(len(outer)) + outer


def decode_logs(body: bytes) -> list[LogRecord]:
    """The records of an ExportLogsServiceRequest. Raises OtlpError."""
    if has_more_fields(body, _RECORDS_AT, FIELDS_PER_REQUEST):
        raise OtlpError(f"request has more than {RECORDS_PER_REQUEST} log records")
    return _records(parsed(ExportLogsServiceRequest(), body))


def encode_logs_json(
    records: Iterable[LogRecord], *, resource: Attributes, scope_name: str, scope_version: str = ""
) -> bytes:
    """The same request as OTLP/JSON. Raises OtlpError."""
    about, scope = _about(resource, scope_name, scope_version)
    scope.log_records.extend(map(_message, records))
    about.scope_logs.append(scope)
    return as_json_body(ExportLogsServiceRequest(resource_logs=[about]), _RECORDS_IN, _IDS)


def decode_logs_json(body: bytes) -> list[LogRecord]:
    """The records of an OTLP/JSON request; unknown fields are ignored. Raises OtlpError."""
    return _records(parsed_json(ExportLogsServiceRequest(), body, _RECORDS_IN, _IDS))


def encode_logs_response(rejected: int, message: str, *, as_json: bool) -> bytes:
    """The answer to a request: how many records were refused for good, and why; empty when there is nothing to say."""
    response = ExportLogsServiceResponse()
    if rejected or message:
        partial = ExportLogsPartialSuccess(rejected_log_records=rejected, error_message=message)
        response.partial_success.CopyFrom(partial)
    return orjson.dumps(to_tree(response)) if as_json else response.SerializeToString()


def decode_logs_response(body: bytes, *, as_json: bool) -> tuple[int, str]:
    """(rejected, message) of an answer. Raises OtlpError."""
    response = ExportLogsServiceResponse()
    response = from_tree(response, json_object(body)) if as_json else parsed(response, body)
    partial = response.partial_success
    return partial.rejected_log_records, partial.error_message


def _message(record: LogRecord) -> pb.LogRecord:
    message = pb.LogRecord()
    try:
        message.event_name = utf8(record.event_name)
        message.time_unix_nano = message.observed_time_unix_nano = record.at_ns
        message.severity_number = pb.SeverityNumber.ValueType(record.severity)
        if record.trace_id:
            message.trace_id = id_bytes("trace_id", record.trace_id, 16)
        if record.span_id:
            message.span_id = id_bytes("span_id", record.span_id, 8)
        put_all(message, record.attributes)
    except ValueError as error:
        raise OtlpError(f"log record cannot be encoded: {error}") from None
    return message


def _about(resource: Attributes, scope_name: str, scope_version: str) -> tuple[pb.ResourceLogs, pb.ScopeLogs]:
    about = pb.ResourceLogs(resource=Resource())
    put_all(about.resource, resource)
    scope = InstrumentationScope(name=utf8(scope_name), version=utf8(scope_version))
    return about, pb.ScopeLogs(scope=scope)


def _records(request: ExportLogsServiceRequest) -> list[LogRecord]:
    found: list[LogRecord] = []
    for resource_logs in request.resource_logs:
        for scope_logs in resource_logs.scope_logs:
            _add(found, scope_logs.log_records)
    return found


def _add(found: list[LogRecord], messages: Sequence[pb.LogRecord]) -> None:
    if len(found) + len(messages) > RECORDS_PER_REQUEST:
        raise OtlpError(f"request has more than {RECORDS_PER_REQUEST} log records")
    found += [
        LogRecord(
            event_name=message.event_name,
            at_ns=message.time_unix_nano,
            trace_id=message.trace_id.hex(),
            span_id=message.span_id.hex(),
            severity=message.severity_number,
            attributes=attributes_of(message.attributes),
        )
        for message in messages
    ]


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
