"""What a sidecar process says of its exchanges, in spans, log lines and counters; and limits set on it from outside.

async with collecting() as records:
    sidecar = fleet.sidecar("here", up.url, export=records.url)
    hop = await records.hop("request-7")
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import resource
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from aiohttp import web

from otel.hop import Hop, State
from otel.otlp import decode_request
from otel.span import span_to_hop
from tests.support.processes import Process, Sidecar, until

_FIELD = re.compile(r'([\w.]+)=("(?:[^"\\]|\\.)*"|\S+)')


class Records:
    """An OTLP receiver that keeps what it gets. status: what it answers; delay_s: after how long."""

    def __init__(self) -> None:
        self.url = ""
        self.hops: list[Hop] = []
        self.status = 200
        self.delay_s = 0.0
        self.request_count = 0

    @property
    def final(self) -> list[Hop]:
        return [hop for hop in self.hops if hop.state is State.FINAL]

    def of(self, request_id: str) -> list[Hop]:
        """All final records of a request."""
        return [hop for hop in self.final if hop.request_id == request_id]

    async def hop(self, request_id: str, *, within_s: float = 10.0) -> Hop:
        """The one final record of a request."""
        await until(lambda: self.of(request_id), f"the record of {request_id}", within_s=within_s)
        (found,) = self.of(request_id)
        return found

    async def take(self, request: web.Request) -> web.Response:
        self.request_count += 1
        body = await request.read()
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        if self.status == 200:
            if request.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            self.hops += map(span_to_hop, decode_request(body))
        return web.Response(status=self.status, content_type="application/x-protobuf")


@asynccontextmanager
async def collecting() -> AsyncIterator[Records]:
    records = Records()
    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/v1/traces", records.take)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    records.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield records
    finally:
        await runner.cleanup()


def ended_lines(said: str) -> list[dict[str, str]]:
    """The fields of every line about an exchange that ended."""
    return [fields_of(line) for line in said.splitlines() if " exchange ended " in line]


def fields_of(line: str) -> dict[str, str]:
    return {key: json.loads(value) if value.startswith('"') else value for key, value in _FIELD.findall(line)}


def is_quiet(said: str) -> bool:
    """Nothing was lost, and nobody let an exception pass."""
    bad = ("unhandled", "exchange lost", "record lost", "Traceback", "never retrieved")
    return not any(word in said for word in bad)


async def exchange_count(sidecar: Sidecar) -> int:
    """Final records so far, whatever their ending."""
    metrics = await sidecar.metrics()
    return round(sum(value for series, value in metrics.items() if series.startswith("gapline_exchanges_total{")))


def ended_as(metrics: Mapping[str, float], ending: str) -> int:
    """Final records with that ending, whatever their other labels."""
    prefix = f'gapline_exchanges_total{{ending="{ending}",'
    return round(sum(value for series, value in metrics.items() if series.startswith(prefix)))


async def idle(sidecar: Sidecar, *, within_s: float = 10.0) -> None:
    """Until nothing runs and every record is closed."""

    async def is_idle() -> bool:
        metrics = await sidecar.metrics()
        return metrics["gapline_streams"] == metrics["gapline_lingering"] == 0

    await until(is_idle, "no stream is open", within_s=within_s)


def pid_of(process: Process) -> int:
    return process._popen.pid


def limit(process: Process, what: int, value: int) -> None:
    """Set a limit (`resource.RLIMIT_...`) on a process that has just been started."""
    resource.prlimit(pid_of(process), what, (value, value))


def cpu_s(process: Process) -> float:
    """Processor time that it has used so far."""
    fields = Path(f"/proc/{pid_of(process)}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def environ(**variables: str) -> Iterator[None]:
    """Variables for the processes that are started within the block."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
