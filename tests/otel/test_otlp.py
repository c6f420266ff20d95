"""OTLP in protobuf and JSON: what is sent is read, by us and by others, and what is broken is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import orjson
import pytest
from google.rpc import status_pb2
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel import otlp, otlp_values
from otel.otlp import (
    OtlpError,
    decode_request,
    decode_request_json,
    decode_response,
    encode_error,
    encode_request,
    encode_request_json,
    encode_response,
)
from otel.span import Span, SpanError, SpanEvent, hop_to_span, span_to_hop
from tests.support.builders import a_hop, a_timeline, hex_ids, hops

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = st.one_of(
    TEXTS,
    st.booleans(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(allow_nan=False),
    st.binary(max_size=8),
)
ATTRIBUTES = st.dictionaries(TEXTS, SCALARS | st.lists(SCALARS, max_size=3).map(tuple), max_size=5)
TIMES = st.integers(0, (1 << 64) - 1)
SPANS = st.builds(
    Span,
    trace_id=hex_ids(32),
    span_id=hex_ids(16),
    parent_span_id=st.none() | hex_ids(16),
    name=TEXTS,
    kind=st.integers(0, 5),
    start_ns=TIMES,
    end_ns=TIMES,
    attributes=ATTRIBUTES,
    events=st.lists(st.builds(SpanEvent, TEXTS, TIMES, ATTRIBUTES), max_size=2).map(tuple),
    status_code=st.integers(0, 2),
    status_message=TEXTS,
    resource=ATTRIBUTES,
    scope_name=TEXTS,
    scope_version=TEXTS,
)
FIELDS = ["resourceSpans", "scopeSpans", "spans", "resource", "scope", "attributes", "key", "value", "stringValue"]
FIELDS += ["intValue", "arrayValue", "values", "kvlistValue", "traceId", "events", "links", "status", "code", "kind"]
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3),
    max_leaves=12,
)
A_SPAN = hop_to_span(a_hop())

CODECS = {"protobuf": (encode_request, decode_request), "json": (encode_request_json, decode_request_json)}


@pytest.fixture(params=sorted(CODECS))
def codec(request):
    return CODECS[request.param]


@pytest.mark.parametrize(("encode", "decode"), CODECS.values(), ids=CODECS)
@given(spans=st.lists(SPANS, max_size=4))
def test_spans_are_read_as_they_were_written_in_their_order(encode, decode, spans):
    assert decode(encode(spans)) == spans


@pytest.mark.parametrize(("encode", "decode"), CODECS.values(), ids=CODECS)
@given(sent=st.lists(hops(), max_size=3))
def test_hops_cross_the_network_unchanged(encode, decode, sent):
    assert [span_to_hop(span) for span in decode(encode(map(hop_to_span, sent)))] == sent


@given(st.lists(SPANS, max_size=3), st.lists(SPANS, max_size=3))
def test_two_requests_one_behind_the_other_are_one_request(first, second):
    assert decode_request(encode_request(first) + encode_request(second)) == first + second


def test_neighbours_of_one_resource_and_scope_share_them():
    other = replace(A_SPAN, resource={"service.name": "other"})
    request = ExportTraceServiceRequest.FromString(encode_request([A_SPAN, A_SPAN, other]))
    assert [len(group.scope_spans[0].spans) for group in request.resource_spans] == [2, 1]


def test_resources_that_only_python_calls_equal_are_not_shared():
    spans = [replace(A_SPAN, resource={"flag": value}) for value in (1, True, 1.0)]
    assert [type(span.resource["flag"]) for span in decode_request(encode_request(spans))] == [int, bool, float]


class TestWhatBackendsDo:
    LONG = a_hop(timeline=a_timeline([0.3 + 0.021 * i for i in range(4_000)]))

    def test_tempo_cuts_strings_at_2048_bytes_and_loses_nothing_of_ours(self):
        request = ExportTraceServiceRequest.FromString(encode_request([hop_to_span(self.LONG)]))
        for holder in _holders(request):
            for pair in holder:
                assert len(pair.key) <= 2_048
                cut = pair.value.string_value.encode()[:2_048]
                if pair.value.HasField("string_value"):
                    pair.value.string_value = cut.decode()
        (span,) = decode_request(request.SerializeToString())
        assert span_to_hop(span) == self.LONG

    def test_a_backend_that_cut_further_would_be_noticed(self):
        request = ExportTraceServiceRequest.FromString(encode_request([hop_to_span(self.LONG)]))
        for holder in _holders(request):
            for pair in holder:
                pair.value.string_value = pair.value.string_value[:1_024] if pair.value.string_value else ""
        with pytest.raises(SpanError):
            span_to_hop(decode_request(request.SerializeToString())[0])

    def test_the_largest_timeline_stays_below_a_megabyte(self):
        stalls = a_timeline([0.3 * i for i in range(80_000)], chars=50)
        size = len(encode_request([hop_to_span(a_hop(timeline=stalls))]))
        assert 500_000 < size < 1_000_000


def _holders(request):
    for resource_spans in request.resource_spans:
        yield resource_spans.resource.attributes
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                yield span.attributes
                for event in span.events:
                    yield event.attributes


class TestJson:
    def test_is_the_otlp_mapping_and_not_protobufs(self):
        tree = json.loads(encode_request_json([replace(A_SPAN, attributes={"n": 7, "b": b"\x00", "f": 1.5})]))
        span = tree["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
        assert span["traceId"] == A_SPAN.trace_id
        assert span["spanId"] == A_SPAN.span_id
        assert "parentSpanId" not in span
        assert span["kind"] == 2
        assert span["startTimeUnixNano"] == str(A_SPAN.start_ns)
        assert span["attributes"] == [
            {"key": "n", "value": {"intValue": "7"}},
            {"key": "b", "value": {"bytesValue": "AA=="}},
            {"key": "f", "value": {"doubleValue": 1.5}},
        ]

    def test_of_the_specification_is_read(self):
        """The example of opentelemetry-proto (examples/trace.json), with a link and a field that nobody knows."""
        body = """{"resourceSpans": [{"resource": {"attributes": [{"key": "service.name", "value":
            {"stringValue": "my.service"}}]}, "scopeSpans": [{"scope": {"name": "my.library", "version": "1.0.0",
            "attributes": [{"key": "my.scope.attribute", "value": {"stringValue": "some scope attribute"}}]},
            "spans": [{"traceId": "5B8EFFF798038103D269B633813FC60C", "spanId": "EEE19B7EC3C1B174",
            "parentSpanId": "EEE19B7EC3C1B173", "name": "I'm a server span",
            "startTimeUnixNano": "1544712660000000000", "endTimeUnixNano": 1544712661000000000, "kind": 2,
            "links": [{"traceId": "5B8EFFF798038103D269B633813FC60C", "spanId": "EEE19B7EC3C1B174"}],
            "somethingNew": {"a": [1]}, "attributes": [
              {"key": "my.span.attr", "value": {"stringValue": "some value"}},
              {"key": "number", "value": {"intValue": 7}}, {"key": "ratio", "value": {"doubleValue": 1}},
              {"key": "map", "value": {"kvlistValue": {"values": []}}}]}]}]}]}"""
        assert decode_request_json(body.encode()) == [
            Span(
                trace_id="5b8efff798038103d269b633813fc60c",
                span_id="eee19b7ec3c1b174",
                parent_span_id="eee19b7ec3c1b173",
                name="I'm a server span",
                kind=2,
                start_ns=1544712660000000000,
                end_ns=1544712661000000000,
                attributes={"my.span.attr": "some value", "number": 7, "ratio": 1.0},
                resource={"service.name": "my.service"},
                scope_name="my.library",
                scope_version="1.0.0",
            )
        ]

    def test_field_names_of_protobuf_are_not_read_around_the_ids(self):
        tree = json.loads(encode_request_json([A_SPAN]))
        span = tree["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
        span["trace_id"] = span.pop("traceId")
        assert decode_request_json(json.dumps(tree).encode())[0].trace_id == ""
        assert decode_request_json(json.dumps({"resource_spans": tree["resourceSpans"]}).encode()) == []

    @pytest.mark.parametrize("wrong", ["xyz", "abc", 7, None, "5B8EFFF7 8038103D269B633813FC60C"])
    def test_ids_that_are_no_hex_are_refused(self, wrong):
        tree = json.loads(encode_request_json([A_SPAN]))
        tree["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"] = wrong
        with pytest.raises(OtlpError, match="is not a string of hex digits"):
            decode_request_json(json.dumps(tree).encode())

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"[]",
            b"null",
            b'{"resourceSpans": {}}'.replace(b"{}", b"7"),
            b'{"resourceSpans": [7]}',
            b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": 7}]}]}]}',
            b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"startTimeUnixNano": "soon"}]}]}]}',
            b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"startTimeUnixNano": -1}]}]}]}',
            b'{"resourceSpans": [{"resource": [7]}]}',
            b'{"resourceSpans": [{"resource": {"attributes": [[{}]]}}]}',
            b'{"resourceSpans":' + b"[" * 2_000,
            b'{"resourceSpans": [' + b'{"resource":{"attributes":[{"value":{"arrayValue":{"values":[' * 200,
        ],
    )
    def test_that_is_no_request_is_refused(self, body):
        with pytest.raises(OtlpError):
            decode_request_json(body)

    def test_nested_beyond_reason_is_refused(self):
        value: dict[str, object] = {"stringValue": "x"}
        for _ in range(150):
            value = {"arrayValue": {"values": [value]}}
        body = {"resourceSpans": [{"resource": {"attributes": [{"key": "k", "value": value}]}}]}
        with pytest.raises(OtlpError):
            decode_request_json(json.dumps(body).encode())

    @given(TREES)
    def test_random_trees_are_read_or_refused(self, tree):
        try:
            spans = decode_request_json(orjson.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [tree]}]}]}))
        except (OtlpError, orjson.JSONEncodeError):
            return
        assert len(spans) == 1


class TestProtobuf:
    @given(st.binary(max_size=80))
    def test_random_bytes_are_read_or_refused(self, body):
        try:
            spans = decode_request(body)
        except OtlpError:
            return
        assert spans == decode_request(body)

    @given(st.lists(SPANS, min_size=1, max_size=1), st.data())
    def test_a_request_cut_short_is_refused(self, spans, data):
        body = encode_request(spans)
        cut = data.draw(st.integers(1, len(body) - 1))
        with pytest.raises(OtlpError):
            decode_request(body[:cut])

    def test_values_that_a_span_has_no_type_for_are_left_out(self):
        request = ExportTraceServiceRequest()
        span = request.resource_spans.add().scope_spans.add().spans.add()
        span.attributes.add(key="nothing")
        span.attributes.add(key="map").value.kvlist_value.SetInParent()
        nested = span.attributes.add(key="nested").value.array_value.values.add()
        nested.array_value.SetInParent()
        span.attributes.add(key="empty").value.array_value.SetInParent()
        span.attributes.add(key="kept").value.bool_value = False
        assert decode_request(request.SerializeToString())[0].attributes == {"empty": (), "kept": False}

    def test_more_spans_than_a_request_may_have_are_refused(self, monkeypatch):
        monkeypatch.setattr(otlp, "SPANS_PER_REQUEST", 3)
        assert len(decode_request(encode_request([A_SPAN] * 3))) == 3
        with pytest.raises(OtlpError, match="more than 3 spans"):
            decode_request(encode_request([A_SPAN] * 4))

    @pytest.mark.parametrize("tag", [b"\x0a", b"\x0a\x02\x12", b"\x0a\x04\x12\x02\x12", b"\x10"])
    def test_a_body_that_grows_beyond_measure_is_refused_before_it_is_parsed(self, monkeypatch, tag):
        unit = tag + b"\x00"  # an empty message on each level, and a number that nobody knows
        monkeypatch.setattr(otlp, "FIELDS_PER_REQUEST", 60)
        assert len(decode_request(unit * 20)) == (20 if len(tag) == 5 else 0)
        monkeypatch.setattr(otlp, "parsed", None)
        with pytest.raises(OtlpError, match="spans"):
            decode_request(unit * 61)

    def test_json_that_grows_beyond_measure_is_refused_before_it_is_parsed(self, monkeypatch):
        monkeypatch.setattr(otlp_values, "OBJECTS_PER_REQUEST", 10)
        with pytest.raises(OtlpError, match="more than 10 JSON objects"):
            decode_request_json(b'{"resourceSpans":[' + b"{}," * 10)

    @given(spans=st.lists(SPANS, max_size=5))
    def test_spans_are_counted_without_parsing(self, spans):
        body = encode_request(spans)
        assert len(spans) <= len(list(otlp_values.fields(body, otlp._SPANS_AT))) <= 5 * len(spans)

    @given(st.binary(max_size=60))
    def test_the_count_ends_whatever_the_body(self, body):
        assert len(list(otlp_values.fields(body, otlp._SPANS_AT))) <= len(body)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"trace_id": "ab"}, "trace_id 'ab' does not have 32 hex digits"),
        ({"span_id": "zz" * 8}, "hexadecimal"),
        ({"parent_span_id": "ab " * 8}, "does not have 16 hex digits"),
        ({"start_ns": -1}, "range"),
        ({"end_ns": 1 << 64}, "range"),
        ({"attributes": {"n": 1 << 63}}, "range"),
    ],
)
def test_a_span_that_does_not_fit_is_refused(codec, change, rule):
    encode, _ = codec
    with pytest.raises(OtlpError, match=rule):
        encode([replace(A_SPAN, **change)])


def test_text_that_utf8_cannot_carry_is_sent_escaped(codec):
    encode, decode = codec
    span = replace(A_SPAN, name="a\udc80", attributes={"k\udc81": ("v\udc82", "ß")}, resource={"r": "\udc83"})
    (sent,) = decode(encode([span]))
    assert (sent.name, sent.attributes, sent.resource) == (
        r"a\udc80",
        {r"k\udc81": (r"v\udc82", "ß")},
        {"r": r"\udc83"},
    )


def test_an_error_is_a_google_rpc_status():
    assert status_pb2.Status.FromString(encode_error("no", as_json=False)) == status_pb2.Status(message="no")
    assert json.loads(encode_error("no", as_json=True)) == {"message": "no"}


class TestResponse:
    @given(st.integers(0, (1 << 63) - 1), TEXTS, st.booleans())
    def test_is_read_as_it_was_written(self, rejected, message, as_json):
        assert decode_response(encode_response(rejected, message, as_json=as_json), as_json=as_json) == (
            rejected,
            message,
        )

    def test_is_empty_when_all_is_well(self):
        assert encode_response(0, "", as_json=False) == b""
        assert encode_response(0, "", as_json=True) == b"{}"

    def test_in_json_has_its_count_as_a_string_and_numbers_are_read_too(self):
        assert json.loads(encode_response(3, "no", as_json=True)) == {
            "partialSuccess": {"rejectedSpans": "3", "errorMessage": "no"}
        }
        assert decode_response(b'{"partialSuccess": {"rejectedSpans": 3}}', as_json=True) == (3, "")

    @pytest.mark.parametrize(("body", "as_json"), [(b"\xff", False), (b"<html>", True), (b"[]", True)])
    def test_that_is_none_is_refused(self, body, as_json):
        with pytest.raises(OtlpError):
            decode_response(body, as_json=as_json)
