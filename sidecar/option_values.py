"""What the values of the sidecar's options may be: a parser for each kind, which names the rule that was broken."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import urlsplit

from otel import settings
from otel.settings import UNIX, Endpoint
from sidecar.guard.keepalive import comment
from sidecar.headers import HOP_BY_HOP

MAX_DRIFT_PPM: Final = 1_000.0
"""Ten times what any crystal does; what joins hops allows for 250."""
MAX_WORKERS: Final = 64
"""More processes than that in one sidecar is a mistyped number."""

LEAST_MEMORY_BYTES: Final = 16 << 20
"""Python alone takes more: below it everything would be refused, always."""

LEAST_KEEPALIVE_S: Final = 0.1
"""Streams are looked at ten times a second: more often no comment can come."""

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_COUNT: Final = re.compile(r"[0-9]{1,4}")
_MILLIONTHS: Final = re.compile(r"[+-]?[0-9]{1,6}(\.[0-9]{1,3})?")
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


def millionths(value: str) -> float:
    if not _MILLIONTHS.fullmatch(value) or abs(float(value)) > MAX_DRIFT_PPM:
        raise ValueError(f"must be a number from -{MAX_DRIFT_PPM:g} to {MAX_DRIFT_PPM:g}")
    return float(value)


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


def engine_url(value: str) -> str:
    url = settings.http_url(value)
    return url if urlsplit(url).path else url + "/metrics"


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


def field_name(value: str) -> str:
    if not _TOKEN.fullmatch(value):
        raise ValueError("must be the name of a header field")
    return value.lower()


def keepalive_text(value: str) -> str:
    comment(value)
    return value


def keepalive_seconds(value: str) -> float:
    if 0 < (seconds := settings.seconds(value)) < LEAST_KEEPALIVE_S:
        raise ValueError(f"must be 0 or at least {LEAST_KEEPALIVE_S * 1000:g}ms")
    return seconds
