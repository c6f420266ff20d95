"""The commands against a collector on a socket: what is asked, what is shown, and every exit code."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import ssl
import subprocess
import sys

import pytest
from aiohttp import web

from otel.view import asking, commands
from tests.support.answers import ANSWERS, stalls
from tests.support.any_answers import HOSTILE
from tests.support.golden import FOLDER
from tests.support.screen import assert_fits

JSON = "application/json"


class Collector:
    """A collector that gives kept answers, and remembers what it was asked."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[web.Request] = []
        self.reply = web.json_response

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        name, kind = request.match_info["id"], request.match_info["kind"]
        if name not in ANSWERS:
            return failure(404, "not_found", f"no hop has reported {name}")
        answer = json.loads((FOLDER / f"answers/{name}.json").read_text("utf-8"))
        return web.json_response(answer if kind == "timeline" else answer["verdict"])

    async def stalls(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        return self.reply(stalls())


def failure(status: int, kind: str, message: str) -> web.Response:
    return web.json_response({"error": {"type": kind, "message": message}}, status=status)


@pytest.fixture
async def collector(aiohttp_server, monkeypatch):
    made = Collector()
    app = web.Application()
    app.router.add_get("/v1/requests/{id:.+}/{kind:verdict|timeline}", made.answer)
    app.router.add_get("/v1/stalls", made.stalls)
    server = await aiohttp_server(app)
    made.url = f"http://127.0.0.1:{server.port}"
    monkeypatch.setenv("GAPLINE_COLLECTOR_URL", made.url)
    monkeypatch.delenv("GAPLINE_TOKEN", raising=False)
    monkeypatch.delenv("GAPLINE_COLLECTOR_TOKEN", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)
    return made


@pytest.fixture
async def replying(aiohttp_server, monkeypatch):
    """A server that answers everything with one response."""

    async def start(reply):
        async def answer(request: web.Request) -> web.StreamResponse:
            made = reply()
            return await made if asyncio.iscoroutine(made) else made

        app = web.Application()
        app.router.add_get("/{any:.*}", answer)
        server = await aiohttp_server(app)
        monkeypatch.setenv("GAPLINE_COLLECTOR_URL", f"http://127.0.0.1:{server.port}")

    return start


async def run(command, *argv):
    """The exit code, from a thread of its own as the command runs an event loop of its own."""
    return await asyncio.to_thread(command, argv)


@pytest.mark.parametrize(
    ("name", "code"),
    [("healthy", 0), ("source_stall", 10), ("truncated", 10), ("open_stream", 10), ("inconclusive", 11)],
)
async def test_the_exit_code_of_why_is_the_verdict(collector, capsys, name, code):
    assert await run(commands.why, name) == code
    shown = capsys.readouterr()
    assert shown.out == (FOLDER / f"views/{name}.why.txt").read_text("utf-8")
    assert shown.err == ""


async def test_a_request_that_no_hop_reported_is_not_found(collector, capsys):
    assert await run(commands.why, "nobody") == 12
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "no hop has reported nobody" in shown.err


async def test_a_picture_is_an_answer_whatever_the_verdict(collector, capsys):
    assert await run(commands.timeline, "source_stall") == 0
    assert capsys.readouterr().out == (FOLDER / "views/source_stall.timeline.txt").read_text("utf-8")


async def test_a_part_of_a_picture(collector, capsys):
    assert await run(commands.timeline, "source_stall", "--from", "2.5", "--to", "5") == 0
    assert capsys.readouterr().out == (FOLDER / "views/source_stall.timeline_zoomed.txt").read_text("utf-8")


async def test_stalls_asks_for_what_was_wanted(collector, capsys):
    asked = ("--since", "90m", "--model", "llama 3&x", "--hop", "gateway", "--cause", "self", "--min-gap", "2s")
    assert await run(commands.stalls, *asked, "--limit", "7", "--width", "160") == 0
    assert dict(collector.asked[0].query) == {
        "since": "5400",
        "model": "llama 3&x",
        "hop": "gateway",
        "cause": "self",
        "min_gap": "2",
        "limit": "7",
    }
    assert (
        "4 stalls in the last 90 min, model llama 3&x, hop gateway, cause self, of 2 s or more"
        in capsys.readouterr().out
    )


async def test_stalls_leaves_out_what_was_not_asked(collector):
    assert await run(commands.stalls) == 0
    assert dict(collector.asked[0].query) == {"since": "3600", "limit": "100"}


async def test_no_stall_is_an_answer(collector, capsys):
    collector.reply = lambda answer: web.json_response(answer | {"stalls": []})
    assert await run(commands.stalls, "--since", "2d") == 0
    assert await run(commands.stalls, "--since", "100s") == 0
    assert "No stall in the last 2 d." in (out := capsys.readouterr().out)
    assert "No stall in the last 100 s." in out


@pytest.mark.parametrize("command", [commands.why, commands.timeline])
async def test_json_is_the_object_of_the_collector_on_one_line(collector, capsys, command):
    await run(command, "source_stall", "--json")
    out = capsys.readouterr().out
    kept = json.loads((FOLDER / "answers/source_stall.json").read_text("utf-8"))
    assert json.loads(out) == (kept["verdict"] if command is commands.why else kept)
    assert out.count("\n") == 1


async def test_json_has_the_same_exit_code(collector):
    assert await run(commands.why, "inconclusive", "--json") == 11
    assert await run(commands.why, "nobody", "--json") == 12


async def test_the_token_is_shown_to_the_collector(collector, monkeypatch):
    await run(commands.why, "healthy")
    monkeypatch.setenv("GAPLINE_TOKEN", "from-the-environment")
    await run(commands.why, "healthy")
    await run(commands.why, "healthy", "--token", "from-the-flag")
    assert [request.headers.get("Authorization") for request in collector.asked] == [
        None,
        "Bearer from-the-environment",
        "Bearer from-the-flag",
    ]


async def test_where_the_collector_runs_its_own_token_will_do(collector, monkeypatch):
    monkeypatch.setenv("GAPLINE_COLLECTOR_TOKEN", "of-the-collector\n")
    await run(commands.why, "healthy")
    monkeypatch.setenv("GAPLINE_TOKEN", "of-the-reader")
    await run(commands.why, "healthy")
    assert [request.headers["Authorization"] for request in collector.asked] == [
        "Bearer of-the-collector",
        "Bearer of-the-reader",
    ]


async def test_a_url_without_a_scheme_is_http(collector, monkeypatch):
    bare = collector.url.removeprefix("http://")
    monkeypatch.setenv("GAPLINE_COLLECTOR_URL", bare)
    assert await run(commands.why, "healthy") == 0
    assert await run(commands.why, "healthy", "--collector", bare) == 0


async def test_a_collector_without_tls_says_so(collector, capsys):
    assert await run(commands.why, "healthy", "--collector", collector.url.replace("http", "https")) == 3
    assert f"does not speak TLS; try {collector.url}\n" in capsys.readouterr().err


async def test_a_certificate_that_nobody_vouches_for_is_named(aiohttp_server, capsys, tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    make = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost")
    await asyncio.to_thread(
        subprocess.run, [*make, "-keyout", key, "-out", certificate], check=True, capture_output=True
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = await aiohttp_server(web.Application(), ssl=context)
    assert await run(commands.why, "healthy", "--collector", f"https://127.0.0.1:{server.port}") == 3
    assert "its certificate is not trusted (self-signed certificate)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("window", "said"),
    [
        (("--from", "100"), "--from 100: the answer is only 8.17 s long"),
        (("--to", "-1"), "--to -1: the answer begins at 0 s and is 8.17 s long"),
    ],
)
async def test_a_window_without_anything_in_it_is_wrong_usage(collector, capsys, window, said):
    assert await run(commands.timeline, "source_stall", *window) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == f"gapline timeline: {said}\n"


async def test_a_flag_wins_over_the_environment(collector, monkeypatch):
    monkeypatch.setenv("GAPLINE_COLLECTOR_URL", "http://127.0.0.1:1")
    assert await run(commands.why, "healthy", "--collector", collector.url + "/") == 0


async def test_what_to_try_next_asks_the_collector_that_was_named(collector, capsys, monkeypatch):
    for command in (commands.why, commands.timeline):
        await run(command, "healthy", "--collector", collector.url)
        assert f" --collector {collector.url}" in capsys.readouterr().out
    await run(commands.why, "healthy")
    assert "--collector" not in capsys.readouterr().out


async def test_an_id_of_any_characters_arrives_as_it_is(collector):
    for request_id in ("a/b?c#d%2e", "é ü", "../../metrics"):
        await run(commands.why, request_id)
        assert collector.asked[-1].match_info["id"] == request_id


@pytest.mark.parametrize(
    ("reply", "code", "said"),
    [
        (lambda: web.Response(status=401), 3, "wants a token (401): give it in GAPLINE_TOKEN"),
        (lambda: failure(503, "unavailable", "the store is busy"), 3, "cannot answer now (503): the store is busy"),
        (lambda: failure(400, "bad_request", "since: must be a number"), 2, "since: must be a number"),
        (lambda: web.Response(status=404, text="nginx"), 3, "answered 404 and not as a gapline collector does"),
        (lambda: web.Response(text="<html>"), 3, "is the URL right?"),
        (lambda: web.json_response([1]), 3, "is the URL right?"),
        (lambda: web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}), 3, "answered 302"),
        (lambda: web.json_response({"status": "named"}), 1, "the answer cannot be shown: request_id: missing"),
        (lambda: web.Response(body=b"{}" * 9, headers={"Content-Encoding": "gzip"}), 3, "no answer from the collector"),
    ],
)
async def test_what_is_no_answer_has_a_reason_and_a_code(replying, capsys, reply, code, said):
    await replying(reply)
    assert await run(commands.why, "some-id") == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert said in shown.err
    assert "Traceback" not in shown.err


