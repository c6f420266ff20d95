"""A WebSocket through the sidecar between a real client and a real server: nothing changes, everything is stamped."""

import asyncio

import aiohttp
import pytest
from aiohttp import web

from otel.hop import Ending, EventClass, Side
from tests.support.script import sidecar

BIG = b"\0\xff" * 400_000


@pytest.fixture
async def echo(aiohttp_server):
    """Sends back every message, and says goodbye on request."""

    async def serve(request: web.Request) -> web.WebSocketResponse:
        ws = web.WebSocketResponse(protocols=("realtime",), max_msg_size=1 << 22)
        await ws.prepare(request)
        async for message in ws:
            if message.data == "goodbye":
                await ws.close(code=4000, message=b"bye")
            elif message.type is aiohttp.WSMsgType.TEXT:
                await ws.send_str(message.data)
            else:
                await ws.send_bytes(message.data)
        return ws

    async def refuse(_request: web.Request) -> web.Response:
        return web.Response(status=403, text="no")

    app = web.Application()
    app.router.add_get("/v1/realtime", serve)
    app.router.add_get("/closed", refuse)
    return await aiohttp_server(app)


async def test_messages_pass_both_ways_and_both_are_stamped(echo):
    async with sidecar(str(echo.make_url("/")).rstrip("/")) as proxy, aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{proxy.port}/v1/realtime?secret=1"
        async with session.ws_connect(url, protocols=("realtime",), max_msg_size=1 << 22) as ws:
            assert ws.protocol == "realtime"
            for number in range(20):
                await ws.send_str(f"hello {number}")
                assert (await ws.receive()).data == f"hello {number}"
            await ws.send_bytes(BIG)
            assert (await ws.receive()).data == BIG
            await ws.ping(b"are you there")
            await ws.send_str("goodbye")
            closing = await ws.receive()
        hop = await proxy.hop()

    assert (closing.type, closing.data, closing.extra) == (aiohttp.WSMsgType.CLOSE, 4000, "bye")
    assert (hop.exchange.framing, hop.exchange.status, hop.exchange.path) == ("websocket", 101, "/v1/realtime")
    received = [stamp.event_class for stamp in hop.timeline.stamps]
    assert received.count(EventClass.OPAQUE) == 21
    assert hop.sent is not None
    assert sum(stamp.event_class is EventClass.OPAQUE for stamp in hop.sent.stamps) == 22
    assert (hop.end.ending, hop.end.ended_by) == (Ending.COMPLETE, Side.UPSTREAM)
    for timeline in (hop.timeline, hop.sent):
        assert all(stamp.taken_ns is not None and stamp.taken_ns >= stamp.arrived_ns for stamp in timeline.stamps)


async def test_a_refused_upgrade_is_an_ordinary_answer_and_the_connection_goes_on(echo):
    async with sidecar(str(echo.make_url("/")).rstrip("/")) as proxy, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(f"http://127.0.0.1:{proxy.port}/closed")
        hop = await proxy.hop()

    assert refused.value.status == 403
    assert (hop.exchange.status, hop.end.ending) == (403, Ending.COMPLETE)


async def test_a_client_that_vanishes_takes_the_upstream_with_it(echo):
    async with sidecar(str(echo.make_url("/")).rstrip("/")) as proxy, aiohttp.ClientSession() as session:
        ws = await session.ws_connect(f"http://127.0.0.1:{proxy.port}/v1/realtime")
        await ws.send_str("hello")
        await ws.receive()
        ws._response.connection.transport.abort()
        async with asyncio.timeout(2):
            hop = await proxy.hop()
        await ws.close()

    assert (hop.end.ending, hop.end.ended_by) == (Ending.CLIENT_DISCONNECT, Side.DOWNSTREAM)
