"""Event-stream frames are found however they are cut, and what breaks their rules is never guessed at."""

import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.inspection.events import Event, Unit
from sidecar.inspection.eventstream import (
    CHECKSUM_BYTES,
    FRAME_BYTES,
    PRELUDE_BYTES,
    VALUE_BYTES,
    EventStreamSplitter,
    framed,
    strings_in,
)
from tests.support.dialects import frame, header

LIMIT_BYTES = 1 << 20


def split(body: bytes, *cuts: int, limit_bytes: int = LIMIT_BYTES) -> list[Event]:
    splitter = EventStreamSplitter(limit_bytes=limit_bytes)
    units = []
    for start, end in pairwise([0, *sorted(cuts), len(body)]):
        units += splitter.feed(body[start:end])
        assert sum(unit.size_bytes for unit in units) + splitter.pending_bytes == end
    units += splitter.finish()
    assert sum(unit.size_bytes for unit in units) == len(body)
    assert splitter.pending_bytes == 0
    return units


def prelude(total_bytes: int, headers_bytes: int) -> bytes:
    head = total_bytes.to_bytes(4) + headers_bytes.to_bytes(4)
    return head + zlib.crc32(head).to_bytes(4)


def test_a_frame_is_an_event_named_by_its_types():
    frames = [
        frame(b"{}", b"event/messageStart"),
        frame(b"", b"exception/throttlingException"),
        frame(b"x", b"error/Bad"),
    ]

    assert split(b"".join(frames)) == [
        Event(Unit.EVENT, b"{}", b"event/messageStart", b"", len(frames[0])),
        Event(Unit.EVENT, b"", b"exception/throttlingException", b"", len(frames[1])),
        Event(Unit.EVENT, b"x", b"error/Bad", b"", len(frames[2])),
    ]


def test_line_ends_and_colons_in_it_mean_nothing():
    assert [unit.data for unit in split(frame(b"data: a\n\n\r\n:") * 2)] == [b"data: a\n\n\r\n:"] * 2


@given(
    st.lists(st.tuples(st.binary(max_size=40), st.sampled_from([b"event/chunk", b"exception/x", b"/"])), max_size=4),
    st.data(),
)
def test_no_cut_changes_anything(frames, data):
    body = b"".join(frame(payload, name) for payload, name in frames)
    body += frame(b"the last one")[: data.draw(st.integers(0, 40))]
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=6))
    limit_bytes = data.draw(st.sampled_from([0, 1, 10, LIMIT_BYTES]))

    assert split(body, *cuts, limit_bytes=limit_bytes) == split(body, limit_bytes=limit_bytes)
    assert split(body, *range(1, len(body)), limit_bytes=limit_bytes) == split(body, limit_bytes=limit_bytes)


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=4))
def test_no_bytes_raise_and_none_are_lost(body, cuts):
    split(body, *(cut for cut in cuts if cut <= len(body)))


@given(st.integers(0, 60), st.integers(0, 255))
def test_a_changed_byte_is_found_out(at, value):
    good = frame(b'{"delta":{"text":"Hi"}}', b"event/contentBlockDelta")
    body = bytearray(good + good + b"more")
    body[at % len(good)] = value
    units = split(bytes(body))

    if bytes(body) != good + good + b"more":
        assert [(unit.data, unit.is_cut) for unit in units if unit.unit is Unit.EVENT] == [(b"", True)]


@pytest.mark.parametrize(
    "broken",
    [
        b"data: an event of another kind\n\n",
        prelude(15, 0),
        prelude(16, 1),
        prelude(FRAME_BYTES + 1, 0),
        prelude(400_000, 200_000),
        prelude(16, 0) + b"\0\0\0\0",
    ],
)
def test_what_breaks_the_rules_is_an_arrival_and_so_is_all_after_it(broken):
    splitter = EventStreamSplitter(limit_bytes=LIMIT_BYTES)
    first = splitter.feed(frame(b"a") + broken)
    after = splitter.feed(frame(b"b"))

    assert splitter.is_lost
    assert [(unit.data, unit.size_bytes) for unit in first] == [(b"a", len(frame(b"a"))), (b"", len(broken))]
    assert [(unit.data, unit.size_bytes) for unit in after] == [(b"", len(frame(b"b")))]


