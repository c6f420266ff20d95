"""Are the hops of a request joined through real gateways that drop or rewrite its ids, and is who was slow still named?

    python -m tests.lab.joining [--install] [--heavy]

Envoy overwrites a digit of the id; LiteLLM as it comes passes neither id nor trace on and rebuilds every chunk. The
worker is stopped for a while in every second answer, since a fault that a header asks for would not reach it. Exit
code 1 when a hop is missing in a verdict, or somebody else is named.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from otel.demo.answer import Answer
from otel.demo.conduct import Freeze, wait_for_verdict
from otel.demo.faults import GATEWAY, WORKER
from otel.demo.processes import Command, Processes, StartError, exit_on_signals
from otel.demo.reader import ask
from otel.demo.topology import PORTS_OF_COLLECTOR, PORTS_OF_HOP, Topology, collector, command, sidecar, url
from tests.lab.felt import FELT_S
from tests.lab.installed import programs
from tests.lab.middles import CONFIG, MIDDLES, Part
from tests.lab.starting import started

BETWEEN: Final = ("inference-proxy", "router")
EVENTS: Final = 120
STOPPED_S: Final = 2.0
REQUESTS: Final = 4
"""The first and every second one after it are healthy. LiteLLM imports for seconds while the first one waits."""
NEAR_S: Final = 0.1
"""How far the wait in the verdict may be from the reader's own, who is another process."""
FORWARDING: Final = "general_settings:\n  forward_client_headers_to_llm_api: true\n"
"""What the lab tells LiteLLM elsewhere, and few people do."""
_FIRST_LINE: Final = (__doc__ or "").split("\n", 1)[0]

Route = tuple[Part, ...]
"""What stands between the worker and the gateway, an app of the demo; the worker's neighbour first."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One answer and its verdict. hops: those of the verdict, source first, and traces how many they thought they were
    of: more than one where an app passed nothing on. felt_s: the reader's longest wait, be it the first."""

    hops: tuple[str, ...]
    traces: int
    route: Route
    is_stopped: bool
    said: str
    confidence: float
    gap_s: float
    felt_s: float

    @property
    def is_passed(self) -> bool:
        if self.hops != names_of(self.route) or (Part.LITELLM in self.route) != (self.traces > 1):
            return False
        if not self.is_stopped:
            return "@" not in self.said or (self.felt_s > FELT_S and not self.said.endswith(WORKER))
        return self.said == f"source_stall @ {WORKER}" and abs(self.gap_s - self.felt_s) < NEAR_S

    def __str__(self) -> str:
        mark, how = "joined" if self.is_passed else "WRONG", "stopped" if self.is_stopped else "healthy"
        waits = f"{self.gap_s:.2f} s of {self.felt_s:.2f} s felt, {self.traces} traces"
        return f"{mark:<8}{how:<9}{self.said} ({self.confidence:g}), {waits}, {' <- '.join(self.hops)}"


def routes(parts: Sequence[Part]) -> Iterator[Route]:
    """Each of those that are here alone, and both one after the other."""
    here = [part for part in (Part.ENVOY, Part.LITELLM) if part in parts]
    for part in here:
        yield (part,)
    if len(here) > 1:
        yield tuple(here)


def names_of(route: Route) -> tuple[str, ...]:
    """The hops, source first."""
    return (WORKER, *BETWEEN[: len(route)], GATEWAY)


def commands(route: Route, *, ports: Sequence[int], folder: Path, paths: Mapping[str, str]) -> Topology:
    """The processes of this route: a collector, a worker, and a sidecar before every hop."""
    otlp, query, *rest = ports
    names = names_of(route)
    made = [collector(otlp=otlp, query=query, folder=folder, hops=names)]
    asked_url = ""
    for index, (name, part) in enumerate(zip(names, (None, *route, None), strict=True)):
        door, app, admin = rest[PORTS_OF_HOP * index :][:PORTS_OF_HOP]
        made += [
            _app(name, part, port=app, asked_url=asked_url, folder=folder, paths=paths),
            sidecar(name, door=door, app=app, admin=admin, spans_url=url(otlp)),
        ]
        asked_url = url(door)
    return Topology(tuple(made), gateway_url=asked_url, collector_url=url(query))


