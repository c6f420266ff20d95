"""The readers in C believe no proxy: whatever is changed, lost, doubled or cut on the way is found and counted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from tests.bench.loads import PATH
from tests.bench.measured import Counted

pytestmark = pytest.mark.e2e

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
DONE = b"data: [DONE]\n\n"
EVENTS = 5


def event(number: int) -> bytes:
    """As the upstream makes them."""
    return (
        b'data: {"id":"chatcmpl-7f3a9c","object":"chat.completion.chunk","created":1760000000,"model":"m1",'
        b'"choices":[{"index":0,"delta":{"content":"%019d %09d"},"finish_reason":null}]}\n\n'
        % (time.monotonic_ns(), number)
    )


def chunked(*parts: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    return HEAD + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + end


def whole() -> list[bytes]:
    return [*map(event, range(EVENTS)), DONE]


async def read(
    load: str,
    answer: Callable[[], bytes],
    *,
    cut_bytes: int = 1 << 20,
    loose: bool = False,
    kind: str = "stream",
    stays_open: bool = False,
) -> Counted:
    """What one reader makes of this answer, sent in pieces of so many bytes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        said = answer()
        for at in range(0, len(said), cut_bytes):
            writer.write(said[at : at + cut_bytes])
            await writer.drain()
            await asyncio.sleep(0)
        if stays_open:
            await reader.read()  # until the reader leaves
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        now = time.monotonic_ns()
        port = server.sockets[0].getsockname()[1]
        words = (
            kind,
            port,
            1,
            now,
            now + 200_000_000,
            0,
            0.3 if stays_open else 2,
            EVENTS,
            PATH,
            *(["loose"] if loose else []),
        )
        process = await asyncio.create_subprocess_exec(
            load, *map(str, words), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, _ = await asyncio.wait_for(process.communicate(), 10)
    return Counted.of(out.decode())


def swapped() -> list[bytes]:
    parts = whole()
    parts[1], parts[2] = parts[2], parts[1]
    return parts


WRONG: dict[str, tuple[str, Callable[[], bytes]]] = {
    "an event is missing": ("order", lambda: chunked(*whole()[:2], *whole()[3:])),
    "the last event is missing": ("order", lambda: chunked(*whole()[:4], DONE)),
    "an event is doubled": ("order", lambda: chunked(*whole()[:2], event(1), *whole()[2:])),
    "two events are swapped": ("order", lambda: chunked(*swapped())),
    "a byte is another one": ("text", lambda: chunked(*whole()).replace(b'"model":"m1"', b'"model":"m2"', 1)),
    "a digit is none": ("text", lambda: chunked(*whole()).replace(b" 000000003", b" 00000000x")),
    "a byte is missing": ("text", lambda: chunked(whole()[0][1:], *whole()[1:])),
    "a comment stands in it": ("text", lambda: chunked(*whole()[:2], b": alive\n\n", *whole()[2:])),
    "the end is doubled": ("order", lambda: chunked(*whole(), DONE)),
    "the end is missing": ("order", lambda: chunked(*whole()[:-1])),
    "it is cut in an event": ("cut", lambda: chunked(*whole(), end=b"")[:-40]),
    "it is cut before the last chunk": ("cut", lambda: chunked(*whole(), end=b"")),
    "it is refused": ("status", lambda: b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"),
    "a size is no number": ("framing", lambda: chunked(*whole()).replace(b"\r\nc4\r\n", b"\r\nzz\r\n", 1)),
    "it has no framing": ("framing", lambda: b"HTTP/1.1 200 OK\r\n\r\n" + b"".join(whole())),
}


@pytest.mark.parametrize("what", WRONG)
async def test_what_is_wrong_is_found(what: str, c_programs: dict[str, str]) -> None:
    kind, answer = WRONG[what]
    found = await read(c_programs["load"], answer)
    assert dict(found.wrong) == {kind: 1}
    assert found.whole == 0


@pytest.mark.parametrize("cut_bytes", [1, 7, 196, 1 << 20])
async def test_what_is_right_is_right_wherever_it_is_cut(cut_bytes: int, c_programs: dict[str, str]) -> None:
    found = await read(c_programs["load"], lambda: chunked(*whole()), cut_bytes=cut_bytes)
    assert (found.events, found.window_events, found.whole, dict(found.wrong)) == (EVENTS, EVENTS, 1, {})


async def test_events_may_come_in_other_chunks(c_programs: dict[str, str]) -> None:
    body = b"".join(whole())
    found = await read(c_programs["load"], lambda: chunked(body[:50], body[50:700], body[700:]))
    assert (found.whole, dict(found.wrong)) == (1, {})


async def test_a_stream_that_does_not_end_is_unfinished(c_programs: dict[str, str]) -> None:
    found = await read(c_programs["load"], lambda: chunked(*whole()[:3], end=b""), stays_open=True)
    assert (found.left, dict(found.wrong)) == (0, {"unfinished": 1})


async def test_of_a_flood_it_is_left_as_far_as_it_has_come(c_programs: dict[str, str]) -> None:
    found = await read(c_programs["load"], lambda: chunked(*whole()[:3], end=b""), kind="flood", stays_open=True)
    assert (found.events, found.whole, found.left, dict(found.wrong)) == (3, 0, 1, {})
    nothing = await read(c_programs["load"], lambda: HEAD, kind="flood", stays_open=True)
    assert dict(nothing.wrong) == {"unfinished": 1}


def rebuilt() -> list[bytes]:
    """By a gateway that writes its own objects around the texts."""
    role = b'data: {"id":"x","choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'
    return [role, *(part.replace(b"chatcmpl-7f3a9c", b"other") for part in whole())]


async def test_what_is_rebuilt_is_only_looked_through_for_its_texts(c_programs: dict[str, str]) -> None:
    found = await read(c_programs["load"], lambda: chunked(*rebuilt()), loose=True)
    assert (found.events, found.whole, dict(found.wrong)) == (EVENTS, 1, {})
    missing = await read(c_programs["load"], lambda: chunked(*rebuilt()[:2], *rebuilt()[3:]), loose=True)
    assert dict(missing.wrong) == {"order": 1}
