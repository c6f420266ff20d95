"""The collector's composition root: build everything from the configuration, run, stop cleanly on SIGTERM."""

from __future__ import annotations

import asyncio
import fcntl
import importlib
import json
import logging
import os
import platform
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import uvloop
from aiohttp import web

from otel.config import FILE_VARIABLE, LISTENERS, OPTIONS, Config, config_of, is_loopback, parser
from otel.exposition import Series, exposition, single
from otel.findings import Policy
from otel.glance import Glance
from otel.hop import Hop, State
from otel.judging import Clock, Judge, Rules
from otel.live import LiveStreams
from otel.logs import log_to_stderr, where
from otel.receiver import Receiver, http_runner
from otel.settings import Address, ConfigError
from otel.settings_file import configured
from otel.settling import PATIENCE, Settling
from otel.store.base import SECOND_NS, Stats, StoreError
from otel.store.sqlite import SqliteStore
from otel.store.threads import AsyncStore
from otel.view.app import QueryApi
from otel.view.meters import meters

HOUSEKEEPING_S: Final = 60.0
"""Between two looks at what may be dropped. A collector that takes 1,000 hops a second grows by some 200 MB in it."""
LAST_JUDGEMENTS_S: Final = 5.0
"""Longest that the end waits for what is not judged yet; it is judged after the next start otherwise."""
GRACE_S: Final = 5.0
"""Longest that a request being taken or answered keeps the process."""
SWITCH_S: Final = 0.001
"""Between decoding, judging and answering, which share one interpreter. At CPython's own 5 ms a health check under
full load took 130 to 370 ms (99th percentile), at this 55 ms, and nothing took longer for it."""
LOCK_NAME: Final = "lock"
"""A file beside the store, locked for as long as a collector uses it; the kernel lets go of it with the process."""
_CLEAN, _FAILED, _USAGE = 0, 1, 2
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

log = logging.getLogger("otel")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the collector until a signal ends it. 0: ended cleanly; 1: failed or not started; 2: wrong usage."""
    flags: dict[str, Any] = vars(parser().parse_args(argv))
    try:
        config = configured(config_of, OPTIONS, flags, os.environ, file_variable=FILE_VARIABLE)
    except ConfigError as error:
        print(*error.errors, sep="\n", file=sys.stderr)  # noqa: T201  # before there is a log
        return _USAGE
    if flags["check_config"]:
        print("the configuration can be used")  # noqa: T201
        return _CLEAN
    log_to_stderr(config.log_level, log_format=config.log_format)
    sys.setswitchinterval(SWITCH_S)
    try:
        with _locked(Path(config.data)), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(serve(config))
    except (StoreError, OSError) as error:
        log.error("not started", extra={"error": str(error)})
    except ExceptionGroup as group:
        log.error("failed", extra={"error": ", ".join(map(where, group.exceptions))})
    return _FAILED


class Collector:
    """The parts of one process. `start` listens, `stop` ends everything in the order in which data flows."""

    def __init__(self, config: Config, store: AsyncStore, *, clock: Clock) -> None:
        self.config = config
        self.store = store
        self.clock = clock
        self.addresses: dict[str, str | None] = dict.fromkeys(LISTENERS)
        rules = Rules(
            policy=Policy(
                first_event_ns=round(config.first_event_after * SECOND_NS),
                idle_timers_ns=tuple(round(timer_s * SECOND_NS) for timer_s in config.idle_timers),
            ),
            stall_after_s=config.stall_after,
            expected_path=config.path,
        )
        self._settle_ns = round(config.settle * SECOND_NS)
        settling = Settling(
            settle_ns=self._settle_ns,
            final_ns=round(config.final_after * SECOND_NS),
            start_ns=clock.monotonic_ns(),
        )
        self.judge = Judge(store, rules=rules, settling=settling, clock=clock)
        self.live = LiveStreams()
        self.receiver = Receiver(self._take, notice=self._notice, token=config.token)
        self._build = build_info()
        api = QueryApi(
            store,
            self.judge,
            self.live,
            clock=clock,
            metrics=self._metrics,
            version=self._build["version"],
            token=config.token,
            is_host_allowed=None if config.token or config.insecure else is_loopback,
        )
        self._http = http_runner(self.receiver)
        self._query = web.AppRunner(api.application(), access_log=None, shutdown_timeout=GRACE_S)
        self._grpc: Any = None

    async def start(self) -> None:
        """Listen on every address. Raises OSError that names the one that cannot be had."""
        await self.judge.recover()
        config = self.config
        if config.grpc is not None:
            # loaded here, because grpcio comes with an extra and is not needed without this listener
            self._grpc = importlib.import_module("otel.receiver_grpc").grpc_server(self.receiver)
            self.addresses["grpc"] = str(_grpc_port(self._grpc, config.grpc))
            await self._grpc.start()
        if config.http is not None:
            self.addresses["http"] = str(await _listen("http", self._http, config.http))
        self.addresses["query"] = str(await _listen("query", self._query, config.query))
        if config.ports_file is not None:
            await asyncio.to_thread(_write_whole, Path(config.ports_file), json.dumps(self.addresses) + "\n")

    async def keep_house(self) -> None:
        """Drop what need not be kept any more, until cancelled."""
        while True:
            try:
                pruned = await self.store.prune(self.clock.wall_ns(), self.config.retention)
                await self.store.tidy()
                if pruned.hops or pruned.verdicts:
                    log.info("pruned", extra={"hops": pruned.hops, "verdicts": pruned.verdicts})
                stats = await self.store.read(self.store.store.stats)
                if stats.is_refusing:
                    about = {"free_bytes": stats.disk_free_bytes, "reserve_bytes": stats.disk_reserve_bytes}
                    log.warning("the disk is nearly full, no hops are taken", extra=about)
            except StoreError as error:
                log.warning("not pruned", extra={"error": str(error)})
            await asyncio.sleep(HOUSEKEEPING_S)

    async def stop(self) -> None:
        """Take nothing more, judge what has come in, answer what is being asked, close the store."""
        if self._grpc is not None:
            await self._grpc.stop(GRACE_S)
        await self._http.cleanup()
        try:
            async with asyncio.timeout(LAST_JUDGEMENTS_S):
                while await self.judge.judge_due(ahead_ns=PATIENCE * self._settle_ns):
                    pass
        except TimeoutError:
            log.info("left to judge", extra={"requests": len(self.judge.settling)})
        await self._query.cleanup()
        await self.store.close()
        if self.config.ports_file is not None:
            await asyncio.to_thread(Path(self.config.ports_file).unlink, missing_ok=True)

    async def _take(self, hops: Sequence[Hop]) -> int:
        self.judge.arrived(hops)  # before they can be read, or an answer in between would take itself for final
        new_count = await self.store.write(hops, received_ns=self.clock.wall_ns())
        self.judge.arrived(hops)
        for hop in hops:
            if hop.state is State.FINAL:
                self.live.ended(hop.trace_id, hop.span_id)
        return new_count

    def _notice(self, glance: Glance) -> None:
        self.live.seen(glance, at_ns=self.clock.monotonic_ns())

    async def _metrics(self) -> str:
        stats = await self.store.read(self.store.store.stats)
        now_ns = self.clock.monotonic_ns()
        self.live.expire(now_ns)
        series = meters(self._build, self.receiver.counters, self.judge, self.live, stats, now_ns=now_ns)
        return exposition([*series, *_store_meters(stats)])


async def serve(config: Config) -> int:
    """One process from its start to its end. Raises StoreError or OSError when it cannot start."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_report)
    store = AsyncStore(await asyncio.to_thread(SqliteStore, Path(config.data)))
    collector = Collector(config, store, clock=Clock(time.time_ns, time.monotonic_ns))
    stopped = asyncio.Event()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stopped.set)
    try:
        await collector.start()
        log.info("listening", extra={name: address or "off" for name, address in collector.addresses.items()})
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in (collector.judge.run(), collector.keep_house())]
            await stopped.wait()
            for task in tasks:
                task.cancel()
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)  # a second one ends the process at once; the store can stand it
        log.info("stopping")
        await collector.stop()
    log.info("stopped")
    return _CLEAN


