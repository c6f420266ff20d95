"""Every option of the sidecar: one table with its name, its rule, its default and its sentence of help.

Flags, `GAPLINE_SIDECAR_*` variables and keys of a TOML file follow from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from otel import settings
from otel.settings import REQUIRED, UNIX, Address, Endpoint, Option
from sidecar.headers import HOP_BY_HOP
from sidecar.inspection.splitter import LIMIT_BYTES

MAX_WORKERS: Final = 64
"""More processes than that in one sidecar is a mistyped number."""

LEAST_MEMORY_BYTES: Final = 16 << 20
"""Python alone takes more: below it everything would be refused, always."""

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_COUNT: Final = re.compile(r"[0-9]{1,4}")
_NO_IDS: Final = HOP_BY_HOP | {"authorization", "content-length", "cookie", "host", "set-cookie", "trailer"}
"""Fields that are another hop's next time, or hold what nobody may record."""


@dataclass(frozen=True, slots=True)
class Egress:
    """What the service calls through us: the name of the far side, where we listen for it, and its URL."""

    name: str
    endpoint: Endpoint
    url: str

    def __str__(self) -> str:
        return f"{self.name}={self.endpoint}={self.url}"


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
    if not _TOKEN.fullmatch(value) or value.lower() in _NO_IDS:
        raise ValueError("must be the name of an end-to-end header field")
    return value.lower()


def id_headers(value: str) -> tuple[str, ...]:
    if not (names := settings.items(id_header)(value)):
        raise ValueError("must name at least one header field")
    return cast("tuple[str, ...]", names)


def listeners(value: str) -> object:
    if not (endpoints := settings.items(settings.endpoint)(value)):
        raise ValueError("must be at least one HOST:PORT or unix:/PATH")
    return endpoints


def upstream_url(value: str) -> str:
    if value.startswith(UNIX):
        return str(settings.unix_path(value))
    if not value.lower().startswith(("http://", "https://")):
        raise ValueError(f"must be http://HOST[:PORT][/PATH], https://… or {UNIX}/PATH")
    return settings.http_url(value)


def egress(value: str) -> Egress:
    parts = value.split("=", 2)
    if len(parts) != 3:
        raise ValueError("must be NAME=HOST:PORT=URL")
    return Egress(settings.name(parts[0]), settings.endpoint(parts[1]), upstream_url(parts[2]))


def memory_limit(value: str) -> object:
    limit_bytes = value if value == "auto" else optional(settings.size_bytes)(value)
    if isinstance(limit_bytes, int) and limit_bytes < LEAST_MEMORY_BYTES:
        raise ValueError(f"must be auto, off or at least {LEAST_MEMORY_BYTES >> 20}M")
    return limit_bytes


def worker_count(value: str) -> int:
    if value == "auto":
        return 0
    if not _COUNT.fullmatch(value) or not 1 <= int(value) <= MAX_WORKERS:
        raise ValueError(f"must be auto or a number from 1 to {MAX_WORKERS}")
    return int(value)


OPTIONS: Final = (
    Option(
        "listen",
        listeners,
        (Address("0.0.0.0", 24080),),  # noqa: S104
        "accept requests here; several with commas, or unix:/PATH",
        "HOST:PORT",
        is_list=True,
    ),
    Option(
        "upstream", upstream_url, REQUIRED, "pass every request on to this server; http, https or unix:/PATH", "URL"
    ),
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
        "egress",
        settings.items(egress),
        (),
        "listen for what the service itself asks of NAME, and pass that on to URL; may be repeated",
        "NAME=HOST:PORT=URL",
        is_list=True,
    ),
    Option(
        "tls_cert",
        settings.path,
        None,
        "accept TLS with this certificate chain, PEM; read anew when it changes",
        "FILE",
    ),
    Option("tls_key", settings.path, None, "private key of that certificate, PEM", "FILE"),
    Option(
        "upstream_ca",
        settings.path,
        None,
        "trust these authorities for https upstreams, PEM, in place of the system's",
        "FILE",
    ),
    Option("upstream_cert", settings.path, None, "client certificate shown to https upstreams, PEM", "FILE"),
    Option("upstream_key", settings.path, None, "private key of that client certificate, PEM", "FILE"),
    Option(
        "admin",
        optional(settings.address),
        Address("0.0.0.0", 24090),  # noqa: S104
        "health and metrics for everybody, running streams and kill switch for this machine; or off",
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
        "spool",
        optional(settings.path),
        None,
        "keep spans in this directory until the endpoint has them; or off",
        "DIR",
    ),
    Option("spool_bytes", settings.size_bytes, 256 << 20, "most that the spool may hold", "SIZE"),
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
    Option(
        "answer_timeout",
        settings.seconds,
        0.0,
        "time from a request to the head of its answer; after it 504; 0: none",
        "TIME",
    ),
    Option("request_head_timeout", positive_seconds, 60.0, "time to send the head of a request; after it 408", "TIME"),
    Option(
        "request_body_timeout",
        positive_seconds,
        300.0,
        "longest silence within the body of a request; after it 408",
        "TIME",
    ),
    Option(
        "slow_reader",
        settings.choice("pause", "end"),
        "pause",
        "pause: the upstream waits for a reader that takes nothing; end: end it after --write-deadline",
        "WHAT",
    ),
    Option(
        "write_deadline",
        positive_seconds,
        60.0,
        "how long a reader may take nothing, where --slow-reader is end",
        "TIME",
    ),
    Option("max_streams", settings.count, 0, "most exchanges that run at a time, further ones queue; 0: no limit", "N"),
    Option("max_queue", settings.count, 1024, "most exchanges that queue; further ones get 503 and Retry-After", "N"),
    Option("queue_timeout", positive_seconds, 10.0, "longest time in that queue; after it 503", "TIME"),
    Option(
        "max_connections", settings.count, 0, "most open connections of clients; 0: what the descriptors allow", "N"
    ),
    Option(
        "memory_limit",
        memory_limit,
        "auto",
        "memory from which new requests are refused; auto: that of the container; or off",
        "SIZE",
    ),
    Option("workers", worker_count, 1, "processes that share the listeners; auto: one for each CPU", "N"),
    Option(
        "passthrough", settings.switch, False, "start with the kill switch on: pass everything on and stamp nothing"
    ),
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
