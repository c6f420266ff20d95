"""The one task that delivers spans as OTLP over HTTP, in batches, until the receiver has acknowledged each.

A span stays queued through connection errors, 429, 502, 503 and 504 for as long as the backlog has room; only what
the receiver refuses for good is given up, and counted. With a spool it outlives the sidecar too. Nothing here ever
makes a stream wait.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import aiohttp

from otel.attributes import shown
from otel.otlp import decode_response
from otel.span import Span
from sidecar.clock import Clock
from sidecar.export.backlog import Backlog, Counters
from sidecar.export.posting import TOO_LARGE, TRY_LATER, Answer, Pace, Post, Sender, refused, wait
from sidecar.export.spool import Spool
from sidecar.export.spool.task import SpoolTask

__all__ = ["Counters", "Exporter", "Pace"]

log = logging.getLogger(__name__)

QUEUE_BYTES: Final = 32 << 20
"""Some 10,000 records; a sidecar must stay small beside its app."""
REQUEST_BYTES: Final = 3_000_000
"""Below the 4 MiB that gRPC servers take, in case a collector passes a batch on as it came."""
OPEN_S: Final = 5.0
"""Longest that the first request waits for what the spool holds, which is older."""


class Exporter:
    """Takes spans by `offer` and delivers them while `run` runs; belongs to one event loop."""

    def __init__(
        self,
        endpoint: str,
        *,
        clock: Clock,
        headers: Mapping[str, str] | None = None,
        queue_bytes: int = QUEUE_BYTES,
        spool: Spool | None = None,
        pace: Pace | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Deliver to the OTLP/HTTP receiver at this base URL; headers go with every request (a bearer token).

        queue_bytes limits what is in memory; with a spool, what does not fit is on disk only.
        """
        pace = pace or Pace()
        self._posting = Post(endpoint, "/v1/traces", pace=pace, headers=headers)
        self._clock = clock
        self._backlog = Backlog(limit_bytes=queue_bytes)
        self._spooling = None if spool is None else SpoolTask(spool, self._backlog, clock=clock, tell=self._tell)
        self._request_bytes = REQUEST_BYTES
        self._warn_at = 1
        self._has_some, self._is_empty = asyncio.Event(), asyncio.Event()
        self._is_due, self._is_flushing = asyncio.Event(), asyncio.Event()
        self._sender = Sender(
            self._posting,
            what="spans",
            level=logging.WARNING,
            pace=pace,
            clock=clock,
            jitter=jitter,
            is_flushing=self._is_flushing,
        )
        self._tell()

    @property
    def counters(self) -> Counters:
        return replace(self._backlog.counters(self._clock.monotonic_ns()), retried=self._sender.retried)

    def offer(self, span: Span) -> bool:
        """Queue a span; False when it is dropped, which is counted. Never waits, never raises."""
        is_queued = self._backlog.offer(span, self._clock.monotonic_ns(), wall_ns=self._clock.wall_ns())
        self._tell()
        return is_queued

    async def run(self) -> None:
        """Deliver until cancelled; what is not acknowledged by then stays queued and counted.

        With a spool it is on disk when this ends, and it runs only once.
        """
        async with asyncio.TaskGroup() as group, self._posting.session() as session:
            if self._spooling is not None:
                group.create_task(self._spooling.run())
                await wait(self._spooling.is_open, OPEN_S)
            while True:
                await self._has_some.wait()
                await wait(self._is_due, self._sender.linger_s())
                await self._deliver(session)

    async def flush(self, timeout_s: float) -> bool:
        """Deliver all that is queued, without waiting for company; False when that took longer than timeout_s."""
        self._is_flushing.set()
        self._tell()
        try:
            await wait(self._is_empty, timeout_s)
        finally:
            self._is_flushing.clear()
        return self._is_empty.is_set()

    def _tell(self) -> None:
        """Set the events by what the backlog holds, and say what it lost."""
        sendable_bytes = self._backlog.sendable_bytes
        is_plenty = sendable_bytes >= self._request_bytes or self._backlog.is_spooling
        _set(self._has_some, is_set=sendable_bytes > 0)
        _set(self._is_empty, is_set=self._backlog.is_empty)
        _set(self._is_due, is_set=self._is_flushing.is_set() or is_plenty)
        if self._spooling is not None:
            self._spooling.nudge()
        dropped = self._backlog.dropped
        if sum(dropped.values()) >= self._warn_at:
            self._warn_at = 2 * sum(dropped.values())  # at every doubling, not at every span
            log.warning("spans dropped", extra={"url": self._posting.url, "dropped": dropped})

    async def _deliver(self, session: aiohttp.ClientSession) -> None:
        if not (body := self._backlog.take(self._request_bytes)):
            return  # they have gone to the disk meanwhile, for what is there is older
        await self._sender.send(
            session, body, settle=lambda answer: self._settle(answer, size_bytes=len(body)), decided=self._decided
        )

    def _decided(self) -> None:
        self._backlog.put_back()
        self._tell()

    def _settle(self, answer: Answer, *, size_bytes: int) -> str | None:
        """Do what the answer says; why the same must be tried again later, None when it must not."""
        status = answer.status
        if status in TRY_LATER:
            return f"status {status}"
        if status == TOO_LARGE and self._backlog.flight_count > 1:
            self._request_bytes = size_bytes // 2  # for good: the next batch would be refused just so
            return None
        if status == TOO_LARGE and self._backlog.lighten():
            return None
        rejected, said = refused(answer, decode_response)
        if rejected := self._backlog.settle(rejected=rejected):
            about = {"url": self._posting.url, "status": status, "spans": rejected, "said": shown(said, chars=200)}
            log.warning("spans rejected", extra=about)
        return None


def _set(event: asyncio.Event, *, is_set: bool) -> None:
    if is_set:
        event.set()
    else:
        event.clear()