async def test_a_refused_token_says_so_with_the_words_of_the_collector(replying, capsys):
    await replying(lambda: failure(403, "forbidden", "asked under a foreign host name"))
    assert await run(commands.stalls, "--token", "wrong") == 3
    err = capsys.readouterr().err
    assert "refused the token (403)" in err
    assert "It says: asked under a foreign host name." in err


async def test_a_name_that_is_not_known_is_no_answer(capsys):
    assert await run(commands.why, "x", "--collector", "http://nowhere.invalid:24070") == 3
    assert "no answer from the collector at http://nowhere.invalid:24070" in capsys.readouterr().err


def test_ctrl_c_ends_as_shells_expect(monkeypatch, capsys):
    def interrupted(main):
        main.close()
        raise KeyboardInterrupt

    monkeypatch.setattr(asyncio, "run", interrupted)
    assert commands.why(["x"]) == 130
    assert capsys.readouterr().out == ""


async def test_nobody_listening_is_no_answer(unused_tcp_port, capsys):
    assert await run(commands.why, "x", "--collector", f"http://127.0.0.1:{unused_tcp_port}") == 3
    assert "Connection refused. Is it running (`gapline collector`)?" in capsys.readouterr().err


async def test_a_collector_that_takes_too_long_is_no_answer(replying, capsys):
    await replying(lambda: asyncio.sleep(30))
    assert await run(commands.why, "x", "--timeout", "100ms") == 3
    assert "did not answer within 0.1 s (--timeout)" in capsys.readouterr().err


