"""The proxy that people write with aiohttp: an application, a client session, and a loop that writes what it reads.

Measured beside ours as `python -m tests.bench.plain PORT NEXT_URL`, on uvloop.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Final

import uvloop
from aiohttp import ClientSession, ClientTimeout, TCPConnector, web

HOP_BY_HOP: Final = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host", "content-length"}
)
SESSION: Final = web.AppKey("session", ClientSession)
NEXT_URL: Final = web.AppKey("next_url", str)


def end_to_end(headers: Mapping[str, str]) -> dict[str, str]:
    """The fields that pass; both sides frame bodies for themselves."""
    return {name: value for name, value in headers.items() if name.lower() not in HOP_BY_HOP}


async def passed(request: web.Request) -> web.StreamResponse:
    """The answer of the next hop, in the pieces in which it comes."""
    url, body = request.app[NEXT_URL] + request.path_qs, await request.read()
    session = request.app[SESSION]
    async with session.request(request.method, url, headers=end_to_end(request.headers), data=body or None) as answer:
        response = web.StreamResponse(status=answer.status, headers=end_to_end(answer.headers))
        await response.prepare(request)
        async for data in answer.content.iter_any():
            await response.write(data)
        await response.write_eof()
        return response


def application(next_url: str) -> web.Application:
    """The whole proxy."""
    app = web.Application(client_max_size=1 << 26)
    app[NEXT_URL] = next_url

    async def session(app: web.Application) -> AsyncIterator[None]:
        connector = TCPConnector(limit=0)
        app[SESSION] = ClientSession(connector=connector, timeout=ClientTimeout(total=None), auto_decompress=False)
        yield
        await app[SESSION].close()

    app.cleanup_ctx.append(session)
    app.router.add_route("*", "/{path:.*}", passed)
    return app


async def main(port: int, next_url: str) -> None:
    runner = web.AppRunner(application(next_url), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=4096).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), sys.argv[2]))
