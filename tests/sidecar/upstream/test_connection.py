import asyncio
import hashlib
import socket
import struct
import time

import pytest

from sidecar.receive import RECEIVE_BYTES
from sidecar.upstream import BadAnswer, BrokenOff
from sidecar.upstream.answer import AHEAD_BYTES
from sidecar.upstream.connection import WRITE_AHEAD_BYTES
from tests.support.upstreams import (
    CHUNKED,
    LAST,
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

# An answer comes through as it is.


async def test_an_answer_comes_in_the_pieces_and_at_the_times_in_which_it_arrived():
    steps = (CHUNKED, b"2\r\nab\r\n", b"1\r\nc\r\n1\r\nd\r\n", LAST)
    async with served(answering(*steps)) as server, asking(server.url) as upstream:
        answer = await ask(upstream)
        await asyncio.sleep(5 * PAUSE_S)
        first, second = answer.waiting()
        read_ns = time.monotonic_ns()
        assert await answer.read() is None

    assert (first.data, second.data) == (b"ab", b"cd")
    assert second.at_ns - first.at_ns > PAUSE_S * 0.5e9
    assert answer.answered_at_ns < first.at_ns < second.at_ns < answer.ended_at_ns < read_ns


async def test_interim_answers_come_in_order_before_the_final_one():
    interims = []
    steps = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n",
        b"\r\nHTTP/1.1 102 x\r\n\r\n" + OK_EMPTY,
    )
    async with served(answering(*steps)) as server, asking(server.url) as upstream:
        answer = await ask(upstream, on_interim=interims.append)

    assert [head.status for head in interims] == [100, 103, 102]
    assert interims[1].fields == (("Link", "</a>"),)
    assert answer.status == 200


async def test_what_an_interim_answer_raises_comes_back_to_who_asked():
    def refuse(_head):
        raise ValueError("the reader is gone")

    async with served(answering(b"HTTP/1.1 100 Continue\r\n\r\n" + OK_EMPTY)) as server, asking(server.url) as upstream:
        with pytest.raises(ValueError, match="the reader is gone"):
            await ask(upstream, on_interim=refuse)


async def test_trailers_come_with_the_end():
    steps = (CHUNKED + b"1\r\na\r\n", b"0\r\nX-Sum: 9\r\n\r\n")
    async with served(answering(*steps)) as server, asking(server.url) as upstream:
        answer = await ask(upstream)
        assert answer.trailers == ()
        assert await whole(answer) == b"a"

    assert answer.trailers == (("X-Sum", "9"),)


@pytest.mark.parametrize(
    ("method", "data"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"),
        ("GET", OK_EMPTY),
        ("GET", CHUNKED + LAST),
    ],
)
async def test_an_empty_answer_ends_with_its_head(method, data):
    async with served(answering(data, then="open")) as server, asking(server.url) as upstream:
        answer = await ask(upstream, method)
        assert answer.ended_at_ns is not None
        assert await answer.read() is None
        assert upstream.idle_count == 1


# An answer that is not whole.


@pytest.mark.parametrize(
    ("head", "body", "then", "cut", "missing_bytes"),
    [
        (CHUNKED, b"5\r\nabc", "close", "fin", None),
        (CHUNKED, b"3\r\nabc\r\n", "close", "fin", None),
        (CHUNKED, b"5\r\nabc", "reset", "reset", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", b"abc", "close", "fin", 1),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", b"abc", "reset", "reset", 1),
        (UNTIL_CLOSE, b"abc", "reset", "reset", None),
        (CHUNKED, b"3\r\nabc\r\nzz\r\n", "open", "framing", None),
    ],
)
async def test_a_body_that_breaks_off_says_how_after_all_that_arrived(head, body, then, cut, missing_bytes):
    async with served(answering(head, body, then=then)) as server, asking(server.url) as upstream:
        answer = await ask(upstream)
        content, error = await broken(answer)

    assert (content, error.cut, answer.missing_bytes) == (b"abc", cut, missing_bytes)
    assert answer.ended_at_ns is not None


