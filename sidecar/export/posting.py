"""Post OTLP bodies to a receiver over HTTP: compressed where it is far, paced, and failures in words of the system"""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import logging
import os
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from otel.otlp_values import OtlpError
from sidecar.clock import Clock

log = logging.getLogger(__name__)

ANSWER_BYTES: Final = 64 << 10
"""More of an answer is not read."""
GZIP_FROM_BYTES: Final = 1_024
"""A smaller body is one packet either way."""
GZIP_APART_FROM_BYTES: Final = 32 << 10
"""Compressing this takes about a millisecond; more is compressed in a thread."""
ASKED_WAIT_S: Final = 300.0
"""Longest wait that a receiver may ask for: a mistyped header must not silence a sidecar for a day."""
TRY_LATER: Final = frozenset({401, 403, 429, 502, 503, 504})
"""A token that is wrong today is put right by somebody; what waits for that is not lost."""
TOO_LARGE: Final = 413


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long to wait for what, in seconds.

    What comes after a pause waits `idle_s` for company, what comes in a steady flow until `batch_s` after the
    request before. A failed request is repeated after `first_retry_s`, then after twice that and so on up to
    `last_retry_s`, each shortened at random by up to a half, so that many sidecars do not come back at once.
    """

    idle_s: float = 0.2
    batch_s: float = 1.0
    first_retry_s: float = 0.25
    last_retry_s: float = 5.0
    request_s: float = 15.0

    def retry_s(self, failure_count: int, jitter: float) -> float:
        """How long to wait after so many failures in a row; jitter: at random from 0 to 1."""
        return min(self.first_retry_s * 2.0 ** min(failure_count - 1, 16), self.last_retry_s) * (1 - jitter / 2)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the receiver said; asked_s is the wait it asked for."""

    status: int
    body: bytes
    asked_s: float | None


class Post:
    """One address to which bodies are posted."""

    def __init__(self, endpoint: str, path: str, *, pace: Pace, headers: Mapping[str, str] | None = None) -> None:
        """endpoint: the receiver's base URL. headers go with every request (a bearer token)."""
        self.url = endpoint.rstrip("/") + path
        self._compresses = not is_loopback(endpoint)
        self._headers = {"Accept-Encoding": "identity"} | dict(headers or {})
        self._request_s = pace.request_s

    def session(self) -> aiohttp.ClientSession:
        """What the requests go by; its owner closes it."""
        return aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=self._request_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=self._headers,
            auto_decompress=False,
        )

    async def send(self, session: aiohttp.ClientSession, body: bytes) -> Answer:
        """Post one body of protobuf. Raises whatever the client raises."""
        headers = {"Content-Type": "application/x-protobuf"}
        if self._compresses and len(body) >= GZIP_FROM_BYTES:
            compress = partial(gzip.compress, body, compresslevel=1, mtime=0)
            body = await asyncio.to_thread(compress) if len(body) >= GZIP_APART_FROM_BYTES else compress()
            headers["Content-Encoding"] = "gzip"
        async with session.post(self.url, data=body, headers=headers, allow_redirects=False) as response:
            said = bytearray()
            async for chunk in response.content.iter_any():
                said += chunk
                if len(said) >= ANSWER_BYTES:
                    break
            return Answer(response.status, bytes(said), retry_after_s(response.headers))


class Sender:
    """Posts one body after the other, and waits after one that failed. retried: requests that were repeated."""

    def __init__(
        self,
        post: Post,
        *,
        what: str,
        level: int,
        pace: Pace,
        clock: Clock,
        jitter: Callable[[], float],
        is_flushing: asyncio.Event,
    ) -> None:
        """what: is sent, for the log; level: that of its line when it has to wait. jitter: at random from 0 to 1."""
        self._post = post
        self._what = what
        self._level = level
        self._pace = pace
        self._clock = clock
        self._jitter = jitter
        self._is_flushing = is_flushing
        self._failures = 0
        self._sent_ns: int | None = None
        self.retried = 0

    def linger_s(self) -> float:
        """How long to wait for company before the next request."""
        if self._sent_ns is None:
            return self._pace.idle_s
        since_s = (self._clock.monotonic_ns() - self._sent_ns) / 1e9
        return max(self._pace.idle_s, self._pace.batch_s - since_s)

    async def send(
        self,
        session: aiohttp.ClientSession,
        body: bytes,
        *,
        settle: Callable[[Answer], str | None],
        decided: Callable[[], None],
    ) -> None:
        """One request, and the wait after it when it has to be repeated.

        settle: do what the answer says; why the same must be tried again later, None when it must not. decided: called
        when all that is known of this attempt has been done, however it went.
        """
        asked_s = None
        try:
            self._sent_ns = self._clock.monotonic_ns()
            answer = await self._post.send(session, body)
            asked_s = answer.asked_s
            failure = settle(answer)
        except Exception as error:  # noqa: BLE001  # whatever it was, nothing of it is lost, and streams go on
            failure = words_of(error)
        finally:
            decided()
        if failure is None:
            if self._failures:
                log.info("%s flow again", self._what, extra={"url": self._post.url})
            self._failures = 0
            return
        if not self._failures:
            log.log(self._level, "%s wait", self._what, extra={"url": self._post.url, "reason": failure})
        self._failures += 1
        self.retried += 1
        await back_off(
            self._pace,
            failure_count=self._failures,
            asked_s=asked_s,
            jitter=self._jitter(),
            is_flushing=self._is_flushing,
        )


def refused(answer: Answer, decode: Callable[..., tuple[int, str]]) -> tuple[int | None, str]:
    """How many of what was sent an answer refuses for good, None for all of it, and why. decode: of its body."""
    if not 200 <= answer.status < 300:
        return None, ""
    try:
        return decode(answer.body, as_json=False)
    except OtlpError:  # the status says that all was taken; the rest is decoration
        return 0, ""


async def back_off(
    pace: Pace, *, failure_count: int, asked_s: float | None, jitter: float, is_flushing: asyncio.Event
) -> None:
    """Wait before the next attempt: as long as asked, or longer each time; a flush cuts the latter short."""
    own_s = pace.retry_s(failure_count, jitter)
    if asked_s is not None and asked_s > own_s:
        await asyncio.sleep(min(asked_s, ASKED_WAIT_S) + pace.first_retry_s * jitter)
    elif is_flushing.is_set():
        await asyncio.sleep(pace.first_retry_s)
    else:
        await wait(is_flushing, own_s)


async def wait(event: asyncio.Event, timeout_s: float) -> None:
    """Until the event is set, at most timeout_s."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return


def retry_after_s(headers: Mapping[str, str]) -> float | None:
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


def is_loopback(endpoint: str) -> bool:
    """The receiver is on this machine, where compressing costs more than it saves."""
    host = urlsplit(endpoint).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
