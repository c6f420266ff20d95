"""Of an object that was cut, what stands plainly at its top is found, in bounded time, and nothing deeper."""

import time

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.inspection.dialects.outline import VALUE_BYTES, plain_members


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b'{"type":"response.completed","response":{"output":[{"text":"', {"type": "response.completed"}),
        (
            b' { "a" : 1 , "b" : [1,{"x":"}"}] , "done" : true , "n" : null, "s":"\\"x"',
            {"a": 1, "done": True, "n": None, "s": '"x'},
        ),
        (
            b'{"response":"says \\"done\\":true","done":false,"context":[1,2',
            {"response": 'says "done":true', "done": False},
        ),
        (b'{"inner":{"done":true},"done":false}', {"done": False}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'{"cut":tru', {}),
        (b'{"cut":12', {}),
        (b'{"cut":"some text', {"cut": ""}),
        (b'{"half', {}),
        (b'{"a":1,', {"a": 1}),
        (b'{"a":1 "b":2}', {"a": 1}),
        (b'{"a"=1}', {}),
        (b"{}", {}),
        (b"{", {}),
        (b'{"a":}', {}),
        (b"", None),
        (b"[1]", None),
        (b'"text"', None),
        (b"\xff", None),
    ],
)
def test_plain_members_are_those_of_the_outermost_object(data, found):
    assert plain_members(data) == found


def test_a_long_text_is_not_taken_over():
    text = b"x" * VALUE_BYTES

    assert plain_members(b'{"text":"' + text + b'","stop":true,"' + text + b'":1}') == {"text": "", "stop": True}


@pytest.mark.parametrize(
    "filling", [b"[" * (1 << 20), b"{}," * (350_000), b'"\\"' * 300_000, b'{"a":[' * 150_000, b'"x":1,' * 170_000]
)
def test_a_megabyte_of_anything_takes_no_time(filling):
    data = b'{"type":"x","rest":[' + filling
    began_ns = time.perf_counter_ns()
    found = plain_members(data)

    assert found["type"] == "x"
    assert time.perf_counter_ns() - began_ns < 1_000_000_000  # 10 ms; what is looked for is that it is not quadratic


_VALUES = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4)
_NESTED = st.lists(_VALUES, max_size=2) | st.dictionaries(st.text(max_size=2), _VALUES, max_size=2)


@given(st.dictionaries(st.text(max_size=4), _VALUES | _NESTED, max_size=5), st.data())
def test_a_parser_finds_the_same_and_any_beginning_a_part_of_it(members, data):
    whole = orjson.dumps(members)
    plain = {key: value for key, value in members.items() if not isinstance(value, dict | list)}
    cut = data.draw(st.integers(1, len(whole)))
    part = plain_members(whole[:cut])

    assert plain_members(whole) == plain
    assert {key: plain[key] for key in part if part[key] != ""}.items() <= plain.items()
    assert part.keys() <= plain.keys() or "" in part.values()


@given(st.binary(max_size=60))
def test_no_bytes_raise(data):
    plain_members(data)
    plain_members(b"{" + data)
