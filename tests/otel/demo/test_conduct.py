"""Waiting for a verdict: until all hops have told what they saw, and no longer than bearable."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pytest_aiohttp.plugin import AiohttpServer

from otel.demo import conduct
from otel.demo.conduct import NoVerdictError, wait_for_verdict
from otel.demo.faults import HOPS


def verdict(*hops: str, is_open: bool = False) -> dict[str, Any]:
    return {"open": is_open, "hops": [{"hop": hop, "role": "ingress"} for hop in hops]}


async def wait(aiohttp_server: AiohttpServer, answers: list[dict[str, Any] | None], **more: Any) -> dict[str, Any]:
    """What is returned by a wait at a collector that gives these answers, the last one for ever; None is 404."""
    remaining = list(answers)

    async def answer(request: web.Request) -> web.Response:
        said = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        return web.json_response(said, status=200 if said else 404)

    app = web.Application()
    app.router.add_get("/v1/requests/r-1/verdict", answer)
    server = await aiohttp_server(app)
    return await asyncio.to_thread(wait_for_verdict, str(server.make_url("")).rstrip("/"), "r-1", **more)


async def test_the_verdict_is_taken_when_all_hops_are_in_and_closed(aiohttp_server: AiohttpServer) -> None:
    complete = verdict(*HOPS)
    answers = [None, verdict(HOPS[0]), verdict(*HOPS, is_open=True), complete]
    assert await wait(aiohttp_server, answers) == complete


async def test_a_hop_without_a_tap_is_not_waited_for(aiohttp_server: AiohttpServer) -> None:
    partial = verdict(*HOPS[1:])
    assert await wait(aiohttp_server, [verdict(HOPS[2]), partial], taps=HOPS[1:]) == partial


async def test_both_taps_of_a_hop_that_has_two_are_waited_for(aiohttp_server: AiohttpServer) -> None:
    outer, both = verdict("gateway"), verdict("gateway")
    both["hops"].append({"hop": "gateway", "role": "egress"})
    assert await wait(aiohttp_server, [outer, both], taps=("gateway egress", "gateway")) == both


async def test_the_last_verdict_in_time_is_better_than_none(aiohttp_server: AiohttpServer) -> None:
    partial = verdict(HOPS[0])
    assert await wait(aiohttp_server, [partial], within_s=0.5) == partial


async def test_no_verdict_in_time_is_an_error_that_names_the_request(aiohttp_server: AiohttpServer) -> None:
    with pytest.raises(NoVerdictError, match="r-1"):
        await wait(aiohttp_server, [None], within_s=0.3)


async def test_a_collector_that_fails_is_not_asked_again(aiohttp_server: AiohttpServer) -> None:
    async def fail(_: web.Request) -> web.Response:
        return web.json_response({"error": {"type": "internal"}}, status=500)

    app = web.Application()
    app.router.add_get("/v1/requests/r-1/verdict", fail)
    server = await aiohttp_server(app)
    with pytest.raises(NoVerdictError, match=r"500 for r-1.*internal"):
        await asyncio.to_thread(wait_for_verdict, str(server.make_url("")).rstrip("/"), "r-1")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])
    yield process
    process.kill()
    process.wait()


def is_stopped(process: subprocess.Popen[bytes]) -> bool:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_a_process_is_stopped_after_a_while_for_a_while(sleeper: subprocess.Popen[bytes]) -> None:
    asked = {"after_s": 0.2, "seconds": 0.3}
    thread = threading.Thread(target=conduct.stopped, args=(sleeper.pid,), kwargs=asked)
    thread.start()
    assert not is_stopped(sleeper)
    until_s = time.monotonic() + 5
    while not is_stopped(sleeper) and time.monotonic() < until_s:
        time.sleep(0.005)
    assert is_stopped(sleeper)
    thread.join()
    assert not is_stopped(sleeper)


def test_a_freeze_stops_the_process_at_its_event_and_lets_it_go_on(sleeper: subprocess.Popen[bytes]) -> None:
    freeze = conduct.Freeze(sleeper.pid, at_event=3, seconds=0.2)
    freeze.saw(2)
    assert not is_stopped(sleeper)
    freeze.saw(3)
    began_s = time.monotonic()
    time.sleep(0.05)
    assert is_stopped(sleeper)
    while is_stopped(sleeper):
        time.sleep(0.005)
    assert time.monotonic() - began_s > 0.1
