"""Give one answer to the reader: the upstream's bytes as they came, and between its events what was asked for of ours.

Ours are keepalive comments, an error event in place of a silent cut, and, where that is asked for, the head of a
stream before the upstream has sent one. A head can also be kept back until the first event, so that what fails before
it keeps its real status.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from aiohttp import web

from otel.hop import EventClass
from sidecar import headers
from sidecar.downstream.response import Response
from sidecar.forms import error_body, error_event
from sidecar.guard.complaint import Complaint
from sidecar.guard.digests import Digests
from sidecar.guard.holding import RELEASE, Decision, Held, Verdict
from sidecar.guard.keepalive import BomShield, Pulse, may_pulse
from sidecar.guard.policy import Keepalives, Policy
from sidecar.headers import Fields
from sidecar.inspection.dialects import Dialect
from sidecar.inspection.splitter import EVENT_STREAM
from sidecar.live import Live
from sidecar.recording.beside import BLOCKED_NS

Write = Callable[[bytes, bytes | None], bool]
"""Hands a piece on: see `Delivery.writing`."""

_OK: Final = 200
_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}


@dataclass(frozen=True, slots=True)
class Head:
    """The head of an answer, with the end-to-end fields that the reader gets."""

    status: int
    reason: str
    fields: Fields

    @property
    def is_plain_sse(self) -> bool:
        """A stream of events that nobody has packed."""
        essence = headers.essence_of(headers.value_of(self.fields, "content-type"))
        is_packed = headers.is_packed(headers.value_of(self.fields, "content-encoding"))
        return self.status == _OK and essence == EVENT_STREAM and not is_packed


@dataclass(frozen=True, slots=True)
class Early:
    """A head that may go out before the upstream's. is_stream: whether the request asks for a stream, as far as is
    known by now."""

    head: Head
    is_stream: Callable[[], bool]


class Delivery:
    """The reader's side of one exchange.

    response: what is written. is_early: a head of our own went out before the upstream's.
    """

    __slots__ = (
        "_early",
        "_held",
        "_held_head",
        "_held_pieces",
        "_is_plain",
        "_is_untold",
        "_live",
        "_now",
        "_policy",
        "_pulse",
        "_shield",
        "_written_ns",
        "is_early",
        "response",
    )

    def __init__(self, request: web.Request, live: Live, *, policy: Policy, now: Callable[[], int]) -> None:
        self.response = Response(request)
        self._live = live
        self._policy = policy
        self._now = now
        self._early: Early | None = None
        self._is_plain = False
        self._pulse: Pulse | None = None
        self._shield: BomShield | None = None
        self._written_ns = 0
        self._held: Held | None = None
        self._held_head: Head | None = None
        self._held_pieces: list[bytes] = []
        self._is_untold = False  # what was kept back went out, and nobody was told that our kernel has it
        self.is_early = False
        live.pulse = self.pulse if policy.acts_with_time else None  # it is asked ten times a second, of every stream

    # The connection.

    @property
    def is_open(self) -> bool:
        return self._live.connection is not None and self._live.connection.is_open

    @property
    def has_untaken(self) -> bool:
        """Our kernel has not taken everything that was written."""
        return self._live.connection is not None and self._live.connection.buffered_bytes > 0

    def check_open(self) -> None:
        """A lost connection makes `drain` return without an error, too, and nothing was taken then."""
        if self._live.connection is not None and not self._live.connection.is_open:
            raise ConnectionResetError("the reader left before it had everything")

    def buffered_bytes(self) -> int:
        """Bytes that wait for the reader in our memory."""
        held_bytes = 0 if self._held is None else self._held.held_bytes
        return held_bytes + (self._live.connection.buffered_bytes if self.is_open and self._live.connection else 0)

    async def until_taken(
        self, unread_bytes: Callable[[], int | None] | None = None, *, since_ns: int | None = None
    ) -> None:
        """Wait until our kernel has everything. unread_bytes: of what waits upstream, asked when the wait was long.
        since_ns: when it was seen not to have it, where that is not now."""
        recorder = self._live.recorder
        began_ns = self._now() if since_ns is None else since_ns
        recorder.blocked_since_ns = began_ns
        try:
            await self.response.drain()
        finally:
            recorder.blocked_since_ns = None
            ended_ns = self._now()
            if ended_ns - began_ns >= BLOCKED_NS:
                recorder.blocked(began_ns, ended_ns, None if unread_bytes is None else unread_bytes())

    # The answer.

    def begin(self, head: Head, *, is_followed: bool = False) -> bool:
        """The upstream's head: written, or kept until the first event; False where our own has gone before it, and
        what comes does not fit that. is_followed: see `Response.begin`."""
        live, policy, at_ns = self._live, self._policy, self._now()
        seen = live.recorder.seen
        self._sum_up()
        self._pulse = self._pulse_for(head)
        if self.is_early:
            return head.is_plain_sse
        may_be_refused = seen is not None and seen.is_stream and seen.dialect.error_form is not None
        if policy.hold_ns is not None and head.status == _OK and may_be_refused:
            self._held = Held(at_ns, limit_ns=policy.hold_ns)
            self._held_head = head
        else:
            self.write_head(head, is_followed=is_followed)
        return True

    def write_head(self, head: Head, *, is_followed: bool = False) -> None:
        """Write a head, of the upstream or our own."""
        self._open()
        self.response.begin(head.status, head.reason, head.fields, is_followed=is_followed)
        self._written_ns = self._now()
        self._is_plain = self._pulse is None and self._live.recorder.ours.digests is None

    def refuse(self, complaint: Complaint, dialect: Dialect, fields: Fields, *, has_body: bool) -> None:
        """An answer of our own, in place of whatever was kept back. has_body: False where it answers HEAD."""
        self._give_up()
        content_type, body = error_body(dialect, complaint)
        head = [*fields, ("Content-Type", content_type), ("Content-Length", str(len(body)))]
        self.write_head(Head(complaint.status, _PHRASES.get(complaint.status, "Error"), head))
        if has_body:
            self._give(body)

    def switch(self, reason: str, fields: Fields) -> None:
        """Write the head of a 101."""
        self._open()
        self.response.switch(reason, fields)

    def may_begin_early(self, fields: Fields, is_stream: Callable[[], bool]) -> None:
        """The request goes out, and keepalives may come before an answer: where it asks for a stream, which then is
        SSE, a head with these fields goes before them."""
        head = Head(_OK, "OK", [("Content-Type", EVENT_STREAM), ("Cache-Control", "no-cache"), *fields])
        self._early = Early(head, is_stream)

    @property
    def is_holding(self) -> bool:
        """What comes is kept back."""
        return self._held is not None

    def hold(self, data: bytes) -> Decision:
        """Keep a piece that the recorder has seen; what becomes of what is kept."""
        assert self._held is not None
        self._held_pieces.append(data)
        self._came(data)
        seen = self._live.recorder.seen
        if seen is None or seen.is_blind:  # nobody looks any more, so that nothing would ever let it go
            return RELEASE
        if seen.dialect.error_form is None:  # its errors are answers like others
            return RELEASE
        first_class = None
        if seen.has_event:  # and only then, for each look at the stamps is one at all of them
            classes = (stamp.event_class for stamp in seen.stamper.stamps())
            first_class = next((each for each in classes if each is not EventClass.KEEPALIVE), None)
        code, kind = (None, None) if seen.error is None else (seen.error.error_code, seen.error.error_type)
        return self._held.feed(len(data), first_class=first_class, error_code=code, error_type=kind)

    def hold_ended(self) -> Decision:
        """The body came to its end in order while it was kept back."""
        assert self._held is not None
        return self._held.ended()

    def _give_up(self) -> tuple[Head, bytes] | None:
        """Keep nothing any more: what was kept, which will never be written; None where nothing was."""
        held_head, pieces = self._held_head, self._held_pieces
        self._held, self._held_head, self._held_pieces = None, None, []
        return None if held_head is None else (held_head, b"".join(pieces))

    def release(self) -> None:
        """Write what was kept back."""
        if (given := self._give_up()) is not None:
            head, data = given
            self._is_untold = True
            self.write_head(head)
            if data:
                self._give(data)

    def tell_taken(self) -> None:
        """What was kept back and went out later than it came: tell the recorder once our kernel has all of it."""
        if self._is_untold and self.is_open and not self.has_untaken:
            self._is_untold = False
            self._live.recorder.taken(self._now(), self.response.output_size)

    @property
    def writing(self) -> Write:
        """What hands a piece of the upstream's body on, from the head on. It gets the whole chunks in which the piece
        came, if it did, which go on as they are where nothing is looked at or put in; it says whether our kernel has
        all of it by now, and raises ConnectionResetError when the reader is gone."""
        return self.response.write if self._is_plain else self._write

    def _write(self, data: bytes, framed: bytes | None = None) -> bool:
        del framed
        self._came(data)
        if self._shield is None or self._shield.is_done:
            return self._give(data)
        for part, is_ours in self._shield.feed(data):
            self._inject(part) if is_ours else self._give(part)
        return not self.has_untaken

    def cut(self, *, now: bool = False) -> None:
        """End the response so that nobody can take it for whole; unless it must be now, after what was written."""
        connection, response = self._live.connection, self.response
        response.may_go_on = False
        if not now:
            self.tell_taken()
        if connection is None:
            return
        if response.is_started and not response.has_length and not response.is_chunked:
            connection.reset()  # a body that ends with its connection: an orderly end would be a clean one
        elif now:
            connection.abort()
        else:
            connection.close()

    # Ours.

    def pulse(self, at_ns: int) -> None:
        """Time has passed: a head that was kept long enough goes out, and a comment that is due. Never raises."""
        recorder = self._live.recorder
        if recorder.blocked_since_ns is not None or self.response.is_ended or not self.is_open:
            return
        if recorder.is_muted and self._held is None:  # nobody knows any more where an event ends
            return
        with suppress(ConnectionResetError):  # the reader is leaving, and the handler will find that
            if self._held is not None and self._held.due(at_ns).verdict is Verdict.RELEASE:
                self.release()
            self.tell_taken()
            if self._held is None:
                self._beat(at_ns)

    def complain(self, complaint: Complaint, dialect: Dialect) -> bool:
        """Tell the reader in band why its stream will end here, where an event may stand; whether that was so."""
        seen, response = self._live.recorder.seen, self.response
        if (
            self._live.recorder.is_muted
            or not response.is_started
            or response.is_ended
            or response.has_length
            or not self.is_open
        ):
            return False
        if self.is_early and (seen is None or not seen.size_bytes):
            event = error_event(dialect, "sse", complaint)
        elif seen is None or not seen.is_at_boundary or seen.is_over:
            return False
        else:
            event = error_event(seen.dialect, seen.framing, complaint)
        if event is None:
            return False
        self._inject(event)
        return True

    def _beat(self, at_ns: int) -> None:
        """A comment, where one is due."""
        recorder, keepalives = self._live.recorder, self._policy.keepalives
        if keepalives is None:
            return
        if self._early is not None and not self.response.is_started:
            self._begin_early(self._early, keepalives, at_ns)
        seen, pulse = recorder.seen, self._pulse
        if pulse is None:
            return
        is_due = pulse.due(
            at_ns,
            self._written_ns,
            is_at_boundary=(seen is None and self.is_early) or (seen is not None and seen.is_at_boundary),
            is_over=seen is not None and seen.is_over,
            is_blocked=self.buffered_bytes() > 0,
        )
        if is_due:
            if self._shield is None and (seen is None or not seen.size_bytes):
                self._shield = BomShield()
            comment = pulse.beat(has_id=seen is not None and seen.has_id)
            self._inject(comment, is_keepalive=True)

    def _begin_early(self, early: Early, keepalives: Keepalives, at_ns: int) -> None:
        """A head of our own, once the upstream has had the whole request for as long as a comment may take."""
        asked_ns = self._live.asked_ns
        if asked_ns is None or self._live.is_uploading or at_ns - asked_ns < keepalives.every_ns:
            return
        recorder = self._live.recorder
        is_signed = self._policy.is_signed([], path=recorder.asked.path, model=recorder.asked.model)
        if early.is_stream() and (keepalives.on_signed or not is_signed):
            self.is_early = True
            self._sum_up()
            self._pulse = keepalives.begin()
            self.write_head(early.head)
            self._written_ns = asked_ns

    def _pulse_for(self, head: Head) -> Pulse | None:
        """What keeps this answer alive, None where nothing may."""
        recorder, keepalives = self._live.recorder, self._policy.keepalives
        seen = recorder.seen
        if keepalives is None or seen is None:
            return None
        is_fit = may_pulse(
            status=head.status,
            content_type=headers.value_of(head.fields, "content-type"),
            content_encoding=headers.value_of(head.fields, "content-encoding"),
            has_length=headers.value_of(head.fields, "content-length") is not None,
            framing=seen.framing,
            is_signed=self._policy.is_signed(head.fields, path=recorder.asked.path, model=recorder.asked.model),
            on_signed=keepalives.on_signed,
        )
        return keepalives.begin() if is_fit else None

    def _sum_up(self) -> None:
        """From here on bytes of a body may come and go."""
        ours = self._live.recorder.ours
        if self._policy.has_digests and ours.digests is None:
            ours.digests = Digests()

    def _came(self, data: bytes) -> None:
        """A piece of the upstream's body, whatever becomes of it."""
        if (digests := self._live.recorder.ours.digests) is not None:
            digests.upstream(data)

    def _open(self) -> None:
        if self._live.connection is not None:
            self._live.connection.tune()
        self._live.begin_response(self.response)

    def _inject(self, data: bytes, *, is_keepalive: bool = False) -> None:
        ours = self._live.recorder.ours
        self._give(data)
        if is_keepalive:
            ours.kept_alive(len(data))
        else:
            ours.injected(len(data))

    def _give(self, data: bytes) -> bool:
        is_taken = self.response.write(data)
        self._written_ns = self._now()
        if (digests := self._live.recorder.ours.digests) is not None:
            digests.downstream(data)
        return is_taken
