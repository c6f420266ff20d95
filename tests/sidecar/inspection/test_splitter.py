"""The splitter finds the units of a body however it is cut, and accounts for every byte."""

import itertools
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.inspection.events import Event, Unit
from sidecar.inspection.splitter import FIELD_BYTES, LIMIT_BYTES, Splitter, framing_of, splitter_for
from tests.support.dialects import frame


def split(body: bytes, *cuts: int, framing: str = "sse", limit_bytes: int = LIMIT_BYTES) -> list[Event]:
    """All units of a body that is read in the pieces between the cuts."""
    splitter = splitter_for(framing, limit_bytes=limit_bytes)
    units = []
    edges = [0, *sorted(cuts), len(body)]
    for start, end in itertools.pairwise(edges):
        units += splitter.feed(body[start:end])
        assert sum(unit.size_bytes for unit in units) + splitter.pending_bytes == end
    units += splitter.finish()
    assert sum(unit.size_bytes for unit in units) + splitter.pending_bytes == len(body)
    return units


def dispatched(body: bytes, **options: int) -> list[tuple[bytes, bytes, bytes]]:
    return [(unit.name, unit.data, unit.id) for unit in split(body, **options) if unit.unit is Unit.EVENT]


def kinds(body: bytes, framing: str = "sse") -> list[str]:
    return [unit.unit.value for unit in split(body, framing=framing)]


# -------------------------------------------------------------------------------------------------- what is an event


BLOCKS = [
    (b"data: one\n\n", [b"one"]),
    (b"data: one\r\n\r\n", [b"one"]),
    (b"data: one\r\r", [b"one"]),
    (b"data: one\n\r\n", [b"one"]),
    (b"data: one\r\n\r", [b"one"]),
    (b"data:one\n\ndata: two\n\n", [b"one", b"two"]),
    (b"data:  two spaces\n\n", [b" two spaces"]),
    (b"data:\tone tab\n\n", [b"\tone tab"]),
    (b"data: trailing \n\n", [b"trailing "]),
    (b"data: a\ndata: b\n\n", [b"a\nb"]),
    (b"data: a\r\ndata: b\rdata: c\n\n", [b"a\nb\nc"]),
    (b"data\n\n", [b""]),
    (b"data:\n\n", [b""]),
    (b"data: \n\n", [b""]),
    (b"data\ndata:\n\n", [b"\n"]),
    (b"data: a: b\n\n", [b"a: b"]),
    (b"data: \0\n\n", [b"\0"]),
    (b"Data: x\n\n", []),
    (b" data: x\n\n", []),
    (b"data : x\n\n", []),
    (b"dat: x\n\n", []),
    (b"\n\n\ndata: after blank lines\n\n\n\n", [b"after blank lines"]),
    (b"\r\n\r\ndata: after blank lines\r\n\r\n", [b"after blank lines"]),
    (b": remark\ndata: x\n: remark\n\n", [b"x"]),
    ("data: a\u2028b\u0085c\v\f\x1cd\n\n".encode(), ["a\u2028b\u0085c\v\f\x1cd".encode()]),
    (b"data: \xff\xfe\n\n", [b"\xff\xfe"]),
    (b"data: one\n\ndata: never ended\n", [b"one"]),
    (b"retry: 10\ndata: x\n\n", [b"x"]),
    (b"data: a\rdata: b\r\n\r\n", [b"a\nb"]),
    (b"event: e\rdata: a\r\ndata: b\r\n\r\n", [b"a\nb"]),
    (b"event: e\ndata: a\r\ndata: b\r\n\r\n", [b"a\nb"]),
    (b"event: e\nid: 1\ndata: a\n\n", [b"a"]),
    (b"", []),
]


@pytest.mark.parametrize(("body", "data"), BLOCKS)
def test_a_block_with_data_is_an_event(body, data):
    assert [event[1] for event in dispatched(body)] == data


@pytest.mark.parametrize("before", [b"data: before\n\n", b"data: before\r\n\r\n", b": remark\n\n", b"\r"])
@pytest.mark.parametrize(("body", "data"), BLOCKS)
def test_a_block_is_the_same_event_wherever_it_stands(before, body, data):
    units = split(before + body, len(before))

    assert [unit.data for unit in units if unit.unit is Unit.EVENT and unit.data != b"before"] == data


def test_the_name_lasts_for_one_event_and_an_empty_name_is_the_default():
    body = b"event: start\ndata: a\n\ndata: b\n\nevent:\ndata: c\n\nevent: x\nevent: y\ndata: d\n\n"

    assert [event[0] for event in dispatched(body)] == [b"start", b"", b"", b"y"]


