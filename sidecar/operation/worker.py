"""One worker as its parent sees it: a process that is started again whenever it ends, and the channel to it."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol

from sidecar.clock import Clock
from sidecar.operation.channel import Birth, Channel, ChannelError
from sidecar.operation.merge import lasting, merged, value_of

log = logging.getLogger(__name__)

FIRST_PAUSE_S: Final = 0.1
LAST_PAUSE_S: Final = 5.0
"""Connections wait in the queue of a worker that is being started again, so it must not wait for long."""
STEADY_S: Final = 60.0
"""A worker that ran for so long did not fail in a row with the one before it."""
ANSWER_S: Final = 2.0
"""Longest that a worker may take to answer: much longer than any pause of a healthy event loop, and shorter than the
time-outs of what scrapes and probes us."""
LOOK_S: Final = 1.0
"""Between two looks at what it has counted and runs, so that little of that is unknown when it is killed."""
LOOK_SHARE: Final = 50
LAST_LOOK_S: Final = 10.0
"""A look that takes long is followed by a pause so many times as long, up to this: with a hundred models the answer has
megabytes, and writing it every second would cost the streams of the worker a tenth of its time."""
UNRECORDED: Final = ("gapline_streams", "gapline_lingering")
"""Exchanges that have no final record yet: those that run, and those that wait for the reader's kernel."""
NOT_STARTED: Final = 71
"""The exit code of a worker that could not be started, as `EX_OSERR` of sysexits."""


def pause_s(failures: int) -> float:
    """How long to wait before a worker is started again, after so many failures in a row."""
    return min(FIRST_PAUSE_S * 2.0 ** min(max(0, failures - 1), 16), LAST_PAUSE_S)


def look_pause_s(took_s: float) -> float:
    """How long to wait before the next look, after one that took so long."""
    return min(max(LOOK_S, LOOK_SHARE * took_s), LAST_LOOK_S)


class WorkerFailed(Exception):  # noqa: N818  # an end, not an error in our code
    """A worker ended before it had ever been ready: so would the next one."""


class Spawn(Protocol):
    """Starts the process of a worker. `end` is its side of the channel, to be inherited beside the sockets."""

    async def __call__(self, end: socket.socket, birth: Birth) -> asyncio.subprocess.Process: ...


class Worker:
    """One of several workers, by its number.

    restart_count: times that it was started again. exit_code: how it ended after `stop`, None before.
    lost_count: exchanges that had no record yet, as far as was known, when it was killed: there will be none.
    has_been_up: set when it was for the first time.
    """

    def __init__(self, number: int, *, spawn: Spawn, birth: Callable[[], Birth], clock: Clock) -> None:
        self.number = number
        self._spawn = spawn
        self._birth = birth
        self._clock = clock
        self._process: asyncio.subprocess.Process | None = None
        self._channel: Channel | None = None
        self._is_stopping = asyncio.Event()
        self._last = ""
        self._counted = ""
        self.is_up = False
        self.has_been_up = asyncio.Event()
        self.restart_count = 0
        self.lost_count = 0
        self.exit_code: int | None = None

    async def run(self) -> None:
        """Keep it running until `stop`; returns when it has ended then. Raises WorkerFailed."""
        failures = 0
        while not self._is_stopping.is_set():
            began_ns = self._clock.monotonic_ns()
            code = await self._live()
            lived_s = (self._clock.monotonic_ns() - began_ns) / 1e9
            if self._is_stopping.is_set():
                self.exit_code = code
                return
            log.error("worker ended", extra={"worker": self.number, "how": _how(code), "after_s": round(lived_s, 1)})
            if not self.has_been_up.is_set():
                raise WorkerFailed(_how(code))
            failures = 1 if lived_s >= STEADY_S else failures + 1
            self.restart_count += 1
            try:
                async with asyncio.timeout(pause_s(failures)):
                    await self._is_stopping.wait()
            except TimeoutError:
                continue
        self.exit_code = 0  # it was not running, so there was nothing to drain

    async def _live(self) -> int:
        """One life, from its start to its exit code."""
        ours, theirs = socket.socketpair()
        with theirs:
            birth = self._birth()
            try:
                self._process = process = await self._spawn(theirs, birth)
            except OSError as error:  # no memory, no process number: later there may be one
                ours.close()
                log.error("cannot start a worker", extra={"worker": self.number, "error": error.strerror})
                return NOT_STARTED
        was_up = False
        try:
            if self._is_stopping.is_set():  # said while it was being started
                self._signal(signal.SIGTERM)
            self._channel = channel = await Channel.over(ours, birth)
            async with asyncio.TaskGroup() as group:
                group.create_task(channel.run())  # ends with the process
                starting = group.create_task(self._wait_up(channel, birth))
                looking = group.create_task(self._look(channel))
                code = await process.wait()
                was_up = await starting
                looking.cancel()
        finally:
            self.is_up, self._channel = False, None
            if process.returncode is None:
                process.kill()
                await process.wait()
            if process.returncode is not None and process.returncode < 0:  # else it has recorded what it ended
                self._lose()
            self._counted, self._last = merged([self._counted, lasting(self._last, is_over=True)]), ""
        # Until it is up there is nothing that it would have to drain, and it may not yet take the signal.
        return 0 if code == -signal.SIGTERM and not was_up else code

    async def _wait_up(self, channel: Channel, birth: Birth) -> bool:
        """Wait for its first answer, which it gives as soon as it listens; whether it came to that."""
        try:
            await channel.ask("is_ready", timeout_s=None)
            self.is_up = True
            self.has_been_up.set()
            log.info("worker ready", extra={"worker": self.number})
            if (is_on := self._birth().is_passthrough) is not birth.is_passthrough:  # switched while it was starting
                await channel.ask("switch_passthrough", timeout_s=None, is_on=is_on)
        except ChannelError:
            return self.is_up
        return True

    async def _look(self, channel: Channel) -> None:
        """Keep what it says of itself young, until cancelled."""
        took_s = 0.0
        while True:
            await asyncio.sleep(look_pause_s(took_s))
            began_ns = self._clock.monotonic_ns()
            with suppress(ChannelError):
                self._last = await channel.ask("metrics", timeout_s=ANSWER_S)
            took_s = (self._clock.monotonic_ns() - began_ns) / 1e9

    def _lose(self) -> None:
        """It was killed, with all that ran."""
        if (lost := round(sum(value_of(self._last, name) for name in UNRECORDED))) > 0:
            self.lost_count += lost
            log.warning("exchanges lost with a worker", extra={"worker": self.number, "streams": lost})

    def stop(self) -> None:
        """Let it drain, and do not start it again; the second time, end it at once."""
        number = signal.SIGINT if self._is_stopping.is_set() else signal.SIGTERM
        self._is_stopping.set()
        self._signal(number)

    def kill(self) -> None:
        """End it without its doing."""
        self._is_stopping.set()
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def ask(self, question: str, **given: bool) -> Any:  # noqa: ANN401  # JSON
        """Its answer. Raises ChannelError."""
        if self._channel is None or not self.is_up:
            raise ChannelError("is not up")
        return await self._channel.ask(question, timeout_s=ANSWER_S, **given)

    async def metrics(self) -> str:
        """Its exposition and what was counted in its earlier lives; only what is known of that where it is silent."""
        try:
            self._last = await self.ask("metrics")
        except ChannelError:
            return merged([lasting(self._last), self._counted])
        return merged([self._last, self._counted])


def _how(code: int) -> str:
    if code >= 0:
        return f"exit {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
