"""What Kubernetes does with a pod, as far as gapline depends on it: written from its documentation, not from our code.

Each is an oracle: how a Service finds a port, how the kubelet finds that of a probe, which class a pod has, and what
Pod Security says of its containers.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import kubernetes_validate

OLDEST, NEWEST = "1.25", kubernetes_validate.latest_version()
NATIVE_FROM = "1.29"


def found_port(pod: dict[str, Any], target: int | str, *, minor: int = 33) -> int | None:
    """Where an EndpointSlice leads for this target: a number as it is, a name to the first container that has it."""
    if isinstance(target, int):
        return target
    places = list(pod["spec"]["containers"])
    if minor >= 33:
        places += [each for each in pod["spec"].get("initContainers", []) if each.get("restartPolicy") == "Always"]
    for each in places:
        for port in each.get("ports", []):
            if port.get("name") == target and port.get("protocol", "TCP") == "TCP":
                return int(port["containerPort"])
    return None


def asked(pod: dict[str, Any]) -> Iterator[tuple[str, str, int | None]]:
    """What the kubelet asks: container, kind and the number of the port."""
    for each in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])):
        named = {port["name"]: port["containerPort"] for port in each.get("ports", []) if "name" in port}
        sent = {kind: each[kind] for kind in ("startupProbe", "livenessProbe", "readinessProbe") if kind in each}
        sent |= each.get("lifecycle", {})
        for kind, handler in sent.items():
            for way in ("httpGet", "tcpSocket", "grpc"):
                if way in handler:
                    port = handler[way]["port"]
                    yield each["name"], kind, port if isinstance(port, int) else named.get(port)


def qos_class(pod: dict[str, Any]) -> str:
    """The class of a pod, by the rules of the documentation on quality of service."""
    every = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]
    amounts = []
    for each in every:
        given = each.get("resources", {})
        limits = {key: _amount(value) for key, value in given.get("limits", {}).items() if key in {"cpu", "memory"}}
        requests = {key: _amount(value) for key, value in given.get("requests", {}).items() if key in {"cpu", "memory"}}
        amounts.append(({**limits, **requests}, limits))
    if all(not requests and not limits for requests, limits in amounts):
        return "BestEffort"
    if all(limits.keys() == {"cpu", "memory"} and requests == limits for requests, limits in amounts):
        return "Guaranteed"
    return "Burstable"


def against_limits(pod: dict[str, Any], name: str) -> list[str]:
    """What the API server has against the amounts of this container: a request above its limit; and a quota on limits
    of CPU, where it is the only one without any."""
    every = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]
    given = {each["name"]: each.get("resources", {}) for each in every}
    requests, limits = (given.get(name, {}).get(kind, {}) for kind in ("requests", "limits"))
    faults = [key for key, limit in limits.items() if _amount(requests.get(key, "0")) > _amount(limit)]
    without = [each for each, said in given.items() if "cpu" not in said.get("limits", {})]
    return faults + (["no limit of CPU"] if without == [name] and len(every) > 1 else [])


def against_restricted(pod: dict[str, Any], names: set[str]) -> list[str]:
    """What the restricted level of Pod Security has against these containers."""
    faults = []
    for each in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])):
        if each["name"] not in names:
            continue
        said = each.get("securityContext", {})
        capabilities = said.get("capabilities", {})
        checks = {
            "privileged": not said.get("privileged", False),
            "allowPrivilegeEscalation": said.get("allowPrivilegeEscalation") is False,
            "runAsNonRoot": said.get("runAsNonRoot") is True,
            "runAsUser": said.get("runAsUser") != 0,
            "drop": "ALL" in capabilities.get("drop", []),
            "add": set(capabilities.get("add", [])) <= {"NET_BIND_SERVICE"},
            "seccompProfile": said.get("seccompProfile", {}).get("type") in {"RuntimeDefault", "Localhost"},
            "hostPort": not any(port.get("hostPort") for port in each.get("ports", [])),
        }
        faults += [f"{each['name']}: {check}" for check, holds in checks.items() if not holds]
    return faults


def validate(pod: dict[str, Any], version: str) -> None:
    """Raise where the strict schema of this version of Kubernetes does not know something of the pod."""
    kubernetes_validate.validate(pod, version, strict=True)


def _amount(value: Any) -> Decimal:
    text = str(value)
    for end, factor in (
        ("Ki", 2**10),
        ("Mi", 2**20),
        ("Gi", 2**30),
        ("Ti", 2**40),
        ("m", Decimal("0.001")),
        ("G", 10**9),
    ):
        if text.endswith(end):
            return Decimal(text.removesuffix(end)) * factor
    return Decimal(text)
