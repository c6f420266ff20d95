"""Carry one exchange: forward first, record second, end once.

How a body is passed on is `flow.py`'s. A response that broke off upstream never ends cleanly downstream.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from aiohttp import web

from otel.hop import Ending
from otel.logs import where
from sidecar import headers
from sidecar.bounds.admission import Full
from sidecar.bounds.deadlines import Stop
from sidecar.conversation import carry_messages
from sidecar.delivery import Delivery, Head
from sidecar.downstream.door import Door
from sidecar.failures import (
    BAD_FRAMING,
    BROKE_OFF,
    DRAINING,
    NO_PLACE,
    OUR_FAULT,
    OVERLOADED,
    Failure,
    detail_of,
    failure_of,
    stopped,
    upstream_said,
)
from sidecar.flow import Early, Flow
from sidecar.guard.complaint import MISSING_TERMINAL, UPSTREAM_CUT, Complaint
from sidecar.identity import IdField
from sidecar.inspection.rate_limits import limits_of
from sidecar.live import Live
from sidecar.question import Question
from sidecar.route import Route
from sidecar.upstream import Answer, BrokenOff, Cut

log = logging.getLogger(__name__)

LOST: Final = Stop(Ending.LOST)


class Carriage:
    """One exchange on its way through."""

    __slots__ = (
        "_answer",
        "_clock",
        "_delivery",
        "_door",
        "_guarded",
        "_id_field",
        "_is_draining",
        "_live",
        "_may_begin_early",
        "_question",
        "_request",
        "_route",
    )

    def __init__(
        self,
        request: web.Request,
        fields: headers.Fields,
        *,
        id_field: IdField,
        live: Live,
        door: Door | None,
        route: Route,
        is_draining: bool,
    ) -> None:
        self._request = request
        self._route = route
        self._is_draining = is_draining
        self._clock = route.clock
        self._id_field = id_field
        self._answer: Answer | None = None
        self._door = door
        self._live = live
        self._delivery = Delivery(request, live, policy=route.guard.policy, now=self._clock.monotonic_ns)
        self._may_begin_early = route.guard.policy.begins_early and request.method == "POST"
        self._guarded = live.guarded = route.guard.begin(
            live.recorder, live.anchor.monotonic_ns, late_ns=route.exchanges.late_ns
        )
        live.buffered_bytes = self._buffered_bytes
        self._question = Question(
            request,
            fields,
            id_field=id_field,
            host=route.host,
            live=live,
            response=self._delivery.response,
            is_plain=self._may_begin_early,
            now=self._clock.monotonic_ns,
        )

    async def run(self) -> web.StreamResponse:
        """Ask upstream and pass the answer on. Cancelled when the reader leaves, or when we must end it."""
        try:
            try:
                await self._carry()
            except asyncio.CancelledError:
                if not await self._had_last_word():
                    raise
        except asyncio.CancelledError:
            self._abandon()
            raise
        except ConnectionError:  # of our own writing; reading is in a try of its own
            self._abandon()
        except Exception as error:  # noqa: BLE001  # our own mistake: what the reader has must not look whole
            self._live.stop_as(LOST)
            self._abandon()
            self._tell_fault(error)
        return self._delivery.response.handed()

    async def _carry(self) -> None:
        exchanges = self._route.exchanges
        if self._is_draining:
            return await self._refuse(DRAINING)
        if (refusal := self._question.refusal()) is not None:
            return await self._refuse(refusal)
        if self._question.offers_upgrade:
            self._delivery.response.may_go_on = False  # aiohttp's parser drops what came behind it in the same read
        if exchanges.is_overloaded:
            exchanges.overload_refused_count += 1
            return await self._refuse(OVERLOADED, retry_after_s=self._route.admission.retry_after_s)
        self._live.queued_since_ns = self._clock.monotonic_ns()
        admission = self._route.admission
        try:
            began_ns = await admission.enter()
        except Full as full:
            return await self._refuse(NO_PLACE[full.reason], retry_after_s=full.retry_after_s)
        try:
            self._live.left_queue(began_ns)
            return await self._exchange()
        finally:
            admission.leave(began_ns)

    async def _exchange(self) -> None:
        if self._may_begin_early and self._question.is_answered_by_sse(self._guarded.dialect):
            id_field = (self._id_field.name, self._id_field.value)
            self._delivery.may_begin_early([id_field], lambda: self._guarded.asks_for_stream)
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
        log.warning("exchange lost", extra={"error": type(error).__name__, "at": where(error)})

    # An answer of our own.

    async def _refuse(
        self, failure: Failure, *, retry_after_s: int | None = None, complaint: Complaint | None = None
    ) -> None:
        """complaint: what it says, where the failure alone does not say it all."""
        recorder, delivery, at_ns = self._live.recorder, self._delivery, self._clock.monotonic_ns()
        if self._live.stopping is not None:
            recorder.stopped(self._live.stopping.ending, at_ns)
        elif failure.ending is not None:
            recorder.stopped(failure.ending, at_ns)
        else:
            recorder.upstream_ended(at_ns, is_clean=False)
        if self._answer is not None:
            self._answer.abort()
        recorder.answered_by_us(status=failure.status, error_type=failure.type)
        complaint = complaint or failure.complaint(self._route.hop)
        if delivery.is_early:
            delivery.complain(complaint, self._guarded.dialect)
            return delivery.cut()
        fields = [(self._id_field.name, self._id_field.value)]
        if retry_after_s is not None:
            fields.append(("Retry-After", str(retry_after_s)))
        delivery.response.may_go_on &= failure.ending is not Ending.REJECTED and not self._question.is_body_in_doubt
        delivery.refuse(complaint, self._guarded.dialect, fields, has_body=self._request.method != "HEAD")
        return await self._finish()

    async def _had_last_word(self) -> bool:
        """Of an exchange that we end: whether its reader was told why, in an answer of our own or in band. It cannot
        be when it has left, or has the beginning of something else."""
        stop, task, delivery = self._live.stopping, asyncio.current_task(), self._delivery
        if stop is None or task is None or not delivery.is_open:
            return False
        complaint = self._guarded.complaint()
        if not delivery.response.is_started or (delivery.is_early and self._answer is None):
            if (failure := stopped(stop, complaint)) is None:
                return False
            task.uncancel()
            await self._refuse(failure, complaint=complaint)
            return True
        if complaint is None or not delivery.complain(complaint, self._guarded.dialect):
            return False
        task.uncancel()
        self._live.recorder.stopped(stop.ending, self._clock.monotonic_ns(), error_type=stop.error_type)
        self._end_cut()
        return True

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
        delivery = self._delivery
        if self._route.exchanges.is_overloaded or self._question.is_body_in_doubt:
            delivery.response.may_go_on = False
        head = Head(answer.status, answer.reason, self._answered(answer))
        if not delivery.begin(head, is_followed=answer.waiting_bytes > 0):
            self._upstream_ended(answer, is_clean=True)
            return await self._refuse(upstream_said(answer.status, headers.value_of(answer.fields, "content-type")))
        try:
            is_whole = await self._stream(answer)
        except Early as early:
            return await self._refuse(early.failure)
        return await self._finish(answer.trailers) if is_whole else self._end_cut()

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
        fields = [*self._answered(answer), ("Connection", "Upgrade"), ("Upgrade", "websocket")]
        self._delivery.switch(answer.reason, fields)
        await carry_messages(
            self._door,
            upgraded,
            recorder=recorder,
            response=self._delivery.response,
            now=self._clock.monotonic_ns,
            cut=lambda at_ns: exchanges.cut_long(live, at_ns),
        )
        return None

    def _answered(self, answer: Answer) -> list[tuple[str, str]]:
        """The fields of the upstream's head, and the request id where that had none."""
        fields = headers.answered(answer.fields, answer.status, request_id=(self._id_field.name, self._id_field.value))
        for name, value in fields:
            if name.lower() in self._route.id_headers:
                self._live.recorder.asked.alias_seen(value)  # our own id is none, and is not taken for one
        return fields

    async def _stream(self, answer: Answer) -> bool:
        """Pass the body on; whether it may look whole. Raises Early where the answer is one of our own instead."""
        route = self._route
        flow = Flow(
            answer,
            self._delivery,
            live=self._live,
            exchanges=route.exchanges,
            tier=route.tier,
            now=self._clock.monotonic_ns,
        )
        try:
            await flow.run()
        except BrokenOff as error:
            return self._broke_off(answer, error)
        return self._ended(answer, flow)

    def _broke_off(self, answer: Answer, error: BrokenOff) -> bool:
        recorder, at_ns = self._live.recorder, self._clock.monotonic_ns()
        if answer.upload_error is not None:  # we broke it off, since the client's request will never be whole
            recorder.stopped(Ending.REJECTED, at_ns, error_type=BAD_FRAMING.type)
            if self._delivery.is_holding:
                raise Early(BAD_FRAMING)
            return False
        self._live.error_detail = detail_of(error)
        self._upstream_ended(answer, is_clean=False, cut=error.cut)
        if self._delivery.is_holding:
            raise Early(failure_of(error))
        if self._guarded.is_open_stream and self._route.guard.fired(recorder, UPSTREAM_CUT):
            complaint = self._route.guard.complaint(UPSTREAM_CUT, waited_ns=recorder.silence_ns(at_ns))
            self._delivery.complain(complaint, self._guarded.dialect)
        return False

    def _ended(self, answer: Answer, flow: Flow) -> bool:
        recorder, guard = self._live.recorder, self._route.guard
        is_proven = answer.is_delimited or not recorder.lacks_end  # by its close alone no end is, and our last chunk is
        self._upstream_ended(answer, is_clean=is_proven or not self._delivery.is_holding)
        if self._delivery.is_holding and not is_proven:
            raise Early(BROKE_OFF)
        if self._delivery.is_holding:
            flow.decide(self._delivery.hold_ended())
        if not recorder.lacks_end:
            return True
        is_error = guard.policy.is_missing_terminal_error and self._guarded.is_open_stream
        if is_error and guard.fired(recorder, MISSING_TERMINAL):
            self._delivery.complain(guard.complaint(MISSING_TERMINAL), self._guarded.dialect)
            return False
        return is_proven

    def _upstream_ended(self, answer: Answer, *, is_clean: bool, cut: Cut | None = None) -> None:
        at_ns = answer.ended_at_ns or self._clock.monotonic_ns()
        self._live.recorder.upstream_ended(
            at_ns, is_clean=is_clean, cut=cut, missing_bytes=None if is_clean else answer.missing_bytes
        )

    def _buffered_bytes(self) -> int:
        """Bytes of this exchange that wait in our memory."""
        waiting_bytes = 0 if self._answer is None else self._answer.waiting_bytes
        return waiting_bytes + self._delivery.buffered_bytes()

    # The end.

    async def _finish(self, trailers: headers.Fields = ()) -> None:
        delivery = self._delivery
        delivery.response.end(trailers)
        if delivery.has_untaken:
            await delivery.until_taken()
        delivery.check_open()
        delivery.tell_taken()
        self._live.recorder.downstream_ended(self._clock.monotonic_ns(), delivery.response.output_size)

    def _end_cut(self) -> None:
        """The end of an answer that must not look whole."""
        if self._answer is not None:
            self._answer.abort()
        self._delivery.cut()

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
        self._delivery.cut(now=True)
        if answer is not None:
            answer.abort()
        recorder.upstream_closed(self._clock.monotonic_ns())
