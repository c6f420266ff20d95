"""Look into a response body as it flows by: decode a copy, split it, class its events, stamp them.

Nothing here can harm the stream. A body that cannot be decoded is opaque from there on, and where looking fails for
any other reason the failure is counted and nothing is looked at any more.

The first event that only one API has tells the dialect; until one comes, it is the one of the path. A path that no
event bears out is not believed for long.
"""

from __future__ import annotations

from typing import Final

from otel.hop import OUTPUT, EventClass
from sidecar.headers import is_packed
from sidecar.inspection.coding import CodingError, Decoder, decoder_for
from sidecar.inspection.dialects import OPAQUE, PLAIN, Dialect, Ends, dialect_for, recognise
from sidecar.inspection.error_body import error_body_for
from sidecar.inspection.events import Event, Reading, Unit
from sidecar.inspection.lane import Lane
from sidecar.inspection.seen import FINISHES, Seen, merged
from sidecar.inspection.shape import Learner
from sidecar.inspection.splitter import LIMIT_BYTES, Splitter, framing_of, splitter_for
from sidecar.native import TWINS, Parts

UNPACKED_LINES: Final = 20_000
"""Most lines that one encoded read may unpack to: packed, 20 KB can hold half a million events, seconds of the loop.
Only an answer of ten thousand events that comes in one read has more; its events are not told apart then."""
STREAMS: Final = frozenset({"sse", "ndjson", "json_array", "eventstream"})
"""Framings of a body that is a stream of events."""
LOOKS: Final = 16
"""Events that are asked which API they are of, 5 µs each: some gateways begin with a few of their own."""

SINGLE_BLOCKS: Final = 8
"""Blocks of one read that are looked at one by one, since a usual one may follow each; the rest is, as a whole."""

_TELLS_NOTHING: Final = frozenset({EventClass.KEEPALIVE, EventClass.ERROR})
_MAY_BE_LOST: Final = frozenset({"json_array", "eventstream"})
_BEARS_OUT: Final = OUTPUT | {EventClass.USAGE, EventClass.TERMINAL}


