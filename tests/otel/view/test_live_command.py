"""The command live against a collector and a sidecar on sockets: what is asked, what is shown, how it ends."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from otel.view import live_command as module
from otel.view.live_command import live
from tests.otel.view.test_live import OWN, STALLED, STREAM, an_answer
from tests.support.screen import assert_fits


class Peer:
    """A collector and a sidecar in one; it remembers what it was asked."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[str] = []
        self.replies: list[object] = []
        self.answer: Callable[[web.Request], Awaitable[web.Response]] | None = None

    async def live(self, request: web.Request) -> web.Response:
        self.asked.append(request.raw_path)
        if self.answer is not None:
            return await self.answer(request)
        return web.json_response(self.replies.pop(0) if self.replies else an_answer(STALLED, STREAM))

    async def streams(self, request: web.Request) -> web.Response:
        self.asked.append(request.raw_path)
        if self.answer is not None:
            return await self.answer(request)
        return web.json_response({"streams": [OWN, OWN | {"request_id": "stuck", "silent_s": 9.5}]})


@pytest.fixture
async def peer(aiohttp_server, monkeypatch):
    made = Peer()
    app = web.Application()
    app.router.add_get("/api/live", made.live)
    app.router.add_get("/streams", made.streams)
    server = await aiohttp_server(app)
    made.url = f"http://127.0.0.1:{server.port}"
    monkeypatch.setenv("GAPLINE_COLLECTOR_URL", made.url)
    for name in ("GAPLINE_TOKEN", "GAPLINE_COLLECTOR_TOKEN", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return made


async def run(*argv: str) -> int:
    return await asyncio.to_thread(live, argv)


async def test_a_collector_is_asked_and_its_answer_shown(peer, capsys):
    assert await run("--width", "140") == 0
    out = capsys.readouterr().out
    assert peer.asked == ["/api/live?limit=1000"]
    assert "stuck" in out.splitlines()[1]
    assert "2 open streams, 1 stalled." in out
    assert_fits(out, 140)


async def test_the_question_is_handed_on(peer, capsys):
    assert await run("--stalled", "--min-silence", "1m", "--limit", "5") == 0
    assert peer.asked == ["/api/live?limit=5&stalled=true&min_silence=60"]
    assert "stalled, silent for 1 min or more" in capsys.readouterr().out.replace("\n", " ")


async def test_what_to_ask_next_names_the_collector_that_was_named(peer, capsys):
    assert await run("--collector", peer.url, "--width", "140") == 0
    assert f"`gapline why REQUEST_ID --collector {peer.url}`" in capsys.readouterr().out


@pytest.mark.parametrize("of", ["sidecar", "collector"])
async def test_who_has_no_such_list_is_not_who_was_meant(peer, capsys, monkeypatch, of):
    missing = {"error": {"type": "not_found", "message": "404: Not Found"}}

    async def nothing(_request: web.Request) -> web.Response:
        return web.json_response(missing, status=404)

    monkeypatch.setattr(peer, "answer", nothing)
    assert await run(f"--{of}", peer.url) == 3
    assert f"answered 404 and not as a gapline {of} does; is the URL right?" in capsys.readouterr().err


async def test_an_answer_that_is_nested_too_deeply_is_not_shown(peer, capsys, monkeypatch):
    async def deep(_request: web.Request) -> web.Response:
        return web.Response(body=b'{"streams":' + b"[" * 1_000 + b"]" * 1_000 + b"}", content_type="application/json")

    monkeypatch.setattr(peer, "answer", deep)
    assert await run("--json") == 1
    assert "nested too deeply" in capsys.readouterr().err


async def test_a_sidecar_is_asked_for_its_own(peer, capsys):
    assert await run("--sidecar", peer.url, "--stalled", "--width", "140") == 0
    out = capsys.readouterr().out
    assert peer.asked == ["/streams"]
    assert "stuck" in out
    assert STREAM["request_id"] not in out
    assert f"2 open streams at {peer.url}, 1 stalled." in out


@pytest.mark.parametrize("of", ["collector", "sidecar"])
async def test_json_has_one_form_for_both(peer, capsys, of):
    assert await run("--json", "--stalled", f"--{of}", peer.url) == 0
    (line,) = capsys.readouterr().out.splitlines()
    answer = json.loads(line)
    assert {"as_of", "streams", "open", "has_more"} == answer.keys()
    assert STREAM.keys() <= answer["streams"][0].keys()


async def test_a_sidecar_and_a_collector_cannot_both_be_asked(peer, capsys):
    with pytest.raises(SystemExit) as ended:
        live(["--sidecar", peer.url, "--collector", peer.url])
    assert ended.value.code == 2
    assert "one of them is asked, not both" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [["--sidecar", "ftp://x"], ["--min-silence", "long"], ["--limit", "0"]])
