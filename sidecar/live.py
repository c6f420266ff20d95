"""One exchange that is not closed yet: its two sides, for whom it waits, and how it is stopped from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from otel.hop import Anchor
from sidecar.bounds.deadlines import Stop, Waits
from sidecar.engine.history import Silences
from sidecar.guarding import Guarded
from sidecar.kernel import Connection, Evidence
from sidecar.lag import Canary
from sidecar.recording.beside import Beside
from sidecar.recording.recorder import Recorder
from sidecar.recording.taking import Cause, Look, Taking

_TOLD: Final = ("hop", "request_id", "trace_id", "model", "probe", "phase", "is_blocked", "silent_s", "stall_cause")


class Writing(Protocol):
    """What writes the response. output_size: bytes of it given to the connection so far."""

    @property
    def output_size(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Stall:
    """A stretch in which a stream does not go on.

    cause: why its reader's side holds it up, None where that is not known or nothing comes from upstream.
    """

    since_ns: int
    cause: Cause | None = None


class Live:
    """What the relay knows of an exchange while it is not closed, for all who look at it from outside.

    task: its handler. connection, writer, evidence: the reader's side, the last two from when the response starts.

    The relay sets, and sets to None again:
    is_uploading: the request body is not through.
    body_wait_since_ns: since when we wait for bytes of the request body that the client owes.
    asked_ns: when the upstream was given the last of the request so far: its head, then each piece of its body; None
    before, and once the answer's head is there.
    buffered_bytes: counts the bytes of this exchange that wait in this process, on both sides.

    listener: the name of the one it came by. upstream: the address to which it goes. error_detail: why there was no
    answer, in words for the log. queued_since_ns: since when it waits for a place; queued_ns: how long it did.

    guarded: its limits. pulse: what is done for its reader as time passes. is_told: somebody was told that it runs,
    by a heartbeat last at told_ns.

    stopping: why we end it ourselves. left_by: how the reader was seen to leave by the kernel alone, `fin` or `reset`.
    taking: whether its reader takes what it is given. stalled: that it does not go on, once that was said in the log.
    has_engine: it is answered by the engine beside us. silences: what that said while it was silent, None for nothing.
    """

    __slots__ = (
        "_is_asked",
        "_moved_bytes",
        "_output_bytes",
        "_rests",
        "_stuck_since_ns",
        "anchor",
        "asked_ns",
        "body_wait_since_ns",
        "buffered_bytes",
        "connection",
        "error_detail",
        "evidence",
        "guarded",
        "has_engine",
        "is_told",
        "is_uploading",
        "left_by",
        "linger_until_ns",
        "listener",
        "pulse",
        "queued_ns",
        "queued_since_ns",
        "recorder",
        "segment_due_ns",
        "silences",
        "stall_due_ns",
        "stalled",
        "stopping",
        "taking",
        "task",
        "told_ns",
        "upstream",
        "writer",
    )

    def __init__(
        self,
        recorder: Recorder,
        anchor: Anchor,
        *,
        connection: Connection | None,
        listener: str | None = None,
        upstream: str | None = None,
        has_engine: bool = False,
    ) -> None:
        self.recorder = recorder
        self.anchor = anchor
        self.listener = listener
        self.upstream = upstream
        self.has_engine = has_engine
        self.silences: Silences | None = None
        self.error_detail: str | None = None
        self.queued_since_ns: int | None = None
        self.queued_ns = 0
        self.taking = Taking()
        self.stalled: Stall | None = None
        self.connection = connection
        self.task = asyncio.current_task()
        self.writer: Writing | None = None
        self.evidence: Evidence | None = None
        self.is_uploading = False
        self.body_wait_since_ns: int | None = None
        self.asked_ns: int | None = None
        self.buffered_bytes: Callable[[], int] = self._downstream_bytes
        self.guarded: Guarded | None = None
        self.pulse: Callable[[int], None] | None = None
        self.is_told = False
        self.told_ns = anchor.monotonic_ns
        self.stopping: Stop | None = None
        self.left_by: str | None = None
        self.stall_due_ns = 0
        self.segment_due_ns = 0
        self.linger_until_ns: int | None = None
        self._stuck_since_ns: int | None = None
        self._moved_bytes = 0
        self._is_asked = True
        self._output_bytes = 0  # when the kernel was last asked
        self._rests = False  # it was not asked at the last look, though there was something to ask

    @property
    def is_settled(self) -> bool:
        """Nothing more can be learned from the kernel: it is known to be through, or cannot be asked."""
        if self.evidence is None or self.writer is None or self.connection is None or not self.connection.is_open:
            return True
        return self.evidence.is_settled(self.writer.output_size)

    def begin_response(self, writer: Writing) -> None:
        """From here on the writer's bytes are the response; what the connection was given before is not."""
        sent_bytes = None
        if self.connection is not None:
            sent_bytes = self.connection.sent_bytes()
            self.connection.sent(None)  # from here on it is more
        self.writer = writer
        if sent_bytes is not None and not self.recorder.is_muted:
            self.evidence = Evidence(base_bytes=sent_bytes - writer.output_size)

    def left_queue(self, at_ns: int) -> None:
        """It has a place, or will get none."""
        if self.queued_since_ns is not None:
            self.queued_ns += at_ns - self.queued_since_ns
            self.queued_since_ns = None

    def handed_over(self) -> None:
        """Its handler is through, and with it all that only a handler needs. What runs knows all that runs it, and so
        the other way round: were these not forgotten, only the garbage collector could free an exchange."""
        if self.connection is not None and self.evidence is not None and self.writer is not None:
            self.connection.sent(self.evidence.sent_bytes(self.writer.output_size))  # the next one need not ask
        self.is_uploading = False
        self.task = self.guarded = self.pulse = None
        self.buffered_bytes = _nothing

    def about(self) -> dict[str, object]:
        """What its line in the log says beside its record."""
        failure = None if self.recorder.seen is None else self.recorder.seen.failure
        return {
            "listener": self.listener,
            "upstream": self.upstream,
            "error_detail": self.error_detail,
            "error_text": None if failure is None else failure.error_text,
            "queued_ms": round(self.queued_ns / 1e6, 3),
        }

    def beside(self, canary: Canary, at_ns: int) -> Beside:
        """What was seen beside its course: lag of ours, and what the kernel and the engine said."""
        evidence, since_ns = self.evidence, self.anchor.monotonic_ns
        return Beside(
            lag=canary.overlapping(since_ns, at_ns),
            samples=() if evidence is None else evidence.samples,
            window_peak_bytes=None if evidence is None else evidence.window_peak_bytes,
            round_trip_ns=None if evidence is None else evidence.round_trip_ns,
            engine=None if self.silences is None else self.silences.longest(at_ns - since_ns),
            is_thinned=canary.has_forgotten(since_ns) or (evidence is not None and evidence.dropped_count > 0),
        )

    def glance(self, now_ns: int) -> dict[str, object]:
        """What there is to say of it while it runs."""
        seen = self.recorder.glance(now_ns)
        if self.stalled is not None:
            seen["silent_s"] = round((now_ns - self.stalled.since_ns) / 1e9, 3)
        return {
            "listener": self.listener,
            **seen,
            "age_s": round((now_ns - self.anchor.monotonic_ns) / 1e9, 3),
            "is_stalled": self.stalled is not None,
            "stall_cause": None if self.stalled is None or self.stalled.cause is None else self.stalled.cause.value,
        }

    def told(self, now_ns: int) -> dict[str, object]:
        """What a line of the log says of it while it runs."""
        seen = self.glance(now_ns)
        return {"listener": self.listener} | {key: seen[key] for key in _TOLD}

    @property
    def silent_since_ns(self) -> int:
        """Since when nothing has come from upstream. Time in which its reader held it up is none of that."""
        return max(self.recorder.progress_ns, self.taking.freed_ns)

    @property
    def forwarded_ns(self) -> int | None:
        """When the upstream had the last of the request so far; None while it is not owed an answer."""
        if self.asked_ns is None:
            return self.recorder.answer_since_ns
        return None if self.body_wait_since_ns is not None else self.asked_ns

    def mute(self) -> None:
        """Look at it no longer; its bytes go on, and so do the limits that need no looking."""
        self.ask_no_more()
        self.recorder.mute()

    def ask_no_more(self) -> None:
        """The kernel cannot be asked, or is not to be."""
        self.evidence, self.taking, self._is_asked = None, Taking(), False

    def stop(self, stop: Stop) -> None:
        """End it from outside: its handler is cancelled, and finds in `stopping` why."""
        self.stop_as(stop)
        if self.task is not None:
            self.task.cancel()

    def stop_as(self, stop: Stop) -> None:
        """What its record will say, as the handler itself ends it. The first reason stands."""
        if self.stopping is None:
            self.stopping = stop

    def look(self, at_ns: int, *, may_rest: bool = False) -> None:
        """Ask the kernel, where there is something to ask. may_rest: every other time is enough of a reader that keeps
        up, since asking costs more than all the rest of a look."""
        if self.connection is None:
            return
        if self._may_miss_the_end and self.stopping is None and self.left_by is None:
            self.left_by = self.connection.left_by()
            if self.left_by is not None and self.task is not None:
                self.task.cancel()
        if self.writer is None or not self._has_news:
            return
        self._rests = may_rest and self.taking.is_at_ease and not self._rests
        if self._rests:
            return
        info = self.connection.tcp_info()
        if info is None:
            return
        self._output_bytes = self.writer.output_size
        if self.evidence is not None:
            self.evidence.seen(
                info,
                offset_ns=max(0, at_ns - self.anchor.monotonic_ns),
                written_bytes=self.writer.output_size,
                buffered_bytes=self.connection.buffered_bytes,
                acked_count=self.recorder.acked_count(self.evidence.acked_bytes(info)),
            )
        self.taking.seen(
            Look(
                at_ns=at_ns,
                acked_bytes=info.acked_bytes,
                window_bytes=info.window_bytes,
                in_flight_segments=info.in_flight_segments,
                unsent_bytes=info.notsent_bytes + self.connection.buffered_bytes,
                lost_segments=info.lost_segments,
                congestion_state=info.congestion_state,
                backoff=info.backoff,
                round_trip_ns=(info.round_trip_us or 0) * 1_000,
                is_blocked=self.recorder.blocked_since_ns is not None,
            )
        )

    def waits(self, at_ns: int) -> Waits | None:
        """For whom it waits now, None for nobody. To be asked at every look: progress is seen only by looking twice."""
        stuck_since_ns = self._stuck(at_ns)
        if stuck_since_ns is None and self.body_wait_since_ns is None and self.asked_ns is None:
            return None
        return Waits(body_since_ns=self.body_wait_since_ns, stuck_since_ns=stuck_since_ns, asked_ns=self.asked_ns)

    @property
    def _has_news(self) -> bool:
        """The kernel may know more than when it was last asked."""
        if self.writer is None or not self._is_asked:
            return False
        if self.taking.holdup is not None or self.taking.is_outstanding:
            return True
        return self.writer.output_size != self._output_bytes if self.evidence is None else not self.is_settled

    def _downstream_bytes(self) -> int:
        return 0 if self.connection is None else self.connection.buffered_bytes

    @property
    def _may_miss_the_end(self) -> bool:
        """Nobody reads from the connection, or what is written stays: then its end may come unseen."""
        if self.connection is None or self.linger_until_ns is not None:
            return False
        return self.is_uploading or self.recorder.blocked_since_ns is not None or not self.connection.is_reading

    def _stuck(self, at_ns: int) -> int | None:
        """Since when the reader has taken nothing at all: one that takes little is slow, and may be."""
        blocked_ns = self.recorder.blocked_since_ns
        if blocked_ns is None or self.connection is None or self.writer is None:
            self._stuck_since_ns = None
            return None
        moved_bytes = self.writer.output_size - self.connection.buffered_bytes
        if self._stuck_since_ns is None:
            self._stuck_since_ns = blocked_ns
        elif moved_bytes != self._moved_bytes:
            self._stuck_since_ns = at_ns
        self._stuck_since_ns = max(self._stuck_since_ns, blocked_ns)
        self._moved_bytes = moved_bytes
        return self._stuck_since_ns


def _nothing() -> int:
    """What waits in this process of an exchange that is handed over."""
    return 0
