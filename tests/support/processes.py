"""Real sidecars, a real collector and the real command line for end-to-end tests, each a process of its own.

with Fleet(tmp_path) as fleet:
    collector = fleet.collector()
    gateway = fleet.sidecar("gateway", worker.url, export=collector.otlp_url)
    await fleet.ready()
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote

import aiohttp
import yarl

from tests.support.tiers import variables

ROOT = Path(__file__).parents[2]
LOOK_EVERY_S = 0.02
READY_WITHIN_S = 30.0
LOWEST_PORT, HIGHEST_PORT = 20_000, 32_000
"""Below those that Linux gives to outgoing connections, so that none of them can take a port before its owner does."""

AS_TEXT = ("--log-format", "text")
"""What the tests read of a log that is no terminal; flags after it win."""

LEASH = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL: whoever started us ends, so do we, whatever ended it
os.getppid() == int(sys.argv[1]) or os._exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""

T = TypeVar("T")


async def until(condition: Callable[[], T | Awaitable[T]], what: str, *, within_s: float = 10.0) -> T:
    """The first true value of the condition, which is asked again and again; fails with `what` after within_s."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + within_s
    while True:
        value = condition()
        if isinstance(value, Awaitable):
            value = await value
        if value:
            return value
        assert clock() < deadline, f"not within {within_s:g} s: {what}"
        await asyncio.sleep(LOOK_EVERY_S)


async def get(url: str) -> tuple[int, str]:
    """(status, text) of a GET; (0, "") where nobody answers."""
    as_it_is = yarl.URL(url, encoded=True)
    with suppress(aiohttp.ClientConnectionError):
        async with aiohttp.ClientSession() as session, session.get(as_it_is) as response:
            return response.status, await response.text()
    return 0, ""


async def get_json(url: str) -> Any:
    status, text = await get(url)
    assert status == 200, f"{url}: {status} {text}"
    return json.loads(text)


def free_ports(count: int) -> list[int]:
    """Ports on 127.0.0.1 that nobody listens on, all different."""
    with ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            port = random.randrange(LOWEST_PORT, HIGHEST_PORT)
            probe = held.enter_context(socket.socket())
            with suppress(OSError):
                probe.bind(("127.0.0.1", port))
                ports.append(port)
        return ports


def environment() -> dict[str, str]:
    """Ours without what would configure a process under test, and with what the run of tests chose for it."""
    strange = ("GAPLINE_", "OTEL_", "PYTHON", "COLUMNS", "NO_COLOR", "FORCE_COLOR")
    return {name: value for name, value in os.environ.items() if not name.startswith(strange)} | variables()


