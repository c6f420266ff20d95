"""The scripted model worker: an app that answers like an inference server, and misbehaves when told to.

Run it as `python -m otel.demo.worker --port PORT`.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys
import uuid
from collections.abc import Sequence
from typing import Final

from aiohttp import web

from otel.demo import faults, script
from otel.demo.faults import CLIENT, WORKER, FaultError
from otel.demo.script import Script

EVENTS_LIMIT: Final = 100_000
"""Most content events of one answer: forty minutes at the script's pace."""


async def chat(request: web.Request) -> web.StreamResponse:
    """Send the script, each event when it is due; a reader that is behind gets what is overdue at once."""
    start_s = asyncio.get_running_loop().time()
    asked = await request.json()
    try:
        fault = faults.planted(request.headers.get(faults.HEADER))
    except FaultError as error:
        return refusal(error)
    answer = script.script(
        request_id=request.headers.get("x-request-id") or uuid.uuid4().hex,
        model=str(asked.get("model", "scripted")),
        events=min(int(asked.get("max_tokens", script.DEFAULT_EVENTS)), EVENTS_LIMIT),
        seed=int(asked.get("seed", 0)),
        fault=fault if fault and fault.hop in {WORKER, CLIENT} else None,
    )
    return await play(request, answer, start_s=start_s)


async def play(request: web.Request, answer: Script, *, start_s: float) -> web.StreamResponse:
    """Answer with the script, whose times count from start_s of the loop's clock."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    for due in answer.events:
        await asyncio.sleep(start_s + due.at_s - asyncio.get_running_loop().time())
        await response.write(due.data)
    if not answer.is_whole:
        break_off(request)
    return response


def refusal(error: FaultError) -> web.Response:
    """Say why what the header asks for cannot be planted, where curl shows it."""
    return web.Response(status=400, text="".join(f"{faults.HEADER}: {line}\n" for line in error.errors))


def break_off(request: web.Request) -> None:
    """Close the connection without the last chunk, as a process that dies does."""
    if request.transport is not None:
        request.transport.close()


async def health(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


def serve(app: web.Application, *, port: int, buffer_bytes: int | None = None) -> None:
    """Run an app of the demo until it is told to stop; a reader that leaves cancels its request.

    buffer_bytes: of the kernel, for what is received and what is sent; None is as the machine is set.
    """
    for path in ("/healthz", "/health"):  # routers ask an engine for the latter
        app.router.add_get(path, health)
    listener = sized_socket(socket.AF_INET, buffer_bytes=buffer_bytes)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    web.run_app(
        app,
        sock=listener,
        print=None,
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=0.2,
    )


def sized_socket(*of: int, buffer_bytes: int | None) -> socket.socket:
    """A socket with buffers of this size; what it accepts has them, too."""
    made = socket.socket(*of)
    if buffer_bytes is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m otel.demo.worker", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args(argv)
    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    serve(app, port=arguments.port)
    return 0


if __name__ == "__main__":
    sys.exit(main())
