"""One measurement: a contender under a load, and what processor and memory say at the right moments."""

from __future__ import annotations

import subprocess
import time
from dataclasses import replace
from typing import Final

from tests.bench.contenders import Contender
from tests.bench.loads import Kind, Load
from tests.bench.measured import Measured
from tests.bench.processor import Spent, busiest_share, resident_bytes, spent_between_ns, spent_ns, tree
from tests.bench.stage import LATE_S, Running, Stage, counted

START_S: Final = 0.1
"""The readers take so long to be there."""
LOOK_S: Final = 0.1
"""Between two looks at whether a contender rests."""
RESTING: Final = 0.03
"""Of a core: what nobody asks anything of uses less."""
RESTS_WITHIN_S: Final = 20.0
"""Longest that records may be in the making; they must be in nobody's window."""
OPENED_S: Final = 0.3
"""From the last stream that was opened until idleness is looked at."""
CALM_S: Final = 1.0
"""Before memory is looked at for the first time: what a start leaves behind is gone."""
WARM_UP: Final = Load(
    name="warm-up", title="warm-up", kind=Kind.PACED, streams=8, rate=100, ramp_s=0.05, settle_s=0.0, window_s=0.2
)
"""Before memory is looked at: everything that a first exchange loads is there."""


def measure(stage: Stage, running: Running, contender: Contender, load: Load) -> Measured:
    """Once. What goes wrong is in what comes back, and is never raised."""
    try:
        if load.is_of_memory:
            return _memory(stage, running, contender, load)
        return _window(stage, running, contender, load)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return _failed(load, f"{type(error).__name__}: {error}")


def _failed(load: Load, *faults: str) -> Measured:
    return Measured(
        window_s=load.window_s, cpu_s=0.0, load_share=0.0, streams=load.streams, faults=tuple(filter(None, faults))
    )


def _window(stage: Stage, running: Running, contender: Contender, load: Load) -> Measured:
    stage.shape(load)
    first = spent_ns(tree(running.pid(contender.name)))
    began_ns = time.monotonic_ns()
    open_ns = began_ns + round((START_S + load.ramp_s + load.settle_s) * 1e9)
    close_ns = open_ns + round(load.window_s * 1e9)
    port = running.ports[contender.name]
    with stage.readers(load, port=port, open_ns=open_ns, close_ns=close_ns, is_loose=contender.is_loose) as readers:
        pids, others = [running.pid(contender.name)], [stage.pid, readers.pid]
        _sleep_until(open_ns)
        pids = tree(pids[0])
        before, others_before, before_ns = spent_ns(pids), spent_ns(others), time.monotonic_ns()
        _sleep_until(close_ns)
        after, others_after, after_ns = spent_ns(pids), spent_ns(others), time.monotonic_ns()
        found, said = counted(readers, within_s=load.grace_s)
    window_s = (after_ns - before_ns) / 1e9
    measured = Measured.of(
        found,
        load,
        window_s=window_s,
        cpu_s=spent_between_ns(before, after) / 1e9,
        load_share=spent_between_ns(others_before, others_after) / 1e9 / window_s,
        sent_events=None if contender.is_loose else stage.sent_events(),
    )
    measured = replace(measured, busiest=busiest_share(before, after))
    if not load.is_alone:
        all_cpu_s = spent_between_ns(first, _rested(running.pid(contender.name))) / 1e9
        measured = replace(measured, all_cpu_s=all_cpu_s)
    return measured if not measured.faults else _failed(load, *measured.faults, said)


def _rested(pid: int) -> Spent:
    """What it has used when it rests; or when it should have long ago."""
    spent = spent_ns(tree(pid))
    for _ in range(round(RESTS_WITHIN_S / LOOK_S)):
        time.sleep(LOOK_S)
        before, spent = spent, spent_ns(tree(pid))
        if spent_between_ns(before, spent) / 1e9 < RESTING * LOOK_S:
            break
    return spent


def _memory(stage: Stage, running: Running, contender: Contender, load: Load) -> Measured:
    port, pid = running.ports[contender.name], running.pid(contender.name)
    stage.shape(WARM_UP)
    with stage.readers(WARM_UP, port=port, close_ns=time.monotonic_ns() + round(WARM_UP.grace_s * 1e9)) as readers:
        warmed, said = counted(readers, within_s=WARM_UP.grace_s)
    if faults := warmed.faults(sent_events=None):
        return _failed(load, *faults, said)
    time.sleep(CALM_S)
    before_bytes = resident_bytes(tree(pid))
    stage.shape(load)
    with stage.readers(load, port=port) as readers:
        assert readers.stdin is not None
        assert readers.stdout is not None
        readers.stdout.readline()  # they say that all is open, at the latest after their grace
        time.sleep(OPENED_S)
        pids = tree(pid)
        before, before_ns = spent_ns(pids), time.monotonic_ns()
        time.sleep(load.window_s)
        after, after_ns = spent_ns(pids), time.monotonic_ns()
        grown_bytes = resident_bytes(pids) - before_bytes
        woken_ns = time.monotonic_ns()
        readers.stdin.write("go\n")
        readers.stdin.flush()
        if load.kind is Kind.IDLE:
            stage.go()
        found, said = counted(readers, within_s=load.grace_s + LATE_S)
        woken_s = (time.monotonic_ns() - woken_ns) / 1e9
    if faults := found.faults(sent_events=stage.sent_events()):
        return _failed(load, *faults, said)
    return Measured(
        window_s=(after_ns - before_ns) / 1e9,
        cpu_s=spent_between_ns(before, after) / 1e9,
        load_share=0.0,
        streams=load.streams,
        grown_bytes=grown_bytes,
        woken_s=woken_s,
    )


def _sleep_until(at_ns: int) -> None:
    """Not for less: what is read is read at that moment or a little behind it."""
    while (left_ns := at_ns - time.monotonic_ns()) > 0:
        time.sleep(left_ns / 1e9)
