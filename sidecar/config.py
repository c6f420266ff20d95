"""The sidecar's settings: flags, variables and file, read by the table of options into one frozen `Config`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final, cast

from otel import settings
from otel.settings import Address, ConfigError, Endpoint, UnixPath
from sidecar.guard.limits import Rule, limit_ns_of
from sidecar.option_values import Egress
from sidecar.options import HEADINGS, OPTIONS
from sidecar.telling.dimensions import Dimension, client_key
from sidecar.telling.probe import HeaderRule

PREFIX: Final = "GAPLINE_SIDECAR_"
FILE_VARIABLE: Final = PREFIX + "CONFIG"
"""Names the TOML file where no --config does."""
WORKER_VARIABLE: Final = PREFIX + "WORKER"
"""Set by the parent of several workers, for each of them; people set --workers."""

_UNREAD: Final = object()
_BEARER: Final = re.compile(r"[\x21-\x7e]{1,1000}")
_EXAMPLES: Final = """\
examples:
  In front of a model server, spans to a collector on this machine:
    gapline sidecar --listen 0.0.0.0:24080 --upstream http://127.0.0.1:8000 \\
        --hop model-worker --export http://127.0.0.1:4318
  The same from the environment, as in a pod:
    GAPLINE_SIDECAR_UPSTREAM=http://127.0.0.1:8000 GAPLINE_SIDECAR_HOP=gateway gapline sidecar
  See whether a configuration is right, every error at once:
    gapline sidecar --config sidecar.toml --check-config

