"""What several workers say, as if they were one: the account that their parent shows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

from otel.exposition import openmetrics, single
from sidecar.operation.channel import ChannelError
from sidecar.operation.merge import LEFT, LEFT_HELP, merged
from sidecar.operation.worker import Worker

log = logging.getLogger(__name__)

_ORDER: Final = "age_s"


class Crew:
    """The account of all workers together."""

    def __init__(self, workers: Sequence[Worker], *, is_passthrough: bool) -> None:
        self._workers = workers
        self._is_passthrough = is_passthrough
        self._silent_count = 0
        self.is_draining = False

    @property
    def is_passthrough_now(self) -> bool:
        """What a worker that starts now has to begin with."""
        return self._is_passthrough

    async def is_ready(self) -> bool:
        """All are: one that is away still gets its share of the connections from the kernel."""
        if self.is_draining or not all(worker.is_up for worker in self._workers):
            return False
        told = await self._ask_all("is_ready")
        return all(said is True for said in told)

    async def metrics(self) -> str:
        told = await asyncio.gather(*(worker.metrics() for worker in self._workers))
        up_count = sum(worker.is_up for worker in self._workers)
        restart_count = sum(worker.restart_count for worker in self._workers)
        lost_count = sum(worker.lost_count for worker in self._workers)
        own = (
            single("gapline_workers", "gauge", "worker processes that there are to be", len(self._workers)),
            single("gapline_workers_up", "gauge", "those that run", up_count),
            single("gapline_worker_restarts_total", "counter", "workers that ended unasked", restart_count),
            single(
                "gapline_worker_lost_exchanges_total",
                "counter",
                "exchanges whose record went with a worker killed",
                lost_count,
            ),
            single(LEFT, "counter", LEFT_HELP, 0),
            single("gapline_worker_silences_total", "counter", "questions that a worker left open", self._silent_count),
        )
        return merged([*told, openmetrics(own)])

    async def streams(self) -> list[dict[str, object]]:
        """The longest first; of a worker that does not answer there are none."""
        told: list[list[dict[str, Any]] | None] = await self._ask_all("streams")
        found = [
            {**stream, "worker": worker.number}
            for worker, streams in zip(self._workers, told, strict=True)
            for stream in streams or ()
        ]
        return sorted(found, key=lambda stream: stream[_ORDER], reverse=True)

    async def is_passthrough(self) -> bool:
        return self._is_passthrough

    async def switch_passthrough(self, *, is_on: bool) -> None:
        """What is up is told now, and what starts is told then."""
        self._is_passthrough = is_on
        await self._ask_all("switch_passthrough", is_on=is_on)

    async def reload(self) -> None:
        await self._ask_all("reload")

    async def _ask_all(self, question: str, **given: bool) -> list[Any]:
        """What each says; None where one says nothing."""

        async def ask(worker: Worker) -> Any:  # noqa: ANN401  # JSON
            if not worker.is_up:
                return None
            try:
                return await worker.ask(question, **given)
            except ChannelError as error:
                self._silent_count += 1
                log.warning("worker silent", extra={"worker": worker.number, "asked": question, "why": str(error)})
                return None

        return await asyncio.gather(*map(ask, self._workers))
