"""The elements of a streamed array are found however it is cut."""

import json
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.inspection.events import Event, Unit
from sidecar.inspection.json_array import JsonArraySplitter

LIMIT_BYTES = 1 << 20


def split(body: bytes, *cuts: int, limit_bytes: int = LIMIT_BYTES) -> list[Event]:
    splitter = JsonArraySplitter(limit_bytes=limit_bytes)
    units = []
    for start, end in pairwise([0, *sorted(cuts), len(body)]):
        units += splitter.feed(body[start:end])
        assert sum(unit.size_bytes for unit in units) + splitter.pending_bytes == end
    units += splitter.finish()
    assert sum(unit.size_bytes for unit in units) + splitter.pending_bytes == len(body)
    return units


def elements(body: bytes, *cuts: int) -> list[bytes]:
    return [unit.data for unit in split(body, *cuts) if unit.unit is Unit.EVENT]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'[{"a":1}\n,\r\n{"b":[2,{"c":3}]}\n]', [b'{"a":1}', b'{"b":[2,{"c":3}]}']),
        (b" \n[ {} , [] ] ", [b"{}", b"[]"]),
        (b'\xef\xbb\xbf[{"a":1}]', [b'{"a":1}']),
        (b'[{"a":"]}\\"},{"}]', [b'{"a":"]}\\"},{"}']),
        (b'[{"a":"\\\\"},{"b":1}]', [b'{"a":"\\\\"}', b'{"b":1}']),
        (b'[1, "two", null, {"a":1}]', [b'{"a":1}']),
        (b"[]", []),
        (b"[", []),
        (b"", []),
        (b" ", []),
        (b"[{}]]]{}[[1]]", [b"{}", b"[1]"]),
    ],
)
def test_an_object_or_array_inside_the_outermost_one_is_an_event(body, found):
    assert elements(body) == found
    assert elements(body, *range(1, len(body))) == found


def test_an_element_is_complete_at_its_last_bracket():
    splitter = JsonArraySplitter(limit_bytes=LIMIT_BYTES)

    assert [unit.data for unit in splitter.feed(b'[{"a":1}')] == [b'{"a":1}']
    assert splitter.feed(b'\n,\n{"b"') == []
    assert [unit.size_bytes for unit in splitter.feed(b":2}")] == [len(b'\n,\n{"b":2}')]


def test_the_sizes_take_in_what_stands_between():
    assert [unit.size_bytes for unit in split(b' [{} ,\n{"a":1}]')] == [4, 10]


@pytest.mark.parametrize("body", [b'{"error":{}}', b'"text"', b"text", b"\xef\xbbx", b"\xef\xbb\xbf{}", b"1"])
def test_what_is_no_array_is_arrivals(body):
    splitter = JsonArraySplitter(limit_bytes=LIMIT_BYTES)
    units = splitter.feed(body) + splitter.feed(b"[{}]")

    assert splitter.is_lost
    assert [(unit.data, unit.is_cut, unit.size_bytes) for unit in units] == [(b"", True, len(body)), (b"", True, 4)]


def test_what_is_left_in_an_element_is_a_tail():
    assert [(unit.unit, unit.data) for unit in split(b'[{"a":1},{"b":"x')] == [
        (Unit.EVENT, b'{"a":1}'),
        (Unit.TAIL, b'{"b":"x'),
    ]


def test_a_long_element_is_cut():
    body = b'[{"a":"' + b"x" * 500 + b'"},{"b":1}]'

    assert [(len(unit.data), unit.is_cut) for unit in split(body, 10, 300, limit_bytes=100)] == [
        (100, True),
        (7, False),
    ]


def test_memory_is_bounded_however_long_an_element_is():
    splitter = JsonArraySplitter(limit_bytes=1_000)
    splitter.feed(b'[{"a":"')
    piece = b"x" * 10_000
    tracemalloc.start()
    for _ in range(300):
        splitter.feed(piece)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak_bytes < 100_000


_JSON = st.recursive(
    st.none() | st.integers() | st.text(st.sampled_from('ab"\\[]{},:é🙂'), max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(_JSON, max_size=4), st.booleans(), st.data())
def test_a_parser_finds_the_same_in_any_cut(values, is_indented, data):
    body = json.dumps(values, ensure_ascii=data.draw(st.booleans()), indent=1 if is_indented else None).encode()
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=6))

    assert [json.loads(found) for found in elements(body, *cuts)] == [v for v in values if isinstance(v, dict | list)]
    assert split(body, *cuts) == split(body)


@given(st.binary(max_size=60) | st.text(st.sampled_from('[]{}",\\ a'), max_size=40).map(str.encode), st.data())
def test_no_bytes_raise_and_no_cut_of_an_array_matters(tail, data):
    body = b"[" + tail
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=6))

    assert split(body, *cuts) == split(body)
    split(tail, *(cut for cut in cuts if cut <= len(tail)))


@pytest.mark.parametrize(
    ("body", "is_boundary"),
    [
        (b"", False),
        (b"[", False),
        (b'[{"a":1}', True),
        (b'[{"a":1}\n \r\n', True),
        (b'[{"a":1},', False),
        (b'[{"a":1},\n', False),
        (b'[{"a":1},{"b":', False),
        (b'[{"a":1},{"b":2}', True),
        (b'[{"a":1},{"b":"}', False),
        (b'[{"a":1}]', False),
        (b'[{"a":1}]\n', False),
        (b'[{"a":1},2', False),
        (b'{"a":1}', False),
        (b"[[]", True),
    ],
)
def test_a_further_element_may_stand_behind_one_before_its_comma(body, is_boundary):
    for cut in range(len(body) + 1):
        splitter = JsonArraySplitter(limit_bytes=LIMIT_BYTES)
        splitter.feed(body[:cut])
        splitter.feed(body[cut:])
        splitter.feed(b"")
        assert splitter.is_at_boundary is is_boundary
        splitter.finish()
        assert splitter.is_at_boundary is is_boundary


@given(st.lists(_JSON, max_size=4), st.data())
def test_an_element_of_ours_is_one_more_and_the_array_stays_one(values, data):
    body = json.dumps(values).encode()
    splitter, boundaries = JsonArraySplitter(limit_bytes=LIMIT_BYTES), []
    for at in range(len(body)):
        splitter.feed(body[at : at + 1])
        if splitter.is_at_boundary:
            boundaries.append(at + 1)
    assert bool(boundaries) is any(isinstance(value, dict | list) for value in values)
    for at in boundaries:
        with_ours = json.loads(body[:at] + b',{"ours":1}' + body[at:])
        with_ours.remove({"ours": 1})
        assert with_ours == values
