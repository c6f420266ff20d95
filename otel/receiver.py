"""OTLP in: spans that are hops go to the store, and the sender hears the truth about each.

Whatever is acknowledged is durable, whatever is refused for good is counted in the partial success with the first
reasons, and when the store fails nothing is acknowledged and the sender tries again: sent = stored + rejected.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from aiohttp import web
from aiohttp.web_protocol import RequestPayloadError

from otel.hop import Hop
from otel.otlp import OtlpError, decode_request, decode_request_json, encode_error, encode_response
from otel.span import Span, SpanError, is_ours, span_to_hop
from otel.store.base import StoreError, Unsupported

log = logging.getLogger(__name__)

Write = Callable[[Sequence[Hop]], Awaitable[int]]
"""Keeps hops and returns how many were new, once all are durable. Raises StoreError for now, Unsupported for good."""

BODY_BYTES: Final = 20 << 20
"""What the OpenTelemetry Collector takes, after decompression."""
HELD_BYTES: Final = 32 << 20
"""Bodies taken in at once, decoded some twenty times their size; more senders are told to come back."""
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
    memory. refused_requests: not authorised, too large, or no OTLP.
    """

    requests: int = 0
    spans: int = 0
    stored: int = 0
    duplicate: int = 0
    rejected: int = 0
    foreign: int = 0
    failed_requests: int = 0
    refused_requests: int = 0


class Receiver:
    """What HTTP and gRPC have in common: who may send, and what becomes of a request."""

    def __init__(self, write: Write, *, token: str | None = None) -> None:
        """With a token, senders must present it as `Authorization: Bearer TOKEN`."""
        self._write = write
        self._expected = None if token is None else f"Bearer {token}".encode()
        self._held_bytes = 0
        self.counters = Counters()

    def is_allowed(self, authorization: str | None) -> bool:
        """Whether a request with this Authorization header may send."""
        if self._expected is None:
            return True
        return hmac.compare_digest((authorization or "").encode("utf-8", "surrogateescape"), self._expected)

    async def take(self, body: bytes, *, as_json: bool) -> tuple[int, str]:
        """Keep what can be kept: (rejected, why) once all else is durable.

        Raises OtlpError for a body that is no request, and TryLaterError when nothing of it was kept.
        """
        if self._held_bytes + len(body) > HELD_BYTES:
            self.counters.failed_requests += 1
            raise TryLaterError("too many requests at once")
        self._held_bytes += len(body)
        try:
            return await self._take(body, as_json=as_json)
        except TryLaterError:
            self.counters.failed_requests += 1
            raise
        finally:
            self._held_bytes -= len(body)

    async def _take(self, body: bytes, *, as_json: bool) -> tuple[int, str]:
        found = await _apart(len(body), _read, body, decode_request_json if as_json else decode_request)
        stored = 0
        reasons = found.reasons.copy()
        try:
            stored = await self._write(found.hops) if found.hops else 0
        except Unsupported as error:
            reasons[str(error)] += len(found.hops)
        except StoreError as error:
            log.warning("spans not stored", extra={"spans": len(found.hops), "error": str(error)})
            raise TryLaterError("the store cannot take it now") from error
        except Exception as error:
            log.exception("spans not stored", extra={"spans": len(found.hops)})
            raise TryLaterError("the store failed") from error
        rejected, sent = reasons.total(), len(found.hops) + found.reasons.total()
        self.counters.spans += sent
        self.counters.stored += stored
        self.counters.rejected += rejected
        self.counters.duplicate += sent - stored - rejected
        self.counters.foreign += found.foreign
        return rejected, _told(reasons)


@dataclass(frozen=True, slots=True)
class _Found:
    hops: list[Hop]
    reasons: Counter[str]
    foreign: int


def _read(body: bytes, decode: Callable[[bytes], list[Span]]) -> _Found:
    """The hops of a request, and the reasons why other spans are none. Raises OtlpError."""
    hops: list[Hop] = []
    reasons: Counter[str] = Counter()
    foreign = 0
    for span in decode(body):
        try:
            hops.append(span_to_hop(span))
        except SpanError as error:
            reasons[str(error)] += 1
            foreign += not is_ours(span)
    return _Found(hops, reasons, foreign)


def _told(reasons: Counter[str]) -> str:
    """The most frequent reasons, each with its count."""
    told = [f"{count} × {reason[:REASON_CHARS]}" for reason, count in reasons.most_common(REASONS)]
    return "; ".join(told) + (f"; {len(reasons) - REASONS} more reasons" if len(reasons) > REASONS else "")


def http_runner(receiver: Receiver) -> web.AppRunner:
    """A server of OTLP over HTTP; its owner sets it up, gives it sites and cleans it up."""

    async def traces(request: web.Request) -> web.Response:
        return await _traces(receiver, request)

    app = web.Application()
    app.router.add_post("/v1/traces", traces)
    return web.AppRunner(app, auto_decompress=False, access_log=None)


async def _traces(receiver: Receiver, request: web.Request) -> web.Response:
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
        body = await _body(request)
        if coding != "identity":
            body = await _apart(len(body), _inflated, body)
        rejected, message = await receiver.take(body, as_json=as_json)
    except _TooLargeError:
        return refusal(413, f"body has more than {BODY_BYTES} bytes")
    except OtlpError as error:
        return refusal(400, str(error))
    except TryLaterError as error:
        return refusal(503, str(error), Retry_After=str(RETRY_AFTER_S))
    return answer(200, encode_response(rejected, message, as_json=as_json))


class _TooLargeError(Exception):
    """The body has more than BODY_BYTES."""


async def _body(request: web.Request) -> bytes:
    if (request.content_length or 0) > BODY_BYTES:
        raise _TooLargeError
    body = bytearray()
    try:
        async for chunk in request.content.iter_any():
            body += chunk
            if len(body) > BODY_BYTES:
                raise _TooLargeError
    except (ConnectionError, RequestPayloadError):
        raise OtlpError(f"the body broke off after {len(body)} bytes") from None
    return bytes(body)


def _inflated(body: bytes) -> bytes:
    """The body out of gzip or zlib, whichever it is in; never more of it than BODY_BYTES in memory."""
    inflated = bytearray()
    while body:  # gzip may have several members
        member = zlib.decompressobj(wbits=47)
        try:
            inflated += member.decompress(body, BODY_BYTES + 1 - len(inflated))
        except zlib.error as error:
            raise OtlpError(f"body of {len(body)} bytes cannot be decompressed: {error}") from None
        if len(inflated) > BODY_BYTES:
            raise _TooLargeError
        if not member.eof:
            raise OtlpError(f"compressed body of {len(body)} bytes is cut short")
        body = member.unused_data
    return bytes(inflated)


async def _apart(size_bytes: int, work: Callable[..., _Result], *args: object) -> _Result:
    """Work that a large body makes long, in a thread."""
    return await asyncio.to_thread(work, *args) if size_bytes >= APART_FROM_BYTES else work(*args)