def test_the_name_may_come_after_the_data():
    assert dispatched(b'data: {"a":1}\nevent: late\n\n') == [(b"late", b'{"a":1}', b"")]


def test_the_id_lasts_until_another_one_comes():
    body = b"id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\nid: 2\n\ndata: d\n\n"

    assert [event[2] for event in dispatched(body)] == [b"1", b"1", b"", b"2"]


def test_an_id_with_a_nul_in_it_is_ignored():
    assert [event[2] for event in dispatched(b"id: 1\nid: 2\0\ndata: a\n\n")] == [b"1"]


def test_the_id_of_a_block_that_never_ended_does_not_count():
    assert [(unit.unit, unit.id) for unit in split(b"data: a\n\nid: 9\ndata: b")] == [
        (Unit.EVENT, b""),
        (Unit.TAIL, b""),
    ]


def test_one_leading_bom_is_no_part_of_the_stream_and_a_later_one_is():
    bom = b"\xef\xbb\xbf"

    assert dispatched(bom + b"data: a\n\n" + bom + b"data: b\n\ndata: c\n\n") == [(b"", b"a", b""), (b"", b"c", b"")]
    assert dispatched(b"data: a\n\n" + bom + b"data: b\n\ndata: c\n\n") == [(b"", b"a", b""), (b"", b"c", b"")]
    assert dispatched(bom + bom + b"data: a\n\ndata: b\n\n") == [(b"", b"b", b"")]
    assert dispatched(bom + b"\ndata: a\n\n") == [(b"", b"a", b"")]
    assert split(bom) == []


# ---------------------------------------------------------------------------------------------------- what is no event


def test_blocks_that_dispatch_nothing_are_told_apart():
    body = b": ping\n\nevent: keepalive\n\nid: 4\n\nnonsense\n\n: a\n: b\n\ndata: x\n\n\n\n"

    assert kinds(body) == ["comment", "dataless", "dataless", "dataless", "comment", "event"]


def test_a_dataless_block_keeps_its_name():
    assert [(unit.unit, unit.name) for unit in split(b"event: ping\n\n")] == [(Unit.DATALESS, b"ping")]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r", b"\r\n"])
def test_a_marker_in_the_tail_can_be_recognised(end):
    *_, tail = split(b"data: a\n\ndata: [DONE]" + end)

    assert (tail.unit, tail.data) == (Unit.TAIL, b"[DONE]")


