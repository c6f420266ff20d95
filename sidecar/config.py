"""Every option of the sidecar: one table, read into one frozen `Config`.

The table is the only place where an option has its name, its rule, its default and its sentence of help; flags,
`GAPLINE_SIDECAR_*` variables and keys of a TOML file follow from it.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from otel import settings
from otel.settings import REQUIRED, Address, ConfigError, Option
from sidecar.splitter import LIMIT_BYTES

PREFIX: Final = "GAPLINE_SIDECAR_"
FILE_VARIABLE: Final = PREFIX + "CONFIG"
"""Names the TOML file where no --config does."""

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_BEARER: Final = re.compile(r"[\x21-\x7e]{1,1000}")
_HOP_BY_HOP: Final = frozenset(
    {"connection", "content-length", "host", "te", "trailer", "transfer-encoding", "upgrade"}
)
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

    listen: Address
    upstream: str
    hop: str
    role: str
    admin: Address | None
    export: str | None
    export_token: str | None
    export_queue: int
    exact: bool
    request_id_headers: tuple[str, ...]
    connect_timeout: float
    drain_timeout: float
    stall_after: float
    event_limit: int
    clock_offset: float
    loop: str
    log_level: str


def optional(parse: Callable[[str], object]) -> Callable[[str], object]:
    """The same parser, with `off` and `none` for nothing."""

    def parse_or_none(value: str) -> object:
        return None if value.lower() in {"off", "none", ""} else parse(value)

    return parse_or_none


def positive_seconds(value: str) -> float:
    if (seconds := settings.seconds(value)) <= 0:
        raise ValueError("must be more than 0 seconds")
    return seconds


def signed_seconds(value: str) -> float:
    return -settings.seconds(value[1:]) if value.startswith("-") else settings.seconds(value.removeprefix("+"))


def id_header(value: str) -> str:
    if not _TOKEN.fullmatch(value) or value.lower() in _HOP_BY_HOP:
        raise ValueError("must be the name of an end-to-end header field")
    return value.lower()


def id_headers(value: str) -> tuple[str, ...]:
    names = tuple(id_header(part.strip()) for part in value.split(",") if part.strip())
    if not names:
        raise ValueError("must name at least one header field")
    return names


OPTIONS: Final = (
    Option("listen", settings.address, Address("0.0.0.0", 24080), "accept requests here", "HOST:PORT"),  # noqa: S104
    Option("upstream", settings.http_url, REQUIRED, "pass every request on to this server", "URL"),
    Option(
        "hop",
        settings.name,
        REQUIRED,
        "name of the service beside which this sidecar stands, as verdicts name it",
        "NAME",
    ),
    Option(
        "role",
        settings.choice("ingress", "egress"),
        "ingress",
        "ingress: before the service; egress: behind it",
        "ROLE",
    ),
    Option(
        "admin",
        optional(settings.address),
        Address("127.0.0.1", 24090),
        "health, metrics and running streams; or off",
        "HOST:PORT",
    ),
    Option("export", optional(settings.http_url), None, "send spans to this OTLP/HTTP endpoint; or off", "URL"),
    Option("export_token", str.strip, None, "bearer token for that endpoint; better set by its variable", "TOKEN"),
    Option(
        "export_queue",
        settings.size_bytes,
        32 << 20,
        "bytes of spans kept while the endpoint does not take them",
        "SIZE",
    ),
    Option(
        "exact", settings.switch, False, "keep times to 1 µs and every position; finer times can tell what was written"
    ),
    Option(
        "request_id_headers",
        id_headers,
        ("x-request-id",),
        "header fields that carry the request id, the first found wins",
        "NAMES",
    ),
    Option("connect_timeout", positive_seconds, 5.0, "time to connect to the upstream; after it 504", "TIME"),
    Option("drain_timeout", settings.seconds, 30.0, "time that running streams have to finish after SIGTERM", "TIME"),
    Option("stall_after", positive_seconds, 2.0, "silence from which a running stream is reported as stalled", "TIME"),
    Option(
        "event_limit",
        settings.size_bytes,
        LIMIT_BYTES,
        "bytes of one event that are looked at; all are passed on",
        "SIZE",
    ),
    Option(
        "clock_offset",
        signed_seconds,
        0.0,
        "shift both clocks of this process; for trying out, --clock-offset=-1h",
        "TIME",
    ),
    Option(
        "loop",
        settings.choice("auto", "uvloop", "asyncio"),
        "auto",
        "event loop; auto takes uvloop where it is there",
        "LOOP",
    ),
    Option(
        "log_level", settings.choice("debug", "info", "warning", "error"), "info", "least level that is logged", "LEVEL"
    ),
)


def parser() -> argparse.ArgumentParser:
    """The command line: a flag for each option, and the two that are no settings."""
    flags = argparse.ArgumentParser(
        prog="gapline sidecar",
        description="A reverse proxy that passes streams on byte for byte and stamps every event that flows through.",
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
        OPTIONS, prefix=PREFIX, flags=flags, environ=environ, file_text=file_text, known_variables=(FILE_VARIABLE,)
    )
    config = Config(**cast("dict[str, Any]", values))
    errors = []
    if config.admin is not None and config.admin == config.listen and config.listen.port:
        errors.append(f"--admin: {str(config.admin)!r}: must not be the address of --listen")
    if config.export_token is not None and not _BEARER.fullmatch(config.export_token):
        errors.append("--export-token: must be 1 to 1000 printable ASCII characters without spaces")  # and is not shown
    if errors:
        raise ConfigError(errors)
    return config