async def test_an_answer_without_end_is_no_answer(replying, capsys, monkeypatch):
    monkeypatch.setattr(asking, "ANSWER_BYTES", 1 << 10)
    await replying(lambda: web.Response(body=b"[" * 4096))
    assert await run(commands.why, "x") == 3
    assert "answered with more than" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "argv", "said"),
    [
        (commands.why, [], "REQUEST_ID"),
        (commands.why, [" "], "must not be empty"),
        (commands.why, ["x", "--collector", "ftp://localhost:24070"], "must be http://HOST"),
        (commands.why, ["x", "--token", "a\nb"], "the token must be printable ASCII"),
        (commands.why, ["x", "--width", "10"], "must be a whole number from 60 to 1000"),
        (commands.why, ["x", "--timeout", "soon"], "must be a time such as"),
        (commands.timeline, ["x", "--from", "5", "--to", "5"], "--from 5 must be less than --to 5"),
        (commands.timeline, ["x", "--from", "nan"], "must be seconds from"),
        (commands.stalls, ["--since", "yesterday"], "must be a time such as"),
        (commands.stalls, ["--limit", "0"], "must be a whole number from 1 to 1000"),
        (commands.stalls, ["--limit", "x"], "'x' must be a whole number from 1 to 1000"),
        (commands.timeline, ["a", "--from", "x"], "'x' must be seconds from -1000000000.0 to 1000000000.0"),
    ],
)
def test_wrong_usage_is_said_before_anybody_is_asked(capsys, monkeypatch, command, argv, said):
    monkeypatch.setenv("GAPLINE_COLLECTOR_URL", "http://127.0.0.1:1")
    with pytest.raises(SystemExit) as stop:
        command(argv)
    assert stop.value.code == 2
    assert said in capsys.readouterr().err


