"""Noise: who waited for a core, and which waits that explains."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from otel.demo.topology import sidecar_of
from tests.lab.canary import Canary
from tests.lab.chain import Chain
from tests.lab.middles import Part
from tests.lab.noise import Noise, noise_from_now, waited_s


def test_a_wait_is_explained_by_a_process_it_lies_between_that_waited_for_most_of_it() -> None:
    noise = Noise(0.0, {"gateway": 0.5, "router": 0.1})
    assert noise.explains(0.5, "router", "gateway")
    assert not noise.explains(0.7, "router", "gateway")
    assert not noise.explains(0.3, "router")
    assert not noise.explains(0.3, "filter")
    assert not noise.explains(0.0, "gateway")


def test_a_verdict_is_the_machines_where_a_process_at_the_named_wait_waited_as_long() -> None:
    chain = Chain.of(Part.APP, Part.APP)
    named = {"first_hop": "gateway", "contributions": [{"seconds": 0.5}, {"seconds": -0.1}]}
    assert Noise(0.0, {sidecar_of("inference-proxy"): 0.5}).has_made(named, chain) is True
    assert Noise(0.0, {"model-worker": 0.5}).has_made(named, chain) is False
    assert Noise(0.0, {"gateway": 0.5}).has_made(named | {"first_hop": None}, chain) is False


def test_noise_is_what_the_machine_did_since_one_began_to_look() -> None:
    before_s = waited_s(os.getpid())
    with Canary() as canary:
        noise = noise_from_now(canary, {"gateway": os.getpid()})()
    assert 0.0 <= noise.waited_s["gateway"] <= waited_s(os.getpid()) - before_s
    assert noise.lag_s >= 0.0


@pytest.mark.e2e
def test_processes_that_share_one_core_wait_for_each_other() -> None:
    burn = "import os, time\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nend = time.monotonic() + 20\n"
    command = (sys.executable, "-c", burn + "while time.monotonic() < end: pass")
    burning = [subprocess.Popen(command) for _ in range(2)]
    try:
        until_s = time.monotonic() + 15
        while time.monotonic() < until_s and min(waited_s(process.pid) for process in burning) < 0.2:
            time.sleep(0.05)
        assert min(waited_s(process.pid) for process in burning) >= 0.2
    finally:
        for process in burning:
            process.kill()
            process.wait()


def test_a_process_that_is_not_there_has_waited_for_nothing() -> None:
    assert waited_s(os.getpid()) >= 0.0
    assert waited_s(2**22 + 1) == 0.0
