"""Every exchange that is not closed yet: what runs, what lingers, and the one way out.

An exchange runs while its handler does. When the response is handed over and the peer's kernel has not acknowledged
all of it, the exchange lingers, without handler and without holding the connection: a lossy last link shows only
then. One task looks at all of them ten times a second; it is also what notices that a stream has fallen silent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from aiohttp.abc import AbstractStreamWriter

from otel.hop import Anchor, Ending
from sidecar.beside import Beside
from sidecar.clock import Clock
from sidecar.kernel import TICK_NS, Connection, Evidence
from sidecar.lag import Canary
from sidecar.recorder import Recorder
from sidecar.records import Records

LINGER_NS: Final = 5_000_000_000
"""Longest that a record waits for the peer's kernel: more than three doublings of the retransmission timer."""
_GONE_STATES: Final = frozenset({7, 8})  # TCP_CLOSE, TCP_CLOSE_WAIT


class Live:
    """One exchange that is not closed yet.

    task: its handler. connection, writer, evidence: the downstream side, from when the response starts.
    is_uploading: the request body is not through. stopping: why we end it ourselves.
    """

    __slots__ = (
        "anchor",
        "connection",
        "evidence",
        "is_uploading",
        "linger_until_ns",
        "recorder",
        "stall_due_ns",
        "stall_since_ns",
        "stopping",
        "task",
        "writer",
    )

    def __init__(self, recorder: Recorder, anchor: Anchor, *, connection: Connection | None) -> None:
        self.recorder = recorder
        self.anchor = anchor
        self.connection = connection
        self.task = asyncio.current_task()
        self.writer: AbstractStreamWriter | None = None
        self.evidence: Evidence | None = None
        self.is_uploading = False
        self.stopping: Ending | None = None
        self.stall_since_ns: int | None = None
        self.stall_due_ns = 0
        self.linger_until_ns: int | None = None

    @property
    def is_settled(self) -> bool:
        """Nothing more can be learned from the kernel: it is known to be through, or cannot be asked."""
        if self.evidence is None or self.writer is None or self.connection is None or not self.connection.is_open:
            return True
        return self.evidence.is_settled(self.writer.output_size)

    def begin_response(self, writer: AbstractStreamWriter) -> None:
        """From here on the writer's bytes are the response; what the connection was given before is not."""
        sent_bytes = None if self.connection is None else self.connection.sent_bytes()
        self.writer = writer
        if sent_bytes is not None:
            self.evidence = Evidence(base_bytes=sent_bytes - writer.output_size)

    def look(self, at_ns: int) -> None:
        """Ask the kernel, where there is something to ask."""
        if self.connection is None or (self.is_settled and not self.is_uploading):
            return
        info = self.connection.tcp_info()
        if info is None:
            return
        if self.is_uploading and info.state in _GONE_STATES and self.task is not None:
            # Reading is paused while the upstream takes no more of the request, so aiohttp does not see the end.
            self.task.cancel()
        if self.evidence is not None and self.writer is not None:
            self.evidence.seen(
                info,
                offset_ns=max(0, at_ns - self.anchor.monotonic_ns),
                written_bytes=self.writer.output_size,
                buffered_bytes=self.connection.buffered_bytes,
                acked_count=self.recorder.acked_count(self.evidence.acked_bytes(info)),
            )


