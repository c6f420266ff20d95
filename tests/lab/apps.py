"""The lab's own apps in the middle: one that only passes on, and those that hold, merge, split, drop or add events.

    python -m tests.lab.apps --does window --hop gateway --port PORT --next URL [--buffer BYTES]

Each does what gateways of the field do, and nothing by chance: the reader's stamps follow from the worker's script.
A fault of the hop itself holds events before they come to what the app does with them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from enum import StrEnum
from functools import partial
from typing import Any, Final

from otel.demo import script
from otel.demo.middle import Passing, Write, run
from otel.demo.reader import has_text
from tests.lab.app import App

WINDOW_EVENTS: Final = 64
"""Texts that a moderation window reads together before any of them passes."""
PIECE_BYTES: Final = 4_096
"""A usual buffer of a copying loop: nothing passes until it is full."""
MERGED_EVENTS: Final = 4
COMMENT_EVERY: Final = 10
"""Texts between two comments of the rebuilder."""
QUIET_S: Final = 0.2
"""Silence after which a keepalive is sent: many times shorter than in the field, as are the lab's answers."""
KEEPALIVE: Final = b": keepalive\n\n"
DONE: Final = b"data: [DONE]\n\n"
END: Final = b"\n\n"


class Does(StrEnum):
    """What an app does with the events of an answer."""

    NOTHING = "nothing"
    REBUILD = "rebuild"
    MERGE = "merge"
    SPLIT = "split"
    STRIP = "strip"
    USAGE = "usage"
    KEEPALIVE = "keepalive"
    WINDOW = "window"
    COALESCE = "coalesce"
    UNBOUNDED = "unbounded"


def rebuild() -> Callable[[bytes], bytes]:
    """Rebuilds every chunk, as gateways do that speak several APIs: thoughts, role and usage go, comments come."""
    texts = 0

    def rebuilt(event: bytes) -> bytes:
        nonlocal texts
        if (said := _said(event)) is None:
            return event
        frame = script.frame_of(request_id="rebuilt", model=said["model"])
        if has_text(event):
            texts += 1
            comment = b": processing\n\n" if texts % COMMENT_EVERY == 0 else b""
            return comment + script.chunk(frame, {"content": _text(said)})
        if said["choices"] and (reason := said["choices"][0]["finish_reason"]):
            return script.chunk(frame, {}, finish_reason=reason)
        return b""

    return rebuilt


def merge() -> Callable[[bytes], bytes]:
    """Makes one event of the texts of several; a remainder waits for whatever comes behind it."""
    held: list[dict[str, Any]] = []

    def released() -> bytes:
        if not held:
            return b""
        made = _with_text(held[0], "".join(map(_text, held)))
        held.clear()
        return made

    def merged(event: bytes) -> bytes:
        said = _said(event)
        if said is None or not has_text(event):
            return released() + event
        held.append(said)
        return released() if len(held) == MERGED_EVENTS else b""

    return merged


def split() -> Callable[[bytes], bytes]:
    """Makes two events of every text."""

    def halves(event: bytes) -> bytes:
        said = _said(event)
        if said is None or not has_text(event):
            return event
        text = _text(said)
        middle = (len(text) + 1) // 2
        return b"".join(_with_text(said, half) for half in (text[:middle], text[middle:]) if half)

    return halves


def strip() -> Callable[[bytes], bytes]:
    """Keeps thoughts to itself."""

    def spoken(event: bytes) -> bytes:
        said = _said(event)
        choices = said["choices"] if said else []
        return b"" if any("reasoning_content" in choice["delta"] for choice in choices) else event

    return spoken


def count_usage() -> Callable[[bytes], bytes]:
    """Says what was used in every event, and once more before the end."""
    texts = 0

    def counted(event: bytes) -> bytes:
        nonlocal texts
        texts += has_text(event)
        usage = {"prompt_tokens": 1, "completion_tokens": texts, "total_tokens": texts + 1}
        if (said := _said(event)) is not None:
            return script.event({**said, "usage": usage})
        return script.event({"object": "chat.completion.chunk", "choices": [], "usage": usage}) + event

    return counted


@asynccontextmanager
async def mapping(write: Write, made: Callable[[], Callable[[bytes], bytes]]) -> AsyncIterator[Write]:
    """Every event by itself through what `made` makes for this answer; what comes to nothing is not written."""
    change = made()

    async def take(data: bytes) -> None:
        if changed := b"".join(map(change, _events(data))):
            await write(changed)

    yield take


