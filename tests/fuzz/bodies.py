"""What must hold of everything that looks at a body as it passes, whatever the body is."""

from __future__ import annotations

import re

import orjson

from sidecar.inspection.dialects.base import name_of
from sidecar.inspection.events import Event, Unit
from sidecar.inspection.request_scan import RequestScan
from sidecar.inspection.splitter import FIELD_BYTES, LIMIT_BYTES, splitter_for
from sidecar.inspection.websocket import FrameWalker
from sidecar.native import COMPILED, TWINS
from tests.fuzz.deliveries import delivery_of
from tests.support.known import known
from tests.support.parts import READING_ALL

_LINE_END = re.compile(rb"\r\n|\r|\n")


# ---------------------------------------------------------------------------------------------------------- splitter


def check_splitter(data: bytes) -> None:
    """Sizes add up after every feed, any cut gives the same units, and events are those of the standard."""
    delivery = delivery_of(data)
    framing = "opaque" if delivery.is_on(0) else "ndjson" if delivery.is_on(1) else "sse"
    limit_bytes = 16 if delivery.is_on(2) else LIMIT_BYTES
    units = _split(delivery.whole(), framing, limit_bytes)
    for cut in delivery.cuts():
        again = _split(cut, framing, limit_bytes)
        assert again == units or framing == "opaque", (again, units)
    assert all(len(unit.data) <= limit_bytes for unit in units)
    events = [unit for unit in units if unit.unit is Unit.EVENT]
    if framing == "sse":
        _check_events(events, _events_of_sse(delivery.payload), limit_bytes)
    elif framing == "ndjson":
        lines = [line.removesuffix(b"\r") for line in delivery.payload.split(b"\n")[:-1] if line.strip()]
        _check_events(events, [(b"", line, b"") for line in lines], limit_bytes)


def _split(pieces: list[bytes], framing: str, limit_bytes: int) -> list[Event]:
    splitter = splitter_for(framing, limit_bytes=limit_bytes)
    units: list[Event] = []
    fed_bytes = 0
    for piece in pieces:
        units += splitter.feed(piece)
        fed_bytes += len(piece)
        assert sum(unit.size_bytes for unit in units) + splitter.pending_bytes == fed_bytes
    units += splitter.finish()
    assert sum(unit.size_bytes for unit in units) + splitter.pending_bytes == fed_bytes
    return units


def _check_events(events: list[Event], expected: list[tuple[bytes, bytes, bytes]], limit_bytes: int) -> None:
    assert [(event.name, event.data, event.id) for event in events] == [
        (name, data[:limit_bytes], event_id) for name, data, event_id in expected
    ]
    assert [event.is_cut for event in events] == [len(data) > limit_bytes for _, data, _ in expected]


def _events_of_sse(body: bytes) -> list[tuple[bytes, bytes, bytes]]:
    """Name, data and id of every event: the text of WHATWG HTML, 9.2.6, written down as it stands."""
    *lines, _ = _LINE_END.split(body.removeprefix(b"\xef\xbb\xbf"))
    events = []
    name, data, event_id = b"", None, b""
    for line in lines:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not line:
            if data is not None:
                events.append((name, data, event_id))
            name, data = b"", None
        elif field == b"event":
            name = value[:FIELD_BYTES]
        elif field == b"data":
            data = value if data is None else data + b"\n" + value
        elif field == b"id" and b"\0" not in value and len(value) <= FIELD_BYTES:
            event_id = value
    return events


# -------------------------------------------------------------------------------------------------------------- lane

PATHS = ("/v1/chat/completions", "/v1/messages", "/v1/completions", "/v1/responses", "/v2/chat", "/unknown")


def check_lane(data: bytes) -> None:
    """Events that are taken by their shape, in Python or compiled, leave what reading each of them leaves."""
    delivery = delivery_of(data)
    path = PATHS[delivery.switches % len(PATHS)]
    blocks = [block + b"\n\n" for block in delivery.payload.split(b"\n\n")]
    for reads in ([*blocks, delivery.payload], next(delivery.cuts())):  # byte by byte none is ever whole
        expected = known(path, reads, parts=READING_ALL)
        assert known(path, reads, parts=TWINS) == expected
        assert COMPILED is None or known(path, reads, parts=COMPILED) == expected


# ------------------------------------------------------------------------------------------------------ request scan


def check_request_scan(data: bytes) -> None:
    """Any cut finds the same, and in a body that is JSON it finds what a parser finds."""
    delivery = delivery_of(data)
    found = _scan(delivery.whole())
    for cut in delivery.cuts():
        assert _scan(cut) == found
    try:
        members = orjson.loads(delivery.payload)
    except orjson.JSONDecodeError:
        return
    if isinstance(members, dict):
        model, is_stream, _ = found
        assert model == name_of(members.get("model"))
        assert is_stream == (value if isinstance(value := members.get("stream"), bool) else None)


def _scan(pieces: list[bytes]) -> tuple[str | None, bool | None, str | None]:
    scan = RequestScan()
    for piece in pieces:
        scan.feed(piece)
    return scan.model, scan.is_stream, scan.prompt_bucket


# --------------------------------------------------------------------------------------------------------- websocket


def check_websocket(data: bytes) -> None:
    """Sizes add up after every feed, any cut gives the same messages, and they are those of RFC 6455."""
    delivery = delivery_of(data)
    found = _walk(delivery.whole())
    assert found == _messages_of(delivery.payload)
    for cut in delivery.cuts():
        assert _walk(cut) == found


Messages = tuple[list[tuple[int, int, int | None]], bool]
"""Opcode, size and close code of each message; whether the frames then break the rules."""


def _walk(pieces: list[bytes]) -> Messages:
    walker = FrameWalker()
    found = []
    fed_bytes = 0
    for piece in pieces:
        found += walker.feed(piece)
        fed_bytes += len(piece)
        assert sum(message.size_bytes for message in found) + walker.pending_bytes == fed_bytes
    return [(message.opcode, message.size_bytes, message.close_code) for message in found], walker.is_blind


def _messages_of(stream: bytes) -> Messages:
    """The frames of RFC 6455, 5.2 one after the other, from bytes that are all there."""
    found: list[tuple[int, int, int | None]] = []
    at = began = 0
    open_opcode = None
    while len(stream) >= at + 2:
        is_final, opcode, is_masked = stream[at] >= 0x80, stream[at] & 0x0F, stream[at + 1] >= 0x80
        length, extended_bytes = stream[at + 1] & 0x7F, {126: 2, 127: 8}.get(stream[at + 1] & 0x7F, 0)
        payload_at = at + 2 + extended_bytes + 4 * is_masked
        if payload_at > len(stream):
            break
        if extended_bytes:
            length = int.from_bytes(stream[at + 2 : at + 2 + extended_bytes])
        is_control = opcode >= 8
        if opcode not in (0, 1, 2, 8, 9, 10) or length >= 1 << 63:
            return found, True
        if (not is_final or length > 125) if is_control else (opcode == 0) == (open_opcode is None):
            return found, True
        at = payload_at + length
        if at > len(stream):
            break
        if not is_control and not is_final:
            open_opcode = opcode or open_opcode
            continue
        close_code = None
        if opcode == 8 and length >= 2:
            mask = stream[payload_at - 4 : payload_at] if is_masked else bytes(4)
            close_code = int.from_bytes(stream[payload_at : payload_at + 2]) ^ int.from_bytes(mask[:2])
        if not is_control:
            opcode, open_opcode = opcode or open_opcode or 0, None
        found.append((opcode, at - began, close_code))
        began = at
    return found, False
