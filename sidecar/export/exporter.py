"""The one task that delivers spans as OTLP over HTTP, in batches, until the receiver has acknowledged each.

A span stays queued through connection errors, 429, 502, 503 and 504 for as long as the backlog has room; only what
the receiver refuses for good is given up, and counted. With a spool it outlives the sidecar too. Nothing here ever
makes a stream wait.
"""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import logging
import os
import random
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from otel.attributes import shown
from otel.otlp import OtlpError, decode_response
from otel.span import Span
from sidecar.clock import Clock
from sidecar.export.backlog import Backlog, Counters
from sidecar.export.spool import Spool
from sidecar.export.spool.task import SpoolTask

__all__ = ["Counters", "Exporter", "Pace"]

log = logging.getLogger(__name__)

QUEUE_BYTES: Final = 32 << 20
"""Some 10,000 records; a sidecar must stay small beside its app."""
REQUEST_BYTES: Final = 3_000_000
"""Below the 4 MiB that gRPC servers take, in case a collector passes a batch on as it came."""
ANSWER_BYTES: Final = 64 << 10
"""More of an answer is not read."""
GZIP_FROM_BYTES: Final = 1_024
"""A smaller body is one packet either way."""
GZIP_APART_FROM_BYTES: Final = 32 << 10
"""Compressing this takes about a millisecond; more is compressed in a thread."""
ASKED_WAIT_S: Final = 300.0
"""Longest wait that a receiver may ask for: a mistyped header must not silence a sidecar for a day."""
OPEN_S: Final = 5.0
"""Longest that the first request waits for what the spool holds, which is older."""

