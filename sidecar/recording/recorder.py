"""Collect one exchange, bounded, and close it into exactly one final Hop.

The relay says what happened and when; nothing here reads a clock or a socket. Times come in as readings of the
monotonic clock and leave as offsets from the anchor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from otel.hop import Anchor, Blocked, End, Ending, Exchange, Hop, Interval, Place, RateLimits, State, Timeline, Traffic
from otel.ids import span_id_of
from sidecar.guard.watchdog import Progress
from sidecar.inspection.body import Body
from sidecar.inspection.messages import Messages
from sidecar.inspection.seen import NO_USAGE, Seen
from sidecar.recording.asked import Asked
from sidecar.recording.beside import NOTHING, Beside, Blocks
from sidecar.recording.course import Course
from sidecar.recording.ours import Ours

SEGMENT_EVENTS: Final = 4_096
"""Events after which a running stream is reported, so that a crash loses no more than these."""
NO_EVENTS: Final = (0, 0)
_NO_LIMITS: Final = RateLimits()


class Recorder:
    """One exchange from its request head to its record. What happens may be told in any order; `close` once.

    Its records have exact times; `records.kept` makes of them what may leave.

    asked: the request. ours: what we did to the answer. look: what looks into its body.
    blocked_since_ns: since when the reader has taken nothing, while that lasts. is_muted: nothing more is looked at or
    stamped, and what there is leaves no span.
    """

    __slots__ = (
        "_anchor",
        "_blocks",
        "_body",
        "_bytes_out",
        "_course",
        "_end_offset_bytes",
        "_error_type",
        "_is_closed",
        "_limits",
        "_look",
        "_place",
        "_segment_count",
        "_segment_from",
        "_segment_from_ns",
        "_since_ns",
        "_status",
        "_taken_count",
        "asked",
        "blocked_since_ns",
        "is_muted",
        "ours",
    )

    def __init__(self, asked: Asked, *, place: Place, anchor: Anchor, look: Callable[..., Body] = Body) -> None:
        self.asked = asked
        self._place = place
        self._anchor = anchor
        self._since_ns = anchor.monotonic_ns
        self._look = look
        self._body: Seen | None = None
        self._status: int | None = None
        self._limits = _NO_LIMITS
        self._error_type: str | None = None
        self._course = Course()
        self._is_closed = False
        self._end_offset_bytes: int | None = None
        self._bytes_out = 0
        self._taken_count = 0
        self._blocks = Blocks()
        self._segment_count, self._segment_from, self._segment_from_ns = 0, NO_EVENTS, 0
        self.blocked_since_ns: int | None = None
        self.is_muted = False
        self.ours = Ours()

    # What happened.

    def request_forwarded(self, at_ns: int) -> None:
        self._course.request_forwarded(self._offset(at_ns))

    def answered(
        self,
        at_ns: int,
        *,
        status: int,
        content_type: str | None = None,
        content_encoding: str | None = None,
        has_body: bool = True,
        is_delimited: bool = True,
        limits: RateLimits | None = None,
    ) -> None:
        """The upstream's final head is there. is_delimited: not only the connection's end ends the body. limits: what
        it says of its rate limits."""
        self._limits = limits or self._limits
        body = None
        if has_body:
            body = self._look(
                self.asked.path,
                content_type=content_type,
                content_encoding=content_encoding,
                method=self.asked.method,
                status=status,
            )
        self._begin(body, at_ns, status=status, is_delimited=is_delimited)

    def upgraded(self, at_ns: int, *, status: int) -> None:
        """The upstream agreed to be a WebSocket: from here on messages pass, both ways."""
        self._begin(Messages(), at_ns, status=status, is_delimited=False)

    def arrived(self, data: bytes, at_ns: int) -> None:
        """Bytes of the body as they were on the wire; told after they were handed on. Never raises."""
        at_ns = self._offset(at_ns)
        is_wasted = self._course.heard(at_ns)
        if self._body is not None:
            self._body.arrived(data, at_ns, is_wasted=is_wasted)

    def passed(self, data: bytes, arrived_ns: int, taken_ns: int, offset_bytes: int) -> int:
        """`arrived` and `taken` of one piece, as nearly every one passes: in few calls. Returns `fresh_count`."""
        body, since_ns = self._body, self._since_ns
        arrived_ns = arrived_ns - since_ns if arrived_ns > since_ns else 0
        is_wasted = self._course.heard(arrived_ns)
        if body is None:
            return 0
        body.arrived(data, arrived_ns, is_wasted=is_wasted)
        stamper = body.stamper
        self._bytes_out, self._taken_count = body.size_bytes, stamper.count
        stamper.taken(taken_ns - since_ns if taken_ns > since_ns else 0, offset_bytes)
        return 0 if self.is_muted else stamper.count - self._segment_from[0]

    def message_received(self, opcode: int, size_bytes: int, at_ns: int) -> None:
        """A whole message of the upstream, on its way to the reader."""
        offset_ns = self._offset(at_ns)
        is_wasted = self._course.heard(offset_ns)
        if isinstance(self._body, Messages):
            self._body.received(opcode, size_bytes, offset_ns, is_wasted=is_wasted)

    def message_sent(self, opcode: int, size_bytes: int, arrived_ns: int, taken_ns: int) -> None:
        """A whole message of the reader: when it came, and when the upstream's connection had taken it."""
        self.asked.size_bytes += size_bytes
        if isinstance(self._body, Messages):
            self._body.passed_up(opcode, size_bytes, self._offset(arrived_ns), self._offset(taken_ns))

    def taken(self, at_ns: int, offset_bytes: int) -> None:
        """Our kernel has all that arrived; the last of it ends at this offset of the response on the wire."""
        if (body := self._body) is not None:
            self._bytes_out, self._taken_count = body.size_bytes, body.stamper.count
            body.stamper.taken(self._offset(at_ns), offset_bytes)

    def blocked(self, start_ns: int, end_ns: int, unread_bytes: int | None) -> None:
        """The reader took nothing for this stretch."""
        self._blocks.add(Blocked(self._offset(start_ns), self._offset(end_ns), unread_bytes))

    def upstream_ended(
        self, at_ns: int, *, is_clean: bool, cut: str | None = None, missing_bytes: int | None = None
    ) -> None:
        """The body ended; not cleanly when its framing broke off, or when there never was a usable head.

        cut: how it broke off (see `otel.hop.End`). missing_bytes: what had been announced and did not come.
        """
        at_ns, body = self._offset(at_ns), self._body
        is_news = self._course.upstream_ended(at_ns, is_clean=is_clean, cut=cut, missing_bytes=missing_bytes)
        if is_news and body is not None:
            body.ended(is_clean=is_clean)

    def downstream_ended(self, at_ns: int, offset_bytes: int) -> None:
        """Our kernel has the whole response, offset_bytes of it on the wire."""
        self._course.downstream_ended(self._offset(at_ns))
        self._end_offset_bytes = offset_bytes

    def client_left(self, at_ns: int, *, cut: str | None = None) -> None:
        """The reader's connection closed; cut: `fin` or `reset`."""
        self._course.client_left(self._offset(at_ns), cut=cut)

    def upstream_closed(self, at_ns: int) -> None:
        self._course.upstream_closed(self._offset(at_ns))

    def stopped(self, ending: Ending, at_ns: int, *, error_type: str | None = None) -> None:
        """The sidecar ends it, or has nobody to pass it on to. CLIENT_DISCONNECT: its reader took nothing for too long.

        error_type: why, as a token.
        """
        if self._course.stopped(ending, self._offset(at_ns)):
            self._error_type = error_type or self._error_type

    def answered_by_us(self, *, status: int, error_type: str) -> None:
        """The reader got an answer of our own."""
        self._status = status
        self._error_type = error_type

    def mute(self) -> None:
        """Look at nothing more of it, to its end: bytes are counted, and its ending is that of its framing, unless an
        event told it before. A part of a timeline would look like a whole one, so its record has none at all."""
        self.is_muted = True
        self.asked.mute()
        if self._body is not None:
            self._body.mute()

    # What is asked in between.

    @property
    def lacks_end(self) -> bool:
        """A success whose API marks the end in band has none so far."""
        return self._body is not None and self._body.lacks_mark and 200 <= (self._status or 0) < 300

    @property
    def seen(self) -> Seen | None:
        """The answer as far as it was looked at, None before its head."""
        return None if self.is_muted else self._body

    @property
    def answer_since_ns(self) -> int | None:
        """When the request went out of which the answer has a head by now, None before that."""
        course = self._course
        if course.headers_received_ns is None:
            return None
        return self._anchor.monotonic_ns + (course.request_forwarded_ns or 0)

    def silence_ns(self, at_ns: int) -> int:
        """How long nothing has come from upstream."""
        return max(0, self._offset(at_ns) - self._course.last_byte_ns)

    def progress(self, forwarded_ns: int | None) -> Progress:
        """How far it has come, in readings of the clock.

        forwarded_ns: when the upstream was given the last of the request, None while it is not owed an answer.
        """
        began_ns, body = self._anchor.monotonic_ns, self._body
        event_ns = None if body is None else body.progress_ns
        if body is not None and body.is_blind:  # any byte may be one of an event
            event_ns = self._course.last_byte_ns
        return Progress(
            forwarded_ns=forwarded_ns,
            heard_ns=max(began_ns + self._course.last_byte_ns, forwarded_ns or 0),
            has_event=body is not None and body.has_event,
            progress_ns=max(began_ns + (event_ns or 0), forwarded_ns or 0),
            is_blocked=self.blocked_since_ns is not None,
            is_over=not self.is_watched or (body is not None and body.seems_over),
        )

    @property
    def counts(self) -> tuple[int, int]:
        """Events so far, towards the reader and from it."""
        return NO_EVENTS if self._body is None else self._body.counts

    @property
    def event_count(self) -> int:
        return sum(self.counts)

    @property
    def fresh_count(self) -> int:
        """Events since the last segment; of what is muted there are none."""
        return 0 if self.is_muted else self.event_count - sum(self._segment_from)

    @property
    def is_watched(self) -> bool:
        """A silence of it means something: not in a WebSocket, nor behind the event that marks the end."""
        if self.is_muted or isinstance(self._body, Messages):
            return False
        return self._body is None or self._body.terminal_seq is None

    def glance(self, now_ns: int) -> dict[str, object]:
        """What there is to say of it while it runs."""
        asked = self.asked
        return {
            "hop": self._place.hop,
            "span_id": asked.identity.span_id,
            "request_id": asked.identity.request_id,
            "trace_id": asked.identity.trace_id,
            "method": asked.method,
            "path": asked.path,
            "model": self._exchange().model,
            "probe": asked.is_probe,
            "dimensions": asked.dimensions,
            "status": self._status,
            "phase": self._course.phase(self._body).value,
            "events": self.event_count,
            "silent_s": round((now_ns - self.progress_ns) / 1e9, 3),
            "is_blocked": self.blocked_since_ns is not None,
        }

    @property
    def dropped_block_count(self) -> int:
        """Blocked stretches that were too many."""
        return self._blocks.dropped_count

    @property
    def failure_count(self) -> int:
        return self.asked.failure_count + (0 if self._body is None else self._body.failure_count)

    @property
    def progress_ns(self) -> int:
        """When something last went on: an event other than a keepalive, or a step before the first one."""
        event_ns = None if self._body is None else self._body.progress_ns
        course = self._course
        step_ns = event_ns or course.headers_received_ns or course.request_forwarded_ns or 0
        return self._anchor.monotonic_ns + step_ns

    def acked_count(self, acked_bytes: int) -> int:
        """Events that lie below this offset of the response on the wire; its end counts as one more."""
        count = 0 if self._body is None else self._body.stamper.acked_count(acked_bytes)
        return count + (self._end_offset_bytes is not None and acked_bytes >= self._end_offset_bytes)

    # What comes of it.

    def end(self, at_ns: int) -> End:
        """How it ended, as far as is known by then."""
        return self._course.end(self._offset(at_ns), self._body, status=self._status, taken_count=self._taken_count)

    def segment(self, at_ns: int, beside: Beside = NOTHING) -> Hop:
        """An open record of what is new since the segment before it. The final one will have all of it again."""
        since_ns, now_ns = self._segment_from_ns, self._offset(at_ns)
        try:
            blocked = [block for block in self._blocks.kept() if block.end_ns > since_ns]
            if self.blocked_since_ns is not None:
                blocked.append(Blocked(self._offset(self.blocked_since_ns), now_ns, None))
            fresh = beside.since(since_ns, anchor_ns=self._anchor.monotonic_ns)
            return self._hop(at_ns, None, since=self._segment_from, blocked=blocked, beside=fresh)
        finally:  # one that cannot be made is not tried again with every event
            self._segment_count += 1
            self._segment_from = self.counts
            self._segment_from_ns = now_ns

    def close(self, at_ns: int, beside: Beside = NOTHING) -> Hop:
        """The one final record. Raises RuntimeError when it was closed before."""
        if self._is_closed:
            raise RuntimeError("an exchange has one final record, and this one was closed before")
        self._is_closed = True
        if self._body is not None and self._body.request_alias is not None:
            self.asked.alias_seen(self._body.request_alias)
        return self._hop(at_ns, self.end(at_ns), since=NO_EVENTS, blocked=self._blocks.kept(), beside=beside)

    # Inside.

    def _offset(self, at_ns: int) -> int:
        return max(0, at_ns - self._since_ns)

    def _begin(self, body: Seen | None, at_ns: int, *, status: int, is_delimited: bool) -> None:
        self._course.headers_received(self._offset(at_ns), is_delimited=is_delimited)
        self._status = status
        self._body = body
        if self.is_muted:
            self.mute()

    def _hop(
        self, at_ns: int, end: End | None, *, since: tuple[int, int], blocked: Sequence[Blocked], beside: Beside
    ) -> Hop:
        ids, body = self.asked.identity, None if self.is_muted else self._body
        is_open = end is None
        exact = Timeline(
            unit_ns=1,
            quantum=1,
            stamps=() if body is None else body.stamper.stamps(since=since[0]),
            blocked=() if self.is_muted else tuple(blocked),
            lag=tuple(Interval(self._offset(lag.start_ns), self._offset(lag.end_ns)) for lag in beside.lag),
            samples=tuple(beside.samples),
            window_peak_bytes=beside.window_peak_bytes,
            round_trip_ns=beside.round_trip_ns,
            is_cut_short=body is not None and body.stamper.is_cut_short,
            is_evidence_thinned=beside.is_thinned or self._blocks.dropped_count > 0,
        )
        return Hop(
            request_id=ids.request_id,
            request_id_source=ids.request_id_source,
            trace_id=ids.trace_id,
            span_id=span_id_of(ids.trace_id, ids.span_id, "segment", self._segment_count) if is_open else ids.span_id,
            parent_span_id=ids.span_id if is_open else ids.parent_span_id,
            aliases=self.asked.aliases,
            place=self._place,
            anchor=self._anchor,
            state=State.OPEN if is_open else State.FINAL,
            segment_index=self._segment_count,
            exchange=self._exchange(),
            moments=self._course.moments(self._offset(at_ns)),
            traffic=self._traffic(),
            timeline=exact,
            sent=None if body is None else body.sent_since(since[1]),
            usage=NO_USAGE if body is None else body.usage,
            limits=self._limits,
            digests=self.ours.body_digests,
            engine=None if self.is_muted else beside.engine,
            end=end,
        )

    def _exchange(self) -> Exchange:
        asked = self.asked.exchange(status=self._status, error_type=self._error_type)
        return self.ours.exchange(asked if self._body is None else self._body.exchange(asked))

    def _traffic(self) -> Traffic:
        passed = Traffic(
            request_bytes=self.asked.size_bytes, bytes_out=self._bytes_out, missing_bytes=self._course.missing_bytes
        )
        return self.ours.traffic(passed if self._body is None else self._body.traffic(passed))
