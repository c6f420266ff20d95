"""Where everything stands: who asks whom, and that everything goes through a sidecar."""

from __future__ import annotations

from pathlib import Path

from otel.demo.faults import HOPS
from otel.demo.topology import PORTS, Topology, topology


def option(placed: Topology, name: str, flag: str) -> str:
    [command] = [command for command in placed.commands if command.name == name]
    return command.arguments[command.arguments.index(flag) + 1]


def placed(**changes: object) -> Topology:
    return topology(ports=range(1_001, 1_001 + PORTS), folder=Path("/demo"), **changes)  # type: ignore[arg-type]


def test_a_collector_and_for_each_hop_an_app_and_a_sidecar() -> None:
    names = [command.name for command in placed().commands]
    assert sorted(names) == sorted(["collector", *HOPS, *(f"{hop} sidecar" for hop in HOPS)])


def test_every_sidecar_stands_before_its_own_app() -> None:
    for hop in HOPS:
        assert option(placed(), f"{hop} sidecar", "--upstream") == f"http://127.0.0.1:{option(placed(), hop, '--port')}"


def test_every_app_asks_the_next_hop_through_its_sidecar_and_so_does_the_client() -> None:
    worker, proxy, gateway = HOPS
    for asking, asked in ((proxy, worker), (gateway, proxy)):
        assert option(placed(), asking, "--next") == "http://" + option(placed(), f"{asked} sidecar", "--listen")
    assert placed().gateway_url == "http://" + option(placed(), f"{gateway} sidecar", "--listen")


def test_every_sidecar_exports_to_the_collector() -> None:
    spans = "http://" + option(placed(), "collector", "--http")
    assert {option(placed(), f"{hop} sidecar", "--export") for hop in HOPS} == {spans}


def test_no_port_is_used_twice() -> None:
    asked = [command.ready_url.removesuffix("/").split("/")[2] for command in placed().commands]
    assert len(set(asked)) == len(asked)


def test_skew_shifts_the_clocks_of_one_sidecar() -> None:
    shifted = [
        (command.name, argument)
        for command in placed(skew={"gateway": -3600.0}).commands
        for argument in command.arguments
        if argument.startswith("--clock-offset")
    ]
    assert shifted == [("gateway sidecar", "--clock-offset=-3600.000000")]


def test_a_model_makes_llama_the_worker() -> None:
    [worker] = [command for command in placed(model=Path("/m.gguf")).commands if command.name == HOPS[0]]
    assert worker.arguments[0] == "otel.demo.llama"
    assert worker.ready_url.endswith("/health")