@pytest.mark.parametrize("body", [b"data", b":", b": remark", b"event: x\n", b'{"error": 1}\n', b"id: 1\r"])
def test_whatever_was_left_inside_a_unit_is_a_tail(body):
    assert kinds(body) == ["tail"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n\r\n", b"\r", b"\n\n\n\r"])
def test_line_ends_after_the_last_event_are_no_tail(end):
    assert kinds(b"data: a\n\n" + end) == ["event"]


# ----------------------------------------------------------------------------------------- when an event is complete


@pytest.mark.parametrize("body", [b"data: a\n\n", b"data: a\r\r", b"data: a\r\n\r", b"event: e\ndata: a\n\n"])
def test_an_event_is_complete_at_the_byte_that_completes_its_blank_line(body):
    splitter = splitter_for("sse")

    assert splitter.feed(body[:-1]) == []
    assert [unit.unit for unit in splitter.feed(body[-1:])] == [Unit.EVENT]


def test_the_lf_of_a_blank_crlf_is_counted_to_the_unit_after_it():
    body = b"data: a\r\n\r\ndata: b\r\n\r\n"

    for cut in range(len(body) + 1):
        assert [unit.size_bytes for unit in split(body, cut)] == [10, 11]


def test_nothing_is_lost_between_a_cr_and_its_lf_when_an_empty_read_comes_between():
    splitter = splitter_for("sse")

    units = splitter.feed(b"data: a\r") + splitter.feed(b"") + splitter.feed(b"\ndata: b\n\n")

    assert [unit.data for unit in units] == [b"a\nb"]


# --------------------------------------------------------------------------------------------------------- the limit


@pytest.mark.parametrize(
    ("body", "data", "is_cut"),
    [
        (b"data: 12345678\n\n", b"12345678", False),
        (b"data: 123456789\n\n", b"12345678", True),
        (b"data: 1234\ndata: 678\n\n", b"1234\n678", False),
        (b"data: 1234\ndata: 6789\n\n", b"1234\n678", True),
        (b"data: 12345678\ndata\n\n", b"12345678", True),
        (b"data:12345678\n: a long remark\n\n", b"12345678", False),
        (b"event: a-long-event-name\ndata: 1\n\n", b"1", False),
    ],
)
def test_data_is_kept_up_to_the_limit(body, data, is_cut):
    for cut in range(len(body) + 1):
        (event,) = split(body, cut, limit_bytes=8)
        assert (event.data, event.is_cut) == (data, is_cut)
        _, event = split(b":\n\n" + body, 3, 3 + cut, limit_bytes=8)
        assert (event.data, event.is_cut) == (data, is_cut)


@pytest.mark.parametrize("extra_bytes", [0, 1])
def test_a_long_line_that_comes_in_pieces_just_fits_the_limit(extra_bytes):
    body = b"\xef\xbb\xbfdata: " + b"x" * (3_000 + extra_bytes) + b"\n\n"

    (event,) = split(body, *range(0, len(body), 100), limit_bytes=3_000)

    assert (len(event.data), event.is_cut) == (3_000, extra_bytes > 0)


def test_the_event_after_a_cut_one_is_whole():
    first, second = split(b"data: 123456789\n\ndata: b\n\n", limit_bytes=8)

    assert (first.is_cut, second.is_cut, second.data) == (True, False, b"b")


def test_a_long_name_is_shortened_and_a_long_id_is_not_taken_over():
    long = b"n" * (FIELD_BYTES + 1)
    body = b"id: 1\n\nevent: " + long + b"\ndata: a\n\nid: " + long + b"\ndata: b\n\n"

    for cut in (None, 20, FIELD_BYTES + 30):
        events = [unit for unit in split(body, *([cut] if cut else [])) if unit.unit is Unit.EVENT]
        assert [(unit.name, unit.id) for unit in events] == [(long[:FIELD_BYTES], b"1"), (b"", b"1")]


@pytest.mark.parametrize("framing", ["sse", "ndjson"])
@pytest.mark.parametrize("beginning", [b"data: ", b"event: ", b": ", b""])
def test_memory_is_flat_for_a_line_without_an_end(framing, beginning):
    limit_bytes = 100_000
    piece = b"x" * 50_000
    splitter = splitter_for(framing, limit_bytes=limit_bytes)
    splitter.feed(beginning)
    tracemalloc.start()

    for _ in range(400):
        splitter.feed(piece)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    (tail,) = splitter.finish()

    assert tail.size_bytes == len(beginning) + 400 * len(piece)
    assert len(tail.data) <= limit_bytes
    assert peak_bytes < 3 * limit_bytes


def test_memory_is_flat_for_a_block_of_endless_data_lines():
    splitter = splitter_for("sse", limit_bytes=1_000)
    tracemalloc.start()

    for _ in range(200):
        assert splitter.feed(b"data: x\n" * 1_000) == []
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    (event,) = splitter.feed(b"\n")

    assert (event.is_cut, len(event.data), event.size_bytes) == (True, 1_000, 1_600_001)
    assert peak_bytes < 200_000


# -------------------------------------------------------------------------------------------------------- every stream

_PIECES = st.sampled_from(
    [
        b"data: ",
        b"data:",
        b"data",
        b"event: ",
        b"event: e",
        b"id: ",
        b"id: 1",
        b"id: \0",
        b": c",
        b":",
        b" ",
        b"x",
        b"{}",
        b"\xef\xbb\xbf",
        b"\xef",
        b"\n",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"\r\n\r\n",
        b"data: a\n\n",
        b"data: b\r\n\r\n",
        b"event: e\ndata: c\n\n",
    ]
)
_BODIES = st.lists(_PIECES, max_size=24).map(b"".join)
_CUTS = st.lists(st.integers(0, 120), max_size=8)


def whatwg(body: bytes) -> list[tuple[bytes, bytes, bytes]]:
    """The events of a whole body, written after the paragraphs of WHATWG HTML 9.2.6."""
    text = body.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    events = []
    data = name = id_buffer = b""
    for line in text.split(b"\n")[:-1]:
        field, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if line == b"":
            if data != b"":
                events.append((name, data[:-1], id_buffer))
            data = name = b""
        elif field == b"event":
            name = value
        elif field == b"data":
            data += value + b"\n"
        elif field == b"id" and b"\0" not in value:
            id_buffer = value
    return events


@given(_BODIES)
def test_the_events_are_those_of_the_standard(body):
    assert dispatched(body) == whatwg(body)


@given(_BODIES, _CUTS, st.sampled_from([4, 11, LIMIT_BYTES]), st.sampled_from(["sse", "ndjson"]))
def test_any_cutting_gives_the_same_units(body, cuts, limit_bytes, framing):
    cuts = [min(cut, len(body)) for cut in cuts]
    whole = split(body, framing=framing, limit_bytes=limit_bytes)

    assert split(body, *cuts, framing=framing, limit_bytes=limit_bytes) == whole
    assert split(body, *range(1, len(body)), framing=framing, limit_bytes=limit_bytes) == whole


@given(st.binary(max_size=400), _CUTS, st.sampled_from(["sse", "ndjson", "opaque"]))
def test_random_bytes_raise_nothing_and_are_all_accounted_for(body, cuts, framing):
    split(body, *[min(cut, len(body)) for cut in cuts], framing=framing, limit_bytes=16)


@given(_BODIES, _CUTS, st.integers(1, 20))
def test_no_more_than_the_limit_is_kept(body, cuts, limit_bytes):
    for unit in split(body, *[min(cut, len(body)) for cut in cuts], limit_bytes=limit_bytes):
        assert len(unit.data) <= limit_bytes
        assert not unit.is_cut or len(unit.data) == limit_bytes


# -------------------------------------------------------------------------------------------------- the other framings


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (b'{"a":1}\n{"b":2}\n', [b'{"a":1}', b'{"b":2}']),
        (b'{"a":1}\r\n{"b":2}\r\n', [b'{"a":1}', b'{"b":2}']),
        (b'\n{"a":1}\n\n \r\n{"b":2}\n\n', [b'{"a":1}', b'{"b":2}']),
        (b'{"a":"x\ry"}\n', [b'{"a":"x\ry"}']),
        (b"\n\n\r\n", []),
    ],
)
def test_an_ndjson_line_is_an_event_and_a_blank_one_is_none(body, lines):
    units = split(body, framing="ndjson")

    assert [unit.data for unit in units] == lines
    assert {unit.unit for unit in units} <= {Unit.EVENT}


