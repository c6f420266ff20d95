"""Processes are played here by objects that answer on the real channel; tests/sidecar/test_main.py starts real ones."""

import asyncio
import os
import signal
import socket
from contextlib import asynccontextmanager

import pytest

from otel.exposition import openmetrics, single
from sidecar.operation import worker as module
from sidecar.operation.channel import Birth, ChannelError, answer, birth_from
from sidecar.operation.worker import (
    LAST_LOOK_S,
    LAST_PAUSE_S,
    LOOK_S,
    STEADY_S,
    Worker,
    WorkerFailed,
    look_pause_s,
    pause_s,
)
from tests.support.clock import FakeClock


class FakeProcess:
    """A process that lives until it is told to end; `is_up` once it answers."""

    def __init__(self, end, *, answers=True):
        self.end = socket.socket(fileno=os.dup(end.fileno()))
        self.answers = answers
        self.is_told = asyncio.Event()
        self.returncode = None
        self.signals = []
        self.ends_on = signal.SIGTERM
        self.count = 5
        self.is_on = None
        self._ended, self._may_go_on = asyncio.Event(), asyncio.Event()
        if answers:
            self._may_go_on.set()

    async def run(self):
        with self.end:
            self.is_on = (await asyncio.to_thread(birth_from, self.end)).is_passthrough
            self.is_told.set()
            await self._may_go_on.wait()
            if self.returncode is None:
                await answer(self.end, self)

    def begin(self):
        self.answers = True
        self._may_go_on.set()

    def exit(self, code):
        if self.returncode is None:
            self.returncode = code
            self._ended.set()
            self._may_go_on.set()
            self.end.shutdown(socket.SHUT_RDWR)

    async def wait(self):
        await self._ended.wait()
        return self.returncode

    def send_signal(self, number):
        self.signals.append(number)
        if number in {self.ends_on, signal.SIGKILL}:
            self.exit(-number if number == signal.SIGKILL or not self.answers else 0)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    # its account

    async def is_ready(self):
        return True

    async def metrics(self):
        counted = single("a_total", "counter", "h", self.count), single("gapline_streams", "gauge", "h", 2)
        return openmetrics([*counted, single("gapline_lingering", "gauge", "h", 1)])

    async def switch_passthrough(self, *, is_on):
        self.is_on = is_on


class Stage:
    """A worker and the processes that it has had."""

    def __init__(self, *, answers=True):
        self.answers = answers
        self.processes = []
        self.error = None
        self.is_passthrough = False
        self.clock = FakeClock()
        self.worker = Worker(3, spawn=self.spawn, birth=self.birth, clock=self.clock)

    def birth(self):
        return Birth(number=3, worker_count=4, sockets=(), is_passthrough=self.is_passthrough, file_text=None)

    async def spawn(self, end, birth):
        if self.error is not None:
            raise self.error
        process = FakeProcess(end, answers=self.answers)
        self.processes.append(process)
        self.group.create_task(process.run())
        return process

    async def started(self):
        """The first process, once it knows who it is."""
        async with asyncio.timeout(5):
            while not self.processes:
                await asyncio.sleep(0.001)
            await self.processes[0].is_told.wait()
        return self.processes[0]

    async def process(self, count):
        """The process of its life of that number, once it is up."""
        async with asyncio.timeout(5):
            while len(self.processes) < count or not self.worker.is_up:
                await asyncio.sleep(0.001)
        return self.processes[count - 1]

    @asynccontextmanager
    async def running(self):
        async with asyncio.TaskGroup() as self.group:
            self.task = self.group.create_task(self.worker.run())
            yield self
            self.worker.stop()
            async with asyncio.timeout(5):
                await self.task
            for process in self.processes:
                process.exit(0)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.001)


@pytest.mark.parametrize(("took_s", "wanted_s"), [(0.0, LOOK_S), (0.002, LOOK_S), (0.1, 5.0), (2.0, LAST_LOOK_S)])
def test_who_takes_long_to_answer_is_looked_at_less_often(took_s, wanted_s):
    assert look_pause_s(took_s) == pytest.approx(wanted_s)


def test_the_pause_doubles_up_to_a_limit():
    pauses = [pause_s(failures) for failures in range(1, 100)]

    assert pauses[:3] == [0.001, 0.002, 0.004]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LAST_PAUSE_S


async def test_a_worker_that_is_stopped_drains_and_says_how_it_ended():
    async with Stage().running() as stage:
        process = await stage.process(1)
        assert stage.worker.exit_code is None
        stage.worker.stop()
        await stage.task

    assert (process.signals, stage.worker.exit_code, stage.worker.restart_count) == ([signal.SIGTERM], 0, 0)


async def test_a_worker_that_ends_unasked_is_started_again():
    async with Stage().running() as stage:
        (await stage.process(1)).exit(-signal.SIGKILL)
        await stage.process(2)

    assert (stage.worker.restart_count, stage.worker.exit_code) == (1, 0)