def build_info() -> dict[str, str]:
    """Labels of the build-info series."""
    try:
        version = metadata.version("gapline")
    except metadata.PackageNotFoundError:  # run from a source tree
        version = "unknown"
    return {"version": version, "python": platform.python_version(), "sqlite": sqlite3.sqlite_version}


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Keep other collectors away from the directory: two of them would judge, drop and tell everything twice.

    Raises OSError that says whose it is, or why it cannot be had.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (directory / LOCK_NAME).open("w")
    except OSError as error:
        raise OSError(f"--data: {directory} cannot be used: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(f"--data: {directory} is in use by another collector") from None
        yield


def _store_meters(stats: Stats) -> list[Series]:
    """The condition of the store, as far as it may call for somebody to act."""
    prefix = "gapline_collector_store_"
    found = [
        single(prefix + "refusing", "gauge", "1 while no hops are taken: the disk is nearly full.", +stats.is_refusing),
        single(prefix + "unreadable_total", "counter", "Damaged records left out of answers.", stats.unreadable),
    ]
    if stats.disk_free_bytes is not None:
        free = single(prefix + "disk_free_bytes", "gauge", "Free on the disk of the store.", stats.disk_free_bytes)
        found.append(free)
    return found


async def _listen(name: str, runner: web.AppRunner, address: Address) -> Address:
    await runner.setup()
    try:
        await web.TCPSite(runner, address.host, address.port).start()
    except OSError as error:
        raise _refused(name, address, error.strerror or str(error)) from error
    return Address(address.host, runner.addresses[0][1])


def _grpc_port(server: Any, address: Address) -> Address:  # noqa: ANN401  # grpcio may not be installed
    try:
        port = server.add_insecure_port(str(address))
    except RuntimeError:
        port = 0
    if not port:
        raise _refused("grpc", address, "cannot be listened on; is it in use?")
    return Address(address.host, port)


def _refused(name: str, address: Address, why: str) -> OSError:
    return OSError(f"--{name}: {str(address)!r}: {why}")


def _write_whole(path: Path, text: str) -> None:
    """Whoever reads the file sees all of it or nothing."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def _report(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What nobody caught. Its text may quote what passed through, so only its kind is said."""
    error = context.get("exception")
    what = str(context.get("message", ""))[:100]
    log.error("unhandled", extra={"error": where(error) if error else "none", "what": what})


def _run(entry: Callable[[], int]) -> None:
    try:
        code = entry()
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    _run(main)
