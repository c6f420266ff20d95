"""Log records in protobuf and JSON: what is sent is read, by us and by others, and what is broken is refused."""

from __future__ import annotations

import json
from contextlib import suppress

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from otel import otlp_logs as module
from otel.otlp_logs import (
    LogRecord,
    decode_logs,
    decode_logs_json,
    decode_logs_response,
    encode_logs_json,
    encode_logs_response,
    encode_record,
    request_of,
)
from otel.otlp_values import OtlpError
from tests.otel.test_otlp import ATTRIBUTES, TEXTS, TIMES, TREES
from tests.support.builders import hex_ids

RECORDS = st.builds(
    LogRecord,
    event_name=TEXTS,
    at_ns=TIMES,
    trace_id=st.just("") | hex_ids(32),
    span_id=st.just("") | hex_ids(16),
    severity=st.integers(0, 24),
    attributes=ATTRIBUTES,
)
RECORD = LogRecord(
    event_name="gapline.stream.stalled", at_ns=5, trace_id="ab" * 16, span_id="cd" * 8, attributes={"n": 1}
)


def a_request(records, **resource) -> bytes:
    return request_of(map(encode_record, records), resource=resource, scope_name="gapline", scope_version="1")


@given(st.lists(RECORDS, max_size=4), ATTRIBUTES)
def test_records_are_read_as_they_were_written(records, resource):
    body = request_of(map(encode_record, records), resource=resource, scope_name="gapline")
    assert decode_logs(body) == records
    assert decode_logs_json(encode_logs_json(records, resource=resource, scope_name="gapline")) == records


@given(st.lists(RECORDS, max_size=4))
def test_a_request_put_together_by_hand_is_the_one_that_protobuf_writes(records):
    message = ExportLogsServiceRequest()
    message.ParseFromString(a_request(records, **{"service.name": "gateway"}))
    assert message.SerializeToString() == a_request(records, **{"service.name": "gateway"})
    (about,) = message.resource_logs
    assert about.resource.attributes[0].value.string_value == "gateway"
    assert (about.scope_logs[0].scope.name, about.scope_logs[0].scope.version) == ("gapline", "1")


@given(st.lists(st.lists(RECORDS, max_size=3), max_size=3))
def test_requests_one_behind_the_other_are_one(batches):
    assert decode_logs(b"".join(map(a_request, batches))) == [record for batch in batches for record in batch]


def test_a_large_record_has_its_length_in_several_bytes():
    record = LogRecord(event_name="x", at_ns=1, attributes={"long": "y" * 70_000})
    assert decode_logs(a_request([record, RECORD])) == [record, RECORD]


def test_json_is_that_of_otlp():
    tree = orjson.loads(encode_logs_json([RECORD], resource={"service.name": "gateway"}, scope_name="gapline"))
    (record,) = tree["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    assert record == {
        "timeUnixNano": "5",
        "observedTimeUnixNano": "5",
        "severityNumber": 9,
        "traceId": "ab" * 16,
        "spanId": "cd" * 8,
        "eventName": "gapline.stream.stalled",
        "attributes": [{"key": "n", "value": {"intValue": "1"}}],
    }


def test_the_text_of_a_foreign_record_is_not_read():
    body = b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"secret"},"eventName":"e"}]}]}]}'
    assert "secret" not in repr(decode_logs_json(body))
    assert decode_logs_json(body) == [LogRecord(event_name="e", at_ns=0, severity=0)]


@given(st.binary(max_size=200))
def test_no_body_does_more_than_be_refused(body):
    for decode in (decode_logs, decode_logs_json):
        with suppress(OtlpError):
            assert all(isinstance(record, LogRecord) for record in decode(body))


@given(TREES)
def test_no_json_does_more_than_be_refused(tree):
    body = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [tree]}]}]}).encode()
    with suppress(OtlpError):
        assert len(decode_logs_json(body)) == 1


def test_too_many_records_are_refused_before_they_are_parsed(monkeypatch):
    monkeypatch.setattr(module, "FIELDS_PER_REQUEST", 40)
    assert len(decode_logs(a_request([LogRecord(event_name="", at_ns=0)] * 30))) == 30
    monkeypatch.setattr(module, "parsed", None)
    with pytest.raises(OtlpError, match="log records"):
        decode_logs(a_request([LogRecord(event_name="", at_ns=0)] * 41))


def test_json_with_too_many_is_refused(monkeypatch):
    monkeypatch.setattr(module, "RECORDS_PER_REQUEST", 2)
    with pytest.raises(OtlpError, match="more than 2 log records"):
        decode_logs_json(encode_logs_json([RECORD] * 3, resource={}, scope_name="x"))


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"trace_id": "ab"}, "trace_id 'ab' does not have 32 hex digits"),
        ({"span_id": "zz" * 8}, "hexadecimal"),
        ({"at_ns": -1}, "range"),
        ({"attributes": {"n": 1 << 63}}, "range"),
    ],
)
def test_what_does_not_fit_is_refused(change, rule):
    with pytest.raises(OtlpError, match=rule):
        encode_record(LogRecord(**{"event_name": "e", "at_ns": 1} | change))


@pytest.mark.parametrize("as_json", [False, True])
@given(rejected=st.integers(0, 1 << 40), message=TEXTS)
def test_answers_are_read_as_they_were_written(as_json, rejected, message):
    body = encode_logs_response(rejected, message, as_json=as_json)
    assert decode_logs_response(body, as_json=as_json) == (rejected, message)
    assert body if rejected or message or as_json else not body