_TRY_LATER: Final = frozenset({401, 403, 429, 502, 503, 504})
"""A token that is wrong today is put right by somebody; what waits for that is not lost."""
_TOO_LARGE: Final = 413
_SECOND_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long to wait for what, in seconds.

    A span that comes after a pause waits `idle_s` for company, one in a steady flow until `batch_s` after the
    request before. A failed request is repeated after `first_retry_s`, then after twice that and so on up to
    `last_retry_s`, each shortened at random by up to a half, so that many sidecars do not come back at once.
    """

    idle_s: float = 0.2
    batch_s: float = 1.0
    first_retry_s: float = 0.25
    last_retry_s: float = 5.0
    request_s: float = 15.0


@dataclass(frozen=True, slots=True)
class _Answer:
    """What the receiver said; asked_s is the wait it asked for."""

    status: int
    body: bytes
    asked_s: float | None


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
        self._url = endpoint.rstrip("/") + "/v1/traces"
        self._compresses = not _is_loopback(endpoint)
        self._clock = clock
        self._headers = dict(headers or {})
        self._pace = pace or Pace()
        self._jitter = jitter
        self._backlog = Backlog(limit_bytes=queue_bytes)
        self._spooling = None if spool is None else SpoolTask(spool, self._backlog, clock=clock, tell=self._tell)
        self._request_bytes = REQUEST_BYTES
        self._retried = 0
        self._warn_at = 1
        self._failures = 0
        self._sent_ns: int | None = None
        self._has_some, self._is_empty = asyncio.Event(), asyncio.Event()
        self._is_due, self._is_flushing = asyncio.Event(), asyncio.Event()
        self._tell()

    @property
    def counters(self) -> Counters:
        return replace(self._backlog.counters(self._clock.monotonic_ns()), retried=self._retried)

    def offer(self, span: Span) -> bool:
        """Queue a span; False when it is dropped, which is counted. Never waits, never raises."""
        is_queued = self._backlog.offer(span, self._clock.monotonic_ns(), wall_ns=self._clock.wall_ns())
        self._tell()
        return is_queued

    async def run(self) -> None:
        """Deliver until cancelled; what is not acknowledged by then stays queued and counted.

        With a spool it is on disk when this ends, and it runs only once.
        """
        timeout = aiohttp.ClientTimeout(total=self._pace.request_s)
        jar = aiohttp.DummyCookieJar()
        headers = {"Accept-Encoding": "identity"} | self._headers
        async with (
            asyncio.TaskGroup() as group,
            aiohttp.ClientSession(timeout=timeout, cookie_jar=jar, headers=headers, auto_decompress=False) as session,
        ):
            if self._spooling is not None:
                group.create_task(self._spooling.run())
                await _wait(self._spooling.is_open, OPEN_S)
            while True:
                await self._has_some.wait()
                await _wait(self._is_due, self._linger_s())
                await self._deliver(session)

    async def flush(self, timeout_s: float) -> bool:
        """Deliver all that is queued, without waiting for company; False when that took longer than timeout_s."""
        self._is_flushing.set()
        self._tell()
        try:
            await _wait(self._is_empty, timeout_s)
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
            log.warning("spans dropped", extra={"url": self._url, "dropped": dropped})

    def _linger_s(self) -> float:
        if self._sent_ns is None:
            return self._pace.idle_s
        since_s = (self._clock.monotonic_ns() - self._sent_ns) / _SECOND_NS
        return max(self._pace.idle_s, self._pace.batch_s - since_s)

    async def _deliver(self, session: aiohttp.ClientSession) -> None:
        """One request, and the wait after it when it has to be repeated."""
        if not (body := self._backlog.take(self._request_bytes)):
            return  # they have gone to the disk meanwhile, for what is there is older
        asked_s = None
        try:
            answer = await self._post(session, body)
            asked_s = answer.asked_s
            failure = self._settle(answer, size_bytes=len(body))
        except Exception as error:  # noqa: BLE001  # whatever it was, the spans are still here, and streams go on
            failure = words_of(error)
        finally:
            self._backlog.put_back()
            self._tell()
        if failure is None:
            if self._failures:
                log.info("spans flow again", extra={"url": self._url})
            self._failures = 0
            return
        if not self._failures:
            log.warning("spans wait", extra={"url": self._url, "reason": failure})
        self._failures += 1
        self._retried += 1
        await self._back_off(asked_s)

    async def _post(self, session: aiohttp.ClientSession, body: bytes) -> _Answer:
        headers = {"Content-Type": "application/x-protobuf"}
        if self._compresses and len(body) >= GZIP_FROM_BYTES:
            compress = partial(gzip.compress, body, compresslevel=1, mtime=0)
            body = await asyncio.to_thread(compress) if len(body) >= GZIP_APART_FROM_BYTES else compress()
            headers["Content-Encoding"] = "gzip"
        self._sent_ns = self._clock.monotonic_ns()
        async with session.post(self._url, data=body, headers=headers, allow_redirects=False) as response:
            said = bytearray()
            async for chunk in response.content.iter_any():
                said += chunk
                if len(said) >= ANSWER_BYTES:
                    break
            return _Answer(response.status, bytes(said), _asked_s(response.headers))

    def _settle(self, answer: _Answer, *, size_bytes: int) -> str | None:
        """Do what the answer says; why the same must be tried again later, None when it must not."""
        status = answer.status
        if status in _TRY_LATER:
            return f"status {status}"
        if status == _TOO_LARGE and self._backlog.flight_count > 1:
            self._request_bytes = size_bytes // 2  # for good: the next batch would be refused just so
            return None
        if status == _TOO_LARGE and self._backlog.lighten():
            return None
        refused, said = _refused(answer.body) if 200 <= status < 300 else (None, "")
        if refused := self._backlog.settle(rejected=refused):
            about = {"url": self._url, "status": status, "spans": refused, "said": shown(said, chars=200)}
            log.warning("spans rejected", extra=about)
        return None

    async def _back_off(self, asked_s: float | None) -> None:
        """Wait before the next attempt: as long as asked, or longer each time; a flush cuts the latter short."""
        pace = self._pace
        own_s = min(pace.first_retry_s * 2 ** min(self._failures - 1, 16), pace.last_retry_s) * (1 - self._jitter() / 2)
        if asked_s is not None and asked_s > own_s:
            await asyncio.sleep(min(asked_s, ASKED_WAIT_S) + pace.first_retry_s * self._jitter())
        elif self._is_flushing.is_set():
            await asyncio.sleep(pace.first_retry_s)
        else:
            await _wait(self._is_flushing, own_s)


def _set(event: asyncio.Event, *, is_set: bool) -> None:
    if is_set:
        event.set()
    else:
        event.clear()


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    """Until the event is set, at most timeout_s."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return


def _refused(body: bytes) -> tuple[int, str]:
    try:
        return decode_response(body, as_json=False)
    except OtlpError:  # the status says that all was taken; the rest is decoration
        return 0, ""


def _asked_s(headers: Mapping[str, str]) -> float | None:
    """The wait of a Retry-After header: seconds, or a date, which is compared with the answer's own Date."""
    value = headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        wait = parsedate_to_datetime(value) - parsedate_to_datetime(headers.get("Date", ""))
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, wait.total_seconds())


def words_of(error: Exception) -> str:
    """Why a request failed, in words of the system where it has some, and else the kind of the error; never its text,
    which may quote what passed through."""
    cause: Exception = error
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
    elif isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
    if isinstance(cause, socket.gaierror):
        return (cause.strerror or "name not known").lower()
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {cause.verify_message}"
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    if isinstance(cause, OSError) and cause.errno:
        return os.strerror(cause.errno).lower()
    return type(error).__name__


def _is_loopback(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
