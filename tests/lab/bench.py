"""Runs cases: starts a chain for each block of them, asks, and marks the verdicts."""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from itertools import groupby
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from otel.demo import faults, script
from otel.demo.conduct import Freeze, wait_for_verdict
from otel.demo.processes import PortTakenError, Processes, StartError, free_ports, get
from otel.demo.reader import Pause, ask
from otel.demo.topology import PORTS, Topology, sidecar_of
from tests.lab.draw import FREEZING, Case, Chain, Kind
from tests.lab.parts import topology
from tests.lab.truth import Marked, mark

AT_ONCE: Final = 3
"""Cases that run at a time in one chain: more would have two cores add waits of their own."""
START_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Result:
    """One case: its mark, the verdict and the stamps it rests on, as the collector answered."""

    marked: Marked
    request_id: str
    timeline: dict[str, Any]


def run(cases: Sequence[Case], *, paths: dict[str, str], at_once: int, say: Callable[[str], None]) -> Iterator[Result]:
    """Results as they come; cases that share a chain must follow each other."""
    for chain, block in groupby(cases, key=lambda case: case.chain):
        say(f"-- {chain}")
        with tempfile.TemporaryDirectory(prefix="gapline-lab-", ignore_cleanup_errors=True) as folder:
            yield from _run_block(chain, list(block), Path(folder), paths=paths, at_once=at_once)


def _run_block(
    chain: Chain, cases: Iterable[Case], folder: Path, *, paths: dict[str, str], at_once: int
) -> Iterator[Result]:
    with Processes(folder) as processes:
        placed = _start(chain, folder, processes, paths)
        alone = [case for case in cases if case.kind in FREEZING]
        with ThreadPoolExecutor(at_once) as pool:
            yield from pool.map(lambda case: _conduct(case, placed, None), [c for c in cases if c not in alone])
        for case in alone:
            name = sidecar_of(str(case.hop)) if case.kind is Kind.SELF else str(case.hop)
            yield _conduct(case, placed, processes.pid(name))
        if ended := processes.ended():
            raise StartError(f"ended unasked: {', '.join(ended)}")


def _start(chain: Chain, folder: Path, processes: Processes, paths: dict[str, str]) -> Topology:
    for attempt in range(START_TRIES):
        placed = topology(chain, ports=free_ports(PORTS), folder=folder, paths=paths)
        for command in placed.commands:
            processes.start(command)
        try:
            processes.wait_ready(lambda _: None)
        except PortTakenError:
            processes.stop()
            if attempt + 1 == START_TRIES:
                raise
        else:
            return placed
    raise AssertionError("the last try returns or raises")


def _conduct(case: Case, placed: Topology, frozen_pid: int | None) -> Result:
    """One request from question to mark. frozen_pid: the process to stop in the middle of the answer."""
    request_id = str(uuid.uuid4())
    headers = {"x-request-id": request_id, "traceparent": f"00-{uuid.uuid4().hex}-{uuid.uuid4().hex[:16]}-01"}
    if case.fault is not None:
        headers[faults.HEADER] = f"{case.hop}:{case.kind}={case.seconds}"
    freeze = None if frozen_pid is None else Freeze(frozen_pid, at_event=case.middle, seconds=case.seconds)
    asked = urlsplit(placed.gateway_url)
    answer = ask(
        asked.hostname or "",
        asked.port or 0,
        headers=headers,
        body={
            "model": f"lab-{case.shape}",
            "messages": [{"role": "user", "content": "Tell me a story."}],
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": case.events,
            "seed": case.seed,
            "shape": case.shape,
        },
        pause=Pause(script.OPENING_EVENTS, case.seconds) if case.kind is Kind.SLOW_READ else None,
        leave_at=case.middle if case.kind is Kind.LEAVE else None,
        on_event=freeze.saw if freeze else None,
    )
    if answer.status != HTTPStatus.OK:
        raise StartError(f"case {case.number}: the chain answered {answer.status}")
    verdict = wait_for_verdict(placed.collector_url, request_id, hops=case.chain.tapped)
    _, timeline = get(f"{placed.collector_url}/v1/requests/{request_id}/timeline")
    return Result(mark(case, verdict, answer), request_id, json.loads(timeline))
