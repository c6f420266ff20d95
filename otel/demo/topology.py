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
_PORTS_OF_COLLECTOR: Final = 2
_PORTS_OF_HOP: Final = 3
PORTS: Final = _PORTS_OF_COLLECTOR + _PORTS_OF_HOP * len(HOPS)


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
    spans_url, collector_url = _url(otlp), _url(query)
    commands = [
        _command(
            COLLECTOR,
            ("otel", "--grpc", "off", "--http", f"{_HOST}:{otlp}", "--query", f"{_HOST}:{query}"),
            ("--data", str(folder / "data"), "--path", ",".join(HOPS), "--first-event-after", f"{SLOW_FIRST_S:g}s"),
            ready=f"{collector_url}/readyz",
        )
    ]
    asked_url = ""
    for index, hop in enumerate(HOPS):  # source first, so that each hop can be told whom to ask
        door, app, admin = rest[_PORTS_OF_HOP * index :][:_PORTS_OF_HOP]
        run: tuple[str, ...]
        if hop != WORKER:
            run = ("otel.demo.middle", "--hop", hop, "--next", asked_url, *(("--real-engine",) if model else ()))
        elif model is not None:
            run = ("otel.demo.llama", "--model", str(model))
        else:
            run = ("otel.demo.worker",)
        health = "/health" if hop == WORKER and model is not None else "/healthz"
        commands += [
            _command(hop, run, ("--port", str(app)), ready=_url(app) + health),
            _command(
                f"{hop} sidecar",
                ("sidecar", "--hop", hop, "--listen", f"{_HOST}:{door}", "--upstream", _url(app)),
                ("--export", spans_url, "--admin", f"{_HOST}:{admin}"),
                (f"--clock-offset={skew[hop]:+f}",) if skew and hop in skew else (),
                ready=f"{_url(admin)}/readyz",
            ),
        ]
        asked_url = _url(door)
    return Topology(tuple(commands), gateway_url=asked_url, collector_url=collector_url)


def _command(name: str, *arguments: tuple[str, ...], ready: str) -> Command:
    return Command(name, tuple(word for words in arguments for word in words), ready)


def _url(port: int) -> str:
    return f"http://{_HOST}:{port}"
