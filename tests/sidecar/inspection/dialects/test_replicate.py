"""Replicate: the data is the output, and names tell what else there is."""

import pytest

from otel.hop import EventClass
from sidecar.inspection.dialects.replicate import REPLICATE
from sidecar.inspection.events import Reading
from tests.support.dialects import classes, event, seen


def read(data, name):
    return REPLICATE.read(event(data, name))


@pytest.mark.parametrize(
    ("data", "chars"), [(b"Sure", 4), ("Olé 🙂".encode(), 5), (b"\n", 1), (b'{"error":{"code":1}}', 20), (b"[DONE]", 6)]
)
def test_whatever_stands_in_an_output_is_text(data, chars):
    assert read(data, b"output") == Reading(EventClass.CONTENT, chars)


def test_names_tell_what_else_there_is():
    assert read(b"", b"output") == Reading(EventClass.CONTROL)
    assert read(b"loading weights", b"logs") == Reading(EventClass.CONTROL)
    assert read({}, b"done") == Reading(EventClass.TERMINAL)
    assert read({"reason": "canceled"}, b"done") == Reading(EventClass.TERMINAL, finish="canceled")
    assert read({"reason": "error"}, b"done") == Reading(EventClass.ERROR, error_type="error")
    assert read({"detail": "secret words"}, b"error") == Reading(EventClass.ERROR)
    assert read(b"", b"") == Reading(EventClass.KEEPALIVE)


def test_a_late_comment_is_neither_event_nor_error():
    stream = (
        b"event: output\nid: 170:0\ndata: hi\ndata: \n\nevent: done\nid: 170:1\ndata: {}\n\n: 408 Request Timeout\n\n"
    )
    body = seen([stream], content_type="text/event-stream; charset=utf-8")

    assert (classes(body), body.stamper.position, body.comment_count) == ("c.", 3, 1)
    assert (body.dialect.name, body.terminal_seq, body.error) == ("replicate", 1, None)


@pytest.mark.parametrize(
    ("name", "event_id", "is_known"),
    [(b"output", b"170:0", True), (b"done", b"170:9", True), (b"output", b"", False), (b"message", b"1:1", False)],
)
def test_it_is_known_by_its_names_and_ids(name, event_id, is_known):
    assert REPLICATE.begins(event(b"x", name, event_id=event_id), None) is is_known


def test_an_error_says_why_with_or_without_json():
    assert read({"detail": "model failed"}, b"error").error_detail == "model failed"
    assert read(b"model failed", b"error").error_detail == "model failed"
