"""A proxy as people write it in Python: an ASGI app on uvicorn that asks the next hop with httpx.

Runs in an environment of its own, beside which there is nothing of gapline: PYTHON asgi.py PORT NEXT_URL.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import httpx

HOP_BY_HOP: Final = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"te", b"upgrade", b"host"})

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Proxy:
    """Passes requests on; an answer is sent on in the pieces in which it comes, and a reader that leaves ends it."""

    def __init__(self, next_hop: httpx.AsyncClient) -> None:
        self._next = next_hop

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        body = bytearray()
        while (said := await receive()).get("more_body"):
            body += said["body"]
        body += said.get("body", b"")
        if scope["path"] == "/healthz":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        answering = asyncio.create_task(self._answer(scope, bytes(body), send))
        leaving = asyncio.ensure_future(receive())
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        if not answering.done():
            answering.cancel()
        await asyncio.gather(answering, leaving, return_exceptions=True)
        if not answering.cancelled() and (error := answering.exception()) is not None:
            raise error  # uvicorn closes what has begun, and nobody takes it for whole

    async def _answer(self, scope: Message, body: bytes, send: Send) -> None:
        headers = [(name, value) for name, value in scope["headers"] if name not in HOP_BY_HOP]
        async with self._next.stream(scope["method"], scope["path"], content=body, headers=headers) as answer:
            kept = [(name, value) for name, value in answer.headers.raw if name.lower() not in HOP_BY_HOP]
            await send({"type": "http.response.start", "status": answer.status_code, "headers": kept})
            async for data in answer.aiter_raw():
                await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def main() -> None:
    import uvicorn  # the app itself needs no server

    port, next_url = sys.argv[1:]
    next_hop = httpx.AsyncClient(base_url=next_url, timeout=None, trust_env=False)  # a model may think for minutes
    uvicorn.run(Proxy(next_hop), host="127.0.0.1", port=int(port), access_log=False, log_level="warning")


if __name__ == "__main__":
    main()
