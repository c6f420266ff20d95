"""Carry out what was decided: the pod with its sidecar, and the JSON Patch that makes it of the pod as it came.

The change is made on the pod's own JSON, so that no field is lost that we do not know. What was rendered has a digest,
which stands on the pod: seen again with the same one, a pod is left as it is, with what others did to our containers.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from hashlib import blake2s
from typing import Any, Final

from k8s import container
from k8s.config import PodConfig
from k8s.decisions import Decision, Plan, Skip, SkipError
from k8s.facts import Facts, Namespace
from k8s.keys import INJECTED, REDIRECT, SIDECAR, STATUS
from k8s.patch import Operation, difference
from k8s.planner import plan
from k8s.pods import CONTAINERS, INIT_CONTAINERS, Object, items, part
from k8s.status import containers_by_name, injected_text, original, set_value, skipped_text, status_of

_DIGEST_BYTES: Final = 8
"""Two plans for one pod are told apart by it, and nobody gains by making two alike."""


@dataclass(frozen=True, slots=True)
class Injection:
    """What was decided for a pod, and what makes it so. pod: as it is then. patch: empty where nothing changes."""

    decision: Decision
    pod: dict[str, Any]
    patch: tuple[Operation, ...]


def injection(
    pod: Object, *, namespace: Namespace, facts: Facts, config: PodConfig, owner_kind: str | None = None
) -> Injection:
    """Plan a pod and render it, be it the first time or not. Never raises for what a pod may hold."""
    try:
        before = original(pod)
        status = status_of(pod)
    except SkipError as stopped:
        return Injection(stopped.skip, dict(pod), ())
    decision = plan(before, namespace=namespace, facts=facts, config=config, owner_kind=owner_kind)
    is_there = status is not None and status.digest is not None
    if isinstance(decision, Skip):
        if decision.reason.is_silent or is_there:  # a sidecar that stands there is not taken out again
            return Injection(decision, dict(pod), ())
        made = before
        _annotate(made, skipped_text(decision))
    else:
        made, digest = _with_sidecar(before, decision, config, as_it_came=pod)
        if is_there and status is not None and status.digest == digest:
            return Injection(decision, dict(pod), ())
    return Injection(decision, made, tuple(difference(pod, made)))


def _with_sidecar(
    before: dict[str, Any], decided: Plan, config: PodConfig, *, as_it_came: Object
) -> tuple[dict[str, Any], str]:
    """The pod with all that the plan wants, and the digest of that."""
    made = copy.deepcopy(before)
    owners = containers_by_name(made)
    for edit in decided.edits:
        set_value(owners[edit.container], edit.path, edit.new)
    own = container.sidecar(decided, config, before)
    added = {INIT_CONTAINERS: [own], CONTAINERS: []} if decided.is_native else {INIT_CONTAINERS: [], CONTAINERS: [own]}
    if decided.probe_port is not None:
        added[INIT_CONTAINERS].insert(0, container.redirect(decided, config))
    spec = made["spec"]
    for key, ours in added.items():
        if ours:
            spec[key] = _placed(list(items(spec, key)), ours, key, items(part(as_it_came, "spec"), key))
    volume = container.volume()
    spec["volumes"] = [*items(spec, "volumes"), volume]
    digest = _digest([added, volume, decided.edits])
    made["metadata"] = dict(part(made, "metadata"))
    made["metadata"]["labels"] = {**part(made, "metadata", "labels"), INJECTED: "true"}
    _annotate(made, injected_text(decided, digest))
    return made, digest


def _placed(others: list[Any], ours: Sequence[Mapping[str, Any]], key: str, as_they_came: Sequence[Any]) -> list[Any]:
    """Ours among the others: init containers in front, since those behind may need us; the rest behind, since the first
    container is often taken for the app. Where ours stand already they stay."""
    names = [part(each).get("name") for each in as_they_came]
    at = 0 if key == INIT_CONTAINERS else len(others)
    places = [index for index, name in enumerate(names) if name in {SIDECAR, REDIRECT}]
    if places:
        at = places[0]
    return [*others[:at], *ours, *others[at:]]


def _annotate(pod: dict[str, Any], text: str) -> None:
    metadata = pod["metadata"] = dict(part(pod, "metadata"))
    metadata["annotations"] = {**part(metadata, "annotations"), STATUS: text}


def _digest(rendered: object) -> str:
    text = json.dumps(rendered, sort_keys=True, default=astuple)
    return blake2s(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()
