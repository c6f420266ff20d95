"""A read is whole chunks, which go the short way, or goes the other way as it is; compiled it is the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.http1.chunked import ChunkedReader, encode_chunk
from sidecar.http1.receiving import Receiver
from tests.support.parts import each_kind

READS = st.lists(
    st.one_of(
        st.binary(min_size=1, max_size=12).map(encode_chunk),
        st.sampled_from([b"1\r\nx", b"\r\n", b"0\r\n\r\n", b"2;x\r\nab\r\n", b"003\r\nabc\r\n", b"x", b"1\n!\r\n"]),
    ),
    max_size=5,
).map(b"".join)


def passed(receiver_type, read, *, has_sink=True):
    """What the sink got, and what went the other way."""
    buffer = memoryview(bytearray(256))
    buffer[: len(read)] = read
    sunk, came, now = [], [], iter(range(100, 200))
    receiver = receiver_type(buffer, lambda: next(now), lambda data, at_ns: came.append((data, at_ns)))
    receiver.sink = (lambda content, at_ns, framed: sunk.append((content, at_ns, framed))) if has_sink else None
    receiver(len(read))
    return sunk, came


@each_kind()
def test_whole_chunks_go_the_short_way_with_their_framing(parts):
    assert passed(parts.receiver, b"1\r\na\r\n02\r\nbc\r\n") == ([(b"abc", 100, b"1\r\na\r\n02\r\nbc\r\n")], [])


@each_kind()
@pytest.mark.parametrize("read", [b"", b"1\r\na", b"1;x\r\na\r\n", b"1\r\na\r\n0\r\n\r\n", b"\r\n"])
def test_anything_else_goes_the_other_way_as_it_came(parts, read):
    assert passed(parts.receiver, read) == ([], [(read, 100)])


@each_kind()
def test_without_a_sink_everything_does(parts):
    assert passed(parts.receiver, b"1\r\na\r\n", has_sink=False) == ([], [(b"1\r\na\r\n", 100)])


@each_kind()
def test_what_a_sink_raises_is_raised(parts):
    receiver = parts.receiver(memoryview(bytearray(b"1\r\na\r\n")), lambda: 0, lambda *_: None)
    receiver.sink = lambda *_: 1 // 0
    with pytest.raises(ZeroDivisionError):
        receiver(6)


@each_kind()
@given(read=READS)
def test_the_short_way_is_what_a_reader_would_have_read(parts, read):
    sunk, came = passed(parts.receiver, read)
    assert (sunk, came) == passed(Receiver, read)
    if sunk:
        reader = ChunkedReader()
        assert b"".join(reader.feed(read)) == sunk[0][0]
        assert reader.is_between
