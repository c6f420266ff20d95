"""Descriptors that run out: accepting pauses, nothing spins, and it recovers."""

from __future__ import annotations

import asyncio
import resource
from contextlib import AsyncExitStack, suppress

import pytest

from tests.faults import fault
from tests.support.processes import Fleet, until
from tests.support.raw_peers import asked_once, raw_client, raw_upstream, simple
from tests.support.script import get
from tests.support.sidecars import cpu_s, idle, is_quiet, limit

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90)]

DESCRIPTORS = 96
CLIENTS = 300
WATCHED_S = 2.0


@fault(32, "accepting pauses, no busy loop, running ones go on, and it recovers")
@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@pytest.mark.parametrize("flags", [(), ("--max-connections", "1000")], ids=["own limit", "limit set too high"])
async def test_connections_past_the_descriptors_cost_nothing(tmp_path, loop, flags):
    hold = asyncio.Event()

    async def answer(asked):
        if asked.target == "/held":
            await hold.wait()
        await asked.send(simple(body=asked.target.encode()))

    with Fleet(tmp_path) as fleet:
        async with raw_upstream(answer) as up:
            sidecar = fleet.sidecar("here", up.url, "--loop", loop, *flags)
            limit(sidecar, resource.RLIMIT_NOFILE, DESCRIPTORS)
            await fleet.ready()
            async with AsyncExitStack() as stack:
                held = await stack.enter_async_context(raw_client(sidecar.port, get("/held")))
                await until(lambda: up.asked, "it runs")
                for _ in range(CLIENTS):
                    with suppress(ConnectionError):
                        await stack.enter_async_context(raw_client(sidecar.port))
                await asyncio.sleep(0.3)
                before_s = cpu_s(sidecar)
                await asyncio.sleep(WATCHED_S)
                used_s = cpu_s(sidecar) - before_s
                assert sidecar.is_running
                hold.set()
                got = await held.answer()

            async def is_served():
                with suppress(ConnectionError):
                    return bytes((await asked_once(sidecar.port, get("/after"), within_s=1)).body) == b"/after"
                return False

            await until(is_served, "it takes connections again", within_s=10)
            await idle(sidecar)
            said = sidecar.said

    assert used_s < WATCHED_S * 0.3
    assert bytes(got.body) == b"/held"
    assert is_quiet(said)
