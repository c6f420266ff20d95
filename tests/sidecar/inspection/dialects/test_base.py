"""What all dialects share: JSON that readers accept is accepted, and only names and tokens come out of it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.hop import EventClass, Usage
from sidecar.inspection.dialects.base import (
    LARGE_BYTES,
    LENIENT_BYTES,
    NAME_CHARS,
    PARTS,
    TEXT_CHARS,
    error_reading,
    finished,
    object_in,
    output_of,
    parsed,
    parsed_value,
    reading_of,
    said_in,
    token_of,
    usage_of,
    visible_chars,
)
from sidecar.inspection.events import Event, Reading, Unit
from tests.support.dialects import event


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
        ({"error": {"code": 503, "status": "UNAVAILABLE", "message": "m"}}, "UNAVAILABLE", "503"),
        ({"jsonrpc": "2.0", "error": {"code": -32603}}, None, "-32603"),
        ({"error": "Request failed during generation", "error_type": "generation"}, "generation", None),
        ({"error": "overloaded"}, None, None),
        ({"type": "error", "code": "bad", "message": "m"}, "error", "bad"),
        (None, None, None),
    ],
)
def test_an_error_gives_tokens_and_no_text(chunk, error_type, error_code):
    reading = error_reading(chunk)

    assert replace(reading, error_detail=None) == Reading(
        EventClass.ERROR, error_type=error_type, error_code=error_code
    )


@pytest.mark.parametrize(
    ("chunk", "text", "detail"),
    [
        ({"error": {"message": "stream closed by zanzibar-7"}}, "stream closed by zanzibar-7", "stream closed by …"),
        ({"error": {"Message": "rate exceeded"}}, "rate exceeded", "rate exceeded"),
        ({"error": "overloaded", "error_type": "x"}, "overloaded", "overloaded"),
        ({"error": {"code": 1}, "message": "no token"}, "no token", "no token"),
        ({"detail": "model not found"}, "model not found", "model not found"),
        ({"detail": [{"loc": ["body"], "msg": "field required"}, {"msg": "x"}]}, "field required", "field required"),
        ({"detail": {"error": "no such model"}}, "no such model", "no such model"),
        ({"error": "invalid_grant", "error_description": "token expired"}, "token expired", "token expired"),
        ({"error": {"message": ["a"]}, "detail": {"a": 1}}, None, None),
        ({"error": {"message": "Zanzibar"}}, "Zanzibar", None),
        ({"error": {"message": "e" * 9_999}}, "e" * TEXT_CHARS, None),
        (None, None, None),
    ],
)
def test_an_error_says_what_it_says_masked_and_the_text_itself_is_never_shown(chunk, text, detail):
    reading = error_reading(chunk)

    assert (reading.error_text, reading.error_detail) == (text, detail)
    assert "error_text" not in repr(reading)
    assert replace(reading, error_text="other") == reading


def test_an_event_that_is_no_object_says_its_data():
    assert said_in(event(b"the model failed")) == {"message": "the model failed"}
    assert said_in(event({"detail": "x"})) == {"detail": "x"}


def test_where_an_error_says_its_type_comes_first():
    assert error_reading({"message": "m"}, error_type="throttlingException").error_type == "throttlingException"
    assert error_reading({"error": {"type": "x"}}, error_type="with blanks").error_type == "x"


def test_an_error_names_its_model_and_its_answer():
    chunk = {"id": "gen-1", "model": "m", "error": {"code": 400}, "choices": []}

    assert error_reading(chunk) == Reading(EventClass.ERROR, 0, "m", "gen-1", None, "400")


def test_what_the_first_parser_refuses_is_tried_again_only_while_it_is_short():
    odd = b'{"a": NaN, "b": "%s"}'

    assert parsed(odd % b"x") is not None
    assert parsed(odd % (b"x" * LENIENT_BYTES)) is None
    assert parsed(b'{"b": "%s"}' % (b"x" * LENIENT_BYTES)) is not None


def test_what_has_a_million_parts_is_not_parsed_and_a_picture_is():
    many = b'{"type":"x","a":[%s1]}' % (b"1," * PARTS)
    picture = b'{"type":"x","a":"%s"}' % (b"A" * 900_000)

    assert (parsed(many + b" " * LARGE_BYTES), parsed_value(many + b" " * LARGE_BYTES)) == (None, None)
    assert parsed(picture)["type"] == "x"
    assert object_in(Event(Unit.EVENT, many + b" " * LARGE_BYTES, b"", b"", 9)) == {"type": "x"}


def test_a_value_may_be_anything():
    assert (parsed_value(b"[1]"), parsed_value(b'"a"'), parsed_value(b"{")) == ([1], "a", None)
    assert parsed_value(b"NaN") != parsed_value(b"NaN")


def test_of_a_cut_event_only_what_stands_at_the_top_is_known():
    whole = b'{"type": "x", "inner": {"deep": 1}, "rest": "cut'

    assert object_in(Event(Unit.EVENT, whole, b"", b"", 9, is_cut=True)) == {"type": "x", "rest": ""}
    assert object_in(Event(Unit.EVENT, whole, b"", b"", 9)) is None
    assert object_in(Event(Unit.EVENT, whole[:-10] + b"}", b"", b"", 9)) is None


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        ((3, 4, 7), Usage(input_tokens=3, output_tokens=4, total_tokens=7)),
        ((3.0, None, 0), Usage(input_tokens=3, total_tokens=0)),
        ((True, "4", -1), None),
        ((1.5, [2], 1 << 70), None),
        ((None, None, None), None),
    ],
)
def test_counts_are_whole_numbers_or_none(counts, usage):
    assert usage_of(*counts) == usage


def test_text_makes_content_and_its_absence_another_class():
    assert output_of("ab", EventClass.CONTROL, "m") == Reading(EventClass.CONTENT, 2, "m")
    assert output_of("", EventClass.TOOL) == Reading(EventClass.TOOL)


def test_what_few_events_say_is_added_and_only_tokens_of_it():
    plain = reading_of(EventClass.CONTROL, 0, "m", "i")

    assert finished(plain, finish="stop", is_end=True) == Reading(
        EventClass.CONTROL, 0, "m", "i", finish="stop", is_end=True
    )
    for odd in (None, "", "two words", ["stop"], {"type": "stop"}, "x" * 65, "line\n"):
        assert finished(plain, finish=odd) == plain
    assert (token_of(7), token_of(True), token_of(1 << 60)) == ("7", None, None)


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
