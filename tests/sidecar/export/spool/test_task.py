"""The task between backlog and disk: the loop never waits, whatever the disk does, and the end loses nothing."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

import pytest

from otel.otlp import encode_request
from otel.span import hop_to_span
from sidecar.clock import SystemClock
from sidecar.export.backlog import Backlog
from sidecar.export.spool import task as module
from sidecar.export.spool.disk import Spool
from sidecar.export.spool.task import SpoolTask
from sidecar.export.spool.turn import Place, Turn, Turned
from tests.support.builders import a_hop

FINAL = hop_to_span(a_hop())
SIZE = len(encode_request([FINAL]))


@dataclass
class FakeDisk:
    """Takes at most `takes` records a turn; waits in a turn until `may_go` is set; raises `error` instead of a turn."""

    takes: int = 1_000
    may_go: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None
    turns: list[Turn] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)
    is_closed: bool = False

    def __post_init__(self) -> None:
        self.may_go.set()

    def turn(self, turn: Turn) -> Turned:
        self.turns.append(turn)
        self.threads.add(threading.get_ident())
        assert self.may_go.wait(10)
        if self.error is not None:
            raise self.error
        return Turned(places=[Place(1, record.number) for record in turn.fresh][: self.takes])

    def close(self) -> None:
        self.is_closed = True

    @property
    def written(self) -> list[int]:
        return [record.number for turn in self.turns for record in turn.fresh]


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    monkeypatch.setattr(module, "LINGER_S", 0.001)
    monkeypatch.setattr(module, "RETRY_S", 0.02)
    monkeypatch.setattr(module, "STUCK_S", 0.05)
    monkeypatch.setattr(module, "CLOSE_S", 0.5)


def offer(backlog: Backlog, task: SpoolTask, *numbers: int) -> None:
    for number in numbers:
        backlog.offer(replace(FINAL, span_id=f"{number:016x}"), at_ns=0, wall_ns=number)
    task.nudge()


@asynccontextmanager
async def running(disk, backlog: Backlog, *, told: list[int] | None = None):
    def tell() -> None:
        if told is not None:
            told.append(backlog.sendable_bytes)
        task.nudge()

    task = SpoolTask(disk, backlog, clock=SystemClock(), tell=tell)
    async with asyncio.TaskGroup() as group:
        job = group.create_task(task.run())
        await asyncio.sleep(0)
        try:
            yield task
        finally:
            job.cancel()


async def until(condition) -> None:
    async with asyncio.timeout(2):
        while not condition():
            await asyncio.sleep(0.002)


async def test_the_first_turn_asks_what_dead_processes_left():
    disk = FakeDisk()
    async with running(disk, Backlog(limit_bytes=1 << 20)) as task:
        await asyncio.wait_for(task.is_open.wait(), 2)
        assert disk.turns[0].is_adopting
        assert disk.turns[0].load_bytes > 0


async def test_what_is_offered_is_written_soon_by_another_thread_and_together():
    disk, backlog = FakeDisk(), Backlog(limit_bytes=1 << 20)
    async with running(disk, backlog) as task:
        await task.is_open.wait()
        offer(backlog, task, 1, 2, 3)
        await until(lambda: not backlog.has_fresh)
        assert [len(turn.fresh) for turn in disk.turns] == [0, 3]
        assert len(disk.threads) == 1
        assert threading.get_ident() not in disk.threads


async def test_nothing_to_do_means_no_turn():
    disk = FakeDisk()
    async with running(disk, Backlog(limit_bytes=1 << 20)) as task:
        await task.is_open.wait()
        for _ in range(5):
            task.nudge()
            await asyncio.sleep(0.005)
        assert len(disk.turns) == 1


async def test_what_was_delivered_is_forgotten_by_the_disk():
    disk, backlog = FakeDisk(), Backlog(limit_bytes=1 << 20)
    async with running(disk, backlog) as task:
        offer(backlog, task, 1)
        await until(lambda: not backlog.has_fresh)
        backlog.take(1 << 20)
        backlog.settle(rejected=0)
        task.nudge()
        await until(lambda: disk.turns[-1].done == [Place(1, 1)])


async def test_a_disk_that_takes_nothing_is_asked_again_but_not_all_the_time(monkeypatch):
    monkeypatch.setattr(module, "RETRY_S", 0.1)
    disk, backlog = FakeDisk(takes=0), Backlog(limit_bytes=1 << 20)
    async with running(disk, backlog) as task:
        await task.is_open.wait()
        for number in range(1, 21):
            offer(backlog, task, number)
            await asyncio.sleep(0.005)
        assert 1 <= len(disk.turns) - 1 <= 4
        disk.takes = 1_000
        await until(lambda: not backlog.has_fresh)


async def test_a_deletion_is_a_reason_to_ask_again_at_once(monkeypatch):
    monkeypatch.setattr(module, "RETRY_S", 30.0)
    disk, backlog = FakeDisk(takes=1), Backlog(limit_bytes=1 << 20)
    async with running(disk, backlog) as task:
        await task.is_open.wait()
        offer(backlog, task, 1, 2, 3)
        await until(lambda: backlog.counters(0).unspooled == 2)
        backlog.take(SIZE)
        backlog.settle(rejected=0)
        task.nudge()
        await until(lambda: backlog.counters(0).unspooled == 1)


async def test_a_disk_that_hangs_holds_up_neither_the_loop_nor_what_is_in_memory(caplog):
    disk, backlog, told = FakeDisk(), Backlog(limit_bytes=1 << 20), []
    async with running(disk, backlog, told=told) as task:
        await task.is_open.wait()
        disk.may_go.clear()
        offer(backlog, task, 1)
        await until(lambda: backlog.counters(0).spool_failures == {"stuck": 1})
        assert told[-1] == SIZE
        assert backlog.counters(0).unspooled == 1
        disk.may_go.set()
        await until(lambda: not backlog.has_fresh)
    assert "spool is stuck" in [record.message for record in caplog.records]


async def test_the_end_writes_what_is_not_written_and_closes(caplog):
    caplog.set_level(logging.INFO, "sidecar.export.spool.task")
    disk, backlog = FakeDisk(), Backlog(limit_bytes=1 << 20)
    async with running(disk, backlog) as task:
        await task.is_open.wait()
        offer(backlog, task, 1, 2)
    assert disk.written == [1, 2]
    assert disk.is_closed
    (record,) = caplog.records
    assert (record.message, record.levelname, record.spans, record.unspooled) == ("spool closed", "INFO", 2, 0)


async def test_the_end_waits_for_a_turn_that_runs_and_keeps_the_books():
    disk, backlog = FakeDisk(), Backlog(limit_bytes=1 << 20)
    async with running(disk, backlog) as task:
        await task.is_open.wait()
        disk.may_go.clear()
        offer(backlog, task, 1)
        await until(lambda: disk.written == [1])
        offer(backlog, task, 2)
        asyncio.get_running_loop().call_later(0.05, disk.may_go.set)
    assert disk.written == [1, 2]
    assert disk.is_closed
    assert not backlog.has_fresh


async def test_the_end_does_not_wait_for_ever(caplog):
    disk, backlog = FakeDisk(), Backlog(limit_bytes=1 << 20)
    async with asyncio.timeout(5):
        async with running(disk, backlog) as task:
            await task.is_open.wait()
            disk.may_go.clear()
            offer(backlog, task, 1)
            await until(lambda: disk.written == [1])
    disk.may_go.set()
    last = caplog.records[-1]
    assert (last.message, last.levelname, last.unspooled) == ("spool closed", "WARNING", 1)
    assert "spool not closed" in [record.message for record in caplog.records]


async def test_a_full_disk_does_not_hold_up_the_end():
    disk, backlog = FakeDisk(takes=0), Backlog(limit_bytes=1 << 20)
    async with asyncio.timeout(0.4):
        async with running(disk, backlog) as task:
            await task.is_open.wait()
            offer(backlog, task, 1)
    assert disk.is_closed
    assert backlog.counters(0).unspooled == 1


async def test_a_mistake_in_the_spool_ends_the_spool_and_nothing_else(caplog):
    disk, backlog = FakeDisk(error=ZeroDivisionError("span text")), Backlog(limit_bytes=1 << 20)
    async with running(disk, backlog) as task:
        await task.is_open.wait()
        offer(backlog, task, 1)
        await asyncio.sleep(0.01)
        assert backlog.sendable_bytes == SIZE
    (said,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert (said.message, said.error) == ("spool given up", "ZeroDivisionError")
    assert "span text" not in caplog.text


async def test_what_a_process_that_ended_later_left_is_found_too(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "ADOPT_EVERY_S", 0.05)
    other = Spool(tmp_path, limit_bytes=1 << 20)
    other.turn(Backlog(limit_bytes=1 << 20).turn(is_adopting=True))
    left = Backlog(limit_bytes=1 << 20)
    left.offer(FINAL, at_ns=0)
    backlog = Backlog(limit_bytes=1 << 20)
    async with running(Spool(tmp_path, limit_bytes=1 << 20), backlog) as task:
        await task.is_open.wait()
        other.turn(left.turn())
        assert backlog.counters(0).restored == 0
        other.close()
        await until(lambda: backlog.counters(0).restored == 1)
        assert backlog.sendable_bytes == SIZE
    with suppress(FileNotFoundError):
        assert len(list(tmp_path.rglob("*.final"))) == 1


async def test_after_a_mistake_of_ours_the_spool_is_given_up_and_memory_goes_on(monkeypatch):
    monkeypatch.setattr(module, "LINGER_S", 0.001)

    class Mistaken(FakeDisk):
        count = 0

        def turn(self, turn):
            self.count += 1
            if self.count == 2:
                raise RuntimeError
            return super().turn(turn)

    backlog = Backlog(limit_bytes=SIZE * 4 + 10)
    async with running(Mistaken(), backlog) as task:
        await task.is_open.wait()
        offer(backlog, task, 1, 2, 3, 4)
        await asyncio.sleep(0.2)
        while backlog.sendable_bytes:
            backlog.take(1 << 20)
            backlog.settle(rejected=0)
        offer(backlog, task, 5)

        assert backlog.sendable_bytes
