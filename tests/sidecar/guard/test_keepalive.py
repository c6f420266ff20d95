"""Comments of ours change nothing for whoever reads on: not the events, not the bytes once they are removed."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.guard.keepalive import TEXT_BYTES, BomShield, Form, Pulse, comment, may_pulse
from sidecar.inspection.events import Unit
from sidecar.inspection.splitter import splitter_for

S = 1_000_000_000
BOM = b"\xef\xbb\xbf"
BLOCK = comment("keepalive")
SSE = {
    "status": 200,
    "content_type": "text/event-stream",
    "content_encoding": None,
    "has_length": False,
    "framing": "sse",
    "is_signed": False,
    "on_signed": False,
}

_LINE = st.sampled_from(
    [b"data: a", b"data:b", b"data", b"event: e", b"id: 1", b"id", b"id: \0", b": remark", b":", b"retry: 9", b"x: y"]
)
_END = st.sampled_from([b"\n", b"\r\n", b"\r"])
_BLOCK = st.tuples(st.lists(_LINE, max_size=4), _END, _END).map(
    lambda block: b"".join(line + block[1] for line in block[0]) + block[2]
)
bodies = st.lists(_BLOCK, max_size=8).map(b"".join)
cuts = st.lists(st.integers(0, 200), max_size=12)


def pieces_of(body: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    return [body[start:end] for start, end in pairwise(edges)]


def pulsed(body: bytes, cuts: list[int], *, form: Form = Form.AUTO) -> list[tuple[bytes, bool]]:
    """The body with a comment wherever one may stand when so much of it has come; each piece with whether it is ours.

    One comes before the first byte, as when the upstream is slow to answer and early ones are wanted.
    """
    splitter, pulse, shield = splitter_for("sse"), Pulse(1, BLOCK, form=form), BomShield()
    written, has_id = [(pulse.beat(has_id=False), True)], False
    for piece in pieces_of(body, cuts):
        units = splitter.feed(piece)
        has_id |= bool(units) and units[-1].id != b""
        written += shield.feed(piece)
        if pulse.due(1, 0, is_at_boundary=splitter.is_at_boundary, is_over=False):
            written.append((pulse.beat(has_id=has_id), True))
    return written


def joined(written: list[tuple[bytes, bool]]) -> bytes:
    return b"".join(data for data, _ in written)


def lines_of(body: bytes) -> list[bytes]:
    """The lines that have an end."""
    return body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")[:-1]


def strict_reader(body: bytes) -> list[tuple[bytes, bytes]]:
    """Events as the standard has them."""
    splitter = splitter_for("sse")
    return [(unit.name, unit.data, unit.id) for unit in splitter.feed(body) if unit.unit is Unit.EVENT]


def loose_reader(body: bytes) -> list[tuple[bytes, bytes]]:
    """As several client libraries read: any blank line ends an event, once there was an id."""
    events, name, data, last_id, retry = [], b"", [], b"", None
    for line in lines_of(body.removeprefix(BOM)):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not line:
            if name or data or last_id or retry is not None:
                events.append((name, b"\n".join(data), last_id))
            name, data, retry = b"", [], None
        elif field == b"event":
            name = value
        elif field == b"data":
            data.append(value)
        elif field == b"id" and b"\0" not in value:
            last_id = value
        elif field == b"retry":
            retry = value
    return events


def block_reader(body: bytes) -> list[bytes]:
    """As people read by hand: split at blank lines, and look at how each piece begins."""
    blocks = b"\n".join([*lines_of(body.removeprefix(BOM)), b""]).split(b"\n\n")
    return [block for block in blocks if block.strip(b"\n").startswith(b"data: ")]


# ---------------------------------------------------------------------------------------------------- what is written


@pytest.mark.parametrize(
    ("text", "written"),
    [("keepalive", b": keepalive\n\n"), ("", b":\n\n"), ("ping é", b": ping \xc3\xa9\n\n"), (": x", b": : x\n\n")],
)
def test_a_comment_is_a_block_of_its_own(text, written):
    assert comment(text) == written


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a\nb", "no CR, LF or NUL"),
        ("a\r", "no CR, LF or NUL"),
        ("\0", "no CR, LF or NUL"),
        ("x" * (TEXT_BYTES + 1), "at most 200 bytes, and is 201"),
        ("é" * 101, "at most 200 bytes, and is 202"),
    ],
)
def test_a_text_that_cannot_be_a_comment_is_refused(text, why):
    with pytest.raises(ValueError, match=why):
        comment(text)


@given(st.text(max_size=60))
def test_whatever_it_says_it_is_one_comment(text):
    try:
        said = comment(text)
    except ValueError:
        assert re.search(r"[\r\n\0]", text) or len(text.encode("utf-8", "surrogateescape")) > TEXT_BYTES
    else:
        assert [unit.unit for unit in splitter_for("sse").feed(said)] == [Unit.COMMENT]


@pytest.mark.parametrize(
    ("form", "before_id", "after_id"),
    [
        (Form.AUTO, b": keepalive\n\n", b": keepalive\n"),
        (Form.BLOCK, b": keepalive\n\n", b": keepalive\n\n"),
        (Form.LINE, b": keepalive\n", b": keepalive\n"),
    ],
)
def test_the_form_decides_on_the_blank_line(form, before_id, after_id):
    pulse = Pulse(S, BLOCK, form=form)

    assert (pulse.beat(has_id=False), pulse.beat(has_id=True)) == (before_id, after_id)


# ------------------------------------------------------------------------------------------------------ where and when


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"content_type": "text/event-stream; charset=utf-8"},
        {"content_type": 'text/event-stream;charset="UTF-8"'},
        {"content_type": "text/event-stream; charset=windows-1252"},
        {"content_encoding": "identity"},
        {"is_signed": True, "on_signed": True},
        {"status": 201},
    ],
)
def test_comments_may_stand_in_a_plain_stream_of_events(said):
    assert may_pulse(**SSE | said)


@pytest.mark.parametrize(
    "said",
    [
        {"framing": "ndjson", "content_type": "application/x-ndjson"},
        {"framing": "json_array", "content_type": "application/json"},
        {"framing": "eventstream", "content_type": "application/vnd.amazon.eventstream"},
        {"framing": "opaque", "content_type": None},
        {"framing": "websocket"},
        {"content_encoding": "gzip"},
        {"content_encoding": "identity, br"},
        {"content_type": "text/event-stream; charset=utf-16"},
        {"content_type": "text/event-stream; x=1; charset = 'UTF-32LE'"},
        {"has_length": True},
        {"is_signed": True},
        {"status": 204},
        {"status": 206},
        {"status": 404},
        {"status": 101},
    ],
)
def test_comments_stand_in_nothing_else(said):
    assert not may_pulse(**SSE | said)


def test_a_comment_is_due_when_nothing_was_written_for_so_long():
    pulse = Pulse(15 * S, BLOCK)

    assert not pulse.due(25 * S - 1, 10 * S, is_at_boundary=True, is_over=False)
    assert pulse.due(25 * S, 10 * S, is_at_boundary=True, is_over=False)


@given(st.booleans(), st.booleans(), st.booleans(), st.integers(0, 100))
def test_it_is_never_due_in_an_open_block_after_the_end_or_for_a_reader_who_takes_nothing(boundary, over, stuck, at_ns):
    is_due = Pulse(50, BLOCK).due(at_ns, 0, is_at_boundary=boundary, is_over=over, is_blocked=stuck)

    assert is_due is (at_ns >= 50 and boundary and not over and not stuck)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"event: message_delta\n", b"data: x\n\n"),
        (b"data: x\n", b"\n"),
        (b"data: x\r", b"\n\r\n"),
        (b"data: x\r\n\r", b"\n"),
        (b"data: [DONE]\n", b"\n"),
        (b"data: a\n\n: rem", b"ark\n\n"),
        (b"\xef\xbb", b"\xbfdata: x\n\n"),
    ],
)
def test_nothing_is_put_into_an_open_block(before, after):
    written = pulsed(before + after, [len(before)])

    assert joined(written).count(b"keepalive") == 2  # before everything, and after it


# ----------------------------------------------------------------------------------------------- the same for everybody


@given(st.sampled_from([b"", BOM]), bodies, cuts, st.sampled_from(Form))
def test_without_ours_the_bytes_are_the_upstreams_and_with_them_the_events_are(bom, body, cuts, form):
    written = pulsed(bom + body, cuts, form=form)

    assert b"".join(data for data, is_ours in written if not is_ours) == bom + body
    assert strict_reader(joined(written)) == strict_reader(bom + body)


@given(st.sampled_from([b"", BOM]), bodies, cuts, st.sampled_from([Form.AUTO, Form.LINE]))
def test_a_reader_to_whom_every_blank_line_is_an_event_gets_no_further_one(bom, body, cuts, form):
    assert loose_reader(joined(pulsed(bom + body, cuts, form=form))) == loose_reader(bom + body)


@given(bodies, cuts)
def test_a_reader_who_looks_at_how_each_block_begins_finds_them_all(body, cuts):
    assert block_reader(joined(pulsed(body, cuts, form=Form.BLOCK))) == block_reader(body)


def test_a_blank_line_would_be_an_event_for_some_once_there_was_an_id_and_missing_would_hide_one_from_others():
    with_id, without = b"id: 1\ndata: a\n\n", b"data: a\n\n"

    assert len(loose_reader(with_id + BLOCK)) == 2
    assert len(loose_reader(without + BLOCK)) == 1
    assert block_reader(without + BLOCK + without) == block_reader(without + without)
    assert block_reader(without + BLOCK[:-1] + without) != block_reader(without + without)


# ------------------------------------------------------------------------------------------------------ the byte order


@pytest.mark.parametrize(
    ("reads", "written"),
    [
        ([BOM + b"data: a\n\n"], b":" + BOM + b"\ndata: a\n\n"),
        ([b"\xef", b"\xbb", b"\xbf", b"data: a\n\n"], b":" + BOM + b"\ndata: a\n\n"),
        ([b"\xef\xbb", b"\xbf\xef\xbb\xbfdata"], b":" + BOM + b"\n" + BOM + b"data"),
        ([b"data: a\n\n", BOM], b"data: a\n\n" + BOM),
        ([b"\xef\xbbdata: a\n\n"], b":\xef\xbbdata: a\n\n"),
        ([b"\xef", b"data: a\n\n"], b":\xefdata: a\n\n"),
        ([b"", BOM, b""], b":" + BOM + b"\n"),
    ],
)
def test_a_mark_behind_a_comment_becomes_a_comment(reads, written):
    shield = BomShield()

    assert b"".join(data for read in reads for data, _ in shield.feed(read)) == written


@given(st.lists(st.sampled_from([b"\xef", b"\xbb", b"\xbf", BOM, b"a", b"\n", b""]), max_size=8))
def test_the_shield_loses_no_byte_keeps_none_back_and_puts_in_two_at_most(reads):
    shield, ours = BomShield(), b""
    for read in reads:
        pieces = shield.feed(read)
        assert b"".join(data for data, is_ours in pieces if not is_ours) == read
        assert all(data for data, _ in pieces)
        ours += b"".join(data for data, is_ours in pieces if is_ours)
    assert ours == (b":\n" if b"".join(reads).startswith(BOM) else b":" * b"".join(reads).startswith(b"\xef"))


def test_a_shield_that_is_through_says_so():
    shield = BomShield()
    shield.feed(b"\xef\xbb")
    assert not shield.is_done
    shield.feed(b"\xbf")
    assert shield.is_done
    assert shield.feed(BOM) == [(BOM, False)]