class Exchanges:
    """All exchanges that are not closed yet, and what became of those that are."""

    def __init__(self, clock: Clock, *, canary: Canary, records: Records, stall_after_ns: int) -> None:
        self._clock = clock
        self._canary = canary
        self._records = records
        self._stall_after_ns = stall_after_ns
        self._running: dict[Live, None] = {}
        self._lingering: dict[Live, None] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self.stall_count = 0
        self.recording_failure_count = 0
        self.relay_failure_count = 0
        self.dropped_block_count = 0
        self.dropped_sample_count = 0
        self.is_draining = False

    @property
    def running_count(self) -> int:
        return len(self._running)

    @property
    def lingering_count(self) -> int:
        return len(self._lingering)

    def running(self) -> Iterator[Live]:
        return iter(tuple(self._running))

    def begin(self, live: Live) -> None:
        self._running[live] = None
        self._idle.clear()

    def finish(self, live: Live) -> None:
        """The handler is through; the record closes now, or when the peer's kernel has the rest."""
        del self._running[live]
        live.is_uploading = False
        at_ns = self._clock.monotonic_ns()
        self._look(live, at_ns)
        if live.is_settled or self.is_draining:
            self._close(live, at_ns)
        else:
            live.linger_until_ns = at_ns + LINGER_NS
            self._lingering[live] = None
        if not self._running:
            self._idle.set()

    def cut(self, live: Live, at_ns: int) -> None:
        """Report what is new of a running exchange. Never raises: a stream is worth more than its report."""
        fresh_count = live.recorder.fresh_count
        try:
            hop = live.recorder.segment(at_ns, self._beside(live, at_ns))
        except Exception as error:  # noqa: BLE001  # the final record has all of it again
            self._records.lost(type(error).__name__)
        else:
            self._records.put(lambda: hop, event_count=fresh_count)

    async def run(self) -> None:
        """Look at all exchanges, ten times a second, until cancelled."""
        while True:
            await asyncio.sleep(TICK_NS / 1e9)
            self.look(self._clock.monotonic_ns())

    def look(self, at_ns: int) -> None:
        """One look at all exchanges."""
        for live in tuple(self._running):
            self._look(live, at_ns)
            self._tell_stall(live, at_ns)
        for live in tuple(self._lingering):
            self._look(live, at_ns)
            if live.is_settled or (live.linger_until_ns is not None and at_ns >= live.linger_until_ns):
                del self._lingering[live]
                self._close(live, at_ns)

    def _tell_stall(self, live: Live, at_ns: int) -> None:
        """Report a silence at its onset, and again whenever it has doubled, so that what is known of it is young."""
        progress_ns = live.recorder.progress_ns
        if live.stall_since_ns != progress_ns:
            live.stall_since_ns, live.stall_due_ns = progress_ns, progress_ns + self._stall_after_ns
        if at_ns < live.stall_due_ns:
            return
        is_onset = live.stall_due_ns == progress_ns + self._stall_after_ns
        self.stall_count += is_onset
        live.stall_due_ns = at_ns + (at_ns - progress_ns)
        self.cut(live, at_ns)

    def _look(self, live: Live, at_ns: int) -> None:
        try:
            live.look(at_ns)
        except Exception:  # noqa: BLE001  # one connection that cannot be asked must not end the looking at all others
            self.recording_failure_count += 1
            live.evidence = None

    async def wait_idle(self) -> None:
        """Until nothing runs any more."""
        await self._idle.wait()

    def stop_running(self, ending: Ending) -> None:
        """End every running exchange; each records the ending in its own handler."""
        for live in tuple(self._running):
            live.stopping = ending
            if live.task is not None:
                live.task.cancel()

    def close_lingering(self) -> None:
        """Close what lingers with what is known now."""
        lingering, self._lingering = self._lingering, {}
        for live in lingering:
            self._close(live, self._clock.monotonic_ns())

    def _close(self, live: Live, at_ns: int) -> None:
        self.recording_failure_count += live.recorder.failure_count
        self.dropped_block_count += live.recorder.dropped_block_count
        if live.evidence is not None:
            self.dropped_sample_count += live.evidence.dropped_count
        beside = self._beside(live, at_ns)
        self._records.put(lambda: live.recorder.close(at_ns, beside), event_count=live.recorder.event_count)

    def _beside(self, live: Live, at_ns: int) -> Beside:
        evidence, since_ns = live.evidence, live.anchor.monotonic_ns
        return Beside(
            lag=self._canary.overlapping(since_ns, at_ns),
            samples=() if evidence is None else evidence.samples,
            window_peak_bytes=None if evidence is None else evidence.window_peak_bytes,
            round_trip_ns=None if evidence is None else evidence.round_trip_ns,
            is_thinned=self._canary.has_forgotten(since_ns) or (evidence is not None and evidence.dropped_count > 0),
        )
