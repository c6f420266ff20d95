"""The processes of the benchmark: each answers for itself, and nothing of them stays behind."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from otel.demo.processes import StartError
from tests.bench.contenders import Contender
from tests.bench.loads import FLOOD, SHORT
from tests.bench.machine import Cores
from tests.bench.stage import Stage, counted, staged

pytestmark = pytest.mark.e2e

FREE = Cores(None, None, is_first=False)
RELAY = Contender(name="raw", title="raw", arguments=("tests.bench.raw", "${port}", "${next_port}"))


@pytest.fixture(scope="module")
def stage(c_programs: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(folder=tmp_path_factory.mktemp("stage"), cores=FREE, paths=c_programs) as found:
        yield found


def test_the_upstream_counts_what_it_made_and_the_readers_what_they_got(stage: Stage) -> None:
    load = replace(FLOOD, streams=2, ramp_s=0.05, settle_s=0.05, window_s=0.2)
    stage.shape(load)
    at_ns = time.monotonic_ns()
    with stage.readers(load, port=stage.port, open_ns=at_ns, close_ns=at_ns + 300_000_000) as readers:
        found, said = counted(readers, within_s=5.0)
    assert (said, dict(found.wrong), found.whole) == ("", {}, 2)
    assert found.events == stage.sent_events() > 100


def test_a_load_that_is_set_begins_its_counts_anew(stage: Stage) -> None:
    stage.shape(SHORT)
    assert stage.sent_events() == 0


def test_contenders_run_for_as_long_as_the_block(stage: Stage) -> None:
    with stage.running([RELAY]) as running:
        pid = running.pid("raw")
        os.kill(pid, 0)
        assert running.ended() == []
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_contender_that_does_not_start_says_why(stage: Stage) -> None:
    broken = replace(RELAY, arguments=("tests.bench.raw", "no-port", "${next_port}"))
    with pytest.raises(StartError, match="invalid literal"), stage.running([broken]):
        pass


def test_an_upstream_ends_with_its_block(c_programs: dict[str, str], tmp_path: Path) -> None:
    with staged(folder=tmp_path, cores=FREE, paths=c_programs) as found:
        os.kill(found.pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(found.pid, 0)
