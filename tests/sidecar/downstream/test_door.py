import asyncio
import json
import socket
import struct
import time

import pytest

from sidecar.downstream.response import Response
from sidecar.downstream.sniff import PREFACE, Opening
from sidecar.upstream import Upgraded
from tests.support.front import SECOND_NS, ask_raw, front, say_ok, until

GET = b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n"
UPGRADE = b"GET /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
HELLO = bytes.fromhex("16030100050100000100")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def reset(writer):
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def answers_with(*, release):
    """A relay that has begun its answer and waits."""
    left = []

    async def answer(request):
        response = Response(request)
        response.begin(200, "OK", [])
        response.write(b"begun")
        door = request.transport.get_protocol()
        try:
            await release.wait()
        except asyncio.CancelledError:
            left.append(door.left_by)
            raise
        response.end()
        return response.handed()

    return answer, left


class Echo:
    """An upstream that speaks anything: what it got, and everything back."""

    def __init__(self):
        self.got = b""
        self.writer = None
        self.is_ended = False
        self.openings = []
        self.server = None

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_):
        self.server.close()
        await self.server.wait_closed()

    async def serve(self, reader, writer):
        self.writer = writer
        try:
            while data := await reader.read(65_536):
                self.got += data
                writer.write(data)
            writer.write(b"<end>")
        except ConnectionResetError:
            pass
        self.is_ended = True
        writer.close()

    @property
    def port(self):
        return self.server.sockets[0].getsockname()[1]

    async def dial(self, opening, protocol):
        self.openings.append(opening)
        return await asyncio.get_running_loop().create_connection(protocol, "127.0.0.1", self.port)


# Heads.


async def test_a_head_that_trickles_is_answered_with_408_and_its_connection_closed():
    async with front(head_timeout_ns=SECOND_NS) as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(b"GET /x HT")
        await until(lambda: at.doors.has_undecided and not at.doors._silent)
        at.doors.tick(time.monotonic_ns() + SECOND_NS // 2)
        assert at.doors.slow_head_count == 0
        at.doors.tick(time.monotonic_ns() + 2 * SECOND_NS)
        writer.write(b"T")  # a close of ours at once would answer that with a reset
        reply = await reader.read()
        writer.close()
        await until(lambda: at.doors.open_count == 0)

    head, _, body = reply.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"Connection: close" in head
    assert json.loads(body)["error"]["type"] == "request_timeout"
    assert (at.doors.slow_head_count, at.relay.seen) == (1, [])


async def test_the_same_holds_before_it_is_clear_what_it_will_be():
    async with front(head_timeout_ns=SECOND_NS) as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(b"PRI * HT")
        await until(lambda: len(at.doors._heads) == 1)
        at.doors.tick(time.monotonic_ns() + 2 * SECOND_NS)
        reply = await reader.read()
        writer.close()

    assert reply.startswith(b"HTTP/1.1 408 ")


async def test_a_whole_head_is_never_slow_however_long_its_answer_takes():
    release = asyncio.Event()
    answer, _ = answers_with(release=release)
    async with front(answer, head_timeout_ns=SECOND_NS) as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(GET)
        await reader.readuntil(b"begun")
        at.doors.tick(time.monotonic_ns() + 100 * SECOND_NS)
        release.set()
        assert await reader.readuntil(b"0\r\n\r\n")
        at.doors.tick(time.monotonic_ns() + 100 * SECOND_NS)  # nor is a connection that waits for the next request
        writer.write(GET)
        assert await reader.readuntil(b"begun")
        writer.close()

    assert at.doors.slow_head_count == 0


async def test_the_rest_of_a_body_behind_its_answer_is_no_head():
    async def answer_at_once(request):
        response = Response(request)
        response.begin(200, "OK", [("Content-Length", "0")])
        response.end()
        return response.handed()

    async with front(answer_at_once, head_timeout_ns=SECOND_NS) as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nab")
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"cd")
        await asyncio.sleep(0.05)
        at.doors.tick(time.monotonic_ns() + 2 * SECOND_NS)
        writer.write(GET)
        second = await reader.readuntil(b"\r\n\r\n")
        writer.close()

    assert second.startswith(b"HTTP/1.1 200 ")
    assert (at.doors.slow_head_count, len(at.relay.seen)) == (0, 2)


