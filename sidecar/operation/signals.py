"""What signals ask of a process: to stop, to stop at once, and two things that it can do while it runs."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from typing import Any, Final

from sidecar.operation.account import Account

STOPPING: Final = (signal.SIGTERM, signal.SIGINT)
"""The first drains, the second ends at once."""
WISHES: Final = (signal.SIGHUP, signal.SIGUSR1)
"""Read certificates anew, unless it is the terminal that hangs up; turn the kill switch over."""


class Signals:
    """Takes this process's signals, from one event loop, which has to run in the main thread."""

    def __init__(self, *, is_worker: bool = False) -> None:
        """is_worker: SIGTERM drains however often it comes, for systemd sends it to the parent and to us; and only the
        parent obeys wishes."""
        self._stops: asyncio.Queue[int] = asyncio.Queue()
        self._is_stopping = False
        self._has_terminal = os.isatty(0)
        self._wishes: asyncio.Queue[int] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        for number in STOPPING:
            loop.add_signal_handler(number, self._stops.put_nowait, number)
        if is_worker:
            loop.add_signal_handler(signal.SIGTERM, self.stop)
        for number in WISHES:
            loop.add_signal_handler(number, *((_ignore,) if is_worker else (self._wishes.put_nowait, number)))

    def stop(self) -> None:
        """As if a signal had said so, unless one has: only people end what drains."""
        if not self._is_stopping and self._stops.empty():
            self._stops.put_nowait(signal.SIGTERM)

    async def stopped(self) -> None:
        """Until a signal says to stop."""
        await self._stops.get()
        self._is_stopping = True

    async def unless_stopped(self, work: Coroutine[Any, Any, object]) -> bool:
        """Do the work; False when a signal to stop came before it was done."""
        async with asyncio.TaskGroup() as group:
            working, watching = group.create_task(work), group.create_task(self.stopped())
            await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
            is_done = working.done()
            working.cancel()
            watching.cancel()
        return is_done

    async def obey(self, account: Account) -> None:
        """Do what is wished, until cancelled."""
        while True:
            match await self._wishes.get():
                case signal.SIGHUP if self._has_terminal and not os.isatty(0):
                    self.stop()  # the terminal was closed under us, which is where this signal has its name from
                case signal.SIGHUP:
                    await account.reload()
                case signal.SIGUSR1:
                    await account.switch_passthrough(is_on=not await account.is_passthrough())


def _ignore() -> None:
    """The parent says it to every worker, over their channel."""
