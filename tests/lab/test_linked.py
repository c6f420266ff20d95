"""A chain in a network of its own, and what is watched of it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from otel.demo.faults import CLIENT, GATEWAY, WORKER
from tests.lab import namespaces
from tests.lab.linked import connected, running, watched
from tests.lab.namespaces import Network
from tests.lab.stopping import read


@pytest.mark.e2e
@pytest.mark.skipif((why := namespaces.missing()) is not None, reason=str(why))
def test_a_chain_answers_over_its_links_and_the_collector_has_every_hop(tmp_path: Path) -> None:
    with Network((WORKER, GATEWAY, CLIENT)) as network, running(network, tmp_path) as linked:
        with connected(linked, receive_bytes=16_384) as wire:
            reading = read(wire, request_id="linked", body={"events": 20, "chars": 10, "pace_ms": 5.0})
        assert reading.is_whole
        until_s = time.monotonic() + 10
        hops: set[str] = set()
        while hops != {WORKER, GATEWAY} and time.monotonic() < until_s:
            time.sleep(0.1)
            hops = {hop["hop"] for hop in linked.collected("/v1/requests/linked/verdict").get("hops", ())}
        assert hops == {WORKER, GATEWAY}
        assert [linked.running(hop) for hop in (WORKER, GATEWAY)] == [[], []]
        assert len(linked.logged(GATEWAY, "exchange ended")) == 1


def test_who_watches_looks_until_told_to_end() -> None:
    looks: list[float] = []
    end = watched(lambda: looks.append(time.monotonic()), every_s=0.001)
    while len(looks) < 3:
        time.sleep(0.001)
    end()
    count = len(looks)
    time.sleep(0.02)
    assert len(looks) == count


def test_a_look_that_fails_is_told_to_who_ends_it() -> None:
    def fail() -> None:
        raise ValueError("no")

    end = watched(fail, every_s=0.001)
    time.sleep(0.02)
    with pytest.raises(ValueError, match="no"):
        end()
