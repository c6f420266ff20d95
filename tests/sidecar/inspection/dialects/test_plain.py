"""Streams of unknown APIs are opaque, but for errors and signs of life."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.hop import EventClass
from sidecar.inspection.dialects.plain import OPAQUE, PLAIN
from sidecar.inspection.events import Event, Reading, Unit


def read(data, name=b"", *, is_cut=False):
    return PLAIN.read(Event(Unit.EVENT, data, name, b"", len(data) + 8, is_cut))


@pytest.mark.parametrize(
    "data",
    [
        b'{"response":"Okay","done":false}',
        b"Sure, here's",
        b'"[DONE]"',
        b'{"model":"m","id":"1","choices":[{"delta":{"content":"text"}}]}',
        b'{"text": "an \\"error\\" in text"}',
        b'{"error": null}',
        b'{"response": {"error": {"type": "x"}}}',
        b'"error"',
        b'{"error": ',
    ],
)
def test_what_no_rule_is_known_for_is_opaque(data):
    assert read(data) == Reading(EventClass.OPAQUE)


@pytest.mark.parametrize("data", [b"", b"  "])
def test_empty_data_is_a_sign_of_life(data):
    assert read(data) == Reading(EventClass.KEEPALIVE)


@pytest.mark.parametrize(
    ("data", "name", "error_type"),
    [
        (b'{"error":"an error was encountered while running the model"}', b"", None),
        (b'{"error":"Request failed","error_type":"generation"}', b"", "generation"),
        (b'{"type":"error","error":{"type":"server_error"}}', b"", "server_error"),
        (b'{"jsonrpc":"2.0","error":{"code":-32000,"type":"x"}}', b"", "x"),
        (b"The model failed", b"error", None),
        (b"", b"error", None),
    ],
)
def test_an_error_is_seen_in_any_stream(data, name, error_type):
    reading = read(data, name)

    assert (reading.event_class, reading.error_type) == (EventClass.ERROR, error_type)


@pytest.mark.parametrize("data", [b"[DONE]", b" [DONE] "])
def test_the_mark_that_half_the_world_uses_is_an_end(data):
    assert read(data) == Reading(EventClass.TERMINAL)


def test_a_frame_tells_of_a_failure_by_its_type():
    failed = read(b'{"message":"secret"}', b"exception/ModelStreamErrorException")

    assert failed == Reading(EventClass.ERROR, error_type="ModelStreamErrorException")
    assert read(b"", b"error/InternalFailure") == Reading(EventClass.ERROR, error_type="InternalFailure")
    assert read(b"raw bytes", b"event/PayloadPart") == Reading(EventClass.OPAQUE)


def test_a_cut_event_is_not_parsed():
    assert read(b'{"error": {"type": "x"}}', is_cut=True) == Reading(EventClass.OPAQUE)


def test_an_arrival_of_an_unframed_body_is_opaque_though_it_has_no_data():
    assert OPAQUE.read(Event(Unit.EVENT, b"", b"", b"", 512)) == Reading(EventClass.OPAQUE)


def test_neither_has_a_rule_for_its_end():
    assert not PLAIN.has_terminal_rule
    assert not OPAQUE.has_terminal_rule


@given(st.binary(max_size=60), st.binary(max_size=8), st.booleans())
def test_no_event_raises(data, name, is_cut):
    assert read(data, name, is_cut=is_cut).visible_chars == 0


def test_an_error_says_why_with_or_without_json():
    assert read(b'{"error":{"message":"worker crashed"}}').error_detail == "worker crashed"
    assert read(b"worker crashed", b"error").error_detail == "worker crashed"
    assert read(b'{"message":"worker crashed"}', b"exception/X").error_detail == "worker crashed"
