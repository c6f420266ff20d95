import asyncio
import os
import shutil
import socket
import ssl
import subprocess
import time
from contextlib import suppress
from datetime import datetime

import pytest

from otel.hop import Ending
from sidecar.tls.contexts import CHECK_NS, H2, ServerTls, TlsError, server_context, upstream_context
from tests.support.certificates import make_pair
from tests.support.front import front, say_ok, until
from tests.support.script import chunk, get, hang, head, request, send, sidecar, upstream, wait

SSE = "text/event-stream"
GET = b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n"
LAST = b"GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    return make_pair(folder, "first"), make_pair(folder, "second")


@pytest.fixture
def mounted(pairs, tmp_path):
    """The files that a listener is given: what they hold can change."""

    def mount(pair):
        for source, name in ((pair.cert, "tls.crt"), (pair.key, "tls.key")):
            new = tmp_path / f"{name}.new"
            shutil.copy(source, new)
            os.replace(new, tmp_path / name)

    mount(pairs[0])
    return tmp_path / "tls.crt", tmp_path / "tls.key", mount


def trusting(*pairs, protocols=("http/1.1",)):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for pair in pairs:
        context.load_verify_locations(pair.cert)
    context.set_alpn_protocols(list(protocols))
    return context


async def connect(port, context):
    return await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")


def name_of(writer):
    """Whose certificate was shown."""
    return dict(part for [part] in writer.get_extra_info("peercert")["subject"])["commonName"]


async def test_requests_come_in_over_tls_and_the_connection_is_kept(pairs):
    async with front(tls=ServerTls(pairs[0].cert, pairs[0].key)) as at:
        reader, writer = await connect(at.port, trusting(pairs[0], protocols=("h2", "http/1.1")))
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        assert writer.get_extra_info("ssl_object").version() in {"TLSv1.2", "TLSv1.3"}
        for _ in range(2):
            writer.write(GET)
            assert await reader.readexactly(len(OK)) == OK
        writer.write(LAST)
        assert (await reader.read()).endswith(b"ok")
        writer.close()


async def test_new_connections_see_a_new_certificate_and_old_ones_go_on(pairs, mounted):
    cert, key, mount = mounted
    tls = ServerTls(cert, key)
    async with front(tls=tls) as at:
        old_reader, old_writer = await connect(at.port, trusting(pairs[0]))
        assert name_of(old_writer) == "first"
        tls.tick(0)
        mount(pairs[1])
        tls.tick(CHECK_NS - 1)
        assert tls.reload_count == 0  # it does not look all the time
        tls.tick(CHECK_NS)
        assert (tls.reload_count, tls.failure_count) == (1, 0)
        _, new_writer = await connect(at.port, trusting(pairs[1]))
        assert name_of(new_writer) == "second"
        old_writer.write(GET)
        assert await old_reader.readexactly(len(OK)) == OK
        old_writer.close()
        new_writer.close()


async def test_a_broken_new_pair_keeps_the_old_one_and_is_tried_once(pairs, mounted, caplog):
    cert, key, mount = mounted
    tls = ServerTls(cert, key)
    for text in (pairs[1].cert.read_text(), "-----BEGIN CERTIFICATE-----\nAAAA\n", ""):  # another's key, cut, empty
        cert.write_text(text)
        tls.tick(tls._due_ns or 0)
        tls.tick(tls._due_ns)
    assert (tls.reload_count, tls.failure_count) == (0, 3)
    cert.unlink()
    assert tls.reload() is False
    assert "BEGIN" not in caplog.text

    async with front(tls=tls) as at:
        _, writer = await connect(at.port, trusting(pairs[0]))
        assert name_of(writer) == "first"
        writer.close()
        mount(pairs[1])
        assert tls.reload() is True
        _, writer = await connect(at.port, trusting(pairs[1]))
        assert name_of(writer) == "second"
        writer.close()


async def test_what_is_no_handshake_is_closed_and_counted_and_hurts_nobody(pairs):
    async with front(tls=ServerTls(pairs[0].cert, pairs[0].key)) as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(GET)
        try:
            said = await reader.read()
        except ConnectionResetError:
            said = b""
        assert b"HTTP" not in said  # at most an alert
        writer.close()
        await until(lambda: at.listener.failed_handshake_count == 1)
        assert at.doors.handshake_count == 0
        reader, writer = await connect(at.port, trusting(pairs[0]))
        writer.write(LAST)
        assert (await reader.read()).endswith(b"ok")
        writer.close()


