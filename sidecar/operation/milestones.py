"""The lines of the log that say how far a process has come: ready, draining, ending at once, drained."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from otel.settings import Address
from sidecar.bounds.deadlines import DRAINED
from sidecar.config import Config
from sidecar.exchanges import Exchanges
from sidecar.export.backlog import Counters
from sidecar.live import Live
from sidecar.native import parts_for

log = logging.getLogger(__name__)

NOTHING: Final = "off"


def tell_ready(config: Config, *, admin_port: int, workers: int | None = None) -> None:
    """Requests are welcome; where to ask how it is, and where spans go. The token is not shown."""
    admin = NOTHING if config.admin is None else Address(config.admin.host, admin_port)
    log.info(
        "ready",
        extra={
            "hop": config.hop,
            "admin": admin,
            "export": config.export or NOTHING,
            "spool": config.spool or NOTHING,
            "workers": workers,
            "compiled": "yes" if parts_for(config.compiled).is_compiled else "no",
        },
    )
    if config.spool is not None and config.export is None:
        log.warning("the spool is not used", extra={"spool": config.spool, "why": "there is no --export"})


def tell_ending_at_once() -> None:
    """A further signal has come."""
    log.warning("ending at once")


@dataclass(frozen=True, slots=True)
class Drain:
    """A drain, from its beginning. running: what ran then. aborted_before: what drains had ended until then."""

    running: Sequence[Live]
    aborted_before: int

    @staticmethod
    def begun(exchanges: Exchanges, *, hop: str) -> Drain:
        drain = Drain(tuple(exchanges.running()), exchanges.stop_counts[DRAINED])
        log.info("draining", extra={"hop": hop, "streams": len(drain.running)})
        return drain

    def tell_ended(self, exchanges: Exchanges, counters: Counters | None, *, hop: str, exit_code: int) -> None:
        """What became of what ran, and of the spans. counters: None where nothing is exported."""
        aborted = exchanges.stop_counts[DRAINED] - self.aborted_before  # with what the service asked meanwhile
        log.info(
            "drained" if exit_code == 0 else "not drained",
            extra={
                "hop": hop,
                "finished": sum(live.stopping != DRAINED for live in self.running),
                "aborted": aborted,
                "spans_left": None if counters is None else counters.queued + counters.spooled,
                "spans_lost": None if counters is None else counters.unspooled,
                "exit_code": exit_code,
            },
        )