async def test_keys_of_a_newer_collector_are_shown_and_noted(replying, capsys):
    answer = ANSWERS["healthy"]()["verdict"] | {"mood": "calm", "\x1b[2J": 1}
    await replying(lambda: web.json_response(answer))
    assert await run(commands.why, "x") == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("[healthy")
    assert shown.err == "gapline why: the answer has keys that this gapline does not know: mood, \\x1b[2J\n"


@pytest.mark.parametrize("hostile", HOSTILE)
async def test_nothing_hostile_reaches_the_terminal(replying, capsys, hostile):
    answer = ANSWERS["source_stall"]()["verdict"] | {"sentence": hostile, "request_id": hostile, "missing": [hostile]}
    await replying(lambda: web.json_response(answer))
    assert await run(commands.why, "x") == 10
    assert_fits(capsys.readouterr().out, 100)
    await run(commands.why, "x", "--json")
    out = capsys.readouterr().out
    assert out.isascii()
    assert out.removesuffix("\n").isprintable()


async def test_a_hostile_error_does_not_reach_it_either(replying, capsys):
    await replying(lambda: failure(404, "not_found", "\x1b]0;owned\x07\u202e"))
    assert await run(commands.why, "x") == 12
    assert capsys.readouterr().err.removesuffix("\n").isprintable()


CALL = "import sys; from otel.view import commands; sys.exit(getattr(commands, sys.argv[1])(sys.argv[2:]))"


def on_a_terminal(*argv, env):
    """What a command writes to a pseudo-terminal, and its exit code."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", CALL, *argv], stdout=theirs, stdin=theirs, env=os.environ | env
    ) as process:
        os.close(theirs)
        written = b""
        try:
            while data := os.read(ours, 65_536):
                written += data
        except OSError:  # Linux says EIO when the other side has closed
            pass
    os.close(ours)
    return written.decode(), process.returncode


async def test_on_a_terminal_there_is_colour_and_indented_json(collector):
    env = {"TERM": "xterm-256color", "COLUMNS": "120"}
    text, code = await asyncio.to_thread(on_a_terminal, "why", "source_stall", env=env)
    assert code == 10
    assert text.startswith("\x1b[1;38;5;231;48;5;130m source_stall · model-worker \x1b[0m")
    assert_fits(text.replace("\r\n", "\n"), 120)
    text, _ = await asyncio.to_thread(on_a_terminal, "why", "source_stall", "--json", env=env)
    assert text.startswith('{\r\n  "request_id"')


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"PYTHONIOENCODING": "latin-1"}])
async def test_a_terminal_gets_what_it_can_show(collector, env):
    text, _ = await asyncio.to_thread(
        on_a_terminal, "timeline", "source_stall", "--no-color", env={"TERM": "xterm"} | env
    )
    assert "\x1b" not in text
    assert text.isascii() == ("PYTHONIOENCODING" in env)


async def test_colour_can_be_asked_for_in_a_pipe(collector, capsys):
    await run(commands.why, "source_stall", "--color", "--ascii")
    out = capsys.readouterr().out
    assert out.startswith("\x1b[1;38;5;231;48;5;130m source_stall - model-worker \x1b[0m")
    assert out.isascii()


async def test_a_reader_that_has_seen_enough_is_no_error(collector):
    script = f"{sys.executable} -c '{CALL}' timeline source_stall | head -1; echo ${{PIPESTATUS[0]}}"
    done = await asyncio.to_thread(subprocess.run, ["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0].startswith("[source_stall · model-worker]")
    assert done.stdout.splitlines()[1] == "0"
    assert done.stderr == ""
