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
from tests.lab.namespaces import CONTROL, Network

LOCAL: Final = "127.0.0.1"
PORTS_OF_PLACE: Final = 4
"""Its sidecar's door, the app, the sidecar's admin address, and where the app asks through the sidecar."""
SMALL_BYTES: Final = 8_192
"""Kernel buffers, where they are small: a few events fill them."""


def ports_of(chain: Chain) -> int:
    return PORTS_OF_COLLECTOR + PORTS_OF_PLACE * len(chain.hops)


def topology(
    chain: Chain,
    *,
    ports: Sequence[int],
    folder: Path,
    paths: Mapping[str, str],
    network: Network | None = None,
) -> Topology:
    """The processes of this chain. paths: where the programs of its real parts are.

    network: in which every hop has a host of its own; each listens to its sidecar there, and its sidecar to the link.
    """
    otlp, query, *rest = ports
    heard_at = LOCAL if network is None else network.control_address()
    spans_url = url(otlp, host=heard_at)
    commands = [_within(network, collector(otlp=otlp, query=query, folder=folder, hops=chain.names, host=heard_at))]
    asked_url = ""
    for index, place in enumerate(chain.hops):
        door, app, admin, egress = rest[PORTS_OF_PLACE * index :][:PORTS_OF_PLACE]
        more: list[str] = ["--exact"] if chain.is_exact else []
        more += [f"--clock-drift={place.drift_ppm:+g}"] if place.drift_ppm else []
        if place.tap is Tap.BOTH:
            more.append(f"--egress=next=127.0.0.1:{egress}={asked_url}")
            asked_url = url(egress)
        run = _app(chain, place, port=app, asked_url=asked_url, folder=folder, paths=paths)
        commands.append(_within(network, run, place.name))
        asked_url = url(app)
        if place.tap is not Tap.NONE:
            host = LOCAL if network is None else network.address(place.name)
            stands = {"door": door, "app": app, "admin": admin}
            own = sidecar(place.name, **stands, spans_url=spans_url, skew_s=place.skew_s or None, more=more, host=host)
            commands.append(_within(network, own, place.name))
            asked_url = url(door, host=host)
    return Topology(tuple(commands), gateway_url=asked_url, collector_url=url(query))


def _within(network: Network | None, run: Command, place: str = CONTROL) -> Command:
    return run if network is None else network.wrap(run, place)


def _app(chain: Chain, place: Place, *, port: int, asked_url: str, folder: Path, paths: Mapping[str, str]) -> Command:
    run = PARTS[place.part].command(place.name, port=port, asked_url=asked_url, folder=folder, paths=paths)
    return replace(run, arguments=(*run.arguments, *_buffers(chain, run)))


def _buffers(chain: Chain, run: Command) -> Iterator[str]:
    if chain.has_small_buffers and run.program is None and run.arguments[0].startswith("tests.lab."):
        yield f"--buffer={SMALL_BYTES}"
