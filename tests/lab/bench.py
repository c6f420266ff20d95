"""Runs cases: starts a chain for each block of them, asks, and marks the verdicts."""

from __future__ import annotations

import json
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Final

from otel.demo import script
from otel.demo.answer import Answer
from otel.demo.conduct import stopped, wait_for_verdict
from otel.demo.faults import CLIENT, SLOW_FIRST_S
from otel.demo.processes import Processes, StartError, get
from otel.demo.reader import Pause
from otel.demo.topology import Topology, data_of, sidecar_of
from otel.findings import Policy
from otel.known import Known
from otel.store.sqlite import SqliteStore
from tests.lab.canary import Canary
from tests.lab.chain import Chain, Links
from tests.lab.draw import Case
from tests.lab.links import Line
from tests.lab.marks import Marked, mark
from tests.lab.middles import PARTS, Rewrites
from tests.lab.namespaces import CONTROL, Network
from tests.lab.noise import Noise, noise_from_now
from tests.lab.readers import Reader, read
from tests.lab.rows import Row, judged
from tests.lab.shapes import EVENTS, Shape, Spoken
from tests.lab.starting import started
from tests.lab.told import LINKING, STOPPING, Kind, Planted, Told, first_event
from tests.lab.topology import ports_of, topology

AT_ONCE: Final = 3
"""Cases that run at a time in one chain: more would have two cores add waits of their own."""
ANSWERED_WITHIN_S: Final = 60.0
"""Longest wait for the collector: thirty thousand events at five taps take long on a busy machine."""
LOSS_SHARE: Final = 0.5
"""Of the packets of a link that loses some: every second one, so that each answer feels it."""
RATE_BITS_S: Final = 24_000.0
"""What a slow link still carries: a third of the smallest answer."""
FEW_EVENTS: Final = 3
"""After so many a reader pauses or leaves, where hops make few events of many."""


@dataclass(frozen=True, slots=True)
class Result:
    """One case: its mark, the verdict and the stamps it rests on, as the collector answered.

    rows: the same case judged with more evidence and with less.
    """

    marked: Marked
    request_id: str
    timeline: dict[str, Any]
    rows: tuple[tuple[Row, Marked], ...]


@dataclass(frozen=True, slots=True)
class Bench:
    """A running chain, and what happens to it from outside."""

    chain: Chain
    placed: Topology
    processes: Processes
    canary: Canary
    data: Path
    network: Network | None = None
    known: Known = field(default_factory=Known)
    judging: threading.Lock = field(default_factory=threading.Lock)

    def conduct(self, case: Case) -> Result:
        """One request from question to mark."""
        request_id = str(uuid.uuid4())
        spoken = case.told.calm()
        made_noise = noise_from_now(self.canary, self._pids)
        with self._inside(CLIENT), self._going_wrong(case, spoken):
            answer = self._ask(case.told, request_id, case.reader, pause=_pause(case), leave_at=_leaves_at(case))
        noise = made_noise()
        if answer.status != HTTPStatus.OK:
            raise StartError(f"case {case.number}: the chain answered {answer.status}")
        with self._inside(CONTROL):
            asked = self.placed.collector_url
            verdict = wait_for_verdict(asked, request_id, taps=self.chain.taps, within_s=ANSWERED_WITHIN_S)
            _, timeline = get(f"{asked}/v1/requests/{request_id}/timeline", timeout_s=ANSWERED_WITHIN_S)
        marked = mark(case, verdict, answer, noise=noise)
        rows = tuple(self._again(case, request_id, answer, noise=noise))
        return Result(marked, request_id, json.loads(timeline), rows)

    def warm_up(self) -> None:
        """One answer that nobody judges: with its first question a program loads and connects, which is no fault."""
        with self._inside(CLIENT):
            self._ask(Told(Shape.AT_ONCE, EVENTS[Shape.AT_ONCE], 1, 0), str(uuid.uuid4()))

    def _ask(
        self,
        told: Told,
        request_id: str,
        reader: Reader = Reader.OURS,
        *,
        pause: Pause | None = None,
        leave_at: int | None = None,
    ) -> Answer:
        headers, body = told.question(request_id)
        return read(reader, self.placed.gateway_url, headers=headers, body=body, pause=pause, leave_at=leave_at)

    def _again(self, case: Case, request_id: str, answer: Answer, *, noise: Noise) -> Iterator[tuple[Row, Marked]]:
        """The same hops judged with more and with less of them, one case at a time: each learns from those before."""
        with closing(SqliteStore(self.data)) as store:
            hops = store.hops_of(request_id)
        with self.judging:
            for each in judged(
                hops,
                answer=answer,
                policy=Policy(first_event_ns=round(SLOW_FIRST_S * 1e9)),
                expected_path=self.chain.names,
                known=self.known,
                has_left=case.fault(Kind.LEAVE) is not None,
            ):
                yield each.row, mark(case, each.verdict, answer, taps=each.taps, noise=noise)

    @property
    def _pids(self) -> dict[str, int]:
        return {run.name: self.processes.pid(run.name) for run in self.placed.commands}

    def _inside(self, place: str) -> AbstractContextManager[None]:
        """The calling thread is on that host, where there are hosts."""
        return nullcontext() if self.network is None else self.network.inside(place)

    @contextmanager
    def _going_wrong(self, case: Case, spoken: Spoken) -> Iterator[None]:
        """What a request cannot be told begins at the moment at which the fault's character is due at the source."""
        fault = case.fault(*STOPPING, *LINKING)
        if fault is None:
            yield
            return
        due_s = spoken.script.events[first_event(spoken, fault)].at_s
        thread = threading.Thread(target=self._go_wrong, args=(fault,), kwargs={"after_s": due_s})
        thread.start()
        try:
            yield
        finally:
            thread.join()

    def _go_wrong(self, fault: Planted, *, after_s: float) -> None:
        if fault.kind in STOPPING:
            pid = self.processes.pid(sidecar_of(fault.hop) if fault.kind is Kind.SELF else fault.hop)
            stopped(pid, after_s=after_s, seconds=fault.seconds)
            return
        assert self.network is not None, "links are planted only where there are some"
        time.sleep(after_s)
        between = self.chain.before(fault.hop), fault.hop
        match fault.kind:
            case Kind.BLACK_HOLE:
                self.network.black_hole(between, fault.seconds)
            case Kind.LOSS:
                self.network.loss(between, LOSS_SHARE, fault.seconds)
            case Kind.RATE:
                self.network.rate(between, RATE_BITS_S, fault.seconds)


