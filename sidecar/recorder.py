"""Collect one exchange, bounded, and close it into exactly one final Hop.

The relay says what happened and when; nothing here reads a clock or a socket. Times come in as readings of the
monotonic clock and leave as offsets from the anchor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from otel.grain import EXACT_UNIT_NS, QUANTUM, UNIT_NS, quantised
from otel.hop import (
    Anchor,
    Blocked,
    End,
    Ending,
    Exchange,
    Hop,
    Interval,
    Moments,
    Phase,
    Place,
    Side,
    State,
    Timeline,
    Traffic,
)
from otel.ids import recorded, span_id_of
from sidecar.beside import NOTHING, Beside, Blocks
from sidecar.body import Body
from sidecar.endings import Facts, ending_of
from sidecar.identity import Identity
from sidecar.splitter import LIMIT_BYTES

SEGMENT_EVENTS: Final = 4_096
"""Events after which a running stream is reported, so that a crash loses no more than these."""
PATH_CHARS: Final = 300
"""Most that is recorded of a path: those of real APIs stay below 200."""


def kept(hop: Hop, *, is_exact: bool) -> Hop:
    """The record in the form in which it leaves: times and positions quantised, finely where is_exact."""
    unit_ns, quantum = (EXACT_UNIT_NS, 1) if is_exact else (UNIT_NS, QUANTUM)
    is_open = hop.state is State.OPEN
    return replace(hop, timeline=quantised(hop.timeline, unit_ns=unit_ns, quantum=quantum, is_open=is_open))


class Recorder:
    """One exchange from its request head to its record. What happens may be told in any order; `close` once.

    Its records have exact times; `kept` makes of them what may leave.

    blocked_since_ns: since when the reader has taken nothing, while that lasts.
    """

    __slots__ = (
        "_aliases",
        "_anchor",
        "_blocks",
        "_body",
        "_bytes_out",
        "_end_offset_bytes",
        "_error_type",
        "_event_limit_bytes",
        "_identity",
        "_is_closed",
        "_is_delimited",
        "_is_upstream_clean",
        "_last_byte_ns",
        "_method",
        "_moments",
        "_path",
        "_place",
        "_request_bytes",
        "_segment_count",
        "_segment_from",
        "_segment_from_ns",
        "_status",
        "_stopped",
        "_stopped_ns",
        "_taken_count",
        "blocked_since_ns",
    )

    def __init__(
        self,
        identity: Identity,
        *,
        place: Place,
        anchor: Anchor,
        method: str,
        path: str,
        event_limit_bytes: int = LIMIT_BYTES,
    ) -> None:
        self._identity = identity
        self._place = place
        self._anchor = anchor
        self._method = method
        self._path = path.partition("?")[0].encode("ascii", "replace").decode()[:PATH_CHARS]
        self._event_limit_bytes = event_limit_bytes
        self._aliases = dict.fromkeys(identity.aliases)
        self._body: Body | None = None
        self._status: int | None = None
        self._error_type: str | None = None
        self._is_delimited = True
        self._is_upstream_clean = False
        self._is_closed = False
        self._stopped: Ending | None = None
        self._stopped_ns: int | None = None
        self._moments = Moments(closed_ns=0)
        self._last_byte_ns = 0
        self._end_offset_bytes: int | None = None
        self._request_bytes = 0
        self._bytes_out = 0
        self._taken_count = 0
        self._blocks = Blocks()
        self._segment_count = 0
        self._segment_from = 0
        self._segment_from_ns = 0
        self.blocked_since_ns: int | None = None

    # What happened.

    def alias_seen(self, request_id: str) -> None:
        """Another id of the same request, as it came."""
        if (alias := recorded(request_id)) != self._identity.request_id:
            self._aliases[alias] = None

    def request_forwarded(self, at_ns: int) -> None:
        self._last_byte_ns = self._offset(at_ns)
        self._moments = replace(self._moments, request_forwarded_ns=self._last_byte_ns)

    def request_passed(self, size_bytes: int) -> None:
        self._request_bytes += size_bytes

    def answered(
        self,
        at_ns: int,
        *,
        status: int,
        content_type: str | None = None,
        content_encoding: str | None = None,
        has_body: bool = True,
        is_delimited: bool = True,
    ) -> None:
        """The upstream's final head is there. is_delimited: not only the connection's end ends the body."""
        self._last_byte_ns = self._offset(at_ns)
        self._moments = replace(self._moments, headers_received_ns=self._last_byte_ns)
        self._status = status
        self._is_delimited = is_delimited
        if has_body:
            self._body = Body(
                self._path,
                content_type=content_type,
                content_encoding=content_encoding,
                event_limit_bytes=self._event_limit_bytes,
            )

    def arrived(self, data: bytes, at_ns: int) -> None:
        """Bytes of the body as they were on the wire; told after they were handed on. Never raises."""
        is_wasted, offset_ns = self._moments.client_left_ns is not None, self._offset(at_ns)
        if not is_wasted:
            self._last_byte_ns = offset_ns
        if self._body is not None:
            self._body.arrived(data, offset_ns, is_wasted=is_wasted)

    def taken(self, at_ns: int, offset_bytes: int) -> None:
        """Our kernel has all that arrived; the last of it ends at this offset of the response on the wire."""
        if self._body is not None:
            self._bytes_out = self._body.size_bytes
            self._taken_count = self._body.stamper.count
            self._body.stamper.taken(self._offset(at_ns), offset_bytes)

    def blocked(self, start_ns: int, end_ns: int, unread_bytes: int | None) -> None:
        """The reader took nothing for this stretch."""
        self._blocks.add(Blocked(self._offset(start_ns), self._offset(end_ns), unread_bytes))

    def upstream_ended(self, at_ns: int, *, is_clean: bool) -> None:
        """The body ended; not cleanly when its framing broke off, or when there never was a usable head."""
        if self._moments.upstream_ended_ns is None:
            self._moments = replace(self._moments, upstream_ended_ns=self._offset(at_ns))
            self._is_upstream_clean = is_clean
            if self._body is not None:
                self._body.ended()

    def downstream_ended(self, at_ns: int, offset_bytes: int) -> None:
        """Our kernel has the whole response, offset_bytes of it on the wire."""
        self._moments = replace(self._moments, downstream_ended_ns=self._offset(at_ns))
        self._end_offset_bytes = offset_bytes

    def client_left(self, at_ns: int) -> None:
        if self._moments.client_left_ns is None:
            self._moments = replace(self._moments, client_left_ns=self._offset(at_ns))

    def upstream_closed(self, at_ns: int) -> None:
        self._moments = replace(self._moments, upstream_closed_ns=self._offset(at_ns))

    def stopped(self, ending: Ending, at_ns: int) -> None:
        """The sidecar ends it, or has nobody to pass it on to."""
        if self._stopped is None:
            self._stopped = ending
            self._stopped_ns = self._offset(at_ns)

    def answered_by_us(self, *, status: int, error_type: str) -> None:
        """The reader got an answer of our own."""
        self._status = status
        self._error_type = error_type

    # What is asked in between.

    @property
    def event_count(self) -> int:
        return 0 if self._body is None else self._body.stamper.count

    @property
    def fresh_count(self) -> int:
        """Events since the last segment."""
        return self.event_count - self._segment_from

    def glance(self, now_ns: int) -> dict[str, object]:
        """What there is to say of it while it runs."""
        return {
            "request_id": self._identity.request_id,
            "trace_id": self._identity.trace_id,
            "method": self._method,
            "path": self._path,
            "status": self._status,
            "phase": self._phase().value,
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
        return 0 if self._body is None else self._body.failure_count

    @property
    def progress_ns(self) -> int:
        """When something last went on: an event other than a keepalive, or a step before the first one."""
        event_ns = None if self._body is None else self._body.progress_ns
        step_ns = event_ns or self._moments.headers_received_ns or self._moments.request_forwarded_ns or 0
        return self._anchor.monotonic_ns + step_ns

    def acked_count(self, acked_bytes: int) -> int:
        """Events that lie below this offset of the response on the wire; its end counts as one more."""
        count = 0 if self._body is None else self._body.stamper.acked_count(acked_bytes)
        return count + (self._end_offset_bytes is not None and acked_bytes >= self._end_offset_bytes)

    # What comes of it.

    def segment(self, at_ns: int, beside: Beside = NOTHING) -> Hop:
        """An open record of what is new since the segment before it. The final one will have all of it again."""
        since_ns, now_ns = self._segment_from_ns, self._offset(at_ns)
        try:
            blocked = [block for block in self._blocks.kept() if block.end_ns > since_ns]
            if self.blocked_since_ns is not None:
                blocked.append(Blocked(self._offset(self.blocked_since_ns), now_ns, None))
            fresh = replace(
                beside,
                lag=[lag for lag in beside.lag if self._offset(lag.end_ns) > since_ns],
                samples=[sample for sample in beside.samples if sample.offset_ns > since_ns],
            )
            return self._hop(at_ns, None, since=self._segment_from, blocked=blocked, beside=fresh)
        finally:  # one that cannot be made is not tried again with every event
            self._segment_count += 1
            self._segment_from = self.event_count
            self._segment_from_ns = now_ns

    def close(self, at_ns: int, beside: Beside = NOTHING) -> Hop:
        """The one final record. Raises RuntimeError when it was closed before."""
        if self._is_closed:
            raise RuntimeError("an exchange has one final record, and this one was closed before")
        self._is_closed = True
        ending, side = ending_of(self._facts())
        ended_ns = {
            Side.UPSTREAM: self._moments.upstream_ended_ns,
            Side.DOWNSTREAM: self._moments.client_left_ns,
            Side.SIDECAR: self._stopped_ns,
        }[side]
        idle_ns = max(0, (self._offset(at_ns) if ended_ns is None else ended_ns) - self._last_byte_ns)
        end = End(ending, side, self._phase(), idle_ns, framing_incomplete=self._is_framing_broken)
        return self._hop(at_ns, end, since=0, blocked=self._blocks.kept(), beside=beside)

    # Inside.

    def _offset(self, at_ns: int) -> int:
        return max(0, at_ns - self._anchor.monotonic_ns)

    @property
    def _is_framing_broken(self) -> bool:
        return self._moments.upstream_ended_ns is not None and not self._is_upstream_clean

    @property
    def _has_terminal_rule(self) -> bool:
        return self._body is not None and self._body.has_terminal_rule

    def _facts(self) -> Facts:
        seq = None if self._body is None else self._body.terminal_seq
        is_success = self._status is not None and 200 <= self._status < 300
        return Facts(
            has_error_event=self._body is not None and self._body.error is not None,
            is_terminal_passed=seq is not None and (self._moments.client_left_ns is None or seq < self._taken_count),
            is_upstream_broken=self._is_framing_broken,
            is_upstream_clean=self._is_upstream_clean,
            needs_terminal=self._has_terminal_rule and is_success,
            has_client_left=self._moments.client_left_ns is not None,
            has_unmarked_end=not self._is_delimited and not self._has_terminal_rule,
            stopped=self._stopped,
        )

    def _phase(self) -> Phase:
        if self._is_upstream_clean:
            return Phase.DRAIN
        if self._body is not None and self._body.terminal_seq is not None:
            return Phase.TERMINAL
        if self.event_count:
            return Phase.EVENTS
        if self._moments.headers_received_ns is not None:
            return Phase.FIRST_EVENT
        return Phase.CONNECT if self._moments.request_forwarded_ns is None else Phase.HEADERS

    def _hop(self, at_ns: int, end: End | None, *, since: int, blocked: Sequence[Blocked], beside: Beside) -> Hop:
        ids, stamper = self._identity, None if self._body is None else self._body.stamper
        is_open = end is None
        exact = Timeline(
            unit_ns=1,
            quantum=1,
            stamps=() if stamper is None else stamper.stamps(since=since),
            blocked=tuple(blocked),
            lag=tuple(Interval(self._offset(lag.start_ns), self._offset(lag.end_ns)) for lag in beside.lag),
            samples=tuple(beside.samples),
            window_peak_bytes=beside.window_peak_bytes,
            round_trip_ns=beside.round_trip_ns,
            is_cut_short=stamper is not None and stamper.is_cut_short,
            is_evidence_thinned=beside.is_thinned or self._blocks.dropped_count > 0,
        )
        return Hop(
            request_id=ids.request_id,
            request_id_source=ids.request_id_source,
            trace_id=ids.trace_id,
            span_id=span_id_of(ids.trace_id, ids.span_id, "segment", self._segment_count) if is_open else ids.span_id,
            parent_span_id=ids.span_id if is_open else ids.parent_span_id,
            aliases=tuple(self._aliases),
            place=self._place,
            anchor=self._anchor,
            state=State.OPEN if is_open else State.FINAL,
            segment_index=self._segment_count,
            exchange=self._exchange(),
            moments=replace(self._moments, closed_ns=self._offset(at_ns)),
            traffic=self._traffic(),
            timeline=exact,
            end=end,
        )

    def _exchange(self) -> Exchange:
        body = self._body
        asked = Exchange(method=self._method, path=self._path, status=self._status, error_type=self._error_type)
        if body is None:
            return asked
        return replace(
            asked,
            framing=body.framing,
            dialect=body.dialect.name,
            model=body.model,
            response_id=body.response_id,
            is_stream=body.is_stream,
            has_terminal_rule=body.has_terminal_rule,
            error_type=body.error.error_type if body.error else self._error_type,
            error_code=body.error.error_code if body.error else None,
        )

    def _traffic(self) -> Traffic:
        body = self._body
        if body is None:
            return Traffic(request_bytes=self._request_bytes)
        return Traffic(
            request_bytes=self._request_bytes,
            bytes_in=body.size_bytes,
            bytes_out=self._bytes_out,
            event_count=body.stamper.count,
            comment_count=body.comment_count,
            dataless_count=body.dataless_count,
            wasted_count=body.wasted_count,
            has_unterminated_tail=body.has_tail,
        )
