"""The collector as a process of its own: what it listens on, how it starts, and how it ends."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from otel.__main__ import LOCK_NAME, main
from otel.glance import Moment, glance_to_log
from otel.otlp import decode_response, encode_request, encode_request_json
from otel.otlp_logs import encode_record, request_of
from otel.span import hop_to_span
from otel.store.sqlite import FILE_NAME, SqliteStore
from tests.support.broken import cut_in_silence
from tests.support.chain import GATEWAY, PROXY, Chain, run
from tests.support.glances import a_glance

ROOT = Path(__file__).parents[2]
LOCAL = ("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--query", "127.0.0.1:0", "--log-format", "text")
STALLED = run(Chain(stalls=((PROXY, 60, 3_000_000_000),)))
BODY = encode_request(hop_to_span(hop) for hop in STALLED)


class Process:
    """A collector that runs, and the addresses it says it listens on."""

    def __init__(self, popen: subprocess.Popen, ports: Path) -> None:
        self.popen = popen
        deadline = time.monotonic() + 20
        while not ports.exists():
            assert popen.poll() is None, popen.stderr.read()
            assert time.monotonic() < deadline, "no ports file after 20 s"
            time.sleep(0.01)
        self.addresses = json.loads(ports.read_text())

    def get(self, path: str, **headers: str) -> dict:
        request = urllib.request.Request(f"http://{self.addresses['query']}{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=5) as response:
            body = response.read()
            return json.loads(body) if "json" in response.headers["Content-Type"] else body.decode()

    def post(
        self, body: bytes, content_type: str = "application/x-protobuf", *, path: str = "/v1/traces", **headers: str
    ) -> bytes:
        url = f"http://{self.addresses['http']}{path}"
        headers = {"Content-Type": content_type, **headers}
        request = urllib.request.Request(url, data=body, headers=headers, method="POST")
        with urllib.request.urlopen(request, timeout=5) as response:
            return response.read()

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        self.popen.send_signal(number)
        _, errors = self.popen.communicate(timeout=20)
        return self.popen.returncode, errors


@contextmanager
def collector(directory: Path, *flags: str, **environ: str) -> Iterator[Process]:
    ports = directory / "ports.json"
    command = [
        sys.executable,
        "-m",
        "otel",
        "--data",
        str(directory / "data"),
        "--ports-file",
        str(ports),
        *LOCAL,
        *flags,
    ]
    popen = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **environ}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with popen:
        try:
            yield Process(popen, ports)
        finally:
            popen.kill()


def finished(*flags: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "otel", *flags]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.e2e
def test_from_spans_to_the_verdict(tmp_path: Path):
    with collector(tmp_path, "--settle", "100ms") as process:
        assert decode_response(process.post(BODY), as_json=False) == (0, "")
        answer = process.get("/v1/requests/req-1/verdict")
        assert (answer["status"], answer["cause"], answer["first_hop"]) == ("named", "app_stall", PROXY)

        deadline = time.monotonic() + 10
        while not (stalls := process.get("/v1/stalls?min_gap=2.5")["stalls"]):
            assert time.monotonic() < deadline, "no row in the list of stalls after 10 s"
            time.sleep(0.02)
        assert [stall["request_id"] for stall in stalls] == ["req-1"]

        metrics = process.get("/metrics")
        assert 'gapline_collector_spans_total{result="stored"} 3' in metrics
        assert 'gapline_collector_verdicts_total{status="named",cause="app_stall"} 1' in metrics
        assert "gapline_collector_store_hops 3" in metrics
        assert "gapline_collector_store_refusing 0" in metrics
        assert "gapline_collector_store_unreadable_total 0" in metrics
        assert "gapline_collector_store_disk_free_bytes " in metrics
        assert "gapline_collector_build_info{version=" in metrics


@pytest.mark.e2e
def test_the_idle_timers_that_it_was_told_of_are_those_it_knows(tmp_path: Path):
    hops = cut_in_silence(2, after_ns=42_000_000_000)
    with collector(tmp_path, "--idle-timers", "42s") as process:
        assert decode_response(process.post(encode_request(map(hop_to_span, hops))), as_json=False) == (0, "")
        answer = process.get("/v1/requests/req-1/verdict")
        assert (answer["cause"], answer["first_hop"]) == ("idle_timer", GATEWAY)


@pytest.mark.e2e
def test_open_streams_are_live_until_their_final_span_comes(tmp_path: Path):
    _, proxy, gateway = STALLED
    glances = [
        a_glance(
            Moment.STALLED,
            trace_id=hop.trace_id,
            span_id=hop.span_id,
            request_id=hop.request_id,
            hop=hop.place.hop,
            is_stalled=True,
            silent_s=2.0,
        )
        for hop in (proxy, gateway)
    ]
    body = request_of(map(encode_record, map(glance_to_log, glances)), resource={}, scope_name="gapline")
    with collector(tmp_path) as process:
        assert process.post(body, path="/v1/logs") == b""
        assert {stream["hop"] for stream in process.get("/api/live")["streams"]} == {PROXY, GATEWAY}
        process.post(encode_request([hop_to_span(proxy)]))
        (stream,) = process.get("/api/live?stalled=true")["streams"]
        assert (stream["hop"], stream["is_stalled"]) == (GATEWAY, True)
        assert stream["silent_s"] >= 2.0
        metrics = process.get("/metrics")
        assert "gapline_collector_live_streams 1" in metrics
        assert 'gapline_collector_log_records_total{result="taken"} 2' in metrics


@pytest.mark.e2e
def test_grpc_protobuf_and_json_reach_the_same_store(tmp_path: Path):
    worker, proxy, gateway = STALLED
    with collector(tmp_path) as process:
        with grpc.insecure_channel(process.addresses["grpc"]) as channel:
            export = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
            export(encode_request([hop_to_span(worker)]), timeout=10)
        process.post(encode_request([hop_to_span(proxy)]))
        process.post(encode_request_json([hop_to_span(gateway)]), "application/json")

        assert [hop["hop"] for hop in process.get("/v1/requests/req-1/verdict")["hops"]] == [
            hop.place.hop for hop in STALLED
        ]


@pytest.mark.e2e
def test_it_ends_cleanly_and_begins_where_it_ended(tmp_path: Path):
    with collector(tmp_path, "--settle", "1h", "--final-after", "1h") as process:
        process.post(BODY)
        code, log = process.stop()
        assert code == 0
        assert [line.split(" ")[2] for line in log.splitlines()] == ["listening", "stopping", "verdict", "stopped"]
        assert not (tmp_path / "ports.json").exists()
        assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [FILE_NAME, LOCK_NAME]

    store = SqliteStore(tmp_path / "data")
    row = store.verdict_of("req-1")
    assert row is not None, "what has come in is judged before the end"
    assert row.hop == PROXY
    store.close()

    with collector(tmp_path) as process:
        assert process.get("/v1/requests/req-1/verdict")["first_hop"] == PROXY
        process.post(BODY)
        assert "gapline_collector_store_hops 3" in process.get("/metrics")
        assert process.stop(signal.SIGINT)[0] == 0


@pytest.mark.e2e
def test_killed_it_has_everything_acknowledged_and_judges_it_after_the_next_start(tmp_path: Path):
    with collector(tmp_path, "--settle", "1h", "--final-after", "1h") as process:
        process.post(BODY)
        process.stop(signal.SIGKILL)
        (tmp_path / "ports.json").unlink()

    with collector(tmp_path, "--settle", "1h", "--final-after", "1h") as process:
        deadline = time.monotonic() + 10
        while not process.get("/v1/stalls")["stalls"]:
            assert time.monotonic() < deadline, "not judged after 10 s"
            time.sleep(0.02)


@pytest.mark.e2e
def test_a_token_guards_both_ends(tmp_path: Path):
    with collector(tmp_path, GAPLINE_COLLECTOR_TOKEN="s3cret") as process:
        for ask in (lambda: process.post(BODY), lambda: process.get("/v1/stalls")):
            with pytest.raises(urllib.error.HTTPError, match="401"):
                ask()
        process.post(BODY, Authorization="Bearer s3cret")
        answer = process.get("/v1/requests/req-1/verdict", Authorization="Bearer s3cret")
        assert answer["hops"][-1]["hop"] == GATEWAY
        assert process.get("/readyz") == {"status": "ok"}


@pytest.mark.e2e
def test_an_address_in_use_is_an_error_that_names_it(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for listener in ("--http", "--query", "--grpc"):
            flags = [*LOCAL, listener, address]
            ended = finished("--data", str(tmp_path / "data"), *flags)
            assert ended.returncode == 1
            assert f"{listener}: '{address}'" in ended.stderr
            assert "Traceback" not in ended.stderr


@pytest.mark.e2e
def test_a_second_collector_on_the_same_directory_does_not_start(tmp_path: Path):
    with collector(tmp_path) as process:
        ended = finished("--data", str(tmp_path / "data"), *LOCAL)
        assert ended.returncode == 1
        assert f"--data: {tmp_path / 'data'} is in use by another collector" in ended.stderr
        assert "Traceback" not in ended.stderr
        assert process.get("/readyz") == {"status": "ok"}
        process.stop(signal.SIGKILL)
        (tmp_path / "ports.json").unlink()
    with collector(tmp_path) as process:
        assert process.get("/readyz") == {"status": "ok"}


@pytest.mark.e2e
def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path):
    (tmp_path / "file").touch()
    ended = finished("--data", str(tmp_path / "file"), *LOCAL)
    assert ended.returncode == 1
    assert f"--data: {tmp_path / 'file'} cannot be used: File exists" in ended.stderr


@pytest.mark.e2e
def test_a_store_that_cannot_be_opened_is_an_error(tmp_path: Path):
    SqliteStore(tmp_path).close()
    with sqlite3.connect(tmp_path / FILE_NAME) as database:
        database.execute("UPDATE schema_version SET version = 99")
    database.close()
    ended = finished("--data", str(tmp_path), *LOCAL)

    assert ended.returncode == 1
    assert "written by a newer gapline, schema 99" in ended.stderr
    assert "Traceback" not in ended.stderr


# ------------------------------------------------------------------------------ without a process


def checked(capsys: pytest.CaptureFixture, *flags: str) -> tuple[int, Sequence[str], Sequence[str]]:
    code = main(["--check-config", *flags])
    written = capsys.readouterr()
    return code, written.out.splitlines(), written.err.splitlines()


def test_a_configuration_can_be_checked(capsys: pytest.CaptureFixture):
    assert checked(capsys, "--data", "/nowhere") == (0, ["the configuration can be used"], [])


def test_all_errors_of_a_configuration_are_shown_at_once(capsys: pytest.CaptureFixture):
    code, out, errors = checked(capsys, "--query", "0.0.0.0:24070", "--settle", "soon")

    assert (code, out) == (2, [])
    assert [error.split(":")[0] for error in errors] == ["--data", "--settle"]


def test_the_file_may_be_named_by_flag_or_variable(capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "collector.toml"
    file.write_text('data = "/nowhere"\nsettle = "1s"\n')

    assert checked(capsys, "--config", str(file))[0] == 0
    monkeypatch.setenv("GAPLINE_COLLECTOR_CONFIG", str(file))
    assert checked(capsys)[0] == 0
    file.write_text("data = 1\nspelling = 2\n")
    assert checked(capsys)[2] == ["file: spelling: no such option"]


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_an_error_of_the_configuration(capsys, tmp_path: Path, content: bytes | None):
    file = tmp_path / "collector.toml"
    if content is not None:
        file.write_bytes(content)
    code, _, errors = checked(capsys, "--config", str(file))

    assert code == 2
    assert errors[0].startswith(f"--config: '{file}': cannot be read: ")


def test_a_flag_that_does_not_exist_is_wrong_usage(capsys: pytest.CaptureFixture):
    with pytest.raises(SystemExit, match="2"):
        main(["--nonsense"])
    assert "unrecognized arguments: --nonsense" in capsys.readouterr().err
