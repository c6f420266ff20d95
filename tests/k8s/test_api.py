"""What is asked of an API server, and what becomes of its refusals."""

from __future__ import annotations

import ssl

import aiohttp
import pytest
from aiohttp import web

from k8s import api as module
from k8s.api import ApiError, HttpApi, in_cluster
from tests.support.api_server import CONFIGURATION
from tests.support.certificates import make_pair

SECRETS = "/api/v1/namespaces/gapline/secrets"
NAME = "gapline-injector-tls"
SECRET = {"metadata": {"name": NAME}, "data": {}}


async def test_objects_are_made_read_replaced_and_patched(api, server):
    server.has_all_rights = True  # the injector may not patch a secret, and never does
    await api.create(SECRETS, SECRET)
    found = await api.get(f"{SECRETS}/{NAME}")
    await api.replace(f"{SECRETS}/{NAME}", {**found, "data": {"a": "b"}})
    assert (await api.get(f"{SECRETS}/{NAME}"))["data"] == {"a": "b"}
    await api.patch(CONFIGURATION, [{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 3}])
    assert (await api.get(CONFIGURATION))["webhooks"][0]["timeoutSeconds"] == 3


async def test_who_was_slower_is_told_so(api):
    await api.create(SECRETS, SECRET)
    old = await api.get(f"{SECRETS}/{NAME}")
    await api.replace(f"{SECRETS}/{NAME}", old)
    with pytest.raises(ApiError) as raised:
        await api.replace(f"{SECRETS}/{NAME}", old)
    assert raised.value.is_conflict
    with pytest.raises(ApiError) as raised:
        await api.create(SECRETS, SECRET)
    assert raised.value.is_conflict


async def test_a_long_list_comes_in_pages(api, server, monkeypatch):
    monkeypatch.setattr(module, "PAGE", 2)
    for index in range(5):
        server.put(f"/api/v1/namespaces/team-a/services/s{index}", {"metadata": {"name": f"s{index}"}})
    names = [each["metadata"]["name"] async for each in api.list("/api/v1/namespaces/team-a/services")]
    assert names == [f"s{index}" for index in range(5)]
    assert len(server.asked) == 3


async def test_what_is_absent_or_refused_says_so(api, server):
    with pytest.raises(ApiError, match="404 not found") as raised:
        await api.get("/api/v1/namespaces/none")
    assert raised.value.is_absent
    with pytest.raises(ApiError, match="403"):
        await api.get("/api/v1/namespaces/team-a/secrets/s")
    async with aiohttp.ClientSession() as session:
        with pytest.raises(ApiError, match="401 Unauthorized"):
            await HttpApi(session, server.url).get("/api/v1/namespaces/team-a")


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "9" * 70_000])
async def test_an_answer_that_is_none_is_an_error(aiohttp_server, monkeypatch, text):
    async def handle(_request):
        return web.Response(text=text)

    monkeypatch.setattr(module, "_ANSWER_BYTES", 65_536)
    app = web.Application()
    app.router.add_get("/{path:.*}", handle)
    made = await aiohttp_server(app)
    async with aiohttp.ClientSession() as session:
        with pytest.raises(ApiError, match="the answer is"):
            await HttpApi(session, str(made.make_url("/"))).get("/x")


async def test_nobody_there_is_an_error_without_a_status(unused_tcp_port):
    async with aiohttp.ClientSession() as session:
        with pytest.raises(ApiError, match="no answer") as raised:
            await HttpApi(session, f"http://127.0.0.1:{unused_tcp_port}").get("/x")
    assert raised.value.status is None


async def test_a_pod_finds_its_api_server_and_reads_the_token_anew(aiohttp_server, tmp_path):
    pair = make_pair(tmp_path, "ca")
    (tmp_path / "ca.crt").write_bytes(pair.cert.read_bytes())
    seen = []

    async def handle(request):
        seen.append(request.headers["Authorization"])
        return web.json_response({})

    app = web.Application()
    app.router.add_get("/x", handle)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    made = await aiohttp_server(app, ssl=context)
    async with aiohttp.ClientSession() as session:
        found = in_cluster(
            session,
            {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(made.port)},
            folder=tmp_path,
        )
        for token in ("one", "two"):
            (tmp_path / "token").write_text(f"{token}\n")
            await found.get("/x")
    assert seen == ["Bearer one", "Bearer two"]


async def test_who_is_in_no_pod_is_told_so(tmp_path):
    async with aiohttp.ClientSession() as session:
        with pytest.raises(ApiError, match="KUBERNETES_SERVICE_HOST is not set"):
            in_cluster(session, {})
        with pytest.raises(ApiError, match=r"ca\.crt"):
            in_cluster(session, {"KUBERNETES_SERVICE_HOST": "::1"}, folder=tmp_path)
