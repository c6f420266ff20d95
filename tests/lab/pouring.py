"""A model worker whose answer is as large and as fast as the request says, and healthy: for trials of links

    python -m tests.lab.pouring --port PORT

The request's body says `events`, the `chars` of text in each, and `pace_ms` between two; it never pauses by itself.
"""

from __future__ import annotations

import argparse
import asyncio

from aiohttp import web

from otel.demo import script
from otel.demo.script import Due, Script
from otel.demo.worker import play, serve


def answer(*, events: int, chars: int, pace_ms: float) -> Script:
    """So many events of so much text, evenly."""
    frame = script.frame_of(request_id="poured", model="pouring")
    data = script.chunk(frame, {"content": "w" * chars})
    dues = [Due(script.THINKING_S, script.chunk(frame, {"role": "assistant", "content": ""}))]
    dues += [Due(script.THINKING_S + index * pace_ms / 1e3, data) for index in range(events)]
    return Script((*dues, *script.ending(frame, at_s=dues[-1].at_s, events=events)))


async def chat(request: web.Request) -> web.StreamResponse:
    start_s = asyncio.get_running_loop().time()
    asked = await request.json()
    poured = answer(events=asked["events"], chars=asked["chars"], pace_ms=asked["pace_ms"])
    return await play(request, poured, start_s=start_s)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.pouring")
    parser.add_argument("--port", type=int, required=True)
    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    serve(app, port=parser.parse_args().port)


if __name__ == "__main__":
    main()
