"""Lead what an app asks of others through its sidecar: variables that hold a base URL get the sidecar's address.

Only what was asked for by name, and only where the URL stands there as text: then the sidecar listens on a port of
loopback and asks the same origin, by https where the URL does. Path and query of the URL stay in the variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import SplitResult, urlsplit

from k8s.decisions import Edit, EgressTap, Reason, SkipError
from k8s.keys import EGRESS_PORT
from k8s.pods import Container, items
from k8s.ports import free_port
from otel import settings

_HOST: Final = "127.0.0.1"


def egress_of(
    app: Container, names: Iterable[str], taken: Iterable[int]
) -> tuple[tuple[EgressTap, ...], tuple[Edit, ...]]:
    """Where the sidecar listens, and the variables that change. Raises SkipError where one cannot be led through."""
    taps: dict[str, EgressTap] = {}
    edits: list[Edit] = []
    used = set(taken)
    variables = _variables(app)
    for name in dict.fromkeys(names):
        index, value = _text_of(name, app, variables)
        url = _url(name, value)
        origin = f"{url.scheme}://{url.netloc}"
        if origin not in taps:
            port = free_port(EGRESS_PORT, used)
            used.add(port)
            taps[origin] = EgressTap(_name_of(url, {tap.name for tap in taps.values()}), port, origin)
        led = url._replace(scheme="http", netloc=f"{_HOST}:{taps[origin].port}").geturl()
        edits.append(Edit(app.name, ("env", index, "value"), value, led))
    return tuple(taps.values()), tuple(edits)


def _variables(app: Container) -> dict[str, tuple[int, object]]:
    """Each variable's place among those of the container, and its value. Of several with one name the last counts."""
    return {
        each["name"]: (index, each.get("value"))
        for index, each in enumerate(items(app.raw, "env"))
        if isinstance(each, Mapping) and isinstance(each.get("name"), str)
    }


def _text_of(name: str, app: Container, variables: Mapping[str, tuple[int, object]]) -> tuple[int, str]:
    """The variable's place and its text. Raises SkipError where it has none."""
    if name not in variables:
        raise SkipError(Reason.BAD_EGRESS, f"container {app.name} sets no variable {name} of its own")
    index, value = variables[name]
    if not isinstance(value, str) or not value:
        raise SkipError(Reason.BAD_EGRESS, f"variable {name} takes its value from elsewhere, so its URL is not known")
    return index, value


def _url(name: str, value: str) -> SplitResult:
    if "$(" in value:
        raise SkipError(Reason.BAD_EGRESS, f"variable {name} is put together from others, so its URL is not known")
    try:
        url = urlsplit(value)
        settings.http_url(f"{url.scheme}://{url.netloc}")
    except ValueError as error:
        raise SkipError(Reason.BAD_EGRESS, f"variable {name} holds no URL that can be led through: {error}") from None
    return url


def _name_of(url: SplitResult, taken: set[str]) -> str:
    """The host, as verdicts may call it; with its port where two are at one host."""
    host = (url.hostname or "").replace(":", "-").strip("-.")[:50] or "egress"
    for name in (host, f"{host}-{url.port or url.scheme}"):
        if name not in taken:
            return settings.name(name)
    return settings.name(f"{host}-{len(taken)}")
