"""Chunks are read as they come, to the letter, and written so that they read back."""

import itertools
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.http1.chunked import LAST_CHUNK, TRAILER_BYTES, ChunkedReader, encode_chunk, last_chunk, whole_chunks
from sidecar.http1.head import LINES, Http1Error


def read(body: bytes, *cuts: int) -> tuple[ChunkedReader, list[bytes]]:
    """A body read in the pieces between the cuts."""
    reader = ChunkedReader()
    pieces = []
    for start, end in itertools.pairwise([0, *sorted(cuts), len(body)]):
        pieces += reader.feed(body[start:end])
    return reader, pieces


def outcome(body: bytes, *cuts: int) -> tuple[bytes, str | None, bool, tuple[tuple[str, str], ...]]:
    reader, pieces = read(body, *cuts)
    assert all(pieces)
    return b"".join(pieces), reader.error, reader.is_done, reader.trailers


# ---------------------------------------------------------------------------------------------------------- content


@pytest.mark.parametrize(
    ("body", "pieces"),
    [
        (b"0\r\n\r\n", []),
        (b"5\r\nhello\r\n0\r\n\r\n", [b"hello"]),
        (b"5\r\nhello\r\n1\r\n!\r\n000\r\n\r\n", [b"hello!"]),
        (b"A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", [b"0123456789" * 2]),
        (b"0000000000000005\r\nhello\r\n0\r\n\r\n", [b"hello"]),
        (b'5;x="y z" ;\tw\r\nhello\r\n0;last\r\n\r\n', [b"hello"]),
        (b"5 \t;x\r\nhello\r\n0 ;x\r\n\r\n", [b"hello"]),
        (b"5;\xff\r\nhello\r\n0\r\n\r\n", [b"hello"]),
        (b"2\r\n\r\n\r\n0\r\n\r\n", [b"\r\n"]),
    ],
)
def test_a_body_is_its_chunks(body, pieces):
    reader, found = read(body)

    assert (found, reader.error, reader.is_done, reader.rest) == (pieces, None, True, b"")
    assert outcome(body, *range(len(body))) == (b"".join(pieces), None, True, ())


def test_content_is_given_out_with_the_read_that_brought_it():
    reader = ChunkedReader()

    assert [reader.feed(data) for data in (b"5\r", b"\nhe", b"llo", b"\r", b"\n1\r\n!\r\n2\r\n?")] == [
        [],
        [b"he"],
        [b"llo"],
        [],
        [b"!", b"?"],
    ]
    assert not reader.is_done
    assert reader.feed(b"?\r\n0\r\n") == [b"?"]
    assert not reader.is_done
    assert reader.feed(b"\r\n") == []
    assert reader.is_done


def test_a_read_within_a_chunk_is_not_copied():
    reader = ChunkedReader()
    reader.feed(b"ffff\r\n")
    data = b"x" * 1_000

    assert reader.feed(data)[0] is data


def test_what_comes_after_the_end_is_the_rest():
    reader, pieces = read(b"1\r\n!\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n")

    assert (pieces, reader.is_done, reader.rest) == ([b"!"], True, b"HTTP/1.1 200 OK\r\n\r\n")
    assert reader.feed(b"5\r\nhello\r\n") == []


def test_an_empty_feed_changes_nothing():
    reader = ChunkedReader()

    assert (reader.feed(b""), reader.is_done, reader.error) == ([], False, None)


# ----------------------------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b" 5",
        b"5 ",
        b"+5",
        b"-5",
        b"0x5",
        b"5_0",
        b"g",
        b"5,x",
        b"5 x",
        b"5;\0",
        b"5;\n",
        b"5;a\rb",
        b"00000000000000005",
        b"\xd9\xa5",
        b"5;" + b"x" * 4_097,
    ],
)
@pytest.mark.parametrize("end", [b"\r\nhello\r\n0\r\n\r\n", b"\nhello\r\n0\r\n\r\n"])
def test_what_is_no_size_line_is_an_error(line, end):
    body = b"1\r\n!\r\n" + line + end

    content, error, is_done, _ = outcome(body)
    assert (content, is_done) == (b"!", False)
    assert error
    assert outcome(body, *range(len(body))) == (content, error, is_done, ())


