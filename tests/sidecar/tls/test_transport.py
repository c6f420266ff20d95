import asyncio
import os

import pytest

from sidecar.receive import RECEIVE_BYTES
from sidecar.upstream.answer import AHEAD_BYTES
from tests.support.upstreams import (
    CHUNKED,
    OK_EMPTY,
    PAUSE_S,
    POST_40_MB,
    UNTIL_CLOSE,
    answering,
    ask,
    asking,
    broken,
    contexts,
    pieces_of,
    served,
    whole,
    zeros,
)


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """A server's context, and one that trusts it."""
    return contexts(tmp_path_factory.mktemp("tls"))


@pytest.mark.parametrize(
    ("head", "body", "is_clean"),
    [(CHUNKED, b"3\r\nabc\r\n0\r\n\r\n", True), (UNTIL_CLOSE, b"abc", True), (CHUNKED, b"3\r\nabc\r\n", False)],
)
async def test_an_answer_ends_as_it_does_without_tls(tls, head, body, is_clean):
    async with served(answering(head, body), context=tls[0]) as server, asking(server.url, context=tls[1]) as upstream:
        answer = await ask(upstream)
        if is_clean:
            assert await whole(answer) == b"abc"
        else:
            assert (await broken(answer))[1].cut == "fin"


@pytest.mark.parametrize("then", ["close", "cut", "reset"])
async def test_a_body_until_the_close_is_whole_only_with_the_closing_alert(tls, then):
    async def serve(peer):
        await peer.request()
        await peer.send(UNTIL_CLOSE + b"abc")
        await asyncio.sleep(PAUSE_S)
        if then == "cut":
            peer.writer.transport.abort()  # closes the connection under TLS
        elif then == "reset":
            peer.reset()

    async with served(serve, context=tls[0]) as server, asking(server.url, context=tls[1]) as upstream:
        answer = await ask(upstream)
        if then == "close":
            assert await whole(answer) == b"abc"
        else:
            content, error = await broken(answer)
            assert (content, error.cut) == (b"abc", {"cut": "fin", "reset": "reset"}[then])


@pytest.mark.parametrize("head", [UNTIL_CLOSE, b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n"])
async def test_a_reader_that_comes_after_the_end_loses_nothing(tls, head):
    serve = answering(head + bytes(300_000))
    async with served(serve, context=tls[0]) as server, asking(server.url, context=tls[1]) as upstream:
        answer = await ask(upstream)
        await asyncio.sleep(4 * PAUSE_S)
        size_bytes = 0
        while (piece := await answer.read()) is not None:
            size_bytes += len(piece.data)
            await asyncio.sleep(0.001)

    assert size_bytes == 300_000


async def test_a_stuck_reader_holds_little_and_loses_nothing(tls):
    async def serve(peer):
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8000000\r\n\r\n")
        await peer.send(bytes(8_000_000))

    async with served(serve, context=tls[0]) as server, asking(server.url, context=tls[1]) as upstream:
        answer = await ask(upstream)
        for _ in range(5):
            await asyncio.sleep(PAUSE_S)
            assert answer.arrived_bytes <= AHEAD_BYTES + RECEIVE_BYTES
        assert answer.unread_bytes() > AHEAD_BYTES
        assert await whole(answer) == bytes(8_000_000)


@pytest.mark.parametrize("then", ["reset", "close"])
async def test_an_early_answer_reaches_its_reader_though_the_upload_fails(tls, then):
    page = b"too large" * 1_000

    async def serve(peer):
        await peer.head()
        await peer.reader.read(100_000)
        await peer.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: %d\r\n\r\n" % len(page) + page)
        await asyncio.sleep(0)
        if then == "reset":
            peer.reset()
        else:
            peer.writer.transport.abort()

    async with served(serve, context=tls[0]) as server, asking(server.url, context=tls[1]) as upstream:
        for _ in range(5):
            answer = await ask(upstream, "POST", fields=POST_40_MB, body=zeros(2_560))
            assert answer.status == 413
            assert await whole(answer) == page


async def test_a_large_upload_waits_for_its_server(tls):
    produced, go_on = [0], asyncio.Event()

    async def serve(peer):
        await peer.head()
        await go_on.wait()
        left_bytes = 40 << 20
        while left_bytes:
            left_bytes -= len(await peer.reader.read(65_536))
        await peer.send(OK_EMPTY)

    async with served(serve, context=tls[0]) as server, asking(server.url, context=tls[1]) as upstream:

        async def later():
            await asyncio.sleep(6 * PAUSE_S)
            assert 0 < produced[0] < 20 << 20
            go_on.set()

        body = zeros(2_560, produced=produced)
        answer, _ = await asyncio.gather(ask(upstream, "POST", fields=POST_40_MB, body=body), later())
        assert answer.status == 200

    assert produced[0] == 40 << 20


async def test_its_connections_are_kept_and_their_end_is_seen(tls):
    async def serve(peer):
        for _ in range(2):
            request = await peer.request()
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(request.body) + request.body)

    async with served(serve, context=tls[0]) as server, asking(server.url, context=tls[1]) as upstream:
        for text in (b"a" * 70_000, b"b"):
            assert await whole(await ask(upstream, "POST", body=pieces_of(text))) == text
        await asyncio.sleep(PAUSE_S)
        assert (upstream.opened_count, upstream.idle_count, upstream.open_count) == (1, 0, 0)


async def test_bytes_that_are_no_tls_break_off(tls):
    async def serve(peer):
        await peer.request()
        await peer.send(UNTIL_CLOSE + b"abc")
        await asyncio.sleep(PAUSE_S)
        os.write(peer.writer.get_extra_info("socket").fileno(), b"no record" * 9)
        await peer.gone()

    async with served(serve, context=tls[0]) as server, asking(server.url, context=tls[1]) as upstream:
        content, error = await broken(await ask(upstream))

    assert (content, error.cut) == (b"abc", "framing")
