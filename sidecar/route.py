"""What all exchanges of one listener share: where they go, and under whose eyes."""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.bounds.admission import Admission
from sidecar.clock import Clock
from sidecar.downstream.doors import Doors
from sidecar.exchanges import Exchanges
from sidecar.flow import Tier
from sidecar.guarding import Guard
from sidecar.upstream import Upstream


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One listener's way to its upstream.

    host: the Host field in place of the request's own; None: as it came. listener: its name, as metrics have it.
    tier: how bodies are passed on.
    """

    hop: str
    listener: str
    upstream: Upstream
    host: str | None
    id_headers: tuple[str, ...]
    exchanges: Exchanges
    admission: Admission
    doors: Doors
    guard: Guard
    tier: Tier
    clock: Clock
