"""Decide how one pod can be seen: which port, by which way, with which changes; or that it cannot, and why not.

Pure: the pod is the one from before any sidecar of ours (`k8s.status` brings it back), and whatever else is known is in
the arguments. So the webhook, the command and the tests decide alike. The kubelet asks the app, never the sidecar.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from k8s.callers import IPV4, IPV6, calling, families_of
from k8s.capture import port_edits, way_to
from k8s.config import PodConfig
from k8s.decisions import Decision, Plan, Reason, SkipError
from k8s.egress import egress_of
from k8s.ending import ending
from k8s.facts import Facts, Namespace, Situation
from k8s.keys import ADMIN_PORT, INJECT, LISTEN_PORT, MIRROR, NO_TOKEN, OFF, ON, PROBE_PORT, REDIRECT, SIDECAR, USER
from k8s.pods import Object, all_containers, annotations_of, handlers, items, labels_of, part, running
from k8s.ports import MESH, Target, declared, free_port, refuse_unreadable, target
from k8s.resources import Wanted, fitting, resources
from k8s.wishes import AUTO, EXPLICIT, WishError, Wishes, wishes
from k8s.wishes import REDIRECT as REDIRECTED

NATIVE_FROM: Final = 29
"""The first minor version of Kubernetes in which an init container may run on without being asked for specially."""
_SYSTEM_LABELS: Final = ("kubernetes.io/os", "beta.kubernetes.io/os")
_FAMILIES: Final = {"ipv4": (IPV4,), "ipv6": (IPV6,), "dual": (IPV4, IPV6)}


def plan(
    pod: Object, *, namespace: Namespace, facts: Facts, config: PodConfig, owner_kind: str | None = None
) -> Decision:
    """A plan, or the reason why there is none. Never raises.

    owner_kind: whose template the pod comes from, where no owner stands in the pod.
    """
    try:
        _refuse_others(pod, namespace)
        asked = _wishes(pod, namespace)
        is_native = _is_native(facts, config)
        _refuse_jobs(pod, owner_kind, is_native=is_native)
        callers = None if facts.callers is None else calling(facts.callers, pod)
        return _planned(asked, Situation(pod, namespace, replace(facts, callers=callers), config), is_native=is_native)
    except SkipError as stopped:
        return stopped.skip


def _planned(asked: Wishes, situation: Situation, *, is_native: bool) -> Plan:
    pod, callers = situation.pod, situation.facts.callers or ()
    taken = _taken(pod)
    notes: list[str] = []
    if asked.capture == EXPLICIT:
        assert asked.listen_port is not None  # the annotations came as a pair
        assert asked.upstream_port is not None
        way, listen_port = EXPLICIT, asked.listen_port
        found = Target(_container_of(pod, asked), asked.upstream_port, None)
        for number in (listen_port, found.number):
            refuse_unreadable(pod, replace(found, number=number), callers)
    else:
        found = target(pod, asked, callers)
        refuse_unreadable(pod, found, callers)
        listen_port = free_port(LISTEN_PORT, taken)
        way, notes = way_to(found, situation, asked=asked.capture)
    taken |= {listen_port}
    probe_port = free_port(PROBE_PORT, taken) if way == REDIRECTED else None
    taken |= {probe_port or 0}
    admin_port = free_port(ADMIN_PORT, taken)
    app = next(each for each in running(pod) if each.name == found.container)
    egress, egress_edits = egress_of(app, asked.egress, taken | {admin_port})
    end = ending(pod, app, is_native=is_native)
    return Plan(
        capture=way,
        container=found.container,
        hop=asked.hop or found.container,
        image=asked.image or situation.config.image,
        app_port=found.number,
        listen_port=listen_port,
        admin_port=admin_port,
        probe_port=probe_port,
        edits=(*port_edits(pod, found, way, listen_port=listen_port, probe_port=probe_port), *egress_edits),
        egress=egress,
        families=families_of(callers, pod) or _FAMILIES[situation.config.ip_family],
        is_native=is_native,
        resources=_resources(pod, asked, situation.config),
        settings=asked.settings,
        attributes=asked.attributes,
        pause_s=end.pause_s,
        drain_s=end.drain_s,
        user=None if situation.namespace.chooses_users else USER,
        notes=(*notes, *_about_age(situation, is_native=is_native), *([end.note] if end.note else [])),
    )


def _refuse_others(pod: Object, namespace: Namespace) -> None:
    own = labels_of(pod).get(INJECT)
    wish = namespace.labels.get(INJECT, "") if own is None else own
    if own is not None and own not in ON | OFF:
        raise SkipError(Reason.BAD_ANNOTATION, f"label {INJECT}: {own!r}: must be enabled or disabled")
    if wish not in ON:
        said = f"{INJECT}: {wish}" if wish in OFF else f"no label {INJECT}: enabled on it or on its namespace"
        raise SkipError(Reason.NOT_ASKED, said)
    if MIRROR in annotations_of(pod):
        raise SkipError(Reason.MIRROR, "it is the image of a pod that a node runs by itself, and changes nothing there")
    spec = part(pod, "spec")
    if spec.get("hostNetwork") is True:
        raise SkipError(
            Reason.HOST_NETWORK, "it uses the node's network, where the sidecar's ports would be everybody's"
        )
    systems = [part(spec, "os").get("name"), *(part(spec, "nodeSelector").get(label) for label in _SYSTEM_LABELS)]
    if "windows" in systems:
        raise SkipError(Reason.WINDOWS, "it runs on Windows, and the sidecar on Linux only")
    if any(each.name in {SIDECAR, REDIRECT} for each in all_containers(pod)):
        raise SkipError(Reason.PRESENT, f"it has a container {SIDECAR} that the injector did not put there")
    if any(part(each).get("name") == NO_TOKEN for each in items(spec, "volumes")):
        raise SkipError(Reason.PRESENT, f"it has a volume {NO_TOKEN} that the injector did not put there")


def _wishes(pod: Object, namespace: Namespace) -> Wishes:
    try:
        return wishes(namespace.annotations, annotations_of(pod))
    except WishError as error:
        raise SkipError(Reason.BAD_ANNOTATION, str(error)) from None


def _refuse_jobs(pod: Object, owner_kind: str | None, *, is_native: bool) -> None:
    owners = {part(each).get("kind") for each in items(part(pod, "metadata"), "ownerReferences")}
    if "Job" not in owners | {owner_kind}:
        return
    if labels_of(pod).get(INJECT) not in ON:
        raise SkipError(
            Reason.JOB, f"it is a Job's, and those seldom serve; the label {INJECT} on its own pods asks for it"
        )
    if not is_native:
        raise SkipError(Reason.JOB, "it is a Job's, and would never end with a sidecar that is not native")


def _is_native(facts: Facts, config: PodConfig) -> bool:
    if config.native != AUTO:
        return config.native == "always"
    oldest = config.kubernetes if facts.oldest_minor is None else facts.oldest_minor
    return oldest is not None and oldest >= NATIVE_FROM


def _container_of(pod: Object, asked: Wishes) -> str:
    """The app's container where no port tells it. Raises SkipError."""
    names = [each.name for each in running(pod) if each.name not in MESH]
    if asked.container is not None and asked.container in names:
        return asked.container
    listening = [port.container for port in declared(pod) if port.number in {asked.listen_port, asked.upstream_port}]
    found = list(dict.fromkeys(listening)) or names
    if asked.container is None and len(found) == 1:
        return found[0]
    raise SkipError(
        Reason.BAD_ANNOTATION, f"gapline.dev/container must be one of {', '.join(names)}, not {asked.container!r}"
    )


