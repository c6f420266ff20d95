"""The sidecar as a process: its exit codes, its signals, its log."""

import asyncio
import gzip
import os
import re
import signal
import socket
import sys
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web

from otel.hop import Ending
from otel.otlp import decode_request
from otel.span import span_to_hop
from sidecar import __main__ as module
from sidecar import native
from sidecar.__main__ import loop_factory, main
from tests.support.script import ask, chunk, get, hang, head, last_chunk, parsed, upstream, wait_for

SSE = "text/event-stream"


class Process:
    """A sidecar process, its log line by line."""

    def __init__(self, process):
        self.process = process
        self.lines = []

    async def line(self, wanted):
        """The next line of the log that has this in it."""
        async with asyncio.timeout(10):
            while True:
                line = (await self.process.stderr.readline()).decode()
                assert line, f"the log ended without {wanted!r}: {self.lines}"
                self.lines.append(line)
                if wanted in line:
                    return line

    async def port(self):
        return int(re.search(r"port=(\d+)", await self.line(" listening ")).group(1))

    async def ended(self):
        async with asyncio.timeout(10):
            self.lines += (await self.process.stderr.read()).decode().splitlines()
            return await self.process.wait()


@asynccontextmanager
async def process(url, *flags):
    arguments = [
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "off",
        "--hop",
        "here",
        "--upstream",
        url,
        "--log-format",
        "text",
        *flags,
    ]
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("GAPLINE_", "OTEL_"))}
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "sidecar", *arguments, stderr=asyncio.subprocess.PIPE, env=environ
    )
    try:
        yield Process(started)
    finally:
        with suppress(ProcessLookupError):
            started.kill()
        await started.wait()


