"""Several workers behind one address: what one does not survive, the others and the address do."""

import asyncio
import os
import signal
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest

from tests.support.processes import Fleet, get, get_json, until
from tests.support.script import chunk, head, last_chunk, upstream, wait_for

pytestmark = pytest.mark.e2e

SSE = "text/event-stream"
BODY = b"data: 1\n\ndata: 2\n\n"


@asynccontextmanager
async def running(folder, *flags, workers="2"):
    """A sidecar of several workers in front of an upstream whose streams all wait for `release`."""
    release = asyncio.Event()
    steps = [head(200, SSE), chunk(b"data: 1\n\n"), wait_for(release), chunk(b"data: 2\n\n"), last_chunk()]
    async with upstream(*steps) as up:
        with Fleet(folder) as fleet:
            sidecar = fleet.sidecar("here", up.url, "--workers", workers, *flags)
            await sidecar.ready()
            try:
                yield sidecar, release
            finally:
                release.set()


class Client:
    """Many streams, each on a connection of its own."""

    def __init__(self, sidecar):
        self.sidecar = sidecar
        self.bodies = {}
        self.tasks = {}

    async def _read(self, name):
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(connector=connector) as session:
            try:
                async with session.get(f"{self.sidecar.url}/x", headers={"X-Request-Id": name}) as response:
                    self.bodies[name] = b""
                    async for data in response.content.iter_any():
                        self.bodies[name] += data
                    return True
            except aiohttp.ClientError:
                return False

    def start(self, group, count):
        begin = len(self.tasks)
        for name in (f"r-{number}" for number in range(begin, begin + count)):
            self.tasks[name] = group.create_task(self._read(name))

    async def by_worker(self):
        """The streams that run, by the worker in which they do."""
        found = {}
        for stream in await self.sidecar.streams():
            found.setdefault(stream["worker"], set()).add(stream["request_id"])
        return found

    async def spread(self, count):
        async def is_spread():
            found = await self.by_worker()
            return sum(map(len, found.values())) == count and len(found) == 2 and found

        return await until(is_spread, f"{count} streams in two workers")


