"""Every option of the collector: one table, read into one frozen `Config`.

Flags, `GAPLINE_COLLECTOR_*` variables and keys of a TOML file follow from the table, as in `otel.settings`.
"""

from __future__ import annotations

import argparse
import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final, cast

from otel import settings
from otel.findings import IDLE_TIMERS_NS
from otel.logs import AUTO, FORMATS
from otel.settings import REQUIRED, Address, ConfigError, Option
from otel.store.base import SECOND_NS, RetentionPolicy

PREFIX: Final = "GAPLINE_COLLECTOR_"
FILE_VARIABLE: Final = PREFIX + "CONFIG"
"""Names the TOML file where no --config does."""
URL_VARIABLE: Final = PREFIX + "URL"
"""Tells the commands that ask a collector where it is; may be set where a collector starts."""

_LOCAL_GRPC: Final = Address("127.0.0.1", 4317)
_LOCAL_HTTP: Final = Address("127.0.0.1", 4318)
_LOCAL_QUERY: Final = Address("127.0.0.1", 24070)
_LEVELS: Final = settings.choice("debug", "info", "warning", "error")
_TIMERS_S: Final = tuple(ns / SECOND_NS for ns in IDLE_TIMERS_NS)
LEAST_IDLE_TIMER_S: Final = 1.0
"""Streams pause for less all the time, and end after any of these pauses."""
_DAY_S: Final = 86_400.0
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,1000}")
_EXAMPLES: Final = """\
examples:
  On this machine, with sidecars that export to http://127.0.0.1:4318:
    gapline collector --data /var/lib/gapline
  For other machines, with a token that every caller has to show:
    GAPLINE_COLLECTOR_TOKEN=... gapline collector --data DIR --grpc :4317 --http :4318 --query :24070
  See whether a configuration is right, every error at once:
    gapline collector --config collector.toml --check-config

Then ask: gapline why REQUEST_ID, gapline stalls, or GET /v1/openapi.json at the --query address.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What the collector was told, checked. Times are seconds, sizes bytes."""

    data: PurePath
    grpc: Address | None
    http: Address | None
    query: Address
    ports_file: PurePath | None
    token: str | None
    insecure: bool
    path: tuple[str, ...]
    settle: float
    final_after: float
    stall_after: float
    first_event_after: float
    idle_timers: tuple[float, ...]
    keep_healthy: float
    keep_abnormal: float
    keep_verdicts: float
    max_size: int
    log_level: str
    log_format: str

    @property
    def retention(self) -> RetentionPolicy:
        return RetentionPolicy(
            healthy_s=self.keep_healthy,
            abnormal_s=self.keep_abnormal,
            verdicts_s=self.keep_verdicts,
            max_bytes=self.max_size,
        )


def _optional(parse: Callable[[str], object]) -> Callable[[str], object]:
    """The same parser, with `off` and `none` for nothing."""

    def parse_or_none(value: str) -> object:
        return None if value.lower() in {"off", "none", ""} else parse(value)

    return parse_or_none


def _idle_timer(value: str) -> float:
    if (timer_s := settings.seconds(value)) < LEAST_IDLE_TIMER_S:
        raise ValueError(f"must be at least {LEAST_IDLE_TIMER_S:g} s")
    return timer_s


