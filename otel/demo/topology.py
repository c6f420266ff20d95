r"""Where everything stands: a reader, three hops, a sidecar before each, a collector that hears from all of them.

    reader -> [sidecar] gateway -> [sidecar] inference-proxy -> [sidecar] model-worker
                   \                   |                         /
                    \__________________|________________________/  spans
                                    collector

To place a sidecar, start it on the address at which the hop is asked, and tell it where the hop now listens.
Nothing else changes: the hop does not know, and whoever asks it only needs the sidecar's address.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from otel.demo.faults import HOPS, SLOW_FIRST_S, WORKER
from otel.demo.processes import Command

COLLECTOR: Final = "collector"
_HOST: Final = "127.0.0.1"
PORTS_OF_COLLECTOR: Final = 2
PORTS_OF_HOP: Final = 3
PORTS: Final = PORTS_OF_COLLECTOR + PORTS_OF_HOP * len(HOPS)


@dataclass(frozen=True, slots=True)
class Topology:
    """All processes, and the two addresses that matter: where a client asks, and where verdicts are."""

    commands: tuple[Command, ...]
    gateway_url: str
    collector_url: str


def topology(
    *,
    ports: Sequence[int],
    folder: Path,
    skew: Mapping[str, float] | None = None,
    model: Path | None = None,
) -> Topology:
    """The processes of a demo on the given ports. model: the file that llama.cpp serves; None is the scripted worker.

    skew: seconds by which the clocks of a hop's sidecar are wrong.
    """
    otlp, query, *rest = ports
    spans_url, collector_url = url(otlp), url(query)
    commands = [collector(otlp=otlp, query=query, folder=folder)]
    asked_url = ""
    for index, hop in enumerate(HOPS):  # source first, so that each hop can be told whom to ask
        door, app, admin = rest[PORTS_OF_HOP * index :][:PORTS_OF_HOP]
        run: tuple[str, ...]
        if hop != WORKER:
            run = ("otel.demo.middle", "--hop", hop, "--next", asked_url, *(("--real-engine",) if model else ()))
        elif model is not None:
            run = ("otel.demo.llama", "--model", str(model))
        else:
            run = ("otel.demo.worker",)
        health = "/health" if hop == WORKER and model is not None else "/healthz"
        skew_s = skew[hop] if skew and hop in skew else None
        commands += [
            command(hop, run, ("--port", str(app)), ready=url(app) + health),
            sidecar(hop, door=door, app=app, admin=admin, spans_url=spans_url, skew_s=skew_s),
        ]
        asked_url = url(door)
    return Topology(tuple(commands), gateway_url=asked_url, collector_url=collector_url)


def collector(*, otlp: int, query: int, folder: Path, hops: Sequence[str] = HOPS, host: str = _HOST) -> Command:
    """A collector with its store in the folder, which knows what hops there are. host: where spans are sent to."""
    return command(
        COLLECTOR,
        ("otel", "--grpc", "off", "--http", f"{host}:{otlp}", "--query", f"{_HOST}:{query}"),
        ("--data", str(data_of(folder)), "--path", ",".join(hops), "--first-event-after", f"{SLOW_FIRST_S:g}s"),
        () if host == _HOST else ("--insecure",),
        ready=f"{url(query)}/readyz",
    )


def data_of(folder: Path) -> Path:
    """Where the collector's store is."""
    return folder / "data"


def sidecar(
    hop: str,
    *,
    door: int,
    app: int,
    admin: int,
    spans_url: str,
    skew_s: float | None = None,
    more: Sequence[str] = (),
    host: str = _HOST,
) -> Command:
    """The sidecar before a hop: whoever asks the hop asks the door. more: further options. host: of the door."""
    return command(
        sidecar_of(hop),
        ("sidecar", "--hop", hop, "--listen", f"{host}:{door}", "--upstream", url(app)),
        ("--export", spans_url, "--admin", f"{_HOST}:{admin}"),
        () if skew_s is None else (f"--clock-offset={skew_s:+f}",),
        tuple(more),
        ready=f"{url(admin)}/readyz",
    )


def sidecar_of(hop: str) -> str:
    """How the process of a hop's sidecar is called."""
    return f"{hop} sidecar"


def command(name: str, *arguments: tuple[str, ...], ready: str) -> Command:
    return Command(name, tuple(word for words in arguments for word in words), ready)


def url(port: int, *, host: str = _HOST) -> str:
    return f"http://{host}:{port}"