async def test_a_body_that_ends_with_its_connection_ends_cleanly_in_order():
    async with served(answering(UNTIL_CLOSE, b"abc")) as server, asking(server.url) as upstream:
        assert await whole(await ask(upstream)) == b"abc"
        assert upstream.idle_count == 0


@pytest.mark.parametrize("then", ["close", "reset"])
async def test_an_answer_that_does_not_even_begin_is_broken_off(then):
    async with served(answering(then=then)) as server, asking(server.url) as upstream:
        with pytest.raises(BrokenOff) as raised:
            await ask(upstream)

    assert raised.value.cut == {"close": "fin", "reset": "reset"}[then]


@pytest.mark.parametrize(
    "data", [b"SSH-2.0-x\r\n", b"HTTP/1.1 101 Switching\r\n\r\n", b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n"]
)
async def test_what_is_no_answer_is_refused(data):
    async with served(answering(data, then="open")) as server, asking(server.url) as upstream:
        with pytest.raises(BadAnswer):
            await ask(upstream)


async def test_an_answer_that_was_reset_behind_a_slow_reader_is_read_to_its_last_byte_before_that_is_told():
    async def serve(peer):
        await peer.request()
        await peer.send(UNTIL_CLOSE + bytes(140_000))
        await asyncio.sleep(PAUSE_S)
        peer.reset()

    async with served(serve) as server, asking(server.url) as upstream:
        answer = await ask(upstream)
        await asyncio.sleep(3 * PAUSE_S)
        content, error = await broken(answer)

    assert (len(content), error.cut) == (140_000, "reset")


# Reading ahead.


async def test_a_stuck_reader_holds_little_and_loses_nothing():
    sent = bytearray()

    async def serve(peer):
        await peer.request()
        await peer.send(CHUNKED)
        for number in range(4_000):
            data = number.to_bytes(4, "big") * 512
            sent.extend(data)
            await peer.chunk(data)
        await peer.send(LAST)

    async with served(serve) as server, asking(server.url) as upstream:
        answer = await ask(upstream)
        for _ in range(5):
            await asyncio.sleep(PAUSE_S)
            assert answer.arrived_bytes <= AHEAD_BYTES + RECEIVE_BYTES
        assert answer.unread_bytes() > answer.arrived_bytes > AHEAD_BYTES
        content = await whole(answer)

    assert hashlib.sha256(content).digest() == hashlib.sha256(sent).digest()
    assert upstream.opened_count == 1


async def test_a_reader_that_comes_late_still_gets_a_clean_end():
    async with served(answering(CHUNKED, b"1\r\na\r\n", LAST)) as server, asking(server.url) as upstream:
        answer = await ask(upstream)
        await asyncio.sleep(5 * PAUSE_S)
        assert answer.unread_bytes() == 1
        assert await whole(answer) == b"a"


# Uploads.


@pytest.mark.parametrize("then", ["reset", "close"])
async def test_an_early_answer_reaches_its_reader_though_the_upload_fails(then):
    page = b"too large" * 1_000

    async def serve(peer):
        await peer.head()
        await peer.reader.read(100_000)
        await peer.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: %d\r\n\r\n" % len(page) + page)
        if then == "reset":
            await asyncio.sleep(0)
            peer.reset()
        # otherwise it closes with the upload unread, which is a reset too

    async with served(serve) as server, asking(server.url) as upstream:
        for _ in range(10):
            answer = await ask(upstream, "POST", fields=POST_40_MB, body=zeros(2_560))
            assert answer.status == 413
            assert await whole(answer) == page
        assert (upstream.idle_count, upstream.opened_count) == (0, 10)


async def test_an_answer_that_our_kernel_has_outlives_a_write_that_fails():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        async with asking(f"http://127.0.0.1:{listening.getsockname()[1]}") as upstream, asyncio.TaskGroup() as group:
            asked = group.create_task(ask(upstream, "POST", body=pieces_of(b"a", b"b", pause_s=9)))
            while not upstream._open:
                await asyncio.sleep(0.001)
            (connection,) = upstream._open
            server, _ = listening.accept()
            server.recv(1_000)
            server.sendall(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")
            server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            server.close()
            connection.write(b"x")  # in the same turn of the loop, so before anything can be read
            answer = await asked
            assert (answer.status, await whole(answer)) == (413, b"big")


async def test_an_early_answer_ends_the_upload_that_its_server_no_longer_reads():
    is_closed = asyncio.Event()

    async def body():
        try:
            while True:
                yield bytes(16_384)
        finally:
            is_closed.set()

    async def serve(peer):
        await peer.head()
        await peer.send(b"HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno")
        await asyncio.sleep(1)

    async with served(serve) as server, asking(server.url) as upstream:
        answer = await ask(upstream, "POST", body=body())
        assert (answer.status, await whole(answer)) == (401, b"no")
        assert is_closed.is_set()
        assert upstream.idle_count == 0


async def test_a_server_that_has_finished_may_close_its_half_while_we_still_send():
    async def serve(peer):
        await peer.head()
        await peer.send(UNTIL_CLOSE + b"done")
        peer.writer.write_eof()
        await peer.gone()

    async with served(serve) as server, asking(server.url) as upstream:
        answer = await ask(upstream, "POST", body=zeros(2_560))
        assert await whole(answer) == b"done"


async def test_a_large_upload_takes_little_memory_however_slow_its_server():
    produced, received = [0], hashlib.sha256()
    go_on = asyncio.Event()

    async def serve(peer):
        peer.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        await peer.head()
        await go_on.wait()
        left = 40 << 20
        while left:
            data = await peer.reader.read(65_536)
            received.update(data)
            left -= len(data)
        await peer.send(OK_EMPTY)

    async with served(serve) as server, asking(server.url) as upstream, asyncio.TaskGroup() as group:
        asked = group.create_task(ask(upstream, "POST", fields=POST_40_MB, body=zeros(2_560, produced=produced)))
        while not upstream._open:
            await asyncio.sleep(0.001)
        (connection,) = upstream._open
        counts = []
        for _ in range(6):
            await asyncio.sleep(PAUSE_S)
            counts.append(produced[0])
            assert connection._transport.get_write_buffer_size() <= WRITE_AHEAD_BYTES + 16_384
        go_on.set()
        assert (await asked).status == 200

    assert counts[-1] == counts[-3] < 12 << 20
    assert produced[0] == 40 << 20
    assert received.digest() == hashlib.sha256(bytes(40 << 20)).digest()


async def test_an_upload_in_chunks_arrives_whole_and_leaves_its_connection_usable():
    async def serve(peer):
        for _ in range(2):
            request = await peer.request()
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(request.body) + request.body)

    async with served(serve) as server, asking(server.url) as upstream:
        for _ in range(2):
            assert await whole(await ask(upstream, "POST", body=pieces_of(b"ab", b"c"))) == b"abc"
        assert (upstream.opened_count, upstream.reused_count) == (1, 1)


async def test_a_body_that_fails_before_the_answer_is_what_asking_raises():
    async def body():
        yield b"a"
        raise LookupError("the client broke off")

    seen = []

    async def serve(peer):
        await peer.head()
        seen.append(await peer.reader.read())

    async with served(serve) as server, asking(server.url) as upstream:
        with pytest.raises(LookupError, match="the client broke off"):
            await ask(upstream, "POST", body=body())
        await asyncio.sleep(PAUSE_S)

    assert seen in ([b"1\r\na\r\n"], [b""])


async def test_a_body_that_fails_within_the_answer_breaks_that_off():
    fail = asyncio.Event()

    async def body():
        yield b"a"
        await fail.wait()
        raise LookupError("the client broke off")

    async def serve(peer):
        await peer.head()
        await peer.send(CHUNKED + b"1\r\nb\r\n")
        await peer.gone()

    async with served(serve) as server, asking(server.url) as upstream:
        answer = await ask(upstream, "POST", body=body())
        assert (await answer.read()).data == b"b"
        fail.set()
        content, error = await broken(answer)

    assert (content, error.cut) == (b"", "reset")
    assert isinstance(answer.upload_error, LookupError)


# Leaving.


async def test_a_cancelled_question_closes_its_connection_at_once():
    times = []

    async def serve(peer):
        await peer.head()
        await peer.gone()
        times.append(time.monotonic())

    async with served(serve) as server, asking(server.url) as upstream:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await ask(upstream, "POST", body=zeros(100_000))
        began = time.monotonic()
        await asyncio.sleep(PAUSE_S)

    assert times[0] - began < PAUSE_S


async def test_a_cancelled_read_closes_its_connection_at_once():
    closed = asyncio.Event()

    async def serve(peer):
        await peer.request()
        await peer.send(CHUNKED)
        await peer.gone()
        closed.set()

    async with served(serve) as server, asking(server.url) as upstream:
        answer = await ask(upstream)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await answer.read()
        async with asyncio.timeout(1):
            await closed.wait()
        with pytest.raises(BrokenOff):
            await answer.read()


async def test_an_answer_that_comes_just_when_its_asker_is_cancelled_leaves_nothing_open():
    async with served(answering(CHUNKED, then="open")) as server, asking(server.url) as upstream:
        for turns in range(12):
            async with asyncio.TaskGroup() as group:
                asked = group.create_task(ask(upstream))
                while not (upstream._open and next(iter(upstream._open))._head):
                    await asyncio.sleep(0)
                connection = next(iter(upstream._open))
                while connection._head is not None and turns % 2:
                    await asyncio.sleep(0)
                if not turns % 2:
                    connection._head.cancel()
                    connection._received(CHUNKED, 1)
                asked.cancel()
            await asyncio.sleep(0.005)
            assert upstream.open_count == 0


# Upgrades.


class Tunnel(asyncio.Protocol):
    def __init__(self):
        self.received = b""
        self.lost = asyncio.Event()

    def data_received(self, data):
        self.received += data

    def connection_lost(self, exc):
        self.lost.set()


@pytest.mark.parametrize("is_tls", [False, True])
async def test_an_upgraded_connection_is_handed_out_with_what_came_already(is_tls, tmp_path):
    async def serve(peer):
        await peer.request()
        await peer.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\nfirst")
        await peer.send(b"second")
        await peer.send(b"<" + await peer.reader.readexactly(5) + b">")

    context, trusting = contexts(tmp_path) if is_tls else (None, None)
    fields = [("Host", "h"), ("Connection", "Upgrade"), ("Upgrade", "x")]
    async with served(serve, context=context) as server, asking(server.url, context=trusting) as upstream:
        answer = await ask(upstream, fields=fields, wants_upgrade=True)
        assert (answer.status, answer.is_upgraded, answer.has_body) == (101, True, False)
        await asyncio.sleep(PAUSE_S)
        upgraded, tunnel = answer.upgraded(), Tunnel()
        tunnel.received = upgraded.rest
        upgraded.switch(tunnel)
        upgraded.transport.write(b"hello")
        async with asyncio.timeout(2):
            await tunnel.lost.wait()
        assert upstream.open_count == 0

    assert tunnel.received == b"firstsecond<hello>"


async def test_an_upgrade_that_nobody_takes_is_closed():
    closed = asyncio.Event()

    async def serve(peer):
        await peer.request()
        await peer.send(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
        await peer.gone()
        closed.set()

    async with served(serve) as server, asking(server.url) as upstream:
        answer = await ask(upstream, wants_upgrade=True)
        answer.abort()
        async with asyncio.timeout(1):
            await closed.wait()
        await asyncio.sleep(0.01)
        with pytest.raises(BrokenOff):
            answer.upgraded()


async def test_an_upgrade_may_be_declined():
    async with served(answering(OK_EMPTY)) as server, asking(server.url) as upstream:
        answer = await ask(upstream, wants_upgrade=True)

    assert (answer.status, answer.is_upgraded) == (200, False)
