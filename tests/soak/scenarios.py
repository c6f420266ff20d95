"""What the peers of a soak do: an upstream that answers as it is asked to, and clients with one bad habit each.

A scenario is one visit of one client. It gives back what it asked for: the ids of its requests, and the endings that
each may have in the record. Whatever it asks for is named in the target, so the upstream needs no memory.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from urllib.parse import parse_qs

from otel.hop import Ending
from tests.support import bodies
from tests.support.raw_peers import WHOLE, Asked, Got, RawClient, chunked, raw_client, simple, streaming

CHAT = "/v1/chat/completions"
EVENT = bodies.chat_event({"content": "some words "})
DONE = b"data: [DONE]\n\n"
BIG = b'data: {"big":"' + b"x" * (1 << 20) + b'"}\n\n'
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
WEBSOCKET = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version: 13",
)
SWITCH = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
)
FRAME = b"\x81\x82\x01\x02\x03\x04" + bytes(a ^ b for a, b in zip(b"hi", b"\x01\x02", strict=True))
CLOSE_FRAME = b"\x88\x80\x01\x02\x03\x04"
PIECE = bytes(range(256)) * 256
LIMIT_S = 3.0
"""What the sidecar is given for heads, bodies, answers and readers: scenarios wait for it."""
WITHIN_S = 15.0

Endings = frozenset[Ending]
COMPLETE: Endings = frozenset({Ending.COMPLETE})
CUT: Endings = frozenset({Ending.UPSTREAM_CUT})
LEFT: Endings = frozenset({Ending.CLIENT_DISCONNECT})
LEFT_OR_DONE = LEFT | COMPLETE
REJECTED: Endings = frozenset({Ending.REJECTED})
LATE: Endings = frozenset({Ending.TIMED_OUT_FIRST_EVENT})
REFUSED: Endings = frozenset({Ending.REFUSED})
MISSING: Endings = frozenset({Ending.MISSING_TERMINAL})


@dataclass(frozen=True)
class Visit:
    """One request: its id, how it may have ended, and whether it surely reached a handler."""

    request_id: str
    endings: Endings
    is_sure: bool = True


# --------------------------------------------------------------------------------------------------------- upstream


async def answer(asked: Asked) -> None:
    """Answer as the target says; `then` is a fault, `events` how many come before it."""
    if asked.head.startswith(b"PRI "):
        await asked.send(b"\0\0\0\4\0\0\0\0\0")
        await asked.wire.gone.wait()
        return
    query = {key: values[0] for key, values in parse_qs(asked.target.partition("?")[2]).items()}
    then, events = query.get("then", "end"), int(query.get("events", "5"))
    if (fault := FAULTS.get(then)) is not None:
        await fault(asked, events)
        return
    head, ending = BODIES[then]
    await asked.send(head)
    for _ in range(events):
        await (asked.chunk(EVENT) if b"chunked" in head else asked.send(EVENT))
        await asyncio.sleep(0.002)
    await asked.send(ending)
    if then in {"close", "old", "cut", "short", "bad"}:
        asked.close()
    elif then == "reset":
        await asyncio.sleep(0.02)
        asked.reset()


async def _silent(asked: Asked, _: int) -> None:
    await asked.wire.gone.wait()


async def _endless(asked: Asked, _: int) -> None:
    await asked.send(streaming())
    while True:
        await asked.chunk(EVENT)
        await asyncio.sleep(0.01)


async def _flood(asked: Asked, _: int) -> None:
    await asked.send(streaming())
    while True:
        await asked.chunk(EVENT * 100)


async def _plain(asked: Asked, events: int) -> None:
    body = EVENT * events + DONE
    await asked.send(simple("200 OK", body, "Content-Type: text/event-stream"))


async def _whole_at_once(asked: Asked, events: int) -> None:
    await asked.send(streaming() + chunked(*[EVENT] * events, DONE))


async def _big(asked: Asked, _: int) -> None:
    await asked.send(streaming())
    await asked.chunk(BIG)
    await asked.chunk(DONE)
    await asked.send(b"0\r\n\r\n")


async def _refusal(asked: Asked, _: int) -> None:
    await asked.send(simple("429 Too Many Requests", b"{}", "Retry-After: 1"))


async def _interim(asked: Asked, events: int) -> None:
    await asked.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
    await _whole_at_once(asked, events)


async def _surplus(asked: Asked, events: int) -> None:
    await asked.send(streaming() + chunked(*[EVENT] * events, DONE) + simple(body=b"EVIL"))


async def _twice(asked: Asked, _: int) -> None:
    await asked.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!")


async def _nothing(asked: Asked, _: int) -> None:
    asked.close()


async def _echo(asked: Asked, _: int) -> None:
    """A WebSocket that answers each frame of a client with one of its own."""
    await asked.send(SWITCH)
    while asked.wire.is_open:
        while len(asked.wire.buffer) < len(CLOSE_FRAME):
            await asked.wire.more()
        is_close = asked.wire.buffer[:1] == CLOSE_FRAME[:1]
        del asked.wire.buffer[: len(CLOSE_FRAME if is_close else FRAME)]
        await asked.send(b"\x88\0" if is_close else b"\x81\2hi")
        if is_close:
            asked.close()


FAULTS: dict[str, Callable[[Asked, int], Awaitable[None]]] = {
    "silent": _silent,
    "endless": _endless,
    "flood": _flood,
    "plain": _plain,
    "at-once": _whole_at_once,
    "big": _big,
    "refusal": _refusal,
    "interim": _interim,
    "surplus": _surplus,
    "twice": _twice,
    "nothing": _nothing,
    "echo": _echo,
}
OLD = b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
SHORT = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 1000000\r\n\r\n"
CHUNKED_DONE = b"%x\r\n%b\r\n0\r\n\r\n" % (len(DONE), DONE)
BODIES = {
    "end": (streaming(), CHUNKED_DONE),
    "close": (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", DONE),
    "old": (OLD, DONE),
    "missing": (streaming(), b"0\r\n\r\n"),
    "cut": (streaming(), b"ff\r\ndata:"),
    "short": (SHORT, b""),
    "bad": (streaming(), b"zz\r\n"),
    "reset": (streaming(), b""),
}
WHOLE_ENDINGS: dict[str, tuple[Endings, int]] = {
    **dict.fromkeys(("end", "close", "old", "plain", "at-once", "big", "interim", "surplus"), (COMPLETE, 200)),
    **dict.fromkeys(("cut", "short", "bad", "reset"), (CUT, 200)),
    "missing": (MISSING, 200),
    "refusal": (COMPLETE, 429),
    "twice": (CUT, 502),
    "nothing": (CUT, 502),
    "silent": (LATE, 504),
}
"""What becomes of an exchange whose client stays, and which status it sees, by what the upstream does."""


# ---------------------------------------------------------------------------------------------------------- clients


@dataclass
class Crowd:
    """What all clients share: where they go, and the numbers of their requests. complaints: what they got wrong."""

    port: int
    dead_port: int
    complaints: list[str]
    numbers: count[int]

    def next_id(self) -> str:
        return f"soak-{next(self.numbers)}"

    @asynccontextmanager
    async def visiting(self, *, receive_bytes: int | None = None, port: int | None = None) -> AsyncIterator[RawClient]:
        async with raw_client(port or self.port, receive_bytes=receive_bytes) as client:
            yield client

    def check(self, got: Got, status: int, request_id: str, *, is_clean: bool | None = None) -> None:
        if got.status != status or (is_clean is not None and got.is_clean is not is_clean):
            self.complaints.append(f"{request_id}: {got.status} {got.end}, expected {status}, clean {is_clean}")


def request(
    request_id: str, then: str, *fields: str, events: int = 5, method: str = "GET", version: str = "1.1"
) -> bytes:
    lines = [f"{method} {CHAT}?then={then}&events={events} HTTP/{version}", "Host: h", f"X-Request-Id: {request_id}"]
    return "\r\n".join([*lines, *fields, "", ""]).encode()


async def stays(crowd: Crowd, rng: random.Random) -> list[Visit]:
    """Reads every answer to its end, on one connection for as long as that is kept."""
    visits = []
    async with crowd.visiting() as client:
        for _ in range(rng.randint(1, 6)):
            then, request_id = rng.choice([*WHOLE_ENDINGS, *["end"] * 6]), crowd.next_id()
            endings, status = WHOLE_ENDINGS[then]
            client.send(request(request_id, then, events=rng.randint(0, 40)))
            visits.append(Visit(request_id, endings))
            got = await client.answer(within_s=WITHIN_S)
            crowd.check(got, status, f"{request_id} {then}", is_clean=endings != CUT or status == 502)
            if got.end != WHOLE or got.values("connection"):
                break
    return visits


async def old(crowd: Crowd, rng: random.Random) -> list[Visit]:
    then, request_id = rng.choice(["end", "plain", "close", "cut"]), crowd.next_id()
    async with crowd.visiting() as client:
        client.send(request(request_id, then, version="1.0"))
        got = await client.answer(within_s=WITHIN_S)
    crowd.check(got, 200, request_id, is_clean=then != "cut")
    return [Visit(request_id, WHOLE_ENDINGS[then][0])]


async def leaves(crowd: Crowd, rng: random.Random) -> list[Visit]:
    """Leaves at any moment, in any manner."""
    phase, request_id = rng.choice(["head", "asked", "begun", "events"]), crowd.next_id()
    then = rng.choice(["endless", "flood", "silent" if phase in {"head", "asked"} else "endless", "end"])
    async with crowd.visiting() as client:
        data = request(request_id, then)
        client.send(data[: rng.randrange(1, len(data))] if phase == "head" else data)
        if phase == "asked":
            await asyncio.sleep(rng.random() * 0.05)
        elif phase in {"begun", "events"}:
            got = await client.head(within_s=WITHIN_S)
            if phase == "events":
                await client.at_least(got, len(EVENT) * rng.randint(1, 4), within_s=WITHIN_S)
        how = rng.choice(["fin", "reset", "half"])
        if how == "half":
            client.half_close()
            await client.closed(within_s=WITHIN_S)
        else:
            client.leave(by_reset=how == "reset")
    return [Visit(request_id, LEFT_OR_DONE, is_sure=phase in {"begun", "events"})]


async def sticks(crowd: Crowd, rng: random.Random) -> list[Visit]:
    """Asks for a flood and reads nothing of it, until it is ended or leaves."""
    request_id = crowd.next_id()
    async with crowd.visiting(receive_bytes=4_096) as client:
        client.transport.pause_reading()
        client.send(request(request_id, "flood"))
        await asyncio.sleep(rng.choice([0.2, LIMIT_S * 2.5]))
        client.leave(by_reset=rng.random() < 0.5)
    return [Visit(request_id, LEFT)]


async def sips(crowd: Crowd, rng: random.Random) -> list[Visit]:
    """Reads little at a time, and all of it in the end."""
    request_id = crowd.next_id()
    async with crowd.visiting(receive_bytes=4_096) as client:
        client.transport.pause_reading()
        client.send(request(request_id, "big"))

        async def sip() -> None:
            for _ in range(rng.randint(3, 12)):
                await asyncio.sleep(0.05)
                client.transport.resume_reading()
                await asyncio.sleep(0.005)
                client.transport.pause_reading()
            client.transport.resume_reading()

        _, got = await asyncio.gather(sip(), client.answer(within_s=WITHIN_S))
    crowd.check(got, 200, request_id, is_clean=True)
    return [Visit(request_id, COMPLETE)]


async def uploads(crowd: Crowd, rng: random.Random) -> list[Visit]:
    """Sends some megabytes, and stays; or goes, stops or breaks the framing in the middle."""
    how, request_id = rng.choice(["whole", "whole", "leaves", "stops", "breaks"]), crowd.next_id()
    is_chunked, pieces = rng.random() < 0.5 or how == "breaks", rng.randint(1, 40)
    framing = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {len(PIECE) * pieces}"
    endings = {"whole": COMPLETE, "leaves": LEFT, "stops": REJECTED, "breaks": REJECTED | LEFT}[how]
    async with crowd.visiting() as client:
        client.send(request(request_id, "plain", framing, method="POST"))
        for _ in range(pieces if how == "whole" else pieces - 1):
            client.send(b"%x\r\n%b\r\n" % (len(PIECE), PIECE) if is_chunked else PIECE)
            await client.drain()
        if how == "leaves":
            await asyncio.sleep(0.05)
            client.leave(by_reset=rng.random() < 0.5)
            return [Visit(request_id, endings)]
        if is_chunked:
            client.send({"whole": b"0\r\n\r\n", "stops": b"10\r\nabc", "breaks": b"zz\r\n"}[how])
        got = await client.answer(within_s=WITHIN_S)
        crowd.check(got, {"whole": 200, "stops": 408, "breaks": 400}[how], f"{request_id} {how}")
    return [Visit(request_id, endings, is_sure=how != "breaks")]  # what breaks in its first segment is no request


async def pipelines(crowd: Crowd, rng: random.Random) -> list[Visit]:
    ids = [crowd.next_id() for _ in range(rng.randint(2, 4))]
    async with crowd.visiting() as client:
        client.send(b"".join(request(each, "at-once") for each in ids))
        for each in ids:
            crowd.check(await client.answer(within_s=WITHIN_S), 200, each, is_clean=True)
    return [Visit(each, COMPLETE) for each in ids]


async def talks_nonsense(crowd: Crowd, rng: random.Random) -> list[Visit]:
    """Sends what is no request, or one that can be read in two ways."""
    request_id = crowd.next_id()
    nonsense = [
        b"\0\1\2\r\n\r\n",
        request(request_id, "end", "Content-Length: 5", "Transfer-Encoding: chunked", method="POST") + b"0\r\n\r\n",
        request(request_id, "end", f"X-Long: {'x' * 70_000}"),
        request(request_id, "end", "X: a\0b"),
    ]
    async with crowd.visiting() as client:
        client.send(rng.choice(nonsense))
        got = await client.answer(within_s=WITHIN_S)
        if got.status not in {400, 431}:
            crowd.complaints.append(f"{request_id}: nonsense was answered with {got.status} {got.end}")
    return [Visit(request_id, REJECTED, is_sure=False)]


async def dawdles(crowd: Crowd, _: random.Random) -> list[Visit]:
    """Begins a head and does not end it."""
    async with crowd.visiting() as client:
        client.send(b"GET /x HTTP/1.1\r\nHo")
        got = await client.answer(within_s=WITHIN_S)
        crowd.check(got, 408, "a slow head")
    return []


async def asks_the_dead(crowd: Crowd, _: random.Random) -> list[Visit]:
    """Asks through a listener behind which nobody is."""
    request_id = crowd.next_id()
    async with crowd.visiting(port=crowd.dead_port) as client:
        client.send(request(request_id, "end"))
        crowd.check(await client.answer(within_s=WITHIN_S), 502, request_id, is_clean=True)
    return [Visit(request_id, REFUSED)]


async def websocket(crowd: Crowd, rng: random.Random) -> list[Visit]:
    request_id, is_orderly = crowd.next_id(), rng.random() < 0.7
    async with crowd.visiting() as client:
        client.send(request(request_id, "echo", *WEBSOCKET))
        got = await client.head(within_s=WITHIN_S)
        crowd.check(got, 101, request_id)
        for _ in range(rng.randint(1, 10)):
            client.send(FRAME)
            await asyncio.wait_for(client.more() if not client.buffer else asyncio.sleep(0), WITHIN_S)
        if is_orderly:
            client.send(CLOSE_FRAME)
            await client.closed(within_s=WITHIN_S)
        else:
            client.leave(by_reset=True)
    return [Visit(request_id, COMPLETE if is_orderly else LEFT_OR_DONE)]


async def speaks_http2(crowd: Crowd, _: random.Random) -> list[Visit]:
    async with crowd.visiting() as client:
        client.send(PREFACE)
        await asyncio.wait_for(client.more() if not client.buffer else asyncio.sleep(0), WITHIN_S)
        if client.buffer[:3] != b"\0\0\0":
            crowd.complaints.append("HTTP/2 was not passed on")
    return []


SCENARIOS: dict[Callable[[Crowd, random.Random], Awaitable[list[Visit]]], int] = {
    stays: 10,
    leaves: 8,
    uploads: 3,
    old: 2,
    sips: 2,
    sticks: 1,
    pipelines: 2,
    talks_nonsense: 2,
    dawdles: 1,
    asks_the_dead: 1,
    websocket: 2,
    speaks_http2: 1,
}
"""How often each comes up, in parts of their sum."""