async def test_a_head_of_a_megabyte_is_refused_though_each_of_its_lines_is_short_enough():
    lines = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 60_000) for number in range(20))
    async with front() as at:
        reply = await ask_raw(at.port, b"GET /x HTTP/1.1\r\nHost: h\r\n" + lines + b"\r\n")

    assert reply.startswith(b"HTTP/1.1 431 ")
    assert (at.refused_heads.count, at.relay.seen) == (1, [])


# Limits.


async def test_one_connection_too_many_is_told_so_and_the_others_do_not_notice():
    async with front(limit=1) as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(GET)
        assert await reader.readexactly(len(OK)) == OK
        refused = await ask_raw(at.port, GET)
        assert refused.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert b"\r\nRetry-After: 1\r\n" in refused
        assert b"\r\nConnection: close\r\n" in refused
        writer.write(GET)
        assert await reader.readexactly(len(OK)) == OK
        writer.close()
        await until(lambda: at.doors.open_count == 0)
        assert (await ask_raw(at.port, GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))).endswith(b"ok")

    assert at.doors.refused_count == 1


async def test_one_too_many_that_says_nothing_is_told_after_a_while():
    async with front(limit=0) as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        await until(lambda: at.doors.open_count == 1)
        at.doors.tick(time.monotonic_ns() + 2 * SECOND_NS)
        assert (await reader.read()).startswith(b"HTTP/1.1 503 ")
        writer.close()


async def test_one_too_many_that_is_no_http_is_closed_without_a_word():
    async with front(limit=0) as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(PREFACE)
        try:
            said = await reader.read()
        except ConnectionResetError:
            said = b""
        assert said == b""
        writer.close()


async def test_a_refused_client_that_stays_is_closed_in_the_end():
    async with front(limit=0) as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(GET)
        assert (await reader.read()).startswith(b"HTTP/1.1 503 ")
        writer.write(b"x" * 100_000)  # is thrown away
        await writer.drain()
        assert at.doors.open_count == 1
        at.doors.tick(time.monotonic_ns() + 2 * SECOND_NS)
        await until(lambda: at.doors.open_count == 0)
        writer.close()


# How the client left.


@pytest.mark.parametrize(("leave", "left_by"), [(lambda writer: writer.close(), "fin"), (reset, "reset")])
async def test_a_client_that_leaves_within_its_answer_is_seen_at_once(leave, left_by):
    answer, left = answers_with(release=asyncio.Event())
    async with front(answer) as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(GET)
        await reader.readuntil(b"begun")
        leave(writer)
        await until(lambda: left)

    assert left == [left_by]


async def test_a_client_that_leaves_before_its_answer_is_seen_at_once():
    left = []

    async def wait(request):
        door = request.transport.get_protocol()
        try:
            await asyncio.Event().wait()
        finally:
            left.append(door.left_by)

    async with front(wait) as at:
        _, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(GET)
        await until(lambda: at.relay.seen)
        writer.close()
        await until(lambda: left)

    assert left == ["fin"]


async def test_a_half_close_is_a_leaving_also_while_our_bytes_wait_for_the_client():
    left = []

    async def flood(request):
        response = Response(request)
        response.begin(200, "OK", [])
        door = request.transport.get_protocol()
        try:
            while True:
                response.write(b"x" * 65_536)
                await response.drain()
        finally:
            left.append(door.left_by)

    async with front(flood) as at:
        with socket.create_connection(("127.0.0.1", at.port)) as client:
            client.sendall(GET)
            await until(lambda: at.relay.seen and at.relay.seen[0].transport.get_write_buffer_size())
            client.shutdown(socket.SHUT_WR)
            await until(lambda: left)

    assert left == ["fin"]


async def test_a_close_of_ours_is_nobody_leaving():
    doors = []

    async def close(request):
        doors.append(request.transport.get_protocol())
        request.transport.close()
        return Response(request).handed()

    async with front(close) as at:
        await ask_raw(at.port, GET)
        await until(lambda: at.doors.open_count == 0)

    assert doors[0].left_by is None


