"""The downstream side: accept, hand every request to the relay, add nothing to an answer, drain."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from otel.hop import Ending
from otel.settings import Address
from sidecar.exchanges import Exchanges
from sidecar.relay import PASSED, Relay
from sidecar.upstream import HEAD_LINE_BYTES, HEAD_LINES

BACKLOG: Final = 1_024
"""Connections that the kernel holds until we accept them: a burst of clients must not be refused."""
REQUEST_BUFFER_BYTES: Final = 32_768
"""Of a request body in front of an upstream that does not take it; twice that is where reading pauses."""
_UNWRITTEN: Final = ("Server", "Date", "Content-Type")
"""What aiohttp writes into every head by itself."""


class RefusedHeads(logging.Filter):
    """Counts what aiohttp reports of heads it refused, and keeps it out of the log: it quotes the request."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def filter(self, record: logging.LogRecord) -> bool:
        self.count += record.levelno >= logging.ERROR
        return False


class Listener:
    """One listening socket and what comes in through it."""

    def __init__(self, relay: Relay, *, exchanges: Exchanges, refused_heads: RefusedHeads) -> None:
        self._exchanges = exchanges
        quiet = logging.Logger("aiohttp.server")  # noqa: LOG001  # one that no configuration can make speak
        quiet.addFilter(refused_heads)
        self._runner = web.AppRunner(
            _app(relay),
            handler_cancellation=True,
            access_log=None,
            logger=quiet,
            auto_decompress=False,
            max_line_size=HEAD_LINE_BYTES,
            max_field_size=HEAD_LINE_BYTES,
            max_headers=HEAD_LINES,
            read_bufsize=REQUEST_BUFFER_BYTES,
            shutdown_timeout=1.0,  # drain has waited for everything that runs
        )
        self._site: web.TCPSite | None = None

    @property
    def port(self) -> int:
        return 0 if self._site is None else self._site.port

    async def start(self, address: Address) -> None:
        """Listen. Raises OSError when the address cannot be had."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, address.host, address.port, backlog=BACKLOG)
        await site.start()
        self._site = site

    async def drain(self, *, timeout_s: float) -> None:
        """Take nothing new, let what runs finish, and end the rest at the limit. Returns when nothing runs."""
        self._exchanges.is_draining = True
        if self._site is not None:
            await self._site.stop()
        try:
            async with asyncio.timeout(timeout_s):
                await self._exchanges.wait_idle()
        except TimeoutError:
            self._exchanges.stop_running(Ending.DRAINED)
            await self._exchanges.wait_idle()
        self._exchanges.close_lingering()

    async def close(self) -> None:
        """Close every connection."""
        await self._runner.cleanup()


def _app(relay: Relay) -> web.Application:
    @web.middleware
    async def carry(request: web.Request, handler: Handler) -> web.StreamResponse:
        del handler  # every target is the upstream's, so there are no routes
        return await relay.handle(request)

    app = web.Application(middlewares=[carry])
    app.on_response_prepare.append(_add_nothing)
    return app


async def _add_nothing(_request: web.Request, response: web.StreamResponse) -> None:
    """Take out of a head what aiohttp added, and put back what it took out."""
    fields = response.get(PASSED)
    if fields is None:
        response.headers.pop("Server", None)
        return
    passed = {name.lower(): value for name, value in fields}
    for name in _UNWRITTEN:
        if name.lower() not in passed:
            response.headers.popall(name, None)
    if response.status == 304 and "content-length" in passed:
        response.headers["Content-Length"] = passed["content-length"]
