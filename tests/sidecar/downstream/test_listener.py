import asyncio
import json
import logging
import socket
import time

import pytest

from otel.hop import Ending, Phase, Side
from otel.settings import UnixPath
from tests.support.front import SECOND_NS, ask_raw, front, say_ok, until
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
LAST = b"GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"


async def streaming(port, *, version="1.1"):
    """A client that has the first bytes of its answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request("GET", "/x", version=version))
    return reader, writer, await reader.readuntil(b"data: 1\n\n")


async def drain(proxy, timeout_s=5.0):
    await proxy.sidecar.listener.drain(timeout_s=timeout_s)


# What reaches the relay.


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/a%2Fb//../c?x=%3A&y"),
        ("GET", "//x"),
        ("GET", "/["),
        ("GET", "/x#y"),
        ("OPTIONS", "*"),
        ("CONNECT", "h:1"),
        ("GET", "http://u:p@elsewhere/x?y"),
        ("M-SEARCH", "/x"),
    ],
)
async def test_every_request_reaches_the_relay_with_its_target_as_it_came(method, target):
    async with front() as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(f"{method} {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
        assert await reader.readuntil(b"\r\n\r\nok")
        writer.close()

    assert [(each.method, each.raw_path) for each in at.relay.seen] == [(method, target)]


@pytest.mark.parametrize("expectation", ["100-continue", "something"])
async def test_an_expectation_is_the_relays_to_answer(expectation):
    async with front() as at:
        fields = f"Host: h\r\nExpect: {expectation}\r\nContent-Length: 1\r\nConnection: close"
        reply = await ask_raw(at.port, f"POST /x HTTP/1.1\r\n{fields}\r\n\r\nx".encode())

    assert reply.startswith(b"HTTP/1.1 200 ")  # and no 100 or 417 before it
    assert at.relay.seen[0].headers["Expect"] == expectation


async def test_a_body_reaches_the_relay_as_it_came():
    async with front() as at:
        fields = b"Host: h\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\nConnection: close"
        got = []

        async def answer(request):
            got.append(await request.content.read())
            return await plain(request)

        plain, at.relay.answer = at.relay.answer, answer
        await ask_raw(at.port, b"POST /x HTTP/1.1\r\n" + fields + b"\r\n\r\n\x1f\x8b\x00x")

    assert got == [b"\x1f\x8b\x00x"]


async def test_a_unix_socket_is_listened_on_as_any_other(tmp_path):
    path = str(tmp_path / "in.sock")
    async with front(endpoint=UnixPath(path)) as at:
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(LAST)
        assert (await reader.read()).endswith(b"ok")
        writer.close()
        assert at.port == 0


# What is refused before it is a request.


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: h\r\nSecret\x00Canary: x\r\n\r\n", 400),
        (b"canary\r\n\r\n", 400),
        (b"GET /x HTTP/1.1\r\nHost: h\r\nX: canary" + b"a" * 70_000 + b"\r\n\r\n", 431),
        (b"GET /canary" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: h\r\n\r\n", 431),
        (b"GET /x HTTP/1.1\r\nHost: h\r\n" + b"X: canary\r\n" * 300 + b"\r\n", 431),
    ],
)
async def test_a_head_that_is_no_request_gets_a_whole_answer_and_is_counted_and_never_quoted(sent, status, caplog):
    caplog.set_level(logging.DEBUG)
    async with front() as at:
        reply = await ask_raw(at.port, sent + b"x" * 500_000)  # more is on its way when we answer

    head_, _, body = reply.partition(b"\r\n\r\n")
    assert head_.startswith(b"HTTP/1.1 %d " % status)
    assert b"\r\nConnection: close" in head_
    assert b"\r\nServer" not in head_
    assert json.loads(body)["error"]["type"] == {400: "bad_request", 431: "head_too_large"}[status]
    assert (at.refused_heads.count, at.relay.seen) == (1, [])
    assert b"canary" not in reply.lower()
    assert "canary" not in caplog.text.lower()


async def test_a_bad_head_behind_a_good_request_does_not_take_its_answer():
    release = asyncio.Event()
    async with front() as at:
        plain = at.relay.answer

        async def answer(request):
            await release.wait()
            return await plain(request)

        at.relay.answer = answer
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
        await until(lambda: at.relay.seen)
        writer.write(b"nonsense\r\n\r\n")
        await asyncio.sleep(0.02)
        release.set()
        reply = await reader.read()
        writer.close()

    assert reply.startswith(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 400 ")


async def test_a_relay_that_fails_leaves_nothing_that_looks_whole():
    async with front() as at:

        async def fail(request):
            raise RuntimeError("of our own making")

        at.relay.answer = fail
        try:
            reply = await ask_raw(at.port, LAST)
        except ConnectionResetError:
            reply = b""

    assert reply == b""
    assert at.exchanges.relay_failure_count == 1


# Drain.


async def test_a_drain_lets_what_runs_finish():
    release = asyncio.Event()
    steps = [head(200, SSE), chunk(b"data: 1\n\n"), wait_for(release), chunk(b"data: 2\n\n"), last_chunk()]
    async with upstream(*steps) as up, sidecar(up.url) as proxy:
        reader, writer, begun = await streaming(proxy.port)
        draining = asyncio.ensure_future(drain(proxy))
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
        await drain(proxy, 0.05)
        reply = parsed(begun + await reader.read())
        writer.close()
        await asyncio.wait_for(up.closed.wait(), 1)
        hop = await proxy.hop()

    assert reply.is_clean is False
    assert (hop.end.ending, hop.end.ended_by, hop.end.phase) == (Ending.DRAINED, Side.SIDECAR, Phase.EVENTS)


async def test_a_drain_resets_what_only_a_close_can_end():
    async with upstream(head(200, SSE), chunk(b"data: 1\n\n"), hang()) as up, sidecar(up.url) as proxy:
        reader, writer, _ = await streaming(proxy.port, version="1.0")
        await drain(proxy, 0)
        try:
            is_reset = bool(await reader.read()) and False
        except ConnectionResetError:
            is_reset = True
        writer.close()

    assert is_reset


async def test_a_drain_closes_connections_that_wait_for_a_next_request_and_accepts_no_new_ones():
    async with upstream(head(200, SSE), chunk(b"data: 1\n\n"), last_chunk()) as up, sidecar(up.url) as proxy:
        reader, writer, _ = await streaming(proxy.port)
        await reader.readuntil(b"0\r\n\r\n")
        await drain(proxy)
        assert await reader.read() == b""  # in order, and at once
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", proxy.port)


async def test_a_connection_whose_exchange_ends_while_we_drain_is_not_kept():
    release = asyncio.Event()
    steps = [head(200, SSE), chunk(b"data: 1\n\n"), wait_for(release), last_chunk()]
    async with upstream(*steps) as up, sidecar(up.url) as proxy:
        reader, writer, _ = await streaming(proxy.port)
        draining = asyncio.ensure_future(drain(proxy))
        await asyncio.sleep(0.05)
        release.set()
        assert (await asyncio.wait_for(reader.read(), 2)).endswith(b"0\r\n\r\n")
        writer.close()
        await draining


async def test_whoever_was_in_the_kernels_queue_gets_a_503_and_no_reset():
    async with upstream(send(b"")) as up, sidecar(up.url) as proxy:
        clients = [socket.create_connection(("127.0.0.1", proxy.port)) for _ in range(5)]  # nobody has accepted them
        for client in clients[:4]:
            client.sendall(get("/x"))
        draining = asyncio.ensure_future(drain(proxy))
        await asyncio.sleep(0.05)
        clients[4].sendall(get("/x"))  # that one was slower
        replies = []
        for client in clients:
            client.setblocking(False)
            replies.append(await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 10_000), 2))
            client.close()
        await draining
        hops = await proxy.hops(5)

    assert [parsed(reply).status for reply in replies] == [503] * 5
    assert all(parsed(reply).field("Connection") == ["close"] for reply in replies)
    assert {hop.end.ending for hop in hops} == {Ending.REJECTED}


async def test_a_client_that_says_nothing_does_not_hold_a_drain_up_for_long():
    async with front() as at:
        with socket.create_connection(("127.0.0.1", at.port)):
            await until(lambda: at.doors.open_count == 1)
            began_ns = time.monotonic_ns()
            await at.listener.drain(timeout_s=30)
            assert time.monotonic_ns() - began_ns < 3 * SECOND_NS


async def test_a_drain_waits_for_what_passes_unread_and_ends_it_at_the_limit():
    async def serve(reader, writer):
        writer.write(b"hello")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]

        async def dial(_, protocol):
            return await asyncio.get_running_loop().create_connection(protocol, "127.0.0.1", port)

        async with front(dial=dial) as at:
            reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            assert await reader.readexactly(5) == b"hello"
            draining = asyncio.ensure_future(at.listener.drain(timeout_s=0.2))
            await asyncio.sleep(0.1)
            assert not draining.done()
            await draining
            await until(lambda: not at.doors.tunnels)
            writer.close()


async def test_answers_of_our_own_name_no_server():
    async with upstream(send(b"")) as up, sidecar(up.url) as proxy:
        for sent in (
            request("CONNECT", "a:1"),
            request("POST", "/", "Expect: something", "Content-Length: 1", body=b"x"),
        ):
            reply = await ask(proxy.port, sent)
            assert reply.status in {417, 501}
            assert reply.field("Server") == []


async def test_a_body_that_breaks_before_its_request_has_its_turn_is_told_so():
    seen = []

    async def answer(request):
        try:
            await request.content.read()
        except Exception as error:
            seen.append(type(error).__name__)
        return await say_ok(request)

    async with front(answer) as at:
        _, writer = await asyncio.open_connection("127.0.0.1", at.port)
        await until(lambda: at.doors.open_count)
        (door,) = at.doors._doors
        door.data_received(b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        door.data_received(b"zz\r\n")
        await until(lambda: seen)
        writer.close()

    assert seen == ["BadBody"]
