"""The injector's composition root: settings, the webhook behind TLS, health and metrics, events, drain on SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from typing import Any, Final

import aiohttp
from aiohttp import hdrs, web

from k8s.api import ApiError, HttpApi, in_cluster
from k8s.cluster import Cluster, Nowhere
from k8s.config import FILE_VARIABLE, OPTIONS, Config, add_flags, config_of
from k8s.events import Events
from k8s.tally import Tally
from k8s.tls import Files, Keeper, Own
from k8s.webhook import Surroundings, Webhook
from otel.exposition import CONTENT_TYPE, OPENMETRICS_TYPE, classic, openmetrics, wants_openmetrics
from otel.logs import SILENT, log_to_stderr
from otel.settings import Address, ConfigError
from otel.settings_file import configured
from sidecar.clock import Clock, SystemClock

log = logging.getLogger("k8s.injector")

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
CLOSE_S: Final = 5.0
"""Longest that answers which are being made may take once nobody new is taken."""
_EXAMPLES: Final = """\
examples:
  In a cluster, as k8s/manifests runs it, with a certificate of its own:
    GAPLINE_INJECTOR_EXPORT=http://gapline-collector.gapline.svc:4318 gapline injector
  With a certificate that somebody else renews, and without asking the cluster anything:
    gapline injector --tls-cert /tls/tls.crt --tls-key /tls/tls.key --look nothing
"""


def main(argv: Sequence[str]) -> int:
    """Run the injector until a signal ends it. 0: ended; 1: not started; 2: wrong usage."""
    flags = _parser().parse_args(argv)
    try:
        config = configured(config_of, OPTIONS, vars(flags), os.environ, file_variable=FILE_VARIABLE)
    except ConfigError as error:
        print(*error.errors, sep="\n", file=sys.stderr)
        return USAGE
    if flags.check_config:
        print("the configuration can be used")
        return OK
    log_to_stderr(config.log_level, log_format=config.log_format)
    return asyncio.run(serve(config))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gapline injector",
        description="A webhook that puts sidecars into the pods of namespaces that ask for them.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--check-config", action="store_true", help="say whether the configuration can be used, and end"
    )
    add_flags(parser, OPTIONS)
    return parser


async def serve(config: Config) -> int:
    """The injector from its start to its end."""
    told = _told_to_end()
    async with aiohttp.ClientSession() as session:
        try:
            api = in_cluster(session, os.environ) if _needs_cluster(config) else None
        except ApiError as error:
            log.error("not started", extra={"error": str(error)})  # the text says all
            return FAILED
        injector = Injector(config, api=api, clock=SystemClock())
        try:
            await injector.start()
        except OSError as error:
            log.error("cannot listen", extra={"error": error.strerror or str(error)})
            await injector.close()
            return FAILED
        await injector.run_until(told.wait())
    return OK


class Injector:
    """The parts of one process, put together."""

    def __init__(self, config: Config, *, api: HttpApi | None, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self.tally = Tally()
        self._cluster: Cluster | None = None
        if config.look == "cluster" and api is not None:
            self._cluster = Cluster(api, clock=clock, tally=self.tally)
        around: Surroundings = self._cluster or Nowhere()
        self._events = Events(api, clock=clock, tally=self.tally) if config.events and api is not None else None
        self.keeper = Keeper(self._source(api), tally=self.tally)
        tell = None if self._events is None else self._events.tell
        webhook = Webhook(config.pod, surroundings=around, clock=clock, tally=self.tally, tell=tell)
        self._webhook = web.AppRunner(webhook.app(), access_log=None, logger=SILENT, shutdown_timeout=CLOSE_S)
        self._admin = web.AppRunner(self._admin_app(), access_log=None, logger=SILENT, shutdown_timeout=CLOSE_S)
        self._is_ending = False
        self.port = 0
        self.admin_port = 0

    async def start(self) -> None:
        """Listen. Raises OSError. Before there is a certificate, handshakes fail and readiness says so."""
        await self.keeper.look()
        self.port = await _listen(self._webhook, self._config.listen, self.keeper)
        self.admin_port = await _listen(self._admin, self._config.admin, None)
        log.info("listening", extra={"listen": str(self._config.listen), "admin": str(self._config.admin)})

    async def run_until(self, ended: Coroutine[Any, Any, object]) -> None:
        """Serve until this ends, then for as long as some API server may not have heard of it, and close."""
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(self.keeper.run())]
            if self._events is not None:
                running.append(group.create_task(self._events.run()))
            try:
                await ended
                self._is_ending = True
                log.info("ending", extra={"drain_s": self._config.drain_timeout})
                await asyncio.sleep(self._config.drain_timeout)
            finally:
                await self.close()
                for task in running:
                    task.cancel()
        log.info("ended")

    async def close(self) -> None:
        await self._webhook.cleanup()
        await self._admin.cleanup()
        if self._cluster is not None:
            self._cluster.close()

    def _source(self, api: HttpApi | None) -> Files | Own:
        config = self._config
        if config.tls_cert is not None and config.tls_key is not None:
            return Files(config.tls_cert, config.tls_key)
        assert api is not None  # `_needs_cluster` has seen to it
        return Own(
            api,
            namespace=config.namespace,
            service=config.service,
            secret=config.tls_secret,
            webhook=config.webhook,
            clock=self._clock,
        )

    def _admin_app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/readyz", self._readiness)
        app.router.add_get("/metrics", self._metrics)
        return app

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readiness(self, _request: web.Request) -> web.Response:
        """Only with a certificate to show; and not once the end has begun, though questions are answered until then."""
        is_ready = self.keeper.is_loaded and not self._is_ending
        return web.Response(status=200 if is_ready else 503, text="ready\n" if is_ready else "not ready\n")

    async def _metrics(self, request: web.Request) -> web.Response:
        text = openmetrics(self.tally.series())
        is_open = wants_openmetrics(",".join(request.headers.getall(hdrs.ACCEPT, ())))
        headers = {hdrs.CONTENT_TYPE: OPENMETRICS_TYPE if is_open else CONTENT_TYPE, hdrs.VARY: hdrs.ACCEPT}
        return web.Response(body=(text if is_open else classic(text)).encode(), headers=headers)


def _needs_cluster(config: Config) -> bool:
    return config.tls_cert is None or config.look == "cluster" or config.events


async def _listen(runner: web.AppRunner, address: Address, keeper: Keeper | None) -> int:
    """Listen there; the port, which the kernel has chosen where it was 0."""
    await runner.setup()
    site = web.TCPSite(runner, address.host, address.port, ssl_context=None if keeper is None else keeper.context)
    await site.start()
    return int(runner.addresses[0][1])


def _told_to_end() -> asyncio.Event:
    """Set once somebody tells us to end."""
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    return told