def test_a_long_payload_is_cut_and_its_checksum_still_holds():
    units = split(frame(b"x" * 5_000) + frame(b"y"), 100, 4_000, limit_bytes=1_000)

    assert [(len(unit.data), unit.is_cut) for unit in units] == [(1_000, True), (1, False)]
    assert [unit.is_cut for unit in split(frame(b"x" * 1_000), limit_bytes=1_000)] == [False]


def test_what_is_left_in_a_frame_is_a_tail():
    whole = frame(b'{"a":1}', b"event/metadata")

    assert split(whole[:9]) == [Event(Unit.TAIL, b"", b"", b"", 9, is_cut=True)]
    tail = split(whole[:-5])[0]
    assert (tail.unit, tail.data, tail.name, tail.is_cut) == (Unit.TAIL, b'{"a":1', b"event/metadata", True)


def test_headers_of_every_type_are_passed_over():
    typed = b"\x01t\x00" + b"\x01f\x01" + b"\x01b\x02\x01" + b"\x01s\x03\x00\x01" + b"\x01i\x04" + bytes(4)
    typed += b"\x01l\x05" + bytes(8) + b"\x01y\x06\x00\x02ab" + b"\x01d\x08" + bytes(8) + b"\x01u\x09" + bytes(16)

    assert strings_in(typed + header(b"name", b"value")) == {b"name": b"value"}
    assert strings_in(header(b"a", b"1") + b"\x01x\x0a" + header(b"b", b"2")) == {b"a": b"1"}


@given(st.binary(max_size=60))
def test_no_headers_raise(headers):
    assert all(isinstance(value, bytes) for value in strings_in(headers).values())


def test_a_boundary_is_behind_a_whole_frame_of_a_sound_body():
    body = frame(b'{"a":1}') + frame(b"")
    ends = {0, len(frame(b'{"a":1}')), len(body)}
    splitter = EventStreamSplitter(limit_bytes=2)
    for at in range(len(body) + 1):
        assert splitter.is_at_boundary is (at in ends)
        splitter.feed(body[at : at + 1])
    splitter.feed(b"x" * 12)

    assert not splitter.is_at_boundary


def test_what_was_left_in_a_frame_makes_no_boundary():
    splitter = EventStreamSplitter(limit_bytes=LIMIT_BYTES)
    splitter.feed(frame(b"a") + frame(b"b")[:20])
    splitter.finish()

    assert not splitter.is_at_boundary


@given(
    st.dictionaries(st.text(min_size=1, max_size=20), st.text(max_size=20), max_size=4),
    st.binary(max_size=40),
    st.integers(0, 60),
)
def test_a_frame_that_is_written_is_read_as_it_was(headers, payload, cut):
    frame = framed(headers, payload)
    splitter = EventStreamSplitter(limit_bytes=100)
    units = splitter.feed(frame[:cut]) + splitter.feed(frame[cut:])

    assert [unit.data for unit in units] == [payload]
    assert not splitter.is_lost
    headers_bytes = int.from_bytes(frame[4:8])
    found = strings_in(frame[PRELUDE_BYTES : PRELUDE_BYTES + headers_bytes])
    assert found == {name.encode(): value.encode() for name, value in headers.items()}


def test_a_header_is_no_longer_than_the_format_has_it():
    frame = framed({":error-message": "x" * 99_999}, b"")

    assert len(frame) == PRELUDE_BYTES + 1 + 14 + 3 + VALUE_BYTES + CHECKSUM_BYTES
