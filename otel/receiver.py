"""OTLP in: spans that are hops go to the store, and the sender hears the truth about each.

Whatever is acknowledged is durable, whatever is refused for good is counted in the partial success with the first
reasons, and when the store fails nothing is acknowledged and the sender tries again: sent = stored + rejected.
Log records tell of streams that run; those of other programs are taken and dropped, as an agent that sends us all it
has must not be told to stop.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import threading
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Final, Self, TypeVar

from aiohttp import web
from aiohttp.web_protocol import RequestPayloadError

from otel.glance import Glance, GlanceError, is_ours, log_to_glance
from otel.hop import Hop
from otel.otlp import OtlpError, decode_request, decode_request_json, encode_error, encode_response
from otel.otlp_logs import LogRecord, decode_logs, decode_logs_json, encode_logs_response
from otel.span import Span, SpanError, span_to_hop
from otel.span import is_ours as is_our_span
from otel.store.base import StoreError, Unsupported, weight_of

log = logging.getLogger(__name__)

Write = Callable[[Sequence[Hop]], Awaitable[int]]
"""Keeps hops and returns how many were new, once all are durable. Raises StoreError for now, Unsupported for good."""
Notice = Callable[[Glance], None]
"""Takes note of a stream that runs. Never raises."""

BODY_BYTES: Final = 20 << 20
"""What the OpenTelemetry Collector takes, after decompression."""
HELD_BYTES: Final = 32 << 20
"""Bodies held at once, from their first byte on, decoded some twenty times their size; more are told to come back."""
BODY_S: Final = 30.0
"""Longest that a body may take to come in, in which it holds what has come."""
PORTION_EVENTS: Final = 200_000
"""Events of a request that are unpacked at a time: one takes three bytes in a body and 150 in memory."""
INFLATED_STEP_BYTES: Final = 1 << 20
"""Inflated at a time, so that it is accounted for before there is more of it."""
GZIP_MEMBERS: Final = 1_000
"""Behind each one all of the rest is copied."""
PORTION_GLANCES: Final = 5_000
"""Of a request, taken note of at a time: some milliseconds."""
APART_FROM_BYTES: Final = 16 << 10
"""Decoding this takes about a millisecond; larger bodies are decoded in a thread."""
RETRY_AFTER_S: Final = 1
REASONS: Final = 3
"""Different reasons told in one answer."""
REASON_CHARS: Final = 200

_PROTOBUF: Final = "application/x-protobuf"
_JSON: Final = "application/json"
_Result = TypeVar("_Result")


class TryLaterError(Exception):
    """Nothing of the request was kept; the same may succeed later."""


@dataclass(slots=True)
class Counters:
    """What came in since the start.

    Spans are those of requests that were answered with success, and spans = stored + duplicate + rejected; foreign
    are the rejected ones of other programs. failed_requests: the store could not take them, or too much was in
    memory. refused_requests: not authorised, too large, or no OTLP. glances, foreign_logs and rejected_logs are log
    records: those that tell of a stream, those of other programs, and those that mean to tell and cannot be read.
    """

    requests: int = 0
    spans: int = 0
    stored: int = 0
    duplicate: int = 0
    rejected: int = 0
    foreign: int = 0
    failed_requests: int = 0
    refused_requests: int = 0
    glances: int = 0
    foreign_logs: int = 0
    rejected_logs: int = 0


class Receiver:
    """What HTTP and gRPC have in common: who may send, and what becomes of a request."""

    def __init__(self, write: Write, *, notice: Notice, token: str | None = None) -> None:
        """With a token, senders must present it as `Authorization: Bearer TOKEN`."""
        self._write = write
        self._notice = notice
        self._expected = None if token is None else f"Bearer {token}".encode()
        self._room = _Room()
        self.counters = Counters()

    def is_allowed(self, authorization: str | None) -> bool:
        """Whether a request with this Authorization header may send."""
        if self._expected is None:
            return True
        return hmac.compare_digest((authorization or "").encode("utf-8", "surrogateescape"), self._expected)

    def hold(self) -> Held:
        """Where a sender accounts for what it makes us hold, as long as the block lasts."""
        return Held(self._room, self.counters)

    async def take(self, body: bytes, *, as_json: bool) -> tuple[int, str]:
        """Keep what can be kept: (rejected, why) once all else is durable. The caller holds the body.

        Raises OtlpError for a body that is no request, and TryLaterError when not all of it was kept.
        """
        spans = iter(await _apart(len(body), decode_request_json if as_json else decode_request, body))
        total = _Taken(Counter())
        try:
            while (found := await _apart(len(body), _portion, spans)).span_count:
                await self._keep(found, total)
        except TryLaterError:
            self.counters.failed_requests += 1
            raise
        rejected = total.reasons.total()
        self.counters.spans += total.sent
        self.counters.stored += total.stored
        self.counters.rejected += rejected
        self.counters.duplicate += total.sent - total.stored - rejected
        self.counters.foreign += total.foreign
        return rejected, _told(total.reasons)

    async def take_logs(self, body: bytes, *, as_json: bool) -> tuple[int, str]:
        """Take note of what the log records of a request tell: (rejected, why). The caller holds the body.

        Raises OtlpError for a body that is no request.
        """
        read = await _apart(len(body), _glances, body, as_json)
        for first in range(0, len(read.glances), PORTION_GLANCES):
            for glance in read.glances[first : first + PORTION_GLANCES]:
                self._notice(glance)
            await asyncio.sleep(0)
        rejected = read.reasons.total()
        self.counters.glances += len(read.glances)
        self.counters.foreign_logs += read.foreign
        self.counters.rejected_logs += rejected
        return rejected, _told(read.reasons)

    async def _keep(self, found: _Found, total: _Taken) -> None:
        try:
            total.stored += await self._write(found.hops) if found.hops else 0
        except Unsupported as error:
            total.reasons[str(error)] += len(found.hops)
        except StoreError as error:
            log.warning("spans not stored", extra={"spans": len(found.hops), "error": str(error)})
            raise TryLaterError("the store cannot take it now") from error
        except Exception as error:
            log.exception("spans not stored", extra={"spans": len(found.hops)})
            raise TryLaterError("the store failed") from error
        total.sent += found.span_count
        total.foreign += found.foreign
        total.reasons += found.reasons


class Held:
    """What one request holds of the bytes that all may hold together; given back when its block ends."""

    def __init__(self, room: _Room, counters: Counters) -> None:
        self._room = room
        self._counters = counters
        self._bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._room.give_back(self._bytes)

    def add(self, size: int) -> None:
        """May be called from any thread. Raises TryLaterError when there is no room."""
        if not self._room.take(size):
            self._counters.failed_requests += 1
            raise TryLaterError("too many requests at once")
        self._bytes += size


class _Room:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken_bytes = 0

    def take(self, size: int) -> bool:
        with self._lock:
            has_room = self._taken_bytes + size <= HELD_BYTES
            self._taken_bytes += size if has_room else 0
            return has_room

    def give_back(self, size: int) -> None:
        with self._lock:
            self._taken_bytes -= size


@dataclass(slots=True)
class _Taken:
    """What has become of the spans of a request so far."""

    reasons: Counter[str]
    sent: int = 0
    stored: int = 0
    foreign: int = 0


@dataclass(frozen=True, slots=True)
class _Found:
    hops: list[Hop]
    reasons: Counter[str]
    foreign: int

    @property
    def span_count(self) -> int:
        return len(self.hops) + self.reasons.total()


def _portion(spans: Iterator[Span]) -> _Found:
    """The hops among the next spans of a request, and the reasons why others are none; empty at the end."""
    hops: list[Hop] = []
    reasons: Counter[str] = Counter()
    foreign = events = 0
    for span in spans:
        try:
            hop = span_to_hop(span)
        except SpanError as error:
            reasons[str(error)] += 1
            foreign += not is_our_span(span)
            continue
        hops.append(hop)
        events += weight_of(hop)
        if events >= PORTION_EVENTS:
            break
    return _Found(hops, reasons, foreign)


@dataclass(frozen=True, slots=True)
class _Glances:
    glances: list[Glance]
    reasons: Counter[str]
    foreign: int


def _glances(body: bytes, as_json: bool) -> _Glances:  # runs in a thread, by position
    """The glances among the log records of a request, and the reasons why others that mean to be are none."""
    records: list[LogRecord] = decode_logs_json(body) if as_json else decode_logs(body)
    glances: list[Glance] = []
    reasons: Counter[str] = Counter()
    for record in filter(is_ours, records):
        try:
            glances.append(log_to_glance(record))
        except GlanceError as error:
            reasons[str(error)] += 1
    return _Glances(glances, reasons, len(records) - len(glances) - reasons.total())


def _told(reasons: Counter[str]) -> str:
    """The most frequent reasons, each with its count."""
    told = [f"{count} × {reason[:REASON_CHARS]}" for reason, count in reasons.most_common(REASONS)]
    return "; ".join(told) + (f"; {len(reasons) - REASONS} more reasons" if len(reasons) > REASONS else "")


@dataclass(frozen=True, slots=True)
class Signal:
    """One kind of what OTLP carries. answer: the body that says how many were refused for good, and why."""

    path: str
    service: str
    take: Callable[[Receiver], Callable[..., Awaitable[tuple[int, str]]]]
    answer: Callable[..., bytes]


_SERVICES: Final = "opentelemetry.proto.collector"
SIGNALS: Final = (
    Signal("/v1/traces", f"{_SERVICES}.trace.v1.TraceService", lambda receiver: receiver.take, encode_response),
    Signal("/v1/logs", f"{_SERVICES}.logs.v1.LogsService", lambda receiver: receiver.take_logs, encode_logs_response),
)


def http_runner(receiver: Receiver) -> web.AppRunner:
    """A server of OTLP over HTTP; its owner sets it up, gives it sites and cleans it up."""
    app = web.Application()
    for signal in SIGNALS:
        app.router.add_post(signal.path, partial(_export, receiver, signal))
    return web.AppRunner(app, auto_decompress=False, access_log=None)


async def _export(receiver: Receiver, signal: Signal, request: web.Request) -> web.Response:
    as_json = request.content_type == _JSON

    def answer(status: int, body: bytes, **headers: str) -> web.Response:
        about = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, body=body, content_type=_JSON if as_json else _PROTOBUF, headers=about)

    def refusal(status: int, message: str, **headers: str) -> web.Response:
        receiver.counters.refused_requests += status < 500
        return answer(status, encode_error(message, as_json=as_json), **headers)

    receiver.counters.requests += 1
    if not receiver.is_allowed(request.headers.get("Authorization")):
        return refusal(401, "a bearer token is required", WWW_Authenticate="Bearer")
    coding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if request.content_type not in {_JSON, _PROTOBUF} or coding not in {"identity", "gzip", "deflate"}:
        return refusal(415, f"not {_PROTOBUF} or {_JSON}, plain or in gzip or deflate")
    try:
        with receiver.hold() as held:
            async with asyncio.timeout(BODY_S):
                body = await _body(request, held)
            if coding != "identity":
                body = await _apart(len(body), _inflated, body, held)
            rejected, message = await signal.take(receiver)(body, as_json=as_json)
    except TimeoutError:
        receiver.counters.failed_requests += 1
        return refusal(503, f"the body did not come in within {BODY_S:g} s", Retry_After=str(RETRY_AFTER_S))
    except _TooLargeError:
        return refusal(413, f"body has more than {BODY_BYTES} bytes")
    except OtlpError as error:
        return refusal(400, str(error))
    except TryLaterError as error:
        return refusal(503, str(error), Retry_After=str(RETRY_AFTER_S))
    return answer(200, signal.answer(rejected, message, as_json=as_json))


class _TooLargeError(Exception):
    """The body has more than BODY_BYTES."""


async def _body(request: web.Request, held: Held) -> bytes:
    if (request.content_length or 0) > BODY_BYTES:
        raise _TooLargeError
    body = bytearray()
    try:
        async for chunk in request.content.iter_any():
            held.add(len(chunk))
            body += chunk
            if len(body) > BODY_BYTES:
                raise _TooLargeError
    except (ConnectionError, RequestPayloadError):
        raise OtlpError(f"the body broke off after {len(body)} bytes") from None
    return bytes(body)


def _inflated(body: bytes, held: Held) -> bytes:
    """The body out of gzip or zlib, whichever it is in; never more of it than BODY_BYTES in memory."""
    inflated = bytearray()
    rest, members = body, 0
    while rest:  # gzip may have several members
        members += 1
        if members > GZIP_MEMBERS:
            raise OtlpError(f"compressed body has more than {GZIP_MEMBERS} members")
        member = zlib.decompressobj(wbits=47)
        while True:
            try:
                piece = member.decompress(rest, INFLATED_STEP_BYTES)
            except zlib.error as error:
                raise OtlpError(f"body of {len(body)} bytes cannot be decompressed: {error}") from None
            held.add(len(piece))
            inflated += piece
            if len(inflated) > BODY_BYTES:
                raise _TooLargeError
            if member.eof:
                break
            rest = member.unconsumed_tail
            if not rest and not piece:
                raise OtlpError(f"compressed body of {len(body)} bytes is cut short")
        rest = member.unused_data
    return bytes(inflated)


async def _apart(size_bytes: int, work: Callable[..., _Result], *args: object) -> _Result:
    """Work that a large body makes long, in a thread."""
    return await asyncio.to_thread(work, *args) if size_bytes >= APART_FROM_BYTES else work(*args)
