"""A response is read to its end, and to the same end however it is cut, and as h11 reads it."""

import itertools

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.http1.chunked import last_chunk
from sidecar.http1.framing import FramingKind
from sidecar.http1.head import field_lines
from sidecar.http1.reader import (
    INTERIMS,
    Broken,
    Content,
    Finished,
    Head,
    Interim,
    Output,
    ResponseReader,
    Upgraded,
)

CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"


def read(
    answer: bytes, *cuts: int, method: str = "GET", ends: bool = False, wants_upgrade: bool = False
) -> list[Output]:
    """All outputs of an answer that comes in the pieces between the cuts, and whose connection then may end."""
    reader = ResponseReader(method, wants_upgrade=wants_upgrade)
    out = []
    for start, end in itertools.pairwise([0, *sorted(cuts), len(answer)]):
        content = reader.content(answer[start:end])
        out += reader.feed(answer[start:end]) if content is None else [Content(content)]
    if ends:
        out += reader.eof()
    assert reader.is_over == bool(out and isinstance(out[-1], Finished | Upgraded | Broken))
    assert reader.is_head_seen == any(isinstance(output, Head) for output in out)
    if reader.is_over:
        assert reader.feed(b"HTTP/1.1 200 OK\r\n\r\n") == reader.eof() == []
    return out


def told(out: list[Output]) -> str:
    """What happened, in a line: statuses, content and the end."""
    words = []
    for output in out:
        match output:
            case Interim(head) | Head(head, _):
                words.append(str(head.status))
            case Content(data):
                words.append(data.decode())
            case Finished(_, is_reusable, surplus):
                words.append(f"end{'' if is_reusable else ' close'}{' +' + str(len(surplus)) if surplus else ''}")
            case Upgraded(_, rest):
                words.append(f"upgraded {rest.decode()}".strip())
            case Broken(_, cut):
                words.append(f"broken {cut}")
    return " ".join(words)


# ----------------------------------------------------------------------------------------------------- whole answers


