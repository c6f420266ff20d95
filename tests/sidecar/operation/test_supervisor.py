"""Workers are played here by objects; tests/e2e/test_workers.py starts real ones."""

import asyncio
import socket
import sys
from itertools import chain

import pytest

from sidecar.config import config_of
from sidecar.downstream.bind import close_listening, listeners_of, open_for
from sidecar.operation import supervisor as module
from sidecar.operation.channel import Birth
from sidecar.operation.supervisor import Supervisor, spawner
from sidecar.operation.worker import WorkerFailed
from tests.support.clock import FakeClock


class FakeSignals:
    def __init__(self):
        self.stops = asyncio.Queue()

    def stop(self):
        self.stops.put_nowait(1)

    async def stopped(self):
        await self.stops.get()

    async def unless_stopped(self, work):
        working, watching = asyncio.ensure_future(work), asyncio.ensure_future(self.stopped())
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        is_done = working.done()
        working.cancel()
        watching.cancel()
        return is_done

    async def obey(self, account):
        await asyncio.Event().wait()


class FakeWorker:
    """A worker that ends by itself, when it is told so often, or never."""

    def __init__(self, number, *, spawn, birth, clock):
        self.number, self.birth = number, birth
        self.ends_after = 1
        self.fails = False
        self.stops = self.kills = 0
        self.exit_code = None
        self.code = 0
        self.is_up = True
        self.has_been_up = asyncio.Event()
        self._ended = asyncio.Event()

    async def run(self):
        if self.fails:
            raise WorkerFailed("exit 2")
        await self._ended.wait()
        self.exit_code = self.code if not self.kills else -9

    def stop(self):
        self.stops += 1
        if self.stops >= self.ends_after:
            self._ended.set()

    def kill(self):
        if not self._ended.is_set():
            self.kills += 1
            self._ended.set()


@pytest.fixture
def supervisor(monkeypatch):
    monkeypatch.setattr(module, "Worker", FakeWorker)
    monkeypatch.setattr(module, "GRACE_S", 0.02)
    monkeypatch.setattr(module, "END_S", 0.02)
    options = {"hop": "h", "upstream": "http://u", "listen": "127.0.0.1:0", "drain_timeout": "0"}
    config = config_of(options, {})
    sockets = open_for(3, listeners_of(config))
    yield Supervisor(config, sockets, spawn=None, clock=FakeClock(), file_text="hop = 1")
    close_listening(chain.from_iterable(sockets))


async def run(supervisor, signals, *, stops=1):
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        running = group.create_task(supervisor.run(signals))
        for _ in range(stops):
            await asyncio.sleep(0.001)
            signals.stop()
    return running.result()


async def test_it_is_ready_when_each_has_been_up_and_where_is_said(supervisor, caplog):
    caplog.set_level("INFO")
    signals, (first, *rest) = FakeSignals(), supervisor._workers
    for worker in rest:
        worker.has_been_up.set()
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(supervisor.run(signals, admin_port=7))
        for told in (False, True):
            for _ in range(5):
                await asyncio.sleep(0)
            assert ("ready" in caplog.messages) is told
            first.has_been_up.set()
        signals.stop()

    (line,) = [record for record in caplog.records if record.message == "ready"]
    assert (str(line.admin), line.workers) == ("0.0.0.0:7", 3)


async def test_when_all_have_drained_so_has_the_whole(supervisor):
    assert await run(supervisor, FakeSignals()) is True
    assert [worker.stops for worker in supervisor._workers] == [1, 1, 1]
    assert supervisor.crew.is_draining is True
    assert supervisor._sockets[0][0][0].fileno() == -1


async def test_one_that_did_not_drain_is_told_by_the_whole(supervisor):
    supervisor._workers[1].code = 1

    assert await run(supervisor, FakeSignals()) is False


async def test_one_that_does_not_end_is_killed_at_the_limit(supervisor):
    supervisor._workers[1].ends_after = 99

    assert await run(supervisor, FakeSignals()) is False
    assert [worker.kills for worker in supervisor._workers] == [0, 1, 0]


async def test_a_second_signal_is_passed_on_and_is_no_clean_end(supervisor, monkeypatch, caplog):
    monkeypatch.setattr(module, "GRACE_S", 60)
    for worker in supervisor._workers:
        worker.ends_after = 2

    assert await run(supervisor, FakeSignals(), stops=2) is False
    assert [worker.kills for worker in supervisor._workers] == [0, 0, 0]
    assert "ending at once" in caplog.messages


async def test_one_that_cannot_run_ends_the_whole(supervisor, caplog):
    supervisor._workers[2].fails = True

    assert await run(supervisor, FakeSignals(), stops=0) is False
    assert [record.how for record in caplog.records if record.message == "cannot run"] == ["exit 2"]


async def test_each_is_told_who_it_is_and_what_is_its_own(supervisor):
    births = [worker.birth() for worker in supervisor._workers]
    assert [birth.number for birth in births] == [0, 1, 2]
    assert len({birth.sockets for birth in births}) == 3
    assert {(birth.worker_count, birth.file_text, birth.is_passthrough) for birth in births} == {(3, "hop = 1", False)}

    supervisor._workers.clear()
    await supervisor.crew.switch_passthrough(is_on=True)
    assert supervisor._birth_of(0)().is_passthrough is True


async def test_a_worker_has_its_sockets_its_end_of_the_channel_and_a_group_of_its_own(supervisor, tmp_path):
    told = tmp_path / "told"
    program = f"""
import os
fds = sorted(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{{fd}}"))
open({str(told)!r}, "w").write(repr((os.environ["GAPLINE_SIDECAR_WORKER"], fds, os.getpgid(0) == os.getpid())))
"""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        descriptors = tuple(each.fileno() for each in supervisor._sockets[1][0])
        birth = Birth(number=1, worker_count=3, sockets=(descriptors,), is_passthrough=False, file_text=None)
        process = await spawner((sys.executable, "-S", "-c", program))(theirs, birth)
        assert await process.wait() == 0
        variable, inherited, is_group = eval(told.read_text())
        assert variable == str(theirs.fileno())
        assert {fd for fd in inherited if fd > 2} == {theirs.fileno(), *descriptors}
        assert is_group is True
