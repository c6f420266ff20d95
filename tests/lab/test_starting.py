"""A chain is started again on other ports where one was taken, and not for ever."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from otel.demo.processes import PortTakenError, Processes
from otel.demo.topology import Topology, command, url
from tests.lab.starting import TRIES, started


@pytest.mark.e2e
@pytest.mark.timeout(60)
@pytest.mark.parametrize("taken_count", [0, 1, TRIES])
def test_ports_that_are_taken_are_given_up_for_others(taken_count: int, tmp_path: Path) -> None:
    tried = 0

    def placing(ports: Sequence[int]) -> Topology:
        nonlocal tried
        tried += 1
        port = taken.getsockname()[1] if tried <= taken_count else ports[0]
        app = command("app", ("otel.demo.worker", "--port", str(port)), ready=f"{url(port)}/healthz")
        return Topology((app,), gateway_url=url(port), collector_url="")

    with socket.create_server(("127.0.0.1", 0)) as taken, Processes(tmp_path) as processes:
        if taken_count < TRIES:
            assert started(processes, placing, ports=1).gateway_url != url(taken.getsockname()[1])
        else:
            with pytest.raises(PortTakenError):
                started(processes, placing, ports=1)
    assert tried == min(taken_count + 1, TRIES)
