"""One measurement over real processes: figures of a proxy that works, and none of one that does not."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench.contenders import PLAIN, Contender, contenders
from tests.bench.loads import ANCHOR, IDLE, SHORT, STUCK
from tests.bench.machine import Cores
from tests.bench.measuring import measure
from tests.bench.stage import Running, Stage, staged

pytestmark = pytest.mark.e2e

FREE = Cores(None, None, is_first=False)
SMALL = {"streams": 4, "ramp_s": 0.05, "settle_s": 0.1, "window_s": 0.3}
PROXY = next(each for each in contenders() if each.name == PLAIN)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stage")


@pytest.fixture(scope="module")
def stage(c_programs: dict[str, str], folder: Path) -> Iterator[Stage]:
    with staged(folder=folder, cores=FREE, paths=c_programs) as found:
        yield found


@pytest.fixture(scope="module")
def running(stage: Stage) -> Iterator[Running]:
    with stage.running([PROXY]) as found:
        yield found


def test_events_are_counted_with_what_they_cost(stage: Stage, running: Running) -> None:
    found = measure(stage, running, PROXY, replace(ANCHOR, **SMALL))
    assert found.faults == ()
    assert 0 < found.delivered < 2
    assert 1 < found.cpu_us_per_event < 20_000
    assert found.p50_us > 0
    assert found.load_share > 0
    assert found.all_events > found.events
    assert found.all_cpu_s > found.cpu_s


def test_requests_are_counted_with_what_they_cost(stage: Stage, running: Running) -> None:
    found = measure(stage, running, PROXY, replace(SHORT, **SMALL))
    assert found.faults == ()
    assert 1 < found.cpu_us_per_request < 100_000


@pytest.mark.parametrize("load", [IDLE, STUCK], ids=["idle", "stuck"])
def test_streams_that_rest_are_whole_in_the_end(stage: Stage, running: Running, load: object) -> None:
    found = measure(stage, running, PROXY, replace(load, **SMALL))
    assert found.faults == ()


CHANGES = """
import asyncio, sys
from tests.bench import raw

class Changing(raw.Side):
    def data_received(self, data):
        super().data_received(data.replace(b" 000000003", b" 000000004"))

raw.Side = Changing
asyncio.run(raw.main(int(sys.argv[1]), int(sys.argv[2])))
"""


def test_a_proxy_that_changes_a_byte_has_no_figure(stage: Stage, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "changing_relay.py").write_text(CHANGES)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    changing = Contender(name="changing", title="changing", arguments=("changing_relay", "${port}", "${next_port}"))
    with stage.running([changing]) as running:
        found = measure(stage, running, changing, replace(ANCHOR, **SMALL))
    assert "4 × order" in found.faults


def test_a_proxy_that_is_gone_has_no_figure(stage: Stage) -> None:
    with stage.running([PROXY]) as running:
        os.kill(running.pid(PROXY.name), signal.SIGKILL)
        until_s = time.monotonic() + 5
        while not running.ended() and time.monotonic() < until_s:
            time.sleep(0.01)
        assert "4 × connect" in measure(stage, running, PROXY, replace(ANCHOR, **SMALL)).faults
        assert running.ended() == [PROXY.name]
