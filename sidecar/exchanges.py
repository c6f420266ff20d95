"""Every exchange that is not closed yet: what runs, what lingers, and the one way out.

An exchange runs while its handler does. When the response is handed over and the peer's kernel has not acknowledged
all of it, the exchange lingers, without handler and without holding the connection: a lossy last link shows only
then. One task looks at all of them ten times a second (`rounds.py`); it also notices that a stream has fallen silent,
that somebody was waited for too long, and that memory is running out.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, Protocol

from sidecar.bounds import memory
from sidecar.bounds.deadlines import DRAINED, OVERLOADED, STOPS, Limits, Stop, due
from sidecar.bounds.overload import Level, Overload, heaviest
from sidecar.clock import Clock
from sidecar.engine.history import Silences
from sidecar.engine.reading import Seen
from sidecar.engine.watch import EngineWatch
from sidecar.export.log_records import Telling
from sidecar.export.records import REPORT_EVENTS, Records
from sidecar.kernel import TICK_NS
from sidecar.lag import Canary
from sidecar.live import Live, Stall
from sidecar.recording.taking import Cause
from sidecar.rounds import Rounds

log = logging.getLogger(__name__)

SEGMENT_NS: Final = 1_000_000_000
"""Least time between two reports of one stream for its number of events alone; a crash loses no more than that."""
REPORT_NS: Final = 50_000
"""Time that passes for each event that was reported so: to make a report of it takes a tenth of that, in a thread that
takes turns with the loop. All long streams share it: in a flood a crash loses more, and the stream goes on."""
LINGER_NS: Final = 5_000_000_000
"""Longest that a record waits for the peer's kernel: more than three doublings of the retransmission timer."""
TRIM_NS: Final = 1_000_000_000
"""Between two times that freed memory is given back while there is too little of it: each can take milliseconds."""


class Ticking(Protocol):
    """What has deadlines of its own, and is told the time at every look."""

    def tick(self, at_ns: int) -> None: ...


