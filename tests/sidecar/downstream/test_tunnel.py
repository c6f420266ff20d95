import asyncio
import socket
import ssl
import struct
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from sidecar.downstream.sniff import Opening
from sidecar.downstream.tunnel import HALF_CLOSED_NS, Tunnel, cut_of, dialer
from sidecar.upstream import TlsFailed
from sidecar.upstream.origin import Origin
from tests.support.clock import FakeClock
from tests.support.front import until

MANY = 4 << 20  # more than all buffers on the way hold


class Noted:
    """A watch that writes down what it is told."""

    def __init__(self):
        self.told = []
        self.passed_bytes = 0

    def passed(self, data, at_ns):
        self.told.append("passed")
        self.passed_bytes += len(data)

    def taken(self, at_ns):
        self.told.append("taken")

    def stuck(self, at_ns):
        self.told.append("stuck")

    def blocked(self, began_ns, ended_ns):
        assert began_ns <= ended_ns
        self.told.append("blocked")

    def ended(self, at_ns, cut):
        self.told.append(cut)


class Joined:
    def __init__(self, tunnel, client, upstream, closed):
        self.tunnel, self.client, self.upstream, self.closed = tunnel, client, upstream, closed


async def open_side(side):
    """A peer's plain socket, and this side on the other end."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
    for each in (peer, accepted):  # or the kernel grows them as it likes
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 17)
        each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 17)
    peer.setblocking(False)
    accepted.setblocking(False)
    await asyncio.get_running_loop().connect_accepted_socket(lambda: side, accepted)
    return peer


@asynccontextmanager
async def joined(*, sent=None, answered=None, first_bytes=b"", clock=None):
    closed = []
    tunnel = Tunnel(
        now=(clock or FakeClock()).monotonic_ns,
        closed=closed.append,
        sent=sent,
        answered=answered,
        first_bytes=first_bytes,
    )
    client = await open_side(tunnel.client)
    upstream = await open_side(tunnel.upstream)
    try:
        yield Joined(tunnel, client, upstream, closed)
    finally:
        tunnel.abort()
        client.close()
        upstream.close()
        await asyncio.wait_for(tunnel.wait_closed(), 2)


async def take(peer, size):
    loop, got = asyncio.get_running_loop(), b""
    async with asyncio.timeout(5):
        while len(got) < size and (data := await loop.sock_recv(peer, 65_536)):
            got += data
    return got


async def ended(peer):
    """Nothing more comes; whether in order."""
    try:
        async with asyncio.timeout(5):
            return await asyncio.get_running_loop().sock_recv(peer, 1) == b""
    except ConnectionResetError:
        return False


def reset(peer):
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


async def test_bytes_pass_both_ways_the_first_ones_first():
    async with joined(first_bytes=b"first ") as at:
        at.client.send(b"asked")
        assert await take(at.upstream, 11) == b"first asked"
        at.upstream.send(b"said")
        assert await take(at.client, 4) == b"said"

        assert (at.tunnel.client.passed_bytes, at.tunnel.upstream.passed_bytes) == (11, 4)


@pytest.mark.parametrize("first", ["client", "upstream"])
async def test_a_half_close_passes_and_the_other_half_goes_on(first):
    second = "upstream" if first == "client" else "client"
    async with joined() as at:
        leaving, staying = getattr(at, first), getattr(at, second)
        leaving.send(b"last words")
        leaving.shutdown(socket.SHUT_WR)
        assert await take(staying, 100) == b"last words"
        staying.send(b"an answer")
        assert await take(leaving, 9) == b"an answer"
        staying.shutdown(socket.SHUT_WR)
        assert await ended(leaving)
        await until(lambda: at.tunnel.is_closed)

    assert at.closed == [at.tunnel]
    assert (getattr(at.tunnel, first).cut, getattr(at.tunnel, second).cut) == ("fin", "fin")


async def test_what_was_said_before_a_reset_still_arrives_and_the_end_is_in_order():
    async with joined() as at:
        at.upstream.send(b"half of it")
        await until(lambda: at.tunnel.upstream.passed_bytes)
        reset(at.upstream)
        assert await take(at.client, 100) == b"half of it"
        await until(lambda: at.tunnel.is_closed)

    assert (at.tunnel.upstream.cut, at.tunnel.client.cut) == ("reset", None)


async def test_a_peer_that_does_not_read_stops_the_one_that_sends():
    sent, clock, loop = Noted(), FakeClock(), asyncio.get_running_loop()
    async with joined(sent=sent, clock=clock) as at:
        sending = loop.create_task(loop.sock_sendall(at.client, bytes(MANY)))
        await asyncio.sleep(0.2)  # for the kernel's buffers to fill
        stuck_bytes = sent.passed_bytes
        await asyncio.sleep(0.1)
        assert sent.told[-1] == "stuck"
        assert not sending.done()
        assert sent.passed_bytes == stuck_bytes  # so what we hold is one read
        assert at.tunnel.upstream.transport.get_write_buffer_size() <= 1 << 18
        at.upstream.setblocking(False)
        assert len(await take(at.upstream, MANY)) == MANY
        await sending
        await until(lambda: sent.told[-1] == "taken")

    assert sent.passed_bytes == MANY
    between = [told for told in sent.told if told != "passed"]
    for before, after in pairwise(between):
        assert (before, after) in {("taken", "taken"), ("taken", "stuck"), ("stuck", "blocked"), ("blocked", "taken")}


async def test_an_end_comes_after_everything_that_waited_for_a_slow_peer():
    loop = asyncio.get_running_loop()
    async with joined() as at:
        await_sent = loop.create_task(loop.sock_sendall(at.upstream, bytes(MANY)))
        await asyncio.sleep(0.02)
        received = await take(at.client, MANY)
        await await_sent
        at.upstream.shutdown(socket.SHUT_WR)
        assert await ended(at.client)

    assert len(received) == MANY


async def test_a_watch_is_told_after_the_bytes_went_on():
    class Looks(Noted):
        def passed(self, data, at_ns):
            super().passed(data, at_ns)
            self.on_the_wire = at.tunnel.client.passed_bytes

    sent = Looks()
    async with joined(sent=sent) as at:
        at.client.send(b"abc")
        assert await take(at.upstream, 3) == b"abc"

        at.client.shutdown(socket.SHUT_WR)
        assert await ended(at.upstream)

    assert sent.told == ["passed", "taken", "fin"]
    assert sent.on_the_wire == 3


async def test_what_is_half_closed_and_still_is_given_up_and_nothing_else():
    clock = FakeClock()
    async with joined(clock=clock) as at:
        clock.advance(10 * HALF_CLOSED_NS)
        at.tunnel.tick(clock.monotonic_ns())  # both directions are open: it may be still
        at.client.shutdown(socket.SHUT_WR)
        assert await ended(at.upstream)
        clock.advance(HALF_CLOSED_NS - 1)
        at.tunnel.tick(clock.monotonic_ns())
        at.upstream.send(b"x")  # it lives
        assert await take(at.client, 1) == b"x"
        clock.advance(HALF_CLOSED_NS - 1)
        at.tunnel.tick(clock.monotonic_ns())
        assert not at.tunnel.is_closed
        clock.advance(1)
        at.tunnel.tick(clock.monotonic_ns())
        await until(lambda: at.tunnel.is_closed)


async def test_who_waits_for_its_end_and_is_cancelled_closes_it():
    async with joined() as at:
        waiting = asyncio.get_running_loop().create_task(at.tunnel.wait_closed())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until(lambda: at.tunnel.is_closed)


def test_how_a_connection_was_lost():
    assert cut_of(None) is None
    assert cut_of(ConnectionResetError()) == "reset"
    assert cut_of(BrokenPipeError()) == "reset"
    assert cut_of(TimeoutError()) == "timeout"  # what the kernel's keep-alive gives


@pytest.mark.parametrize("opening", [Opening.HTTP2, Opening.TLS])
async def test_a_dialer_reaches_tcp_and_unix_upstreams(tmp_path, opening):
    async def serve(reader, writer):
        writer.write(await reader.read(5))
        writer.close()

    path = str(tmp_path / "up.sock")
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as tcp, await asyncio.start_unix_server(serve, path):
        port = tcp.sockets[0].getsockname()[1]
        for origin in (
            Origin("http", "127.0.0.1", port),
            Origin("http", "localhost", 80, unix_path=path),
        ):
            reader = asyncio.StreamReader()
            protocol = asyncio.StreamReaderProtocol(reader)
            await dialer(origin, tls=None, connect_timeout_s=1)(opening, lambda protocol=protocol: protocol)
            protocol._transport.write(b"hello")
            assert await reader.read() == b"hello"
            protocol._transport.close()


async def test_tls_of_the_client_is_not_wrapped_in_another_and_h2_in_clear_is():
    got = []

    async def serve(reader, writer):
        got.append(await reader.read(1))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        origin = Origin("https", "127.0.0.1", server.sockets[0].getsockname()[1])
        dial = dialer(origin, tls=ssl.create_default_context(), connect_timeout_s=1)
        opened = []
        await dial(Opening.TLS, lambda: opened.append(Hello()) or opened[0])
        await until(lambda: got)
        with pytest.raises(TlsFailed):  # by a server that has none
            await dial(Opening.HTTP2, Hello)
        await until(lambda: len(got) == 2)

    assert got == [b"h", b"\x16"]


class Hello(asyncio.Protocol):
    def connection_made(self, transport):
        transport.write(b"hello")