def _app(name: str, part: Part | None, *, port: int, asked_url: str, folder: Path, paths: Mapping[str, str]) -> Command:
    if part is None:
        ready = f"{url(port)}/healthz"
        if name == WORKER:
            return command(name, ("otel.demo.worker", "--port", str(port)), ready=ready)
        return command(name, ("otel.demo.middle", "--hop", name, "--port", str(port), "--next", asked_url), ready=ready)
    made = MIDDLES[part].command(name, port=port, asked_url=asked_url, folder=folder, paths=paths)
    if part is Part.LITELLM:
        config = folder / f"{name}-own" / CONFIG
        config.write_text(as_it_comes(config.read_text()))
    return made


def as_it_comes(config: str) -> str:
    """LiteLLM's configuration without the setting that has it pass headers on."""
    if FORWARDING not in config:
        raise ValueError(f"{config!r}: has no {FORWARDING!r} to leave out")
    return config.replace(FORWARDING, "")


def trials(route: Route, *, paths: Mapping[str, str]) -> list[Trial]:
    """Some answers through this route, one after the other."""
    with (
        tempfile.TemporaryDirectory(prefix="gapline-lab-", ignore_cleanup_errors=True) as folder,
        Processes(Path(folder)) as processes,
    ):
        of_route = partial(_placed, route, Path(folder), paths)
        placed = started(processes, of_route, ports=PORTS_OF_COLLECTOR + PORTS_OF_HOP * len(names_of(route)))
        made = [_trial(route, placed, processes.pid(WORKER), is_stopped=n % 2 == 1) for n in range(REQUESTS)]
        if ended := processes.ended():
            raise StartError(f"ended unasked: {', '.join(ended)}")
        return made


def _placed(route: Route, folder: Path, paths: Mapping[str, str], ports: Sequence[int]) -> Topology:
    return commands(route, ports=ports, folder=folder, paths=paths)


def _trial(route: Route, placed: Topology, worker_pid: int, *, is_stopped: bool) -> Trial:
    request_id = str(uuid.uuid4())
    stop = Freeze(worker_pid, at_event=EVENTS // 2, seconds=STOPPED_S) if is_stopped else None
    answer = _asked(placed.gateway_url, request_id, stop)
    verdict = wait_for_verdict(placed.collector_url, request_id, taps=names_of(route))
    return Trial(
        hops=tuple(hop["hop"] for hop in verdict["hops"]),
        traces=len({hop["trace_id"] for hop in verdict["hops"]}),
        route=route,
        is_stopped=is_stopped,
        said=f"{verdict['cause']} @ {verdict['first_hop']}" if verdict["first_hop"] else verdict["status"],
        confidence=verdict["confidence"],
        gap_s=verdict["gap_s"],
        felt_s=max(answer.longest_gap_s, answer.first_text_s or 0.0),
    )


def _asked(gateway_url: str, request_id: str, stop: Freeze | None) -> Answer:
    at = urlsplit(gateway_url)
    answer = ask(
        at.hostname or "",
        at.port or 0,
        headers={"x-request-id": request_id},
        body={
            "model": "scripted",
            "messages": [{"role": "user", "content": "Tell me a story."}],
            "stream": True,
            "max_tokens": EVENTS,
            "seed": 1,
        },
        on_event=stop.saw if stop else None,
    )
    if answer.status != HTTPStatus.OK:
        raise StartError(f"the answer was {answer.status}")
    return answer


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.joining", description=_FIRST_LINE)
    parser.add_argument("--heavy", action="store_true", help="also LiteLLM, which takes hundreds of megabytes")
    parser.add_argument("--install", action="store_true", help="real parts that are not here, where it may be")
    options = parser.parse_args(arguments)
    exit_on_signals()
    here = programs(may_install=options.install, heavy=options.heavy)
    for name, why in here.missing.items():
        print(f"no {name}: {why}", flush=True)
    done: list[Trial] = []
    for route in routes(here.parts):
        print(f"-- worker <- {' <- '.join(route)} <- gateway", flush=True)
        made = trials(route, paths=here.paths)
        done += made
        print("\n".join(map(str, made)), flush=True)
    print(f"\n{sum(trial.is_passed for trial in done)} of {len(done)} joined, and who was slow named")
    return 0 if all(trial.is_passed for trial in done) else 1


if __name__ == "__main__":
    sys.exit(main())