@pytest.mark.parametrize(
    "beginning", [b"z", b"\r", b"\n", b"5\n", b"5\r5", b"5 x", b"12345678123456781", b"5;\0", b"HTTP"]
)
def test_a_size_line_need_not_end_to_be_wrong(beginning):
    reader, _ = read(beginning)

    assert reader.error


@pytest.mark.parametrize("end", [b"XX", b"\n", b"\rX", b"\n\r", b"0\r\n\r\n", b"\r\r\n"])
def test_content_is_as_long_as_its_chunk_says(end):
    body = b"5\r\nhello" + end + b"0\r\n\r\n"

    content, error, is_done, _ = outcome(body)
    assert (content, is_done) == (b"hello", False)
    assert error
    assert outcome(body, *range(len(body))) == (content, error, is_done, ())


def test_after_an_error_nothing_comes():
    reader, pieces = read(b"1\r\n!\r\nz\r\n")

    assert pieces == [b"!"]
    assert reader.feed(b"1\r\n!\r\n") == []
    assert not reader.is_done
    assert reader.rest == b""


def test_a_body_that_is_not_over_is_neither_done_nor_wrong():
    body = b"5;x\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\nx: y\r\n\r\n"
    for stop in range(len(body)):
        _, error, is_done, _ = outcome(body[:stop])
        assert (error, is_done) == (None, False)


def test_a_size_of_64_bits_is_only_a_number():
    reader, pieces = read(b"ffffffffffffffff\r\nhello")

    assert (pieces, reader.error, reader.is_done) == ([b"hello"], None, False)


# --------------------------------------------------------------------------------------------------------- trailers


def test_trailers_are_fields():
    body = b"0\r\nX-C: abc \r\nx-c: d\r\n\r\nrest"

    reader, _ = read(body)
    assert (reader.trailers, reader.rest) == ((("X-C", "abc"), ("x-c", "d")), b"rest")


def test_a_trailer_cannot_change_how_the_message_was_read():
    body = last_chunk([("Content-Length", "5"), ("Host", "a"), ("Connection", "x"), ("set-cookie", "a=b"), ("x", "y")])

    assert outcome(body)[3] == (("x", "y"),)


@pytest.mark.parametrize(
    "section", [b"x y: z\r\n\r\n", b"x: y\n\r\n", b" x: y\r\n\r\n", b"x: \0\r\n\r\n", b"x\r\n\r\n", b"\n"]
)
def test_a_trailer_that_is_none_is_an_error(section):
    content, error, is_done, trailers = outcome(b"1\r\n!\r\n0\r\n" + section)

    assert (content, is_done, trailers) == (b"!", False, ())
    assert error


def test_a_trailer_section_has_limits():
    assert outcome(b"0\r\n" + b"x: y\r\n" * LINES + b"\r\n")[2]
    assert outcome(b"0\r\n" + b"x: y\r\n" * (LINES + 1) + b"\r\n")[1]
    assert outcome(b"0\r\nx: " + b"y" * TRAILER_BYTES)[1]


# -------------------------------------------------------------------------------------------------------- whole chunks


