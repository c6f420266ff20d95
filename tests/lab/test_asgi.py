"""The ASGI proxy: pieces pass as they come, and a hop that breaks off or a reader that leaves is passed on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import httpx
import pytest
from aiohttp import web
from pytest_aiohttp.plugin import AiohttpServer

from tests.lab.asgi import Message, Proxy

Asks = Callable[..., Awaitable[list[Message]]]


class Source:
    """The next hop: three pieces, or one and a break, or one and then nothing until its reader has left."""

    def __init__(self) -> None:
        self.asked: Mapping[str, str] = {}
        self.was_left = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked = request.headers
        how = await request.text()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for number in range(3):
            await response.write(b"data: %d\n\n" % number)
            await asyncio.sleep(0.02)
            if how == "break":
                request.transport.close()
            elif how == "hang":
                try:
                    await asyncio.sleep(10)
                except asyncio.CancelledError:
                    self.was_left.set()
                    raise
        return response


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
async def asks(aiohttp_server: AiohttpServer, source: Source) -> AsyncIterator[Asks]:
    """What the proxy sends for a request with this body; with leaves_after the reader goes so many seconds later."""
    app = web.Application()
    app.router.add_post("/v1/chat/completions", source.answer)
    server = await aiohttp_server(app)

    async def asks(body: bytes, *, leaves_after_s: float | None = None) -> list[Message]:
        sent: list[Message] = []
        said: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if said:
                return said.pop()
            await asyncio.sleep(100 if leaves_after_s is None else leaves_after_s)
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            sent.append(message)

        headers = [(b"host", b"elsewhere"), (b"x-request-id", b"r-1")]
        scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": headers}
        await Proxy(next_hop)(scope, receive, send)
        return sent

    async with httpx.AsyncClient(base_url=str(server.make_url(""))) as next_hop:
        yield asks


async def test_pieces_pass_one_by_one_with_status_and_headers(asks: Asks, source: Source) -> None:
    start, *pieces, end = await asks(b"")
    assert start["status"] == 200
    assert (b"Content-Type", b"text/event-stream") in start["headers"]
    assert [piece["body"] for piece in pieces] == [b"data: 0\n\n", b"data: 1\n\n", b"data: 2\n\n"]
    assert end == {"type": "http.response.body", "body": b""}
    assert source.asked["x-request-id"] == "r-1"
    assert source.asked["Host"] != "elsewhere"


async def test_an_answer_that_breaks_off_is_not_ended(asks: Asks) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        await asks(b"break")


async def test_a_reader_that_leaves_ends_the_request_upstream(asks: Asks, source: Source) -> None:
    sent = await asks(b"hang", leaves_after_s=0.1)
    assert sent[-1].get("more_body")
    await asyncio.wait_for(source.was_left.wait(), 2)
