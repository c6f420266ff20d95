"""The plain proxy passes on what it gets, in the pieces in which it comes."""

from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from tests.bench.plain import application, end_to_end


async def answered(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"X-Path": request.path_qs, "Content-Type": "text/event-stream"})
    await response.prepare(request)
    for part in (b"data: 1\n\n", await request.read(), b"data: [DONE]\n\n"):
        await response.write(part)
    return response


@pytest.mark.parametrize("body", [b"", b"data: 2\n\n"])
async def test_a_stream_passes(body: bytes) -> None:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answered)
    async with (
        TestServer(app) as upstream,
        TestClient(TestServer(application(str(upstream.make_url("")).rstrip("/")))) as client,
    ):
        response = await client.post("/v1/chat?a=1", data=body)
        assert response.headers["X-Path"] == "/v1/chat?a=1"
        assert await response.read() == b"data: 1\n\n" + body + b"data: [DONE]\n\n"


def test_fields_of_one_hop_stay() -> None:
    assert end_to_end({"Transfer-Encoding": "chunked", "Host": "a", "X-A": "1"}) == {"X-A": "1"}
