"""The compiled parts do what their twins do, whatever they are given."""

import gc
import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.hop import EventClass
from sidecar.inspection.shape import Hole, Shape
from sidecar.native import COMPILED, TWINS
from tests.support.parts import NOT_BUILT

pytestmark = pytest.mark.skipif(COMPILED is None, reason=NOT_BUILT)

PIECES = st.sampled_from(
    [
        b"0",
        b"1",
        b"a",
        b"F",
        b"\r\n",
        b"\r",
        b"\n",
        b";",
        b" ",
        b"x",
        b"5\r\nhello\r\n",
        b"0A\r\n0123456789\r\n",
        b"00000000000000",
        b"ffffffffffffffff\r\n",
    ]
)
LITERALS = st.sampled_from([b"", b'"k":', b"x", b'"'])
HOLES = st.lists(st.sampled_from(list(Hole)), min_size=1, max_size=8)
TEXTS = st.binary(max_size=8) | st.text(max_size=4).map(str.encode) | st.sampled_from([b"\\u00e9", b"\\n", b"0", b"17"])


@given(st.lists(PIECES, max_size=20).map(b"".join), st.integers(0, 40))
def test_whole_chunks(data, at):
    assert COMPILED.whole_chunks(data, at) == TWINS.whole_chunks(data, at)


@pytest.mark.parametrize(
    "whole", [b"3\r\none\r\n14\r\ntwo and some more ..\r\n", b"0000000000000009\r\n12345678\r\n\r\n"]
)
def test_no_byte_is_read_behind_the_last_one(whole):
    for cut in range(len(whole)):
        for at in range(cut + 1):
            assert COMPILED.whole_chunks(whole[:cut], at) == TWINS.whole_chunks(whole[:cut], at)


@pytest.mark.parametrize(
    "size", ["7fffffffffffffff", "8000000000000000", "ffffffffffffffff", "fffffffffffffff0", "0" * 15 + "5"]
)
def test_a_size_beyond_all_memory_is_no_whole_chunk(size):
    data = size.encode() + b"\r\nhello\r\n"

    assert COMPILED.whole_chunks(data, 0) == TWINS.whole_chunks(data, 0)


@given(
    st.lists(
        st.tuples(st.sampled_from(EventClass), st.integers(0, 50), st.integers(0, 100), st.integers(0, 500))
        | st.tuples(st.integers(0, 100), st.integers(0, 500)),
        max_size=60,
    ),
    st.integers(0, 40),
)
def test_columns(steps, limit_count):
    both = [parts.stamper(limit_count=limit_count) for parts in (COMPILED, TWINS)]
    for step in steps:
        told = []
        for stamper in both:
            stamper.event(*step) if len(step) == 4 else stamper.taken(*step)
            told.append(
                (stamper.count, stamper.position, stamper.is_cut_short, stamper.acked_count(step[-1]), stamper.stamps())
            )
        assert told[0] == told[1]
    assert both[0].stamps(since=7) == both[1].stamps(since=7)


@given(HOLES, st.data())
def test_lanes(holes, data):
    marks = [b":" if hole is Hole.NUMBER else b'"' for hole in holes]  # a text stands between its quotes
    ends = [b",", *(b"," if hole is Hole.NUMBER else b'"' for hole in holes)]
    literals = tuple(end + data.draw(LITERALS) + mark for end, mark in zip(ends, [*marks, b"}\n\n"], strict=True))
    shape = Shape(literals, tuple(holes), EventClass.CONTENT, 3)
    blocks = []
    for _ in range(data.draw(st.integers(0, 4))):
        blocks += [
            part for pair in zip(shape.literals, [data.draw(TEXTS) for _ in holes], strict=False) for part in pair
        ]
        blocks.append(shape.literals[-1])
    read = b"".join(blocks)
    found = []
    for parts in (COMPILED, TWINS):
        stamper = parts.stamper()
        lane = parts.lane(stamper)
        lane.learn(shape)
        found.append((lane.take(read, 0, 5), stamper.stamps()))

    assert found[0] == found[1]


def test_a_shape_that_is_none_is_refused():
    lane = COMPILED.lane(COMPILED.stamper())
    for shape in (
        Shape((b"a",), (), EventClass.CONTENT, 0),
        Shape((b"a", b"b"), (Hole.NUMBER, Hole.NUMBER), EventClass.CONTENT, 0),
        Shape((b"a",) * 10, (Hole.NUMBER,) * 9, EventClass.CONTENT, 0),
    ):
        with pytest.raises(ValueError, match="1 to 8 holes"):
            lane.learn(shape)
    with pytest.raises(TypeError):
        COMPILED.lane(TWINS.stamper())
    with pytest.raises(TypeError):
        COMPILED.lane(None)
    with pytest.raises(TypeError):
        lane.take("text", 0, 0)
    with pytest.raises(ValueError, match="class"):
        COMPILED.stamper().event(len(EventClass), 0, 0, 0)


def test_columns_take_what_they_say_and_are_given_back():
    gc.collect()
    tracemalloc.start()
    stamper = COMPILED.stamper()
    for number in range(100_000):
        stamper.event(EventClass.CONTENT, 1, number, 0)
    held_bytes, _ = tracemalloc.get_traced_memory()
    del stamper
    left_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert 4_000_000 <= held_bytes < 6_500_000
    assert left_bytes < 10_000


def test_a_lane_keeps_what_it_points_into():
    lane = COMPILED.lane(COMPILED.stamper())
    lane.learn(
        Shape((bytes(bytearray(b'data: {"a":"')), bytes(bytearray(b'"}\n\n'))), (Hole.COUNTED,), EventClass.CONTENT, 0)
    )
    gc.collect()
    _ = [bytes(bytearray(12)) for _ in range(1_000)]

    assert lane.take(b'data: {"a":"x"}\n\n', 0, 0) == 17
    assert sys.getrefcount(lane) == 2
