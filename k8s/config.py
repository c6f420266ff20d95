"""The injector's settings: flags, variables and file, read by the tables of options into two frozen values."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import PurePath
from typing import Any, Final

from k8s.options import POD_OPTIONS, SERVING_OPTIONS
from k8s.quantities import is_within
from otel import settings
from otel.settings import Address, ConfigError, Option

PREFIX: Final = "GAPLINE_INJECTOR_"
FILE_VARIABLE: Final = PREFIX + "CONFIG"
"""Names the TOML file where no --config does."""
OPTIONS: Final = (*POD_OPTIONS, *SERVING_OPTIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodConfig:
    """What every pod gets, unless its annotations say otherwise."""

    image: str
    redirect_image: str
    export: str | None
    export_token: tuple[str, str] | None
    kubernetes: int | None
    native: str
    allow_redirect: bool
    ip_family: str
    cpu: str
    memory: str
    cpu_limit: str | None
    memory_limit: str
    guaranteed_cpu: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What the webhook was told, checked. Times are seconds."""

    pod: PodConfig
    listen: Address
    admin: Address
    tls_cert: PurePath | None
    tls_key: PurePath | None
    namespace: str
    service: str
    tls_secret: str
    webhook: str
    look: str
    events: bool
    drain_timeout: float
    log_level: str
    log_format: str


def add_flags(parser: argparse.ArgumentParser, options: Sequence[Option]) -> None:
    """A flag for each of these options, and the file."""
    parser.add_argument("--config", metavar="FILE.toml", help=f"read options from this file [{FILE_VARIABLE}]")
    settings.add_flags(parser, options, prefix=PREFIX, headings={"image": "what pods get", "listen": "serving"})


def pod_config(
    flags: Mapping[str, str | None], environ: Mapping[str, str], *, file_text: str | None = None
) -> PodConfig:
    """What pods get, from the three sources. Raises ConfigError with every error at once.

    Settings of the webhook may stand in the same file and environment; here they do nothing.
    """
    values = _load(OPTIONS, flags, environ, file_text)
    return _pod_of(values)


def config_of(flags: Mapping[str, str | None], environ: Mapping[str, str], *, file_text: str | None = None) -> Config:
    """Everything, from the three sources. Raises ConfigError with every error at once."""
    values = _load(OPTIONS, flags, environ, file_text)
    errors = []
    if (values["tls_cert"] is None) != (values["tls_key"] is None):
        errors.append("--tls-cert and --tls-key: one needs the other")
    listen, admin = values["listen"], values["admin"]
    assert isinstance(admin, Address)  # by its parser
    if listen == admin and admin.port:
        errors.append(f"--admin: {str(admin)!r}: must not be the address of --listen")
    if errors:
        raise ConfigError(errors)
    own: dict[str, Any] = {field.name: values[field.name] for field in fields(Config) if field.name != "pod"}
    return Config(pod=_pod_of(values), **own)


def _load(
    options: Sequence[Option], flags: Mapping[str, str | None], environ: Mapping[str, str], file_text: str | None
) -> dict[str, object]:
    return settings.load(
        options, prefix=PREFIX, flags=flags, environ=environ, file_text=file_text, known_variables=(FILE_VARIABLE,)
    )


def _pod_of(values: Mapping[str, object]) -> PodConfig:
    """Raises ConfigError."""
    own: dict[str, Any] = {field.name: values[field.name] for field in fields(PodConfig)}
    pod = PodConfig(**own)
    errors = [
        f"--{name}: {request!r}: must not be above --{name}-limit ({limit})"  # the API server refuses such a pod
        for name, request, limit in (("cpu", pod.cpu, pod.cpu_limit), ("memory", pod.memory, pod.memory_limit))
        if not is_within(request, limit)
    ]
    if errors:
        raise ConfigError(errors)
    return pod
