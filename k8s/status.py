"""What the injector has written on a pod: read it, write it, and bring back the pod from before.

One annotation holds what was decided, and each value of the app that was changed with what stood there before. So a
pod that is seen again, by the API server's second round or with a sidecar from the command line, is planned as if it
came for the first time, and what people had set is never lost.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from k8s.decisions import Edit, Plan, Reason, Skip, SkipError
from k8s.keys import INJECTED, NO_TOKEN, REDIRECT, SIDECAR, STATUS
from k8s.patch import is_same, pointer, steps
from k8s.pods import CONTAINERS, INIT_CONTAINERS, Object, annotations_of, is_port, items, part

VERSION: Final = 1
INJECTED_RESULT: Final = "injected"
SKIPPED_RESULT: Final = "skipped"
_EDITED: Final = re.compile(
    r"/ports/[0-9]{1,5}/containerPort|/env/[0-9]{1,5}/value"
    r"|/(?:startupProbe|readinessProbe|livenessProbe|lifecycle/postStart|lifecycle/preStop)/(?:httpGet|tcpSocket|grpc)/port"
)
"""What of a container we ever change. Anybody can write the annotation, and nothing else is put back for it."""
DETAIL_CHARS: Final = 500
"""Longest sentence that is kept: annotations of a pod share 256 KB, and most of them are not ours."""


@dataclass(frozen=True, slots=True)
class Status:
    """The annotation, read. digest: of all that was put in; None where nothing was, and then there is a reason.

    app: the port at which the app of a sidecar listens, by its number.
    """

    digest: str | None
    edits: tuple[Edit, ...] = ()
    capture: str | None = None
    app: int | None = None
    reason: str | None = None
    detail: str | None = None


def injected_text(plan: Plan, digest: str) -> str:
    """The annotation of a pod with a sidecar."""
    return _json(
        {
            "version": VERSION,
            "result": INJECTED_RESULT,
            "digest": digest,
            "capture": plan.capture,
            "container": plan.container,
            "hop": plan.hop,
            "app": plan.app_port,
            "listen": plan.listen_port,
            "native": plan.is_native,
            "edits": [[edit.container, pointer(edit.path), edit.old, edit.new] for edit in plan.edits],
            **({"notes": list(plan.notes)} if plan.notes else {}),
        }
    )


def skipped_text(skip: Skip) -> str:
    """The annotation of a pod that asked for a sidecar and got none."""
    detail = skip.detail if len(skip.detail) <= DETAIL_CHARS else skip.detail[: DETAIL_CHARS - 1] + "…"
    return _json({"version": VERSION, "result": SKIPPED_RESULT, "reason": skip.reason.value, "detail": detail})


def status_of(pod: Object) -> Status | None:
    """What stands there; None for nothing. Raises SkipError where it cannot be read."""
    text = annotations_of(pod).get(STATUS)
    if text is None:
        return None
    try:
        return _status(json.loads(text))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise SkipError(Reason.CHANGED, f"annotation {STATUS} cannot be read: {type(error).__name__}") from None


def original(pod: Object) -> dict[str, Any]:
    """The pod from before any sidecar of ours, a copy. Raises SkipError where somebody has changed what we changed."""
    made: dict[str, Any] = copy.deepcopy(dict(pod))
    status = status_of(pod)
    if status is None:
        return made
    if status.digest is not None:
        _take_out(made)
        owners = containers_by_name(made)
        for edit in reversed(status.edits):
            _undo(owners.get(edit.container), edit)
    del made["metadata"]["annotations"][STATUS]
    for owner, key in ((made["metadata"], "annotations"), (made["metadata"], "labels")):
        if not owner.get(key, True):
            del owner[key]
    return made


def set_value(container: dict[str, Any], path: tuple[str | int, ...], value: object) -> None:
    """Put a value in the place of another, which is there."""
    owner: Any = container
    for step in path[:-1]:
        owner = owner[step]
    owner[path[-1]] = value


def containers_by_name(pod: Object) -> dict[str, dict[str, Any]]:
    """The containers of both lists, to be changed where they stand. Of several with one name the first one counts."""
    spec = part(pod, "spec")
    found: dict[str, dict[str, Any]] = {}
    for each in (*items(spec, CONTAINERS), *items(spec, INIT_CONTAINERS)):
        if isinstance(each, dict) and isinstance(name := each.get("name"), str):
            found.setdefault(name, each)
    return found


def _status(found: Mapping[str, Any]) -> Status:
    if found["version"] != VERSION:
        raise ValueError(f"version {found['version']} is not known")
    if found["result"] == SKIPPED_RESULT:
        return Status(None, reason=str(found["reason"]), detail=str(found["detail"]))
    edits = tuple(_edit(each) for each in found["edits"])
    app = found["app"]
    return Status(str(found["digest"]), edits, capture=str(found["capture"]), app=app if is_port(app) else None)


def _edit(found: Sequence[Any]) -> Edit:
    name, path, old, new = found
    if not _EDITED.fullmatch(path) or not {type(old), type(new)} <= {int, str}:
        raise ValueError(f"{path} is nothing that we change")
    return Edit(str(name), tuple(int(step) if step.isdigit() else step for step in steps(path)), old, new)


def _take_out(pod: dict[str, Any]) -> None:
    """Our containers, volume and label. Raises SkipError where the sidecar is not there."""
    if SIDECAR not in containers_by_name(pod):
        raise SkipError(Reason.CHANGED, f"annotation {STATUS} tells of a container {SIDECAR}, and there is none")
    ours = {CONTAINERS: {SIDECAR}, INIT_CONTAINERS: {SIDECAR, REDIRECT}, "volumes": {NO_TOKEN}}
    for key, names in ours.items():
        listed = items(pod["spec"], key)
        kept = [each for each in listed if part(each).get("name") not in names]
        if kept or key == CONTAINERS:
            pod["spec"][key] = kept
        elif listed:
            del pod["spec"][key]
    part(pod, "metadata", "labels").pop(INJECTED, None)  # type: ignore[attr-defined]  # all of it is our copy


def _undo(container: dict[str, Any] | None, edit: Edit) -> None:
    try:
        owner: Any = container
        for step in edit.path:
            owner = owner[step]
        is_ours = is_same(owner, edit.new)
    except (KeyError, IndexError, TypeError):
        is_ours = False
    if container is None or not is_ours:
        raise SkipError(
            Reason.CHANGED,
            f"{edit.container}{pointer(edit.path)} was set to {edit.new}, and something else stands there",
        )
    set_value(container, edit.path, edit.old)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
