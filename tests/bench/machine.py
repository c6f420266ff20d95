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
    """proxy and load: numbers of cores, None where there is only one or nobody can be bound to it. is_first: measured
    processes run in the real-time class, so that nothing else on the machine gets in their way.
    """

    proxy: int | None
    load: int | None
    is_first: bool

    @property
    def of_proxy(self) -> tuple[str, ...]:
        """The words before a command that runs it there."""
        return self._words(self.proxy)

    @property
    def of_load(self) -> tuple[str, ...]:
        return self._words(self.load)

    def _words(self, core: int | None) -> tuple[str, ...]:
        bound = () if core is None else ("taskset", "-c", str(core))
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


def cores(usable: Sequence[int], *, is_root: bool, has_taskset: bool, has_chrt: bool) -> Cores:
    """The first two that we may use."""
    is_first = is_root and has_chrt
    if len(usable) < 2 or not has_taskset:
        return Cores(None, None, is_first and len(usable) > 1)
    first, second, *_ = sorted(usable)
    return Cores(first, second, is_first)


def here() -> Cores:
    """Those of this machine."""
    return cores(
        sorted(os.sched_getaffinity(0)),
        is_root=os.geteuid() == 0,
        has_taskset=shutil.which("taskset") is not None,
        has_chrt=shutil.which("chrt") is not None,
    )


def stand_aside(cores: Cores) -> None:
    """We run beside the load, and only for moments. What we start may have as many descriptors as we can give."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(most, DESCRIPTORS) if os.geteuid() == 0 else most
    with suppress(OSError, ValueError):  # a container may forbid it
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
    if cores.load is not None:
        os.sched_setaffinity(0, {cores.load})
    if cores.is_first:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(OWN_PRIORITY))


def machine() -> dict[str, str]:
    """What the figures were taken on."""
    return {
        "processor": processor_of(Path("/proc/cpuinfo").read_text()) or platform.machine(),
        "cores": str(os.cpu_count()),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def processor_of(cpuinfo: str) -> str | None:
    """Its name, None where the kernel does not say."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return None
