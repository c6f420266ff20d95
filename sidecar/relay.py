"""Carry one exchange: forward first, record second, end once.

The hot loop is: read what is there, take the time, write it on, wait until our kernel has it, take the time, tell
the recorder. `taken` is honest on asyncio and on uvloop alike: both try to send within `write`, and with a
write-buffer limit of 0 (see `kernel.Connection.tune`) `drain` returns only when the buffer is empty.

A response that broke off upstream never ends cleanly downstream.
"""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
import uuid
from collections.abc import AsyncIterator
from itertools import count
from pathlib import PurePath
from typing import Final

import aiohttp
from aiohttp import hdrs, web

from otel.hop import Anchor, Ending, Place
from sidecar import headers
from sidecar.clock import Clock
from sidecar.exchanges import Exchanges, Live
from sidecar.failures import BAD_ANSWER, BAD_FRAMING, DRAINING, OUR_FAULT, Failure, failure_of, refusal_of
from sidecar.identity import id_field_of, identity_of
from sidecar.kernel import Connection
from sidecar.recorder import SEGMENT_EVENTS, Recorder
from sidecar.upstream import READ_BYTES, Answer, Upstream, fields_of, origin_form, sendable

log = logging.getLogger(__name__)

BLOCKED_NS: Final = 5_000_000
"""Waits for the reader below this are the scheduler's, not the reader's."""

PASSED: Final = web.ResponseKey("passed", tuple[tuple[str, str], ...])
"""On a response of the upstream: the fields that it came with, so that aiohttp adds none of its own."""


