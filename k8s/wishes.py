"""What people ask for on a pod or its namespace, by annotations: every mistake in them is told with its rule.

An annotation of the namespace holds for its pods; one of the pod wins. A key that is none of ours is a mistake, too: a
typo must not be silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from k8s.keys import ATTRIBUTE_PREFIX, INJECT, PREFIX, SETTING_PREFIX, STATUS
from k8s.options import image
from k8s.quantities import is_within, quantity_text
from otel import settings
from sidecar.options import OPTIONS

AUTO: Final = "auto"
NAMED: Final = "named"
EXPLICIT: Final = "explicit"
REDIRECT: Final = "redirect"
CAPTURES: Final = (AUTO, NAMED, EXPLICIT, REDIRECT)

DECIDED: Final = frozenset({"listen", "upstream", "hop", "role", "egress", "admin", "export", "drain_timeout"})
"""Options of the sidecar that the planner sets."""
SECRET: Final = frozenset({"export_token", "client_key"})
"""Options that are no annotation's business: everybody who sees a pod reads those."""
MOUNTED: Final = frozenset({
    *("tls_cert", "tls_key", "upstream_ca", "upstream_cert", "upstream_key", "spool", "spool_bytes"),
})  # fmt: skip
"""Options that name files, and the container has none."""


class WishError(ValueError):
    """Annotations cannot be followed. `errors` lists each with the rule that it breaks."""

    def __init__(self, errors: Iterable[str]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(self.errors))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What was asked for. None: nothing, and the planner chooses.

    port: the app's, by its name or its number. listen_port and upstream_port: where the app was moved by hand.
    egress: variables of the app that hold base URLs. settings: the sidecar's options by name, as text. attributes: of
    the resource. cpu and so on: amounts.
    """

    capture: str = AUTO
    container: str | None = None
    port: str | int | None = None
    listen_port: int | None = None
    upstream_port: int | None = None
    hop: str | None = None
    egress: tuple[str, ...] = ()
    image: str | None = None
    cpu: str | None = None
    memory: str | None = None
    cpu_limit: str | None = None
    memory_limit: str | None = None
    settings: tuple[tuple[str, str], ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()


def _port(value: str) -> int:
    if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= 65_535:
        raise ValueError("must be a port from 1 to 65535")
    return int(value)


def _port_or_name(value: str) -> str | int:
    return _port(value) if value.isascii() and value.isdigit() else settings.name(value)


_PARSERS: Final[Mapping[str, Callable[[str], object]]] = {
    "capture": settings.choice(*CAPTURES),
    "container": settings.name,
    "port": _port_or_name,
    "listen-port": _port,
    "upstream-port": _port,
    "hop": settings.name,
    "egress": settings.items(settings.name),
    "image": image,
    "cpu": quantity_text,
    "memory": quantity_text,
    "cpu-limit": quantity_text,
    "memory-limit": quantity_text,
}
_OPTIONS: Final = {option.name.replace("_", "-"): option for option in OPTIONS}


def wishes(*sources: Mapping[str, str]) -> Wishes:
    """What these annotations ask for, of which later ones win. Raises WishError."""
    merged = {key: value for source in sources for key, value in source.items()}
    found: dict[str, Any] = {}
    chosen: dict[str, str] = {}
    attributes: dict[str, str] = {}
    errors: list[str] = []
    for key, value in sorted(merged.items()):
        try:
            if key.startswith(SETTING_PREFIX):
                name = key.removeprefix(SETTING_PREFIX)
                chosen[_setting(name, value)] = value
            elif key.startswith(ATTRIBUTE_PREFIX):
                attributes[key.removeprefix(ATTRIBUTE_PREFIX)] = value
            elif key.startswith(PREFIX) and key != STATUS:
                name = key.removeprefix(PREFIX)
                found[name.replace("-", "_")] = _parsed(name, value)
        except ValueError as error:
            is_secret = key.removeprefix(SETTING_PREFIX).replace("-", "_") in SECRET
            errors.append(f"{key}: {error}" if is_secret else f"{key}: {value!r}: {error}")
    errors += [*_half_of_a_pair(found), *_above_its_limit(found)]
    if errors:
        raise WishError(errors)
    return Wishes(**found, settings=tuple(sorted(chosen.items())), attributes=tuple(sorted(attributes.items())))


def _parsed(name: str, value: str) -> object:
    if name == INJECT.removeprefix(PREFIX):
        raise ValueError("is a label: a webhook cannot select by annotations")
    if name not in _PARSERS:
        raise ValueError(f"no such annotation; there are {', '.join(_PARSERS)}")
    return _PARSERS[name](value)


def _setting(name: str, value: str) -> str:
    """The option's own name, once its parser has taken the value."""
    option = _OPTIONS.get(name)
    if option is None:
        raise ValueError("no such option of the sidecar")
    if option.name in DECIDED:
        raise ValueError("is decided by the injector")
    if option.name in SECRET:
        raise ValueError("is a secret, and no annotation is")
    if option.name in MOUNTED:
        raise ValueError("names files, and the injected container has none")
    option.parse(value)
    return option.name


def _above_its_limit(found: Mapping[str, Any]) -> list[str]:
    """The API server refuses a pod with such amounts."""
    pairs = [(name, found.get(name), found.get(f"{name}_limit")) for name in ("cpu", "memory")]
    return [
        f"{PREFIX}{name}: {request!r}: must not be above {PREFIX}{name}-limit ({limit})"
        for name, request, limit in pairs
        if not is_within(request, limit)
    ]


def _half_of_a_pair(found: Mapping[str, object]) -> list[str]:
    wants_both = found.get("capture") == EXPLICIT
    needs = [name for name in ("listen_port", "upstream_port") if (name in found) != wants_both]
    rule = "needed where capture is explicit" if wants_both else "only where capture is explicit"
    errors = [f"{PREFIX}{name.replace('_', '-')}: {rule}" for name in needs]
    if wants_both and not errors and found["listen_port"] == found["upstream_port"]:
        errors.append(f"{PREFIX}upstream-port: {found['upstream_port']}: must not be the port to listen on")
    return errors
