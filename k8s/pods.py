"""Read a pod as it comes, in plain JSON: its containers, ports and probes, and nothing that is not there.

What a server sends may lack every optional field, and may hold fields that no gapline knows. So a pod stays a mapping
all the way, and these functions look into it. A field of the wrong type counts as absent: the API server refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Object = Mapping[str, Any]
"""An object of Kubernetes, or a part of one."""
PathInContainer = tuple[str | int, ...]

CONTAINERS: Final = "containers"
INIT_CONTAINERS: Final = "initContainers"
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
"""What a container may be called; a pod that breaks the rule is refused once it has passed us."""
_PORT_NAME: Final = re.compile(r"[a-z0-9-]{1,15}")
"""The same of a port."""
_MINOR: Final = re.compile(r"v?1\.([0-9]{1,3})")
_PROBES: Final = ("startupProbe", "readinessProbe", "livenessProbe")
_HOOKS: Final = ("postStart", "preStop")
_HANDLERS: Final = ("httpGet", "tcpSocket", "grpc")


@dataclass(frozen=True, slots=True)
class Container:
    """One container. is_native: an init container that runs on beside the others, a native sidecar."""

    name: str
    raw: Object
    is_native: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """Its command line, as far as the pod says it."""
        return tuple(str(word) for key in ("command", "args") for word in items(self.raw, key))


@dataclass(frozen=True, slots=True)
class Port:
    """A port that a container declares. name: None where it has none. index: its place in the list."""

    container: str
    index: int
    name: str | None
    number: int
    is_native: bool = False

    def __str__(self) -> str:
        return f"{self.number}" if self.name is None else f"{self.name} ({self.number})"


@dataclass(frozen=True, slots=True)
class Handler:
    """A probe or a hook that the kubelet sends to a port. kind: `readinessProbe`, `preStop` and so on.

    port: a number, or the name of a port of the same container. host: where it goes if not to the pod.
    """

    container: str
    kind: str
    path: PathInContainer
    port: int | str
    is_tls: bool
    is_grpc: bool
    host: str | None


def part(owner: object, *keys: str) -> Object:
    """The mapping at these keys; an empty one where there is none."""
    for key in keys:
        owner = owner.get(key) if isinstance(owner, Mapping) else None
    return owner if isinstance(owner, Mapping) else {}


def items(owner: object, key: str) -> Sequence[Any]:
    """The list at this key; an empty one where there is none."""
    found = owner.get(key) if isinstance(owner, Mapping) else None
    return found if isinstance(found, list) else ()


def labels_of(owner: object) -> dict[str, str]:
    return _texts(part(owner, "metadata", "labels"))


def annotations_of(owner: object) -> dict[str, str]:
    return _texts(part(owner, "metadata", "annotations"))


def regular(pod: Object) -> list[Container]:
    """The containers that make the pod what it is."""
    return [Container(each["name"], each) for each in _named(pod, CONTAINERS)]


def native(pod: Object) -> list[Container]:
    """Init containers that run on beside the others."""
    return [
        Container(each["name"], each, is_native=True)
        for each in _named(pod, INIT_CONTAINERS)
        if each.get("restartPolicy") == "Always"
    ]


def running(pod: Object) -> list[Container]:
    """All that may listen while the pod serves, in the order in which the API server looks up the name of a port."""
    return regular(pod) + native(pod)


def all_containers(pod: Object) -> list[Container]:
    """Those that end before the others start as well."""
    return regular(pod) + [Container(each["name"], each) for each in _named(pod, INIT_CONTAINERS)]


def ports(container: Container) -> list[Port]:
    """The TCP ports that it declares, in order."""
    return [
        Port(container.name, index, _port_name(each), each["containerPort"], container.is_native)
        for index, each in enumerate(items(container.raw, "ports"))
        if isinstance(each, Mapping) and is_port(each.get("containerPort")) and each.get("protocol", "TCP") == "TCP"
    ]


def handlers(container: Container) -> Iterator[Handler]:
    """Everything that the kubelet sends to a port of it."""
    for kind in _PROBES:
        yield from _handlers_at(container, kind, (kind,))
    for kind in _HOOKS:
        yield from _handlers_at(container, kind, ("lifecycle", kind))


def number_of(handler: Handler, declared: Sequence[Port]) -> int | None:
    """The port's number, as the kubelet finds it: by name only among the ports of the handler's own container."""
    if isinstance(handler.port, int):
        return handler.port
    return next(
        (port.number for port in declared if port.container == handler.container and port.name == handler.port), None
    )


def minor_of(node: Object) -> int | None:
    """The version of the node's kubelet, by its second number; None where it does not say."""
    found = _MINOR.match(str(part(node, "status", "nodeInfo").get("kubeletVersion")))
    return None if found is None else int(found[1])


def is_port(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 65_535


def _handlers_at(container: Container, kind: str, path: tuple[str, ...]) -> Iterator[Handler]:
    owner = part(container.raw, *path)
    for way in _HANDLERS:
        sent = part(owner, way)
        port = sent.get("port")
        if isinstance(port, str) and port.isascii() and port.isdigit():
            port = int(port)
        if isinstance(port, int | str) and (is_port(port) or isinstance(port, str)) and port:
            yield Handler(
                container=container.name,
                kind=kind,
                path=(*path, way, "port"),
                port=port,
                is_tls=sent.get("scheme") == "HTTPS",
                is_grpc=way == "grpc",
                host=sent.get("host") or None,
            )


def _named(pod: Object, key: str) -> list[Object]:
    found = items(part(pod, "spec"), key)
    return [each for each in found if isinstance(each, Mapping) and _has_name(each)]


def _port_name(port: Object) -> str | None:
    name = port.get("name")
    return name if isinstance(name, str) and _PORT_NAME.fullmatch(name) else None


def _has_name(container: Object) -> bool:
    name = container.get("name")
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def _texts(found: Object) -> dict[str, str]:
    return {key: value for key, value in found.items() if isinstance(value, str)}