class Relay:
    """What all exchanges of this process share."""

    __slots__ = (
        "_event_limit_bytes",
        "_instance",
        "_numbers",
        "_place",
        "clock",
        "exchanges",
        "id_headers",
        "upstream",
    )

    def __init__(
        self,
        upstream: Upstream,
        *,
        exchanges: Exchanges,
        clock: Clock,
        place: Place,
        instance: str,
        id_headers: tuple[str, ...],
        event_limit_bytes: int,
    ) -> None:
        self.upstream = upstream
        self.exchanges = exchanges
        self.clock = clock
        self.id_headers = id_headers
        self._place = place
        self._instance = instance
        self._event_limit_bytes = event_limit_bytes
        self._numbers = count()

    @property
    def hop(self) -> str:
        return self._place.hop

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One exchange, from its head to its end."""
        carriage = Carriage(self, request)
        self.exchanges.begin(carriage.live)
        try:
            return await carriage.run()
        finally:
            self.exchanges.finish(carriage.live)

    def recorder(self, request: web.Request, anchor: Anchor, fields: headers.Fields, *, made_id: str) -> Recorder:
        """The recorder of a new exchange."""
        unique = (self.hop, self._place.role, self._instance, anchor.monotonic_ns, next(self._numbers))
        return Recorder(
            identity_of(fields, self.id_headers, made_id=made_id, unique=unique),
            place=self._place,
            anchor=anchor,
            method=request.method,
            path=origin_form(request.raw_path),
            event_limit_bytes=self._event_limit_bytes,
        )


def _place_of(error: Exception) -> str:
    """Where it was raised; never what it says, which may quote what passed through."""
    trace = traceback.extract_tb(error.__traceback__)
    return f"{PurePath(trace[-1].filename).name}:{trace[-1].lineno}" if trace else ""


class Carriage:
    """One exchange on its way through."""

    __slots__ = (
        "_answer",
        "_clock",
        "_fields",
        "_has_bad_body",
        "_id_field",
        "_relay",
        "_request",
        "_response",
        "live",
    )

    def __init__(self, relay: Relay, request: web.Request) -> None:
        self._relay = relay
        self._request = request
        self._clock = relay.clock
        self._fields = fields_of(request.raw_headers)
        made_id = str(uuid.uuid4())
        self._id_field = id_field_of(self._fields, relay.id_headers, made_id=made_id)
        self._answer: Answer | None = None
        self._response: web.StreamResponse | None = None
        self._has_bad_body = False
        anchor = Anchor(self._clock.wall_ns(), self._clock.monotonic_ns(), self._clock.domain)
        connection = None if request.transport is None else Connection(request.transport)
        self.live = Live(relay.recorder(request, anchor, self._fields, made_id=made_id), anchor, connection=connection)

    async def run(self) -> web.StreamResponse:
        """Ask upstream and pass the answer on. Cancelled when the reader leaves, or when we must end it."""
        request = self._request
        try:
            if self._relay.exchanges.is_draining:
                return await self._refuse(DRAINING)
            if (refusal := refusal_of(request.method, request.version, self._fields)) is not None:
                return await self._refuse(refusal)
            try:
                self._answer = answer = await self._ask()
            except Exception as error:  # noqa: BLE001  # whatever went wrong, the reader gets an answer
                return await self._refuse(BAD_FRAMING if self._has_bad_body else failure_of(error))
            if not answer.is_usable:
                return await self._refuse(BAD_ANSWER)
            return await self._pass_on(answer)
        except asyncio.CancelledError:
            self._abandon()
            raise
        except ConnectionError:  # of our own writing; reading is in a try of its own
            self._abandon()
        except Exception as error:  # noqa: BLE001  # our own mistake: what the reader has must not look whole
            self.live.stopping = Ending.LOST
            self._abandon()
            self._relay.exchanges.relay_failure_count += 1
            log.warning("exchange lost", extra={"error": type(error).__name__, "at": _place_of(error)})
        return self._response or web.Response(status=OUR_FAULT.status)  # to a connection that is closed

    # Before the answer.

    async def _ask(self) -> Answer:
        request, relay = self._request, self._relay
        fields = [field for field in headers.end_to_end(self._fields) if field[0].lower() not in {"expect", "host"}]
        host = headers.value_of(self._fields, "host")
        if host is not None:
            fields.insert(0, ("Host", host))
        id_field = self._id_field
        if headers.request_id_of(fields, (id_field.name,)) is None:  # it came empty, not at all, or as hop-by-hop
            fields = [field for field in fields if field[0].lower() != id_field.name.lower()]
            fields.append((id_field.name, id_field.value))
        self.live.is_uploading = request.body_exists
        return await relay.upstream.ask(
            request.method,
            origin_form(request.raw_path),
            fields,
            body=self._upload() if request.body_exists else None,
            head_sent=lambda: self.live.recorder.request_forwarded(self._clock.monotonic_ns()),
        )

    async def _upload(self) -> AsyncIterator[bytes]:
        try:
            while data := await self._request.content.read(READ_BYTES):
                yield data
                self.live.recorder.request_passed(len(data))
        except Exception:
            self._has_bad_body = True
            raise
        finally:
            self.live.is_uploading = False

    async def _refuse(self, failure: Failure) -> web.StreamResponse:
        """Answer by ourselves."""
        recorder, at_ns = self.live.recorder, self._clock.monotonic_ns()
        if failure.ending is None:
            recorder.upstream_ended(at_ns, is_clean=False)
        else:
            recorder.stopped(failure.ending, at_ns)
        if self._answer is not None:
            self._answer.abort()
        recorder.answered_by_us(status=failure.status, error_type=failure.type)
        message = f"gapline sidecar of hop {self._relay.hop}: {failure.message}"
        self._response = response = web.Response(
            status=failure.status,
            headers=sendable([(self._id_field.name, self._id_field.value)]),
            content_type="application/json",
            body=json.dumps({"error": {"type": failure.type, "message": message}}).encode(),
        )
        if failure.ending is Ending.REJECTED:
            response.force_close()
        await self._start(response)
        await self._finish(response)
        return response

    # The answer.

    async def _pass_on(self, answer: Answer) -> web.StreamResponse:
        self.live.recorder.answered(
            self._clock.monotonic_ns(),
            status=answer.status,
            content_type=headers.value_of(answer.fields, "content-type"),
            content_encoding=headers.value_of(answer.fields, "content-encoding"),
            has_body=answer.has_body,
            is_delimited=answer.is_delimited,
        )
        self._response = response = self._answered(answer)
        await self._start(response)
        if await self._stream(answer):
            await self._finish(response)
        else:
            answer.abort()
            self._cut()
        return response

    def _answered(self, answer: Answer) -> web.StreamResponse:
        """The response with the upstream's head, and the request id where that had none."""
        fields = headers.end_to_end(answer.fields)
        names = {name.lower() for name, _ in fields}
        for name, value in fields:
            if name.lower() in self._relay.id_headers:
                self.live.recorder.alias_seen(value)
        if self._id_field.name.lower() not in names:
            fields.append((self._id_field.name, self._id_field.value))
        response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=sendable(fields))
        response[PASSED] = tuple(fields)
        if self._request.version < aiohttp.HttpVersion11 and "content-length" not in names:
            response.force_close()  # nothing but its own end can end this body
        return response

    async def _start(self, response: web.StreamResponse) -> None:
        if self.live.connection is not None:
            self.live.connection.tune()
        self.live.begin_response(self._request.writer)
        await response.prepare(self._request)

    async def _stream(self, answer: Answer) -> bool:
        """Pass the body on; whether it ended cleanly."""
        recorder, clock = self.live.recorder, self._clock.monotonic_ns
        while True:
            try:
                data = await answer.content.read(READ_BYTES)
            except Exception:  # noqa: BLE001  # whatever broke it, the body is not whole
                at_ns = clock()
                try:
                    for data in answer.rest():
                        await self._hand_on(answer, data, at_ns)
                finally:  # also when the reader leaves now: it was the upstream that ended it
                    recorder.upstream_ended(at_ns, is_clean=False)
                return False
            at_ns = clock()
            if not data:
                recorder.upstream_ended(at_ns, is_clean=not answer.is_reset)
                return not answer.is_reset
            await self._hand_on(answer, data, at_ns)
            if recorder.fresh_count >= SEGMENT_EVENTS:
                self._relay.exchanges.cut(self.live, at_ns)

    async def _hand_on(self, answer: Answer, data: bytes, at_ns: int) -> None:
        live, recorder, writer = self.live, self.live.recorder, self._request.writer
        answer.read_bytes += len(data)
        writer.buffer_size = 0  # or every 64 KiB `write` would wait for the reader where we do not measure it
        try:
            await writer.write(data)
            if live.connection is not None and live.connection.buffered_bytes:
                await self._until_taken(answer)
            self._check_open()
        except BaseException:
            recorder.arrived(data, at_ns)
            raise
        taken_ns = self._clock.monotonic_ns()
        recorder.arrived(data, at_ns)
        recorder.taken(taken_ns, writer.output_size)

    async def _until_taken(self, answer: Answer) -> None:
        recorder, began_ns = self.live.recorder, self._clock.monotonic_ns()
        recorder.blocked_since_ns = began_ns
        try:
            await self._request.writer.drain()
        finally:
            recorder.blocked_since_ns = None
            ended_ns = self._clock.monotonic_ns()
            if ended_ns - began_ns >= BLOCKED_NS:
                recorder.blocked(began_ns, ended_ns, answer.unread_bytes())

    def _check_open(self) -> None:
        """A lost connection makes `write` and `drain` return without an error, too, and nothing was taken then."""
        if self.live.connection is not None and not self.live.connection.is_open:
            raise ConnectionResetError("the reader left before it had everything")

    # The end.

    async def _finish(self, response: web.StreamResponse) -> None:
        was_open = self.live.connection is not None and self.live.connection.is_open
        began_ns = self._clock.monotonic_ns()
        await response.write_eof()
        ended_ns = self._clock.monotonic_ns()
        if ended_ns - began_ns >= BLOCKED_NS:
            self.live.recorder.blocked(began_ns, ended_ns, None)
        if was_open:
            self._check_open()
        self.live.recorder.downstream_ended(self._clock.monotonic_ns(), self._request.writer.output_size)

    def _cut(self, *, now: bool = False) -> None:
        """End the response so that nobody can take it for whole; unless it must be now, after what was written."""
        connection, response = self.live.connection, self._response
        if connection is None:
            return
        has_head = response is not None and self._request.writer.output_size > 0
        has_length = response is not None and hdrs.CONTENT_LENGTH in response.headers
        if has_head and not has_length and self._request.version < aiohttp.HttpVersion11:
            connection.reset()  # a body that ends with its connection: an orderly end would be a clean one
        elif now:
            connection.abort()
        else:
            connection.close()
        if response is not None:
            response.force_close()

    def _abandon(self) -> None:
        """The reader is gone, or we must end it: nobody may go on working for this exchange."""
        live, answer, recorder = self.live, self._answer, self.live.recorder
        if live.stopping is not None:
            recorder.stopped(live.stopping, self._clock.monotonic_ns())
        else:
            recorder.client_left(self._clock.monotonic_ns())
            if answer is not None and (waiting := answer.waiting()):
                recorder.arrived(waiting, self._clock.monotonic_ns())
        self._cut(now=True)
        if answer is not None:
            answer.abort()
        recorder.upstream_closed(self._clock.monotonic_ns())
