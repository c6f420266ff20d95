"""A response's head is read strictly, however it is cut; a request's head is written exactly."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.http1.head import (
    HEAD_BYTES,
    LINE_BYTES,
    LINES,
    Http1Error,
    ResponseHead,
    Section,
    field_lines,
    parse_head,
    request_head,
)

TOKENS = st.text("!#$%&'*+-.^_`|~0123456789abcXYZ", min_size=1, max_size=12)
VALUES = st.binary(max_size=20).map(lambda raw: re.sub(rb"[\x00-\x08\x0a-\x1f\x7f]", b"~", raw).strip(b" \t"))
FIELDS = st.lists(st.tuples(TOKENS, VALUES.map(lambda raw: raw.decode("utf-8", "surrogateescape"))), max_size=6)


def fields_of(*lines: bytes) -> list[tuple[str, str]]:
    return list(parse_head(b"\r\n".join([b"HTTP/1.1 200 OK", *lines, b"", b""])).fields)


def read(block: bytes, *cuts: int) -> ResponseHead | str:
    """What a block is, read in the pieces between the cuts: a head, or the rule that it breaks."""
    section = Section(is_head=True)
    try:
        for start, end in itertools.pairwise([0, *sorted(cuts), len(block)]):
            if (at := section.feed(block[start:end])) >= 0:
                assert start + at == len(block)
                return section.head()
    except Http1Error as error:
        return error.rule
    return "not complete"


# ------------------------------------------------------------------------------------------------------ status line


@pytest.mark.parametrize(
    ("line", "version", "status", "reason"),
    [
        (b"HTTP/1.1 200 OK", (1, 1), 200, "OK"),
        (b"HTTP/1.0 200 OK", (1, 0), 200, "OK"),
        (b"HTTP/1.1 200 ", (1, 1), 200, ""),
        (b"HTTP/1.1 200", (1, 1), 200, ""),
        (b"HTTP/1.1 404 Not\tFound  here ", (1, 1), 404, "Not\tFound  here "),
        (b"HTTP/1.1 599 \xc3\xa4", (1, 1), 599, "ä"),
        (b"HTTP/1.1 100 \xff", (1, 1), 100, "\udcff"),
    ],
)
def test_a_status_line_is_version_status_and_reason(line, version, status, reason):
    assert parse_head(line + b"\r\n\r\n") == ResponseHead(version, status, reason, ())


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"SSH-2.0-OpenSSH",
        b"http/1.1 200 OK",
        b"HTTP/1.2 200 OK",
        b"HTTP/2 200 OK",
        b"HTTP/1.10 200 OK",
        b"HTTP/1.1  200 OK",
        b"HTTP/1.1\t200 OK",
        b"HTTP/1.1 2 OK",
        b"HTTP/1.1 2000 OK",
        b"HTTP/1.1 +20 OK",
        b"HTTP/1.1 099 low",
        b"HTTP/1.1 600 high",
        b"HTTP/1.1 200OK",
        b"HTTP/1.1 200\tOK",
        b"HTTP/1.1 200 O\0K",
        b"HTTP/1.1 200 O\x7fK",
        b"HTTP/1.1 200 O\rK",
        b"HTTP/1.1 \xd9\xa2\xd9\xa0\xd9\xa0 OK",
        b" HTTP/1.1 200 OK",
    ],
)
def test_any_other_status_line_is_refused(line):
    with pytest.raises(Http1Error):
        parse_head(line + b"\r\n\r\n")


@pytest.mark.parametrize("beginning", [b"S", b"\r", b"\n", b"HTTP/2", b"\x16\x03\x01", b"<html>", b"HTTP 1.1"])
def test_what_is_no_answer_is_known_by_its_first_bytes(beginning):
    with pytest.raises(Http1Error):
        Section(is_head=True).feed(beginning)


# ----------------------------------------------------------------------------------------------------------- fields


def test_fields_keep_order_repetition_and_spelling():
    assert fields_of(b"b: 1", b"A: 2", b"B: 3", b"b: 1") == [("b", "1"), ("A", "2"), ("B", "3"), ("b", "1")]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b"x: y", "y"),
        (b"x:y", "y"),
        (b"x: \t y z \t", "y z"),
        (b"x:", ""),
        (b"x:   ", ""),
        (b"x: a:b", "a:b"),
        (b"x: a\tb", "a\tb"),
        (b"x: \xc3\xa9\xff", "é\udcff"),
        (b"x: \xc2\xa0y\xc2\xa0", "\xa0y\xa0"),
    ],
)
def test_white_space_around_a_value_is_no_part_of_it(line, value):
    assert fields_of(line) == [("x", value)]


@pytest.mark.parametrize(
    "line",
    [
        b"x : y",
        b"x\t: y",
        b": y",
        b"x",
        b"x y: z",
        b"x(y): z",
        b"\xc3\xa9: y",
        b"x: a\0b",
        b"x: a\rb",
        b"x: a\x0bb",
        b"x: a\x7fb",
        b"x\0: y",
    ],
)
def test_what_is_no_field_is_refused(line):
    with pytest.raises(Http1Error):
        fields_of(b"a: b", line)


def test_a_folded_line_is_joined_by_a_space():
    assert fields_of(b"x: a", b"  b", b"\tc\t", b"y: d") == [("x", "a b c"), ("y", "d")]
    assert fields_of(b"x:", b" a", b"  ", b" b") == [("x", "a b")]


def test_a_fold_needs_a_field_before_it():
    with pytest.raises(Http1Error):
        fields_of(b" x: y")


@pytest.mark.parametrize("fold", [b" a\0", b" a\rb"])
def test_a_folded_line_has_no_control_byte_either(fold):
    with pytest.raises(Http1Error):
        fields_of(b"x: y", fold)


@pytest.mark.parametrize(
    "block",
    [
        b"HTTP/1.1 200 OK\n\n",
        b"HTTP/1.1 200 OK\r\na: b\n\r\n",
        b"HTTP/1.1 200 OK\r\na: b\r\n\n",
        b"HTTP/1.1 200 OK\r\ra: b\r\r",
        b"HTTP/1.1 200 OK\r\na: b\r\r\n\r\n",
    ],
)
def test_lines_end_in_crlf_and_nothing_else(block):
    with pytest.raises(Http1Error):
        parse_head(block)


@pytest.mark.parametrize("block", [b"", b"HTTP/1.1 200 OK", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\nx"])
def test_a_head_is_whole_and_nothing_else(block):
    with pytest.raises(Http1Error):
        parse_head(block)


def test_an_error_tells_the_rule_and_nothing_of_what_came():
    with pytest.raises(Http1Error) as raised:
        fields_of(b"my secret\0: the answer")

    assert raised.value.rule == "a field has no control byte"


# ----------------------------------------------------------------------------------------------------------- limits


def test_a_line_has_a_limit():
    assert fields_of(b"x: " + b"y" * (LINE_BYTES - 3)) == [("x", "y" * (LINE_BYTES - 3))]
    with pytest.raises(Http1Error):
        fields_of(b"x: " + b"y" * (LINE_BYTES - 2))
    with pytest.raises(Http1Error):  # known before its end has come
        Section(is_head=True).feed(b"HTTP/1.1 200 " + b"y" * LINE_BYTES)


def test_lines_have_a_limit():
    assert len(fields_of(*[b"x: y"] * (LINES - 1))) == LINES - 1  # and the status line
    with pytest.raises(Http1Error):
        fields_of(*[b"x: y"] * LINES)
    with pytest.raises(Http1Error):
        fields_of(b"x: y", *[b" "] * LINES)


def test_a_head_has_a_limit():
    status, end = b"HTTP/1.1 200 OK\r\n", b"\r\n"
    line = b"x: " + b"y" * (LINE_BYTES - 5) + b"\r\n"
    last = b"x: " + b"y" * (HEAD_BYTES - len(status) - 3 * len(line) - len(end) - 5) + b"\r\n"

    assert len(parse_head(status + 3 * line + last + end).fields) == 4
    with pytest.raises(Http1Error):
        parse_head(status + 3 * line + b"x" + last + end)
    with pytest.raises(Http1Error):
        Section(is_head=True, limit_bytes=40).feed(status + b"x" * 24)


# ------------------------------------------------------------------------------------------------------------- cuts


def test_a_head_can_be_followed_by_other_bytes():
    section = Section(is_head=True)

    assert section.feed(b"..HTTP/1.1 200 OK\r\n\r\nbody", 2) == 21


@given(FIELDS, st.lists(st.integers(0, 60), max_size=8))
def test_a_head_is_read_as_it_was_written_however_it_is_cut(fields, cuts):
    block = b"HTTP/1.1 200 OK\r\n" + field_lines(fields) + b"\r\n"

    expected = ResponseHead((1, 1), 200, "OK", tuple(fields))
    assert parse_head(block) == expected
    assert read(block, *[min(cut, len(block)) for cut in cuts]) == expected
    assert read(block, *range(len(block))) == expected


PARTS = st.sampled_from([b"HTTP/1.1 200", b" OK", b"\r\n", b"\n", b"\r", b"a: b", b" ", b":", b"x", b"\0", b"\xff"])


@given(st.lists(PARTS, max_size=16).map(b"".join))
def test_whatever_the_bytes_are_the_cut_does_not_matter(tail):
    block = b"HTTP/1.1 200" + tail
    end = block.find(b"\r\n\r\n")
    block = block if end < 0 else block[: end + 4]

    assert read(block) == read(block, *range(len(block)))


# -------------------------------------------------------------------------------------------------------- what we write


def test_a_request_head_is_written_as_it_is_given():
    head = request_head("POST", "/v1/x?a=%3A", [("Host", "a"), ("x-B", ""), ("x-B", "é \udcff")])

    assert head == b"POST /v1/x?a=%3A HTTP/1.1\r\nHost: a\r\nx-B: \r\nx-B: \xc3\xa9 \xff\r\n\r\n"


@pytest.mark.parametrize("method", ["", "GE T", "GET\r\n", "G\0T", "GÉT"])
def test_a_method_is_a_token(method):
    with pytest.raises(Http1Error):
        request_head(method, "/", [])


@pytest.mark.parametrize("target", ["", "/a b", "/\r\nx: y", "/\n", "/\0", "/\t", "/\x7f"])
def test_a_target_is_one_word(target):
    with pytest.raises(Http1Error):
        request_head("GET", target, [])


@pytest.mark.parametrize("field", [("", "y"), ("x y", "z"), ("x:", "y"), ("x\r\ny", "z"), ("é", "y")])
def test_a_field_name_is_a_token(field):
    with pytest.raises(Http1Error):
        request_head("GET", "/", [field])


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb", "a\rb", "a\0b", "a\x1fb"])
def test_a_field_value_cannot_begin_another_line(value):
    with pytest.raises(Http1Error):
        request_head("GET", "/", [("x", value)])


@pytest.mark.parametrize("value", ["\ud800", "\U0001f600\udbff"])
def test_a_surrogate_that_stands_for_no_byte_is_refused(value):
    with pytest.raises(Http1Error):
        request_head("GET", "/" + value, [])
    with pytest.raises(Http1Error):
        field_lines([("x", value)])


@given(FIELDS)
def test_fields_are_written_as_they_are_read(fields):
    written = field_lines(fields)

    assert written.count(b"\r\n") == written.count(b"\n") == written.count(b"\r") == len(fields)
    section = Section(is_head=False)
    assert section.feed(written + b"\r\n") == len(written) + 2
    assert section.fields == fields
