"""Idle connections of one origin: which one is used next, and how long they may lie.

An upstream closes a connection that lies idle for too long, and a request that crosses with that close is lost. So
none is kept for as long as the upstream keeps it: what it says (Keep-Alive) or shows by closing idle ones is learnt,
and a quarter is taken off. The one that came last is used first, so that the others can grow old and be closed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

IDLE_COUNT: Final = 512
"""Most idle connections: as many as streams that end at once, at 2 KiB and a descriptor each."""
IDLE_NS: Final = 4_000_000_000
"""How long an idle connection is kept: less than the 5 s after which uvicorn and Node close theirs."""
SURE_NS: Final = 500_000_000
"""An upstream that closes connections idle for less than this is not known to exist."""
LEARNT_NS: Final = 300_000_000_000
"""How long a close is remembered: a server that restarts closes idle ones too, and that says nothing of its limit."""

_SECOND_NS: Final = 1_000_000_000

T = TypeVar("T")


class Pool(Generic[T]):
    """Connections that nobody uses right now, in the order in which they came. It closes none: it says which."""

    __slots__ = ("_count_limit", "_learnt_at_ns", "_learnt_ns", "_since_ns", "_told_ns")

    def __init__(self, *, count_limit: int = IDLE_COUNT) -> None:
        self._count_limit = count_limit
        self._since_ns: dict[T, int] = {}  # the oldest first
        self._told_ns = IDLE_NS
        self._learnt_ns = IDLE_NS
        self._learnt_at_ns = 0

    def __len__(self) -> int:
        return len(self._since_ns)

    def idle_limit_ns(self, at_ns: int) -> int:
        """How long an idle connection is kept, as far as it is known now."""
        if at_ns - self._learnt_at_ns > LEARNT_NS:
            self._learnt_ns = IDLE_NS
        return min(IDLE_NS, self._told_ns, self._learnt_ns)

    def put(self, connection: T, at_ns: int, *, keep_alive_s: float | None = None) -> list[T]:
        """Keep one; what has to be closed for it, that one included. keep_alive_s: what its upstream said."""
        if keep_alive_s is not None:
            self._told_ns = _shortened(int(keep_alive_s * _SECOND_NS))
        self._since_ns[connection] = at_ns
        over = self.expired(at_ns)
        while len(self._since_ns) > self._count_limit:
            over.append(self._pop_oldest())
        return over

    def take(self, at_ns: int, is_usable: Callable[[T], bool], *, within_ns: int = IDLE_NS) -> tuple[T, int] | None:
        """The youngest usable one and for how long it lay idle, None when there is none that is not too old.

        within_ns: how long it may have lain idle at most.
        """
        limit_ns = min(within_ns, self.idle_limit_ns(at_ns))
        for connection, since_ns in reversed(self._since_ns.items()):
            if at_ns - since_ns >= limit_ns:
                return None
            if is_usable(connection):
                del self._since_ns[connection]
                return connection, at_ns - since_ns
        return None

    def expired(self, at_ns: int) -> list[T]:
        """Those that are too old, which are kept no more."""
        over, limit_ns = [], self.idle_limit_ns(at_ns)
        while self._since_ns and at_ns - next(iter(self._since_ns.values())) >= limit_ns:
            over.append(self._pop_oldest())
        return over

    def wait_ns(self, at_ns: int) -> int | None:
        """Until the oldest is too old, None when there is none."""
        oldest_ns = next(iter(self._since_ns.values()), None)
        return None if oldest_ns is None else max(0, oldest_ns + self.idle_limit_ns(at_ns) - at_ns)

    def closed(self, connection: T, at_ns: int) -> None:
        """An idle one was closed by the upstream; of one that is not kept nothing is learnt."""
        since_ns = self._since_ns.pop(connection, None)
        if since_ns is not None:
            self.died_idle(at_ns - since_ns, at_ns)

    def died_idle(self, idle_ns: int, at_ns: int) -> None:
        """The upstream closed a connection that had lain idle for so long."""
        limit_ns = _shortened(idle_ns)
        if limit_ns <= self.idle_limit_ns(at_ns):
            self._learnt_ns = limit_ns
            self._learnt_at_ns = at_ns

    def clear(self) -> list[T]:
        """All of them, which are kept no more."""
        over = list(self._since_ns)
        self._since_ns.clear()
        return over

    def _pop_oldest(self) -> T:
        oldest = next(iter(self._since_ns))
        del self._since_ns[oldest]
        return oldest


def _shortened(limit_ns: int) -> int:
    """A quarter less, for the way there and for timers that are late."""
    return limit_ns * 3 // 4
