import asyncio
import socket
import struct

from otel.hop import Ending, EventClass, Side
from tests.support.frames import BINARY, CLOSE, PING, TEXT, frame
from tests.support.script import cut, head, reset, send, sidecar, upstream, wait_for

UPGRADE = (
    b"GET /v1/realtime HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
MASK = b"\x11\x22\x33\x44"
GOODBYE = frame(CLOSE, struct.pack(">H", 1000))


def agreed():
    return head(101, None, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Accept: x", chunked=False)


def until_got(size):
    """Read so many bytes of what the client sends."""

    async def step(exchange):
        exchange.body += await exchange.reader.readexactly(size)

    return step


def until_end():
    async def step(exchange):
        try:
            exchange.body += await exchange.reader.read()
        except ConnectionResetError:
            exchange.body += b"<reset>"

    return step


async def upgraded(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(UPGRADE)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
    return reader, writer


def classes(timeline):
    return [stamp.event_class for stamp in timeline.stamps]


async def test_each_direction_has_a_timeline_of_its_messages():
    asked, said = frame(TEXT, b"hello", mask=MASK), frame(BINARY, b"\0" * 300)
    halves = frame(TEXT, b"a", final=False), frame(0, b"b")
    steps = [agreed(), until_got(len(asked)), send(said), send(halves[0]), send(frame(PING)), send(halves[1])]
    async with upstream(*steps, send(GOODBYE), until_end()) as up, sidecar(up.url) as proxy:
        reader, writer = await upgraded(proxy.port)
        writer.write(asked)
        expected = said + halves[0] + frame(PING) + halves[1] + GOODBYE
        assert await reader.readexactly(len(expected)) == expected
        reply = frame(CLOSE, struct.pack(">H", 1000), mask=MASK)
        writer.write(reply)
        writer.close()
        hop = await proxy.hop()

    assert up.exchanges[0].body == asked + reply
    assert (hop.exchange.framing, hop.exchange.status) == ("websocket", 101)
    assert classes(hop.timeline) == [EventClass.OPAQUE, EventClass.CONTROL, EventClass.OPAQUE, EventClass.CONTROL]
    assert hop.traffic.bytes_in == hop.traffic.bytes_out == len(expected)
    assert hop.sent is not None
    assert classes(hop.sent) == [EventClass.OPAQUE, EventClass.CONTROL]
    assert hop.traffic.request_bytes == len(asked + reply)
    assert hop.end.ending is Ending.COMPLETE


async def test_an_upstream_that_ends_without_a_goodbye_has_cut():
    async with upstream(agreed(), send(frame(TEXT, b"x")), cut()) as up, sidecar(up.url) as proxy:
        reader, writer = await upgraded(proxy.port)
        assert await reader.read() == frame(TEXT, b"x")
        writer.close()
        hop = await proxy.hop()

    assert hop.end.ended_by is Side.UPSTREAM
    assert hop.end.ending is not Ending.COMPLETE


async def test_an_upstream_that_resets_is_told_from_one_that_ends():
    async with upstream(agreed(), send(frame(TEXT, b"x")), reset()) as up, sidecar(up.url) as proxy:
        reader, writer = await upgraded(proxy.port)
        assert await reader.read() == frame(TEXT, b"x")
        writer.close()
        hop = await proxy.hop()

    assert (hop.end.ending, hop.end.ended_by, hop.end.cut) == (Ending.UPSTREAM_CUT, Side.UPSTREAM, "reset")


async def test_a_client_that_closes_without_a_goodbye_has_left():
    steps = [agreed(), send(frame(TEXT, b"x")), until_end(), send(GOODBYE)]
    async with upstream(*steps) as up, sidecar(up.url) as proxy:
        reader, writer = await upgraded(proxy.port)
        await reader.readexactly(3)
        writer.write_eof()
        assert await reader.read() == GOODBYE  # the half that is open still passes
        writer.close()
        hop = await proxy.hop()

    assert (hop.end.ending, hop.end.ended_by, hop.end.cut) == (Ending.CLIENT_DISCONNECT, Side.DOWNSTREAM, "fin")


async def test_a_client_that_resets_takes_the_upstream_with_it():
    async with upstream(agreed(), send(frame(TEXT, b"x")), until_end()) as up, sidecar(up.url) as proxy:
        reader, writer = await upgraded(proxy.port)
        await reader.readexactly(3)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        hop = await proxy.hop()
        await asyncio.wait_for(up.closed.wait(), 2)

    assert (hop.end.ending, hop.end.ended_by, hop.end.cut) == (Ending.CLIENT_DISCONNECT, Side.DOWNSTREAM, "reset")


async def test_a_client_that_says_goodbye_first_may_close_before_it_has_the_answer():
    farewell = frame(CLOSE, struct.pack(">H", 1000), mask=MASK)
    steps = [agreed(), until_got(len(farewell)), send(GOODBYE), until_end()]
    async with upstream(*steps) as up, sidecar(up.url) as proxy:
        reader, writer = await upgraded(proxy.port)
        writer.write(farewell)
        writer.write_eof()
        assert await reader.read() == GOODBYE
        writer.close()
        hop = await proxy.hop()

    assert (hop.end.ending, hop.end.ended_by) == (Ending.COMPLETE, Side.DOWNSTREAM)


async def test_what_breaks_the_framing_still_passes_and_is_counted_read_by_read():
    noise = bytes([0xFF]) * 50
    async with upstream(agreed(), send(frame(TEXT, b"x")), send(noise), cut()) as up, sidecar(up.url) as proxy:
        reader, writer = await upgraded(proxy.port)
        assert await reader.read() == frame(TEXT, b"x") + noise
        writer.close()
        hop = await proxy.hop()

    assert hop.traffic.bytes_in == hop.traffic.bytes_out == 3 + len(noise)


async def test_a_reader_that_takes_nothing_is_booked_as_blocked():
    release = asyncio.Event()
    many = frame(BINARY, bytes(8 << 20))
    async with upstream(agreed(), send(many), send(GOODBYE), wait_for(release)) as up, sidecar(up.url) as proxy:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            client.connect(("127.0.0.1", proxy.port))
            client.sendall(UPGRADE)
            await asyncio.sleep(0.3)
            [live] = proxy.sidecar.exchanges.running()
            assert live.recorder.blocked_since_ns is not None
            client.setblocking(False)
            got, loop = 0, asyncio.get_running_loop()
            while got < len(many):
                got += len(await loop.sock_recv(client, 1 << 20))
            release.set()
        hop = await proxy.hop()

    assert max(block.end_ns - block.start_ns for block in hop.timeline.blocked) >= 200_000_000
