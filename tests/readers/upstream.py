"""The upstream of the readers: it says each stream in its pieces, rests where that is drawn, and hears what pages tell.

A request names its stream by `?n=NUMBER`. Everything that is no stream is served from `pages`, and what is posted to
`/told` is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qs, urlsplit

from tests.readers.streams import REST_S, After, Stream
from tests.support.raw_peers import Asked, simple

TOLD = "/told"
BREATH_EVERY = 16
"""Writes between two turns of the loop in a stream of single bytes."""


class Speaker:
    """What the upstream does with a request; `told` has the bodies that pages posted, in their order."""

    def __init__(self, streams: Sequence[Stream], pages: Mapping[str, bytes] | None = None) -> None:
        self.streams = {stream.number: stream for stream in streams}
        self.pages = dict(pages or {})
        self.told: asyncio.Queue[bytes] = asyncio.Queue()

    async def answer(self, asked: Asked) -> None:
        target = urlsplit(asked.target)
        if target.path == TOLD:
            self.told.put_nowait(bytes(asked.body))
            await asked.send(simple())
        elif (page := self.pages.get(target.path)) is not None:
            await asked.send(simple("200 OK", page, "Content-Type: text/html; charset=utf-8"))
        elif number := parse_qs(target.query).get("n"):
            await say(asked, self.streams[int(number[0])])
        else:
            await asked.send(simple("404 Not Found"))


async def say(asked: Asked, stream: Stream) -> None:
    await asyncio.sleep(stream.head_rest_s)
    if stream.after is After.NO_HEAD:
        await asked.wire.gone.wait()
    await asked.send(head(stream))
    for number, piece in enumerate(stream.writes):
        await (asked.chunk(piece) if stream.framing == "chunked" else asked.send(piece))
        if number in stream.rests:
            await asyncio.sleep(REST_S)
        elif len(piece) > 1 or number % BREATH_EVERY == 0:
            await asyncio.sleep(0)
    match stream.after:
        case After.SILENCE:
            await asked.wire.gone.wait()
        case After.END if stream.framing == "chunked":
            await asked.send(b"0\r\n\r\n")
        case After.CUT | After.END if stream.framing != "length":
            asked.close()


def head(stream: Stream) -> bytes:
    fields = {
        "chunked": "Transfer-Encoding: chunked",
        "close": "Connection: close",
        "length": f"Content-Length: {sum(map(len, stream.writes))}",
    }
    lines = ["HTTP/1.1 200 OK", f"Content-Type: {stream.content_type}", fields[stream.framing]]
    lines += ["Content-Encoding: gzip"] * stream.is_encoded
    return "\r\n".join([*lines, "", ""]).encode()
