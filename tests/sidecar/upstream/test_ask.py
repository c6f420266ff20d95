import asyncio
import time

import pytest

from sidecar.upstream import BadRequestHead, BrokenOff, ConnectFailed, Upstream, origin_of
from tests.support.upstreams import (
    CHUNKED,
    LAST,
    OK_EMPTY,
    ask,
    asking,
    broken,
    contexts,
    pieces_of,
    served,
    whole,
)


def answers(*answers, seen=None):
    """A server that gives these answers, one for each request on a connection, and then closes it."""

    async def serve(peer):
        for answer in answers:
            request = await peer.request()
            if seen is not None:
                seen.append((peer.number, request.line.partition(" ")[0]))
            await peer.send(answer)

    return serve


def body_of(text):
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text


async def kept(peer):
    while True:
        request = await peer.request()
        await peer.send(body_of(request.line.encode()))


# What goes out.


@pytest.mark.parametrize(
    ("body", "fields", "wire"),
    [
        (None, [], b""),
        ([b"ab"], [("content-LENGTH", "2")], b"content-LENGTH: 2\r\n\r\nab"),
        ([b"a", b"b"], [], b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n"),
    ],
)
async def test_a_request_goes_out_to_the_byte(body, fields, wire):
    received = []

    async def serve(peer):
        received.append(await peer.head())
        await peer.send(CHUNKED)
        await asyncio.sleep(0.02)
        received.append(await peer.reader.read(1_000) if body else b"")

    value = b"\xff\xc3\xa9 \xe2\x82".decode("utf-8", "surrogateescape")
    async with served(serve) as server, asking(server.url + "/v1/") as upstream:
        answer = await ask(
            upstream,
            "PoST",
            "//a/%41?q=%3A#f",
            [("HOST", "h"), ("x-A", value), *fields],
            body=body and pieces_of(*body),
        )
        await broken(answer)

    assert b"".join(
        received
    ) == b"PoST /v1//a/%%41?q=%%3A#f HTTP/1.1\r\nHOST: h\r\nx-A: \xff\xc3\xa9 \xe2\x82\r\n%b" % (wire or b"\r\n")


@pytest.mark.parametrize(
    ("method", "target", "fields"),
    [
        ("GET", "/x y", []),
        ("GET", "/x", [("A", "b\r\nEvil: 1")]),
        ("G T", "/x", []),
        ("POST", "/x", [("Transfer-Encoding", "chunked")]),
        ("POST", "/x", [("Content-Length", "+1")]),
        ("POST", "/x", [("Content-Length", "1"), ("Content-Length", "1")]),
    ],
)
async def test_a_head_that_would_be_read_otherwise_is_never_sent(method, target, fields):
    async with served(kept) as server, asking(server.url) as upstream:
        with pytest.raises(BadRequestHead):
            await ask(upstream, method, target, fields or [("Host", "h")], body=pieces_of(b"a"))
        assert server.peers == []


async def test_when_the_head_is_sent_is_told_before_the_answer_is_there():
    told = []

    async def serve(peer):
        await peer.head()
        told.append("received")
        await peer.send(OK_EMPTY)

    async with served(serve) as server, asking(server.url) as upstream:
        await ask(upstream, head_sent=lambda: told.append("sent"))

    assert told == ["sent", "received"]


# Connections are kept.


async def test_requests_follow_each_other_on_one_connection():
    async with served(kept) as server, asking(server.url) as upstream:
        for number in range(5):
            answer = await ask(upstream, target=f"/{number}")
            assert await whole(answer) == f"GET /{number} HTTP/1.1".encode()

    assert len(server.peers) == 1
    assert (upstream.opened_count, upstream.reused_count, upstream.resent_count) == (1, 4, 0)


async def test_an_answer_that_is_read_late_is_not_touched_by_the_next_one_on_its_connection():
    async with served(kept) as server, asking(server.url) as upstream:
        answers = [await ask(upstream, target=f"/{number}") for number in range(20)]
        await asyncio.sleep(0.01)
        bodies = [await whole(answer) for answer in answers]
        answers[0].abort()
        assert await whole(await ask(upstream, target="/last")) == b"GET /last HTTP/1.1"

    assert bodies == [f"GET /{number} HTTP/1.1".encode() for number in range(20)]


async def test_requests_at_the_same_time_have_connections_of_their_own():
    async with served(kept) as server, asking(server.url) as upstream, asyncio.TaskGroup() as group:
        asked = [group.create_task(ask(upstream, target=f"/{number}")) for number in range(8)]
        await asyncio.wait(asked)
        assert [await whole(await each) for each in asked] == [f"GET /{n} HTTP/1.1".encode() for n in range(8)]
        assert (upstream.opened_count, upstream.idle_count, upstream.open_count) == (8, 8, 8)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        OK_EMPTY + b"surplus",
        b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=0\r\nContent-Length: 0\r\n\r\n",
    ],
)
async def test_a_connection_that_may_carry_no_other_answer_is_closed(answer):
    gone = asyncio.Event()

    async def serve(peer):
        await peer.request()
        await peer.send(answer)
        await peer.gone()
        gone.set()

    async with served(serve) as server, asking(server.url) as upstream:
        assert await whole(await ask(upstream)) == b""
        assert upstream.idle_count == 0
        async with asyncio.timeout(1):
            await gone.wait()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("delay_s", [None, 0, 0.01])
