"""Find the pods that asked for a sidecar and have none, and say why; and those whose sidecar somebody passes by.

A webhook that was not there when a pod was made leaves no trace but a pod without a status. A Service that came after
the pod may call it by the number of its port, past the sidecar. Only a look at what runs finds either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from k8s.callers import Caller, by_number, router_in
from k8s.config import PodConfig
from k8s.decisions import Decision, Plan, SkipError
from k8s.explain import headline
from k8s.facts import Facts, Namespace
from k8s.keys import INJECT, MIRROR, OFF, ON, SIDECAR, SYSTEM
from k8s.planner import plan
from k8s.pods import Object, all_containers, annotations_of, items, labels_of, part
from k8s.status import Status, status_of
from k8s.wishes import NAMED

NEVER_SEEN = "never-seen"
PASSED_BY = "passed-by"
_OVER = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Finding:
    """Pods of one workload with the same reason. pod: the first of them. count: how many there are."""

    namespace: str
    workload: str
    pod: str
    reason: str
    detail: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Audit:
    """asked_count: pods that run and asked for a sidecar. findings: what is wrong with some of them."""

    asked_count: int
    findings: tuple[Finding, ...]

    @property
    def bare_count(self) -> int:
        return sum(found.count for found in self.findings if found.reason != PASSED_BY)


class Auditor:
    """Takes pods one by one, so that a list of any length may pass.

    facts: by namespace, as the pods of each would be planned. own: the namespace of the injector itself.
    """

    def __init__(
        self, namespaces: Mapping[str, Namespace], facts: Mapping[str, Facts], *, config: PodConfig, own: str
    ) -> None:
        self._namespaces = namespaces
        self._facts = facts
        self._config = config
        self._never = SYSTEM | {own}
        self._asked_count = 0
        self._found: dict[tuple[str, str, str, str], Finding] = {}

    def look(self, pod: Object) -> None:
        """Look at one pod."""
        metadata = part(pod, "metadata")
        name = str(metadata.get("namespace") or "default")
        namespace = self._namespaces.get(name, Namespace(name))
        if name in self._never or not _has_asked(pod, namespace) or _is_over(pod):
            return
        self._asked_count += 1
        if (fault := self._fault(pod, namespace)) is None:
            return
        reason, detail = fault
        workload = _workload(pod)
        key = (name, workload, reason, detail)
        before = self._found.get(key)
        self._found[key] = (
            Finding(name, workload, str(metadata.get("name", "")), reason, detail)
            if before is None
            else replace(before, count=before.count + 1)
        )

    def audit(self) -> Audit:
        return Audit(
            self._asked_count, tuple(sorted(self._found.values(), key=lambda each: (each.namespace, each.pod)))
        )

    def _fault(self, pod: Object, namespace: Namespace) -> tuple[str, str] | None:
        try:
            status = status_of(pod)
        except SkipError as error:
            return error.skip.reason.value, error.skip.detail
        facts = self._facts.get(namespace.name, Facts())
        if any(each.name == SIDECAR for each in all_containers(pod)):
            return _passed_by(pod, status, facts)
        if status is not None and status.reason is not None:
            return status.reason, status.detail or ""
        decision = plan(pod, namespace=namespace, facts=facts, config=self._config)
        return NEVER_SEEN, _what_if(decision)


def namespaces_of(objects: Iterable[Object]) -> dict[str, Namespace]:
    """Those of the objects that are namespaces."""
    found = {}
    for each in objects:
        if each.get("kind") == "Namespace" and isinstance(name := part(each, "metadata").get("name"), str):
            annotations = part(each, "metadata", "annotations")
            found[name] = Namespace(name, labels_of(each), {key: str(value) for key, value in annotations.items()})
    return found


def router_of(pod: Object) -> Caller | None:
    """The pod itself, where it runs and is a router that calls others at their own addresses."""
    metadata = part(pod, "metadata")
    if _is_over(pod):
        return None
    name, namespace = str(metadata.get("name", "")), str(metadata.get("namespace") or "default")
    return router_in(pod, name=name, namespace=namespace)


def _has_asked(pod: Object, namespace: Namespace) -> bool:
    if MIRROR in annotations_of(pod):
        return False
    own = labels_of(pod).get(INJECT)
    return own in ON or (own not in OFF and namespace.labels.get(INJECT) in ON)


def _is_over(pod: Object) -> bool:
    return part(pod, "status").get("phase") in _OVER or bool(part(pod, "metadata").get("deletionTimestamp"))


def _passed_by(pod: Object, status: Status | None, facts: Facts) -> tuple[str, str] | None:
    """Who calls a pod with a sidecar at the app's own number, where nothing leads that to the sidecar."""
    if status is None or status.capture != NAMED or status.app is None:
        return None
    callers = by_number(facts.callers or (), pod, status.app)
    if not callers:
        return None
    return PASSED_BY, f"port {status.app} is called by its number ({', '.join(callers)}), past the sidecar"


def _what_if(decision: Decision) -> str:
    """What would become of the pod if it were made now."""
    if isinstance(decision, Plan):
        return "the injector was not asked, or did not answer, when it was made: make it anew"
    return (
        f"the injector was not asked, or did not answer, when it was made; and now there would be {headline(decision)}"
    )


def _workload(pod: Object) -> str:
    """What owns the pod: one line for all pods of it."""
    for owner in items(part(pod, "metadata"), "ownerReferences"):
        if part(owner).get("controller") is True:
            return f"{part(owner).get('kind')} {part(owner).get('name')}"
    return f"Pod {part(pod, 'metadata').get('name', '')}"