class Process:
    """One process; what it says lies in one file. It ends with us, however we end."""

    def __init__(self, name: str, arguments: Iterable[str], *, ready_url: str, log: Path) -> None:
        self.name = name
        self.ready_url = ready_url
        self.log = log
        leash = (sys.executable, "-I", "-S", "-c", LEASH, str(os.getpid()))
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                (*leash, sys.executable, "-m", *arguments),
                cwd=ROOT,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def is_running(self) -> bool:
        return self._popen.poll() is None

    @property
    def said(self) -> str:
        return self.log.read_text("utf-8", "backslashreplace")

    @property
    def resident_bytes(self) -> int:
        status = Path(f"/proc/{self._popen.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) << 10

    @property
    def descriptor_count(self) -> int:
        return len(list(Path(f"/proc/{self._popen.pid}/fd").iterdir()))

    async def ready(self) -> None:
        async def answers() -> bool:
            assert self.is_running, f"{self.name} ended before it was ready:\n{self.said}"
            return (await get(self.ready_url))[0] == 200

        await until(answers, f"{self.name} answers", within_s=READY_WITHIN_S)

    def signal(self, number: int) -> None:
        self._popen.send_signal(number)

    async def ended(self, *, within_s: float = 10.0) -> int:
        """Its exit code, once it has one."""
        await until(lambda: not self.is_running, f"{self.name} ends", within_s=within_s)
        return self._popen.returncode

    def kill(self) -> None:
        self._popen.kill()
        self._popen.wait()


class Sidecar(Process):
    """A sidecar: where it is asked, and what it says of itself."""

    port: int
    admin_url: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def streams(self) -> list[dict[str, Any]]:
        return (await get_json(f"{self.admin_url}/streams"))["streams"]

    async def metrics(self) -> dict[str, float]:
        """Every series by its name, labels in braces behind it."""
        status, text = await get(f"{self.admin_url}/metrics")
        assert status == 200
        lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        return {series: float(value) for series, _, value in lines}

    async def metric(self, series: str) -> float:
        return (await self.metrics())[series]


class Collector(Process):
    """A collector: where it takes spans, where it answers, where its data lie."""

    otlp_url: str
    query_url: str
    data: Path

    async def verdict(self, request_id: str | bytes, *, hops: int = 1) -> dict[str, Any]:
        """The verdict on a request, once so many of its hops are there and none of them is open."""
        answer: dict[str, Any] = {}
        url = f"{self.query_url}/v1/requests/{quote(request_id, safe='')}/verdict"

        async def is_there() -> bool:
            nonlocal answer
            status, text = await get(url)
            answer = json.loads(text) if status == 200 else {"hops": [], "open": True}
            return len(answer["hops"]) >= hops and not answer["open"]

        await until(is_there, f"{hops} hops of {request_id!r}")
        return answer


@dataclass(frozen=True)
class Finished:
    """What became of a command."""

    code: int
    out: bytes
    errors: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Fleet:
    """The processes of one test; leaving the block ends them all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.signal(signal.SIGKILL)
        for process in self.processes:
            process.kill()

    def sidecar(self, hop: str, upstream: str, *flags: str, export: str = "off", port: int | None = None) -> Sidecar:
        """Start a sidecar beside the hop; it is `ready` some time later."""
        own_port, admin_port = free_ports(2)
        own_port = port or own_port
        admin_url = f"http://127.0.0.1:{admin_port}"
        arguments = ("sidecar", "--hop", hop, "--upstream", upstream, "--export", export, *AS_TEXT, *flags)
        addresses = ("--listen", f"127.0.0.1:{own_port}", "--admin", f"127.0.0.1:{admin_port}")
        log = self._log(hop)
        process = Sidecar(f"sidecar of {hop}", (*arguments, *addresses), ready_url=f"{admin_url}/readyz", log=log)
        process.port, process.admin_url = own_port, admin_url
        self.processes.append(process)
        return process

    def collector(self, *flags: str, ports: tuple[int, int] | None = None, name: str = "collector") -> Collector:
        """Start a collector on these ports (OTLP over HTTP, questions); the same name keeps the same data."""
        otlp_port, query_port = ports or free_ports(2)
        query_url = f"http://127.0.0.1:{query_port}"
        data = self.folder / f"{name}-data"
        arguments = ("otel", "--data", str(data), "--grpc", "off", "--settle", "200ms", *AS_TEXT, *flags)
        addresses = ("--http", f"127.0.0.1:{otlp_port}", "--query", f"127.0.0.1:{query_port}")
        log = self._log(name)
        process = Collector(name, (*arguments, *addresses), ready_url=f"{query_url}/readyz", log=log)
        process.otlp_url, process.query_url, process.data = f"http://127.0.0.1:{otlp_port}", query_url, data
        self.processes.append(process)
        return process

    async def ready(self) -> None:
        """Until all that run can be asked."""
        for process in self.processes:
            if process.is_running:
                await process.ready()

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"


async def command(*words: str | bytes, within_s: float = 30.0) -> Finished:
    """Run a program to its end."""
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(within_s):
            out, errors = await process.communicate()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    return Finished(process.returncode or 0, out, errors)


async def gapline(*words: str | bytes) -> Finished:
    """Run the command `gapline` with these words."""
    return await command(sys.executable, "-m", "sidecar.cli", *words)