class Exchanges:
    """All exchanges that are not closed yet, and what became of those that are."""

    def __init__(
        self,
        clock: Clock,
        *,
        canary: Canary,
        records: Records,
        limits: Limits,
        overload: Overload | None = None,
        doors: Ticking | None = None,
        used_bytes: Callable[[], int | None] = memory.resident_bytes,
        trim: Callable[[], None] | None = None,
        telling: Telling | None = None,
        heartbeat_ns: int = 0,
        tells_start: bool = False,
        engine: EngineWatch | None = None,
    ) -> None:
        """telling: who is told of what runs; heartbeat_ns: how often of each stream that runs for longer, 0 for never.
        tells_start: the log has a line of each exchange that begins. engine: asked why streams are silent."""
        self._clock = clock
        self._canary = canary
        self._records = records
        self._limits = limits
        self._used_bytes = used_bytes
        self._trim = trim or memory.trimmer()
        self._trim_due_ns = 0
        self._telling = telling
        self._heartbeat_ns = heartbeat_ns
        self._tells_start = tells_start
        self._engine = engine
        self._due_ns: int | None = None  # when the next part of a look was to come
        self._report_due_ns = 0
        self._running: dict[Live, None] = {}
        self._lingering: dict[Live, None] = {}
        self._rounds: Rounds[Live] = Rounds()
        self._idle = asyncio.Event()
        self._idle.set()
        self.overload = Overload(None) if overload is None else overload
        self.doors = doors
        self.late_ns = 0  # all parts of all looks so far, together
        self.guard_counts: Counter[tuple[str, str]] = Counter()
        self.stop_counts = dict.fromkeys(STOPS, 0)
        self.look_failure_count = 0
        self.stall_count = 0
        self.holdup_counts = dict.fromkeys(Cause, 0)
        self.recording_failure_count = 0
        self.relay_failure_count = 0
        self.dropped_block_count = 0
        self.dropped_sample_count = 0
        self.overload_refused_count = 0
        self.is_draining = False
        self.is_passthrough = False

    @property
    def running_count(self) -> int:
        return len(self._running)

    @property
    def lingering_count(self) -> int:
        return len(self._lingering)

    @property
    def muted_count(self) -> int:
        """Running exchanges that are not looked at."""
        return sum(live.recorder.is_muted for live in self._running)

    @property
    def is_overloaded(self) -> bool:
        """Too little memory for anything new, and for connections that are kept."""
        return self.overload.level is not Level.CALM

    def running(self) -> Iterator[Live]:
        return iter(tuple(self._running))

    def begin(self, live: Live) -> None:
        self._running[live] = None
        self._idle.clear()
        if self.is_passthrough:
            live.mute()
        if self._tells_start:
            self._records.tell_start(live.glance(live.anchor.monotonic_ns), live.about())

    def switch_passthrough(self, *, is_on: bool) -> None:
        """The kill switch: look at nothing any more, and at nothing of what runs. Off again, new exchanges are seen."""
        self.is_passthrough = is_on
        if is_on:
            for live in self._running:
                live.mute()

    def finish(self, live: Live) -> None:
        """The handler is through; the record closes now, or when the peer's kernel has the rest."""
        del self._running[live]
        live.handed_over()
        at_ns = self._clock.monotonic_ns()
        live.left_queue(at_ns)
        self._tell_stall_over(live, at_ns, goes_on=False)
        self._look(live, at_ns)
        if live.is_settled or self.is_draining:
            self._close(live, at_ns)
        else:
            live.linger_until_ns = at_ns + LINGER_NS
            self._lingering[live] = None
        if not self._running:
            self._idle.set()

    def cut_long(self, live: Live, at_ns: int) -> None:
        """Report a stream with many events: once a second at most, and neither too many nor all the time."""
        is_due = at_ns >= live.segment_due_ns and at_ns >= self._report_due_ns
        if is_due and (fresh_count := live.recorder.fresh_count) <= REPORT_EVENTS:
            live.segment_due_ns = at_ns + SEGMENT_NS
            self._report_due_ns = at_ns + fresh_count * REPORT_NS
            self.cut(live, at_ns)

    def cut(self, live: Live, at_ns: int) -> None:
        """Report what is new of a running exchange. Never raises: a stream is worth more than its report."""
        fresh_count = live.recorder.fresh_count
        try:
            hop = live.recorder.segment(at_ns, live.beside(self._canary, at_ns))
        except Exception as error:  # noqa: BLE001  # the final record has all of it again
            self._records.lost(type(error).__name__)
        else:
            self._records.put(lambda: hop, event_count=fresh_count)

    async def run(self) -> None:
        """Look at all exchanges, ten times a second or as often as is bearable, until cancelled."""
        while True:
            await asyncio.sleep(TICK_NS / 1e9)
            for look in self._looks():
                self._try(look, self._clock.monotonic_ns())
                await asyncio.sleep(0)  # events that have come go first

    def look(self, at_ns: int) -> None:
        """One look at the exchanges, at the memory that they take, and at the doors. Never raises."""
        for look in self._looks():
            self._try(look, at_ns)

    def _looks(self) -> Iterator[Callable[[int], None]]:
        """What one look is made of."""
        for batch in self._rounds.turn(self._running):
            yield partial(self._look_at_running, batch)
        yield from (self._look_at_lingering, self._look_at_memory, self._look_at_doors, self._look_at_engine)
        yield self._tell_open
        yield self._rest

    def _try(self, look: Callable[[int], None], at_ns: int) -> None:
        late_ns = 0 if self._due_ns is None else at_ns - self._due_ns
        self.late_ns += late_ns if late_ns > TICK_NS else 0  # a look that makes way for events is not late by that
        self._due_ns = at_ns
        try:
            look(at_ns)
        except Exception as error:  # noqa: BLE001  # one look that fails must not be the last
            self.look_failure_count += 1
            log.warning("look failed", extra={"error": type(error).__name__})

    def _rest(self, at_ns: int) -> None:
        """The look is over."""
        self._due_ns = at_ns + TICK_NS

    def _look_at_running(self, batch: tuple[Live, ...], at_ns: int) -> None:
        for live in batch:
            if live in self._running:
                self._look(live, at_ns, may_rest=True)
                self._hold_to_limits(live, at_ns)
                self._guard(live, at_ns)
                self._tell_stall(live, at_ns)

    def _look_at_lingering(self, at_ns: int) -> None:
        for live in tuple(self._lingering):
            self._look(live, at_ns)
            if live.is_settled or (live.linger_until_ns is not None and at_ns >= live.linger_until_ns):
                del self._lingering[live]
                self._close(live, at_ns)

    def _look_at_doors(self, at_ns: int) -> None:
        if self.doors is not None:
            self.doors.tick(at_ns)

    def _look_at_engine(self, at_ns: int) -> None:
        if self._engine is not None and self._running and not self.is_passthrough:
            self._engine.tick(at_ns)

    def _hold_to_limits(self, live: Live, at_ns: int) -> None:
        waits = live.waits(at_ns)
        if waits is not None and live.stopping is None and (stop := due(self._limits, waits, at_ns)) is not None:
            self._stop(live, stop)

    def _guard(self, live: Live, at_ns: int) -> None:
        """What is asked for its reader: limits of silence, and signs of life."""
        try:
            if live.guarded is not None and live.stopping is None:
                stop = live.guarded.look(live.forwarded_ns, at_ns, late_ns=self.late_ns)
                if stop is not None:
                    return self._stop(live, stop)
            if live.pulse is not None and live.stopping is None:
                live.pulse(at_ns)
        except Exception:  # noqa: BLE001  # one that cannot be guarded must not end the looking at all others
            self.recording_failure_count += 1
            live.guarded = live.pulse = None
        return None

    def _stop(self, live: Live, stop: Stop) -> None:
        self.stop_counts[stop] += live.stopping is None
        live.stop(stop)

    def _look_at_memory(self, at_ns: int) -> None:
        if self.overload.limit_bytes is None or (used_bytes := self._used_bytes()) is None:
            return
        is_worst = self.overload.level is Level.RESETTING  # nobody is given up for memory that is held for nothing
        if self.overload.is_tight(used_bytes) and (is_worst or at_ns >= self._trim_due_ns):
            self._trim_due_ns = at_ns + TRIM_NS
            self._trim()
            used_bytes = self._used_bytes() or used_bytes
        was, level = self.overload.level, self.overload.seen(used_bytes, is_idle=not self._running)
        if (was is Level.CALM) is not (level is Level.CALM):
            sizes = {"used_bytes": used_bytes, "limit_bytes": self.overload.limit_bytes}
            log.warning("short of memory" if was is Level.CALM else "memory is enough again", extra=sizes)
        if level is Level.RESETTING:
            holding = ((live, live.buffered_bytes()) for live in self._running if live.stopping is None)
            for live, held_bytes in heaviest(holding, excess_bytes=self.overload.excess_bytes(at_ns)):
                self.overload.given_up(held_bytes, at_ns)
                self._stop(live, OVERLOADED)

    def _tell_stall(self, live: Live, at_ns: int) -> None:
        """Report a stall at its onset, and again whenever it has doubled, so that what is known of it is young."""
        stall = self._stall(live, at_ns)
        if live.stalled is not None and live.stalled != stall:
            ends_ns = (live.taking.freed_ns, live.recorder.progress_ns, at_ns)
            self._tell_stall_over(live, next(ns for ns in ends_ns if ns > live.stalled.since_ns), goes_on=True)
        if stall is None:
            return
        if live.stalled is None:
            live.stalled, live.stall_due_ns = stall, at_ns
            is_upstream = stall.cause is None and live.recorder.blocked_since_ns is None
            self.stall_count += is_upstream
            if stall.cause is not None:
                self.holdup_counts[stall.cause] += 1
            self._log(logging.WARNING, "stream stalled", live, at_ns)
            if self._telling is not None:
                self._tell(self._telling.stalled, live, at_ns)
            if is_upstream:
                self._ask_engine(live, live.recorder.progress_ns, at_ns)
        if at_ns >= live.stall_due_ns:
            live.stall_due_ns = at_ns + max(at_ns - stall.since_ns, min(SEGMENT_NS, self._limits.stall_after_ns))
            self.cut(live, at_ns)

    def _stall(self, live: Live, at_ns: int) -> Stall | None:
        """That it does not go on: its reader's side takes too little, else nothing comes from upstream for too long."""
        recorder, holdup = live.recorder, live.taking.holdup
        if holdup is not None and recorder.seen is not None and recorder.seen.is_stream:
            return Stall(holdup.since_ns, holdup.cause)  # of what is no stream nobody waits for the next piece
        if not recorder.is_watched or live.queued_since_ns is not None or live.body_wait_since_ns is not None:
            return None  # who waits in line waits for us, and who owes its body waits for nobody
        since_ns = live.silent_since_ns
        if at_ns - since_ns < self._limits.stall_after_ns:
            return None
        if live.stalled is not None and live.stalled.since_ns == since_ns:
            return live.stalled
        return Stall(since_ns, live.taking.cause() if recorder.blocked_since_ns is not None else None)

    def _ask_engine(self, live: Live, since_ns: int, at_ns: int) -> None:
        """Why there is nothing since then, unless it is the reader who takes nothing."""
        if self._engine is not None and live.has_engine and live.recorder.blocked_since_ns is None:
            self._engine.ask(since_ns, at_ns, partial(self._engine_said, self._engine, live, since_ns))

    def _engine_said(self, engine: EngineWatch, live: Live, since_ns: int, seen: Seen) -> None:
        """It goes into the record of the silence in which it was asked, and that is reported with the next look."""
        if live not in self._running or live.recorder.progress_ns != since_ns:
            engine.missed_count += 1
            return
        live.silences = live.silences or Silences()
        live.silences.told(engine.evidence(seen, since_ns=since_ns, anchor_ns=live.anchor.monotonic_ns))
        live.stall_due_ns = min(live.stall_due_ns, self._clock.monotonic_ns() + 1)  # behind the onset, in any case

    def _tell_stall_over(self, live: Live, at_ns: int, *, goes_on: bool) -> None:
        """Of a stall that was told in the log, its end; at_ns: when that was."""
        if live.silences is not None:
            live.silences.over(at_ns - live.anchor.monotonic_ns)
        if live.stalled is not None:
            silent_s = round((at_ns - live.stalled.since_ns) / 1e9, 3)
            live.stalled = None
            message = "stream goes on" if goes_on else "stalled stream ended"
            self._log(logging.INFO, message, live, at_ns, silent_s=silent_s)
            if goes_on and self._telling is not None:
                self._tell(self._telling.resumed, live, at_ns, silent_s=silent_s)

    def _tell_open(self, at_ns: int) -> None:
        """The heartbeat of every stream that has run for one since its last: each in its own time, so that no look
        has to tell of all."""
        if self._telling is None or not self._heartbeat_ns:
            return
        untold = [live for live in self._running if at_ns - live.told_ns >= self._heartbeat_ns]
        for live in untold:
            live.is_told, live.told_ns = True, at_ns
        if untold:
            self._telling.open([live.glance(at_ns) for live in untold], self._clock.wall_ns())

    def _tell(self, news: Callable[[dict[str, object], int], None], live: Live, at_ns: int, **more: object) -> None:
        """Give news of a running exchange to that method of whoever collects them. Never raises."""
        live.is_told = True
        try:
            news(live.glance(at_ns) | more, self._clock.wall_ns())
        except Exception:  # noqa: BLE001  # as with the log
            self.recording_failure_count += 1

    def _log(self, level: int, message: str, live: Live, at_ns: int, **more: object) -> None:
        """A line of the log about an exchange that runs. Never raises, as whatever is done for all of them."""
        try:
            log.log(level, message, extra=live.told(at_ns) | more)
        except Exception:  # noqa: BLE001  # a stream is worth more than what is said of it
            self.recording_failure_count += 1

    def _look(self, live: Live, at_ns: int, *, may_rest: bool = False) -> None:
        try:
            live.look(at_ns, may_rest=may_rest)
        except Exception:  # noqa: BLE001  # one connection that cannot be asked must not end the looking at all others
            self.recording_failure_count += 1
            live.ask_no_more()

    async def wait_idle(self) -> None:
        """Until nothing runs any more."""
        await self._idle.wait()

    def stop_running(self, stop: Stop = DRAINED) -> None:
        """End every running exchange; each records the ending in its own handler."""
        for live in tuple(self._running):
            self._stop(live, stop)

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
        if live.is_told and self._telling is not None:
            self._tell(self._telling.closed, live, at_ns, ending=live.recorder.end(at_ns).ending.value)
        recorder, beside = live.recorder, live.beside(self._canary, at_ns)
        self._records.put(
            lambda: recorder.close(at_ns, beside),
            event_count=recorder.event_count,
            is_muted=recorder.is_muted,
            about=live.about(),
        )
