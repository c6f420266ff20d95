"""How much memory this process uses, and how much it may: procfs and the control groups of Linux, both versions."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_NO_LIMIT_BYTES: Final = 1 << 60
"""Version 1 writes a number near 2⁶³ for no limit; no machine has that much."""


def resident_bytes(statm: Path = Path("/proc/self/statm")) -> int | None:
    """Memory of this process that is in RAM now; None where there is no procfs."""
    try:
        return int(statm.read_text().split()[1]) * _PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return None


def cgroup_limit_bytes(root: Path = Path("/")) -> int | None:
    """The least limit of all control groups that this process is in; None when none has one."""
    try:
        membership = (root / "proc/self/cgroup").read_text()
    except OSError:
        return None
    return min(
        (limit for each in limit_files(membership) if (limit := _limit_in(root / each)) is not None), default=None
    )


def limit_files(membership: str) -> Iterator[PurePosixPath]:
    """Where limits for this process may stand, given what /proc/self/cgroup says.

    A group is bound by all groups above it. In a container the names may be those of the machine outside, of which
    only the top is mounted; so files that are not there are no error.
    """
    for line in membership.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        if number == "0" and not controllers:
            top, file = PurePosixPath("sys/fs/cgroup"), "memory.max"
        elif "memory" in controllers.split(","):
            top, file = PurePosixPath("sys/fs/cgroup/memory"), "memory.limit_in_bytes"
        else:
            continue
        parts = [part for part in name.split("/") if part not in {"", "..", "."}]
        for depth in range(len(parts), -1, -1):
            yield top.joinpath(*parts[:depth]) / file


def _limit_in(file: Path) -> int | None:
    try:
        limit_bytes = int(file.read_text())
    except (OSError, ValueError):  # not there, or `max`
        return None
    return limit_bytes if 0 < limit_bytes < _NO_LIMIT_BYTES else None


def settle() -> None:
    """To be called once, when a process is ready: what it has by then it keeps.

    Python's garbage collector looks again and again at everything that lives, code and tables too: a quarter of what
    a short request costs.
    """
    gc.collect()
    gc.freeze()


def trimmer() -> Callable[[], None]:
    """What gives freed memory back to the system.

    Buffers of many streams leave holes between what stays, and without this the process looks as full as it ever was.
    """
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it

    def trim() -> None:
        if malloc_trim is not None:
            malloc_trim(0)

    return trim