def _about_age(situation: Situation, *, is_native: bool) -> list[str]:
    """That a native sidecar might be possible, where nobody has said how old the nodes are."""
    facts, config = situation.facts, situation.config
    if is_native or config.native != AUTO or facts.oldest_minor is not None or config.kubernetes is not None:
        return []
    return [f"the age of the nodes is not known: a native sidecar needs 1.{NATIVE_FROM} or newer (--kubernetes)"]


def _taken(pod: Object) -> set[int]:
    """Every port that anything of the pod names."""
    found = {port.number for port in declared(pod)}
    for container in all_containers(pod):
        found |= {handler.port for handler in handlers(container) if isinstance(handler.port, int)}
        for word in (*container.words, *(str(part(each).get("value", "")) for each in items(container.raw, "env"))):
            found |= {int(number) for number in re.findall(r"(?<![0-9])[0-9]{4,5}(?![0-9])", word)}
    return found


def _resources(pod: Object, asked: Wishes, config: PodConfig) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    cpu, cpu_limit = fitting((asked.cpu, asked.cpu_limit), (config.cpu, config.cpu_limit))
    memory, memory_limit = fitting((asked.memory, asked.memory_limit), (config.memory, config.memory_limit))
    wanted = Wanted(
        cpu=cpu,
        memory=memory,
        cpu_limit=cpu_limit,
        memory_limit=memory_limit or config.memory_limit,
        guaranteed_cpu=asked.cpu or config.guaranteed_cpu,
    )
    return tuple((kind, tuple(amounts.items())) for kind, amounts in resources(pod, wanted).items())
