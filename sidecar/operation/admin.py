"""The admin address: health, readiness and metrics for the pod's network, the rest for callers on this machine only.

It is an address of its own, so that no path of the upstream is ever taken away. The list of streams names request
ids, and the kill switch changes what happens; both are for this machine. That the caller's address is this machine's
does not say so: a mesh proxy hands on what comes from outside, and a browser does what a page from outside tells it.
So the call must come in at a loopback address, by a loopback name, and not from a page.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
from typing import Final

from aiohttp import hdrs, web

from otel import settings
from otel.exposition import CONTENT_TYPE, OPENMETRICS_TYPE, classic, wants_openmetrics
from otel.logs import SILENT
from otel.settings import Address
from sidecar.operation.account import Account

LOCAL_ONLY: Final = "only for callers on this machine\n"
CONNECTIONS: Final = 32
"""Open at a time; beyond it the oldest is closed. So nobody in the pod's network can keep a probe out, or use up the
descriptors that streams need."""


class Admin:
    """The routes, and the account that they show."""

    def __init__(self, account: Account) -> None:
        self._account = account

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/readyz", self._readiness)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/streams", self._streams)
        app.router.add_get("/passthrough", self._passthrough)
        app.router.add_post("/passthrough", self._switch_passthrough)
        return app

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readiness(self, _request: web.Request) -> web.Response:
        is_ready = await self._account.is_ready()
        return web.Response(status=200 if is_ready else 503, text="ready\n" if is_ready else "not ready\n")

    async def _metrics(self, request: web.Request) -> web.Response:
        text = await self._account.metrics()
        is_open = wants_openmetrics(",".join(request.headers.getall(hdrs.ACCEPT, ())))
        headers = {hdrs.CONTENT_TYPE: OPENMETRICS_TYPE if is_open else CONTENT_TYPE, hdrs.VARY: hdrs.ACCEPT}
        shown = text if is_open else await asyncio.to_thread(classic, text)  # megabytes, and streams pass meanwhile
        return web.Response(body=shown.encode(), headers=headers)

    async def _streams(self, request: web.Request) -> web.Response:
        if not _is_from_here(request):
            return web.Response(status=403, text=LOCAL_ONLY)
        return _json({"streams": await self._account.streams()})

    async def _passthrough(self, request: web.Request) -> web.Response:
        if not _is_from_here(request):
            return web.Response(status=403, text=LOCAL_ONLY)
        return _json({"passthrough": await self._account.is_passthrough()})

    async def _switch_passthrough(self, request: web.Request) -> web.Response:
        if not _is_from_here(request):
            return web.Response(status=403, text=LOCAL_ONLY)
        try:
            is_on = settings.switch(request.query.get("on", ""))
        except ValueError:
            return web.Response(status=400, text="?on= must be true or false\n")
        await self._account.switch_passthrough(is_on=is_on)
        return await self._passthrough(request)


class AdminSite:
    """The admin address, while it is open."""

    def __init__(self, account: Account) -> None:
        self._runner = web.AppRunner(Admin(account).app(), access_log=None, logger=SILENT)
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """0 before it is open."""
        return 0 if self._server is None else int(self._server.sockets[0].getsockname()[1])

    async def start(self, address: Address) -> None:
        """Open it. Raises OSError."""
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(self._connected, address.host, address.port)
        except OSError as error:
            raise OSError(error.errno, f"--admin {address}: {os.strerror(error.errno or 0)}") from error

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        await self._runner.cleanup()

    def _connected(self) -> asyncio.BaseProtocol:
        server = self._runner.server
        assert server is not None  # there is one from `setup` to `cleanup`
        open_ones = [each for each in server.connections if each.transport is not None]
        for handler in open_ones[: max(0, len(open_ones) - CONNECTIONS + 1)]:
            transport = handler.transport
            handler.force_close()
            if isinstance(transport, asyncio.Transport):
                transport.abort()  # closing would wait for a reader that does not read
        return server()


def _json(value: object) -> web.Response:
    return web.Response(text=json.dumps(value, indent=1) + "\n", content_type="application/json")


def _is_from_here(request: web.Request) -> bool:
    if request.transport is None:
        return False
    ends = [request.transport.get_extra_info(name) for name in ("peername", "sockname")]
    return is_from_here(
        [end[0] if isinstance(end, tuple) else "" for end in ends],
        hosts=request.headers.getall(hdrs.HOST, ()),
        is_from_page=hdrs.ORIGIN in request.headers,
    )


def is_from_here(ends: list[str], *, hosts: list[str] | tuple[str, ...], is_from_page: bool) -> bool:
    """Whether a call may see and do everything.

    ends: the addresses of both ends of its connection. hosts: its Host fields; a page whose name was made to point at
    this machine sends its own name there. is_from_page: it has an Origin, which every browser adds to a POST.
    """
    return not is_from_page and all(map(_is_loopback, ends)) and len(hosts) == 1 and _is_loopback(_name_of(hosts[0]))


def _name_of(host: str) -> str:
    """The host without its port, an IPv6 address without its brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback
