"""A WebSocket through the sidecar: byte for byte both ways, and recorded; or a plain refusal, never half of one."""

from __future__ import annotations

import asyncio

import pytest

from otel.hop import Ending
from tests.faults import report
from tests.support.raw_peers import asked_once, raw_client, raw_upstream, simple
from tests.support.script import get, request, sidecar

ASK = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version: 13",
)
SWITCH = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
)


def frame(opcode, data, *, mask=b"", is_final=True):
    """One frame; with a mask as clients send them."""
    masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data)) if mask else data
    bit = 0x80 if mask else 0
    length = bytes([bit | len(data)]) if len(data) < 126 else bytes([bit | 126]) + len(data).to_bytes(2, "big")
    return bytes([opcode | (0x80 if is_final else 0)]) + length + mask + masked


MASK = b"\x12\x34\x56\x78"
SENT = [frame(1, b"hello", mask=MASK), frame(9, b"ping", mask=MASK), frame(2, bytes(range(256)), mask=MASK)]
CLOSE = frame(8, b"\x03\xe8", mask=MASK)
ANSWERED = [
    frame(1, b"to", is_final=False),
    frame(9, b""),
    frame(0, b"gether"),
    frame(10, b"ping"),
    frame(2, bytes(300)),
]
ANSWER_CLOSE = frame(8, b"\x03\xe8")


async def talk(asked):
    """Answer frames with frames; what comes after the head stays in the wire's buffer."""
    await asked.send(SWITCH)
    wanted = len(b"".join(SENT))
    while len(asked.wire.buffer) < wanted:
        await asked.wire.more()
    for each in ANSWERED:
        await asked.send(each)
        await asyncio.sleep(0.01)
    while len(asked.wire.buffer) < wanted + len(CLOSE):
        await asked.wire.more()
    await asked.send(ANSWER_CLOSE)
    asked.close()


@report("R140", "frames, pings and close codes pass both ways, and both are recorded")
async def test_a_websocket_passes_both_ways():
    async with raw_upstream(talk) as up, sidecar(up.url) as proxy:
        async with raw_client(proxy.port, request("GET", "/v1/realtime", *ASK)) as client:
            got = await client.head()
            for each in SENT:
                client.send(each)
                await asyncio.sleep(0.01)
            while len(client.buffer) < len(b"".join(ANSWERED)):
                await client.more()
            client.send(CLOSE)
            await client.closed(within_s=2)
            answered = bytes(client.buffer)
        hop = await proxy.hop()

    assert (got.status, got.values("upgrade")) == (101, [b"websocket"])
    assert got.values("sec-websocket-accept") == [b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="]
    assert up.asked[0].field("sec-websocket-key") == [b"dGhlIHNhbXBsZSBub25jZQ=="]
    assert bytes(up.asked[0].wire.buffer) == b"".join(SENT) + CLOSE
    assert answered == b"".join(ANSWERED) + ANSWER_CLOSE
    assert (hop.exchange.framing, hop.exchange.status, hop.end.ending) == ("websocket", 101, Ending.COMPLETE)
    assert len(hop.timeline.stamps) == 5
    assert len(hop.sent.stamps) == 4


@report("R140", "a frame said in one breath with the request, and with the 101")
async def test_bytes_right_behind_the_heads_are_not_lost():
    async def answer(asked):
        await asked.send(SWITCH + ANSWERED[0])
        while len(asked.wire.buffer) < len(SENT[0]):
            await asked.wire.more()
        await asked.wire.gone.wait()

    async with raw_upstream(answer) as up, sidecar(up.url) as proxy:
        async with raw_client(proxy.port, request("GET", "/ws", *ASK) + SENT[0]) as client:
            await client.head()
            while len(client.buffer) < len(ANSWERED[0]):
                await asyncio.wait_for(client.more(), 2)
            answered = bytes(client.buffer)
            for _ in range(100):
                if up.asked[0].wire.buffer:
                    break
                await asyncio.sleep(0.01)
            sent = bytes(up.asked[0].wire.buffer)
            client.leave()
            await asyncio.wait_for(up.asked[0].wire.gone.wait(), 1)
        hop = await proxy.hop()

    assert (sent, answered) == (SENT[0], ANSWERED[0])
    assert hop.end.ending is Ending.CLIENT_DISCONNECT


@report("R140", "an upstream that will not upgrade is a plain answer, and the connection goes on")
async def test_an_upstream_that_will_not_upgrade_answers_as_ever():
    async def answer(asked):
        await asked.send(simple("426 Upgrade Required" if asked.target == "/ws" else "200 OK"))

    async with raw_upstream(answer) as up, sidecar(up.url) as proxy, raw_client(proxy.port) as client:
        client.send(request("GET", "/ws", *ASK))
        refused = await client.answer()
        client.send(get("/next"))
        following = await client.answer()

    assert (refused.status, following.status) == (426, 200)


@report("R140", "a tunnel to anything else is refused")
@pytest.mark.parametrize(
    "sent", [request("CONNECT", "example.org:443"), request("GET", "/", "Connection: Upgrade", "Upgrade: spdy/3")]
)
async def test_other_tunnels_are_refused(sent):
    async with raw_upstream(talk) as up, sidecar(up.url) as proxy:
        got = await asked_once(proxy.port, sent)

    assert got.status == 501
    assert not up.asked
