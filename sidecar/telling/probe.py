"""Which requests are probes: somebody asks only to see whether it answers, and must not count as a user.

What a rule says is compared without regard to case, save for paths. A probe is answered, stamped and recorded like any
other request, and labelled so everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sidecar.headers import Fields

AGENTS: Final = (
    "kube-probe",
    "ELB-HealthChecker",
    "Amazon-Route53-Health-Check-Service",
    "GoogleHC",
    "GoogleStackdriverMonitoring-UptimeChecks",
    "Load Balancer Agent",  # Azure's
    "Edge Health Probe",  # Azure Front Door's
    "Cloudflare-Healthchecks",
    "Cloudflare-Traffic-Manager",
    "Envoy/HC",
    "Consul Health Check",
    "Prometheus",
    "Blackbox Exporter",
    "Blackbox-Exporter",
    "Datadog/Synthetics",
    "DatadogSynthetics",
    "Datadog Agent",
    "NewRelicPinger",
    "UptimeRobot",
    "Uptime-Kuma",
    "Better Uptime Bot",
    "Better Stack Better Uptime Bot",
    "Pingdom.com_bot",
    "PingdomBot",
    "StatusCake",
    "Site24x7",
    "Checkly",
    "check_http",  # Nagios and Icinga
    "Zabbix",
)
PATHS: Final = (
    "/health",
    "/health/*",
    "/healthz",
    "/livez",
    "/readyz",
    "/live",
    "/ready",
    "/ping",
    "/metrics",
    "/-/healthy",
    "/-/ready",
    "/v1/health",
    "/v1/health/*",
    "/v2/health/*",  # KServe and Triton
    "/api/health",
    "/health_generate",  # SGLang
)

_PATH: Final = re.compile(r"/[!-)+-~]{0,199}\*?")
_FIELD_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_AGENT_CHARS: Final = 100
_VALUE_CHARS: Final = 100
_LOOKED_AT_CHARS: Final = 1_024
"""Of a user agent: no real one that names a prober is longer."""
_BODILESS: Final = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """A field that only probes have, or only with this value."""

    name: str
    value: str | None = None

    def __str__(self) -> str:
        return self.name if self.value is None else f"{self.name}={self.value}"


HEADERS: Final = (
    HeaderRule("x-gapline-probe"),
    HeaderRule("x-datadog-origin", "synthetics"),
    HeaderRule("sec-datadog"),
    HeaderRule("x-newrelic-synthetics"),
)


# Parsers for options. Each raises ValueError with the rule that was broken.


def agent(value: str) -> str:
    """What a user agent contains, from the beginning of one of its words on."""
    if not (1 <= len(value) <= _AGENT_CHARS and value.isascii() and value.isprintable()):
        raise ValueError(f"must be 1 to {_AGENT_CHARS} printable ASCII characters")
    return value


def path(value: str) -> str:
    """A path, or the beginning of one and a `*`."""
    if not _PATH.fullmatch(value) or "?" in value:
        raise ValueError("must be a path without a query, of at most 200 characters; a * may stand at its end")
    return value


def header(value: str) -> HeaderRule:
    """NAME for a field that only probes have, NAME=VALUE where only that value says so."""
    name, is_valued, wanted = value.partition("=")
    if not _FIELD_NAME.fullmatch(name):
        raise ValueError("must be NAME or NAME=VALUE with the name of a header field")
    if is_valued and not (1 <= len(wanted) <= _VALUE_CHARS and wanted.isascii() and wanted.isprintable()):
        raise ValueError(f"must have a value of 1 to {_VALUE_CHARS} printable ASCII characters")
    return HeaderRule(name.lower(), wanted.strip().lower() if is_valued else None)


class ProbeRules:
    """The rules of one sidecar; a request that fits one of them is a probe."""

    __slots__ = ("_agent", "_path_beginnings", "_paths", "_values")

    def __init__(
        self,
        agents: Iterable[str] = AGENTS,
        paths: Iterable[str] = PATHS,
        headers: Iterable[HeaderRule] = HEADERS,
    ) -> None:
        words = "|".join(map(re.escape, agents))
        self._agent = re.compile(rf"(?<![0-9A-Za-z])(?:{words})", re.IGNORECASE) if words else None
        rules = tuple(paths)
        self._paths = frozenset(rule for rule in rules if not rule.endswith("*"))
        self._path_beginnings = tuple(rule[:-1] for rule in rules if rule.endswith("*"))
        self._values: dict[str, set[str | None]] = {}
        for rule in headers:
            self._values.setdefault(rule.name, set()).add(rule.value)

    def is_probe(self, method: str, path: str, fields: Fields) -> bool:
        """Whether the request is one, by its head.

        Paths tell only of requests without a body: whoever posts to `/ping` wants more than to see it answer.
        """
        if method in _BODILESS and self._is_probe_path(path.partition("?")[0]):
            return True
        return any(self._is_probe_field(name.lower(), value) for name, value in fields)

    def _is_probe_path(self, path: str) -> bool:
        return path in self._paths or path.startswith(self._path_beginnings)

    def _is_probe_field(self, name: str, value: str) -> bool:
        if name == "user-agent" and self._agent is not None and self._agent.search(value[:_LOOKED_AT_CHARS]):
            return True
        wanted = self._values.get(name)
        return wanted is not None and (None in wanted or value.strip().lower() in wanted)
