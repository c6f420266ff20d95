"""What the machine itself did to a case: how long each process waited for a core, as the kernel counts it.

The sum bounds the longest: a process that waited for 0.2 s in all was not held up for 0.3 s at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from otel.demo.faults import CLIENT
from otel.demo.topology import sidecar_of
from tests.lab.canary import Canary
from tests.lab.chain import Chain

NS: Final = 1_000_000_000
EXPLAINS: Final = 0.8
"""A wait is the machine's when the processes that it lies between waited for so much of it."""


@dataclass(frozen=True, slots=True)
class Noise:
    """lag_s: how long a canary was late at most. waited_s: how long each process, by name, waited for a core in all."""

    lag_s: float = 0.0
    waited_s: Mapping[str, float] = field(default_factory=dict)

    def explains(self, seconds: float, *names: str) -> bool:
        """Whether the machine may have made a wait of so many seconds that lies between these processes."""
        return max((self.waited_s.get(name, 0.0) for name in names), default=0.0) >= EXPLAINS * seconds > 0

    def has_made(self, verdict: Mapping[str, Any], chain: Chain) -> bool:
        """Whether the machine may have made the wait that this verdict names somebody for."""
        hop = verdict["first_hop"]
        if hop not in (*chain.names, CLIENT):
            return False
        longest_s = max((part["seconds"] for part in verdict["contributions"]), default=0.0)
        before = [sidecar_of(chain.before(hop))] if hop != chain.names[0] else []
        return self.explains(longest_s, hop, sidecar_of(hop), *before)


def noise_from_now(canary: Canary, pids: Mapping[str, int]) -> Callable[[], Noise]:
    """Begins to look at these processes, by name; what it returns says what the machine did to them since."""
    began_s, before_s = time.monotonic(), {name: waited_s(pid) for name, pid in pids.items()}

    def until_now() -> Noise:
        waited = {name: waited_s(pid) - before_s[name] for name, pid in pids.items()}
        return Noise(canary.lag_s(began_s, time.monotonic()), waited)

    return until_now


def waited_s(pid: int) -> float:
    """How long all threads of a process have waited for a core since they began; 0 where the kernel does not count."""
    total_ns = 0
    for stat in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total_ns += int(stat.read_text().split()[1])
        except (OSError, IndexError):
            continue  # the thread is gone, or nothing is counted here
    return total_ns / NS
