"""Lets the event loop use a store: one thread writes, a few read, and writes that wait share one commit.

A commit waits for the disk, a hundred exporters send a small batch a second each, so everything that has come
in while the commit before was running goes into the next one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Final, ParamSpec, TypeVar

from otel.hop import Hop
from otel.store.base import Pruned, RetentionPolicy, Store, StoreError, VerdictRow, weight_of

PENDING_EVENTS: Final = 1_000_000
"""Events of the hops that wait for the disk: some 200 MB. Past it a write is refused, and exporters try again."""
COMMIT_EVENTS: Final = 200_000
"""Events in one commit, a quarter of a second of encoding: whoever waits for it waits for all of it."""
READERS: Final = 2
"""Judging takes most of a reader's time and holds the interpreter lock; more threads would not be faster."""

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class _Ticket:
    hops: Sequence[Hop]
    weight: int
    received_ns: int
    new_count: int | None = None
    error: Exception | None = None


class AsyncStore:
    """A store for coroutines."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._writer = ThreadPoolExecutor(1, "store-writer")
        self._readers = ThreadPoolExecutor(READERS, "store-reader")
        self._tickets: deque[_Ticket] = deque()
        self._pending = 0

    async def write(self, hops: Sequence[Hop], *, received_ns: int) -> int:
        """How many hops were new, once all are durable and readable. Raises StoreError when none is."""
        weight = sum(map(weight_of, hops))
        if self._pending and self._pending + weight > PENDING_EVENTS:
            raise StoreError(f"{self._pending} events already wait for the disk, the limit is {PENDING_EVENTS}")
        ticket = _Ticket(hops, weight, received_ns)
        self._tickets.append(ticket)
        self._pending += weight
        try:
            return await asyncio.get_running_loop().run_in_executor(self._writer, self._commit, ticket)
        finally:
            self._pending -= weight

    async def put_verdicts(self, rows: Sequence[VerdictRow], *, judged_ns: int) -> None:
        if rows:
            await self._write(lambda: self.store.put_verdicts(rows, judged_ns=judged_ns))

    async def prune(self, now_ns: int, policy: RetentionPolicy) -> Pruned:
        """Prune to the end, chunk by chunk, with other writes in between."""
        hops = verdicts = 0
        is_done = False
        while not is_done:
            pruned = await self._write(lambda: self.store.prune(now_ns, policy))
            hops, verdicts, is_done = hops + pruned.hops, verdicts + pruned.verdicts, pruned.is_done
        return Pruned(hops, verdicts, is_done=True)

    async def tidy(self) -> None:
        await self._write(self.store.tidy)

    async def read(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that reads the store, and may reckon for long, in a reader's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, lambda: function(*args, **kwargs))

    async def close(self) -> None:
        """Finish what is being written and read, then close the store."""
        await asyncio.to_thread(self._close)

    async def _write(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writer, function)

    def _commit(self, ticket: _Ticket) -> int:
        """Runs in the writer's thread: commit what has been waiting for it, unless an earlier turn has done so."""
        if ticket.new_count is None and ticket.error is None:
            self._commit_waiting()
        if ticket.error is not None:
            raise ticket.error
        assert ticket.new_count is not None
        return ticket.new_count

    def _commit_waiting(self) -> None:
        tickets = [self._tickets.popleft()]
        weight = tickets[0].weight
        while self._tickets and weight + self._tickets[0].weight <= COMMIT_EVENTS:
            tickets.append(self._tickets.popleft())
            weight += tickets[-1].weight
        error = self._commit_all(tickets)
        if error is None or isinstance(error, StoreError) or len(tickets) == 1:
            for ticket in tickets:
                ticket.error = error
            return
        for ticket in tickets:  # it is the hops, not the store: whose they are finds out, and nobody else
            ticket.error = self._commit_all([ticket])

    def _commit_all(self, tickets: Sequence[_Ticket]) -> Exception | None:
        """Write the hops of all in one commit. Whatever goes wrong is returned, because others wait for it too."""
        hops = [hop for ticket in tickets for hop in ticket.hops]
        try:
            are_new = iter(self.store.write(hops, received_ns=tickets[-1].received_ns))
        except Exception as error:  # noqa: BLE001  # whoever waits is told
            return error
        for ticket in tickets:
            ticket.new_count = sum(islice(are_new, len(ticket.hops)))
        return None

    def _close(self) -> None:
        self._writer.shutdown()
        self._readers.shutdown()
        self.store.close()
