"""Turn response bytes into events without changing a byte.

Rule: the sizes of the units given out, plus `pending_bytes`, equal the bytes taken in, after every feed and
after `finish`. How the bytes were cut into reads never matters (opaque bodies apart: there a read is an event).

SSE follows WHATWG HTML 9.2.6 to the letter: CR, LF and CRLF end a line, a block of lines ends at a blank one,
and only a block with a data field dispatches. A unit is complete at the byte that completes its blank line, so
a CR is enough and nothing waits for a LF that may never come. That LF is counted to the unit after it, as are
blank lines between units; at the end of the body such line ends stay pending and are no tail.
"""

from __future__ import annotations

from typing import Final, Protocol

from sidecar.headers import essence_of
from sidecar.inspection.events import Event, Unit
from sidecar.inspection.eventstream import EventStreamSplitter
from sidecar.inspection.json_array import JsonArraySplitter

LIMIT_BYTES: Final = 1 << 20
"""Data kept of one event. Real ones reach 0.5 MB (images, compacted histories); more would let one stream
take the memory of thousands. A longer event passes the proxy as it is and is flagged `is_cut` here."""
FIELD_BYTES: Final = 1_024
"""Longest SSE id taken over, and what is kept of an event's name: real ones are tens of bytes, and an id stays
for as long as the stream."""

EVENT_STREAM: Final = "text/event-stream"
_BOM: Final = b"\xef\xbb\xbf"
_LF: Final = 0x0A
_NDJSON_TYPES: Final = frozenset(
    {
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/x-jsonl",
        "application/jsonlines",
        "application/x-jsonlines",
        "application/stream+json",
    }
)


def framing_of(content_type: str | None, *, may_be_array: bool = False) -> str:
    """How a body of this media type is framed, whose parameters do not matter: `sse`, `ndjson`, `eventstream`, or
    `opaque`. may_be_array: JSON is streamed as one array, `json_array`."""
    essence = essence_of(content_type)
    if essence == EVENT_STREAM:
        return "sse"
    if essence == "application/vnd.amazon.eventstream":
        return "eventstream"
    if may_be_array and essence == "application/json":
        return "json_array"
    return "ndjson" if essence in _NDJSON_TYPES else "opaque"


class Splitter(Protocol):
    """A body of one framing, read as it comes. Nothing raises, whatever the bytes."""

    @property
    def pending_bytes(self) -> int:
        """Bytes taken in that belong to no unit yet; after `finish`, what stood between units and belongs to none."""

    @property
    def is_lost(self) -> bool:
        """The body breaks its framing: from here on each read is an event, and nothing is known of it."""

    @property
    def is_at_boundary(self) -> bool:
        """Something of our own may be put in behind what was taken in, and reads as a unit of its own.

        False inside a unit, between a CR and the LF that may follow, where the framing is lost or there is none. In a
        JSON array it is so behind an element, before its comma. `finish` leaves it as it was.
        """

    def feed(self, data: bytes) -> list[Event]:
        """The units that these bytes complete."""

    def finish(self) -> list[Event]:
        """The body has ended: what was left inside a unit, as one TAIL."""


def splitter_for(framing: str, *, limit_bytes: int = LIMIT_BYTES) -> Splitter:
    """A splitter for one body. Raises ValueError for a framing that `framing_of` does not give."""
    match framing:
        case "sse":
            return SseSplitter(limit_bytes=limit_bytes)
        case "ndjson":
            return NdjsonSplitter(limit_bytes=limit_bytes)
        case "eventstream":
            return EventStreamSplitter(limit_bytes=limit_bytes)
        case "json_array":
            return JsonArraySplitter(limit_bytes=limit_bytes)
        case "opaque":
            return OpaqueSplitter()
    raise ValueError(f"framing {framing!r} is none of sse, ndjson, eventstream, json_array, opaque")


