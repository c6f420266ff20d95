"""News of exchanges that run, as OTLP log records: a stream that hangs is told of while it does, not when it ends.

A record is encoded when it is offered, so its size is known, and waits in a queue that is bounded in bytes. A receiver
that takes no logs is left alone for a while. Nothing here ever makes a stream wait, and what cannot be delivered is
counted by its reason.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

import aiohttp

from otel import schema
from otel.attributes import shown
from otel.glance import Glance, Moment, glance_to_log
from otel.otlp_logs import decode_logs_response, encode_record, request_of
from sidecar.clock import Clock
from sidecar.export.log_queue import LogCounters, LogQueue
from sidecar.export.posting import TOO_LARGE, TRY_LATER, Answer, Pace, Post, Sender, refused, wait

__all__ = ["LogCounters", "LogRecords", "Telling"]

log = logging.getLogger(__name__)

QUEUE_BYTES: Final = 4 << 20
"""Some 10,000 records: a heartbeat of as many streams."""
REQUEST_BYTES: Final = 1 << 20
"""Small enough for every receiver, and large enough that a heartbeat of thousands is a few requests."""
UNSUPPORTED: Final = frozenset({404, 405, 415, 501})
"""What a receiver of spans answers that knows no logs."""
UNSUPPORTED_NS: Final = 600_000_000_000
"""So long it is not asked again. Somebody may switch logs on; ten minutes are no load and not long to wait for."""
TOLD: Final = 100_000
"""Streams that are remembered as told of; further ones push out the oldest, whose end is then not told."""


class Telling(Protocol):
    """What takes news of running exchanges; it never waits and never raises.

    glance: what `/streams` shows of the exchange, at least `request_id`, `trace_id`, `span_id` (of its final span),
    `hop`, `phase`, `events`, `age_s`, `silent_s` and `is_blocked`; `is_stalled`, `stall_cause`, `listener`, `model`,
    `status`, `probe` and, once it is over, `ending`, where they are known. at_wall_ns: when it was taken, by the wall
    clock.
    """

    def stalled(self, glance: Mapping[str, Any], at_wall_ns: int) -> None: ...

    def resumed(self, glance: Mapping[str, Any], at_wall_ns: int) -> None: ...

    def closed(self, glance: Mapping[str, Any], at_wall_ns: int) -> None: ...

    def open(self, glances: Iterable[Mapping[str, Any]], at_wall_ns: int) -> None: ...


class LogRecords:
    """Takes news by its methods and delivers them while `run` runs; belongs to one event loop."""

    def __init__(
        self,
        endpoint: str,
        *,
        clock: Clock,
        resource: Mapping[str, str],
        heartbeat_s: float,
        headers: Mapping[str, str] | None = None,
        queue_bytes: int = QUEUE_BYTES,
        pace: Pace | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Deliver to the OTLP/HTTP receiver at this base URL; headers go with every request (a bearer token).

        resource: as in the spans. heartbeat_s: how often `open` tells of each stream that runs long, 0 for never.
        """
        pace = pace or Pace()
        self._posting = Post(endpoint, "/v1/logs", pace=pace, headers=headers)
        self._clock = clock
        self._resource = dict(resource)
        self._heartbeat_s = heartbeat_s or None
        self._queue = LogQueue(limit_bytes=queue_bytes)
        self._told: OrderedDict[str, None] = OrderedDict()  # span ids
        self._request_bytes = REQUEST_BYTES
        self._unsupported_until_ns: int | None = None
        self._is_closed = False
        self._warn_at = 1
        self._has_some, self._is_empty = asyncio.Event(), asyncio.Event()
        self._is_flushing = asyncio.Event()
        self._sender = Sender(
            self._posting,
            what="log records",
            level=logging.INFO,
            pace=pace,
            clock=clock,
            jitter=jitter,
            is_flushing=self._is_flushing,
        )
        self._tell()

    @property
    def counters(self) -> LogCounters:
        return self._queue.counters(retried=self._sender.retried)

    def stalled(self, glance: Mapping[str, Any], at_wall_ns: int) -> None:
        """A stream has fallen silent."""
        self._offer(Moment.STALLED, glance, at_wall_ns)

    def resumed(self, glance: Mapping[str, Any], at_wall_ns: int) -> None:
        """A stream that had stalled goes on; `silent_s` of the glance is how long it did not."""
        self._offer(Moment.RESUMED, glance, at_wall_ns)

    def closed(self, glance: Mapping[str, Any], at_wall_ns: int) -> None:
        """An exchange is over; nothing is sent of one that was never told of, so this may be called for all."""
        if (stream := str(glance.get("span_id"))) in self._told:
            del self._told[stream]
            self._offer(Moment.CLOSED, glance, at_wall_ns)

    def open(self, glances: Iterable[Mapping[str, Any]], at_wall_ns: int) -> None:
        """Exchanges for which a heartbeat is due: those that have run that long since it was last so."""
        for glance in glances:
            self._offer(Moment.OPEN, glance, at_wall_ns)

    async def run(self) -> None:
        """Deliver until cancelled."""
        async with self._posting.session() as session:
            while True:
                await self._has_some.wait()
                await wait(self._is_flushing, self._sender.linger_s())
                await self._deliver(session)

    async def flush(self, timeout_s: float) -> bool:
        """Deliver all that is queued, without waiting for company; False when that took longer than timeout_s."""
        self._is_flushing.set()
        try:
            await wait(self._is_empty, timeout_s)
        finally:
            self._is_flushing.clear()
        return self._is_empty.is_set()

    def close(self) -> None:
        """Take nothing more; what is still queued is counted as `left`."""
        self._is_closed = True
        self._queue.lose_all("left")
        self._tell()

    def _offer(self, moment: Moment, glance: Mapping[str, Any], at_wall_ns: int) -> None:
        if self._is_closed or self._is_unsupported():
            self._queue.lose("left" if self._is_closed else "unsupported")
            return
        try:
            stream = str(glance["span_id"])
            body = encode_record(glance_to_log(self._read(moment, glance, stream, at_wall_ns)))
        except Exception:  # noqa: BLE001  # a stream is worth more than what is said of it
            self._queue.lose("unencodable")
        else:
            if moment is Moment.OPEN:
                self._queue.put_heartbeat(stream, body)
            else:
                self._queue.supersede(stream)
                self._queue.put_news(body)
        self._tell()

    def _read(self, moment: Moment, glance: Mapping[str, Any], stream: str, at_wall_ns: int) -> Glance:
        if moment is not Moment.CLOSED:
            self._told[stream] = None
            self._told.move_to_end(stream)
            if len(self._told) > TOLD:
                self._told.popitem(last=False)
        return Glance(
            moment=moment,
            at_ns=at_wall_ns,
            trace_id=glance["trace_id"],
            span_id=stream,
            request_id=glance["request_id"],
            hop=glance["hop"],
            phase=glance["phase"],
            listener=glance.get("listener"),
            model=glance.get("model"),
            status=glance.get("status"),
            events=glance["events"],
            age_s=float(glance["age_s"]),
            silent_s=float(glance["silent_s"]),
            is_blocked=glance["is_blocked"],
            is_stalled=moment is Moment.STALLED or (moment is Moment.OPEN and glance.get("is_stalled") is True),
            stall_cause=glance.get("stall_cause"),
            is_probe=glance.get("probe") is True,
            heartbeat_s=self._heartbeat_s,
            ending=glance.get("ending"),
        )

    def _is_unsupported(self) -> bool:
        until_ns = self._unsupported_until_ns
        return until_ns is not None and self._clock.monotonic_ns() < until_ns

    def _tell(self) -> None:
        """Set the events by what the queue holds, and say what it lost."""
        if self._queue.is_empty:
            self._has_some.clear()
            self._is_empty.set()
        else:
            self._has_some.set()
            self._is_empty.clear()
        if self._queue.dropped_count >= self._warn_at:
            self._warn_at = 2 * self._queue.dropped_count  # at every doubling, not at every record
            lost = {reason: count for reason, count in self.counters.lost.items() if count}
            log.warning("log records dropped", extra={"url": self._posting.url, "dropped": lost})

    async def _deliver(self, session: aiohttp.ClientSession) -> None:
        if not (records := self._queue.take(self._request_bytes)):
            return  # it has been closed meanwhile
        body = request_of(records, resource=self._resource, scope_name=schema.SCOPE)
        await self._sender.send(
            session, body, settle=lambda answer: self._settle(answer, size_bytes=len(body)), decided=self._decided
        )

    def _decided(self) -> None:
        self._queue.put_back()
        self._tell()

    def _settle(self, answer: Answer, *, size_bytes: int) -> str | None:
        """Do what the answer says; why the same must be tried again later, None when it must not."""
        status = answer.status
        if status in TRY_LATER:
            return f"status {status}"
        if status in UNSUPPORTED:
            self._unsupported_until_ns = self._clock.monotonic_ns() + UNSUPPORTED_NS
            self._queue.lose_all("unsupported")
            about = {"url": self._posting.url, "status": status, "again_in_s": UNSUPPORTED_NS // 1_000_000_000}
            log.info("the receiver takes no logs", extra=about)
            return None
        if status == TOO_LARGE and self._queue.flight_count > 1:
            self._request_bytes = size_bytes // 2  # for good: the next batch would be refused just so
            return None
        rejected, said = refused(answer, decode_logs_response)
        if rejected := self._queue.settle(rejected=rejected):
            about = {"url": self._posting.url, "status": status, "records": rejected, "said": shown(said, chars=200)}
            log.warning("log records rejected", extra=about)
        return None
