"""Which core the proxy has and which the load, and whether both may run before everything else on this machine."""

from __future__ import annotations

import os
import platform
import resource
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PRIORITY: Final = 10
OWN_PRIORITY: Final = 20
"""We only look at clocks and counters, and that at the right moment."""

DESCRIPTORS: Final = 65_536
"""A proxy that holds ten thousand streams has two for each."""


@dataclass(frozen=True, slots=True)
class Cores:
    """proxy and load: the numbers of their cores, with commas; None where there is only one, or nobody can be bound to
    it. is_first: measured processes run in the real-time class, so that nothing else gets in their way.
    """

    proxy: str | None
    load: str | None
    is_first: bool

    @property
    def of_proxy(self) -> tuple[str, ...]:
        """The words before a command that runs it there."""
        return self._words(self.proxy)

    @property
    def of_load(self) -> tuple[str, ...]:
        return self._words(self.load)

    def _words(self, core: str | None) -> tuple[str, ...]:
        bound = () if core is None else ("taskset", "-c", core)
        return (*bound, *(("chrt", "-r", str(PRIORITY)) if self.is_first else ()))

    @property
    def told(self) -> str:
        """What that means for the figures."""
        where = (
            f"proxies on core {self.proxy}, upstream and readers on core {self.load}"
            if self.proxy is not None
            else "no core for each side: what one uses the other lacks, and latencies say little"
        )
        return f"{where}; {'real-time class' if self.is_first else 'no real-time class: other work disturbs'}"


def cores(usable: Sequence[int], *, is_root: bool, has_taskset: bool, has_chrt: bool, most: int = 1) -> Cores:
    """Of those that we may use, the last for the load, and up to so many for the proxy."""
    is_first = is_root and has_chrt
    if len(usable) < 2 or not has_taskset:
        return Cores(None, None, is_first and len(usable) > 1)
    *others, last = map(str, sorted(usable))
    return Cores(",".join(others[:most]), last, is_first)


def here(*, most: int = 1) -> Cores:
    """Those of this machine. most: cores of a proxy."""
    return cores(
        sorted(os.sched_getaffinity(0)),
        is_root=os.geteuid() == 0,
        has_taskset=shutil.which("taskset") is not None,
        has_chrt=shutil.which("chrt") is not None,
        most=most,
    )


def stand_aside(cores: Cores) -> None:
    """We run beside the load, and only for moments. What we start may have as many descriptors as we can give."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(most, DESCRIPTORS) if os.geteuid() == 0 else most
    with suppress(OSError, ValueError):  # a container may forbid it
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
    if cores.load is not None:
        os.sched_setaffinity(0, {int(cores.load)})
    if cores.is_first:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(OWN_PRIORITY))


def machine() -> dict[str, str]:
    """What the figures are taken on, and what else runs there: kernel threads that carry packets stand behind it."""
    return {
        "processor": processor_of(Path("/proc/cpuinfo").read_text()) or platform.machine(),
        "cores": f"{os.cpu_count()} cores",
        "kernel": f"Linux {platform.release()}",
        "python": f"Python {platform.python_version()}",
        "load": f"load average {os.getloadavg()[0]:.1f} at the beginning",
    }


def processor_of(cpuinfo: str) -> str | None:
    """Its name, None where the kernel does not say."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return None
