"""Who calls a pod, and whether by the name of a port or by its number: Services, InferencePools, routers of vLLM.

Only who calls by name follows a port that is declared anew. Everybody else has to be met on the number itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from k8s.pods import Object, Port, is_port, items, labels_of, part, running

IPV4: Final = "IPv4"
IPV6: Final = "IPv6"

_H2: Final = frozenset({"kubernetes.io/h2c", "h2c", "http2", "grpc"})
_TLS: Final = frozenset({"https", "tls", "kubernetes.io/wss"})
_ROUTER_WORDS: Final = {
    "selector": ("--k8s-label-selector",),
    "port": ("--k8s-port",),
}
"""How the router of vLLM's production stack is told which pods to call at their own addresses, and where."""
_ROUTER_PORT: Final = 8000
_AIBRIX_PORT: Final = "model.aibrix.ai/port"
"""A label by which AIBrix's gateway finds the port of a pod."""


@dataclass(frozen=True, slots=True)
class Called:
    """One port that somebody calls. target: its number, or its name in the pod. app_protocol: what is spoken there."""

    target: int | str
    app_protocol: str | None = None

    @property
    def is_h2(self) -> bool:
        return self.app_protocol in _H2

    @property
    def is_tls(self) -> bool:
        return self.app_protocol in _TLS


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Somebody who calls every pod of the namespace that has these labels.

    is_direct: its clients get the pods' own addresses and choose the number themselves, whatever it says of names.
    """

    kind: str
    name: str
    namespace: str
    selector: frozenset[tuple[str, str]]
    called: tuple[Called, ...]
    is_direct: bool = False
    families: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    def calls(self, pod: Object) -> bool:
        return bool(self.selector) and self.selector <= labels_of(pod).items()


def calling(callers: Iterable[Caller], pod: Object) -> tuple[Caller, ...]:
    """Those of them who call this pod."""
    labels = labels_of(pod).items()
    return tuple(caller for caller in callers if caller.selector and caller.selector <= labels)


def callers_of(objects: Iterable[Object]) -> tuple[Caller, ...]:
    """What these objects call; those that call nothing are passed over."""
    return tuple(caller for each in objects if (caller := _caller(each)) is not None)


def router_in(pod: Object, *, name: str, namespace: str) -> Caller | None:
    """The pod itself, where it is a router that calls others at their own addresses."""
    for container in running(pod):
        words = container.words
        selector = _value_of(words, _ROUTER_WORDS["selector"])
        if selector is None or "--service-discovery" not in " ".join(words):
            continue
        port = _value_of(words, _ROUTER_WORDS["port"]) or ""
        number = int(port) if port.isdigit() and is_port(int(port)) else _ROUTER_PORT
        chosen = frozenset(
            (key, value) for key, sign, value in (term.partition("=") for term in selector.split(",")) if sign
        )
        return Caller(kind="router", name=name, namespace=namespace, selector=chosen, called=(Called(number),))
    return None


def by_number(callers: Iterable[Caller], pod: Object, port: Port | int) -> list[str]:
    """Who calls this port of the pod by its number."""
    number = port if isinstance(port, int) else port.number
    name = None if isinstance(port, int) else port.name
    found = [
        str(caller)
        for caller in callers
        if caller.calls(pod)
        and any(
            called.target == number or (caller.is_direct and name is not None and called.target == name)
            for called in caller.called
        )
    ]
    if labels_of(pod).get(_AIBRIX_PORT) == str(number):
        found.append(f"label {_AIBRIX_PORT}")
    return found


def by_name(callers: Iterable[Caller], pod: Object, port: Port) -> list[str]:
    """Who calls it by its name, and will follow it to another number."""
    return [
        str(caller)
        for caller in callers
        if caller.calls(pod)
        and not caller.is_direct
        and port.name is not None
        and any(called.target == port.name for called in caller.called)
    ]


def spoken_at(callers: Iterable[Caller], pod: Object, port: Port | int) -> list[tuple[str, Called]]:
    """What those who call this port say that it speaks."""
    targets = {port} if isinstance(port, int) else {port.number, port.name}
    return [
        (str(caller), called)
        for caller in callers
        if caller.calls(pod)
        for called in caller.called
        if called.target in targets and called.app_protocol is not None
    ]


def called_at(callers: Iterable[Caller], pod: Object) -> set[int | str]:
    """The ports of the pod that somebody calls, by number or name as they say it."""
    return {called.target for caller in callers if caller.calls(pod) for called in caller.called}


def families_of(callers: Iterable[Caller], pod: Object) -> tuple[str, ...]:
    """The IP families by which it is called, each once; empty where nobody says so."""
    return tuple(dict.fromkeys(family for caller in callers if caller.calls(pod) for family in caller.families))


def _caller(raw: Object) -> Caller | None:
    metadata, spec = part(raw, "metadata"), part(raw, "spec")
    match raw.get("kind"):
        case "Service":
            selector, called = part(spec, "selector"), tuple(_service_ports(spec))
        case "InferencePool":
            selector = part(spec, "selector", "matchLabels") or part(spec, "selector")
            called = tuple(_pool_ports(spec))
        case _:
            return None
    chosen = frozenset((key, value) for key, value in selector.items() if isinstance(value, str))
    if not chosen:
        return None
    return Caller(
        kind=str(raw["kind"]),
        name=str(metadata.get("name", "")),
        namespace=str(metadata.get("namespace") or "default"),
        selector=chosen,
        called=called,
        is_direct=spec.get("clusterIP") == "None",
        families=tuple(str(each) for each in items(spec, "ipFamilies")),
    )


def _service_ports(spec: Object) -> Iterator[Called]:
    for each in items(spec, "ports"):
        if not isinstance(each, Mapping) or each.get("protocol", "TCP") != "TCP":
            continue
        target: Any = each.get("targetPort") or each.get("port")
        if isinstance(target, str) and re.fullmatch("[0-9]{1,5}", target):
            target = int(target)
        if is_port(target) or isinstance(target, str):
            yield Called(target, each.get("appProtocol") or None)


def _pool_ports(spec: Object) -> Iterator[Called]:
    listed = [each.get("number") for each in items(spec, "targetPorts") if isinstance(each, Mapping)]
    for number in (*listed, spec.get("targetPortNumber")):  # the latter in the versions before v1
        if isinstance(number, int) and is_port(number):
            yield Called(number)


def _value_of(words: tuple[str, ...], flags: tuple[str, ...]) -> str | None:
    """What follows one of these flags, be it the next word, behind an equals sign, or within a shell's line."""
    line = " ".join(words)
    for flag in flags:
        found = re.search(rf"(?:^|[\s'\"]){re.escape(flag)}[=\s]+['\"]?([^\s'\"]+)", line)
        if found:
            return found[1]
    return None
