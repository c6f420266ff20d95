"""The only file that reads clocks: monotonic for every interval, wall once for each exchange's anchor."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol


class Clock(Protocol):
    """Two clocks, read by name. Clocks of the same non-empty `domain` give the same monotonic readings."""

    @property
    def domain(self) -> str: ...

    def monotonic_ns(self) -> int: ...

    def wall_ns(self) -> int: ...


class SystemClock:
    """The machine's clocks, both shifted by offset_ns; the monotonic one always forward, for it is never negative.

    A shifted clock is a domain of its own: whoever compares it with another one must not think they agree.
    """

    __slots__ = ("_offset_ns", "domain", "monotonic_ns")

    def __init__(self, *, offset_ns: int = 0) -> None:
        self._offset_ns = offset_ns
        self.domain = machine_domain() + (f"{offset_ns:+d}" if offset_ns else "")
        self.monotonic_ns: Callable[[], int] = self._shifted_ns if offset_ns else time.monotonic_ns  # twice an event

    def _shifted_ns(self) -> int:
        return time.monotonic_ns() + abs(self._offset_ns)

    def wall_ns(self) -> int:
        return time.time_ns() + self._offset_ns


class DriftingClock(SystemClock):
    """One that runs fast by so many millionths, or slow where they are negative, from its making on.

    Two that were not made in the same moment disagree, whatever else they share: each is a domain of its own.
    """

    __slots__ = ("_began_ns", "_began_wall_ns", "_ppm")

    def __init__(self, *, offset_ns: int = 0, ppm: float) -> None:
        super().__init__(offset_ns=offset_ns)
        self._ppm = ppm
        self._began_ns = self._shifted_ns()
        self._began_wall_ns = super().wall_ns()
        self.domain += f"~{ppm:+g}@{self._began_ns}"
        self.monotonic_ns = self._drifted_ns

    def _drifted_ns(self) -> int:
        now_ns = self._shifted_ns()
        return now_ns + round((now_ns - self._began_ns) * self._ppm / 1e6)

    def wall_ns(self) -> int:
        now_ns = super().wall_ns()
        return now_ns + round((now_ns - self._began_wall_ns) * self._ppm / 1e6)


def machine_domain() -> str:
    """Boot id and time namespace: what makes CLOCK_MONOTONIC the same clock. Empty where the kernel tells neither."""
    try:
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = str(Path("/proc/self/ns/time").readlink())  # like `time:[4026531834]`
    except OSError:
        return ""
    return f"{boot_id}/{namespace.strip('time:[]')}"