def test_an_ndjson_line_without_its_end_is_a_tail():
    assert kinds(b'{"a":1}\n{"done":true}', framing="ndjson") == ["event", "tail"]


@pytest.mark.parametrize(
    ("line", "data", "is_cut"),
    [
        (b"12345678", b"12345678", False),
        (b"12345678\r", b"12345678", False),
        (b"123456789", b"12345678", True),
        (b"123456789\r", b"12345678", True),
        (b"12345678\r9", b"12345678", True),
        (b"          {}", b"        ", True),
    ],
)
def test_an_ndjson_line_is_kept_up_to_the_limit(line, data, is_cut):
    for cut in range(len(line) + 2):
        (event,) = split(line + b"\n", cut, framing="ndjson", limit_bytes=8)
        assert (event.unit, event.data, event.is_cut) == (Unit.EVENT, data, is_cut)


def test_what_one_read_of_an_opaque_body_brings_is_an_event_of_which_nothing_is_kept():
    splitter: Splitter = splitter_for("opaque")

    assert splitter.feed(b"\x00\x01secret") == [Event(Unit.EVENT, b"", b"", b"", 8)]
    assert splitter.feed(b"") == []
    assert splitter.finish() == []


# ------------------------------------------------------------------------------------------------------- which framing


@pytest.mark.parametrize(
    ("content_type", "framing"),
    [
        ("text/event-stream", "sse"),
        ("text/event-stream;", "sse"),
        ("Text/Event-Stream ; charset=windows-1252", "sse"),
        ("application/x-ndjson", "ndjson"),
        ("application/jsonl; charset=utf-8", "ndjson"),
        ("application/stream+json", "ndjson"),
        ("application/vnd.amazon.eventstream", "eventstream"),
        ("application/json", "opaque"),
        ("text/event-streams", "opaque"),
        ("text/plain; x=text/event-stream", "opaque"),
        ("", "opaque"),
        (None, "opaque"),
    ],
)
def test_the_media_type_tells_the_framing(content_type, framing):
    assert framing_of(content_type) == framing


@pytest.mark.parametrize(
    ("content_type", "framing"),
    [("application/json; charset=UTF-8", "json_array"), ("text/event-stream", "sse"), ("text/plain", "opaque")],
)
def test_json_may_be_one_array_where_it_is_asked_for(content_type, framing):
    assert framing_of(content_type, may_be_array=True) == framing