async def test_a_door_is_idle_only_between_requests():
    async with front() as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        await until(lambda: at.doors.open_count == 1)
        [door] = at.doors._doors
        assert not door.is_idle  # its first request may be on its way
        writer.write(GET)
        await reader.readexactly(len(OK))
        assert door.is_idle
        writer.write(GET[:5])
        await until(lambda: not door.is_idle)
        writer.write(GET[5:])
        await reader.readexactly(len(OK))
        await until(lambda: door.is_idle)
        writer.close()


# Opaque connections.


@pytest.mark.parametrize(("opening", "first_bytes"), [(Opening.HTTP2, PREFACE), (Opening.TLS, HELLO)])
async def test_what_is_no_http1_passes_unread_both_ways_and_is_counted(opening, first_bytes):
    async with Echo() as echo, front(dial=echo.dial) as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        for byte in first_bytes:  # however it comes
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        writer.write(b"\x00more")
        assert await reader.readexactly(len(first_bytes) + 5) == first_bytes + b"\x00more"
        assert len(at.doors.tunnels) == 1
        assert at.doors.opaque[opening].traffic == (len(first_bytes) + 5,) * 2
        writer.write_eof()
        assert await reader.read() == b"<end>"  # the half-close has passed, and the other half went on
        writer.close()
        await until(lambda: not at.doors.tunnels and at.doors.open_count == 0)

    assert echo.openings == [opening]
    assert echo.is_ended
    assert at.relay.seen == []
    assert (at.doors.opaque[opening].count, at.doors.opaque[opening].failed_count) == (1, 0)
    assert at.doors.opaque[opening].traffic == (len(first_bytes) + 5, len(first_bytes) + 10)


async def test_an_opaque_connection_is_as_long_as_it_likes():
    async with Echo() as echo, front(dial=echo.dial, head_timeout_ns=SECOND_NS) as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(PREFACE)
        for _ in range(40):
            writer.write(bytes(100_000))
            await reader.readexactly(100_000)
            at.doors.tick(time.monotonic_ns() + 2 * SECOND_NS)
        writer.close()
        await until(lambda: not at.doors.tunnels)

    assert len(echo.got) == len(PREFACE) + 4_000_000


async def test_without_an_upstream_an_opaque_connection_is_closed_and_counted():
    async with front() as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(PREFACE)
        try:
            said = await reader.read()
        except ConnectionResetError:
            said = b""
        writer.close()
        await until(lambda: at.doors.open_count == 0)

    assert said == b""
    assert at.doors.opaque[Opening.HTTP2].failed_count == 1
    assert at.doors.tunnels == {}


async def test_a_client_that_leaves_while_we_connect_leaves_nothing_behind():
    dialling, release = asyncio.Event(), asyncio.Event()
    async with Echo() as echo:

        async def dial(opening, protocol):
            dialling.set()
            await release.wait()
            return await echo.dial(opening, protocol)

        async with front(dial=dial) as at:
            _, writer = await asyncio.open_connection("127.0.0.1", at.port)
            writer.write(PREFACE)
            await dialling.wait()
            reset(writer)
            await asyncio.sleep(0.05)
            release.set()
            await until(lambda: not at.doors.tunnels and at.doors.open_count == 0)
            await until(lambda: echo.is_ended or not echo.openings)


# Upgrades.


def switches_to(echo, *, rest=b"", keep=None):
    """A relay that agrees to an upgrade and joins the client with the echo."""

    async def answer(request):
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(asyncio.Protocol, "127.0.0.1", echo.port)
        transport.pause_reading()
        response = Response(request)
        response.switch("Switching", [("Connection", "Upgrade"), ("Upgrade", "websocket")])
        tunnel = request.transport.get_protocol().become_tunnel(Upgraded(transport, rest))
        if keep is not None:
            keep.append(tunnel)
        await tunnel.wait_closed()
        return response.handed()

    return answer