async def test_a_head_that_is_refused_is_answered_within_tls(pairs):
    async with front(tls=ServerTls(pairs[0].cert, pairs[0].key)) as at:
        reader, writer = await connect(at.port, trusting(pairs[0]))
        writer.write(b"nonsense\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()


async def test_how_a_client_left_is_seen_through_tls(pairs):
    left = []

    async def wait(request):
        door = request.transport.get_protocol()
        try:
            await asyncio.Event().wait()
        finally:
            left.append(door.left_by)

    async with front(wait, tls=ServerTls(pairs[0].cert, pairs[0].key)) as at:
        _, writer = await connect(at.port, trusting(pairs[0]))
        writer.write(GET)
        await until(lambda: at.relay.seen)
        writer.close()
        await until(lambda: left)

    assert left == ["fin"]


async def test_a_handshake_that_never_ends_holds_a_place_and_no_request(pairs):
    async with front(say_ok, tls=ServerTls(pairs[0].cert, pairs[0].key)) as at:
        with socket.create_connection(("127.0.0.1", at.port)):
            await until(lambda: at.doors.handshake_count == 1)
            assert at.doors.has_undecided
    assert at.doors.handshake_count == 0


def test_files_that_cannot_be_used_are_named_and_not_quoted(pairs, tmp_path):
    missing, empty = tmp_path / "missing.pem", tmp_path / "empty.pem"
    empty.write_text("")
    for cert, key in ((missing, pairs[0].key), (empty, pairs[0].key), (pairs[0].cert, pairs[1].key)):
        with pytest.raises(TlsError, match=cert.name):
            server_context(cert, key)


def test_a_key_behind_a_password_is_refused_and_nobody_is_asked(pairs, tmp_path):
    locked = tmp_path / "locked.key"
    subprocess.run(
        ["openssl", "pkcs8", "-topk8", "-in", pairs[0].key, "-out", locked, "-passout", "pass:secret"],
        check=True,
        capture_output=True,
    )
    with pytest.raises(TlsError, match="encrypted"):
        server_context(pairs[0].cert, locked)


def test_nothing_older_than_tls_1_2_is_spoken(pairs):
    for context in (server_context(pairs[0].cert, pairs[0].key), upstream_context(ca=None, cert=None, key=None)):
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2


async def test_an_upstream_is_verified_by_the_given_authorities_and_is_shown_who_we_are(pairs):
    ours, theirs = pairs
    server = server_context(theirs.cert, theirs.key)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(ours.cert)
    shown = []

    async def serve(reader, writer):
        shown.append(name_of(writer))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server) as listening:
        port = listening.sockets[0].getsockname()[1]
        context = upstream_context(ca=theirs.cert, cert=ours.cert, key=ours.key)
        reader, writer = await connect(port, context)
        assert await reader.read() == b""
        writer.close()
        for untrusting in (
            upstream_context(ca=None, cert=ours.cert, key=ours.key),
            upstream_context(ca=ours.cert, cert=ours.cert, key=ours.key),
        ):
            with pytest.raises(ssl.SSLCertVerificationError):
                await connect(port, untrusting)
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="elsewhere")

    assert shown == ["first"]


def test_authorities_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "ca.pem").write_text("nothing")
    for name in ("ca.pem", "missing.pem"):
        with pytest.raises(TlsError, match=name):
            upstream_context(ca=tmp_path / name, cert=None, key=None, protocols=H2)


def through_tls(pairs):
    return {"tls_cert": str(pairs[0].cert), "tls_key": str(pairs[0].key)}


