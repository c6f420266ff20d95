"""Run mixed faults against one sidecar process for long, and see that nothing grows and nothing is lost.

    python -m tests.soak --minutes 2 [--loop asyncio] [--clients 30] [--seed N]

Now and then everybody pauses; what the process holds then must be what it held after the first pause: memory, tasks
and descriptors. In the end every request that reached a handler has exactly one record, with an ending that fits what
was done to it, and the sidecar's own counters agree. Prints a table; exit code 1 when anything does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from aiohttp import web

from otel.hop import Ending, State
from otel.otlp import decode_request
from otel.span import span_to_hop
from tests.soak.scenarios import LIMIT_S, SCENARIOS, Crowd, Endings, answer
from tests.support.processes import Fleet, Sidecar, free_ports, until
from tests.support.raw_peers import RawUpstream, raw_upstream
from tests.support.sidecars import cpu_s, idle
from tests.support.tiers import told

PAUSES = 8
"""Looks at the process while nothing runs, spread over the run; the first is where it has warmed up."""
POOLED_S = 4.5
"""After this nothing is left of connections that were kept to be used again."""
GROWTH_BYTES = 16 << 20
"""Most that memory may be above that of the first look: the allocator breathes, by some MiB either way."""
LEAK_BYTES = 4 << 20
"""Most that the least of the later half of the looks may be above the most of the first half: what breathes goes down
again, what leaks does not."""
TICK_S = 0.05
SPARE_DESCRIPTORS = 8
SPARE_TASKS = 4
LOST = ("records_lost", "relay_failures", "recording_failures", "look_failures", "export_dropped", "export_rejected")
"""Counters that must not move."""


@dataclass
class Tally:
    """What the records said, by request: only what is compared, for there will be very many."""

    endings: dict[str, list[Ending]] = field(default_factory=dict)
    spans: set[str] = field(default_factory=set)
    count: int = 0

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        if request.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        for hop in map(span_to_hop, decode_request(body)):
            if hop.state is State.FINAL and hop.end is not None:
                self.count += 1
                self.spans.add(hop.span_id)
                self.endings.setdefault(hop.request_id, []).append(hop.end.ending)
        return web.Response(content_type="application/x-protobuf")


@dataclass
class Expected:
    """What the clients did, by request."""

    endings: dict[str, Endings] = field(default_factory=dict)
    sure: set[str] = field(default_factory=set)
    by_scenario: Counter[str] = field(default_factory=Counter)
    scenario_of: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Look:
    """What the process held while nothing ran."""

    at_s: float
    resident_bytes: int
    descriptor_count: int
    task_count: int | None
    upstream_count: int


class Soak:
    """One run: its peers, its clients, and what was seen."""

    def __init__(self, sidecar: Sidecar, upstream: RawUpstream, tally: Tally, *, dead_port: int, seed: int) -> None:
        self.sidecar, self.upstream, self.tally = sidecar, upstream, tally
        self.crowd = Crowd(sidecar.port, dead_port, [], count())
        self.expected = Expected()
        self.looks: list[Look] = []
        self.late_s = 0.0
        """Longest that this process itself was late: what the peers did not do then is no fault of the sidecar."""
        self._rng = random.Random(seed)
        self._may_go = asyncio.Event()
        self._busy_count = 0

    async def client(self) -> None:
        """One visit after the other, until cancelled."""
        choices, weights = list(SCENARIOS), list(SCENARIOS.values())
        while True:
            await self._may_go.wait()
            scenario = self._rng.choices(choices, weights)[0]
            self._busy_count += 1
            try:
                visits = await scenario(self.crowd, random.Random(self._rng.random()))
            except Exception as error:  # a client that cannot do what it wants to is a finding, not the end
                self.crowd.complaints.append(f"{scenario.__name__}: {type(error).__name__}: {error}")
                visits = []
            finally:
                self._busy_count -= 1
            self.expected.by_scenario[scenario.__name__] += 1
            for visit in visits:
                self.expected.endings[visit.request_id] = visit.endings
                self.expected.scenario_of[visit.request_id] = scenario.__name__
                if visit.is_sure:
                    self.expected.sure.add(visit.request_id)
            self.upstream.asked.clear()

    async def watch(self) -> None:
        """Notice when our own loop is held up."""
        while True:
            due = time.monotonic() + TICK_S
            await asyncio.sleep(TICK_S)
            self.late_s = max(self.late_s, time.monotonic() - due)

    async def run(self, *, minutes: float, clients: int) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.watch()), *(group.create_task(self.client()) for _ in range(clients))]
            began = time.monotonic()
            for pause in range(1, PAUSES + 1):
                self._may_go.set()
                await asyncio.sleep(max(0.0, began + minutes * 60 * pause / PAUSES - time.monotonic()))
                await self.pause(began)
            for task in tasks:
                task.cancel()

    async def pause(self, began: float) -> None:
        """Let everybody finish, wait until nothing is kept, and look."""
        self._may_go.clear()
        await until(lambda: not self._busy_count, "every client pauses", within_s=60)
        await idle(self.sidecar, within_s=30)
        await asyncio.sleep(POOLED_S)
        metrics = await self.sidecar.metrics()
        tasks = metrics.get("gapline_tasks")
        look = Look(
            time.monotonic() - began,
            self.sidecar.resident_bytes,
            self.sidecar.descriptor_count,
            None if tasks is None else round(tasks),
            round(metrics.get("gapline_upstream_connections", 0)),
        )
        self.looks.append(look)
        print(
            f"{look.at_s:7.0f} s {len(self.expected.endings):8} requests {look.resident_bytes / (1 << 20):8.1f} MiB"
            f" {look.descriptor_count:5} descriptors {look.task_count or '-':>4} tasks",
            flush=True,
        )

    # What must hold.

    async def failures(self) -> list[str]:
        await until(lambda: self.tally.count >= self._ended(), "every record is delivered", within_s=30)
        metrics = await self.sidecar.metrics()
        return [*self._of_records(metrics), *self._of_looks(), *self._of_log(), *self._of_clients()]

    def _ended(self) -> int:
        return sum(" exchange ended " in line for line in self.sidecar.said.splitlines())

    def _of_records(self, metrics: dict[str, float]) -> Iterator[str]:
        ended = round(sum(value for name, value in metrics.items() if name.startswith("gapline_exchanges_total{")))
        if not ended == self.tally.count == len(self.tally.spans) == self._ended():
            yield (
                f"{ended} exchanges counted, {self.tally.count} records, {len(self.tally.spans)} spans, "
                f"{self._ended()} lines"
            )
        strange = self.tally.endings.keys() - self.expected.endings.keys()
        if strange:
            yield f"{len(strange)} records of nobody's request, {sorted(strange)[:3]}"
        missing = self.expected.sure - self.tally.endings.keys()
        if missing:
            kinds = Counter(self.expected.scenario_of[each] for each in missing)
            yield f"{len(missing)} requests without a record: {dict(kinds)}, {sorted(missing)[:3]}"
        for request_id, endings in self.tally.endings.items():
            if len(endings) != 1:
                yield f"{request_id} has {len(endings)} records"
            allowed = self.expected.endings.get(request_id)
            if allowed is not None and not allowed.issuperset(endings):
                yield f"{request_id} ({self.expected.scenario_of[request_id]}) ended {endings}, expected {set(allowed)}"
        for word in LOST:
            lost = sum(value for name, value in metrics.items() if name.startswith(f"gapline_{word}_total"))
            if lost:
                yield f"gapline_{word}_total is {lost:g}"

    def _of_looks(self) -> Iterator[str]:
        first, *later = self.looks
        for look in later:
            if look.resident_bytes > first.resident_bytes + GROWTH_BYTES:
                yield f"memory {(look.resident_bytes - first.resident_bytes) >> 20} MiB above the first look"
            if look.descriptor_count > first.descriptor_count + SPARE_DESCRIPTORS:
                yield f"{look.descriptor_count} descriptors, {first.descriptor_count} at the first look"
            if None not in {look.task_count, first.task_count} and look.task_count > first.task_count + SPARE_TASKS:
                yield f"{look.task_count} tasks, {first.task_count} at the first look"
        sizes, half = [look.resident_bytes for look in self.looks], len(self.looks) // 2
        leaked_bytes = min(sizes[half:]) - max(sizes[:half])
        if leaked_bytes > LEAK_BYTES:
            yield f"memory never came down again, by {leaked_bytes / (1 << 20):.1f} MiB"

    def _of_log(self) -> Iterator[str]:
        bad = ("unhandled", "exchange lost", "record lost", "look failed", "Traceback", "never retrieved")
        lines = [line for line in self.sidecar.said.splitlines() if any(word in line for word in bad)]
        if lines:
            yield f"{len(lines)} lines of the log that should not be there, the first: {lines[0][:300]}"

    def _of_clients(self) -> Iterator[str]:
        """What clients complain of, each kind once with its count: a frequent one must not hide a rare one."""
        kinds: dict[str, list[str]] = {}
        for complaint in self.crowd.complaints:
            kinds.setdefault(re.sub(r"soak-\d+:? ?", "", complaint), []).append(complaint)
        for kind, complaints in sorted(kinds.items()):
            yield f"{len(complaints)} clients: {kind} (first: {complaints[0].partition(' ')[0]})"

    def table(self) -> str:
        endings: dict[str, Counter[str]] = {}
        for request_id, found in self.tally.endings.items():
            kind = self.expected.scenario_of.get(request_id, "?")
            endings.setdefault(kind, Counter()).update(ending.value for ending in found)
        rows = [
            f"{name:<16}{number:>8}  {', '.join(f'{e} {n}' for e, n in endings.get(name, Counter()).most_common())}"
            for name, number in self.expected.by_scenario.most_common()
        ]
        return "\n".join([f"{'scenario':<16}{'visits':>8}  endings of its requests", *rows])


async def soak(options: argparse.Namespace, folder: Path) -> int:
    tally = Tally()
    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/v1/traces", tally.take)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    dead_port, nobody = free_ports(2)
    flags = [
        *("--loop", options.loop, "--egress", f"dead=127.0.0.1:{dead_port}=http://127.0.0.1:{nobody}"),
        *("--request-head-timeout", f"{LIMIT_S}s", "--request-body-timeout", f"{LIMIT_S}s"),
        *("--answer-timeout", f"{LIMIT_S}s", "--slow-reader", "end", "--write-deadline", f"{LIMIT_S}s"),
    ]
    try:
        with Fleet(folder) as fleet:
            async with raw_upstream(answer) as upstream:
                url = f"http://127.0.0.1:{runner.addresses[0][1]}"
                sidecar = fleet.sidecar("here", upstream.url, *flags, export=url)
                await fleet.ready()
                run = Soak(sidecar, upstream, tally, dead_port=dead_port, seed=options.seed)
                await run.run(minutes=options.minutes, clients=options.clients)
                failures = await run.failures()
                print(run.table())
                counts = f"{len(run.expected.endings)} requests, {tally.count} records"
                lag_s = (await sidecar.metrics())["gapline_loop_lag_seconds_total"]
                print(
                    f"{counts}, {cpu_s(sidecar):.0f} s of processor time; the sidecar's loop was late by {lag_s:.1f} s"
                )
                print(
                    f"the peers of this run were late by {run.late_s:.2f} s at most, and the limits are {LIMIT_S:g} s"
                )
                for failure in failures[:40]:
                    print(f"FAILS {failure}")
                print(f"{len(failures)} things do not hold")
                return int(bool(failures))
    finally:
        await runner.cleanup()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--minutes", type=float, default=2.0, help="how long [2]")
    parser.add_argument("--clients", type=int, default=30, help="how many at a time [30]")
    parser.add_argument("--loop", choices=("uvloop", "asyncio"), default="uvloop", help="the sidecar's [uvloop]")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31), help="[drawn, and printed]")
    options = parser.parse_args(arguments)
    what = f"{options.minutes:g} minutes, {options.clients} clients, {options.loop}, {told()}"
    print(f"seed {options.seed}, {what}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(soak(options, Path(folder)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