class SseSplitter:
    """SSE blocks. Whole blocks of the usual shapes are cut out of a read; everything else goes line by line."""

    __slots__ = (
        "_data",
        "_has_comment",
        "_has_data",
        "_has_field",
        "_id",
        "_is_cut",
        "_is_first_line",
        "_last_id",
        "_limit_bytes",
        "_line",
        "_name",
        "_skip_lf",
        "is_at_boundary",
        "pending_bytes",
    )
    is_lost: Final = False

    def __init__(self, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self.pending_bytes = 0
        self._limit_bytes = limit_bytes
        self._line = bytearray()  # the beginning of a line whose end has not come
        self._is_first_line = True  # of the body: a BOM before it is not part of it
        self._skip_lf = False  # the last byte was a CR: a LF that follows belongs to it
        self.is_at_boundary = True  # nothing is open, and the next byte begins a line
        self._last_id = self._id = b""
        self._data = bytearray()  # of the open block, as is all that follows
        self._name = b""
        self._has_data = self._has_field = self._has_comment = self._is_cut = False

    def feed(self, data: bytes) -> list[Event]:
        if data.startswith(b"data: ") and data.find(b"\n") == len(data) - 2 and self._is_one_block(data):
            size_bytes = self.pending_bytes + len(data)
            self.pending_bytes = 0
            return [Event(Unit.EVENT, data[6:-2], b"", self._last_id, size_bytes)]
        out: list[Event] = []
        if len(data) > self._limit_bytes:  # the limit is watched line by line only
            self._read_lines(data, out)
            return out
        line_end = b"\r\n" if b"\r" in data else b"\n"
        blank = line_end + line_end
        if self._is_first_line or not self.is_at_boundary:
            boundary = data.find(blank) + len(blank)
            if boundary < len(blank):
                self._read_lines(data, out)
                return out
            self._read_lines(data[:boundary], out)
            data = data[boundary:]
        blocks = data.split(blank)
        rest = blocks.pop()
        for block in blocks:
            if block.startswith(b"data: "):
                name, value = b"", block[6:]
            else:
                name, value = _usual(block, line_end)
            if b"\n" in value or b"\r" in value:
                self._read_lines(block + blank, out)
                continue
            size_bytes = self.pending_bytes + len(block) + len(line_end) + 1  # 1: a CR is enough of a blank CRLF
            self.pending_bytes = len(line_end) - 1
            out.append(Event(Unit.EVENT, value, name, self._last_id, size_bytes))
        if rest:
            self._read_lines(rest, out)
        return out

    def _is_one_block(self, data: bytes) -> bool:
        """Of a line that begins with its data: it is a block by itself, and nothing else came."""
        is_fresh = self.is_at_boundary and not self._is_first_line
        return is_fresh and data.endswith(b"\n") and b"\r" not in data and len(data) <= self._limit_bytes

    def finish(self) -> list[Event]:
        last_id = self._last_id  # the id of a block that never ended does not count
        if self._line:
            self._read_line(bytes(self._line))
            self._line.clear()
        if not (self._has_data or self._has_field or self._has_comment):
            return []
        tail = Event(Unit.TAIL, bytes(self._data), self._name, last_id, self.pending_bytes, self._is_cut)
        self.pending_bytes = 0
        self._open_block()
        return [tail]

    def _read_lines(self, data: bytes, out: list[Event]) -> None:
        """Any bytes, in any state. The line ends of `bytes.splitlines` are exactly those of the standard."""
        if not data:
            return
        if self._skip_lf and data[0] == _LF:
            self.pending_bytes += 1
            data = data[1:]
        for line in data.splitlines(keepends=True):
            self.pending_bytes += len(line)
            content = line.rstrip(b"\r\n")
            if len(content) == len(line):  # the last one: its end has not come
                self._keep(content)
                break
            if self._line:
                self._keep(content)
                content = bytes(self._line)
                self._line.clear()
            if not self._read_line(content):
                self._end_block(out, later_bytes=int(line.endswith(b"\r\n")))
        self._skip_lf = data.endswith(b"\r")
        is_open = self._line or self._has_data or self._has_field or self._has_comment
        self.is_at_boundary = not (is_open or self._skip_lf)

    def _keep(self, beginning: bytes) -> None:
        room = max(self._limit_bytes, FIELD_BYTES) + len(_BOM) + len(b"event: ") + 1 - len(self._line)
        if room > 0:
            self._line += beginning[:room]

    def _read_line(self, line: bytes) -> bool:
        """Take one line without its end into the open block; False when it is blank."""
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            return False
        name, _, value = line.partition(b":")
        if not name:
            self._has_comment = True
            return True
        self._has_field = True
        value = value.removeprefix(b" ")
        if name == b"data":
            if self._has_data:
                self._append(b"\n")
            self._has_data = True
            self._append(value)
        elif name == b"event":
            self._name = value[:FIELD_BYTES]
        elif name == b"id" and b"\0" not in value and len(value) <= FIELD_BYTES:
            self._id = value
        return True

    def _append(self, data: bytes) -> None:
        room = self._limit_bytes - len(self._data)
        self._is_cut = self._is_cut or len(data) > room
        self._data += data[:room]

    def _end_block(self, out: list[Event], *, later_bytes: int) -> None:
        if not (self._has_field or self._has_comment):
            return  # one more blank line
        self._last_id = self._id
        unit = Unit.EVENT if self._has_data else Unit.DATALESS if self._has_field else Unit.COMMENT
        size_bytes = self.pending_bytes - later_bytes
        out.append(Event(unit, bytes(self._data), self._name, self._last_id, size_bytes, self._is_cut))
        self.pending_bytes = later_bytes
        self._open_block()

    def _open_block(self) -> None:
        self._data = bytearray()
        self._name = b""
        self._has_data = self._has_field = self._has_comment = self._is_cut = False


def _usual(block: bytes, line_end: bytes) -> tuple[bytes, bytes]:
    """Name and data of a block of the two usual shapes, `data:` without its space and `event: ` before `data: `.

    Data with a line end in it says that the block has to be read line by line.
    """
    if block.startswith(b"data:"):
        return b"", block[5:]
    head, found, data = block.partition(line_end + b"data: ")
    is_usual = found and head.startswith(b"event: ") and b"\n" not in head and b"\r" not in head
    return (head[7:], data) if is_usual and len(head) <= FIELD_BYTES else (b"", b"\n")


class NdjsonSplitter:
    """Lines ended by LF or CRLF, as NDJSON has them. A line of white space is none; the last one may lack its end."""

    __slots__ = ("_is_blank", "_kept_bytes", "_limit_bytes", "_line", "is_at_boundary", "pending_bytes")
    is_lost: Final = False

    def __init__(self, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self.pending_bytes = 0
        self._limit_bytes = limit_bytes
        self._kept_bytes = limit_bytes + 2  # a CR and one byte more tell a cut line from one that just fits
        self.is_at_boundary = True
        self._line = bytearray()
        self._is_blank = True  # the line that has begun, with what of it is not kept

    def feed(self, data: bytes) -> list[Event]:
        out: list[Event] = []
        lines = data.split(b"\n")
        rest = lines.pop()
        for line in lines:
            self.pending_bytes += len(line) + 1
            if self._line:
                self._keep(line)
                self._end_kept(Unit.EVENT, out)
            elif line.strip():
                self._end_line(Unit.EVENT, line, out)
        self.pending_bytes += len(rest)
        self._keep(rest)
        self.is_at_boundary = not self._line
        return out

    def finish(self) -> list[Event]:
        out: list[Event] = []
        self._end_kept(Unit.TAIL, out)
        return out

    def _keep(self, beginning: bytes) -> None:
        self._is_blank = self._is_blank and not beginning.strip()
        room = self._kept_bytes - len(self._line)
        if room > 0:
            self._line += beginning[:room]

    def _end_kept(self, unit: Unit, out: list[Event]) -> None:
        if not self._is_blank:
            self._end_line(unit, bytes(self._line), out)
        self._line.clear()
        self._is_blank = True

    def _end_line(self, unit: Unit, line: bytes, out: list[Event]) -> None:
        data = line[: self._kept_bytes].removesuffix(b"\r")
        is_cut = len(data) > self._limit_bytes
        out.append(Event(unit, data[: self._limit_bytes], b"", b"", self.pending_bytes, is_cut))
        self.pending_bytes = 0


class OpaqueSplitter:
    """A body without a framing of its own: what one read brought is one event, and nothing of it is kept."""

    __slots__ = ()
    pending_bytes: Final = 0
    is_lost: Final = False
    is_at_boundary: Final = False

    def feed(self, data: bytes) -> list[Event]:
        return [Event(Unit.EVENT, b"", b"", b"", len(data))] if data else []

    def finish(self) -> list[Event]:
        return []
