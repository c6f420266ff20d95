"""The demo from end to end: real processes, real sockets, and verdicts that name what was planted."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from otel.demo import faults, script
from otel.demo.conduct import Question, Run, conduct
from otel.demo.faults import WORKER
from otel.demo.processes import Processes, free_ports
from otel.demo.topology import PORTS, Topology, topology

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

PLANTED = [
    *(f"{hop}:{kind}=1.2" for hop in faults.HOPS for kind in ("stall", "slow-first", "cut", "buffer")),
    "model-worker:freeze=1.2",
    "client:slow-read=1.2",
]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Topology, int]]:
    """One whole path for all questions: (its addresses, the worker's process)."""
    folder = tmp_path_factory.mktemp("demo")
    placed = topology(ports=free_ports(PORTS), folder=folder, skew={"inference-proxy": 3600.0, "gateway": -3600.0})
    with Processes(folder) as processes:
        for command in placed.commands:
            processes.start(command)
        processes.wait_ready(lambda _: None)
        yield placed, processes.pid(WORKER)


def ask(running: tuple[Topology, int], fault: str, *, seed: int = 1) -> Run:
    placed, worker_pid = running
    planted = faults.parse(fault)
    events = max(script.DEFAULT_EVENTS, script.events_needed(planted))
    question = Question(planted, events=events, seed=seed, worker_pid=worker_pid)
    return conduct(
        question, gateway_url=placed.gateway_url, collector_url=placed.collector_url, on_answer=lambda _: None
    )


@pytest.mark.parametrize("fault", PLANTED)
def test_the_verdict_names_what_was_planted_though_clocks_are_an_hour_apart(
    running: tuple[Topology, int], fault: str
) -> None:
    run = ask(running, fault)
    assert run.outcome.is_named_right, run.verdict["sentence"]
    assert run.outcome.is_cause_right, run.verdict["sentence"]
    assert run.outcome.term is None or run.outcome.term.is_within, run.outcome.term
    assert run.outcome.total is None or run.outcome.total.is_within, run.outcome.total


def test_nothing_planted_is_healthy(running: tuple[Topology, int]) -> None:
    run = ask(running, "none")
    assert run.outcome.is_named_right, run.verdict["sentence"]
    assert [hop["hop"] for hop in run.verdict["hops"]] == list(faults.HOPS)


def raw_answer(url: str) -> bytes:
    """The body of an answer as it comes, by a client that looks at nothing."""
    asked = {"model": "m", "max_tokens": 40, "seed": 5}
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(asked), {"x-request-id": "same-1"})
        return connection.getresponse().read()
    finally:
        connection.close()


def worker_url(placed: Topology) -> str:
    return next(command.ready_url for command in placed.commands if command.name == WORKER).removesuffix("/healthz")


def test_a_reader_gets_exactly_the_bytes_that_the_worker_sent(running: tuple[Topology, int]) -> None:
    placed, _ = running
    sent = raw_answer(worker_url(placed))
    assert sent.endswith(b"data: [DONE]\n\n")
    assert raw_answer(placed.gateway_url) == sent


@pytest.mark.peers
def test_the_openai_client_reads_the_whole_text_through_all_hops(running: tuple[Topology, int]) -> None:
    openai = pytest.importorskip("openai", reason="openai is not installed; it comes with gapline[peers]")
    placed, _ = running
    texts = []
    for url in (worker_url(placed), placed.gateway_url):
        with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
            messages = [{"role": "user", "content": "hi"}]
            stream = client.chat.completions.create(model="m", messages=messages, stream=True, max_tokens=40, seed=5)
            texts.append("".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices))
    assert texts[0] == texts[1]
    assert len(texts[0].split()) == 40


def demo(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "otel.demo", *argv], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_command_ends_by_itself_with_one_object_and_the_code_for_right() -> None:
    began_s = time.monotonic()
    done = demo("--fault", "gateway:stall=2", "--json")
    told: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode, told["named_right"]) == (0, True), done.stderr
    assert time.monotonic() - began_s < 20


def test_people_get_the_verdict_and_the_picture() -> None:
    done = demo("--fault", "inference-proxy:stall=1", "--events", "60")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "inference-proxy app held the answer" in " ".join(done.stdout.split()).lower()
    assert "RIGHT: planted was inference-proxy" in done.stdout
    assert done.stdout.count("[app_stall · inference-proxy]") == 1
    assert "\n  gapline " not in done.stdout
    assert done.stdout.endswith("\n\nThis path is gone now. To ask for yourself: gapline demo --keep\n")


def test_many_runs_on_one_path_are_counted() -> None:
    done = demo("--fault", "none", "--events", "30", "--runs", "3", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["runs"], told["named_right"]) == (0, 3, 3), done.stderr


def descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children]


def ignoring_sigint() -> None:
    """What a shell does to what a script starts in the background: `gapline demo --keep &`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_kept_leaves_no_process_behind_when_it_is_ended(number: signal.Signals, tmp_path: Path) -> None:
    kept = subprocess.Popen(
        [sys.executable, "-m", "otel.demo", "--fault", "none", "--events", "20", "--keep"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},  # after a SIGKILL nobody removes its folder
        preexec_fn=ignoring_sigint,  # noqa: PLW1509  # no thread runs here
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert kept.stdout is not None
    try:
        told = []
        for line in kept.stdout:
            told.append(line)
            if "Ctrl-C ends it" in line:
                break
        assert any(line.startswith("  gapline timeline ") for line in told), "what to ask next"
        children = descendants(kept.pid)
        assert len(children) == 7
        kept.send_signal(number)
        kept.wait(10)
        until_s = time.monotonic() + 3
        while any(_is_running(pid) for pid in children):
            assert time.monotonic() < until_s
            time.sleep(0.05)
    finally:
        kept.kill()
        kept.communicate()


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


@pytest.mark.peers
@pytest.mark.parametrize("fault", ["none", "model-worker:freeze=3", "gateway:stall=2"])
def test_a_real_engine_is_healthy_and_frozen_it_is_named(fault: str) -> None:
    pytest.importorskip("xllamacpp", reason="xllamacpp is not installed; it comes with gapline[llama]")
    pytest.importorskip("gguf", reason="gguf is not installed; it comes with gapline[llama]")
    done = demo("--worker", "llama", "--fault", fault, "--json")
    told = json.loads(done.stdout)
    if fault == "none" and _is_true_pause(told):
        return
    assert done.returncode == 0, done.stdout + done.stderr
    assert told["cause_right"]


def _is_true_pause(told: dict[str, Any]) -> bool:
    """On a loaded machine the engine itself may pause; then it is right to name it, for what the client saw."""
    verdict, waited_s = told["verdict"], told["reader"]["longest_gap_s"]
    is_named = (verdict["status"], verdict["cause"], verdict["first_hop"]) == ("named", "source_stall", WORKER)
    return is_named and waited_s >= faults.UNNOTICED_S and abs(verdict["gap_s"] - waited_s) <= 0.020
