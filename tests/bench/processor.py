"""What the kernel says of a process and all below it: the processor time of every thread, and resident memory."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")

Spent = Mapping[tuple[int, int], int]
"""Nanoseconds on a processor so far, by process and thread."""


def run_ns_of(schedstat: str) -> int:
    """Nanoseconds on a processor, the first number of a thread's `schedstat`."""
    return int(schedstat.split(maxsplit=1)[0])


def resident_pages_of(statm: str) -> int:
    """The second number of a process's `statm`."""
    return int(statm.split()[1])


def spent_between_ns(before: Spent, after: Spent) -> int:
    """What all threads of the second look used since the first; one that is new counts from its beginning."""
    return sum(max(0, run_ns - before.get(thread, 0)) for thread, run_ns in after.items())


def busiest_share(before: Spent, after: Spent) -> float:
    """The part of all that the process used that used most; 1 where nobody used anything."""
    by_process: Counter[int] = Counter()
    for thread, run_ns in after.items():
        by_process[thread[0]] += max(0, run_ns - before.get(thread, 0))
    total_ns = by_process.total()
    return max(by_process.values()) / total_ns if total_ns else 1.0


def tree(pid: int, *, proc: Path = PROC) -> list[int]:
    """The process and all below it that run now."""
    found, at = [pid], 0
    while at < len(found):
        for children in sorted(proc.glob(f"{found[at]}/task/*/children")):
            with suppress(OSError):  # it ended meanwhile
                found += [int(word) for word in children.read_text().split()]
        at += 1
    return found


def spent_ns(pids: Iterable[int], *, proc: Path = PROC) -> Spent:
    """Of every thread of these processes; one that ends between two looks is not seen any more."""
    spent = {}
    for pid in pids:
        for schedstat in proc.glob(f"{pid}/task/*/schedstat"):
            with suppress(OSError):
                spent[pid, int(schedstat.parent.name)] = run_ns_of(schedstat.read_text())
    return spent


def resident_bytes(pids: Iterable[int], *, proc: Path = PROC) -> int:
    """All of these together; what they share counts for each."""
    return sum(resident_pages_of((proc / str(pid) / "statm").read_text()) * PAGE_BYTES for pid in pids)
