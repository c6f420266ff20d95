"""What is taken by its shape is taken exactly as if it had been split and read."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.hop import EventClass
from sidecar.inspection.body import Body
from sidecar.inspection.lane import Lane
from sidecar.inspection.shape import Hole, Shape
from sidecar.inspection.stamper import Stamper
from tests.support.known import known
from tests.support.lanes import bodies, runs
from tests.support.parts import READING_ALL, each_kind

TEXT = Shape((b'data: {"a":"', b'"}\n\n'), (Hole.COUNTED,), EventClass.CONTENT, 0)
ALL = Shape(
    (b'event: x\ndata: {"n":', b',"a":"', b'","b":"', b'","more":"1234"}\n\n'),
    (Hole.NUMBER, Hole.COUNTED, Hole.UNCOUNTED),
    EventClass.TOOL,
    4,
)


def taken(parts, shape, data, at=0, **options):
    """Where it stopped, and the position behind each event."""
    stamper = parts.stamper()
    lane = parts.lane(stamper, **options)
    if shape is not None:
        lane.learn(shape)
    stop = lane.take(data, at, 7)
    assert lane.take(data, stop, 8) == stop
    return stop, [stamp.position for stamp in stamper.stamps()]


def block(text):
    return b'data: {"a":"%b"}\n\n' % text


@each_kind()
@pytest.mark.parametrize(
    ("text", "chars"),
    [
        (b"a", 1),
        (b" hello ", 7),
        ("é😀\u2028".encode(), 3),
        (rb"\"\\\/\b\f\n\r\t", 8),
        (rb"\u00e9\u0000\uD83D\uDE00\ufFfF", 4),
        (b"\x7f", 1),
        (b"data: x", 7),
    ],
)
def test_a_text_counts_its_code_points(parts, text, chars):
    whole = block(text)

    assert taken(parts, TEXT, whole) == (len(whole), [chars])
    assert taken(parts, TEXT, b"--" + whole + whole, 2) == (2 + 2 * len(whole), [chars, 2 * chars])


@each_kind()
@pytest.mark.parametrize(
    "text",
    [
        b"",
        b'"',
        b"\\",
        b"\\x",
        rb"\u12",
        rb"\u12g4",
        rb"\ud83d",
        rb"\ud83d\n",
        rb"\ud83d\u0041",
        rb"\ud83d\ud83d",
        rb"\ude00",
        b"\n",
        b"\r",
        b"\0",
        b"\x1f",
        b"\x80",
        b"\xc3",
        b"\xc3(",
        b"\xc0\x80",
        b"\xe0\x9f\xbf",
        b"\xed\xa0\x80",
        b"\xef\xbf",
        b"\xf0\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b'","b":"',
    ],
)
def test_what_is_no_single_text_is_left(parts, text):
    assert taken(parts, TEXT, block(b"a") + block(text)) == (len(block(b"a")), [1])


@each_kind()
@pytest.mark.parametrize("cut", range(1, len(block(b"hello"))))
def test_half_a_block_is_left(parts, cut):
    assert taken(parts, TEXT, block(b"hello") + block(b"hello")[:cut]) == (len(block(b"hello")), [5])


@each_kind()
def test_nor_is_anything_taken_of_a_text_that_is_cut_anywhere(parts):
    whole = block("é😀".encode() + rb"\u00e9\ud83d\ude00\n")

    assert [taken(parts, TEXT, whole[:cut])[0] for cut in range(len(whole))] == [0] * len(whole)


@each_kind()
@pytest.mark.parametrize("number", [b"0", b"7", b"123456789012345"])
def test_several_holes(parts, number):
    whole = b'event: x\ndata: {"n":%b,"a":"one","b":"\\"","more":"1234"}\n\n' % number

    assert taken(parts, ALL, whole + whole + block(b"a")) == (2 * len(whole), [7, 14])


@each_kind()
@pytest.mark.parametrize(
    "number", [b"", b"-1", b"00", b"01", b"1.5", b"1e3", b"1234567890123456", b'"1"', b"null", b" 1"]
)
def test_no_other_number_is_taken(parts, number):
    assert taken(parts, ALL, b'event: x\ndata: {"n":%b,"a":"one","b":"x","more":"1234"}\n\n' % number) == (0, [])


@each_kind()
def test_nothing_is_taken_before_a_shape_is_known_or_beyond_the_limit(parts):
    whole = block(b"hello")

    assert taken(parts, None, whole) == (0, [])
    assert taken(parts, TEXT, whole, limit_bytes=len(whole)) == (len(whole), [5])
    assert taken(parts, TEXT, whole, limit_bytes=len(whole) - 1) == (0, [])
    assert taken(parts, TEXT, block(b"x" * 70_000)) == (0, [])
    assert taken(parts, TEXT, b"") == (0, [])
    assert taken(parts, TEXT, whole, len(whole)) == (len(whole), [])


@each_kind()
def test_the_last_shape_that_was_learnt_counts(parts):
    lane = parts.lane(parts.stamper())
    lane.learn(TEXT)
    lane.learn(ALL)

    assert lane.take(block(b"a"), 0, 1) == 0


def test_a_lane_of_the_twins_stamps_in_the_columns_it_was_given():
    stamper = Stamper()
    lane = Lane(stamper)
    lane.learn(TEXT)
    lane.take(block(b"hello") + block(b"a") + b"data", 0, 5)
    stamper.taken(6, 1_000)

    assert [stamper.acked_count(acked) for acked in (1_000 - 5 - len(block(b"a")), 1_000 - 4, 1_000)] == [0, 2, 2]


@each_kind()
@given(bodies() | runs(), st.booleans())
def test_a_body_with_a_lane_is_the_body_that_reads_every_event(parts, body, is_short):
    path, reads = body
    limit = {"event_limit_bytes": 150} if is_short else {}

    assert known(path, reads, parts=parts, **limit) == known(path, reads, parts=READING_ALL, **limit)


@each_kind()
def test_nearly_all_of_a_usual_stream_is_taken_so(parts):
    taken_bytes = []

    class Counting(parts.lane):
        def take(self, data, at, at_ns):
            stop = super().take(data, at, at_ns)
            taken_bytes.append(stop - at)
            return stop

    text = b'data: {"id":"c","model":"m","created":%d,"choices":[{"index":0,"delta":{"content":"%d"}}]}\n\n'
    blocks = [text % (number, number * number) for number in range(100)]
    body = Body(
        "/v1/chat/completions",
        content_type="text/event-stream",
        content_encoding=None,
        parts=replace(parts, lane=Counting),
    )
    for number, data in enumerate(blocks):
        body.arrived(data, number, is_wasted=False)

    assert taken_bytes == list(map(len, blocks[3:]))
    flood = b"".join(blocks)
    body.arrived(flood[:5_000], 100, is_wasted=False)
    body.arrived(flood[5_000:], 101, is_wasted=False)
    assert sum(taken_bytes[97:]) > len(flood) - 2 * len(blocks[-1])
    assert body.stamper.count == 200
