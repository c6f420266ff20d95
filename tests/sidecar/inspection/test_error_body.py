"""The body of a refusal says its type, its code and its masked words, whoever wrote it, and costs little."""

import gzip
import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.hop import EventClass
from sidecar.inspection.error_body import LIMIT_BYTES, error_body_for

JSON = "application/json; charset=utf-8"


def read(data, *, content_type=JSON, status=400, coding=None):
    body = error_body_for(status, content_type, coding)
    body.feed(data if isinstance(data, bytes) else json.dumps(data).encode())
    return body.reading()


@pytest.mark.parametrize(
    ("said", "error_type", "error_code", "detail"),
    [
        (
            {"error": {"type": "invalid_request_error", "code": "context_length_exceeded", "message": "too long"}},
            "invalid_request_error",
            "context_length_exceeded",
            "too long",
        ),
        ({"type": "error", "error": {"type": "overloaded_error"}}, "overloaded_error", None, None),
        ([{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}], "RESOURCE_EXHAUSTED", "429", None),
        ({"error": "model not found"}, None, None, "model not found"),
        (
            {"object": "error", "type": "NotFoundError", "message": "no model", "code": 404},
            "NotFoundError",
            "404",
            None,
        ),
        ({"detail": [{"loc": ["body"], "msg": "field required", "type": "missing"}]}, None, None, "field required"),
        ({"errors": [{"code": "invalid_request", "message": "bad token"}]}, "invalid_request", None, "bad token"),
        ({"errors": [{"description": "no key"}]}, None, None, "no key"),
        ({"__type": "com.amazon#ThrottlingException", "message": "slow"}, "ThrottlingException", None, None),
        ({"message": "invalid api key"}, None, None, "invalid api key"),
    ],
)
def test_a_refusal_is_read_whoever_wrote_it(said, error_type, error_code, detail):
    reading = read(said)

    assert (reading.error_type, reading.error_detail) == (error_type, detail or reading.error_detail)
    assert error_code is None or reading.error_code == error_code


def test_plain_text_is_what_it_says():
    reading = read(b"upstream connect error: connection refused\n", content_type="text/plain", status=503)

    assert reading.error_detail == "upstream connect error: connection refused"
    assert read(b" \n", content_type="text/plain") is None


@pytest.mark.parametrize(
    ("status", "content_type", "coding"),
    [
        (200, JSON, None),
        (399, JSON, None),
        (None, JSON, None),
        (502, "text/html", None),
        (502, None, None),
        (502, "text/event-stream", None),
        (502, JSON, "br"),
    ],
)
def test_of_other_bodies_nothing_is_kept(status, content_type, coding):
    assert error_body_for(status, content_type, coding) is None


def test_a_packed_body_is_unpacked_and_a_broken_one_says_nothing():
    whole = gzip.compress(b'{"error": {"type": "x"}}')

    assert read(whole, coding="gzip").error_type == "x"
    assert read(b"no gzip", coding="gzip") is None
    assert error_body_for(400, "application/problem+json", "identity") is not None


def test_a_body_that_broke_off_or_is_too_long_says_what_stands_at_its_top():
    long = b'{"type": "x", "prompt": "' + b"a" * LIMIT_BYTES
    body = error_body_for(413, JSON, None)
    for _ in range(9):
        body.feed(long)

    assert body.reading().error_type == "x"
    assert read(b'{"error_type": "y", "error": {"mess').error_type == "y"
    assert read(b"") is None
    assert read(b'"text"') is None
    assert read({"ok": True}) is None


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=4))
def test_no_cut_matters(data, cuts):
    whole, cut = (error_body_for(500, JSON, None) for _ in range(2))
    whole.feed(data)
    for start, end in pairwise([0, *sorted(min(place, len(data)) for place in cuts), len(data)]):
        cut.feed(data[start:end])

    assert whole.reading() == cut.reading()


@given(st.binary(max_size=300), st.sampled_from([JSON, "text/plain"]), st.sampled_from(["gzip", "deflate", None]))
def test_no_body_raises(data, content_type, coding):
    reading = read(data, content_type=content_type, coding=coding)

    assert reading is None or reading.event_class is EventClass.ERROR


def test_a_text_of_which_no_word_is_known_stays_for_who_asked_for_all_of_it():
    reading = read('{"error": {"message": "模型不存在"}}'.encode(), status=404)

    assert (reading.error_detail, reading.error_text) == (None, "模型不存在")