@pytest.mark.parametrize(
    ("data", "content"),
    [
        (b"5\r\nhello\r\n", b"hello"),
        (b"5\r\nhello\r\n0001\r\n!\r\n", b"hello!"),
        (b"", None),
        (b"5\r\nhello\r", None),
        (b"5\r\nhello\r\n1", None),
        (b"5;x=y\r\nhello\r\n", None),
        (b"5 \r\nhello\r\n", None),
        (b"5\r\nhello\n\n", None),
        (b"5\r\nhello\r\n0\r\n\r\n", None),
        (b"0\r\n\r\n", None),
        (b"+5\r\nhello\r\n", None),
        (b"0x5\r\nhello\r\n", None),
        (b"\r\n5\r\nhello\r\n", None),
        (b"00000000000000005\r\nhello\r\n", None),
        (b"ffffffffffffffff\r\nhello\r\n", None),
        (b"5\nhello\r\n", None),
    ],
)
def test_only_whole_chunks_as_everybody_writes_them_are_told_apart(data, content):
    found, at = whole_chunks(data, 0)

    assert (found if found and at == len(data) else None) == content
    assert read(data[:at])[1] == ([found] if found else [])


def test_within_a_chunk_or_a_size_line_none_begins():
    for begun in (b"5\r\nhe", b"5", b"5\r\nhello", b"5\r\nhello\r", b"0\r\n", b"0\r\n\r\n", b"?"):
        assert not read(begun)[0].is_between
    for whole in (b"", b"5\r\nhello\r\n", b"5;x\r\nhello\r\n"):
        assert read(whole)[0].is_between


# ---------------------------------------------------------------------------------------------------------- any bytes


CHUNKS = st.lists(st.binary(min_size=1, max_size=20), max_size=6)
CUTS = st.lists(st.integers(0, 200), max_size=10)
PARTS = st.sampled_from(
    [b"0", b"1", b"a", b"\r\n", b"\r", b"\n", b";", b" ", b"x: y", b":", b"5\r\nhello\r\n", b"\0", b"\xff"]
)


@given(CHUNKS, CUTS)
def test_what_is_written_reads_back_however_it_is_cut(chunks, cuts):
    body = b"".join(map(encode_chunk, chunks)) + last_chunk([("x-sum", "é")])

    assert outcome(body, *[min(cut, len(body)) for cut in cuts]) == (b"".join(chunks), None, True, (("x-sum", "é"),))
    assert read(body)[1] == [b"".join(chunks)] * bool(chunks)


@given(st.lists(PARTS, max_size=24).map(b"".join), CUTS)
def test_whatever_the_bytes_are_the_cut_does_not_matter(body, cuts):
    whole, _ = read(body)

    assert outcome(body, *[min(cut, len(body)) for cut in cuts]) == outcome(body) == outcome(body, *range(len(body)))
    assert body.endswith(whole.rest)
    assert not (whole.is_done and whole.error)


@given(st.lists(PARTS, max_size=24).map(b"".join), CUTS)
def test_whole_chunks_are_what_would_have_been_read(body, cuts):
    reader, pieces = ChunkedReader(), []
    for start, end in itertools.pairwise([0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]):
        content, at = whole_chunks(body[start:end], 0) if reader.is_between else (b"", 0)
        pieces += [content] * bool(content) + reader.feed(body[start:end][at:])
    read_through = (b"".join(pieces), reader.error, reader.is_done, reader.trailers)

    assert read_through == outcome(body)


def test_what_is_kept_does_not_grow_with_the_body():
    reader = ChunkedReader()
    block = encode_chunk(b"x" * 100) * 300 + b"fff0\r\n" + b"y" * 0xFFF0 + b"\r\n"
    reader.feed(block)
    tracemalloc.start()
    for _ in range(50):
        reader.feed(block)
    kept_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept_bytes < 4_096


# -------------------------------------------------------------------------------------------------------- what we write


def test_an_empty_chunk_is_not_written_because_it_would_be_the_last():
    assert encode_chunk(b"") == b""
    assert encode_chunk(b"x" * 26) == b"1a\r\n" + b"x" * 26 + b"\r\n"


def test_the_last_chunk_carries_the_trailers():
    assert last_chunk() == last_chunk(()) == LAST_CHUNK == b"0\r\n\r\n"
    assert last_chunk([("x", "y"), ("x", "\udcff")]) == b"0\r\nx: y\r\nx: \xff\r\n\r\n"
    with pytest.raises(Http1Error):
        last_chunk([("x", "y\r\n")])
