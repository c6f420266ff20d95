"""Carry one exchange: forward first, record second, end once.

The hot loop is: take what has arrived with the time of its arrival, write it on, wait until our kernel has it, take
the time, tell the recorder. `taken` is honest on asyncio and on uvloop alike: both try to send within `write`, and
with a write-buffer limit of 0 (see `kernel.Connection.tune`) `drain` returns only when the buffer is empty.

A response that broke off upstream never ends cleanly downstream.
"""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import PurePath
from typing import Final

from aiohttp import web

from otel.hop import Ending
from sidecar import headers
from sidecar.bounds.admission import Admission, Full
from sidecar.bounds.deadlines import Stop
from sidecar.clock import Clock
from sidecar.conversation import carry_messages
from sidecar.downstream.door import Door
from sidecar.downstream.doors import Doors
from sidecar.downstream.response import Response
from sidecar.exchanges import Exchanges
from sidecar.failures import (
    BAD_FRAMING,
    DRAINING,
    NO_PLACE,
    OUR_FAULT,
    OVERLOADED,
    STOPPED,
    Failure,
    detail_of,
    failure_of,
)
from sidecar.identity import IdField
from sidecar.inspection.rate_limits import limits_of
from sidecar.live import Live
from sidecar.question import Question
from sidecar.recording.beside import BLOCKED_NS
from sidecar.recording.recorder import SEGMENT_EVENTS
from sidecar.upstream import Answer, BrokenOff, Cut, Piece, Upstream

log = logging.getLogger(__name__)

