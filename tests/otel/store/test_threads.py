import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from otel.ids import span_id_of
from otel.store import threads
from otel.store.base import Pruned, RetentionPolicy, StoreError, weight_of
from otel.store.memory import MemoryStore
from otel.store.threads import AsyncStore
from tests.support.builders import a_hop


def numbered(number: int):
    return a_hop(span_id=span_id_of("t", number))


WEIGHT = weight_of(numbered(0))


class SlowStore(MemoryStore):
    """Writes when it is let, and remembers the size of each write."""

    def __init__(self) -> None:
        super().__init__()
        self.may_write = threading.Event()
        self.sizes: list[int] = []
        self.error: Exception | None = None
        self.threads: set[str] = set()

    def write(self, hops, *, received_ns):
        assert self.may_write.wait(5)
        self.sizes.append(len(hops))
        self.threads.add(threading.current_thread().name)
        if self.error:
            raise self.error
        return super().write(hops, received_ns=received_ns)

    def prune(self, now_ns, policy):
        self.sizes.append(0)
        return Pruned(1, 2, is_done=len(self.sizes) >= 3)


@pytest.fixture
async def slow() -> AsyncIterator[SlowStore]:
    store = SlowStore()
    yield store
    store.may_write.set()


async def test_a_write_returns_when_its_hops_are_readable(slow: SlowStore):
    store = AsyncStore(slow)
    slow.may_write.set()

    assert await store.write([numbered(0)], received_ns=1) == 1
    assert await store.write([numbered(0), numbered(1)], received_ns=1) == 1
    assert await store.read(slow.hops_of, "req-1") == (numbered(0), numbered(1))
    await store.close()


async def test_writes_that_wait_share_one_commit(slow: SlowStore):
    store = AsyncStore(slow)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        tasks = [group.create_task(store.write([numbered(i), numbered(i + 1)], received_ns=i)) for i in range(10)]
        await asyncio.sleep(0.05)
        slow.may_write.set()

    assert len(slow.sizes) <= 2
    assert sum(slow.sizes) == 20
    assert [task.result() for task in tasks] == [2, *[1] * 9]
    assert len(slow.threads) == 1
    await store.close()


async def test_a_commit_takes_no_more_than_its_limit(slow: SlowStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(threads, "COMMIT_EVENTS", 5 * WEIGHT)
    store = AsyncStore(slow)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        for i in range(6):
            group.create_task(store.write([numbered(3 * i + k) for k in range(3)], received_ns=i))
        group.create_task(store.write([numbered(100 + k) for k in range(8)], received_ns=9))
        await asyncio.sleep(0.05)
        slow.may_write.set()

    assert sorted(slow.sizes) == [3, 3, 3, 3, 3, 3, 8]
    await store.close()


async def test_everyone_whose_hops_failed_is_told_and_the_next_write_is_tried(slow: SlowStore):
    store = AsyncStore(slow)
    slow.error = StoreError("disk full")
    slow.may_write.set()
    results = await asyncio.gather(
        *(store.write([numbered(i)], received_ns=i) for i in range(5)), return_exceptions=True
    )
    assert [str(result) for result in results] == ["disk full"] * 5

    slow.error = None
    await store.write([numbered(9)], received_ns=9)
    assert slow.stats().hops == 1
    await store.close()


class PickyStore(MemoryStore):
    """Has no way to write one hop."""

    def write(self, hops, *, received_ns):
        if numbered(3) in hops:
            raise ZeroDivisionError
        return super().write(hops, received_ns=received_ns)


async def test_hops_that_cannot_be_written_cost_nobody_else_the_commit():
    memory = PickyStore()
    store = AsyncStore(memory)
    writes = (store.write([numbered(i)], received_ns=i) for i in range(6))
    results = await asyncio.gather(*writes, return_exceptions=True)

    assert [type(result) for result in results] == [int, int, int, ZeroDivisionError, int, int]
    assert memory.stats().hops == 5
    await store.close()


async def test_past_the_limit_a_write_is_refused_at_once(slow: SlowStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(threads, "PENDING_EVENTS", 3 * WEIGHT)
    store = AsyncStore(slow)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(store.write([numbered(0), numbered(1)], received_ns=1))
        await asyncio.sleep(0)
        with pytest.raises(
            StoreError, match=f"{2 * WEIGHT} events already wait for the disk, the limit is {3 * WEIGHT}"
        ):
            await store.write([numbered(2), numbered(3)], received_ns=1)
        slow.may_write.set()

    await store.write([numbered(i) for i in range(9)], received_ns=1)
    assert slow.stats().hops == 9, "a single request may be larger than the limit"
    await store.close()


async def test_pruning_goes_on_to_the_end(slow: SlowStore):
    store = AsyncStore(slow)

    assert await store.prune(0, RetentionPolicy()) == Pruned(3, 6, is_done=True)
    await store.close()


async def test_closing_finishes_what_is_being_written(slow: SlowStore):
    store = AsyncStore(slow)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(store.write([numbered(0)], received_ns=1))
        await asyncio.sleep(0)
        group.create_task(store.close())
        await asyncio.sleep(0.02)
        slow.may_write.set()

    assert slow.stats().hops == 1
