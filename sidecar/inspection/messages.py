"""Look at the messages of a WebSocket as they pass: a timeline for each direction, and nothing of what they say."""

from __future__ import annotations

from typing import Final

from otel.hop import WEBSOCKET, EventClass
from sidecar.inspection.dialects.plain import OPAQUE
from sidecar.inspection.events import Event, Reading, Unit
from sidecar.inspection.seen import Seen
from sidecar.inspection.stamper import Stamper
from sidecar.inspection.websocket import CLOSE

_CONTROL_BIT: Final = 0x8
_DATA: Final = Reading(EventClass.OPAQUE)
_CONTROL: Final = Reading(EventClass.CONTROL)


class Messages(Seen):
    """The messages of one WebSocket; `stamper` has those towards the reader, `sent` those of the reader."""

    __slots__ = ("_sent",)

    def __init__(self) -> None:
        self._sent = Stamper()
        super().__init__(framing=WEBSOCKET, dialect=OPAQUE, is_stream=False, sent=self._sent)

    def arrived(self, data: bytes, at_ns: int, *, is_wasted: bool) -> None:
        """Bytes in which no messages were looked for: each read is one opaque event. Never raises."""
        self._take(_DATA, len(data), at_ns, is_wasted=is_wasted)

    def received(self, opcode: int, size_bytes: int, at_ns: int, *, is_wasted: bool) -> None:
        """A whole message of the upstream."""
        if opcode == CLOSE and self.terminal_seq is None and not (self.is_blind or is_wasted):
            self.terminal_seq = self.stamper.count
        self._take(_reading(opcode), size_bytes, at_ns, is_wasted=is_wasted)

    def passed_up(self, opcode: int, size_bytes: int, arrived_ns: int, taken_ns: int) -> None:
        """A whole message of the reader, which the upstream's connection has taken."""
        if self.is_blind:
            return
        if opcode == CLOSE and self.terminal_seq is None:  # else it only answers the upstream's goodbye
            self.has_reader_closed = True
        self._sent.events([_event(_reading(opcode), size_bytes)], arrived_ns)
        self._sent.taken(taken_ns, 0)

    def _take(self, reading: Reading, size_bytes: int, at_ns: int, *, is_wasted: bool) -> None:
        self.size_bytes += size_bytes
        if self.is_blind:
            return
        if is_wasted:
            self.wasted_count += 1
        elif reading is _DATA:
            self.progress_ns = at_ns
        self.stamper.events([_event(reading, size_bytes)], at_ns)


def _reading(opcode: int) -> Reading:
    return _CONTROL if opcode & _CONTROL_BIT else _DATA


def _event(reading: Reading, size_bytes: int) -> tuple[Event, Reading]:
    return Event(Unit.EVENT, b"", b"", b"", size_bytes), reading
