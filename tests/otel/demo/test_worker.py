"""The scripted worker over real sockets: its stream, its faults, and its health."""

from __future__ import annotations

import socket

import aiohttp
import pytest
from aiohttp import web
from pytest_aiohttp.plugin import AiohttpClient

from otel.demo import faults, script, worker


@pytest.fixture
async def app() -> web.Application:
    made = web.Application()
    made.router.add_post("/v1/chat/completions", worker.chat)
    return made


async def test_the_stream_is_the_script_byte_for_byte(app: web.Application, aiohttp_client: AiohttpClient) -> None:
    client = await aiohttp_client(app)
    asked = {"model": "m", "max_tokens": 5, "seed": 3}
    response = await client.post("/v1/chat/completions", json=asked, headers={"x-request-id": "r-7"})
    written = script.script(request_id="r-7", model="m", events=5, seed=3)
    assert response.content_type == "text/event-stream"
    assert await response.read() == b"".join(due.data for due in written.events)


async def test_a_cut_closes_the_connection_in_mid_stream(app: web.Application, aiohttp_client: AiohttpClient) -> None:
    client = await aiohttp_client(app)
    headers = {faults.HEADER: "model-worker:cut=0.3"}
    response = await client.post("/v1/chat/completions", json={"max_tokens": 50}, headers=headers)
    with pytest.raises(aiohttp.ClientPayloadError):
        await response.read()


async def test_a_header_that_makes_no_sense_is_refused_with_the_reason(
    app: web.Application, aiohttp_client: AiohttpClient
) -> None:
    client = await aiohttp_client(app)
    response = await client.post("/v1/chat/completions", json={}, headers={faults.HEADER: "model-worker:stall=0"})
    assert response.status == 400
    assert await response.text() == ("x-demo-fault: '0': the seconds must be a number above 0 and at most 60\n")


@pytest.mark.parametrize("buffer_bytes", [8_192, 65_536])
def test_a_socket_has_the_buffers_that_are_asked_for(buffer_bytes: int) -> None:
    with worker.sized_socket(socket.AF_INET, socket.SOCK_STREAM, buffer_bytes=buffer_bytes) as sized:
        sizes = [sized.getsockopt(socket.SOL_SOCKET, option) for option in (socket.SO_RCVBUF, socket.SO_SNDBUF)]
    assert sizes == [2 * buffer_bytes] * 2  # Linux counts its own bookkeeping in


async def test_a_fault_of_another_hop_is_left_alone(app: web.Application, aiohttp_client: AiohttpClient) -> None:
    client = await aiohttp_client(app)
    headers = {faults.HEADER: "gateway:cut=0.1"}
    response = await client.post("/v1/chat/completions", json={"max_tokens": 5}, headers=headers)
    assert (await response.read()).endswith(b"data: [DONE]\n\n")