@pytest.mark.parametrize(
    ("answer", "story"),
    [
        (LENGTH % 0, "200 end"),
        (LENGTH % 5 + b"hello", "200 hello end"),
        (CHUNKED + b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", "200 hello! end"),
        (CHUNKED + b"0\r\n\r\n", "200 end"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "204 end"),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n", "304 end"),
        (b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", "304 end"),
        (b"HTTP/1.1 200\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", "200 ok end close"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "200 ok end close"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok", "200 ok end"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", "100 404 no end"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 3 + LENGTH % 1 + b"x", "103 103 103 200 x end"),
    ],
)
def test_an_answer_is_read_to_its_end(answer, story):
    assert told(read(answer)) == story
    assert told(read(answer, ends=True)) == story


def test_without_a_length_the_end_of_the_connection_is_the_end():
    answer = b"HTTP/1.0 200 OK\r\n\r\ndata: 1\n\n"

    assert told(read(answer)) == "200 data: 1\n\n"
    assert told(read(answer, ends=True)) == "200 data: 1\n\n end close"
    assert told(read(b"HTTP/1.1 200 OK\r\n\r\n", ends=True)) == "200 end close"


def test_an_answer_to_head_ends_with_its_head():
    assert told(read(LENGTH % 5, method="HEAD")) == "200 end"
    assert told(read(CHUNKED, method="HEAD")) == "200 end"
    assert told(read(b"HTTP/1.1 200 OK\r\n\r\n", method="HEAD")) == "200 end"
    assert told(read(LENGTH % 5 + b"hello", method="HEAD")) == "200 end close +5"


@pytest.mark.parametrize(
    ("answer", "story"),
    [
        (LENGTH % 8 + b"12345678EXTRA", "200 12345678 end close +5"),
        (LENGTH % 0 + b"\r\n", "200 end close +2"),
        (CHUNKED + b"1\r\n!\r\n0\r\n\r\n" + LENGTH % 4 + b"EVIL", "200 ! end close +42"),
        (b"HTTP/1.1 204 No Content\r\n\r\n0\r\n\r\n", "204 end close +5"),
    ],
)
def test_bytes_after_the_end_are_no_part_of_it_and_spoil_the_connection(answer, story):
    assert told(read(answer)) == story


def test_the_head_comes_with_its_framing():
    [head, *_] = read(b"HTTP/1.1 201 Made\r\nA: 1\r\ncontent-length: 5\r\na: 2\r\n\r\n")

    assert isinstance(head, Head)
    assert (head.head.status, head.head.reason) == (201, "Made")
    assert head.head.fields == (("A", "1"), ("content-length", "5"), ("a", "2"))
    assert (head.framing.kind, head.framing.length_bytes) == (FramingKind.LENGTH, 5)


def test_trailers_come_with_the_end():
    assert read(CHUNKED + b"0\r\nX-C: abc\r\nContent-Length: 4\r\n\r\n")[-1] == Finished((("X-C", "abc"),), True, b"")


def test_content_comes_with_the_read_that_brought_it():
    reader = ResponseReader("GET")
    stories = [
        told(reader.feed(data)) for data in (CHUNKED + b"5\r\nhe", b"llo", b"\r\n1\r\n!\r\n2\r\n?", b"?\r\n0\r\n\r\n")
    ]

    assert stories == ["200 he", "llo", "! ?", "? end"]


@pytest.mark.parametrize(
    ("head", "data", "content"),
    [
        (LENGTH % 5, b"hell", b"hell"),
        (LENGTH % 5, b"hello", None),
        (LENGTH % 5, b"hello!", None),
        (LENGTH % 5, b"", None),
        (CHUNKED, b"1\r\n!\r\n", None),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"any", b"any"),
        (b"HTTP/1.1 200 OK\r\n", b"\r\nany", None),
    ],
)
def test_what_is_only_content_is_told_apart_and_what_is_more_is_not_taken(head, data, content):
    reader = ResponseReader("GET")
    reader.feed(head)

    assert reader.content(data) == content
    if content is not None:
        return
    plain = ResponseReader("GET")
    plain.feed(head)
    assert reader.feed(data) == plain.feed(data)


def test_missing_bytes_are_known_when_a_length_is():
    reader = ResponseReader("GET")
    assert reader.missing_bytes is None
    reader.feed(LENGTH % 10)
    assert reader.missing_bytes == 10
    reader.feed(b"1234")
    assert reader.missing_bytes == 6
    reader.eof()
    assert reader.missing_bytes == 6

    reader = ResponseReader("GET")
    reader.feed(CHUNKED + b"5\r\nhe")
    assert reader.missing_bytes is None


# ------------------------------------------------------------------------------------------------------------ faults


@pytest.mark.parametrize(
    ("answer", "story"),
    [
        (b"", "broken fin"),
        (b"HTTP/1.1 200 OK\r\nCont", "broken fin"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "100 broken fin"),
        (LENGTH % 100 + b"hello", "200 hello broken fin"),
        (LENGTH % 100, "200 broken fin"),
        (CHUNKED, "200 broken fin"),
        (CHUNKED + b"5\r\nhello\r\n", "200 hello broken fin"),
        (CHUNKED + b"5\r\nhello\r\nff\r\ndata", "200 hello data broken fin"),
        (CHUNKED + b"5\r\nhello\r\n0\r\n", "200 hello broken fin"),
        (CHUNKED + b"5\r\nhello\r\n0\r\nx: y\r\n", "200 hello broken fin"),
    ],
)
def test_an_end_that_comes_too_early_is_told_after_what_had_come(answer, story):
    assert told(read(answer, ends=True)) == story


@pytest.mark.parametrize(
    ("answer", "story"),
    [
        (CHUNKED + b"5\r\nhelloXX0\r\n\r\n", "200 hello broken framing"),
        (CHUNKED + b"1\r\n!\r\nzz\r\n", "200 ! broken framing"),
        (CHUNKED + b"1\r\n!\r\n0\r\nx y: z\r\n\r\n", "200 ! broken framing"),
        (b"SSH-2.0-OpenSSH\r\n", "broken framing"),
        (b"\x15\x03\x01", "broken framing"),
        (b"HTTP/1.1 2 OK\r\n\r\n", "broken framing"),
        (b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", "broken framing"),
        (b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 2\r\n\r\nok", "broken framing"),
        (b"HTTP/1.1 200 OK\r\nX : a\r\n\r\n", "broken framing"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", "broken framing"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "broken framing"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: foo\r\n\r\ndata: 1\n\n", "broken framing"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "broken framing"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 700 OK\r\n\r\n", "103 broken framing"),
        (b"HTTP/1.1 103 Early Hints\r\nContent-Length: 4\r\n\r\nEVIL", "broken framing"),
    ],
)
def test_what_is_no_answer_is_told_at_once(answer, story):
    assert told(read(answer)) == story
    assert told(read(answer, ends=True)) == story


def test_interim_answers_come_to_an_end():
    interim = b"HTTP/1.1 103 Early Hints\r\n\r\n"

    assert told(read(interim * INTERIMS + LENGTH % 0)).endswith("103 200 end")
    assert told(read(interim * (INTERIMS + 1))).endswith("103 broken framing")


# ----------------------------------------------------------------------------------------------------------- upgrade


def test_an_upgrade_hands_over_what_came_with_it():
    answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"

    assert told(read(answer + b"first bytes", wants_upgrade=True)) == "100 upgraded first bytes"
    assert told(read(answer, wants_upgrade=True)) == "100 upgraded"


def test_an_upgrade_may_be_declined():
    assert told(read(LENGTH % 2 + b"no", wants_upgrade=True)) == "200 no end"


# -------------------------------------------------------------------------------------------------------------- cuts


def joined(answer: bytes, *cuts: int, **options: object) -> tuple[list[Output], bytes, bool]:
    """All outputs but content and the last one's surplus, the content joined, and whether the connection is clean."""
    out = read(answer, *cuts, ends=True, **options)
    content = b"".join(output.data for output in out if isinstance(output, Content))
    out = [output for output in out if not isinstance(output, Content)]
    match out[-1]:
        case Finished(trailers, _, _):
            return [*out[:-1], Finished(trailers, False, b"")], content, True
        case Upgraded(head, _):
            return [*out[:-1], Upgraded(head, b"")], content, True
    return out, content, False


PARTS = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.0 200 OK\r\n",
        b"HTTP/1.1 103 Early Hints\r\n",
        b"HTTP/1.1 101 Switching\r\n",
        b"Content-Length: 12\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: close\r\n",
        b" folded\r\n",
        b"\r\n",
        b"\n",
        b"\r",
        b"5\r\nhello\r\n",
        b"c\r\nhel",
        b"0\r\n\r\n",
        b"x: y",
        b"\0",
    ]
)


@given(
    st.lists(PARTS, max_size=12).map(b"".join),
    st.sampled_from([b"", LENGTH % 12, CHUNKED, b"HTTP/1.1 200 OK\r\n"]),
    st.lists(st.integers(0, 300), max_size=8),
    st.booleans(),
)
def test_whatever_the_bytes_are_the_cut_does_not_matter(tail, beginning, cuts, wants_upgrade):
    answer = beginning + tail

    whole = joined(answer, wants_upgrade=wants_upgrade)
    assert joined(answer, *[min(cut, len(answer)) for cut in cuts], wants_upgrade=wants_upgrade) == whole
    assert joined(answer, *range(len(answer)), wants_upgrade=wants_upgrade) == whole


# --------------------------------------------------------------------------------------------------------------- h11

TOKENS = st.text("!#$%&'*+-.^_`|~0123456789abcXYZ", min_size=1, max_size=12).map("X-".__add__)
VALUES = st.text("\t !~:;,abc\x80ÿ", max_size=12).map(lambda text: text.strip(" \t"))
FIELDS = st.lists(st.tuples(TOKENS, VALUES), max_size=5)
REASONS = st.text(" \t!~abcÿ", max_size=8)
INTERIM_STATUSES = st.integers(100, 199).filter(lambda status: status != 101)
FINAL_STATUSES = st.integers(200, 599)


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """A valid answer of some framing, with all liberties of form that both readers grant."""
    blocks = [
        b"HTTP/1.1 %d %b\r\n%b\r\n" % (draw(INTERIM_STATUSES), draw(REASONS).encode(), field_lines(draw(FIELDS)))
        for _ in range(draw(st.integers(0, 2)))
    ]
    status, fields = (
        draw(FINAL_STATUSES),
        field_lines(draw(FIELDS)) + draw(st.sampled_from([b"", b"X-f: a\r\n \t b\r\n"])),
    )
    has_body = status not in (204, 304)
    chunks = draw(st.lists(st.binary(min_size=1, max_size=40), max_size=4)) if has_body else []
    content = b"".join(chunks)
    framing = draw(st.sampled_from(["chunked", "length", "close"])) if has_body else "close"
    minor = 1 if framing == "chunked" else draw(st.integers(0, 1))
    if framing == "chunked":
        fields += b"Transfer-Encoding: chunked\r\n"
        sizes = [
            draw(st.sampled_from([b"%x", b"%X", b"00%x", b"%x;ext", b'%x;a="b c"'])) % len(chunk) for chunk in chunks
        ]
        content = b"".join(b"%b\r\n%b\r\n" % pair for pair in zip(sizes, chunks, strict=True))
        content += last_chunk(draw(FIELDS))
    elif framing == "length":
        fields += b"content-length: %d\r\n" % len(content)
    status_line = b"HTTP/1.%d %d %b\r\n" % (minor, status, draw(REASONS).encode())
    return b"".join([*blocks, status_line, fields, b"\r\n", content])


def read_by_h11(answer: bytes) -> list[tuple[object, ...]]:
    """What h11 makes of an answer, in our words."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("Host", "a")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(answer)
    connection.receive_data(b"")
    out: list[tuple[object, ...]] = []
    content = b""
    while True:
        match connection.next_event():
            case h11.InformationalResponse() | h11.Response() as head:
                out.append((head.http_version, head.status_code, bytes(head.reason), head.headers.raw_items()))
            case h11.Data() as data:
                content += data.data
            case h11.EndOfMessage() as end:
                return [*out, (content, end.headers.raw_items())]


@given(answers(), st.lists(st.integers(0, 400), max_size=6))
def test_a_valid_answer_is_what_h11_reads(answer, cuts):
    out = []
    content = b""
    for output in read(answer, *[min(cut, len(answer)) for cut in cuts], ends=True):
        match output:
            case Interim(head) | Head(head, _):
                version = b"%d.%d" % head.version
                out.append((version, head.status, head.reason.encode(), raw(head.fields)))
            case Content(data):
                content += data
            case Finished(trailers, _, surplus):
                assert surplus == b""
                out.append((content, raw(trailers)))

    assert out == read_by_h11(answer)


def raw(fields: tuple[tuple[str, str], ...]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("utf-8", "surrogateescape")) for name, value in fields]


def test_interim_answers_are_together_no_longer_than_a_head_may_be():
    hint = b"HTTP/1.1 103 Early Hints\r\n" + b"Link: " + b"a" * 60_000 + b"\r\n\r\n"
    reader = ResponseReader("GET")

    outputs = [output for _ in range(5) for output in reader.feed(hint)]

    assert [type(output) for output in outputs] == [Interim] * 4 + [Broken]
