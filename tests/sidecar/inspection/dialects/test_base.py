"""What all dialects share: JSON that readers accept is accepted, and only names and tokens come out of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.hop import EventClass
from sidecar.inspection.dialects.base import NAME_CHARS, error_reading, parsed, reading_of, visible_chars
from sidecar.inspection.events import Reading


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'{"a": 1}', {"a": 1}),
        (b' {"a":\n1} ', {"a": 1}),
        (b'{"a": "\xff"}', {"a": "\ufffd"}),
        (b'{"a": "\\ud83d"}', {"a": "\ud83d"}),
        (b'{"a": Infinity}', {"a": float("inf")}),
    ],
)
def test_json_that_a_reader_accepts_is_read(data, value):
    assert parsed(data) == value


@pytest.mark.parametrize(
    "data",
    [b"", b"[DONE]", b'"text"', b"[1]", b"null", b"{", b'{"a":1}{', b"[" * 100_000, b'{"a":' * 2_000, b"1" * 9_999],
)
def test_anything_but_an_object_is_none(data):
    assert parsed(data) is None


@pytest.mark.parametrize(
    ("text", "chars"),
    [("", 0), ("abc", 3), ("é", 1), ("你好", 2), ("🙂", 1), ("👩‍🚀", 3), ("\ud83d", 0), ("\ude42", 1), ("a\ud83d", 1)],
)
def test_visible_characters_are_code_points(text, chars):
    assert visible_chars(text) == chars


def test_an_emoji_cut_in_two_counts_once():
    halves = [parsed(data)["a"] for data in (b'{"a": "x\\ud83d"}', b'{"a": "\\ude42y"}')]

    assert sum(map(visible_chars, halves)) == visible_chars("x🙂y")


def test_a_reading_takes_names_over_and_nothing_else():
    name = "facebook/opt-125m:free"

    assert reading_of(EventClass.CONTENT, 2, name, "id-1") == Reading(EventClass.CONTENT, 2, name, "id-1")
    for other in (None, "", 7, ["x"], {"a": 1}, "x" * (NAME_CHARS + 1), "line\nend", "\x1b[31m", "naïve"):
        assert reading_of(EventClass.CONTENT, 2, other, other) == Reading(EventClass.CONTENT, 2)


@pytest.mark.parametrize(
    ("chunk", "error_type", "error_code"),
    [
        ({"error": {"type": "server_error", "code": "rate.limit:1", "message": "m"}}, "server_error", "rate.limit:1"),
        ({"error": {"code": 502}}, None, "502"),
        ({"error": {"type": "Tool choice is required", "code": True}}, None, None),
        ({"error": {"type": "x" * 65, "code": 10**80}}, None, None),
        ({"error": {"type": "with newline\n", "code": "newline\n"}}, None, None),
        ({"error": {"type": None, "code": ["x"]}}, None, None),
        ({"error": "Request failed during generation", "error_type": "generation"}, "generation", None),
        ({"error": "overloaded"}, None, None),
        ({"type": "error", "code": "bad", "message": "m"}, "error", "bad"),
        (None, None, None),
    ],
)
def test_an_error_gives_tokens_and_no_text(chunk, error_type, error_code):
    reading = Reading(EventClass.ERROR, error_type=error_type, error_code=error_code)

    assert error_reading(chunk) == reading


def test_an_error_names_its_model_and_its_answer():
    chunk = {"id": "gen-1", "model": "m", "error": {"code": 400}, "choices": []}

    assert error_reading(chunk) == Reading(EventClass.ERROR, 0, "m", "gen-1", None, "400")


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_no_data_raises(data):
    assert parsed(data) is None or isinstance(parsed(data), dict)


@given(st.text(st.characters(exclude_categories=[]), max_size=40))
def test_cutting_a_text_into_pieces_changes_no_sum(text):
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    pieces = whole.encode("utf-16-be", "surrogatepass")
    units = [pieces[i : i + 2].decode("utf-16-be", "surrogatepass") for i in range(0, len(pieces), 2)]

    is_paired = not any("\ud800" <= char <= "\udfff" for char in whole)
    assert not is_paired or sum(map(visible_chars, units)) == len(whole)
