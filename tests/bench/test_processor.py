"""Counters of the kernel: read from texts, summed over threads, and found for a process and all below it."""

from __future__ import annotations

import os
from pathlib import Path

from tests.bench.processor import (
    PAGE_BYTES,
    busiest_share,
    resident_bytes,
    resident_pages_of,
    run_ns_of,
    spent_between_ns,
    spent_ns,
    tree,
)


def place(proc: Path, pid: int, *, threads: dict[int, int], children: str = "", pages: int = 7) -> None:
    """A process with so many nanoseconds in each thread."""
    for thread, run_ns in threads.items():
        folder = proc / str(pid) / "task" / str(thread)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "schedstat").write_text(f"{run_ns} 81 3\n")
        (folder / "children").write_text(children if thread == pid else "")
    (proc / str(pid) / "statm").write_text(f"99 {pages} 5 1 0 9 0\n")


def test_the_first_number_of_schedstat_is_what_ran() -> None:
    assert run_ns_of("559612345 1182345 812\n") == 559_612_345


def test_the_second_number_of_statm_is_what_is_resident() -> None:
    assert resident_pages_of("5000 1234 800 1 0 900 0\n") == 1234


def test_threads_that_are_new_count_in_full_and_those_that_ended_not_at_all() -> None:
    before = {(1, 1): 100, (1, 2): 50}
    after = {(1, 1): 130, (1, 3): 7}
    assert spent_between_ns(before, after) == 37


def test_of_two_processes_the_busier_one_is_known() -> None:
    before = {(1, 1): 100, (2, 2): 100}
    assert busiest_share(before, {(1, 1): 110, (1, 3): 20, (2, 2): 110}) == 0.75
    assert busiest_share(before, before) == 1.0


def test_a_tree_is_a_process_and_all_below_it(tmp_path: Path) -> None:
    place(tmp_path, 1, threads={1: 10, 11: 20}, children="2 3 ")
    place(tmp_path, 2, threads={2: 30}, children="4")
    place(tmp_path, 3, threads={3: 40}, pages=2)
    place(tmp_path, 4, threads={4: 50}, pages=1)
    place(tmp_path, 9, threads={9: 1_000})
    pids = tree(1, proc=tmp_path)
    assert sorted(pids) == [1, 2, 3, 4]
    assert sum(spent_ns(pids, proc=tmp_path).values()) == 150
    assert resident_bytes(pids, proc=tmp_path) == 17 * PAGE_BYTES


def test_our_own_work_shows() -> None:
    before = spent_ns([os.getpid()])
    sum(range(300_000))
    assert spent_between_ns(before, spent_ns([os.getpid()])) > 1_000_000
    assert resident_bytes([os.getpid()]) > 1 << 20