def workers_of(sidecar):
    """The processes of the workers, in the order of their numbers."""
    parent = sidecar._popen.pid
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def is_alive(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


async def test_streams_are_spread_and_one_account_tells_of_all(tmp_path):
    async with running(tmp_path) as (sidecar, release):
        client = Client(sidecar)
        async with asyncio.TaskGroup() as group:
            client.start(group, 24)
            await client.spread(24)
            assert await sidecar.metric("gapline_streams") == 24
            release.set()
        metrics = await sidecar.metrics()

    assert all(task.result() for task in client.tasks.values())
    assert set(client.bodies.values()) == {BODY}
    ended = sum(value for key, value in metrics.items() if key.startswith("gapline_exchanges_total"))
    assert (ended, metrics["gapline_streams"]) == (24, 0)
    assert (metrics["gapline_workers"], metrics["gapline_workers_up"]) == (2, 2)


async def test_a_worker_that_is_killed_takes_only_its_own_streams_and_comes_back(tmp_path):
    async with running(tmp_path) as (sidecar, release):
        client = Client(sidecar)
        async with asyncio.TaskGroup() as group:
            client.start(group, 24)
            found = await client.spread(24)
            before = await sidecar.metrics()
            killed, alive = workers_of(sidecar)
            os.kill(killed, signal.SIGKILL)
            async with asyncio.timeout(10):
                await asyncio.wait([client.tasks[name] for name in found[0]])
            client.start(group, 24)  # also into the queue of the one that is away
            await until(lambda: sidecar.metric("gapline_worker_restarts_total"), "a restart")
            await sidecar.ready()
            await until(lambda: _has(client, 24 + len(found[1])), "every new stream is served")
            assert is_alive(alive)
            release.set()
        after = await sidecar.metrics()
        sidecar.signal(signal.SIGTERM)
        assert await sidecar.ended() == 0

    assert {name for name, task in client.tasks.items() if not task.result()} == found[0]
    assert {client.bodies[name] for name in set(client.tasks) - found[0]} == {BODY}
    assert after["gapline_workers_up"] == 2
    for key, value in before.items():
        if key.partition("{")[0].endswith("_total"):
            assert after[key] >= value, key
    assert "worker ended worker=0 how=SIGKILL" in sidecar.said


async def _has(client, count):
    return sum(map(len, (await client.by_worker()).values())) == count


async def test_a_signal_drains_all_and_readiness_ends_at_once(tmp_path):
    async with running(tmp_path) as (sidecar, release):
        client = Client(sidecar)
        async with asyncio.TaskGroup() as group:
            client.start(group, 24)
            await client.spread(24)
            sidecar.signal(signal.SIGTERM)
            await until(lambda: _is(sidecar, "readyz", 503), "not ready", within_s=2)
            assert await _is(sidecar, "healthz", 200)
            assert (await get(f"{sidecar.url}/x"))[0] == 0
            assert len(await sidecar.streams()) == 24
            release.set()
        assert await sidecar.ended() == 0

    assert all(task.result() for task in client.tasks.values())
    assert set(client.bodies.values()) == {BODY}


async def _is(sidecar, path, status):
    return (await get(f"{sidecar.admin_url}/{path}"))[0] == status


async def test_a_second_signal_ends_all_at_once(tmp_path):
    async with running(tmp_path) as (sidecar, _):
        client = Client(sidecar)
        async with asyncio.TaskGroup() as group:
            client.start(group, 24)
            await client.spread(24)
            sidecar.signal(signal.SIGTERM)
            await until(lambda: sidecar.said.count(" draining ") == 3, "all drain")
            sidecar.signal(signal.SIGTERM)
            assert await sidecar.ended() == 1

    assert not any(task.result() for task in client.tasks.values())


async def test_workers_without_a_parent_finish_what_runs_and_end(tmp_path):
    async with running(tmp_path) as (sidecar, release):
        client = Client(sidecar)
        async with asyncio.TaskGroup() as group:
            client.start(group, 24)
            await client.spread(24)
            workers = workers_of(sidecar)
            sidecar.kill()
            await until(lambda: sidecar.said.count("the parent is gone") == 2, "they notice")
            release.set()
        await until(lambda: not any(map(is_alive, workers)), "all have ended")

    assert all(task.result() for task in client.tasks.values())


async def test_the_kill_switch_is_that_of_all_workers_also_of_one_that_comes_later(tmp_path):
    async with running(tmp_path) as (sidecar, release):
        release.set()
        url = f"{sidecar.admin_url}/passthrough?on=true"
        async with aiohttp.ClientSession() as session, session.post(url) as response:
            assert await response.json() == {"passthrough": True}
        os.kill(workers_of(sidecar)[1], signal.SIGKILL)
        await until(lambda: sidecar.metric("gapline_worker_restarts_total"), "a restart")
        await sidecar.ready()
        client = Client(sidecar)
        async with asyncio.TaskGroup() as group:
            client.start(group, 24)
        muted = await sidecar.metric("gapline_exchanges_muted_total")
        sidecar.signal(signal.SIGUSR1)
        await until(lambda: _switched(sidecar, is_on=False), "turned back")
        sidecar.signal(signal.SIGTERM)
        assert await sidecar.ended() == 0

    assert set(client.bodies.values()) == {BODY}
    assert muted == 24


async def test_a_worker_that_comes_later_has_the_settings_that_there_were(tmp_path):
    file = tmp_path / "sidecar.toml"
    file.write_text("stall_after = '1s'\n")
    async with running(tmp_path, "--config", str(file)) as (sidecar, _):
        file.write_text("this is no TOML")
        os.kill(workers_of(sidecar)[0], signal.SIGKILL)
        await until(lambda: sidecar.metric("gapline_worker_restarts_total"), "a restart")
        await sidecar.ready()
        sidecar.signal(signal.SIGTERM)
        assert await sidecar.ended() == 0


async def _switched(sidecar, *, is_on):
    return await get_json(f"{sidecar.admin_url}/passthrough") == {"passthrough": is_on}


async def test_workers_that_cannot_run_end_the_parent(tmp_path):
    with Fleet(tmp_path) as fleet:
        first = fleet.sidecar("first", "http://127.0.0.1:1")
        await first.ready()
        second = fleet.sidecar("second", "http://127.0.0.1:1", "--workers", "2", port=first.port)
        assert await second.ended() == 1

    assert "cannot listen" in second.said