@pytest.mark.parametrize(
    ("framing", "body"),
    [
        ("json_array", b'[{"a":1}]'),
        ("eventstream", frame(b'{"a":1}')),
        ("ndjson", b'{"a":1}\n'),
        ("sse", b'data: {"a":1}\n\n'),
    ],
)
def test_every_framing_has_its_splitter(framing, body):
    splitter = splitter_for(framing)

    assert [event.data for event in splitter.feed(body)] == [b'{"a":1}']
    assert not splitter.is_lost
    assert [event.is_cut for event in splitter_for(framing, limit_bytes=3).feed(body)] == [True]


def test_an_unknown_framing_is_refused_by_name():
    with pytest.raises(ValueError, match="'none' is none of"):
        splitter_for("none")


@pytest.mark.parametrize("piece_bytes", [1, 7, 1_000])
def test_a_line_of_white_space_is_none_however_long_it_is(piece_bytes):
    splitter = splitter_for("ndjson", limit_bytes=16)
    body = b'{"a":1}\n' + b"\r" * 40 + b"\n" + b" " * 40 + b"x\n"
    pieces = [body[at : at + piece_bytes] for at in range(0, len(body), piece_bytes)]
    events = [event for piece in pieces for event in splitter.feed(piece)]

    assert [(event.data, event.is_cut) for event in events] == [(b'{"a":1}', False), (b" " * 16, True)]


# --------------------------------------------------------------------------------------------- where ours may be put in

_OURS = b": ours\n\n"


def is_between_blocks(body: bytes) -> bool:
    """A reader of the standard has no line and no block open, and waits for no LF."""
    lines = body.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return not body.endswith(b"\r") and body not in {b"\xef", b"\xef\xbb", b"\xef\xbb\xbf"} and not any(lines[-2:])


@given(_BODIES, _CUTS)
def test_a_boundary_is_where_nothing_is_open_however_it_was_cut(body, cuts):
    cuts = [min(cut, len(body)) for cut in cuts]
    splitter = splitter_for("sse")
    assert splitter.is_at_boundary
    for start, end in itertools.pairwise([0, *sorted(cuts), len(body)]):
        splitter.feed(body[start:end])
        assert splitter.is_at_boundary is is_between_blocks(body[:end])
    was_at_boundary = splitter.is_at_boundary
    splitter.finish()
    assert splitter.is_at_boundary is was_at_boundary


@given(_BODIES, st.data())
def test_what_is_put_in_at_a_boundary_changes_no_event(body, data):
    splitter = splitter_for("sse")
    boundaries = []
    for end in range(1, len(body) + 1):
        splitter.feed(body[end - 1 : end])
        if splitter.is_at_boundary:
            boundaries.append(end)
    if boundaries:
        at = data.draw(st.sampled_from(boundaries))
        assert whatwg(body[:at] + _OURS + body[at:]) == whatwg(body)
        assert [event[1] for event in whatwg(body[:at] + b"event: error\ndata: ours\n\n")] == [
            *(event[1] for event in whatwg(body[:at])),
            b"ours",
        ]


@pytest.mark.parametrize(
    ("body", "is_boundary"),
    [
        (b"", True),
        (b"data: a\n\n", True),
        (b"data: a\r\n\r\n", True),
        (b"data: a\n\n\n", True),
        (b"data: a\r\n\r", False),
        (b"data: a\r\r", False),
        (b"data: a\n", False),
        (b"data: a", False),
        (b": remark\n", False),
        (b"event: e\n", False),
        (b"data: [DONE]\n", False),
        (b"\xef\xbb\xbf", False),
        (b"\xef\xbb\xbf\n", True),
    ],
)
def test_a_boundary_is_behind_a_blank_line_and_no_lf_can_follow(body, is_boundary):
    splitter = splitter_for("sse")
    splitter.feed(body)

    assert splitter.is_at_boundary is is_boundary


@pytest.mark.parametrize(
    ("body", "is_boundary"),
    [(b"", True), (b'{"a":1}\n', True), (b'{"a":1}\r\n', True), (b'{"a":1}', False), (b"{}\n ", False), (b"\r", False)],
)
def test_an_ndjson_body_has_its_boundaries_behind_its_lines(body, is_boundary):
    for cut in range(len(body) + 1):
        splitter = splitter_for("ndjson", limit_bytes=3)
        splitter.feed(body[:cut])
        splitter.feed(body[cut:])
        splitter.feed(b"")
        assert splitter.is_at_boundary is is_boundary
        splitter.finish()
        assert splitter.is_at_boundary is is_boundary


def test_a_body_without_a_framing_has_no_boundary():
    splitter = splitter_for("opaque")
    splitter.feed(b"data: a\n\n")

    assert not splitter.is_at_boundary
