"""The lab's model worker: plays the answer that the request's header asks for, with the faults of its own.

python -m tests.lab.worker --port PORT [--buffer BYTES]
"""

from __future__ import annotations

import argparse
import asyncio

from aiohttp import web

from otel.demo.worker import play, serve
from tests.lab.told import HEADER, Told


async def chat(request: web.Request) -> web.StreamResponse:
    start_s = asyncio.get_running_loop().time()
    await request.read()
    told = Told.parse(request.headers[HEADER])
    return await play(request, told.script(request_id=request.headers["x-request-id"]), start_s=start_s)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.worker")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--buffer", type=int, metavar="BYTES", help="of the kernel, each way")
    options = parser.parse_args()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    serve(app, port=options.port, buffer_bytes=options.buffer)


if __name__ == "__main__":
    main()