async def test_surplus_bytes_never_reach_the_next_answer(method, delay_s):
    first = body_of(b"first") if method == "GET" else OK_EMPTY

    async def serve(peer):
        await peer.request()
        if delay_s is None:
            await peer.send(first + body_of(b"stolen"))
        else:
            await peer.send(first)
            await asyncio.sleep(delay_s)
            await peer.send(body_of(b"stolen"))
        await peer.gone()

    async with served(serve) as server, asking(server.url) as upstream:
        for _ in range(4):
            answer = await ask(upstream, method)
            assert await whole(answer) == (b"first" if method == "GET" else b"")
            await asyncio.sleep(0.02 if delay_s is not None else 0)
            assert upstream.idle_count == 0


async def test_bytes_that_our_kernel_has_but_we_have_not_read_spoil_a_connection_too():
    async with served(kept) as server, asking(server.url) as upstream:
        await ask(upstream)
        server.peers[0].writer.write(body_of(b"stolen"))
        assert await whole(await ask(upstream, target="/own")) == b"GET /own HTTP/1.1"


async def test_an_idle_connection_that_its_server_closes_is_closed_at_once():
    async with served(answers(OK_EMPTY)) as server, asking(server.url) as upstream:
        await ask(upstream)
        await asyncio.sleep(0.02)
        assert (upstream.idle_count, upstream.open_count) == (0, 0)


async def test_idle_connections_are_closed_when_their_time_is_over():
    async with served(kept) as server, asking(server.url) as upstream:
        upstream._pool.died_idle(40_000_000, time.monotonic_ns())
        await ask(upstream)
        assert upstream.open_count == 1
        async with asyncio.timeout(1):
            while upstream.open_count:
                await asyncio.sleep(0.005)
        assert len(server.peers) == 1


# Nothing is sent twice.


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE"])
async def test_only_what_changes_nothing_is_sent_again_and_only_once(method, how):
    seen = []

    async def serve(peer):
        await peer.request()
        await peer.send(OK_EMPTY)
        seen.append((peer.number, (await peer.request()).line.split()[0]))
        if how == "reset":
            peer.reset()

    async with served(serve) as server, asking(server.url) as upstream:
        await ask(upstream)
        if method in {"GET", "HEAD", "OPTIONS"}:
            assert (await ask(upstream, method)).status == 200
            assert (seen, upstream.resent_count, len(server.peers)) == ([(0, method)], 1, 2)
        else:
            with pytest.raises(BrokenOff):
                await ask(upstream, method)
            assert (seen, upstream.resent_count, len(server.peers)) == ([(0, method)], 0, 1)


async def test_a_request_with_a_body_is_not_sent_again():
    seen = []
    async with served(answers(OK_EMPTY, b"", seen=seen)) as server, asking(server.url) as upstream:
        await ask(upstream)
        with pytest.raises(BrokenOff):
            await ask(upstream, "GET", body=pieces_of(b"a"))

    assert seen == [(0, "GET"), (0, "GET")]


async def test_on_a_new_connection_nothing_is_sent_again():
    seen = []
    async with served(answers(b"", seen=seen)) as server, asking(server.url) as upstream:
        with pytest.raises(BrokenOff):
            await ask(upstream)

    assert len(seen) == len(server.peers) == 1


async def test_once_a_byte_of_the_answer_has_come_nothing_is_sent_again():
    seen = []
    async with served(answers(OK_EMPTY, b"H", seen=seen)) as server, asking(server.url) as upstream:
        await ask(upstream)
        with pytest.raises(BrokenOff):
            await ask(upstream)

    assert len(seen) == 2


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_requests_just_when_the_server_closes_its_idle_connections_never_fail(method):
    idle_s = 0.008
    fields = [("Host", "h"), ("Content-Length", "1")] if method == "POST" else None

    async def serve(peer):
        while True:
            async with asyncio.timeout(idle_s):
                head = await peer.head()
            if method == "POST":
                await peer.reader.readexactly(1)
            await peer.send(body_of(head[:4]))

    async def patient(peer):
        try:
            await serve(peer)
        except TimeoutError:
            peer.close()

    async with served(patient) as server, asking(server.url) as upstream:
        for number in range(200):
            answer = await ask(upstream, method, fields=fields, body=pieces_of(b"a") if method == "POST" else None)
            assert await whole(answer) == method.encode().ljust(4)
            is_first = number == 0  # nothing saves a POST from crossing with the first close, so let it be seen
            await asyncio.sleep(idle_s * (2 if is_first and method == "POST" else 0.95))


# The end.


async def test_closed_it_breaks_off_what_still_runs():
    serve = answers(CHUNKED + b"1\r\na\r\n")
    async with served(serve) as server, asking(server.url) as upstream:
        answer = await ask(upstream)
        await upstream.close()
        content, error = await broken(answer)

    assert (content, error.cut) == (b"a", "reset")


async def test_closed_it_opens_nothing_more():
    async with served(kept) as server:
        upstream = Upstream(origin_of(server.url), clock=time.monotonic_ns, connect_timeout_s=2)
        await upstream.close()
        with pytest.raises(ConnectFailed):
            await ask(upstream)
        assert upstream.open_count == 0


@pytest.mark.parametrize("way", ["unix", "ipv6", "tls"])
async def test_every_way_to_a_server_keeps_its_connection(way, tmp_path):
    context, trusting = contexts(tmp_path) if way == "tls" else (None, None)
    options = {"unix": {"unix": tmp_path / "s"}, "ipv6": {"host": "::1"}, "tls": {"context": context}}[way]

    async def serve(peer):
        for _ in range(3):
            request = await peer.request()
            await peer.send(CHUNKED)
            await peer.chunk(request.body)
            await peer.send(LAST)

    async with served(serve, **options) as server, asking(server.url, context=trusting) as upstream:
        for _ in range(3):
            answer = await ask(upstream, "POST", body=pieces_of(bytes(100_000), b"end"))
            assert await whole(answer) == bytes(100_000) + b"end"

    assert len(server.peers) == 1
