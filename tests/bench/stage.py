"""The processes of the benchmark: one upstream, the contenders before it, and the readers of one measurement."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from otel.demo.processes import Command, PortTakenError, Processes, free_ports
from tests.bench.contenders import Contender
from tests.bench.loads import PATH, Load
from tests.bench.machine import Cores
from tests.bench.measured import Counted

TRIES: Final = 3
"""A port is free when it is looked for, and may be taken before it is used."""
ANSWER_S: Final = 10.0
"""Longest that the upstream may take to answer us: it may be in the middle of a flood."""
LATE_S: Final = 30.0
"""Longest that readers may take beyond what they were told, before they are ended."""


class Running:
    """Contenders that run, each on a port of its own."""

    def __init__(self, processes: Processes, ports: Mapping[str, int]) -> None:
        self._processes = processes
        self.ports = ports

    def pid(self, name: str) -> int:
        return self._processes.pid(name)

    def ended(self) -> list[str]:
        """Those that are no more, though nobody asked them to end."""
        return self._processes.ended()


class Stage:
    """The upstream, and where everything is. Enter it with `staged`."""

    def __init__(self, *, port: int, pid: int, folder: Path, cores: Cores, paths: Mapping[str, str]) -> None:
        """paths: of every program, ours and those that are installed."""
        self.port = port
        self.pid = pid
        self.cores = cores
        self._folder = folder
        self.paths = paths

    @contextmanager
    def running(self, contenders: Iterable[Contender], *, flags: tuple[str, ...] = ()) -> Iterator[Running]:
        """These contenders, ready. flags: more words for each. Raises StartError."""
        chosen = list(contenders)
        for attempt in range(TRIES):
            with Processes(self._folder) as processes:
                ports = dict(zip([each.name for each in chosen], free_ports(len(chosen)), strict=True))
                for contender in chosen:
                    processes.start(self._command(contender, ports[contender.name], flags))
                try:
                    processes.wait_ready(lambda _: None)
                except PortTakenError:
                    if attempt == TRIES - 1:
                        raise
                    continue
                yield Running(processes, ports)
                return

    def _command(self, contender: Contender, port: int, flags: tuple[str, ...]) -> Command:
        command = contender.command(
            python=sys.executable,
            port=port,
            next_port=self.port,
            folder=self._folder,
            paths=self.paths,
            prefix=self.cores.of_proxy,
        )
        return Command(
            command.name, (*command.arguments, *flags), command.ready_url, command.program, command.ready_within_s
        )

    def shape(self, load: Load) -> None:
        """From now on every answer is of this load, and the counts begin anew."""
        self._ask("PUT", f"/shape?{load.shape}")

    def go(self) -> None:
        """Idle streams get another event, and end."""
        self._ask("POST", "/go")

    def sent_events(self) -> int:
        """Since the load was set."""
        return int(self._ask("GET", "/sent")["events"])

    def _ask(self, method: str, target: str) -> dict[str, int]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S)
        try:
            connection.request(method, target)
            told: dict[str, int] = json.loads(connection.getresponse().read())
            return told
        finally:
            connection.close()

    @contextmanager
    def readers(
        self, load: Load, *, port: int, open_ns: int = 0, close_ns: int = 0, is_loose: bool = False
    ) -> Iterator[subprocess.Popen[str]]:
        """The readers of a load before this port; they count what comes from open_ns to close_ns."""
        words = (load.reads, port, load.streams, open_ns, close_ns, load.ramp_s, load.grace_s, load.events, PATH)
        run = (*self.cores.of_load, self.paths["load"], *map(str, words), *(("loose",) if is_loose else ()))
        with subprocess.Popen(
            run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as readers:
            try:
                yield readers
            finally:
                readers.kill()


def counted(readers: subprocess.Popen[str], *, within_s: float) -> tuple[Counted, str]:
    """What they counted in the end, and what they said of the first thing that was wrong."""
    out, errors = readers.communicate(timeout=within_s + LATE_S)
    return Counted.of(out), " ".join(errors.split())


@contextmanager
def staged(*, folder: Path, cores: Cores, paths: Mapping[str, str]) -> Iterator[Stage]:
    """An upstream that runs. Raises StartError."""
    for attempt in range(TRIES):
        with Processes(folder) as processes:
            (port,) = free_ports(1)
            run = (*cores.of_load, paths["upstream"], str(port))
            processes.start(Command("upstream", run[1:], f"http://127.0.0.1:{port}/healthz", program=run[0]))
            try:
                processes.wait_ready(lambda _: None)
            except PortTakenError:
                if attempt == TRIES - 1:
                    raise
                continue
            yield Stage(port=port, pid=processes.pid("upstream"), folder=folder, cores=cores, paths=paths)
            return
