"""The lab's model worker: the demo's, with every traffic shape. `python -m tests.lab.worker --port PORT`."""

from __future__ import annotations

import argparse
import asyncio

from aiohttp import web

from otel.demo import faults
from otel.demo.faults import CLIENT, WORKER
from otel.demo.worker import play, serve
from tests.lab.shapes import Shape, answer


async def chat(request: web.Request) -> web.StreamResponse:
    """The shape is a member `shape` of the request's body."""
    start_s = asyncio.get_running_loop().time()
    asked = await request.json()
    fault = faults.planted(request.headers.get(faults.HEADER))
    script = answer(
        Shape(asked["shape"]),
        request_id=request.headers["x-request-id"],
        events=asked["max_tokens"],
        seed=asked["seed"],
        fault=fault if fault and fault.hop in {WORKER, CLIENT} else None,
    )
    return await play(request, script, start_s=start_s)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.worker")
    parser.add_argument("--port", type=int, required=True)
    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    serve(app, port=parser.parse_args().port)


if __name__ == "__main__":
    main()
