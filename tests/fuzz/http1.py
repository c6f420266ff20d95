"""What must hold of the HTTP/1 reader, whatever an upstream sends."""

from __future__ import annotations

import re

import h11

from sidecar.http1.chunked import NEVER_TRAILERS, ChunkedReader, encode_chunk, last_chunk, whole_chunks
from sidecar.http1.framing import FramingKind
from sidecar.http1.head import Http1Error, ResponseHead, Section, field_lines, parse_head, request_head
from sidecar.http1.reader import Broken, Content, Finished, Head, Interim, Output, ResponseReader, Upgraded
from sidecar.native import COMPILED, TWINS
from tests.fuzz.deliveries import Delivery, delivery_of

_WHITE = re.compile(rb"[ \t]+")
_REFUSED = re.compile(rb"[0-9A-Fa-f][ \t]+;")
"""White space before a chunk extension, which RFC 9112, 7.1.1 allows."""
_FRAMING = re.compile(rb"^(?:content-length|transfer-encoding):", re.IGNORECASE | re.MULTILINE)
"""Twice means once in the trailers, where it is ignored here."""
_UNCLEAN = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


# --------------------------------------------------------------------------------------------------- whole responses


def check_reader(data: bytes) -> None:
    """Any cut gives the same; outputs come in order; sizes add up; no unclean byte gets into a head."""
    delivery = delivery_of(data)
    method = "HEAD" if delivery.is_on(0) else "CONNECT" if delivery.is_on(1) else "GET"
    wants_upgrade, ends = delivery.is_on(2), delivery.is_on(3)
    first = _read(delivery.whole(), method, wants_upgrade=wants_upgrade, ends=ends)
    _check_order(first)
    _check_sizes(first, delivery)
    for pieces in delivery.cuts():
        for is_quick in (False, True):
            again = _read(pieces, method, wants_upgrade=wants_upgrade, ends=ends, is_quick=is_quick)
            assert _comparable(again) == _comparable(first), (again, first)


def _read(pieces: list[bytes], method: str, *, wants_upgrade: bool, ends: bool, is_quick: bool = False) -> list[Output]:
    """All outputs; bytes that come after the last one are added to its surplus. is_quick: as a connection reads, which
    takes what is nothing but content as that, by compiled parts where these are built."""
    parts = (COMPILED or TWINS) if is_quick else TWINS
    reader = ResponseReader(method, wants_upgrade=wants_upgrade, whole_chunks=parts.whole_chunks)
    out: list[Output] = []
    unread = []
    for piece in pieces:
        if reader.is_over:
            assert reader.feed(piece) == []
            unread.append(piece)
        elif is_quick and reader.is_between_chunks and (content := _whole(piece)) is not None:
            assert b"".join(ChunkedReader().feed(piece)) == content  # for whoever reads them from here on
            out.append(Content(content))
        elif is_quick and reader.is_head_seen and (content := reader.content(piece)) is not None:
            out.append(Content(content))
        else:
            out += reader.feed(piece)
    if ends:
        out += reader.eof()
    later = b"".join(unread)
    match out[-1:]:
        case [Finished(trailers, is_reusable, surplus)]:
            assert reader.missing_bytes in (0, None)
            out[-1] = Finished(trailers, is_reusable and not later, surplus + later)
        case [Upgraded(head, rest)]:
            out[-1] = Upgraded(head, rest + later)
    assert reader.is_head_seen == any(isinstance(output, Head) for output in out)
    return out


def _whole(piece: bytes) -> bytes | None:
    """What a connection takes of a read without feeding it."""
    taken: list[bytes] = []
    receiver = (COMPILED or TWINS).receiver(memoryview(piece or b"-"), lambda: 0, lambda *_: None)
    receiver.sink = lambda content, at_ns, framed: taken.append(content)
    receiver(len(piece))
    return taken[0] if taken else None


