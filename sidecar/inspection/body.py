"""Look into a response body as it flows by: decode a copy, split it, class its events, stamp them.

Nothing here can harm the stream. A body that cannot be decoded is opaque from there on, and where looking fails for
any other reason the failure is counted and nothing is looked at any more.
"""

from __future__ import annotations

from typing import Final

from otel.hop import EventClass
from sidecar.inspection.coding import CodingError, Decoder, decoder_for
from sidecar.inspection.dialects import dialect_for, recognise
from sidecar.inspection.events import Event, Reading, Unit
from sidecar.inspection.seen import Seen
from sidecar.inspection.splitter import LIMIT_BYTES, Splitter, framing_of, splitter_for

_TELLS_NOTHING: Final = frozenset({EventClass.KEEPALIVE, EventClass.ERROR})
STREAMS: Final = frozenset({"sse", "ndjson"})
"""Framings of a body that is a stream of events."""


class Body(Seen):
    """One response body. Times are offsets from the exchange's anchor."""

    __slots__ = ("_decoder", "_is_path_mute", "_path", "_splitter")

    def __init__(
        self, path: str, *, content_type: str | None, content_encoding: str | None, event_limit_bytes: int = LIMIT_BYTES
    ) -> None:
        framing = framing_of(content_type)
        super().__init__(framing=framing, dialect=dialect_for(path, framing), is_stream=framing in STREAMS)
        self._path = path
        self._splitter: Splitter = splitter_for(framing, limit_bytes=event_limit_bytes)
        self._is_path_mute = self.is_stream and not self.dialect.path_end
        self._decoder: Decoder | None = decoder_for(content_encoding)
        if self._decoder is None:
            self._see_arrivals_only()

    def arrived(self, data: bytes, at_ns: int, *, is_wasted: bool) -> None:
        """The next bytes as they were on the wire, with the time of the read that brought them. Never raises."""
        self.size_bytes += len(data)
        if self.is_blind:
            return
        try:
            decoded = self._decoded(data)  # first: it may put another splitter in its place
            self._take(self._splitter.feed(decoded), at_ns, is_wasted=is_wasted)
        except Exception:  # noqa: BLE001  # whatever the bytes are and wherever our mistake is, the stream goes on
            self.is_blind = True
            self.failure_count += 1

    def ended(self) -> None:
        """No more will come. What is left inside an event dispatches nothing, but it may be the end mark."""
        if self.is_blind:
            return
        for unit in self._splitter.finish():
            self.has_tail = True
            if self.terminal_seq is None and self._read(unit).event_class is EventClass.TERMINAL:
                self.terminal_seq = max(0, self.stamper.count - 1)

    def mute(self) -> None:
        super().mute()
        self._splitter = splitter_for("opaque")  # the one before may hold the beginning of an event
        self._decoder = None

    def _decoded(self, data: bytes) -> bytes:
        assert self._decoder is not None
        try:
            return self._decoder.decode(data)
        except CodingError:
            self._see_arrivals_only()
            return data

    def _see_arrivals_only(self) -> None:
        """What cannot be decoded has no events to be seen: from here on each arrival is one, and no rule applies."""
        self._decoder = decoder_for(None)
        self._splitter = splitter_for("opaque")
        self.dialect = dialect_for(self._path, "opaque")
        self._is_path_mute = False

    def _take(self, units: list[Event], at_ns: int, *, is_wasted: bool) -> None:
        readings: list[tuple[Event, Reading]] = []
        for unit in units:
            match unit.unit:
                case Unit.EVENT:
                    readings.append((unit, self._read(unit)))
                case Unit.COMMENT:
                    self.comment_count += 1
                case Unit.DATALESS:
                    self.dataless_count += 1
        if is_wasted:
            self.wasted_count += len(readings)
        else:
            self._note(readings, at_ns)
        self.stamper.events(readings, at_ns)

    def _read(self, event: Event) -> Reading:
        """What the dialect makes of an event; one that it chokes on is opaque, and the next one is read again."""
        try:
            if not self._is_path_mute:
                return self.dialect.read(event)
            self.dialect = recognise(event) or self.dialect  # the first event that is one of an API's tells
            reading = self.dialect.read(event)
            self._is_path_mute = reading.event_class in _TELLS_NOTHING
            return reading
        except Exception:  # noqa: BLE001  # whatever stands in an event, the stream goes on and is looked at
            self.failure_count += 1
            return Reading(EventClass.OPAQUE)

    def _note(self, readings: list[tuple[Event, Reading]], at_ns: int) -> None:
        for seq, (_, reading) in enumerate(readings, start=self.stamper.count):
            self.model = self.model or reading.model
            self.response_id = self.response_id or reading.response_id
            match reading.event_class:
                case EventClass.KEEPALIVE:
                    continue
                case EventClass.ERROR:
                    self.error = self.error or reading
                case EventClass.TERMINAL if self.terminal_seq is None:
                    self.terminal_seq = seq
            self.progress_ns = at_ns
