"""The parent of several workers: it holds the listening sockets, keeps the workers running, and speaks for them.

Every worker has a socket of its own on each TCP address, between which the kernel spreads connections; a unix socket
is shared. The sockets are the parent's, too, so that what waits in the queue of a worker that crashed is served by its
successor. The parent touches no stream: when it is gone, whatever ended it, the workers drain and end.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final

from sidecar.clock import Clock
from sidecar.config import WORKER_VARIABLE, Config
from sidecar.downstream.bind import Sockets, close_listening, listeners_of, open_for, tell_listening
from sidecar.operation.admin import AdminSite
from sidecar.operation.channel import Birth
from sidecar.operation.crew import Crew
from sidecar.operation.milestones import tell_ending_at_once, tell_ready
from sidecar.operation.signals import Signals
from sidecar.operation.worker import Spawn, Worker, WorkerFailed

log = logging.getLogger(__name__)

GRACE_S: Final = 15.0
"""What a worker may take beyond --drain-timeout until it is killed: it delivers spans for at most 5 s, and closes."""
END_S: Final = 3.0
"""What a worker may take when it is to end at once."""


def spawner(command: Sequence[str]) -> Spawn:
    """Starts workers by this command, each in a process group of its own: what a terminal sends is for the parent."""

    async def spawn(end: socket.socket, birth: Birth) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            pass_fds=(end.fileno(), *chain.from_iterable(birth.sockets)),
            env=os.environ | {WORKER_VARIABLE: str(end.fileno())},
            process_group=0,
        )

    return spawn


class Supervisor:
    """All workers of one configuration, from their start to their end."""

    def __init__(
        self, config: Config, sockets: Sequence[Sockets], *, spawn: Spawn, clock: Clock, file_text: str | None
    ) -> None:
        """sockets: those of each worker; there are as many workers."""
        self._config = config
        self._file_text = file_text
        self._sockets = sockets
        self._workers = [
            Worker(number, spawn=spawn, birth=self._birth_of(number), clock=clock) for number in range(len(sockets))
        ]
        self._has_failed = False
        self.crew = Crew(self._workers, is_passthrough=config.passthrough)

    def _birth_of(self, number: int) -> Callable[[], Birth]:
        def birth() -> Birth:
            return Birth(
                number=number,
                worker_count=len(self._sockets),
                sockets=tuple(tuple(each.fileno() for each in listener) for listener in self._sockets[number]),
                is_passthrough=self.crew.is_passthrough_now,
                file_text=self._file_text,
            )

        return birth

    async def run(self, signals: Signals, *, admin_port: int = 0) -> bool:
        """Until a signal says to stop and all have ended; whether all had drained by then."""
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(self._keep(worker, signals)) for worker in self._workers]
            obeying = group.create_task(signals.obey(self.crew))
            telling = group.create_task(self._tell_ready(admin_port))
            await signals.stopped()
            telling.cancel()
            log.info("draining", extra={"hop": self._config.hop, "workers": len(self._workers)})
            self.crew.is_draining = True
            self._stop()
            is_done = await signals.unless_stopped(_ended(running, self._config.drain_timeout + GRACE_S))
            if not is_done:
                tell_ending_at_once()
                self._stop()
                await _ended(running, END_S)
            for worker in self._workers:
                worker.kill()
            obeying.cancel()
        return is_done and not self._has_failed and all(worker.exit_code == 0 for worker in self._workers)

    async def _keep(self, worker: Worker, signals: Signals) -> None:
        try:
            await worker.run()
        except WorkerFailed as failed:
            log.error("cannot run", extra={"worker": worker.number, "how": str(failed)})
            self._has_failed = True
            signals.stop()

    async def _tell_ready(self, admin_port: int) -> None:
        for worker in self._workers:
            await worker.has_been_up.wait()
        tell_ready(self._config, admin_port=admin_port, workers=len(self._workers))

    def _stop(self) -> None:
        """Ask every worker to end. It serves its queue to the last, so nobody may keep that open beside it."""
        close_listening(chain.from_iterable(self._sockets))
        for worker in self._workers:
            worker.stop()


async def _ended(running: Sequence[asyncio.Task[None]], timeout_s: float) -> None:
    """Until all have ended, at most for so long."""
    await asyncio.wait(running, timeout=timeout_s)


async def supervise(config: Config, count: int, *, command: Sequence[str], clock: Clock, file_text: str | None) -> int:
    """The parent from its start to its end; its exit code. command: what starts a worker."""
    signals = Signals()
    try:
        sockets = open_for(count, listeners_of(config))
    except OSError as error:
        log.error("cannot listen", extra={"error": error.strerror or type(error).__name__})
        return 1
    supervisor = Supervisor(config, sockets, spawn=spawner(command), clock=clock, file_text=file_text)
    admin = AdminSite(supervisor.crew)
    try:
        if config.admin is not None:
            await admin.start(config.admin)
        tell_listening(config, sockets[0], workers=count)
        exit_code = 0 if await supervisor.run(signals, admin_port=admin.port) else 1
        log.info("drained" if exit_code == 0 else "not drained", extra={"hop": config.hop, "exit_code": exit_code})
        return exit_code
    except OSError as error:
        log.error("cannot listen", extra={"error": error.strerror or type(error).__name__})
        return 1
    finally:
        close_listening(chain.from_iterable(sockets))
        await admin.close()
