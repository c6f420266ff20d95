"""Asking over HTTP: what comes back is an object or one sentence with its exit code. More of it in test_commands."""

from __future__ import annotations

import pytest
from aiohttp import web

from otel.view import asking
from otel.view.asking import NO_ANSWER, NOT_FOUND, USAGE, NoAnswerError, Peer, ask


def a_peer(url: str, *, token: str = "") -> Peer:
    return Peer(
        kind="sidecar",
        url=url,
        token=token,
        if_absent="Is that its --admin address?",
        wants="callers on its own machine",
        if_refused="run this there",
    )


@pytest.fixture
async def asked(aiohttp_server):
    """Ask a server that answers everything with one response."""

    async def start(response: web.Response, *, token: str = "", if_missing: str | None = None):
        async def answer(request: web.Request) -> web.Response:
            seen.append(request)
            return response

        app = web.Application()
        app.router.add_get("/{any:.*}", answer)
        server = await aiohttp_server(app)
        peer = a_peer(f"http://127.0.0.1:{server.port}", token=token)
        return await ask(peer, "/streams?x=%2F", timeout_s=2, if_missing=if_missing)

    seen: list[web.Request] = []
    start.seen = seen
    return start


async def test_an_object_is_the_answer(asked):
    assert await asked(web.json_response({"streams": []}), token="s3cret") == {"streams": []}
    (request,) = asked.seen
    assert (request.raw_path, request.headers["Authorization"]) == ("/streams?x=%2F", "Bearer s3cret")


async def test_without_a_token_none_is_shown(asked):
    await asked(web.json_response({}))
    assert "Authorization" not in asked.seen[0].headers


def failed(status: int, kind: str = "x", message: str = "what it says") -> web.Response:
    return web.json_response({"error": {"type": kind, "message": message}}, status=status)


@pytest.mark.parametrize(
    ("response", "code", "said"),
    [
        (
            lambda: web.Response(status=403, text="no"),
            NO_ANSWER,
            "wants callers on its own machine (403): run this there.",
        ),
        (lambda: failed(403), NO_ANSWER, "It says: what it says."),
        (lambda: failed(404, "not_found"), NO_ANSWER, "answered 404 and not as a gapline sidecar does"),
        (lambda: failed(400), USAGE, "what it says"),
        (lambda: failed(503), NO_ANSWER, "cannot answer now (503): what it says"),
        (lambda: web.Response(text="hello"), NO_ANSWER, "answered 200 and not as a gapline sidecar does"),
        (lambda: web.json_response([1]), NO_ANSWER, "answered 200 and not as a gapline sidecar does"),
        (lambda: web.Response(status=404, text="nginx"), NO_ANSWER, "answered 404"),
    ],
)
async def test_what_is_no_answer_is_one_sentence_and_a_code(asked, response, code, said):
    with pytest.raises(NoAnswerError, match="the sidecar at http") as caught:
        await asked(response())
    assert caught.value.code == code
    assert said in str(caught.value)


async def test_what_may_be_missing_is_told_with_what_to_try(asked):
    with pytest.raises(NoAnswerError, match=r"what it says \(the sidecar at .*\)\. Try another\.") as caught:
        await asked(failed(404, "not_found"), if_missing="Try another.")
    assert caught.value.code == NOT_FOUND


async def test_a_refused_token_is_told_apart_from_none(asked):
    with pytest.raises(NoAnswerError, match="refused the token"):
        await asked(failed(401), token="wrong")


async def test_nobody_there_is_said_with_what_to_try():
    with pytest.raises(NoAnswerError, match=r"Connection refused\. Is that its --admin address\?") as caught:
        await ask(a_peer("http://127.0.0.1:9"), "/streams", timeout_s=2)
    assert caught.value.code == NO_ANSWER


async def test_an_answer_without_end_is_none(asked, monkeypatch):
    monkeypatch.setattr(asking, "ANSWER_BYTES", 10)
    with pytest.raises(NoAnswerError, match="more than 0 MiB"):
        await asked(web.json_response({"streams": [1] * 100}))
