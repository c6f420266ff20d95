"""The chains: who asks whom, with a tap missing as without, and what real parts are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel.demo.faults import HOPS
from otel.demo.topology import PORTS, Topology
from tests.lab.draw import OURS, Chain, Part
from tests.lab.parts import Programs, topology

PATHS = {"nginx": "/bin/nginx", "haproxy": "/bin/haproxy"}


def placed(chain: Chain, folder: Path = Path("/lab")) -> Topology:
    return topology(chain, ports=range(1_001, 1_001 + PORTS), folder=folder, paths=PATHS)


def option(of: Topology, name: str, flag: str) -> str:
    [command] = [command for command in of.commands if command.name == name]
    return command.arguments[command.arguments.index(flag) + 1]


def test_every_tapped_hop_has_a_sidecar_and_is_asked_through_it() -> None:
    of = placed(Chain())
    worker, proxy, gateway = HOPS
    for asking, asked in ((proxy, worker), (gateway, proxy)):
        assert option(of, asking, "--next") == "http://" + option(of, f"{asked} sidecar", "--listen")
    assert of.gateway_url == "http://" + option(of, f"{gateway} sidecar", "--listen")


@pytest.mark.parametrize("blind", HOPS)
def test_a_hop_without_a_tap_is_asked_itself(blind: str) -> None:
    of = placed(Chain(blind=blind))
    assert f"{blind} sidecar" not in [command.name for command in of.commands]
    asked = [of.gateway_url, *(option(of, hop, "--next") for hop in HOPS[1:])]
    assert f"http://127.0.0.1:{option(of, blind, '--port')}" in asked


@pytest.mark.parametrize("part", [part for part in Part if part not in OURS])
def test_a_real_part_listens_asks_the_next_hop_and_says_when_it_is_ready(part: Part, tmp_path: Path) -> None:
    of = placed(Chain(gateway=part), tmp_path)
    [gateway] = [command for command in of.commands if command.name == "gateway"]
    told = (tmp_path / "gateway-own" / "config").read_text()
    assert gateway.program == PATHS[part.partition("-")[0]]
    assert gateway.ready_url.split("/")[2] in told
    assert option(of, "inference-proxy sidecar", "--listen") in told
    assert "proxy_buffering off" in told or part is not Part.NGINX


def test_parts_are_those_whose_program_is_there() -> None:
    assert Programs({}, {"nginx": "no"}).parts == [Part.APP, Part.REBUILDER]
    assert Programs({"nginx": "/n"}, {}).parts == [Part.APP, Part.REBUILDER, Part.NGINX, Part.NGINX_BUFFERING]