async def test_after_an_upgrade_both_sides_are_joined_with_what_had_come_before():
    tunnels = []
    async with Echo() as echo, front(switches_to(echo, rest=b"early", keep=tunnels)) as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(UPGRADE + b"hasty")  # it must not, but nothing of it may be lost
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        assert await reader.readexactly(10) == b"earlyhasty"
        writer.write(b"later")
        assert await reader.readexactly(5) == b"later"
        writer.write_eof()
        assert await reader.read() == b"<end>"
        writer.close()
        await until(lambda: at.doors.open_count == 0 and not at.doors.tunnels)
        await until(lambda: at.listener._server.connections == [])  # aiohttp has heard of the end, too

    [tunnel] = tunnels
    assert echo.got == b"hastylater"
    assert (tunnel.client.passed_bytes, tunnel.upstream.passed_bytes) == (10, 20)
    assert (tunnel.client.cut, tunnel.upstream.cut) == ("fin", "fin")
    assert tunnel.client.ended_ns < tunnel.upstream.ended_ns


async def test_bytes_that_come_while_the_upstream_is_asked_are_kept_for_the_tunnel():
    async with Echo() as echo:
        asked, release = asyncio.Event(), asyncio.Event()
        switch = switches_to(echo)

        async def answer(request):
            asked.set()
            await release.wait()
            return await switch(request)

        async with front(answer) as at:
            reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
            writer.write(UPGRADE)
            await asked.wait()
            writer.write(b"a" * 100_000)
            await asyncio.sleep(0.05)
            release.set()
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(100_000) == b"a" * 100_000
            writer.close()


async def test_the_clients_reset_ends_a_tunnel_and_does_not_cancel_who_runs_it():
    tunnels, returned = [], []
    async with Echo() as echo:
        switch = switches_to(echo, keep=tunnels)

        async def answer(request):
            response = await switch(request)
            returned.append(request.transport)
            return response

        async with front(answer) as at:
            reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
            writer.write(UPGRADE)
            await reader.readuntil(b"\r\n\r\n")
            reset(writer)
            await until(lambda: returned and echo.is_ended)

    assert tunnels[0].client.cut == "reset"


async def test_an_upgrade_that_is_declined_leaves_http_in_order():
    async with front(say_ok) as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(UPGRADE + GET)
        assert await reader.readexactly(2 * len(OK)) == OK + OK
        writer.close()

    assert len(at.relay.seen) == 2


async def test_a_handler_that_is_cancelled_takes_its_tunnel_with_it():
    async with Echo() as echo, front(switches_to(echo)) as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(UPGRADE)
        await reader.readuntil(b"\r\n\r\n")
        at.relay.seen[0].task.cancel()
        try:
            said = await reader.read()
        except ConnectionResetError:
            said = b""
        writer.close()
        await until(lambda: not at.doors.tunnels and at.doors.open_count == 0)

    assert said == b""


async def test_a_head_behind_a_running_request_is_bounded_too():
    release = asyncio.Event()
    answer, _ = answers_with(release=release)
    async with front(answer) as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(GET)
        await reader.readuntil(b"begun\r\n")
        writer.write(b"GET /y HTTP/1.1\r\n")
        for _ in range(40):
            if writer.is_closing():
                break
            writer.write(b"X: " + b"a" * 60_000 + b"\r\n")
            await asyncio.sleep(0.002)
        rest = await asyncio.wait_for(_read_all(reader), 5)
        writer.transport.abort()
        await until(lambda: not at.exchanges.running_count)

    assert b"0\r\n\r\n" not in rest
    assert at.refused_heads.count == 1


async def test_a_half_head_that_came_before_its_turn_is_late_like_any_other():
    release = asyncio.Event()
    answer, _ = answers_with(release=release)
    async with front(answer, head_timeout_ns=SECOND_NS // 10) as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(GET)
        await reader.readuntil(b"begun\r\n")
        writer.write(b"GET /y HTTP/1.1\r\nHost:")
        await asyncio.sleep(0.05)
        release.set()
        await reader.readuntil(b"0\r\n\r\n")
        await asyncio.sleep(0.15)
        at.doors.tick(time.monotonic_ns())
        late = await asyncio.wait_for(reader.read(), 5)
        writer.close()

    assert late.startswith(b"HTTP/1.1 408 ")


async def _read_all(reader):
    data = b""
    try:
        while more := await reader.read(65_536):
            data += more
    except ConnectionError:
        pass
    return data
