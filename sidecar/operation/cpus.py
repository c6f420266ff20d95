"""How many CPUs this process may use: those that it may run on, and what its control groups let it have of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from math import ceil
from pathlib import Path, PurePosixPath


def usable_cpus(root: Path = Path("/")) -> int:
    """CPUs that it is worth having a worker for, at least one. A part of a CPU counts as one."""
    allowed = len(os.sched_getaffinity(0))
    quotas = [quota for each in _groups(root) if (quota := _quota(each)) is not None]
    return max(1, min([allowed, *map(ceil, quotas)]))


def _groups(root: Path) -> Iterator[Path]:
    """The directories of the control groups that bound us, of both versions; some may not be there."""
    try:
        membership = (root / "proc/self/cgroup").read_text()
    except OSError:
        return
    for line in membership.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
        inside = PurePosixPath(name).relative_to("/") if name.startswith("/") else PurePosixPath()
        yield from (top / each for each in (inside, *inside.parents) if ".." not in each.parts)


def _quota(group: Path) -> float | None:
    """CPUs that a group may use on the average; None when it may use all, or is not there."""
    try:
        quota_us, period_us = _read(group)
        return None if quota_us <= 0 else quota_us / period_us
    except (OSError, ValueError, ZeroDivisionError):  # also `max`, of the second version
        return None


def _read(group: Path) -> tuple[int, int]:
    if (group / "cpu.max").exists():
        quota, period = (group / "cpu.max").read_text().split()
        return int(quota), int(period)
    return int((group / "cpu.cfs_quota_us").read_text()), int((group / "cpu.cfs_period_us").read_text())
