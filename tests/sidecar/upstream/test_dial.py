import asyncio
import errno
import socket
from contextlib import closing, suppress

import pytest

from sidecar.upstream.dial import dial
from sidecar.upstream.errors import ConnectFailed, ConnectTimeout, TlsFailed
from sidecar.upstream.origin import origin_of
from tests.support.upstreams import contexts, served


class Heard(asyncio.Protocol):
    """A protocol that knows its transport."""

    def connection_made(self, transport):
        self.transport = transport


async def dialled(url, *, context=None, timeout_s=2.0):
    protocol = await dial(origin_of(url), Heard, ssl=context, timeout_s=timeout_s)
    await asyncio.sleep(0)
    return protocol.transport


async def gone(peer):
    await peer.gone()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_an_address_is_connected_to_without_delay(host):
    async with served(gone, host=host) as server:
        transport = await dialled(server.url)
        sock = transport.get_extra_info("socket")
        assert sock.getpeername()[0] == host
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        transport.abort()


async def test_a_unix_socket_is_connected_to(tmp_path):
    async with served(gone, unix=tmp_path / "engine.sock") as server:
        transport = await dialled(server.url)
        assert transport.get_extra_info("socket").family == socket.AF_UNIX
        transport.abort()


async def test_of_several_addresses_the_one_that_answers_is_taken():
    async with served(gone) as server:
        transport = await dialled(f"http://localhost:{server.port}")
        assert transport.get_extra_info("socket").getpeername() == ("127.0.0.1", server.port)
        transport.abort()


def free_port():
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def test_a_refusal_names_its_reason():
    with pytest.raises(ConnectFailed) as failed:
        await dialled(f"http://127.0.0.1:{free_port()}")
    assert failed.value.errno == errno.ECONNREFUSED


async def test_a_unix_socket_that_is_not_there_names_its_reason(tmp_path):
    with pytest.raises(ConnectFailed) as failed:
        await dialled(f"unix:{tmp_path}/engine.sock")
    assert failed.value.errno == errno.ENOENT


async def test_a_name_that_cannot_be_looked_up_is_a_failure_like_others():
    with pytest.raises(ConnectFailed):
        await dialled(f"http://{'a' * 64}.example")


async def test_a_server_that_does_not_answer_is_given_up_in_time():
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        waiting = [socket.socket() for _ in range(3)]  # they fill its backlog, so that the next SYN is dropped
        for each in waiting:
            each.setblocking(False)
            with suppress(BlockingIOError):
                each.connect(listening.getsockname())
        await asyncio.sleep(0.02)
        try:
            with pytest.raises(ConnectTimeout):
                await dialled(f"http://127.0.0.1:{listening.getsockname()[1]}", timeout_s=0.1)
        finally:
            for each in waiting:
                each.close()


async def test_the_time_limit_holds_for_tls_too(tmp_path):
    _, context = contexts(tmp_path)
    async with served(gone) as server:
        with pytest.raises(ConnectTimeout):
            await dialled(f"https://127.0.0.1:{server.port}", context=context, timeout_s=0.1)


async def test_tls_checks_the_certificate_against_the_name(tmp_path):
    context, trusting = contexts(tmp_path)
    async with served(gone, context=context) as server:
        transport = await dialled(server.url, context=trusting)
        assert transport.get_extra_info("ssl_object").server_hostname == "localhost"
        transport.abort()


async def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path):
    context, _ = contexts(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    _, distrusting = contexts(other)
    async with served(gone, context=context) as server:
        with pytest.raises(TlsFailed, match=r"self.signed"):
            await dialled(server.url, context=distrusting)


async def test_a_server_without_tls_is_no_tls(tmp_path):
    async def plain(peer):
        await peer.reader.read(1)
        await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    _, context = contexts(tmp_path)
    async with served(plain) as server:
        with pytest.raises(TlsFailed):
            await dialled(f"https://127.0.0.1:{server.port}", context=context)


async def test_a_server_that_closes_in_the_handshake_is_no_tls(tmp_path):
    async def close(peer):
        await peer.reader.read(1)

    _, context = contexts(tmp_path)
    async with served(close) as server:
        with pytest.raises(TlsFailed):
            await dialled(f"https://127.0.0.1:{server.port}", context=context)


async def test_cancelled_it_leaves_no_connection(tmp_path):
    _, context = contexts(tmp_path)
    closed = asyncio.Event()

    async def serve(peer):
        await peer.gone()
        closed.set()

    async with served(serve) as server:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await dialled(f"https://127.0.0.1:{server.port}", context=context)
        async with asyncio.timeout(2):
            await closed.wait()