def _comparable(out: list[Output]) -> tuple[list[Output], bytes]:
    content = b"".join(output.data for output in out if isinstance(output, Content))
    return [output for output in out if not isinstance(output, Content)], content


def _check_order(out: list[Output]) -> None:
    letters = "".join(type(output).__name__[0] for output in out)
    assert re.fullmatch("I*(B|U|(HC*[FB]?))?", letters), letters
    for output in out:
        match output:
            case Interim(head):
                assert head.status in {*range(100, 200)} - {101}
                _check_head(head)
            case Upgraded(head, _):
                assert head.status == 101
                _check_head(head)
            case Head(head, _):
                assert head.status >= 200
                _check_head(head)
            case Content(data):
                assert data
            case Finished(trailers, _, _):
                assert not {name.lower() for name, _ in trailers} & NEVER_TRAILERS


def _check_head(head: ResponseHead) -> None:
    for text in (head.reason, *(value for _, value in head.fields)):
        assert not _UNCLEAN.search(text)
    written = b"HTTP/%d.%d %d %b\r\n" % (*head.version, head.status, head.reason.encode("utf-8", "surrogateescape"))
    assert parse_head(written + field_lines(head.fields) + b"\r\n") == head


def _check_sizes(out: list[Output], delivery: Delivery) -> None:
    content = b"".join(output.data for output in out if isinstance(output, Content))
    for output in out:
        if isinstance(output, Head):
            is_complete = isinstance(out[-1], Finished)
            match output.framing.kind:
                case FramingKind.NONE:
                    assert (content, is_complete) == (b"", True)
                case FramingKind.LENGTH:
                    length_bytes = output.framing.length_bytes
                    assert length_bytes is not None
                    assert (len(content) == length_bytes) if is_complete else (len(content) < length_bytes)
                case FramingKind.CLOSE:
                    assert delivery.payload.endswith(b"\r\n\r\n" + content)
                    assert is_complete == delivery.is_on(3)
    match out[-1:]:
        case [Finished(_, is_reusable, rest)]:
            assert delivery.payload.endswith(rest)
            assert not (rest and is_reusable)
        case [Upgraded(_, rest)]:
            assert delivery.payload.endswith(b"\r\n\r\n" + rest)
        case [Broken(rule, cut)]:
            assert rule
            assert cut == "framing" or delivery.is_on(3)


# ------------------------------------------------------------------------------------------------------------ chunks


def check_chunked(data: bytes) -> None:
    """Any cut gives the same, content is part of the input, and what was read can be written and read again."""
    delivery = delivery_of(data)
    pieces, error, trailers, rest = _read_chunks(delivery.whole())
    content = b"".join(pieces)
    assert COMPILED is None or COMPILED.whole_chunks(delivery.payload, 0) == whole_chunks(delivery.payload, 0)
    came = iter(delivery.payload)
    assert all(byte in came for byte in content)  # each behind the one before it
    assert delivery.payload.endswith(rest)
    for cut in delivery.cuts():
        again, *others = _read_chunks(cut)
        assert (b"".join(again), others) == (content, [error, trailers, rest])
    if error is None and trailers is not None:
        written = b"".join(map(encode_chunk, pieces)) + last_chunk(trailers)
        assert _read_chunks([written]) == ([content] if content else [], None, trailers, b"")


def _read_chunks(cut: list[bytes]) -> tuple[list[bytes], str | None, tuple[tuple[str, str], ...] | None, bytes]:
    """Content, error, trailers (None while the body is not complete), and all that comes after it."""
    reader = ChunkedReader()
    pieces, later = [], []
    for data in cut:
        if reader.is_done or reader.error is not None:
            assert reader.feed(data) == []
            later.append(data)
        else:
            pieces += reader.feed(data)
    assert all(pieces)
    assert not (reader.is_done and reader.error is not None)
    if not reader.is_done:
        return pieces, reader.error, None, b""
    return pieces, None, reader.trailers, reader.rest + b"".join(later)


# ------------------------------------------------------------------------------------------------------------- heads