UPGRADE_REQUIRED: Final = 426
"""The one answer whose Upgrade field is not for us (RFC 9110, 15.5.22)."""
LOST: Final = Stop(Ending.LOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What all exchanges of one listener share: where they go, and under whose eyes.

    host: the Host field in place of the request's own; None: as it came. listener: its name, as metrics have it.
    """

    hop: str
    listener: str
    upstream: Upstream
    host: str | None
    id_headers: tuple[str, ...]
    exchanges: Exchanges
    admission: Admission
    doors: Doors
    clock: Clock


def _place_of(error: Exception) -> str:
    """Where it was raised; never what it says, which may quote what passed through."""
    trace = traceback.extract_tb(error.__traceback__)
    return f"{PurePath(trace[-1].filename).name}:{trace[-1].lineno}" if trace else ""


class Carriage:
    """One exchange on its way through."""

    __slots__ = (
        "_answer",
        "_clock",
        "_door",
        "_id_field",
        "_is_draining",
        "_live",
        "_question",
        "_request",
        "_response",
        "_route",
    )

    def __init__(
        self,
        request: web.Request,
        fields: headers.Fields,
        *,
        id_field: IdField,
        live: Live,
        route: Route,
        is_draining: bool,
    ) -> None:
        self._request = request
        self._route = route
        self._is_draining = is_draining
        self._clock = route.clock
        self._id_field = id_field
        self._answer: Answer | None = None
        self._response = Response(request)
        self._door: Door | None = None if request.transport is None else route.doors.of(request.transport)
        self._live = live
        live.buffered_bytes = self._buffered_bytes
        self._question = Question(
            request,
            fields,
            id_field=id_field,
            host=route.host,
            live=live,
            response=self._response,
            now=self._clock.monotonic_ns,
        )

    async def run(self) -> web.StreamResponse:
        """Ask upstream and pass the answer on. Cancelled when the reader leaves, or when we must end it."""
        try:
            try:
                await self._carry()
            except asyncio.CancelledError:
                if (failure := self._last_word()) is None:
                    raise
                await self._refuse(failure)
        except asyncio.CancelledError:
            self._abandon()
            raise
        except ConnectionError:  # of our own writing; reading is in a try of its own
            self._abandon()
        except Exception as error:  # noqa: BLE001  # our own mistake: what the reader has must not look whole
            self._live.stop_as(LOST)
            self._abandon()
            self._tell_fault(error)
        return self._response.handed()

    async def _carry(self) -> None:
        exchanges = self._route.exchanges
        if self._is_draining:
            return await self._refuse(DRAINING)
        if (refusal := self._question.refusal()) is not None:
            return await self._refuse(refusal)
        if self._question.offers_upgrade:
            self._response.may_go_on = False  # aiohttp's parser drops what came behind it in the same read
        if exchanges.is_overloaded:
            exchanges.overload_refused_count += 1
            return await self._refuse(OVERLOADED, retry_after_s=self._route.admission.retry_after_s)
        self._live.queued_since_ns = self._clock.monotonic_ns()
        try:
            async with self._route.admission.slot():
                self._live.left_queue(self._clock.monotonic_ns())
                await self._exchange()
        except Full as full:
            await self._refuse(NO_PLACE[full.reason], retry_after_s=full.retry_after_s)
        return None

    async def _exchange(self) -> None:
        try:
            self._answer = answer = await self._question.ask(self._route.upstream)
        except Exception as error:  # noqa: BLE001  # whatever went wrong, the reader gets an answer
            failure = BAD_FRAMING if self._question.has_bad_body else failure_of(error)
            self._live.error_detail = None if failure is BAD_FRAMING else detail_of(error)
            if failure is OUR_FAULT:
                self._tell_fault(error)
            return await self._refuse(failure)
        if answer.is_upgraded:
            return await self._switch(answer)
        return await self._pass_on(answer)

    def _tell_fault(self, error: Exception) -> None:
        """Our own mistake."""
        self._route.exchanges.relay_failure_count += 1
        log.warning("exchange lost", extra={"error": type(error).__name__, "at": _place_of(error)})

    # An answer of our own.

    async def _refuse(self, failure: Failure, *, retry_after_s: int | None = None) -> None:
        recorder, response, at_ns = self._live.recorder, self._response, self._clock.monotonic_ns()
        if self._live.stopping is not None:
            recorder.stopped(self._live.stopping.ending, at_ns)
        elif failure.ending is not None:
            recorder.stopped(failure.ending, at_ns)
        else:
            recorder.upstream_ended(at_ns, is_clean=False)
        if self._answer is not None:
            self._answer.abort()
        recorder.answered_by_us(status=failure.status, error_type=failure.type)
        message = f"gapline sidecar of hop {self._route.hop}: {failure.message}"
        body = json.dumps({"error": {"type": failure.type, "message": message}}).encode()
        fields = [(self._id_field.name, self._id_field.value), ("Content-Type", "application/json")]
        if retry_after_s is not None:
            fields.append(("Retry-After", str(retry_after_s)))
        fields.append(("Content-Length", str(len(body))))
        response.may_go_on &= failure.ending is not Ending.REJECTED and not self._question.is_body_in_doubt
        self._begin()
        response.begin(failure.status, HTTPStatus(failure.status).phrase, fields)
        if self._request.method != "HEAD":
            response.write(body)
        await self._finish()

    def _last_word(self) -> Failure | None:
        """What the reader of an exchange that we end gets; None where it has left, or has something already."""
        stop, task = self._live.stopping, asyncio.current_task()
        if stop is None or self._response.is_started or task is None or not self._is_open:
            return None
        failure = STOPPED.get(stop.error_type or "")
        if failure is not None:
            task.uncancel()
        return failure

    # The answer.

    async def _pass_on(self, answer: Answer) -> None:
        recorder = self._live.recorder
        recorder.answered(
            answer.answered_at_ns,
            status=answer.status,
            content_type=headers.value_of(answer.fields, "content-type"),
            content_encoding=headers.value_of(answer.fields, "content-encoding"),
            has_body=answer.has_body,
            is_delimited=answer.is_delimited,
            limits=limits_of(answer.fields),
        )
        if self._route.exchanges.is_overloaded or self._question.is_body_in_doubt:
            self._response.may_go_on = False
        self._begin()
        self._response.begin(answer.status, answer.reason, self._answered(answer))
        if await self._stream(answer):
            await self._finish(answer.trailers)
        else:
            answer.abort()
            self._cut()

    async def _switch(self, answer: Answer) -> None:
        """Both sides go on as a WebSocket, message by message as they come, until one of them ends it."""
        assert self._door is not None
        recorder, exchanges, live = self._live.recorder, self._route.exchanges, self._live
        try:
            upgraded = answer.upgraded()
        except BrokenOff as error:
            live.error_detail = detail_of(error)
            return await self._refuse(failure_of(error))
        recorder.upgraded(answer.answered_at_ns, status=answer.status)
        self._begin()
        fields = [*self._answered(answer), ("Connection", "Upgrade"), ("Upgrade", "websocket")]
        self._response.switch(answer.reason, fields)
        await carry_messages(
            self._door,
            upgraded,
            recorder=recorder,
            response=self._response,
            now=self._clock.monotonic_ns,
            cut=lambda at_ns: exchanges.cut_long(live, at_ns),
        )
        return None

    def _answered(self, answer: Answer) -> list[tuple[str, str]]:
        """The fields of the upstream's head, and the request id where that had none."""
        fields = headers.end_to_end(answer.fields)
        names = {name.lower() for name, _ in fields}
        for name, value in fields:
            if name.lower() in self._route.id_headers:
                self._live.recorder.alias_seen(value)
        if self._id_field.name.lower() not in names:
            fields.append((self._id_field.name, self._id_field.value))
        if answer.status == UPGRADE_REQUIRED:
            wanted = [(name, value) for name, value in answer.fields if name.lower() == "upgrade"]
            fields += [("Connection", "Upgrade"), *wanted]
        return fields

    def _begin(self) -> None:
        if self._live.connection is not None:
            self._live.connection.tune()
        self._live.begin_response(self._response)

    async def _stream(self, answer: Answer) -> bool:
        """Pass the body on; whether it may look whole."""
        recorder = self._live.recorder
        while True:
            try:
                piece = await answer.read()
            except BrokenOff as error:
                if answer.upload_error is None:
                    self._live.error_detail = detail_of(error)
                    self._upstream_ended(answer, is_clean=False, cut=error.cut)
                else:  # we broke it off, since the client's request will never be whole
                    recorder.stopped(Ending.REJECTED, self._clock.monotonic_ns(), error_type=BAD_FRAMING.type)
                return False
            if piece is None:
                self._upstream_ended(answer, is_clean=True)
                # The end of a connection proves nothing, and as our last chunk it would.
                return answer.is_delimited or not recorder.lacks_end
            await self._hand_on(answer, piece)
            if recorder.fresh_count >= SEGMENT_EVENTS:
                self._route.exchanges.cut_long(self._live, piece.at_ns)

    def _upstream_ended(self, answer: Answer, *, is_clean: bool, cut: Cut | None = None) -> None:
        at_ns = answer.ended_at_ns or self._clock.monotonic_ns()
        self._live.recorder.upstream_ended(
            at_ns, is_clean=is_clean, cut=cut, missing_bytes=None if is_clean else answer.missing_bytes
        )

    async def _hand_on(self, answer: Answer, piece: Piece) -> None:
        live, recorder, response = self._live, self._live.recorder, self._response
        try:
            response.write(piece.data)
            if live.connection is not None and live.connection.buffered_bytes:
                await self._until_taken(answer)
            self._check_open()
        except BaseException:
            recorder.arrived(piece.data, piece.at_ns)
            raise
        taken_ns = self._clock.monotonic_ns()
        recorder.arrived(piece.data, piece.at_ns)
        recorder.taken(taken_ns, response.output_size)

    async def _until_taken(self, answer: Answer | None) -> None:
        recorder, began_ns = self._live.recorder, self._clock.monotonic_ns()
        recorder.blocked_since_ns = began_ns
        try:
            await self._response.drain()
        finally:
            recorder.blocked_since_ns = None
            ended_ns = self._clock.monotonic_ns()
            if ended_ns - began_ns >= BLOCKED_NS:
                recorder.blocked(began_ns, ended_ns, None if answer is None else answer.unread_bytes())

    @property
    def _is_open(self) -> bool:
        return self._live.connection is not None and self._live.connection.is_open

    def _check_open(self) -> None:
        """A lost connection makes `drain` return without an error, too, and nothing was taken then."""
        if self._live.connection is not None and not self._live.connection.is_open:
            raise ConnectionResetError("the reader left before it had everything")

    def _buffered_bytes(self) -> int:
        """Bytes of this exchange that wait in our memory."""
        waiting_bytes = 0 if self._answer is None else self._answer.waiting_bytes
        return waiting_bytes + (self._live.connection.buffered_bytes if self._is_open and self._live.connection else 0)

    # The end.

    async def _finish(self, trailers: headers.Fields = ()) -> None:
        self._response.end(trailers)
        if self._live.connection is not None and self._live.connection.buffered_bytes:
            await self._until_taken(None)
        self._check_open()
        self._live.recorder.downstream_ended(self._clock.monotonic_ns(), self._response.output_size)

    def _cut(self, *, now: bool = False) -> None:
        """End the response so that nobody can take it for whole; unless it must be now, after what was written."""
        connection, response = self._live.connection, self._response
        response.may_go_on = False
        if connection is None:
            return
        if response.is_started and not response.has_length and not response.is_chunked:
            connection.reset()  # a body that ends with its connection: an orderly end would be a clean one
        elif now:
            connection.abort()
        else:
            connection.close()

    def _abandon(self) -> None:
        """The reader is gone, or we must end it: nobody may go on working for this exchange."""
        answer, recorder = self._answer, self._live.recorder
        at_ns = self._clock.monotonic_ns()
        if self._live.stopping is not None:
            recorder.stopped(self._live.stopping.ending, at_ns, error_type=self._live.stopping.error_type)
        else:
            left_by = None if self._door is None else self._door.left_by
            recorder.client_left(at_ns, cut=left_by or self._live.left_by)
            for piece in () if answer is None else answer.waiting():
                recorder.arrived(piece.data, piece.at_ns)
        self._cut(now=True)
        if answer is not None:
            answer.abort()
        recorder.upstream_closed(self._clock.monotonic_ns())