def test_what_is_typed_wrong_ends_with_usage(argv, capsys):
    with pytest.raises(SystemExit) as ended:
        live(argv)
    assert ended.value.code == 2
    assert argv[1] in capsys.readouterr().err


@pytest.mark.parametrize("watch", [[], ["--watch"]])
@pytest.mark.parametrize("of", ["sidecar", "collector"])
def test_nobody_there_is_no_answer(capsys, of, watch):
    assert live([f"--{of}", "127.0.0.1:9", *watch]) == 3
    assert f"no answer from the {of} at http://127.0.0.1:9: Connection refused" in capsys.readouterr().err


async def test_an_answer_of_another_version_cannot_be_shown_but_read(peer, capsys):
    peer.replies = [{"streams": []}, {"streams": []}]
    assert await run() == 1
    assert "as_of: missing from the answer" in capsys.readouterr().err
    assert await run("--json") == 0


async def test_keys_of_a_later_version_are_told(peer, capsys):
    peer.replies = [an_answer(STREAM | {"mood": 1})]
    assert await run() == 0
    assert "streams[].mood" in capsys.readouterr().err


async def test_a_watch_asks_again_and_outlives_an_absence(peer, capsys, monkeypatch):
    looks = 0

    def sleep(_seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            monkeypatch.setattr(module, "STREAMS_PATH", "/nowhere")
        if looks == 3:
            monkeypatch.setattr(module, "STREAMS_PATH", "/streams")
        if looks == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(module.time, "sleep", sleep)
    assert await run("--watch", "--sidecar", peer.url, "--json") == 130
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert ["error" in answer for answer in answers] == [False, False, True, False]


SCREEN = re.compile(r"\x1b\[\?1049h\x1b\[\?25l(.*)\x1b\[\?25h\x1b\[\?1049l", re.DOTALL)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_a_watch_on_a_terminal_leaves_it_as_it_was(peer, number, code):
    peer.replies = [an_answer(*(STREAM | {"request_id": f"req-{n}"} for n in range(100)))]
    text, returned = await asyncio.to_thread(on_a_terminal, peer.url, number)
    assert returned == code
    drawn = SCREEN.fullmatch(text)
    assert drawn, text
    first = drawn[1].split("\x1b[H")[1]
    assert first.count("\n") < 24
    assert "… " in first
    wiped = drawn[1].count("\x1b[K")  # before a line is drawn, or the last cell of a full one would go with it
    assert wiped == len(re.findall(r"(?:\n|\x1b\[H)\x1b\[K", drawn[1]))
    assert "stuck" in drawn[1]


def on_a_terminal(url: str, number: int) -> tuple[str, int]:
    """Watch on a terminal of 24 lines until the second look, then send the signal: all that was written, the code."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    env = {**os.environ, "TERM": "xterm", "GAPLINE_COLLECTOR_URL": url}
    process = subprocess.Popen(
        [sys.executable, "-m", "sidecar.cli", "live", "--watch"], stdout=slave, stdin=slave, stderr=slave, env=env
    )
    os.close(slave)
    written, until_s, is_told = b"", time.monotonic() + 20, False
    while time.monotonic() < until_s:
        try:
            data = os.read(master, 65_536)
        except OSError:  # the other end is closed
            break
        written += data
        if not is_told and b"stuck" in written:
            process.send_signal(number)
            is_told = True
    returned = process.wait(10)
    os.close(master)
    return written.decode().replace("\r\n", "\n"), returned


async def test_a_watch_whose_reader_has_gone_ends(peer):
    env = {**os.environ, "GAPLINE_COLLECTOR_URL": peer.url}

    def watch() -> int:
        process = subprocess.Popen(
            [sys.executable, "-m", "sidecar.cli", "live", "--watch"], stdout=subprocess.PIPE, env=env
        )
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        return process.wait(10)

    assert await asyncio.to_thread(watch) == 0
