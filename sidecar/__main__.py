"""The sidecar's composition root: settings, one process or a parent of several, signals, drain on SIGTERM."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from otel.logs import log_to_stderr
from otel.settings import ConfigError
from otel.settings_file import file_text_of
from sidecar.assembly import Sidecar, build, exporter_of, most_workers, share
from sidecar.bounds import memory
from sidecar.bounds.deadlines import DRAINED
from sidecar.bounds.descriptors import connection_limit, raise_limit
from sidecar.clock import DriftingClock, SystemClock
from sidecar.config import FILE_VARIABLE, WORKER_VARIABLE, Config, config_of, parser
from sidecar.downstream.bind import Sockets, listeners_of, open_for, tell_listening
from sidecar.downstream.sockets import inherited
from sidecar.export.exporter import Exporter
from sidecar.native import parts_for
from sidecar.operation.channel import Birth, ChannelError, answer, birth_from
from sidecar.operation.cpus import usable_cpus
from sidecar.operation.milestones import Drain, tell_ending_at_once, tell_ready
from sidecar.operation.preflight import file_errors, place_errors
from sidecar.operation.signals import Signals
from sidecar.operation.supervisor import supervise
from sidecar.option_values import MAX_WORKERS
from sidecar.options import OPTIONS

try:
    import uvloop
except ImportError:  # there is none for this platform
    uvloop = None  # type: ignore[assignment]

__all__ = ["Sidecar", "build", "loop_factory", "main"]

log = logging.getLogger("sidecar")

FLUSH_S: Final = 5.0
"""Longest that the end waits for spans to be taken: what Kubernetes grants is 30 s for everything."""
NEWS_FLUSH_S: Final = 1.0
"""Of that, for news of streams that run: it is old when they have ended."""
SWITCH_S: Final = 0.001
"""Between the streams and the threads that build long records and write the spool: at CPython's own 5 ms each turn of
the event loop may wait so long for them."""
_USAGE: Final = 2


@dataclass(frozen=True, slots=True)
class Post:
    """That we are a worker: which one, and our end of the channel to the parent."""

    birth: Birth
    end: socket.socket


def main(argv: Sequence[str] | None = None) -> int:
    """Run the sidecar until a signal ends it. 0: drained; 1: ended at once or not started; 2: wrong usage."""
    flags: dict[str, Any] = vars(parser().parse_args(argv))
    try:
        post = _post(os.environ.get(WORKER_VARIABLE))
        file_text = file_text_of(flags["config"] or os.environ.get(FILE_VARIABLE)) if post is None else None
        config = config_of(
            {option.name: flags[option.name] for option in OPTIONS},
            os.environ,
            file_text=file_text if post is None else post.birth.file_text,
            further=partial(_errors_outside, is_check=flags["check_config"]),
        )
        new_loop = loop_factory(config.loop)
    except ConfigError as error:
        print(*error.errors, sep="\n", file=sys.stderr)  # noqa: T201  # before there is a log
        return _USAGE
    if flags["check_config"]:
        print("the configuration can be used")  # noqa: T201
        return 0
    log_to_stderr(config.log_level, log_format=config.log_format)
    sys.setswitchinterval(SWITCH_S)
    if post is not None:
        _name_lines(post.birth.number)
        return _run(serve(share(config, post.birth.worker_count, post.birth.number), post=post), new_loop)
    if (count := most_workers(config, config.workers or min(usable_cpus(), MAX_WORKERS))) == 1:
        return _run(serve(config), new_loop)
    again = (sys.executable, *sys.orig_argv[1:])  # a worker is started just as we were
    parent = supervise(config, count, command=again, clock=SystemClock(), file_text=file_text)
    return _run(parent, asyncio.new_event_loop)


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """What makes the event loop of that name. Raises ConfigError when it is asked for by name and is not there."""
    if name == "asyncio" or (name == "auto" and uvloop is None):
        return asyncio.new_event_loop
    if uvloop is None:
        raise ConfigError(["--loop: 'uvloop': is not installed here"])
    return uvloop.new_event_loop


def clock_of(config: Config) -> SystemClock:
    offset_ns = round(config.clock_offset * 1e9)
    if config.clock_drift:
        return DriftingClock(offset_ns=offset_ns, ppm=config.clock_drift)
    return SystemClock(offset_ns=offset_ns)


async def serve(config: Config, *, post: Post | None = None) -> int:
    """One process from its start to its end."""
    clock = clock_of(config)
    exporter = exporter_of(config, clock)
    drain, is_clean = None, False
    signals = Signals(is_worker=post is not None)
    try:
        sockets = _sockets(config, post)
        most_connections = connection_limit(raise_limit())
        sidecar = build(config, clock=clock, exporter=exporter, sockets=sockets, most_connections=most_connections)
    except OSError as error:
        return _cannot_listen(error)
    async with asyncio.TaskGroup() as group:
        running = [sidecar.canary.run(), sidecar.exchanges.run(), sidecar.records.run(), signals.obey(sidecar.account)]
        if exporter is not None:
            running.append(exporter.run())
        if sidecar.logs is not None:
            running.append(sidecar.logs.run())
        if sidecar.engine is not None:
            running.append(sidecar.engine.run())
        tasks = [group.create_task(each) for each in running]
        try:
            if post is not None:
                sidecar.exchanges.switch_passthrough(is_on=post.birth.is_passthrough)
            await sidecar.start()
            memory.settle()
            if post is None:
                tell_listening(config, sockets)
                tell_ready(config, admin_port=sidecar.admin.port)
            else:
                tasks.append(group.create_task(_answer_parent(post.end, sidecar, signals)))
            await signals.stopped()
            drain = Drain.begun(sidecar.exchanges, hop=config.hop)
            is_clean = await _drained(sidecar, exporter, signals)
        except OSError as error:
            return _cannot_listen(error)
        finally:
            await sidecar.close()
            if sidecar.logs is not None:
                sidecar.logs.close()
            for task in tasks:
                task.cancel()
    exit_code = 0 if is_clean else 1
    if drain is not None:
        counters = None if exporter is None else exporter.counters
        drain.tell_ended(sidecar.exchanges, counters, hop=config.hop, exit_code=exit_code)
    return exit_code


def _sockets(config: Config, post: Post | None) -> Sockets:
    """What we listen on, by listener: our own, or what the parent has opened. Raises OSError."""
    if post is None:
        return open_for(1, listeners_of(config))[0]
    return [inherited(each) for each in post.birth.sockets]


async def _answer_parent(end: socket.socket, sidecar: Sidecar, signals: Signals) -> None:
    """Answer what the parent asks; without a parent there is nobody to run for."""
    await answer(end, sidecar.account)
    log.warning("the parent is gone")
    signals.stop()


async def _drained(sidecar: Sidecar, exporter: Exporter | None, signals: Signals) -> bool:
    """Finish what runs, and deliver what there is to say; False when another signal ends that at once."""
    if not await signals.unless_stopped(sidecar.drain(timeout_s=sidecar.config.drain_timeout)):
        tell_ending_at_once()
        sidecar.exchanges.stop_running(DRAINED)
        return False
    await sidecar.records.wait_empty()
    if sidecar.logs is not None:
        await signals.unless_stopped(sidecar.logs.flush(NEWS_FLUSH_S))
    if exporter is None or await signals.unless_stopped(exporter.flush(FLUSH_S)):
        return True
    tell_ending_at_once()
    return False


def _run(program: Coroutine[Any, Any, int], new_loop: Callable[[], asyncio.AbstractEventLoop]) -> int:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.get_loop().set_exception_handler(_report)
        return runner.run(program)


def _post(descriptor: str | None) -> Post | None:
    """Who we are, where a parent has started us. Raises ConfigError where it was not a parent who said so."""
    if descriptor is None:
        return None
    try:
        end = socket.socket(fileno=int(descriptor))
        end.set_inheritable(False)
        return Post(birth_from(end), end)
    except (OSError, ValueError, ChannelError) as error:
        raise ConfigError([f"{WORKER_VARIABLE}: {descriptor!r}: is for workers, not to be set: {error}"]) from None


def _errors_outside(values: Mapping[str, object], *, is_check: bool) -> list[str]:
    """What of the settings cannot be used on this machine. is_check: also that without which it would run, or which
    would be told when it begins."""
    errors = file_errors(values)
    try:
        loop_factory(str(values.get("loop", "auto")))
    except ConfigError as error:
        errors += error.errors
    try:
        parts_for(str(values.get("compiled", "auto")))
    except ValueError as error:
        errors.append(f"--compiled: 'on': {error}")
    return errors + (place_errors(values) if is_check else [])


def _name_lines(number: int) -> None:
    """Every line of the log says which worker it is from."""

    def name(record: logging.LogRecord) -> bool:
        record.worker = number
        return True

    for handler in logging.getLogger().handlers:
        handler.addFilter(name)


def _cannot_listen(error: OSError) -> int:
    log.error("cannot listen", extra={"error": error.strerror or type(error).__name__})
    return 1


def _report(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What nobody caught. Its text may quote what passed through, so only its kind is said."""
    error = context.get("exception")
    log.error("unhandled", extra={"error": type(error).__name__, "what": str(context.get("message", ""))[:100]})


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