Then point clients at the --listen address. http://127.0.0.1:24090/streams shows what runs right now.
SIGTERM drains: streams that run may finish, new requests are refused.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What the sidecar was told, checked. Fields ending in neither _bytes nor a name of their own unit are seconds."""

    listen: tuple[Endpoint, ...]
    upstream: str
    hop: str
    role: str
    egress: tuple[Egress, ...]
    tls_cert: PurePath | None
    tls_key: PurePath | None
    upstream_ca: PurePath | None
    upstream_cert: PurePath | None
    upstream_key: PurePath | None
    admin: Address | None
    export: str | None
    export_token: str | None
    export_queue: int
    spool: PurePath | None
    spool_bytes: int
    exact: bool
    request_id_headers: tuple[str, ...]
    connect_timeout: float
    answer_timeout: float
    request_head_timeout: float
    request_body_timeout: float
    slow_reader: str
    write_deadline: float
    guard: str
    first_event_timeout: float
    next_event_timeout: float
    content_timeout: float
    guard_rule: tuple[Rule, ...]
    missing_terminal: str
    keepalive: float
    keepalive_text: str
    keepalive_form: str
    keepalive_early: bool
    keepalive_signed: bool
    signed_headers: tuple[str, ...]
    hold_head: float
    digests: bool
    max_streams: int
    max_queue: int
    queue_timeout: float
    max_connections: int
    memory_limit: int | str | None
    workers: int
    passthrough: bool
    drain_timeout: float
    stall_after: float
    log_format: str
    log_start: bool
    error_text: str
    probe_agents: tuple[str, ...]
    probe_paths: tuple[str, ...]
    probe_headers: tuple[HeaderRule, ...]
    probe_prompt: int
    dimensions: tuple[Dimension, ...]
    client_key: str | None
    semconv: str
    export_logs: str
    heartbeat: float
    engine_metrics: str | None
    event_limit: int
    clock_offset: float
    clock_drift: float
    loop: str
    tier: str
    compiled: str
    log_level: str


def parser() -> argparse.ArgumentParser:
    """The command line: a flag for each option, and the two that are no settings."""
    flags = argparse.ArgumentParser(
        prog="gapline sidecar",
        usage="gapline sidecar --upstream URL --hop NAME [OPTIONS]",
        description="A reverse proxy that passes streams on byte for byte and stamps every event that flows through.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    flags.add_argument("--config", metavar="FILE.toml", help=f"read options from this file [{FILE_VARIABLE}]")
    flags.add_argument("--check-config", action="store_true", help="say whether the configuration can be used, and end")
    settings.add_flags(flags, OPTIONS, prefix=PREFIX, headings=HEADINGS)
    return flags


def config_of(
    flags: Mapping[str, str | None],
    environ: Mapping[str, str],
    *,
    file_text: str | None = None,
    further: Callable[[Mapping[str, object]], Sequence[str]] | None = None,
) -> Config:
    """The configuration from the three sources. Raises ConfigError with every error at once.

    further: what else is wrong with the values by name, as many as could be read: with the files that they name.
    """
    values, errors = settings.read(
        OPTIONS,
        prefix=PREFIX,
        flags=flags,
        environ=environ,
        file_text=file_text,
        known_variables=(FILE_VARIABLE, WORKER_VARIABLE),
    )
    errors += _clashes(values) + _half_pairs(values) + _unlike_limits(values) + _idle(values) + _named_twice(values)
    token = values.get("export_token")
    if token is not None and not _BEARER.fullmatch(str(token)):
        errors.append("--export-token: must be 1 to 1000 printable ASCII characters without spaces")  # and is not shown
    if (key := values.get("client_key")) is not None:
        try:
            client_key(str(key))
        except ValueError as error:
            errors.append(f"--client-key: {error}")  # neither is this one
    if further is not None:
        errors += further(values)
    if errors:
        raise ConfigError(errors)
    return Config(**cast("dict[str, Any]", values))


def endpoints_of(values: Mapping[str, object]) -> list[tuple[str, Endpoint]]:
    """Where connections are accepted, and by which flag, as far as it could be read."""
    listen = cast("tuple[Endpoint, ...]", values.get("listen", ()))
    egress = cast("tuple[Egress, ...]", values.get("egress", ()))
    return [("--listen", endpoint) for endpoint in listen] + [("--egress", each.endpoint) for each in egress]


def _clashes(values: Mapping[str, object]) -> list[str]:
    """An error for each address that two listeners would need, and for each name of two."""
    wanted = endpoints_of(values)
    if (admin := cast("Address | None", values.get("admin"))) is not None:
        wanted.append(("--admin", admin))
    errors, taken = [], dict[Endpoint, str]()
    for flag, endpoint in wanted:
        if endpoint in taken and (isinstance(endpoint, UnixPath) or endpoint.port):
            errors.append(f"{flag}: {str(endpoint)!r}: must not be an address of {taken[endpoint]}")
        taken.setdefault(endpoint, flag)
    names = [each.name for each in cast("tuple[Egress, ...]", values.get("egress", ()))]
    return errors + [f"--egress: {name!r}: must be named once" for name in sorted({*names}) if names.count(name) > 1]


_PAIRS: Final = (("tls_cert", "tls_key"), ("upstream_cert", "upstream_key"))


def _half_pairs(values: Mapping[str, object]) -> list[str]:
    return [
        f"{_flag(one)}: {str(values[one])!r}: needs {_flag(other)} too"
        for first, second in _PAIRS
        for one, other in ((first, second), (second, first))
        if values.get(one) is not None and values.get(other, _UNREAD) is None
    ]


def _idle(values: Mapping[str, object]) -> list[str]:
    """Switches that would do nothing, since what they change is off."""
    idle = [
        name for name in ("keepalive_early", "keepalive_signed") if values.get(name) and values.get("keepalive") == 0
    ]
    errors = [f"{_flag(name)}: needs --keepalive too" for name in idle]
    if values.get("engine_metrics") is not None and values.get("role") == "egress":
        errors.append("--engine-metrics: needs --role ingress: behind its service no engine stands beside it")
    return errors


def _named_twice(values: Mapping[str, object]) -> list[str]:
    names = [each.name for each in cast("tuple[Dimension, ...]", values.get("dimensions", ()))]
    return [f"--dimensions: {name!r}: must be named once" for name in sorted({*names}) if names.count(name) > 1]


_GUARD_LIMITS: Final = ("first_event_timeout", "next_event_timeout", "content_timeout")


def _unlike_limits(values: Mapping[str, object]) -> list[str]:
    """An error for each limit of the guard that is too short to be one."""
    errors = []
    for name in _GUARD_LIMITS:
        try:
            limit_ns_of(cast("float", values.get(name, 0.0)))
        except ValueError as error:
            errors.append(f"{_flag(name)}: {values[name]!r}: {error}")
    return errors


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
