"""Processes of the demo: started, found ready, found dead, and never left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from otel.demo.processes import Command, PortTakenError, Processes, StartError, free_ports, get

ROOT = Path(__file__).parents[3]


def worker(port: int, name: str = "worker") -> Command:
    return Command(name, ("otel.demo.worker", "--port", str(port)), f"http://127.0.0.1:{port}/healthz")


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return status != "Z"  # whoever adopted it has not looked yet, but it is gone


def wait_gone(pids: list[int], *, within_s: float = 3.0) -> None:
    until_s = time.monotonic() + within_s
    while any(map(is_running, pids)):
        assert time.monotonic() < until_s, "still running"
        time.sleep(0.02)


def test_free_ports_are_different_and_free() -> None:
    ports = free_ports(12)
    assert len(set(ports)) == 12
    for port in ports:
        with socket.create_server(("127.0.0.1", port)):
            pass


def test_a_process_is_ready_when_it_answers_and_gone_when_the_block_is_left(tmp_path: Path) -> None:
    [port] = free_ports(1)
    ready: list[str] = []
    with Processes(tmp_path) as processes:
        processes.start(worker(port))
        processes.wait_ready(ready.append)
        pid = processes.pid("worker")
        assert get(f"http://127.0.0.1:{port}/healthz") == get(f"http://127.0.0.1:{port}/health") == (200, b"ok\n")
    assert ready == ["worker"]
    assert not is_running(pid)


def test_a_program_that_is_no_module_of_ours_is_run_as_it_is(tmp_path: Path) -> None:
    [port] = free_ports(1)
    served = ("-m", "http.server", "--bind", "127.0.0.1", "--directory", str(tmp_path), str(port))
    with Processes(tmp_path) as processes:
        processes.start(Command("files", served, f"http://127.0.0.1:{port}/", program=sys.executable))
        processes.wait_ready(lambda _: None)


def test_a_stopped_process_is_ended_too(tmp_path: Path) -> None:
    [port] = free_ports(1)
    with Processes(tmp_path) as processes:
        processes.start(worker(port))
        processes.wait_ready(lambda _: None)
        pid = processes.pid("worker")
        os.kill(pid, signal.SIGSTOP)
    assert not is_running(pid)


def test_a_process_that_fails_is_reported_with_what_it_said(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        processes.start(Command("worker", ("otel.demo.worker", "--port", "many"), "http://127.0.0.1:1/"))
        with pytest.raises(StartError, match=r"(?s)worker ended before it was ready.*invalid int value: 'many'"):
            processes.wait_ready(lambda _: None)
        assert processes.ended() == ["worker"]


def test_a_port_that_was_taken_is_told_apart(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, Processes(tmp_path) as processes:
        # A readiness address that refuses: whoever holds the port must not answer for the process.
        command = worker(taken.getsockname()[1])
        processes.start(Command("worker", command.arguments, "http://127.0.0.1:1/"))
        with pytest.raises(PortTakenError):
            processes.wait_ready(lambda _: None)


def test_the_environment_of_a_user_configures_no_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAPLINE_SIDECAR_HOP", "elsewhere")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "a=b")
    [port] = free_ports(1)
    with Processes(tmp_path) as processes:
        processes.start(worker(port))
        processes.wait_ready(lambda _: None)
        environ = Path(f"/proc/{processes.pid('worker')}/environ").read_bytes()
    assert b"GAPLINE_" not in environ
    assert b"OTEL_" not in environ


PARENT = """
import sys, time
from pathlib import Path
from otel.demo.processes import Command, Processes, exit_on_signals
exit_on_signals()
with Processes(Path(sys.argv[1])) as processes:
    for port in sys.argv[2:]:
        processes.start(Command(port, ("otel.demo.worker", "--port", port), f"http://127.0.0.1:{port}/healthz"))
    processes.wait_ready(lambda name: None)
    print(*(processes.pid(port) for port in sys.argv[2:]), flush=True)
    time.sleep(60)
"""


def ignoring_sigint() -> None:
    """What a shell does to what a script starts in the background."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_no_child_outlives_its_parent_whatever_ends_it(tmp_path: Path, number: signal.Signals) -> None:
    ports = map(str, free_ports(2))
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path), *ports],
        cwd=ROOT,
        preexec_fn=ignoring_sigint,  # noqa: PLW1509  # no thread runs here
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert all(map(is_running, pids))
        assert len(pids) == 2
        parent.send_signal(number)
        parent.wait(10)
        wait_gone(pids)
    finally:
        parent.kill()
        parent.communicate()
