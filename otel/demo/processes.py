"""Processes that end with the program that started them, however it ends, and the ports between them."""

from __future__ import annotations

import ctypes
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

READY_WITHIN_S: Final = 30.0
"""Longest start in seconds: imports on a loaded machine with two cores take several."""
LOOK_EVERY_S: Final = 0.03
"""How often readiness is asked, in seconds."""
STOP_WITHIN_S: Final = 2.0
"""Seconds between the polite signal and the other one."""
LOG_TAIL_LINES: Final = 15
"""Lines of a process's output that are shown when it fails."""
_PACKAGES: Final = Path(__file__).parents[2]
"""Where the packages lie: `python -m` looks in the working folder first, and anything may lie in the user's."""
_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h


class StartError(RuntimeError):
    """A process did not start; the message carries the end of what it said."""


class PortTakenError(StartError):
    """Another process took the port in the meantime: worth another try with other ports."""


@dataclass(frozen=True, slots=True)
class Command:
    """One process to run. ready_url answers 200 once it serves, ready_within_s after the start at the latest.

    program: what runs; None is a module of ours.
    """

    name: str
    arguments: tuple[str, ...]
    ready_url: str
    program: str | None = None
    ready_within_s: float = READY_WITHIN_S


def free_ports(count: int) -> list[int]:
    """Ports on 127.0.0.1 that nobody listens on, all different; nothing keeps them free."""
    with ExitStack() as held:
        ports = []
        for _ in range(count):
            listener = held.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            ports.append(listener.getsockname()[1])
        return ports


class Processes:
    """The processes of one demo, their output in one folder; leaving the block ends them all.

    A process also ends when ours is killed in a way that runs no code of ours: Linux sends it SIGKILL when the
    thread that started it ends. So start them from a thread that lives as long as the program.
    """

    def __init__(self, folder: Path, *, is_ready: Callable[[Command], bool] | None = None) -> None:
        """is_ready: asks a command that cannot be asked from here."""
        self._folder = folder
        self._is_ready = is_ready or (lambda command: get_ok(command.ready_url))
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._commands: dict[str, Command] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, command: Command) -> None:
        """Start it in a process group of its own, so that a Ctrl-C reaches us alone and we end it in order."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("GAPLINE_", "OTEL_"))}
        with self._log(command.name).open("wb") as log:
            self._running[command.name] = subprocess.Popen(  # noqa: S603  # our own modules, or what the caller trusts
                (*runs(command), *command.arguments),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environ,
                cwd=_PACKAGES,
                process_group=0,
                preexec_fn=_ends_with(os.getpid()),  # noqa: PLW1509  # no thread runs yet that could hold a lock
            )
        self._commands[command.name] = command

    def wait_ready(self, on_ready: Callable[[str], None]) -> None:
        """Return once every process answers; on_ready is called with each one's name. Raises StartError."""
        waiting = list(self._commands.values())
        start_s = time.monotonic()
        while waiting:
            for command in tuple(waiting):
                if self._running[command.name].poll() is not None:
                    raise self._failed(command.name, "ended before it was ready")
                if self._is_ready(command):
                    waiting.remove(command)
                    on_ready(command.name)
                elif time.monotonic() - start_s > command.ready_within_s:
                    raise self._failed(command.name, f"was not ready within {command.ready_within_s:g} s")
            time.sleep(LOOK_EVERY_S)

    def pid(self, name: str) -> int:
        return self._running[name].pid

    def ended(self) -> list[str]:
        """The names of processes that have ended, though nobody asked them to."""
        return [name for name, process in self._running.items() if process.poll() is not None]

    def stop(self) -> None:
        """End them all, politely first, and return when they are gone."""
        for process in self._running.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        until_s = time.monotonic() + STOP_WITHIN_S
        for process in self._running.values():
            try:
                process.wait(timeout=max(0.0, until_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()
        self._commands.clear()

    def _log(self, name: str) -> Path:
        return self._folder / f"{name.replace('/', '-')}.log"

    def _failed(self, name: str, how: str) -> StartError:
        text = self._log(name).read_text(errors="replace")
        tail = "\n".join(f"    {line}" for line in text.splitlines()[-LOG_TAIL_LINES:])
        kind = PortTakenError if "address already in use" in text.lower() else StartError
        return kind(f"{name} {how}; it said:\n{tail or '    nothing'}")


def runs(command: Command) -> tuple[str, ...]:
    """The words before its arguments."""
    return (sys.executable, "-m") if command.program is None else (command.program,)


def exit_on_signals() -> None:
    """Turn the signals that would end us without cleaning up into an exit that does.

    A Ctrl-C is one of them where a script started us in the background: there we inherit it as ignored.
    """

    def leave(number: int, _: FrameType | None) -> None:
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def get(url: str, *, timeout_s: float = 5.0, headers: Mapping[str, str] | None = None) -> tuple[int, bytes]:
    """(status, body) of a GET, by no proxy that the environment may name. Raises OSError or HTTPException."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        connection.request("GET", parts.path + (f"?{parts.query}" if parts.query else ""), headers=dict(headers or {}))
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def get_ok(url: str) -> bool:
    """Whether a GET is answered by 200."""
    try:
        return get(url)[0] == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False


def _ends_with(parent_pid: int) -> Callable[[], None]:
    """What a child runs before it becomes the program: die when the parent dies, also when that was a moment ago."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)

    def leash() -> None:
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent_pid:
            os.kill(os.getpid(), signal.SIGKILL)

    return leash
