"""The frames of `application/vnd.amazon.eventstream`: lengths and checksums, headers, a payload.

A frame is a prelude of 12 bytes (its length, that of its headers, a CRC-32 of the two), the headers, the payload,
and a CRC-32 of all before it. A frame that breaks these rules leaves no way to find the next one: from there on each
read is an event of which nothing is known, and `is_lost` says so.
"""

from __future__ import annotations

import zlib
from typing import Final

from sidecar.inspection.events import Event, Unit

PRELUDE_BYTES: Final = 12
CHECKSUM_BYTES: Final = 4
HEADERS_BYTES: Final = 128 << 10
"""Longest headers, as the format has it."""
FRAME_BYTES: Final = 32 << 20
"""Longest frame: the format allows payloads of 24 MiB. What says it is longer is no frame."""
NAME_BYTES: Final = 128
"""Most that is kept of a type; real ones are words."""
VALUE_BYTES: Final = (32 << 10) - 1
"""Longest string in a header that is written, as the format has it."""

_SIZES: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of a header's value by its type; 6 and 7, bytes and strings, say their own length."""
_STRING: Final = 7
_KINDS: Final = (b":event-type", b":exception-type", b":error-code")


class EventStreamSplitter:
    """The frames of one body, each of which is an event named by its message type and the type of that."""

    __slots__ = (
        "_checksum",
        "_headers_bytes",
        "_kept",
        "_kept_bytes",
        "_left_bytes",
        "_limit_bytes",
        "is_at_boundary",
        "is_lost",
        "pending_bytes",
    )

    def __init__(self, *, limit_bytes: int) -> None:
        self.pending_bytes = 0
        self.is_lost = False
        self.is_at_boundary = True
        self._limit_bytes = limit_bytes
        self._kept = bytearray()  # of the frame so far: prelude, headers, the beginning of the payload, checksum
        self._kept_bytes = 0  # most that is kept of it before its checksum
        self._headers_bytes = 0
        self._left_bytes = 0  # of the frame before its checksum; 0 also while the prelude is not there
        self._checksum = 0

    def feed(self, data: bytes) -> list[Event]:
        out: list[Event] = []
        pos = 0
        while pos < len(data) and not self.is_lost:
            if self._kept_bytes == 0:
                pos = self._prelude(data, pos)
            elif self._left_bytes:
                pos = self._body(data, pos)
            else:
                pos = self._end(data, pos, out)
        if self.is_lost and (rest_bytes := self.pending_bytes + len(data) - pos):
            out.append(Event(Unit.EVENT, b"", b"", b"", rest_bytes, is_cut=True))
            self.pending_bytes = 0
            self._kept.clear()
        self.is_at_boundary = not (self._kept or self.is_lost)
        return out

    def finish(self) -> list[Event]:
        if not self.pending_bytes:
            return []
        payload = bytes(self._kept[PRELUDE_BYTES + self._headers_bytes :]) if self._kept_bytes else b""
        tail = Event(Unit.TAIL, payload[: self._limit_bytes], self._name(), b"", self.pending_bytes, is_cut=True)
        self.pending_bytes = 0
        self._reset()
        return [tail]

    def _prelude(self, data: bytes, pos: int) -> int:
        taken = data[pos : pos + PRELUDE_BYTES - len(self._kept)]
        self._kept += taken
        self.pending_bytes += len(taken)
        if len(self._kept) == PRELUDE_BYTES:
            total_bytes, headers_bytes = (int.from_bytes(self._kept[at : at + 4]) for at in (0, 4))
            payload_bytes = total_bytes - PRELUDE_BYTES - headers_bytes - CHECKSUM_BYTES
            is_sound = zlib.crc32(self._kept[:8]) == int.from_bytes(self._kept[8:])
            if not is_sound or payload_bytes < 0 or headers_bytes > HEADERS_BYTES or total_bytes > FRAME_BYTES:
                self.is_lost = True
            self._headers_bytes = headers_bytes
            self._left_bytes = headers_bytes + max(0, payload_bytes)
            self._kept_bytes = PRELUDE_BYTES + headers_bytes + min(max(0, payload_bytes), self._limit_bytes + 1)
            self._checksum = zlib.crc32(self._kept)
        return pos + len(taken)

    def _body(self, data: bytes, pos: int) -> int:
        taken = data[pos : pos + self._left_bytes]
        self._left_bytes -= len(taken)
        self.pending_bytes += len(taken)
        self._checksum = zlib.crc32(taken, self._checksum)
        self._kept += taken[: max(0, self._kept_bytes - len(self._kept))]
        return pos + len(taken)

    def _end(self, data: bytes, pos: int, out: list[Event]) -> int:
        taken = data[pos : pos + self._kept_bytes + CHECKSUM_BYTES - len(self._kept)]
        self._kept += taken
        self.pending_bytes += len(taken)
        if len(self._kept) == self._kept_bytes + CHECKSUM_BYTES:
            if int.from_bytes(self._kept[-CHECKSUM_BYTES:]) != self._checksum:
                self.is_lost = True
                return pos + len(taken)
            payload = bytes(self._kept[PRELUDE_BYTES + self._headers_bytes : -CHECKSUM_BYTES])
            is_cut = len(payload) > self._limit_bytes
            out.append(Event(Unit.EVENT, payload[: self._limit_bytes], self._name(), b"", self.pending_bytes, is_cut))
            self.pending_bytes = 0
            self._reset()
        return pos + len(taken)

    def _reset(self) -> None:
        self._kept = bytearray()
        self._kept_bytes = self._headers_bytes = self._left_bytes = 0

    def _name(self) -> bytes:
        """The message type and the type of that, empty where the headers say neither, or break their rules."""
        if not self._kept_bytes:
            return b""
        found = strings_in(bytes(self._kept[PRELUDE_BYTES : PRELUDE_BYTES + self._headers_bytes]))
        kind = next((found[name] for name in _KINDS if name in found), b"")
        message = found.get(b":message-type", b"")
        return message[:NAME_BYTES] + b"/" + kind[:NAME_BYTES] if message or kind else b""


def strings_in(headers: bytes) -> dict[bytes, bytes]:
    """The headers that are strings, up to the first that breaks the rules."""
    found: dict[bytes, bytes] = {}
    pos = 0
    while pos < len(headers):
        name_end = pos + 1 + headers[pos]
        if name_end >= len(headers):
            break
        kind = headers[name_end]
        start = name_end + 1
        size = _SIZES.get(kind)
        if size is None:
            if kind not in {6, _STRING} or start + 2 > len(headers):
                break
            size = int.from_bytes(headers[start : start + 2])
            start += 2
        if start + size > len(headers):
            break
        if kind == _STRING:
            found[headers[pos + 1 : name_end]] = headers[start : start + size]
        pos = start + size
    return found


def framed(headers: dict[str, str], payload: bytes) -> bytes:
    """One frame with these headers, which are strings; values of more than VALUE_BYTES lose their end."""
    encoded = b"".join(_header(name.encode(), value.encode()[:VALUE_BYTES]) for name, value in headers.items())
    total_bytes = PRELUDE_BYTES + len(encoded) + len(payload) + CHECKSUM_BYTES
    prelude = total_bytes.to_bytes(4) + len(encoded).to_bytes(4)
    frame = prelude + zlib.crc32(prelude).to_bytes(4) + encoded + payload
    return frame + zlib.crc32(frame).to_bytes(4)


def _header(name: bytes, value: bytes) -> bytes:
    return len(name).to_bytes(1) + name + bytes([_STRING]) + len(value).to_bytes(2) + value