async def test_one_that_never_was_up_is_not_started_again():
    stage = Stage(answers=False)
    async with asyncio.TaskGroup() as stage.group:
        running = stage.group.create_task(_failure_of(stage.worker))
        (await stage.started()).exit(2)

    assert running.result() == "exit 2"
    assert len(stage.processes) == 1


async def _failure_of(worker):
    with pytest.raises(WorkerFailed) as failed:
        await worker.run()
    return str(failed.value)


async def test_the_first_process_that_cannot_be_had_is_a_failure_and_a_later_one_is_tried_again(caplog):
    stage = Stage()
    stage.error = OSError(11, "Resource temporarily unavailable")
    with pytest.raises(WorkerFailed):
        await stage.worker.run()

    stage = Stage()
    async with stage.running():
        process = await stage.process(1)
        stage.error = OSError(11, "Resource temporarily unavailable")
        process.exit(1)
        async with asyncio.timeout(5):
            while stage.worker.restart_count < 3:
                await asyncio.sleep(0.001)
        stage.error = None
        await stage.process(2)


async def test_failures_in_a_row_are_those_without_a_steady_life_between(monkeypatch):
    seen = []
    monkeypatch.setattr(module, "pause_s", lambda failures: seen.append(failures) or 0.001)
    async with Stage().running() as stage:
        for life, lived_s in enumerate((1, 1, STEADY_S, 1), 1):
            process = await stage.process(life)
            stage.clock.advance(round(lived_s * 1e9))
            process.exit(1)
        await stage.process(5)

    assert seen == [1, 2, 1, 2]


async def test_a_worker_that_is_stopped_while_it_starts_has_nothing_to_drain():
    async with Stage(answers=False).running() as stage:
        await stage.started()
        stage.worker.stop()
        await stage.task

    assert stage.worker.exit_code == 0


async def test_one_that_the_signal_kills_while_it_runs_has_not_drained():
    async with Stage().running() as stage:
        process = await stage.process(1)
        process.ends_on = None
        stage.worker.stop()
        process.exit(-signal.SIGTERM)
        await stage.task

    assert stage.worker.exit_code == -signal.SIGTERM


async def test_what_a_worker_had_counted_stays_when_it_is_gone():
    async with Stage().running() as stage:
        process = await stage.process(1)
        assert "a_total 5\n" in await stage.worker.metrics()
        process.exit(-signal.SIGSEGV)
        (await stage.process(2)).count = 2
        found = await stage.worker.metrics()
        stage.worker.stop()
        await stage.task
        left = await stage.worker.metrics()

    assert "a_total 7\n" in found
    assert "\ngapline_streams 2\n" in found
    assert "a_total 7\n" in left
    assert "streams" not in left


@pytest.mark.parametrize(("code", "lost_count"), [(-signal.SIGKILL, 3), (1, 0), (0, 0)])
async def test_what_ran_in_a_worker_that_was_killed_is_counted_as_lost(monkeypatch, code, lost_count):
    monkeypatch.setattr(module, "LOOK_S", 0.001)
    async with Stage().running() as stage:
        process = await stage.process(1)
        async with asyncio.timeout(5):
            while not stage.worker._last:  # it was looked at, although nobody asked for its metrics
                await asyncio.sleep(0.001)
        process.exit(code)
        await stage.process(2)
        assert "a_total 5\n" in stage.worker._counted

    assert stage.worker.lost_count == lost_count


async def test_a_worker_that_is_silent_keeps_its_counters_and_fails_its_questions(monkeypatch):
    monkeypatch.setattr(module, "ANSWER_S", 0.01)
    async with Stage().running() as stage:
        process = await stage.process(1)
        await stage.worker.metrics()
        gate = asyncio.Event()
        monkeypatch.setattr(process, "metrics", gate.wait)
        assert "a_total 5\n" in (text := await stage.worker.metrics())
        assert "streams" not in text
        with pytest.raises(ChannelError):
            await stage.worker.ask("is_ready")
        gate.set()


async def test_a_worker_that_is_not_up_is_not_asked():
    with pytest.raises(ChannelError, match="is not up"):
        await Stage().worker.ask("is_ready")


async def test_a_switch_while_it_was_starting_reaches_it():
    stage = Stage(answers=False)
    async with stage.running():
        process = await stage.started()
        assert process.is_on is False
        stage.is_passthrough = True
        process.begin()
        async with asyncio.timeout(5):
            while not process.is_on:
                await asyncio.sleep(0.001)


async def test_a_worker_whose_parent_is_cancelled_is_not_left_behind():
    stage = Stage()
    async with stage.running():
        process = await stage.process(1)
        stage.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stage.task
        assert process.returncode == -signal.SIGKILL
        stage.task = stage.group.create_task(asyncio.sleep(0))