OPTIONS: Final = (
    Option("data", settings.path, REQUIRED, "directory of the store; made when it is not there", "DIR"),
    Option("grpc", _optional(settings.address), _LOCAL_GRPC, "take OTLP over gRPC here; or off", "HOST:PORT"),
    Option("http", _optional(settings.address), _LOCAL_HTTP, "take OTLP over HTTP here; or off", "HOST:PORT"),
    Option("query", settings.address, _LOCAL_QUERY, "answer questions here", "HOST:PORT"),
    Option("ports_file", _optional(settings.path), None, "write the addresses listened on here, as JSON", "FILE"),
    Option("token", str.strip, None, "bearer token that every caller has to show; better set by its variable", "TOKEN"),
    Option("insecure", settings.switch, False, "listen beyond this machine without a token all the same"),
    Option("path", settings.items(settings.name), (), "hops on every path, from the model to the reader", "NAMES"),
    Option("settle", settings.seconds, 2.0, "judge a request when no hop of it has come in for this long", "TIME"),
    Option("final_after", settings.seconds, 10.0, "call a verdict final when no hop has come in for this long", "TIME"),
    Option("stall_after", settings.seconds, 2.0, "list a request as stalled when its reader waited this long", "TIME"),
    Option("first_event_after", settings.seconds, 5.0, "time that a model may take to its first output", "TIME"),
    Option("idle_timers", settings.items(_idle_timer), _TIMERS_S, "silences after which hops cut streams", "TIMES"),
    Option("keep_healthy", settings.seconds, 7 * _DAY_S, "keep the hops of healthy requests this long", "TIME"),
    Option("keep_abnormal", settings.seconds, 30 * _DAY_S, "keep the hops of all other requests this long", "TIME"),
    Option("keep_verdicts", settings.seconds, 90 * _DAY_S, "keep verdicts this long", "TIME"),
    Option("max_size", settings.size_bytes, 10 << 30, "size of the store past which all three times shrink", "SIZE"),
    Option("log_level", _LEVELS, "info", "least level that is logged", "LEVEL"),
    Option("log_format", settings.choice(*FORMATS), AUTO, "auto: text on a terminal, else json", "FORM"),
)  # fmt: skip
LISTENERS: Final = ("grpc", "http", "query")


def parser() -> argparse.ArgumentParser:
    """The command line: a flag for each option, and the two that are no settings."""
    flags = argparse.ArgumentParser(
        prog="gapline collector",
        description="Takes the spans of all sidecars, joins the hops of a request and says who made its reader wait.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    flags.add_argument("--config", metavar="FILE.toml", help=f"read options from this file [{FILE_VARIABLE}]")
    flags.add_argument("--check-config", action="store_true", help="say whether the configuration can be used, and end")
    settings.add_flags(flags, OPTIONS, prefix=PREFIX)
    return flags


def config_of(flags: Mapping[str, str | None], environ: Mapping[str, str], *, file_text: str | None = None) -> Config:
    """The configuration from the three sources. Raises ConfigError with every error at once."""
    values = settings.load(
        OPTIONS,
        prefix=PREFIX,
        flags=flags,
        environ=environ,
        file_text=file_text,
        known_variables=(FILE_VARIABLE, URL_VARIABLE),
    )
    config = Config(**cast("dict[str, Any]", values))
    errors = [*_token_errors(config), *_shared_addresses(config), *_time_errors(config)]
    if errors:
        raise ConfigError(errors)
    return config


def is_loopback(host: str) -> bool:
    """Only this machine can connect to it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listeners(config: Config) -> dict[str, Address]:
    addresses: dict[str, Address | None] = {name: getattr(config, name) for name in LISTENERS}
    return {name: address for name, address in addresses.items() if address is not None}


def _token_errors(config: Config) -> list[str]:
    if config.token is not None and not _TOKEN.fullmatch(config.token):
        return ["--token: must be 1 to 1000 printable ASCII characters without spaces"]  # and is not shown
    if config.token is not None or config.insecure:
        return []
    return [
        f"--{name}: {str(address)!r}: listens beyond this machine, where everyone could read and write; "
        f"set a --token, or say --insecure"
        for name, address in _listeners(config).items()
        if not is_loopback(address.host)
    ]


def _time_errors(config: Config) -> list[str]:
    """A verdict that is final before it is judged would be listed as if it could not change, and then change."""
    if config.final_after >= config.settle:
        return []
    return [f"--final-after: {config.final_after:g}s: must be at least --settle, which is {config.settle:g}s"]


def _shared_addresses(config: Config) -> list[str]:
    taken: dict[Address, str] = {}
    errors = []
    for name, address in _listeners(config).items():
        if address.port and address in taken:
            errors.append(f"--{name}: {str(address)!r}: is the address of --{taken[address]} already")
        taken.setdefault(address, name)
    return errors
