"""What a sidecar says of itself and lets be switched, be it one process or several: what all of them answer to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from otel.exposition import Series, openmetrics
from sidecar.clock import Clock
from sidecar.exchanges import Exchanges
from sidecar.tls.contexts import ServerTls

log = logging.getLogger(__name__)


class Account(Protocol):
    """What the admin address shows, and what signals do."""

    async def is_ready(self) -> bool:
        """Whether new requests are welcome."""
        ...

    async def metrics(self) -> str:
        """All numbers as OpenMetrics text, of which `otel.exposition.classic` makes the older form."""
        ...

    async def streams(self) -> list[dict[str, object]]:
        """The exchanges that run right now."""
        ...

    async def is_passthrough(self) -> bool:
        """Whether the kill switch is on: everything passes, and nothing is looked at."""
        ...

    async def switch_passthrough(self, *, is_on: bool) -> None: ...

    async def reload(self) -> None:
        """Read anew what lies in files: the certificates."""
        ...


class OwnAccount:
    """The account of this one process."""

    def __init__(
        self, *, clock: Clock, exchanges: Exchanges, series: Callable[[], list[Series]], tls: ServerTls | None
    ) -> None:
        self._clock = clock
        self._exchanges = exchanges
        self._series = series
        self._tls = tls

    async def is_ready(self) -> bool:
        return not self._exchanges.is_draining

    async def metrics(self) -> str:
        """Written in a thread: with a hundred models that takes as long as a stream may feel."""
        return await asyncio.to_thread(openmetrics, self._series())

    async def streams(self) -> list[dict[str, object]]:
        """The longest first."""
        now_ns = self._clock.monotonic_ns()
        return [
            live.glance(now_ns)
            | {"is_queued": live.queued_since_ns is not None, "buffered_bytes": live.buffered_bytes()}
            for live in self._exchanges.running()
        ]

    async def is_passthrough(self) -> bool:
        return self._exchanges.is_passthrough

    async def switch_passthrough(self, *, is_on: bool) -> None:
        """Takes effect on what runs, too: its streams go on, and give no span."""
        if is_on != self._exchanges.is_passthrough:
            self._exchanges.switch_passthrough(is_on=is_on)
            log.warning("passthrough", extra={"is_on": is_on, "streams": self._exchanges.running_count})

    async def reload(self) -> None:
        if self._tls is not None:
            self._tls.reload()