class Body(Seen):
    """One response body. Times are offsets from the exchange's anchor."""

    __slots__ = (
        "_candidate_seq",
        "_decoder",
        "_error_body",
        "_event_limit_bytes",
        "_is_encoded",
        "_is_lane_open",
        "_is_odd",
        "_lane",
        "_learner",
        "_learnt",
        "_looks",
        "_method",
        "_parts",
        "_path_dialect",
        "_read_event",
        "_splitter",
        "_unread_seq",
    )

    def __init__(
        self,
        path: str,
        *,
        content_type: str | None,
        content_encoding: str | None,
        method: str = "POST",
        status: int | None = None,
        event_limit_bytes: int = LIMIT_BYTES,
        parts: Parts = TWINS,
    ) -> None:
        framing = framing_of(content_type, may_be_array=dialect_for(path, "json_array") is not PLAIN)
        dialect = dialect_for(path, framing)
        super().__init__(framing=framing, dialect=dialect, is_stream=framing in STREAMS, stamper=parts.stamper())
        self._parts = parts
        self._path_dialect = dialect
        self._method = method
        self._looks = LOOKS if self.is_stream else 0
        self._read_event = dialect.begin()
        self._candidate_seq: int | None = None  # of the event that was the end, if no output follows it
        self._learnt: Reading | None = None  # what was taken over last
        self._unread_seq: int | None = None  # of the last event that was too long to be read
        self._speak(dialect)
        self._splitter: Splitter = splitter_for(framing, limit_bytes=event_limit_bytes)
        self._error_body = error_body_for(status, content_type, content_encoding)
        self._is_encoded = is_packed(content_encoding)
        self._event_limit_bytes = event_limit_bytes
        has_lane = parts.lane is not None and framing == "sse" and self._error_body is None
        self._learner = Learner() if has_lane and not self._is_encoded else None
        self._lane: Lane | None = None  # once the usual event is known
        self._is_lane_open = False  # what comes next may be usual events
        self._decoder: Decoder | None = decoder_for(content_encoding if self.is_stream else None)
        if self._decoder is None:
            self._see_arrivals_only()

    @property
    def lacks_mark(self) -> bool:
        """As for all that is seen, where path and events agree on the API: more hangs on it than a record."""
        return self.dialect is self._path_dialect and super().lacks_mark

    @property
    def seems_over(self) -> bool:
        return self.is_over or self._candidate_seq is not None

    @property
    def is_at_boundary(self) -> bool:
        return self._splitter.is_at_boundary and not (self.is_blind or self._is_encoded)

    def arrived(self, data: bytes, at_ns: int, *, is_wasted: bool) -> None:
        """The next bytes as they were on the wire, with the time of the read that brought them. Never raises."""
        self.size_bytes += len(data)
        if self.is_blind:
            return
        try:
            at = 0
            if self._is_lane_open and self._lane is not None and not is_wasted:  # nearly always, and then all of it
                at = self._lane.take(data, 0, at_ns)
                self.progress_ns = at_ns if at else self.progress_ns
            if at < len(data):
                self._came(data, at, at_ns, is_wasted=is_wasted)
        except Exception:  # noqa: BLE001  # whatever the bytes are and wherever our mistake is, the stream goes on
            self.is_blind = True
            self.failure_count += 1

    def _usual_came(self, data: bytes, at: int, at_ns: int) -> int:
        """Usual events, as many as stand here; returns where something else begins."""
        assert self._lane is not None
        stop = self._lane.take(data, at, at_ns)
        if stop > at:
            self.progress_ns = at_ns
        return stop

    def _came(self, data: bytes, at: int, at_ns: int, *, is_wasted: bool) -> None:
        """Anything; the first blocks each by itself, since what follows one may be usual."""
        for _ in range(SINGLE_BLOCKS if self._learner is not None and not is_wasted else 0):
            stop = data.find(b"\n\n", at) + 2
            if stop == 1 or stop == len(data):
                break
            self._look_into(data[at:stop], at_ns, later_bytes=len(data) - stop, is_wasted=is_wasted)
            at = self._usual_came(data, stop, at_ns) if self._is_lane_open else stop
        if at < len(data):
            self._look_into(data[at:], at_ns, later_bytes=0, is_wasted=is_wasted)

    def _look_into(self, data: bytes, at_ns: int, *, later_bytes: int, is_wasted: bool) -> None:
        """Bytes of a read, behind which there are so many more."""
        if self._error_body is not None:
            self._error_body.feed(data)
        decoded = self._decoded(data)  # first: it may put another splitter in its place
        units = self._splitter.feed(decoded)
        if units:
            self.has_id = units[-1].id != b""
        self._take(units, at_ns, later_bytes=later_bytes, is_wasted=is_wasted)
        if self._is_odd:
            self._watch(units)
        self._is_lane_open = self._lane is not None and self._is_clear()

    def _is_clear(self) -> bool:
        """Nothing that came before has to do with what comes next."""
        splitter = self._splitter
        return splitter.is_at_boundary and not (
            splitter.pending_bytes or self.has_id or self._candidate_seq is not None
        )

    def ended(self, *, is_clean: bool = True) -> None:
        """No more will come. What is left inside an event dispatches nothing, but it may be the end mark.

        is_clean: HTTP's framing of the body came to its end.
        """
        if self.is_blind:
            return
        self._refused()
        for unit in self._splitter.finish():
            self.has_tail = True
            if not unit.is_cut:  # half an event says nothing, though its name may be whole
                self._learn(self._read(unit._replace(name=b"")), max(0, self.stamper.count - 1))
        if is_clean and self.terminal_seq is None:
            self.terminal_seq = self._candidate_seq
        if self.terminal_seq is None and self._unread_seq == self.stamper.count - 1:  # it may have been the mark
            self.is_mark_unsure = True

    def mute(self) -> None:
        super().mute()
        self._splitter = splitter_for("opaque")  # the one before may hold the beginning of an event
        self._decoder = None
        self._error_body = self._learner = self._lane = None
        self._is_lane_open = False

    def _refused(self) -> None:
        if self._error_body is None:
            return
        try:
            self.refusal = self._error_body.reading()
        except Exception:  # noqa: BLE001  # as with an event: whatever stands in a body, its exchange goes on
            self.failure_count += 1
        self._error_body = None

    def _decoded(self, data: bytes) -> bytes:
        assert self._decoder is not None
        try:
            decoded = self._decoder.decode(data)
            if len(decoded) > len(data) and decoded.count(b"\n") + decoded.count(b"\r") > UNPACKED_LINES:
                raise CodingError(f"one read unpacks to more than {UNPACKED_LINES} lines")
            return decoded
        except CodingError:
            self._see_arrivals_only()
            return data

    def _see_arrivals_only(self) -> None:
        """What cannot be decoded has no events to be seen: from here on each arrival is one, and no rule applies."""
        self._decoder = decoder_for(None)
        self._splitter = splitter_for("opaque")
        self._looks = 0
        self._speak(OPAQUE)

    def _speak(self, dialect: Dialect) -> None:
        """From here on the events are of this dialect."""
        self.dialect = dialect
        self._read_event = dialect.begin()
        self.is_mark_unsure = self.framing not in dialect.framings or self._method == dialect.open_method
        self._is_odd = dialect.is_resumable or self.framing in _MAY_BE_LOST

    def _watch(self, units: list[Event]) -> None:
        """What only some framings and dialects have: they may be lost, or go on in another stream."""
        if self._splitter.is_lost:
            self._see_arrivals_only()
        elif self.dialect.is_resumable and any(unit.id for unit in units):
            self.is_mark_unsure = True

    def _take(self, units: list[Event], at_ns: int, *, later_bytes: int, is_wasted: bool) -> None:
        stamper, behind_bytes = self.stamper, later_bytes + self._splitter.pending_bytes
        behind_bytes += (
            sum(unit.size_bytes for unit in units) if len(units) > 1 else units[0].size_bytes if units else 0
        )
        for unit in units:
            behind_bytes -= unit.size_bytes
            match unit.unit:
                case Unit.EVENT:
                    reading = self._read(unit)
                    if is_wasted:
                        self.wasted_count += 1
                    elif reading.event_class is not EventClass.KEEPALIVE:
                        self._note(unit, reading, at_ns)
                    of_coded = self._is_encoded
                    stamper.event(reading.event_class, reading.visible_chars, at_ns, 0 if of_coded else behind_bytes)
                case Unit.COMMENT:
                    self.comment_count += 1
                case Unit.DATALESS:
                    self.dataless_count += 1

    def _read(self, event: Event) -> Reading:
        """What the dialect makes of an event; one that it chokes on is opaque, and the next one is read again."""
        try:
            return self._look(event) if self._looks else self._read_event(event)
        except Exception:  # noqa: BLE001  # whatever stands in an event, the stream goes on and is looked at
            self.failure_count += 1
            return Reading(EventClass.OPAQUE)

    def _look(self, event: Event) -> Reading:
        """The reading of an event that may tell which dialect it is of."""
        known = recognise(event)
        if known is not None:
            self._looks = 0
            if known is not self.dialect:
                self._speak(known)
            return self._read_event(event)
        reading = self._read_event(event)
        if reading.event_class in _BEARS_OUT and self.dialect is not PLAIN:
            self._looks = 0
        elif reading.event_class not in _TELLS_NOTHING:
            self._looks -= 1
            if not self._looks:
                self._speak(PLAIN)
        return reading

    def _note(self, event: Event, reading: Reading, at_ns: int) -> None:
        """An event that is more than a sign of life, and gets the next number."""
        self.progress_ns = at_ns
        seq = self.stamper.count
        if reading is not self._learnt:  # most events say what the one before them said
            self._learn(reading, seq)
        if event.is_cut:
            self._unread_seq = seq
        if self._learner is not None and not self._looks and self.dialect.reader is None:
            shape = self._learner.shape(event, reading, self._read, count=seq)
            if shape is not None and self._parts.lane is not None:
                self._lane = self._lane or self._parts.lane(self.stamper, limit_bytes=self._event_limit_bytes)
                self._lane.learn(shape)

    def _learn(self, reading: Reading, seq: int) -> None:
        """What an event says of the answer, the last one that counts being that of this number."""
        self._learnt = reading
        self.model = self.model or reading.model
        self.response_id = self.response_id or reading.response_id
        event_class = reading.event_class
        if event_class is EventClass.ERROR:
            self.error = self.error or reading
            self.request_alias = self.request_alias or reading.request_id
        if event_class is EventClass.TERMINAL or reading.is_end:
            self._end_marked(seq)
        elif self._candidate_seq is not None and event_class in OUTPUT:
            self._candidate_seq = None
        if reading.finish is not None and reading.finish not in self.finish_reasons:
            self.finish_reasons = (*self.finish_reasons, reading.finish)[:FINISHES]
        if reading.usage is not None:
            self.usage = merged(self.usage, reading.usage)

    def _end_marked(self, seq: int) -> None:
        if self.dialect.ends is Ends.FINISH:
            self._candidate_seq = seq
        elif self.terminal_seq is None:
            self.terminal_seq = seq
