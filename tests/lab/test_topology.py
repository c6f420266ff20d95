"""The processes: who asks whom, with taps missing and with two at a hop, and what real parts are told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from otel.demo.processes import Command
from otel.demo.topology import Topology
from tests.lab.chain import NAMES, Chain, Place, Tap
from tests.lab.middles import MIDDLES, Part
from tests.lab.namespaces import CONTROL
from tests.lab.topology import ports_of, topology

PATHS = {"nginx": "/bin/nginx", "haproxy": "/bin/haproxy"}


def placed(chain: Chain, folder: Path = Path("/lab")) -> Topology:
    return topology(chain, ports=range(1_001, 1_001 + ports_of(chain)), folder=folder, paths=PATHS)


def option(of: Topology, name: str, flag: str) -> str:
    [command] = [command for command in of.commands if command.name == name]
    return command.arguments[command.arguments.index(flag) + 1]


@pytest.mark.parametrize("count", NAMES)
def test_every_tapped_hop_has_a_sidecar_and_is_asked_through_it(count: int) -> None:
    of = placed(Chain.of(*[Part.APP] * (count - 1)))
    for asked, asking in zip(NAMES[count][:-1], NAMES[count][1:], strict=True):
        assert option(of, asking, "--next") == "http://" + option(of, f"{asked} sidecar", "--listen")
    assert of.gateway_url == "http://" + option(of, "gateway sidecar", "--listen")


@pytest.mark.parametrize("blind", NAMES[4])
def test_a_hop_without_a_tap_is_asked_itself(blind: str) -> None:
    of = placed(Chain.of(Part.APP, Part.APP, Part.APP).without(blind))
    assert f"{blind} sidecar" not in [command.name for command in of.commands]
    asked = [of.gateway_url, *(option(of, hop, "--next") for hop in NAMES[4][1:])]
    assert f"http://127.0.0.1:{option(of, blind, '--port')}" in asked


def test_a_hop_with_two_taps_asks_the_next_hop_through_its_own_sidecar() -> None:
    chain = Chain.of(Part.APP, Part.APP)
    worker, proxy, gateway = chain.hops
    of = placed(replace(chain, hops=(worker, replace(proxy, tap=Tap.BOTH), gateway)))
    [own] = [command for command in of.commands if command.name == "inference-proxy sidecar"]
    [egress] = [words for words in own.arguments if words.startswith("--egress=")]
    _, _, listens, asks = egress.split("=", 3)
    assert option(of, "inference-proxy", "--next") == f"http://{listens}"
    assert asks == "http://" + option(of, "model-worker sidecar", "--listen")


def test_small_buffers_are_told_to_apps_of_ours_alone() -> None:
    chain = replace(Chain.of(Part.APP, Part.REBUILDER), has_small_buffers=True)
    told = {command.name: any("--buffer" in word for word in command.arguments) for command in placed(chain).commands}
    assert [name for name, is_told in told.items() if is_told] == list(chain.names)


@pytest.mark.parametrize("part", [part for part, middle in MIDDLES.items() if {*middle.needs} & {*PATHS}])
def test_a_real_part_listens_asks_the_next_hop_and_says_when_it_is_ready(part: Part, tmp_path: Path) -> None:
    of = placed(Chain.of(Part.APP, part), tmp_path)
    [gateway] = [command for command in of.commands if command.name == "gateway"]
    told = "".join(file.read_text() for file in tmp_path.rglob("*") if file.is_file())
    assert gateway.program == PATHS[MIDDLES[part].needs[0]]
    assert gateway.ready_url.split("/")[2] in told
    assert option(of, "inference-proxy sidecar", "--listen") in told


class Hosts:
    """A network that only says where things are."""

    def __init__(self) -> None:
        self.placed: dict[str, str] = {}

    def address(self, place: str) -> str:
        return f"{place}.host"

    def control_address(self) -> str:
        return "control.host"

    def wrap(self, command: Command, place: str) -> Command:
        self.placed[command.name] = place
        return command


def test_with_links_every_hop_and_its_sidecar_are_on_one_host_and_the_next_asks_there() -> None:
    chain, hosts = Chain.of(Part.APP, Part.APP), Hosts()
    of = topology(chain, ports=range(1, 1 + ports_of(chain)), folder=Path("/lab"), paths={}, network=cast("Any", hosts))
    assert hosts.placed == {
        "collector": CONTROL,
        **{name: name for name in chain.names},
        **{f"{name} sidecar": name for name in chain.names},
    }
    assert option(of, "gateway", "--next").startswith("http://inference-proxy.host:")
    assert option(of, "gateway sidecar", "--export").startswith("http://control.host:")
    assert option(of, "gateway sidecar", "--upstream").startswith("http://127.0.0.1:")
    assert of.gateway_url.startswith("http://gateway.host:")


def test_a_clock_is_set_wrong_where_it_is_to_be() -> None:
    chain = Chain(
        (Place("model-worker", Part.SCRIPTED, skew_s=-3_600.0, drift_ppm=200.0), *Chain.of(Part.APP, Part.APP).hops[1:])
    )
    words = {command.name: " ".join(command.arguments) for command in placed(chain).commands}
    for flag in ("--clock-offset=-3600", "--clock-drift=+200"):
        assert [name for name, said in words.items() if flag in said] == ["model-worker sidecar"]
