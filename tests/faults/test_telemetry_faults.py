"""Telemetry that cannot be delivered: streams never feel it, memory stays bounded, and what was lost is counted."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import signal
import socket
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.faults import fault, report
from tests.support.processes import ROOT, Fleet, environment, free_ports, until
from tests.support.processes import get as asked_url
from tests.support.raw_peers import WHOLE, asked_once, raw_upstream, streaming
from tests.support.script import get
from tests.support.sidecars import collecting, idle, is_quiet, limit

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]

CHAT = "/v1/chat/completions"
HELLO = b'data: {"id":"chatcmpl-1","model":"m","choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
EVENTS, PACE_S = 25, 0.01
NOISE_S = 0.5
"""A busy machine makes a stream of a quarter of a second later by less."""
QUEUE_BYTES = 64 << 10


async def paced(asked):
    await asked.send(streaming())
    for _ in range(EVENTS):
        await asked.chunk(HELLO)
        await asyncio.sleep(PACE_S)
    await asked.chunk(DONE)
    await asked.send(b"0\r\n\r\n")


async def timed(port, *, at_once=4):
    """Some streams at once: how long the longest took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    got = await asyncio.gather(*(asked_once(port, get(CHAT), within_s=20) for _ in range(at_once)))
    assert all((bytes(each.body), each.end) == (HELLO * EVENTS + DONE, WHOLE) for each in got)
    return loop.time() - began


@asynccontextmanager
async def bad_collector(kind):
    """Where spans are sent to: nobody, somebody who never answers, somebody who always fails, or takes long."""
    if kind == "down":
        yield f"http://127.0.0.1:{free_ports(1)[0]}"
    elif kind == "mute":
        with socket.create_server(("127.0.0.1", 0)) as server:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
    else:
        async with collecting() as records:
            records.status, records.delay_s = (500, 0.0) if kind == "failing" else (200, 2.0)
            yield records.url


@fault(41, "streams take as long as ever, the queue is bounded, what is dropped is counted")
@report("R137", "an exporter's endpoint that hangs")
@pytest.mark.parametrize("kind", ["down", "mute", "failing", "slow"])
async def test_a_collector_that_is_not_well_is_not_felt(tmp_path, kind):
    with Fleet(tmp_path) as fleet:
        async with bad_collector(kind) as url, raw_upstream(paced) as up:
            well = fleet.sidecar("well", up.url)
            sidecar = fleet.sidecar("here", up.url, "--export-queue", str(QUEUE_BYTES), export=url)
            await fleet.ready()
            usual_s = await timed(well.port)
            took_s = max([await timed(sidecar.port) for _ in range(3)])
            for _ in range(12):
                await asyncio.gather(*(asked_once(sidecar.port, get("/x"), within_s=20) for _ in range(10)))
            await idle(sidecar)
            metrics = await sidecar.metrics()

    assert took_s < usual_s + NOISE_S
    dropped = sum(value for series, value in metrics.items() if series.startswith("gapline_export_dropped_total"))
    offered = metrics["gapline_export_offered_total"]
    assert offered >= 132
    assert metrics["gapline_export_queue_bytes"] <= QUEUE_BYTES
    assert (
        offered
        == metrics["gapline_export_accepted_total"]
        + dropped
        + metrics["gapline_export_queue_spans"]
        + (metrics["gapline_export_rejected_total"])
    )


@fault(42, "no room for the log: streams go on, and it ends as it should")
async def test_a_log_that_cannot_be_written_stops_nothing(tmp_path):
    port, admin_port = free_ports(2)
    async with raw_upstream(paced) as up:
        full = os.open("/dev/full", os.O_WRONLY)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "sidecar", "--hop", "here", "--upstream", up.url, "--export", "off"),
            *("--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin_port}"),
            cwd=ROOT,
            env=environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=full,
            stderr=full,
        )
        os.close(full)
        try:

            async def is_ready():
                return (await asked_url(f"http://127.0.0.1:{admin_port}/readyz"))[0] == 200

            await until(is_ready, "it is ready", within_s=20)
            await timed(port)
            await timed(port)

            async def are_counted():
                _, text = await asked_url(f"http://127.0.0.1:{admin_port}/metrics")
                return float(re.search(r"^gapline_log_lines_lost_total (\S+)$", text, re.MULTILINE)[1]) >= 8

            await until(are_counted, "all lines are counted as lost", within_s=8)
            process.send_signal(signal.SIGTERM)
            code = await asyncio.wait_for(process.wait(), 10)
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    assert code == 0


@fault(42, "no room for the spool: counted, and it goes on in memory")
@pytest.mark.parametrize("kind", ["full", "not there"])
async def test_a_spool_that_cannot_be_written_stops_nothing(tmp_path, kind):
    spool = tmp_path / "spool"
    if kind == "full":
        spool.mkdir()
    else:
        (tmp_path / "spool").write_text("a file, and no directory")
    with Fleet(tmp_path) as fleet:
        async with collecting() as records, raw_upstream(paced) as up:
            records.status = 503
            sidecar = fleet.sidecar("here", up.url, "--spool", str(spool), export=records.url)
            if kind == "full":
                limit(sidecar, resource.RLIMIT_FSIZE, 8_192)  # the log is a file, too
            await sidecar.ready()
            for _ in range(5):
                await timed(sidecar.port)
            await idle(sidecar)
            await asyncio.sleep(0.5)
            metrics = await sidecar.metrics()
            records.status = 200
            offered = metrics["gapline_export_offered_total"]
            await until(lambda: len(records.final) >= 20, "every span is delivered from memory", within_s=20)
            assert sidecar.is_running

    failures = sum(value for series, value in metrics.items() if "spool" in series and "fail" in series)
    assert offered >= 20
    assert failures > 0


@fault(42, "a quiet process stays quiet though its spool is on a disk that works")
async def test_a_spool_that_works_is_no_news(tmp_path):
    with Fleet(tmp_path) as fleet:
        async with collecting() as records, raw_upstream(paced) as up:
            sidecar = fleet.sidecar("here", up.url, "--spool", str(tmp_path / "spool"), export=records.url)
            await fleet.ready()
            await timed(sidecar.port)
            await until(lambda: len(records.final) == 4, "every span is delivered")
            sidecar.signal(signal.SIGTERM)
            assert await sidecar.ended() == 0
            said = sidecar.said

    assert is_quiet(said)
    assert not any(" warning " in line or " error " in line for line in said.splitlines())
    assert Path(tmp_path / "spool").is_dir()