def run(
    cases: Sequence[Case], *, paths: Mapping[str, str], at_once: int, say: Callable[[str], None]
) -> Iterator[Result]:
    """Results as they come; cases that share a chain must follow each other."""
    with Canary() as canary:
        for chain, block in groupby(cases, key=lambda case: case.chain):
            say(f"-- {chain}")
            with tempfile.TemporaryDirectory(prefix="gapline-lab-", ignore_cleanup_errors=True) as folder:
                yield from _run_block(chain, list(block), Path(folder), canary, paths=paths, at_once=at_once)


def _run_block(
    chain: Chain, cases: Iterable[Case], folder: Path, canary: Canary, *, paths: Mapping[str, str], at_once: int
) -> Iterator[Result]:
    with ExitStack() as standing:
        network = None if chain.links is None else standing.enter_context(_network(chain, chain.links))
        asks = None if network is None else network.is_ready
        processes = standing.enter_context(Processes(folder, is_ready=asks))
        of_chain = partial(_placed, chain, folder, paths, network)
        placed = started(processes, of_chain, ports=ports_of(chain))
        bench = Bench(chain, placed, processes, canary, data_of(folder), network)
        bench.warm_up()
        alone = [case for case in cases if case.is_alone]
        with ThreadPoolExecutor(at_once) as pool:
            yield from pool.map(bench.conduct, [case for case in cases if case not in alone])
        yield from map(bench.conduct, alone)
        if ended := processes.ended():
            raise StartError(f"ended unasked: {', '.join(ended)}")


def _placed(
    chain: Chain, folder: Path, paths: Mapping[str, str], network: Network | None, ports: Sequence[int]
) -> Topology:
    return topology(chain, ports=ports, folder=folder, paths=paths, network=network)


def _network(chain: Chain, links: Links) -> Network:
    places = (*chain.names, CLIENT)
    lines = [Line(delay_ns=round(delay_s * 1e9)) for delay_s in links.delays_s]
    return Network(places, lines=dict(zip(pairwise(places), lines, strict=True)), receive_bytes=links.receive_bytes)


def _merges(chain: Chain) -> bool:
    """Whether the reader may get far fewer events than the worker sends."""
    parts = [PARTS[place.part] for place in chain.hops]
    return any(part.holds is not None or Rewrites.COUNT in part.rewrites for part in parts)


def _pause(case: Case) -> Pause | None:
    if (fault := case.fault(Kind.SLOW_READ)) is None:
        return None
    return Pause(FEW_EVENTS if _merges(case.chain) else script.OPENING_EVENTS, fault.seconds)


def _leaves_at(case: Case) -> int | None:
    if case.fault(Kind.LEAVE) is None:
        return None
    return FEW_EVENTS if _merges(case.chain) else max(FEW_EVENTS, case.events * 2 // 5)
