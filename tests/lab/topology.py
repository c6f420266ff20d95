"""The processes of a chain: a collector, and for every hop its app and its sidecar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from otel.demo.processes import Command
from otel.demo.topology import PORTS_OF_COLLECTOR, Topology, collector, sidecar, url
from tests.lab.chain import Chain, Place, Tap
from tests.lab.middles import PARTS

PORTS_OF_PLACE: Final = 4
"""Its sidecar's door, the app, the sidecar's admin address, and where the app asks through the sidecar."""
SMALL_BYTES: Final = 8_192
"""Kernel buffers, where they are small: a few events fill them."""


def ports_of(chain: Chain) -> int:
    return PORTS_OF_COLLECTOR + PORTS_OF_PLACE * len(chain.hops)


def topology(chain: Chain, *, ports: Sequence[int], folder: Path, paths: Mapping[str, str]) -> Topology:
    """The processes of this chain. paths: where the programs of its real parts are."""
    otlp, query, *rest = ports
    commands = [collector(otlp=otlp, query=query, folder=folder, hops=chain.names)]
    asked_url = ""
    for index, place in enumerate(chain.hops):
        door, app, admin, egress = rest[PORTS_OF_PLACE * index :][:PORTS_OF_PLACE]
        more: list[str] = ["--exact"] if chain.is_exact else []
        more += [f"--clock-drift={place.drift_ppm:+g}"] if place.drift_ppm else []
        if place.tap is Tap.BOTH:
            more.append(f"--egress=next=127.0.0.1:{egress}={asked_url}")
            asked_url = url(egress)
        commands.append(_app(chain, place, port=app, asked_url=asked_url, folder=folder, paths=paths))
        asked_url = url(app)
        if place.tap is not Tap.NONE:
            ends = {"door": door, "app": app, "admin": admin}
            commands.append(sidecar(place.name, **ends, spans_url=url(otlp), skew_s=place.skew_s or None, more=more))
            asked_url = url(door)
    return Topology(tuple(commands), gateway_url=asked_url, collector_url=url(query))


def _app(chain: Chain, place: Place, *, port: int, asked_url: str, folder: Path, paths: Mapping[str, str]) -> Command:
    run = PARTS[place.part].command(place.name, port=port, asked_url=asked_url, folder=folder, paths=paths)
    return replace(run, arguments=(*run.arguments, *_buffers(chain, run)))


def _buffers(chain: Chain, run: Command) -> Iterator[str]:
    if chain.has_small_buffers and run.program is None and run.arguments[0].startswith("tests.lab."):
        yield f"--buffer={SMALL_BYTES}"