async def test_what_is_called_taken_through_tls_our_kernel_has(pairs):
    """Also behind a reader that never reads: no buffer stands between us and the kernel unseen."""
    event = b"data: " + b"x" * 504 + b"\n\n"
    steps = [head(200, SSE), *[step for _ in range(300) for step in (chunk(event), wait(0.002))], hang()]
    async with upstream(*steps) as up, sidecar(up.url, exact="true", **through_tls(pairs)) as proxy:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        client.connect(("127.0.0.1", proxy.port))
        client = await asyncio.to_thread(trusting(pairs[0]).wrap_socket, client, server_hostname="localhost")
        await asyncio.to_thread(client.sendall, get())
        async with asyncio.timeout(5):
            while True:
                await asyncio.sleep(0.05)
                (live,) = proxy.sidecar.exchanges.running()
                if live.recorder.blocked_since_ns is not None and live.recorder.event_count:
                    break
        info, owed_bytes = live.connection.tcp_info(), live.connection.unacknowledged_bytes()
        called_taken_bytes = live.writer.output_size - live.connection.buffered_bytes
        client.close()

    assert called_taken_bytes <= info.acked_bytes + owed_bytes


async def test_messages_flow_through_tls_to_a_client_that_only_reads(pairs):
    upgrade = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    messages = [step for number in range(10) for step in (wait(0.01), send(bytes([0x82, 1, number])))]
    async with upstream(send(upgrade), *messages, hang()) as up, sidecar(up.url, **through_tls(pairs)) as proxy:
        reader, writer = await connect(proxy.port, trusting(pairs[0]))
        writer.write(request("GET", "/v1/realtime", "Connection: Upgrade", "Upgrade: websocket"))
        await reader.readuntil(b"\r\n\r\n")
        async with asyncio.timeout(3):
            got = await reader.readexactly(30)
        writer.close()

    assert got == b"".join(bytes([0x82, 1, number]) for number in range(10))


async def test_a_refusal_arrives_through_tls_although_the_client_is_still_sending(pairs):
    async with sidecar("http://127.0.0.1:1", **through_tls(pairs)) as proxy:
        reader, writer = await connect(proxy.port, trusting(pairs[0]))
        writer.write(b"GET / HTTP/1.1\r\nHost: h\r\nX: ")
        for _ in range(20):
            writer.write(b"a" * 200_000)
            await asyncio.sleep(0.002)
        async with asyncio.timeout(3):
            answer = await reader.read()
        writer.transport.abort()

    assert answer.startswith(b"HTTP/1.1 431")


async def test_what_the_kernel_says_of_encrypted_bytes_is_not_taken_for_plain_ones(pairs):
    async with (
        upstream(head(200, SSE), chunk(b"data: x\n\n"), hang()) as up,
        sidecar(up.url, **through_tls(pairs)) as proxy,
    ):
        reader, writer = await connect(proxy.port, trusting(pairs[0]))
        writer.write(get())
        await reader.readuntil(b"data: x\n\n")
        (live,) = proxy.sidecar.exchanges.running()
        evidence = live.evidence
        writer.close()

    assert evidence is None


@pytest.mark.parametrize("with_alert", [True, False])
async def test_a_client_that_ends_its_connection_through_tls_has_left_and_how_is_known(pairs, with_alert):
    async with (
        upstream(head(200, SSE), chunk(b"data: x\n\n"), hang()) as up,
        sidecar(up.url, **through_tls(pairs)) as proxy,
    ):
        raw = socket.create_connection(("127.0.0.1", proxy.port))
        secure = await asyncio.to_thread(trusting(pairs[0]).wrap_socket, raw, server_hostname="localhost")
        await asyncio.to_thread(secure.sendall, get())
        await asyncio.to_thread(secure.recv, 1000)
        if with_alert:
            with suppress(OSError):
                secure.setblocking(False)
                secure.unwrap()
        os.close(secure.detach())
        hop = await proxy.hop()

    assert hop.end.ending is Ending.CLIENT_DISCONNECT
    assert hop.end.cut in {"fin", "reset"}


def test_it_is_known_and_told_until_when_the_certificate_is_valid(mounted, caplog):
    caplog.set_level("INFO")
    cert, key, _ = mounted
    tls = ServerTls(cert, key)
    ends_s = tls.not_after_s
    tls.reload()

    assert 86_400 < ends_s - time.time() <= 2 * 86_400
    assert tls.not_after_s == ends_s
    (line,) = caplog.records
    assert line.message == "certificate loaded"
    assert datetime.fromisoformat(line.not_after).timestamp() == ends_s
