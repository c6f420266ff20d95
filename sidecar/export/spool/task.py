"""The task that gives the disk its turns, in a thread: however slow the disk is, the loop never waits for it."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from sidecar.clock import Clock
from sidecar.export.backlog import Backlog
from sidecar.export.spool.turn import Turn, Turned

log = logging.getLogger(__name__)

LINGER_S: Final = 0.05
"""What is offered within it is written together; a crash loses no more than that, and the time of one write."""
RETRY_S: Final = 1.0
"""After the disk took less than it should, it is left alone for that long, unless something was deleted."""
ADOPT_EVERY_S: Final = 30.0
"""Processes that share the folder may end at any time, and perhaps nobody comes after them."""
STUCK_S: Final = 5.0
"""A turn that takes longer does not hold back what is in memory."""
CLOSE_S: Final = 5.0
"""Longest that the end waits for the disk."""

_SECOND_NS: Final = 1_000_000_000
_T = TypeVar("_T")


class Disk(Protocol):
    """What the thread works on: a `Spool`."""

    def turn(self, turn: Turn) -> Turned: ...

    def close(self) -> None: ...


class SpoolTask:
    """Belongs to one event loop; `run` runs once. is_open is set when the disk has told what it holds."""

    def __init__(self, disk: Disk, backlog: Backlog, *, clock: Clock, tell: Callable[[], None]) -> None:
        """Call tell whenever the disk has changed the backlog."""
        self._disk = disk
        self._backlog = backlog
        self._clock = clock
        self._tell = tell
        self._thread = _Thread()
        self._wake = asyncio.Event()
        self._running: tuple[Turn, asyncio.Future[Turned]] | None = None
        self._write_ns = self._adopt_ns = 0
        """Not to write, or to adopt, before that time."""
        self._is_given_up = False
        self.is_open = asyncio.Event()

    def nudge(self) -> None:
        """The backlog has changed; is there something to do?"""
        backlog = self._backlog
        if backlog.is_short or backlog.has_done or (backlog.has_fresh and not self._is_blocked):
            self._wake.set()

    async def run(self) -> None:
        """Keep backlog and disk in step until cancelled; then write what is on no disk yet."""
        try:
            self._thread.start()
            while True:
                await self._turn(self._next_turn())
                self.is_open.set()
                await self._due()
        except Exception as error:  # noqa: BLE001  # a mistake in here must not end the exporter: memory goes on
            self._give_up(error)
        finally:
            await self._close()

    @property
    def _is_blocked(self) -> bool:
        return self._clock.monotonic_ns() < self._write_ns

    async def _due(self) -> None:
        """Until there is something to do, and other things to do with it."""
        self._wake.clear()
        self.nudge()
        timeout_s = RETRY_S if self._is_blocked else ADOPT_EVERY_S
        try:
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()
        except TimeoutError:
            return
        if not self._backlog.is_short:
            await asyncio.sleep(LINGER_S)

    def _next_turn(self) -> Turn:
        now_ns = self._clock.monotonic_ns()
        is_adopting = now_ns >= self._adopt_ns
        if is_adopting:
            self._adopt_ns = now_ns + round(ADOPT_EVERY_S * _SECOND_NS)
        is_writing = self._backlog.has_done or not self._is_blocked
        return self._backlog.turn(is_writing=is_writing, is_adopting=is_adopting)

    async def _turn(self, turn: Turn) -> None:
        if not turn.is_empty:
            self._running = turn, self._thread.do(partial(self._disk.turn, turn))
            await self._turned()

    async def _turned(self) -> None:
        """Until the turn that runs is over, and in the books. When cancelled, it runs on."""
        assert self._running is not None
        turn, future = self._running
        done, _ = await asyncio.wait((future,), timeout=STUCK_S)
        if not done:
            log.warning("spool is stuck", extra={"after_s": STUCK_S})
            self._backlog.disk_stuck()
            self._tell()
            await asyncio.wait((future,))
        self._running = None
        turned = future.result()
        now_ns = self._clock.monotonic_ns()
        self._write_ns = now_ns + round(RETRY_S * _SECOND_NS) if len(turned.places) < len(turn.fresh) else 0
        self._backlog.turned(turned, at_ns=now_ns, wall_ns=self._clock.wall_ns())
        self._tell()

    async def _close(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_S):
                if self._running is not None:
                    await self._turned()
                is_taken = True
                while (
                    is_taken and not self._is_given_up and not (turn := self._backlog.turn(is_loading=False)).is_empty
                ):
                    await self._turn(turn)
                    is_taken = not self._write_ns
                if self._thread.is_started:
                    await self._thread.do(self._disk.close)
        except TimeoutError:
            log.warning("spool not closed", extra={"after_s": CLOSE_S})
        except Exception as error:  # noqa: BLE001  # as above
            self._give_up(error)
        self._thread.end()
        now = self._backlog.counters(0)
        left = {"spans": now.spooled + now.queued - now.unspooled, "unspooled": now.unspooled}
        log.log(logging.WARNING if now.unspooled else logging.INFO, "spool closed", extra=left)

    def _give_up(self, error: Exception) -> None:
        log.error("spool given up", extra={"error": type(error).__name__})
        self._running, self._is_given_up = None, True
        self._backlog.disk_gone()
        self.is_open.set()
        self._tell()


class _Thread:
    """One thread, one job after the other. A daemon: a disk that hangs does not hold up the end of the process."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self.is_started = False

    def start(self) -> None:
        """Raises RuntimeError when the system lets us have no further thread."""
        threading.Thread(target=self._work, name="spool", daemon=True).start()
        self.is_started = True

    def do(self, job: Callable[[], _T]) -> asyncio.Future[_T]:
        future: Future[_T] = Future()
        self._jobs.put((future, job))
        return asyncio.wrap_future(future)

    def end(self) -> None:
        """After the jobs that it has."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            future, job = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(job())
            except BaseException as error:  # noqa: BLE001  # whoever waits for the job gets it
                future.set_exception(error)
