"""The way out of every record: build it, make its span, hand that to the exporter, log one line, count one ending.

A short record is built on the spot. A long one, some thousand events, takes tens of milliseconds, and no stream may
wait for that: it is built in a thread, one after the other.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, Protocol

from otel.grain import EXACT_UNIT_NS, LEFT_OUT, QUANTUM, UNIT_NS, quantised
from otel.hop import Ending, Hop, State, Timeline
from otel.span import Span, SpanError, hop_to_span

log = logging.getLogger(__name__)

LONG_EVENTS: Final = 200
"""From here on a record is built apart: below it that takes less than a millisecond."""
WAITING: Final = 1_000
"""Long records that wait for the thread; further ones are counted as lost, for they would wait for ever."""

Make = Callable[[], Hop]
NOTHING: Final[Mapping[str, object]] = {}


def kept(hop: Hop, *, is_exact: bool) -> Hop:
    """The record in the form in which it leaves: times and positions quantised, finely where is_exact."""
    unit_ns, quantum = (EXACT_UNIT_NS, 1) if is_exact else (UNIT_NS, QUANTUM)

    def rounded(timeline: Timeline) -> Timeline:
        return quantised(timeline, unit_ns=unit_ns, quantum=quantum, is_open=hop.state is State.OPEN)

    return replace(hop, timeline=rounded(hop.timeline), sent=None if hop.sent is None else rounded(hop.sent))


class Exporting(Protocol):
    """What takes spans; it never waits and never raises."""

    def offer(self, span: Span) -> bool: ...


class Records:
    """Takes records in the making with `put`, from one event loop; `run` builds the long ones.

    ended: final records by ending. muted_count: those of them that were muted, and gave no span.
    lost_count: records that could not be made.
    """

    def __init__(self, exporter: Exporting | None, *, is_exact: bool) -> None:
        self._exporter = exporter
        self._is_exact = is_exact
        self._waiting: asyncio.Queue[tuple[Make, Mapping[str, object]]] = asyncio.Queue(WAITING)
        self.ended: Counter[Ending] = Counter()
        self.muted_count = 0
        self.lost_count = 0

    def put(
        self, make: Make, *, event_count: int, is_muted: bool = False, about: Mapping[str, object] = NOTHING
    ) -> None:
        """Take a record. Never raises, never waits.

        is_muted: it is not whole, so it is logged and not exported. about: what its line in the log says beside it.
        """
        if is_muted or event_count < LONG_EVENTS:  # a muted one has no timeline, however many events it had before
            try:
                if is_muted:
                    self._tell(make(), about, is_muted=True)
                else:
                    self._send(*self._built(make), about)
            except Exception as error:  # noqa: BLE001  # the next exchange must not suffer for this one's record
                self.lost(type(error).__name__)
            return
        try:
            self._waiting.put_nowait((make, about))
        except asyncio.QueueFull:
            self.lost("too_many")

    async def run(self) -> None:
        """Build the long records until cancelled."""
        while True:
            make, about = await self._waiting.get()
            try:
                self._send(*await asyncio.to_thread(self._built, make), about)
            except Exception as error:  # noqa: BLE001  # as above
                self.lost(type(error).__name__)
            finally:
                self._waiting.task_done()

    async def wait_empty(self) -> None:
        """Until every record taken so far is with the exporter."""
        await self._waiting.join()

    def _built(self, make: Make) -> tuple[Hop, Span | None]:
        hop = make()
        if self._exporter is None:
            return hop, None
        record = kept(hop, is_exact=self._is_exact)
        try:
            return hop, hop_to_span(record)
        except SpanError:  # too many stalls for one timeline: all else of the record is as true without it
            return hop, hop_to_span(replace(record, timeline=LEFT_OUT, sent=None if record.sent is None else LEFT_OUT))

    def _send(self, hop: Hop, span: Span | None, about: Mapping[str, object]) -> None:
        if self._exporter is not None and span is not None:
            self._exporter.offer(span)
        self._tell(hop, about, is_muted=False)

    def _tell(self, hop: Hop, about: Mapping[str, object], *, is_muted: bool) -> None:
        if hop.end is not None:
            self.ended[hop.end.ending] += 1
            self.muted_count += is_muted
            log.info("exchange ended", extra=_line(hop, is_stamped=not is_muted) | dict(about))

    def lost(self, reason: str) -> None:
        """Count a record that could not be made."""
        self.lost_count += 1
        log.warning("record lost", extra={"reason": reason})


def _line(hop: Hop, *, is_stamped: bool) -> dict[str, object]:
    """The one line of an exchange: always these keys, and nothing that a user or a model wrote.

    stamped: what passed was looked at and timed. closed_after_s: how long after the reader's leaving our connection to
    the upstream was closed.
    """
    end, moments, stamps = hop.end, hop.moments, hop.timeline.stamps
    left_ns, closed_ns = moments.client_left_ns, moments.upstream_closed_ns
    ended_ns = moments.downstream_ended_ns or moments.client_left_ns or moments.closed_ns
    blocked_ns = sum(block.end_ns - block.start_ns for block in hop.timeline.blocked)
    return {
        "hop": hop.place.hop,
        "request_id": hop.request_id,
        "trace_id": hop.trace_id,
        "method": hop.exchange.method,
        "path": hop.exchange.path,
        "model": hop.exchange.model,
        "status": hop.exchange.status,
        "ending": None if end is None else end.ending.value,
        "ended_by": None if end is None else end.ended_by.value,
        "cut": None if end is None else end.cut,
        "error_type": hop.exchange.error_type,
        "phase": None if end is None else end.phase.value,
        "idle_s": None if end is None else _seconds(end.idle_ns),
        "events": hop.traffic.event_count,
        "bytes_in": hop.traffic.bytes_in,
        "bytes_out": hop.traffic.bytes_out,
        "missing_bytes": hop.traffic.missing_bytes,
        "wasted_events": hop.traffic.wasted_count,
        "closed_after_s": None if left_ns is None or closed_ns is None else _seconds(max(0, closed_ns - left_ns)),
        "first_event_s": _seconds(stamps[0].arrived_ns) if stamps else None,
        "duration_s": _seconds(ended_ns),
        "blocked_s": _seconds(blocked_ns),
        "stamped": is_stamped,
    }


def _seconds(ns: int) -> float:
    return round(ns / 1e9, 4)
