"""The sidecar's composition root: build everything from the configuration, run, drain on SIGTERM."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import signal
import sys
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Final

import aiohttp
from aiohttp import web
from opentelemetry.sdk.resources import OTELResourceDetector

from otel.hop import Ending, Place, TapRole
from otel.logs import log_to_stderr
from otel.settings import ConfigError
from otel.settings_file import file_text_of
from sidecar.admin import Admin
from sidecar.clock import Clock, SystemClock
from sidecar.config import FILE_VARIABLE, OPTIONS, Config, config_of, parser
from sidecar.exchanges import Exchanges
from sidecar.exporter import Exporter
from sidecar.lag import Canary
from sidecar.listener import Listener, RefusedHeads
from sidecar.records import Records
from sidecar.relay import Relay
from sidecar.upstream import Upstream, open_session

try:
    import uvloop
except ImportError:  # there is none for this platform
    uvloop = None  # type: ignore[assignment]

log = logging.getLogger("sidecar")

FLUSH_S: Final = 5.0
"""Longest that the end waits for spans to be taken: what Kubernetes grants is 30 s for everything."""
_USAGE: Final = 2
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the sidecar until a signal ends it. 0: drained; 1: ended at once or not started; 2: wrong usage."""
    flags: dict[str, Any] = vars(parser().parse_args(argv))
    try:
        config = _configured(flags, os.environ)
        new_loop = loop_factory(config.loop)
    except ConfigError as error:
        print(*error.errors, sep="\n", file=sys.stderr)  # noqa: T201  # before there is a log
        return _USAGE
    if flags["check_config"]:
        print("the configuration can be used")  # noqa: T201
        return 0
    log_to_stderr(config.log_level)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(serve(config))


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """What makes the event loop of that name. Raises ConfigError when it is asked for by name and is not there."""
    if name == "asyncio" or (name == "auto" and uvloop is None):
        return asyncio.new_event_loop
    if uvloop is None:
        raise ConfigError(["--loop: 'uvloop': is not installed here"])
    return uvloop.new_event_loop


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """The parts of one process, put together."""

    config: Config
    listener: Listener
    admin: web.AppRunner
    exchanges: Exchanges
    records: Records
    canary: Canary
    refused_heads: RefusedHeads
    session: aiohttp.ClientSession

    async def start(self) -> None:
        """Listen. Raises OSError when an address cannot be had."""
        await self.listener.start(self.config.listen)
        if self.config.admin is not None:
            await self.admin.setup()
            await web.TCPSite(self.admin, self.config.admin.host, self.config.admin.port).start()

    async def close(self) -> None:
        """Close every connection, up and down."""
        await self.listener.close()
        await self.admin.cleanup()
        await self.session.close()


def build(config: Config, *, clock: Clock, exporter: Exporter | None) -> Sidecar:
    """Put the parts together; called in the event loop to which they will belong."""
    instance = str(uuid.uuid4())
    canary = Canary(clock)
    records = Records(exporter, is_exact=config.exact)
    exchanges = Exchanges(clock, canary=canary, records=records, stall_after_ns=round(config.stall_after * 1e9))
    refused_heads = RefusedHeads()
    session = open_session(connect_timeout_s=config.connect_timeout)
    relay = Relay(
        Upstream(config.upstream, session),
        exchanges=exchanges,
        clock=clock,
        place=Place(config.hop, TapRole(config.role), _resource(config.hop, instance)),
        instance=instance,
        id_headers=config.request_id_headers,
        event_limit_bytes=config.event_limit,
    )
    admin = Admin(
        clock=clock,
        exchanges=exchanges,
        records=records,
        canary=canary,
        refused_heads=refused_heads,
        exporter=exporter,
        build=_build(),
    )
    return Sidecar(
        config=config,
        listener=Listener(relay, exchanges=exchanges, refused_heads=refused_heads),
        admin=web.AppRunner(admin.app(), access_log=None),
        exchanges=exchanges,
        records=records,
        canary=canary,
        refused_heads=refused_heads,
        session=session,
    )


async def serve(config: Config) -> int:
    """One process from its start to its end."""
    clock = SystemClock(offset_ns=round(config.clock_offset * 1e9))
    exporter = None
    if config.export is not None:
        headers = {"Authorization": f"Bearer {config.export_token}"} if config.export_token is not None else {}
        exporter = Exporter(config.export, clock=clock, headers=headers, queue_bytes=config.export_queue)
    sidecar = build(config, clock=clock, exporter=exporter)
    signals: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_report)
    for number in _SIGNALS:
        loop.add_signal_handler(number, signals.put_nowait, number)
    async with asyncio.TaskGroup() as group:
        running = [sidecar.canary.run(), sidecar.exchanges.run(), sidecar.records.run()]
        if exporter is not None:
            running.append(exporter.run())
        tasks = [group.create_task(each) for each in running]
        try:
            await sidecar.start()
            log.info("listening", extra={"hop": config.hop, "port": sidecar.listener.port, "upstream": config.upstream})
            await signals.get()
            is_clean = await _drained(sidecar, exporter, signals)
        except OSError as error:
            log.error("cannot listen", extra={"error": error.strerror or type(error).__name__})
            is_clean = False
        finally:
            await sidecar.close()
            for task in tasks:
                task.cancel()
    return 0 if is_clean else 1


async def _drained(sidecar: Sidecar, exporter: Exporter | None, signals: asyncio.Queue[int]) -> bool:
    """Finish what runs, and deliver what there is to say; False when another signal ends that at once."""
    log.info("draining", extra={"hop": sidecar.config.hop, "streams": sidecar.exchanges.running_count})
    if not await _unless(signals, sidecar.listener.drain(timeout_s=sidecar.config.drain_timeout)):
        sidecar.exchanges.stop_running(Ending.DRAINED)
        return False
    await sidecar.records.wait_empty()
    return exporter is None or await _unless(signals, exporter.flush(FLUSH_S))


async def _unless(signals: asyncio.Queue[int], work: Coroutine[Any, Any, object]) -> bool:
    """Do the work; False when another signal came before it was done."""
    async with asyncio.TaskGroup() as group:
        working, watching = group.create_task(work), group.create_task(signals.get())
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        is_done = working.done()
        working.cancel()
        watching.cancel()
    return is_done


def _configured(flags: Mapping[str, Any], environ: Mapping[str, str]) -> Config:
    """The configuration, with the file that flags or environment name. Raises ConfigError."""
    file_text = file_text_of(flags["config"] or environ.get(FILE_VARIABLE))
    return config_of({option.name: flags[option.name] for option in OPTIONS}, environ, file_text=file_text)


def _resource(hop: str, instance: str) -> tuple[tuple[str, str], ...]:
    """The OTel resource: what the OTEL_* variables say, and the name of the hop where they name no service."""
    detected = {name: str(value) for name, value in OTELResourceDetector().detect().attributes.items()}
    return tuple(sorted(({"service.name": hop} | detected | {"service.instance.id": instance}).items()))


def _build() -> dict[str, str]:
    try:
        version = metadata.version("gapline")
    except metadata.PackageNotFoundError:  # run from a source tree
        version = "unknown"
    loop = type(asyncio.get_running_loop()).__module__.partition(".")[0]
    return {"version": version, "python": platform.python_version(), "aiohttp": aiohttp.__version__, "loop": loop}


def _report(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What nobody caught. Its text may quote what passed through, so only its kind is said."""
    error = context.get("exception")
    log.error("unhandled", extra={"error": type(error).__name__, "what": str(context.get("message", ""))[:100]})


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