def check_head(data: bytes) -> None:
    """A head is refused by Http1Error or read so that it can be written again; so with what we write ourselves."""
    delivery = delivery_of(data)
    outcome = _read_section(delivery.whole())
    for cut in delivery.cuts():
        assert _read_section(cut) == outcome
    try:
        _check_head(parse_head(delivery.payload))
    except Http1Error:
        assert not isinstance(outcome[1], ResponseHead) or outcome[0] < len(delivery.payload)
    _check_request_head(delivery.payload.decode("utf-8", "surrogateescape"))


def _read_section(cut: list[bytes]) -> tuple[int, object]:
    """Where the head ends (-1: it has not), and the head or the rule it breaks."""
    section = Section(is_head=True)
    size_bytes = 0
    try:
        for data in cut:
            if (at := section.feed(data)) >= 0:
                return size_bytes + at, section.head()
            size_bytes += len(data)
    except Http1Error as error:
        return -1, error.rule
    return -1, None


def _check_request_head(text: str) -> None:
    """Words of the input as method, target and fields: what is written has exactly these lines."""
    method, target, *words = text.split("|")[:9] if text.count("|") >= 1 else (text, "/")
    fields = list(zip(words[::2], words[1::2], strict=False))
    try:
        written = request_head(method, target, fields)
    except Http1Error:
        return
    lines = written.split(b"\r\n")
    assert len(lines) == len(fields) + 3
    assert written.count(b"\n") == written.count(b"\r") == len(fields) + 2
    assert lines[0].decode("utf-8", "surrogateescape").split(" ") == [method, target, "HTTP/1.1"]
    section = Section(is_head=False)
    if len(written) < 60_000:
        assert section.feed(b"\r\n".join(lines[1:])) == len(written) - len(lines[0]) - 2
        assert section.fields == [(name, value.strip(" \t")) for name, value in fields]


# --------------------------------------------------------------------------------------------------------------- h11


Heads = list[tuple[int, list[tuple[bytes, bytes]]]]
"""Status and raw fields of each head."""


def check_against_h11(data: bytes) -> None:
    """What this reader takes as a whole answer, h11 takes as the same one, but for two forms that it refuses."""
    delivery = delivery_of(data)
    out = _read(delivery.whole(), "GET", wants_upgrade=False, ends=True)
    if not isinstance(out[-1], Finished):
        return
    theirs = _read_by_h11(delivery.payload)
    if theirs is None:
        assert _REFUSED.search(delivery.payload) or len(_FRAMING.findall(delivery.payload)) > 1
        return
    heads: Heads = []
    content = b""
    for output in out:
        match output:
            case Interim(head) | Head(head, _):
                heads.append((head.status, _raw(head.fields)))
            case Content(piece):
                content += piece
    assert theirs[1] == content, (theirs, content)
    assert _comparable_heads(theirs[0]) == _comparable_heads(heads), (theirs, heads)


def _read_by_h11(answer: bytes) -> tuple[Heads, bytes] | None:
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    connection.send(h11.Request(method="GET", target="/", headers=[("Host", "a")]))
    connection.send(h11.EndOfMessage())
    heads: Heads = []
    content = b""
    try:
        connection.receive_data(answer)
        connection.receive_data(b"")
        while True:
            match connection.next_event():
                case h11.InformationalResponse() | h11.Response() as head:
                    heads.append((head.status_code, head.headers.raw_items()))
                case h11.Data() as piece:
                    content += piece.data
                case h11.EndOfMessage():
                    return heads, content
    except h11.RemoteProtocolError:
        return None


def _raw(fields: tuple[tuple[str, str], ...]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("utf-8", "surrogateescape")) for name, value in fields]


def _comparable_heads(heads: Heads) -> Heads:
    """Without the two liberties of h11: it spells a coding in its own way, and a fold with the space before it."""
    return [(status, [(name, _WHITE.sub(b" ", value).lower()) for name, value in fields]) for status, fields in heads]
