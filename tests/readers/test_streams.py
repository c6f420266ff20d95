"""The drawn streams themselves: what is to be read from them is right, and they have what is worth trying."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.inspection.events import Unit
from sidecar.inspection.splitter import splitter_for
from tests.readers.scripts import APIS
from tests.readers.streams import BOM, NAMES, Message, dispatched, draw, recorded

NUMBERS = st.integers(0, 1 << 40)
MANY = [draw(1, number) for number in range(400)]


def body_of(stream):
    sent = b"".join(stream.writes)
    return zlib.decompress(sent, 31) if stream.is_encoded else sent


@given(NUMBERS)
def test_a_stream_is_what_its_number_makes_of_it(number):
    assert draw(3, number) == draw(3, number)


@given(NUMBERS)
def test_its_writes_are_its_body(number):
    stream = draw(3, number)
    assert body_of(stream) == stream.body
    assert all(rest < len(stream.writes) for rest in stream.rests)


@given(NUMBERS)
def test_our_own_splitter_finds_the_same_events(number):
    stream = draw(3, number)
    splitter = splitter_for("sse")
    units = [unit for piece in stream.writes for unit in splitter.feed(piece)] if not stream.is_encoded else []
    found = [
        Message(unit.name.decode() or "message", unit.data.decode(), unit.id.decode())
        for unit in units
        if unit.unit is Unit.EVENT
    ]
    assert stream.is_encoded or tuple(found) == stream.events


@given(NUMBERS)
def test_the_end_begins_with_a_line_of_the_last_event(number):
    stream = draw(3, number)
    if stream.over_at is not None:
        lines_before, said_last = stream.body[: stream.over_at].removeprefix(BOM), stream.body[stream.over_at :]
        assert not lines_before or lines_before[-1:] in {b"\r", b"\n"}
        assert any(mark in said_last for mark in (b"[DONE]", b"message_stop", b"response.completed"))


def test_every_api_is_drawn_and_every_spelling():
    assert {stream.name for stream in MANY} == {*APIS, "free"} == set(NAMES)
    assert {stream.framing for stream in MANY} == {"chunked", "close", "length"}
    for spelling in (b"\r\n\r\n", b"\n\n", b"\r\r", b"\n:", b"\nid:", b"\nretry: 3000", BOM + b":"):
        assert sum(spelling in stream.body for stream in MANY) > 3, spelling
    assert sum(len(stream.rests) for stream in MANY) > len(MANY)
    assert any(max(map(len, stream.writes)) == 1 for stream in MANY)


@pytest.mark.parametrize(
    ("lines", "events"),
    [
        (["data: a", "data:b", "", "data"], [("message", "a\nb", "")]),
        (["event: e", "", "data: 1", ""], [("message", "1", "")]),
        (["id: 7", "", "data:", "", "id", "data: x", ""], [("message", "", "7"), ("message", "x", "")]),
        (
            [": data: 1", "", "data:  two ", "event: e", "", "id: a\0", "data", ""],
            [("e", " two ", ""), ("message", "", "")],
        ),
    ],
)
def test_events_are_dispatched_by_the_standard(lines, events):
    assert dispatched(lines) == [Message(*event) for event in events]


def test_a_recorded_body_rests_somewhere():
    stream = recorded(5, "a.sse", b"data: 1\n\ndata: 2\n\n" * 20, api="chat", content_type="text/event-stream", seed=1)
    assert body_of(stream) == stream.body
    assert stream.rests
    assert stream.path == "/v1/chat/completions"
    assert stream.events is None
