import asyncio
import logging

from otel.hop import Ending, Phase, Side
from tests.support.script import (
    ask,
    chunk,
    get,
    hang,
    head,
    last_chunk,
    parsed,
    request,
    send,
    sidecar,
    upstream,
    wait_for,
)

SSE = "text/event-stream"


async def streaming(port, *, version="1.1"):
    """A client that has the first bytes of its answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request("GET", "/x", version=version))
    return reader, writer, await reader.readuntil(b"data: 1\n\n")


async def test_a_drain_lets_what_runs_finish():
    release = asyncio.Event()
    steps = [head(200, SSE), chunk(b"data: 1\n\n"), wait_for(release), chunk(b"data: 2\n\n"), last_chunk()]
    async with upstream(*steps) as up, sidecar(up.url) as proxy:
        reader, writer, begun = await streaming(proxy.port)
        draining = asyncio.ensure_future(proxy.sidecar.listener.drain(timeout_s=5))
        await asyncio.sleep(0.05)
        assert not draining.done()
        release.set()
        await draining
        reply = parsed(begun + await reader.readuntil(b"0\r\n\r\n"))
        writer.close()
        hop = await proxy.hop()

    assert (reply.body, reply.is_clean) == (b"data: 1\n\ndata: 2\n\n", True)
    assert hop.end.ending is Ending.COMPLETE


async def test_at_its_limit_a_drain_ends_what_runs_and_never_cleanly():
    async with upstream(head(200, SSE), chunk(b"data: 1\n\n"), hang()) as up, sidecar(up.url) as proxy:
        reader, writer, begun = await streaming(proxy.port)
        await proxy.sidecar.listener.drain(timeout_s=0.05)
        reply = parsed(begun + await reader.read())
        writer.close()
        await asyncio.wait_for(up.closed.wait(), 1)
        hop = await proxy.hop()

    assert reply.is_clean is False
    assert (hop.end.ending, hop.end.ended_by, hop.end.phase) == (Ending.DRAINED, Side.SIDECAR, Phase.EVENTS)


async def test_a_drain_resets_what_only_a_close_can_end():
    async with upstream(head(200, SSE), chunk(b"data: 1\n\n"), hang()) as up, sidecar(up.url) as proxy:
        reader, writer, _ = await streaming(proxy.port, version="1.0")
        await proxy.sidecar.listener.drain(timeout_s=0)
        try:
            is_reset = bool(await reader.read()) and False
        except ConnectionResetError:
            is_reset = True
        writer.close()

    assert is_reset


async def test_a_draining_sidecar_accepts_nobody_and_refuses_on_old_connections():
    async with upstream(head(200, SSE), chunk(b"data: 1\n\n"), last_chunk()) as up, sidecar(up.url) as proxy:
        reader, writer, begun = await streaming(proxy.port)
        await reader.readuntil(b"0\r\n\r\n")
        await proxy.sidecar.listener.drain(timeout_s=1)
        writer.write(get("/x"))
        reply = parsed(await reader.read())
        writer.close()
        try:
            await asyncio.open_connection("127.0.0.1", proxy.port)
            is_refused = False
        except ConnectionRefusedError:
            is_refused = True
        hops = await proxy.hops(2)

    assert begun
    assert is_refused
    assert (reply.status, reply.field("Connection")) == (503, ["close"])
    assert hops[1].end.ending is Ending.REJECTED


async def test_a_head_that_is_no_request_is_counted_and_never_quoted(caplog):
    caplog.set_level(logging.DEBUG)
    async with upstream(send(b"")) as up, sidecar(up.url) as proxy:
        reply = await ask(proxy.port, b"GET / HTTP/1.1\r\nHost: h\r\nSecret\x00Canary: x\r\n\r\n")
        count = proxy.sidecar.refused_heads.count

    assert (reply.status, count) == (400, 1)
    assert "Canary" not in caplog.text


async def test_answers_of_our_own_name_no_server():
    async with upstream(send(b"")) as up, sidecar(up.url) as proxy:
        for sent in (
            request("CONNECT", "a:1"),
            request("POST", "/", "Expect: something", "Content-Length: 1", body=b"x"),
        ):
            reply = await ask(proxy.port, sent)
            assert reply.status in {417, 501}
            assert reply.field("Server") == []
