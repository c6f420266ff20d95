"""What all signals of OTLP share: fields counted before parsing, ids in hex. The rest is seen through both signals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from otel.otlp_values import (
    OtlpError,
    attributes_of,
    encode_error,
    fields,
    has_more_fields,
    id_bytes,
    json_object,
    put_all,
    utf8,
)
from tests.otel.test_otlp import ATTRIBUTES


@given(ATTRIBUTES)
def test_attributes_are_read_as_they_were_put(attributes):
    resource = Resource()
    put_all(resource, attributes)
    assert attributes_of(resource.attributes) == attributes


def test_what_has_no_type_here_is_left_out():
    maps = KeyValue(key="map")
    maps.value.kvlist_value.SetInParent()
    nested = KeyValue(key="lists")
    nested.value.array_value.values.add().array_value.SetInParent()
    assert attributes_of([KeyValue(key="nothing"), maps, nested]) == {}


@given(st.binary(max_size=80), st.lists(st.integers(1, 3), max_size=3), st.integers(0, 50))
def test_fields_are_counted_to_an_end_whatever_the_body(body, path, limit):
    count = len(list(fields(body, path)))
    assert count <= len(body)
    assert has_more_fields(body, path, limit) is (count > limit)


@given(st.binary(min_size=8, max_size=8))
def test_an_id_has_its_digits(value):
    assert id_bytes("span_id", value.hex(), 8) == value


def test_lone_surrogates_become_escapes():
    assert utf8("a\udcffb") == "a\\udcffb"


@pytest.mark.parametrize(("body", "rule"), [(b"[1]", "a JSON list, not an object"), (b"{", "is not JSON")])
def test_a_body_is_one_object(body, rule):
    with pytest.raises(OtlpError, match=rule):
        json_object(body)


def test_an_error_is_a_status_in_both_forms():
    assert encode_error("no", as_json=True) == b'{"message":"no"}'
    assert encode_error("no", as_json=False) == b"\x12\x02no"
