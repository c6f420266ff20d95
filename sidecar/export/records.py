"""The way out of every record: build it, make its span, hand that to the exporter, measure it, log one line.

A short record is built on the spot. A long one, some thousand events, takes tens of milliseconds, and no stream may
wait for that: it is built in a thread, one after the other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from otel.grain import EXACT_UNIT_NS, LEFT_OUT, QUANTUM, UNIT_NS, quantised
from otel.hop import Hop, State, Timeline
from otel.logs import info
from otel.span import Span, SpanError, hop_to_span
from sidecar.telling import accesslog
from sidecar.telling.accesslog import MASKED, NOTHING, OFF
from sidecar.telling.figures import Figures, figures

log = logging.getLogger(__name__)

LONG_EVENTS: Final = 200
"""From here on a record is built apart: below it that takes less than a millisecond."""
REPORT_EVENTS: Final = 32_768
"""Most events of a running stream that are reported for their number alone: their stamps are made on the spot, in
1.3 µs each, and nobody is to wait for longer. What has run further ahead is in the record of its end."""
WAITING: Final = 1_000
"""Long records that wait for the thread; further ones are counted as lost, for they would wait for ever."""

Make = Callable[[], Hop]


def kept(hop: Hop, *, is_exact: bool) -> Hop:
    """The record in the form in which it leaves: times and positions quantised, finely where is_exact."""
    unit_ns, quantum = (EXACT_UNIT_NS, 1) if is_exact else (UNIT_NS, QUANTUM)

    def rounded(timeline: Timeline) -> Timeline:
        return quantised(timeline, unit_ns=unit_ns, quantum=quantum, is_open=hop.state is State.OPEN)

    return replace(hop, timeline=rounded(hop.timeline), sent=None if hop.sent is None else rounded(hop.sent))


class Exporting(Protocol):
    """What takes spans; it never waits and never raises."""

    def offer(self, span: Span) -> bool: ...


class Observing(Protocol):
    """What counts and measures records."""

    def observe(self, hop: Hop, figures: Figures | None = None) -> None: ...


@dataclass(frozen=True, slots=True)
class _Built:
    """A record with exact times, what leaves of it, and what it comes to; the latter only of a final one."""

    hop: Hop
    span: Span | None
    figures: Figures | None


class Records:
    """Takes records in the making with `put`, from one event loop; `run` builds the long ones.

    muted_count: final records that were muted, and gave no span. lost_count: records that could not be made.
    """

    def __init__(
        self,
        exporter: Exporting | None,
        *,
        is_exact: bool,
        observing: Observing | None = None,
        error_text: str = MASKED,
    ) -> None:
        """error_text: one of `accesslog.ERROR_TEXTS`; with `off` no record has any, with `full` only the log does."""
        self._exporter = exporter
        self._is_exact = is_exact
        self._observing = observing
        self._error_text = error_text
        self._waiting: asyncio.Queue[tuple[Make, Mapping[str, object]]] = asyncio.Queue(WAITING)
        self.muted_count = 0
        self.lost_count = 0

    def put(
        self, make: Make, *, event_count: int, is_muted: bool = False, about: Mapping[str, object] = NOTHING
    ) -> None:
        """Take a record. Never raises, never waits.

        is_muted: it is not whole, so it is logged and not exported. about: what its line in the log says beside it,
        see `accesslog.line`.
        """
        if is_muted or event_count < LONG_EVENTS:  # a muted one has no timeline, however many events it had before
            try:
                self._send(self._built(make, is_muted=is_muted), about, is_muted=is_muted)
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
                self._send(await asyncio.to_thread(self._built, make), about)
            except Exception as error:  # noqa: BLE001  # as above
                self.lost(type(error).__name__)
            finally:
                self._waiting.task_done()

    def tell_start(self, glance: Mapping[str, object], about: Mapping[str, object] = NOTHING) -> None:
        """A line of the log when an exchange begins; see `accesslog.start_line`. Never raises."""
        try:
            log.info(accesslog.STARTED, extra=accesslog.start_line(glance, about))
        except Exception as error:  # noqa: BLE001  # the exchange goes on without it
            self.lost(type(error).__name__)

    async def wait_empty(self) -> None:
        """Until every record taken so far is with the exporter."""
        await self._waiting.join()

    def _built(self, make: Make, *, is_muted: bool = False) -> _Built:
        hop = make()
        if self._error_text == OFF and hop.exchange.error_detail is not None:
            hop = replace(hop, exchange=replace(hop.exchange, error_detail=None))
        summed = None if hop.end is None else figures(hop)
        return _Built(hop, None if self._exporter is None or is_muted else self._span(hop), summed)

    def _span(self, hop: Hop) -> Span:
        record = kept(hop, is_exact=self._is_exact)
        try:
            return hop_to_span(record)
        except SpanError:  # too many stalls for one timeline: all else of the record is as true without it
            return hop_to_span(replace(record, timeline=LEFT_OUT, sent=None if record.sent is None else LEFT_OUT))

    def _send(self, built: _Built, about: Mapping[str, object], *, is_muted: bool = False) -> None:
        if self._exporter is not None and built.span is not None:
            self._exporter.offer(built.span)
        if built.hop.end is not None:
            self._tell(built, about, is_muted=is_muted)

    def _tell(self, built: _Built, about: Mapping[str, object], *, is_muted: bool) -> None:
        self.muted_count += is_muted
        if self._observing is not None:
            self._observing.observe(built.hop, built.figures)
        if log.isEnabledFor(logging.INFO):
            line = accesslog.line(
                built.hop, about, figures=built.figures, is_stamped=not is_muted, error_text=self._error_text
            )
            info(log, accesslog.ENDED, line)

    def lost(self, reason: str) -> None:
        """Count a record that could not be made."""
        self.lost_count += 1
        log.warning("record lost", extra={"reason": reason})
