"""What the sidecar asks of the node, so that the pod keeps the class by which Kubernetes treats it.

The class follows from all containers, init containers too: *Guaranteed* where each asks for what it may use at most, of
CPU and memory, *BestEffort* where none says anything, else *Burstable*. A GPU worker that stops being Guaranteed loses
its CPUs of its own; a pod that stops being BestEffort may not fit on its node. A pod that speaks for all its
containers at once (`spec.resources`) has its class from that alone, and they share what it says.

Nor may the pod be refused for the sidecar's sake: what it asks for is never above its limit, and where all containers
have a limit of CPU it has one as well, since a quota of the namespace may demand that of every container.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Final

from k8s.pods import Object, all_containers, part
from k8s.quantities import is_within, quantity

_COUNTED: Final = ("cpu", "memory")


class Qos(Enum):
    """The class of a pod."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a sidecar gets where the pod's class leaves the choice. cpu_limit: None for no limit, as is usual.

    guaranteed_cpu: what it gets where all others have a limit, as in a Guaranteed pod: there it cannot borrow.
    """

    cpu: str
    memory: str
    cpu_limit: str | None
    memory_limit: str
    guaranteed_cpu: str


def qos(pod: Object) -> Qos:
    """The class as Kubernetes works it out."""
    whole = part(pod, "spec", "resources")
    if any(whole.get(key) for key in ("requests", "limits")):
        return _class_of([whole])
    return _class_of(part(container.raw, "resources") for container in all_containers(pod))


def resources(pod: Object, wanted: Wanted) -> dict[str, dict[str, str]]:
    """The sidecar's `resources`, with which the pod's class stays what it is. Empty where it must not say any."""
    whole = part(pod, "spec", "resources")
    if any(whole.get(key) for key in ("requests", "limits")):
        return {}
    match qos(pod):
        case Qos.BEST_EFFORT:
            return {}
        case Qos.GUARANTEED:
            least = {"cpu": wanted.cpu_limit or wanted.guaranteed_cpu, "memory": wanted.memory_limit}
            return {"requests": dict(least), "limits": dict(least)}
        case Qos.BURSTABLE:
            limits = {"memory": wanted.memory_limit}
            if wanted.cpu_limit is not None:
                limits["cpu"] = wanted.cpu_limit
            elif all("cpu" in _amounts(part(each.raw, "resources", "limits")) for each in all_containers(pod)):
                limits["cpu"] = max(wanted.guaranteed_cpu, wanted.cpu, key=quantity)
            return {"requests": {"cpu": wanted.cpu, "memory": wanted.memory}, "limits": limits}


def fitting(asked: tuple[str | None, str | None], usual: tuple[str, str | None]) -> tuple[str, str | None]:
    """Request and limit: what was asked for, else what is usual, which gives way where the two do not go together: else
    the API server would refuse the pod."""
    request, limit = asked[0] or usual[0], asked[1] or usual[1]
    if limit is None or is_within(request, limit):
        return request, limit
    return (limit, limit) if asked[0] is None else (request, request)


def _class_of(parts: Iterable[Object]) -> Qos:
    said_anything, is_guaranteed = False, True
    for each in parts:
        requests, limits = _amounts(part(each, "requests")), _amounts(part(each, "limits"))
        said_anything = said_anything or bool(requests or limits)
        is_guaranteed = is_guaranteed and all(
            limits.get(name, 0) > 0 and requests.get(name, limits.get(name)) == limits[name] for name in _COUNTED
        )
    if not said_anything:
        return Qos.BEST_EFFORT
    return Qos.GUARANTEED if is_guaranteed else Qos.BURSTABLE


def _amounts(given: Mapping[str, object]) -> dict[str, Fraction]:
    found: dict[str, Fraction] = {}
    for name in _COUNTED:
        try:
            amount = quantity(given[name])
        except (KeyError, ValueError):  # absent, or refused by the API server before anybody asks us
            continue
        if amount > 0:
            found[name] = amount
    return found