@asynccontextmanager
async def windowed(write: Write) -> AsyncIterator[Write]:
    """A moderation window: texts wait until WINDOW_EVENTS of them can be read together, and all else waits its turn."""
    held: list[bytes] = []

    async def take(data: bytes) -> None:
        for event in _events(data):
            held.append(event)
            texts = sum(map(has_text, held))
            if texts in {0, WINDOW_EVENTS} or event == DONE:
                await release()

    async def release() -> None:
        released = b"".join(held)
        held.clear()
        if released:
            await write(released)

    yield take
    await release()


@asynccontextmanager
async def coalesced(write: Write) -> AsyncIterator[Write]:
    """A copying loop with a buffer: pieces of PIECE_BYTES, wherever an event begins, and the rest at the end."""
    held = bytearray()

    async def take(data: bytes) -> None:
        held.extend(data)
        while len(held) >= PIECE_BYTES:
            piece = bytes(held[:PIECE_BYTES])
            del held[:PIECE_BYTES]
            await write(piece)

    yield take
    if held:
        await write(bytes(held))


@asynccontextmanager
async def kept_alive(write: Write) -> AsyncIterator[Write]:
    """A comment whenever nothing was written for QUIET_S."""
    writing = asyncio.Lock()
    is_written = asyncio.Event()

    async def take(data: bytes) -> None:
        async with writing:
            await write(data)
        is_written.set()

    async def comment() -> None:
        while True:
            is_written.clear()
            try:
                async with asyncio.timeout(QUIET_S):
                    await is_written.wait()
            except TimeoutError:
                async with writing:
                    await write(KEEPALIVE)

    commenting = asyncio.create_task(comment())
    try:
        yield take
    finally:
        commenting.cancel()
        with suppress(asyncio.CancelledError, ConnectionError):
            await commenting


@asynccontextmanager
async def unbounded(write: Write) -> AsyncIterator[Write]:
    """A queue without an end between reading and writing: a reader that stops is never felt upstream."""
    queue: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def deliver() -> None:
        while (data := await queue.get()) is not None:
            await write(data)

    async def take(data: bytes) -> None:
        if delivering.done():
            await delivering  # raises what ended it
        queue.put_nowait(data)

    delivering = asyncio.create_task(deliver())
    try:
        yield take
        queue.put_nowait(None)
        await delivering
    finally:
        delivering.cancel()


PASSING: Final[Mapping[Does, Passing]] = {
    Does.NOTHING: nullcontext,
    Does.REBUILD: partial(mapping, made=rebuild),
    Does.MERGE: partial(mapping, made=merge),
    Does.SPLIT: partial(mapping, made=split),
    Does.STRIP: partial(mapping, made=strip),
    Does.USAGE: partial(mapping, made=count_usage),
    Does.KEEPALIVE: kept_alive,
    Does.WINDOW: windowed,
    Does.COALESCE: coalesced,
    Does.UNBOUNDED: unbounded,
}


def _events(data: bytes) -> list[bytes]:
    """What is written may be several events, when the hop held them back."""
    return [event + END for event in data.split(END) if event]


def _said(event: bytes) -> dict[str, Any] | None:
    """The object of an event; None for comments and the end."""
    if event == DONE or not event.startswith(b"data: "):
        return None
    said: dict[str, Any] = json.loads(event.removeprefix(b"data: "))
    return said


def _text(said: Mapping[str, Any]) -> str:
    return str(said["choices"][0]["delta"]["content"])


def _with_text(said: Mapping[str, Any], text: str) -> bytes:
    choice = said["choices"][0]
    return script.event({**said, "choices": [{**choice, "delta": {**choice["delta"], "content": text}}]})


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.apps", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--does", choices=list(Does), type=Does, default=Does.NOTHING)
    parser.add_argument("--hop", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--next", required=True, metavar="URL")
    parser.add_argument("--buffer", type=int, metavar="BYTES", help="of the kernel, each way")
    options = parser.parse_args(arguments)
    passing = PASSING[options.does]
    run(App(hop=options.hop, next_url=options.next, passing=passing, buffer_bytes=options.buffer), port=options.port)


if __name__ == "__main__":
    main()