@asynccontextmanager
async def collector():
    """An OTLP receiver that keeps the spans it gets."""
    spans = []

    async def take(request):
        body = await request.read()
        if request.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        spans.extend(decode_request(body))
        return web.Response(content_type="application/x-protobuf")

    app = web.Application(client_max_size=1 << 24)
    app.router.add_post("/v1/traces", take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", spans
    finally:
        await runner.cleanup()


def test_a_usable_configuration_is_said_to_be_one(capsys):
    assert main(["--upstream", "http://u", "--hop", "h", "--check-config"]) == 0
    assert "can be used" in capsys.readouterr().out


def test_all_errors_of_a_configuration_are_told(capsys, tmp_path):
    file = tmp_path / "sidecar.toml"
    file.write_text('role = "both"\n')

    assert main(["--config", str(file), "--listen", "x", "--check-config"]) == 2
    told = capsys.readouterr().err
    for name in ("role", "--listen", "--upstream", "--hop"):
        assert name in told


def test_files_folders_and_options_are_told_at_once_but_only_where_they_are_checked(capsys):
    files = ["--tls-cert", "/nowhere/c", "--listen", "unix:/nowhere/s", "--spool", "/dev/null/s", "--stall-after", "0"]

    assert main([*files, "--check-config"]) == 2
    told = capsys.readouterr().err.splitlines()
    for wanted in (
        "--upstream: required",
        "--stall-after: '0'",
        "--tls-cert: 'c': needs --tls-key too".replace("'c'", "'/nowhere/c'"),
        "--tls-cert: '/nowhere/c': No such file",
        "--listen: 'unix:/nowhere/s': there is no folder",
        "--spool: '/dev/null/s': ",
    ):
        assert any(line.startswith(wanted) for line in told), wanted
    assert main(files) == 2
    assert "--spool" not in capsys.readouterr().err  # without its spool a sidecar runs all the same


def test_a_file_that_cannot_be_read_is_an_error_with_its_name(capsys, monkeypatch):
    monkeypatch.setenv("GAPLINE_SIDECAR_CONFIG", "/nowhere/x.toml")

    assert main(["--check-config"]) == 2
    assert "/nowhere/x.toml" in capsys.readouterr().err


@pytest.mark.parametrize("is_there", [True, False])
def test_the_loop_is_uvloop_where_there_is_one(is_there, monkeypatch, capsys):
    if not is_there:
        monkeypatch.setattr(module, "uvloop", None)

    assert (loop_factory("auto") is asyncio.new_event_loop) is not is_there
    assert loop_factory("asyncio") is asyncio.new_event_loop
    asked = ["--upstream", "http://u", "--hop", "h", "--loop", "uvloop", "--check-config"]  # beside all other errors
    assert main(asked) == (0 if is_there else 2)
    assert ("not installed" in capsys.readouterr().err) is not is_there


@pytest.mark.parametrize("is_there", [True, False])
def test_compiled_parts_that_must_be_there_are(is_there, monkeypatch, capsys):
    monkeypatch.setattr(native, "COMPILED", native.TWINS if is_there else None)
    asked = ["--upstream", "http://u", "--hop", "h", "--compiled"]

    assert main([*asked, "on", "--check-config"]) == (0 if is_there else 2)
    assert ("--compiled: 'on': is not built here" in capsys.readouterr().err) is not is_there
    assert main([*asked, "off", "--check-config"]) == 0


@pytest.mark.parametrize("value", ["x", "0", "99999"])
def test_the_mark_of_a_worker_is_not_to_be_set_by_people(value, monkeypatch, capsys):
    monkeypatch.setenv("GAPLINE_SIDECAR_WORKER", value)

    assert main(["--upstream", "http://u", "--hop", "h", "--check-config"]) == 2
    assert "GAPLINE_SIDECAR_WORKER" in capsys.readouterr().err


def test_a_certificate_that_cannot_be_loaded_is_an_error_with_its_name(capsys):
    files = ["--tls-cert", "/nowhere/cert.pem", "--tls-key", "/nowhere/key.pem"]

    assert main(["--upstream", "http://u", "--hop", "h", *files, "--check-config"]) == 2
    assert "/nowhere/cert.pem" in capsys.readouterr().err


def test_an_unknown_flag_is_wrong_usage():
    with pytest.raises(SystemExit) as ended:
        main(["--upstreem", "x"])

    assert ended.value.code == 2


@pytest.mark.e2e
@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
async def test_a_process_drains_delivers_its_spans_and_ends_with_0(loop):
    release = asyncio.Event()
    steps = [head(200, SSE), chunk(b"data: 1\n\n"), wait_for(release), chunk(b"data: 2\n\n"), last_chunk()]
    async with (
        collector() as (endpoint, spans),
        upstream(*steps) as up,
        process(up.url, "--export", endpoint, "--loop", loop) as proxy,
    ):
        port = await proxy.port()
        asking = asyncio.ensure_future(ask(port, get("/x", "X-Request-Id: r-1")))
        while not up.exchanges:
            await asyncio.sleep(0.01)
        proxy.process.send_signal(signal.SIGTERM)
        await proxy.line(" draining ")
        release.set()
        reply = await asking
        await proxy.line(" drained hop=here finished=1 aborted=0 spans_left=0 spans_lost=0 exit_code=0")
        assert await proxy.ended() == 0

    assert (reply.body, reply.is_clean) == (b"data: 1\n\ndata: 2\n\n", True)
    (hop,) = map(span_to_hop, spans)
    assert (hop.request_id, hop.end.ending, hop.place.hop) == ("r-1", Ending.COMPLETE, "here")
    assert dict(hop.place.resource)["service.name"] == "here"


@pytest.mark.e2e
async def test_at_the_drain_limit_streams_are_ended_and_recorded():
    async with (
        collector() as (endpoint, spans),
        upstream(head(200, SSE), chunk(b"data: 1\n\n"), hang()) as up,
        process(up.url, "--export", endpoint, "--drain-timeout", "100ms") as proxy,
    ):
        port = await proxy.port()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(get("/x"))
        begun = await reader.readuntil(b"data: 1\n\n")
        proxy.process.send_signal(signal.SIGTERM)
        reply = parsed(begun + await reader.read())
        writer.close()
        await proxy.line(" drained hop=here finished=0 aborted=1 ")
        assert await proxy.ended() == 0

    assert reply.is_clean is False
    assert [span_to_hop(span).end.ending for span in spans] == [Ending.DRAINED]


@pytest.mark.e2e
async def test_a_second_signal_ends_it_at_once():
    async with upstream(head(200, SSE), chunk(b"data: 1\n\n"), hang()) as up, process(up.url) as proxy:
        port = await proxy.port()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(get("/x"))
        await reader.readuntil(b"data: 1\n\n")
        proxy.process.send_signal(signal.SIGTERM)
        await proxy.line(" draining ")
        proxy.process.send_signal(signal.SIGTERM)
        await proxy.line(" ending at once")
        await proxy.line(" not drained hop=here finished=0 aborted=1 exit_code=1")
        assert await proxy.ended() == 1
        writer.close()


@pytest.mark.e2e
async def test_signals_that_wish_something_end_nothing():
    async with upstream(head(200, SSE), last_chunk()) as up, process(up.url) as proxy:
        port = await proxy.port()
        await proxy.line(" ready hop=here admin=off export=off spool=off")
        for number, is_on in ((signal.SIGHUP, None), (signal.SIGUSR1, "True"), (signal.SIGUSR1, "False")):
            proxy.process.send_signal(number)
            if is_on is not None:
                await proxy.line(f" passthrough is_on={is_on} ")
        assert (await ask(port, get())).is_clean
        proxy.process.send_signal(signal.SIGTERM)
        assert await proxy.ended() == 0


@pytest.mark.e2e
async def test_an_address_that_is_taken_is_said_and_ends_it_with_1():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        async with process("http://127.0.0.1:1", "--listen", f"127.0.0.1:{taken.getsockname()[1]}") as proxy:
            assert await proxy.ended() == 1

    assert any("cannot listen" in line for line in proxy.lines)


@pytest.mark.e2e
async def test_each_exchange_has_one_line_and_nothing_of_it_is_quoted():
    async with (
        upstream(head(200, SSE), chunk(b"data: CANARY\n\n"), last_chunk()) as up,
        process(up.url, "--log-level", "debug") as proxy,
    ):
        port = await proxy.port()
        await ask(port, get("/x?CANARY", "X-Request-Id: r 1", "Cookie: CANARY"))
        line = await proxy.line("exchange ended")
        proxy.process.send_signal(signal.SIGTERM)
        assert await proxy.ended() == 0

    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z info exchange ended hop=here request_id=sha256:", line)
    assert "CANARY" not in "".join(proxy.lines)


@pytest.mark.e2e
async def test_a_shifted_clock_is_a_domain_of_its_own():
    async with (
        collector() as (endpoint, spans),
        upstream(head(200, SSE), last_chunk()) as up,
        process(up.url, "--export", endpoint, "--clock-offset=-1h") as proxy,
    ):
        await ask(await proxy.port(), get("/x"))
        proxy.process.send_signal(signal.SIGTERM)
        assert await proxy.ended() == 0

    assert span_to_hop(spans[0]).anchor.clock_domain.endswith("-3600000000000")


@pytest.mark.e2e
async def test_a_process_that_was_held_accuses_itself():
    release = asyncio.Event()
    steps = [head(200, SSE), chunk(b"data: 1\n\n"), wait_for(release), chunk(b"data: 2\n\n"), last_chunk()]
    async with collector() as (endpoint, spans), upstream(*steps) as up, process(up.url, "--export", endpoint) as proxy:
        asking = asyncio.ensure_future(ask(await proxy.port(), get("/x")))
        await asyncio.sleep(0.2)
        proxy.process.send_signal(signal.SIGSTOP)
        release.set()
        await asyncio.sleep(0.5)
        proxy.process.send_signal(signal.SIGCONT)
        await asking
        proxy.process.send_signal(signal.SIGTERM)
        assert await proxy.ended() == 0

    timeline = span_to_hop(spans[0]).timeline
    held_ns = max(lag.end_ns - lag.start_ns for lag in timeline.lag)
    assert 400e6 < held_ns < 700e6
    assert timeline.stamps[1].arrived_ns >= timeline.lag[-1].start_ns
