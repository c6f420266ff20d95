"""Keepalives are found again wherever they were put in, and one in a wrong place is told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.readers.bodies import cleaned, differences, has_id, may_stand
from tests.readers.streams import BOM, After, Stream, draw

TEXT = "here we are"
COMMENT = f": {TEXT}\n\n".encode()
LINE = f": {TEXT}\n".encode()


def stream_of(body: bytes, **changes) -> Stream:
    plain = replace(draw(1, 1), writes=(body,), body=body, framing="chunked", is_encoded=False, over_at=None)
    return replace(plain, **changes)


@given(st.integers(0, 1 << 40), st.data())
def test_a_body_is_what_it_was_once_the_keepalives_are_out(number, data):
    sent = b"".join(draw(2, number).writes)
    places = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=5)))
    got, end = b"", 0
    for place in places:
        got += sent[end:place] + (LINE if has_id(sent[:place]) else COMMENT)
        end = place
    got += sent[end:]
    found = cleaned(got, TEXT)
    assert (found.body, list(found.places)) == (sent, places)


def test_a_byte_order_mark_behind_a_keepalive_is_taken_out_of_its_line():
    body = BOM + b"data: 1\n\ndata: 2\n\n"
    got = COMMENT + b":" + BOM + b"\n" + b"data: 1\n\n" + COMMENT + b"data: 2\n\n"
    assert cleaned(got, TEXT).places == (0, len(BOM) + 9)
    assert differences(stream_of(body), got, TEXT) == ""


@pytest.mark.parametrize("at", [0, 9, 18, 25, 26])
def test_a_keepalive_between_blocks_or_behind_a_comment_may_stand(at):
    assert may_stand(b"data: 1\n\ndata: 2\n\n: ping\n\n", at, over_at=None)


@pytest.mark.parametrize(
    ("body", "at", "over_at"),
    [
        (b"data: 1\n\n", 3, None),
        (b"data: 1\ndata: 2\n\n", 8, None),
        (b"data: 1\r\n\r\ndata: 2\r\n\r\n", 10, None),
        (b"data: 1\n\ndata: [DONE]\n\n", 23, 9),
        (b"data: 1\n\ndata: [DONE]\n\n", 22, 9),
    ],
)
def test_a_keepalive_in_a_block_or_a_line_end_or_behind_the_end_is_told(body, at, over_at):
    stream = stream_of(body, over_at=over_at)
    assert "a keepalive at" in differences(stream, body[:at] + COMMENT + body[at:], TEXT)


def test_what_a_body_may_not_have_is_told():
    body = b"data: 1\n\n"
    assert "may have none" in differences(stream_of(body, framing="length"), COMMENT + body, TEXT)
    assert "may have none" in differences(stream_of(body, is_encoded=True), COMMENT + body, TEXT)
    assert "the first difference at 6" in differences(stream_of(body), b"data: 2\n\n", TEXT)
    assert "0 bytes beside" in differences(stream_of(body, after=After.END), COMMENT, TEXT)


@pytest.mark.parametrize(
    ("body", "is_in_force"),
    [
        (b"data: 1\n\n", False),
        (b"id: 1\n\n", True),
        (b"data: 1\r\nid:1\r\n\r\ndata: 2\r\n\r\n", True),
        (b"id: 1\n\nid\ndata: 2\n\n", False),
        (b"id: 1\n\nid:\ndata: 2\n\n", False),
        (b"id: 1\n\nid: 2\0\n\n", True),
        (b"identity: 1\n\n", False),
    ],
)
def test_an_id_is_in_force_until_an_empty_one(body, is_in_force):
    assert has_id(body) is is_in_force
