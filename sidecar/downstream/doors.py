"""All connections that a process has accepted: how many there may be, which wait too long, and what passed unread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from sidecar.downstream.door import Door
from sidecar.downstream.sniff import OPAQUE, Opening
from sidecar.downstream.tunnel import Dial, Tunnel
from sidecar.upstream import UpstreamError

log = logging.getLogger(__name__)

LINGER_NS: Final = 1_000_000_000
"""How long a refused client has to read why, before its connection is closed from under it."""
SILENT_NS: Final = 3_630_000_000_000
"""How long a connection may say nothing at all: as long as one that had a request may wait for the next. A little more
than the hour for which common proxies keep theirs, so that it is they who close."""
REFUSED: Final = 64
"""Connections beyond the limit that are told so; while there are so many, no more are accepted."""


class Due:
    """Doors that wait for the same length of time, the first to be over first. limit_ns None: nobody is ever over."""

    __slots__ = ("_due_ns", "_limit_ns")

    def __init__(self, limit_ns: int | None) -> None:
        self._limit_ns = limit_ns
        self._due_ns: dict[Door, int] = {}

    def __len__(self) -> int:
        return len(self._due_ns)

    def start(self, door: Door, at_ns: int) -> None:
        if self._limit_ns is not None:
            self._due_ns.setdefault(door, at_ns + self._limit_ns)

    def stop(self, door: Door) -> None:
        self._due_ns.pop(door, None)

    def over(self, at_ns: int) -> list[Door]:
        """Those whose time is over; they wait no more."""
        found: list[Door] = []
        for door, due_ns in self._due_ns.items():
            if due_ns > at_ns:
                break
            found.append(door)
        for door in found:
            del self._due_ns[door]
        return found


@dataclass(slots=True)
class Passed:
    """Opaque connections of one protocol that are over: how many, and their bytes. The running ones come on top."""

    failed_count: int = 0
    count: int = 0
    sent_bytes: int = 0
    answered_bytes: int = 0
    running: dict[Tunnel, None] = field(default_factory=dict)

    @property
    def traffic(self) -> tuple[int, int]:
        """Bytes from clients, and bytes of the upstream, up to now."""
        sent = self.sent_bytes + sum(tunnel.client.passed_bytes for tunnel in self.running)
        answered = self.answered_bytes + sum(tunnel.upstream.passed_bytes for tunnel in self.running)
        return sent, answered

    def closed(self, tunnel: Tunnel) -> None:
        if self.running.pop(tunnel, 0) is None:
            self.sent_bytes += tunnel.client.passed_bytes
            self.answered_bytes += tunnel.upstream.passed_bytes


class Doors:
    """The connections of a process, on all its listeners.

    now: the monotonic clock. limit: connections that may be open, None for any number. head_timeout_ns: for the head
    of a request, from its first byte; None for as long as it likes. refused_count: connections beyond the limit.
    slow_head_count: answered with 408.
    """

    def __init__(self, *, now: Callable[[], int], limit: int | None = None, head_timeout_ns: int | None = None) -> None:
        self.now = now
        self._limit = limit
        self._doors: dict[Door, None] = {}
        self._refused: set[Door] = set()  # of these, the ones beyond the limit
        self._heads = Due(head_timeout_ns)
        self._lingering = Due(LINGER_NS)
        self._silent = Due(SILENT_NS)
        self._tasks: set[asyncio.Task[None]] = set()
        self.opaque = {opening: Passed() for opening in OPAQUE}
        self.tunnels: dict[Tunnel, None] = {}
        self.handshake_count = 0
        self.refused_count = 0
        self.slow_head_count = 0
        self.is_draining = False

    @property
    def open_count(self) -> int:
        return len(self._doors)

    def of(self, transport: asyncio.BaseTransport) -> Door | None:
        """The door of a connection, None where it has none or was lost."""
        protocol = transport.get_protocol()
        return protocol if isinstance(protocol, Door) else None

    @property
    def is_flooded(self) -> bool:
        """Nobody more can even be refused."""
        return self._limit is not None and self.open_count + self.handshake_count >= self._limit + REFUSED

    @property
    def has_undecided(self) -> bool:
        """Connections that may still become requests: they have said nothing, or half of a head."""
        return len(self._silent) + len(self._heads) + self.handshake_count > 0

    def tick(self, at_ns: int) -> None:
        """End what has waited too long."""
        for door in self._heads.over(at_ns):
            self.slow_head_count += 1
            door.head_is_late()
        for waiting in (self._lingering, self._silent):
            for door in waiting.over(at_ns):
                door.time_is_up()
        for tunnel in tuple(self.tunnels):
            tunnel.tick(at_ns)
        if self.is_draining:
            self.close_idle()

    # What doors tell.

    def enter(self, door: Door) -> bool:
        """A connection is there; False when it is one too many."""
        has_room = self._limit is None or len(self._doors) - len(self._refused) < self._limit
        self._doors[door] = None
        if not has_room:
            self.refused_count += 1
            self._refused.add(door)
            self._lingering.start(door, self.now())
            return False
        self._silent.start(door, self.now())
        return True

    def leave(self, door: Door) -> None:
        """It is gone."""
        self._doors.pop(door, None)
        self._refused.discard(door)
        for waiting in (self._heads, self._lingering, self._silent):
            waiting.stop(door)

    def head_began(self, door: Door) -> None:
        self._silent.stop(door)
        self._heads.start(door, self.now())

    def head_ended(self, door: Door) -> None:
        self._heads.stop(door)

    def linger(self, door: Door) -> None:
        self._lingering.start(door, self.now())

    # Tunnels.

    def open_tunnel(self, tunnel: Tunnel) -> None:
        self.tunnels[tunnel] = None

    def tunnel_closed(self, tunnel: Tunnel) -> None:
        self.tunnels.pop(tunnel, None)
        for passed in self.opaque.values():
            passed.closed(tunnel)

    def open_opaque(self, opening: Opening, first_bytes: bytes, *, dial: Dial) -> Tunnel:
        """A tunnel for a connection that is no HTTP/1: it connects by itself, and closes where it cannot."""
        tunnel = Tunnel(now=self.now, closed=self.tunnel_closed, first_bytes=first_bytes)
        self.open_tunnel(tunnel)
        passed = self.opaque[opening]
        passed.count += 1
        passed.running[tunnel] = None
        task = asyncio.get_running_loop().create_task(_connect(tunnel, opening, dial, passed))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return tunnel

    def abort_tunnels(self) -> None:
        for tunnel in tuple(self.tunnels):
            tunnel.abort()

    # The end.

    def close_idle(self) -> None:
        """Close what waits for a next request."""
        for door in tuple(self._doors):
            door.close_idle()

    def close_all(self) -> None:
        """Close everything, when what was written is sent."""
        for task in tuple(self._tasks):
            task.cancel()
        for door in tuple(self._doors):
            door.close()

    def abort_all(self) -> None:
        """Close at once what is still open."""
        self.abort_tunnels()
        for door in tuple(self._doors):
            door.abort()


async def _connect(tunnel: Tunnel, opening: Opening, dial: Dial, passed: Passed) -> None:
    is_connected = False
    try:
        await dial(opening, lambda: tunnel.upstream)
        is_connected = True
    except UpstreamError as error:
        log.debug("opaque connection not passed on", extra={"error": type(error).__name__})
    finally:
        if not is_connected:
            passed.failed_count += 1
            tunnel.abort()
