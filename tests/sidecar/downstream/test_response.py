"""The answer as it leaves: heads byte for byte, framing by what both sides can do, nothing whole by mistake."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.downstream.response import Response, head_bytes
from sidecar.http1.reader import Content, Finished, Head, ResponseReader


class Wire:
    """A transport that keeps what it is given."""

    def __init__(self):
        self.data = b""
        self.write_count = 0
        self.is_gone = False

    def write(self, data):
        self.data += data
        self.write_count += 1

    def is_closing(self):
        return self.is_gone

    def get_write_buffer_size(self):
        return 0


def response(*, method="GET", version=(1, 1), keep_alive=True):
    wire = Wire()
    major, minor = version
    request = SimpleNamespace(
        transport=wire,
        writer=None,
        version=SimpleNamespace(major=major, minor=minor),
        method=method,
        keep_alive=keep_alive,
    )
    return Response(request), wire


def test_a_body_without_length_is_chunked_for_a_client_that_knows_chunks():
    answer, wire = response()

    answer.begin(200, "OK", [("X-Odd", "1"), ("X-Odd", "2")])
    answer.write(b"hello")
    answer.end()

    assert wire.data == (
        b"HTTP/1.1 200 OK\r\nX-Odd: 1\r\nX-Odd: 2\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    )
    assert answer.output_size == len(wire.data)
    assert answer.handed().keep_alive


@pytest.mark.parametrize("is_followed", [False, True])
@pytest.mark.parametrize("body", [b"", b"hello"])
@pytest.mark.parametrize("fields", [[], [("Content-Length", "5")]], ids=["chunked", "length"])
def test_a_head_that_is_followed_goes_out_with_what_follows_and_is_the_same(fields, body, is_followed):
    (answer, wire), (other, all_at_once) = response(), response()
    answer.begin(200, "OK", fields, is_followed=is_followed and bool(body or not fields))
    sizes = [answer.output_size, len(wire.data)]
    other.begin(200, "OK", fields)
    if body:
        answer.write(body)
        other.write(body)
    write_count = wire.write_count
    answer.end()
    other.end()

    assert (wire.data, answer.output_size) == (all_at_once.data, len(wire.data))
    assert sizes[0] == wire.data.index(b"\r\n\r\n") + 4
    if body and is_followed:
        assert (sizes[1], write_count) == (0, 1)


def test_a_head_is_not_kept_for_a_reader_that_has_left():
    answer, wire = response()
    wire.is_gone = True

    with pytest.raises(ConnectionResetError):
        answer.begin(200, "OK", [], is_followed=True)


def test_a_body_without_length_ends_with_the_connection_for_a_client_of_http_1_0():
    answer, wire = response(version=(1, 0))

    answer.begin(200, "OK", [])
    answer.write(b"hello")
    answer.end([("X-Sum", "1")])

    assert wire.data == b"HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nhello"
    assert not answer.handed().keep_alive


def test_a_client_of_http_1_0_that_asks_for_it_keeps_its_connection():
    answer, wire = response(version=(1, 0))

    answer.begin(200, "OK", [("Content-Length", "2")])
    answer.write(b"ab")
    answer.end()

    assert wire.data == b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nab"
    assert answer.handed().keep_alive


def test_a_length_that_came_stays_where_it_stood():
    answer, wire = response()

    answer.begin(200, "", [("content-length", "2"), ("ETag", "x")])

    assert wire.data == b"HTTP/1.1 200 \r\ncontent-length: 2\r\nETag: x\r\n\r\n"


@pytest.mark.parametrize(("method", "status"), [("GET", 204), ("GET", 304), ("HEAD", 200)])
def test_an_answer_that_has_no_body_has_no_framing_of_one(method, status):
    answer, wire = response(method=method)

    answer.begin(status, "R", [("ETag", "x")])
    answer.end([("X-Sum", "1")])

    assert wire.data == b"HTTP/1.1 %d R\r\nETag: x\r\n\r\n" % status
    assert answer.handed().keep_alive


def test_the_length_of_a_304_and_of_a_head_answer_passes_and_that_of_a_204_does_not():
    for method, status, passes in (("GET", 304, True), ("HEAD", 200, True), ("GET", 204, False)):
        answer, wire = response(method=method)
        answer.begin(status, "R", [("Content-Length", "100")])
        assert (b"Content-Length: 100" in wire.data) is passes


def test_trailers_pass_behind_the_last_chunk():
    answer, wire = response()

    answer.begin(200, "OK", [("Trailer", "X-Sum")])
    answer.write(b"a")
    answer.end([("X-Sum", "1")])

    assert wire.data.endswith(b"1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n")


def test_interim_answers_go_before_the_answer_and_only_to_clients_that_know_them():
    new, new_wire = response()
    new.interim(103, "Early Hints", [("Link", "</a>")])
    assert new_wire.data == b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    assert new.output_size == 0, "they are no part of the answer"

    new.begin(200, "OK", [])
    sent = new_wire.data
    new.interim(103, "Early Hints", [])
    assert new_wire.data == sent, "it is too late for one"

    old, old_wire = response(version=(1, 0))
    old.interim(103, "Early Hints", [])
    assert old_wire.data == b""


def test_an_answer_that_did_not_end_in_order_takes_its_connection_with_it():
    answer, _ = response()
    answer.begin(200, "OK", [])
    answer.write(b"a")

    assert not answer.handed().keep_alive


def test_a_client_that_wants_to_close_is_told_so():
    answer, wire = response(keep_alive=False)

    answer.begin(200, "OK", [("Content-Length", "0")])
    answer.end()

    assert b"\r\nConnection: close\r\n" in wire.data
    assert not answer.handed().keep_alive


def test_writing_to_a_reader_that_left_is_an_error():
    answer, wire = response()
    answer.begin(200, "OK", [])
    wire.is_gone = True

    with pytest.raises(ConnectionResetError):
        answer.write(b"a")


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb", "a\rb", "a\0"])
def test_a_field_that_would_become_two_lines_is_refused(value):
    with pytest.raises(ValueError, match="CR, LF or NUL"):
        head_bytes((1, 1), 200, "OK", [("X", value)])


def test_bytes_that_are_no_utf_8_come_back_as_they_were():
    raw = b"caf\xe9 \xff"

    assert raw in head_bytes((1, 1), 200, "OK", [("X", raw.decode("utf-8", "surrogateescape"))])


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=6))
def test_what_is_written_is_read_back_as_it_was(pieces):
    answer, wire = response()
    answer.begin(200, "OK", [("X", "1")])
    for piece in pieces:
        answer.write(piece)
    answer.end([("X-Sum", "2")])

    outputs = ResponseReader("GET").feed(wire.data)

    assert isinstance(outputs[0], Head)
    assert b"".join(each.data for each in outputs if isinstance(each, Content)) == b"".join(pieces)
    assert isinstance(outputs[-1], Finished)
    assert list(outputs[-1].trailers) == [("X-Sum", "2")]
