"""By which way callers of a port are led to the sidecar, and what of the pod that changes.

Three ways, and none of them touches a Service. *named*: the port keeps its name, and its declared number becomes the
sidecar's; whoever calls by the name follows. *redirect*: the kernel turns what comes in at the app's number over to
the sidecar; it needs a privilege for an init container, so it must be allowed. *explicit*: somebody has moved the app
already, and the sidecar listens where it was. Where a port is called by its number and the kernel must not help, a
sidecar would stand there and see nothing, so there is none, and the reason is told.
"""

from __future__ import annotations

from collections.abc import Iterator

from k8s.callers import by_name, by_number
from k8s.decisions import Edit, Reason, SkipError
from k8s.facts import Situation
from k8s.pods import Handler, Object, Port, all_containers, handlers, number_of, ports, running
from k8s.ports import MESH, Target, declared
from k8s.wishes import AUTO, NAMED, REDIRECT


def way_to(found: Target, situation: Situation, *, asked: str) -> tuple[str, list[str]]:
    """The way, and what is to be said of it. asked: the way that was wished for. Raises SkipError where none leads."""
    pod, facts = situation.pod, situation.facts
    forbidden = _why_no_redirect(situation)
    if asked == REDIRECT:
        if forbidden:
            raise SkipError(Reason.REDIRECT_FORBIDDEN, forbidden)
        return REDIRECT, []
    alike: list[Port | int] = [*_named_alike(pod, found)]
    called = [who for port in alike or [found.number] for who in by_number(facts.callers or (), pod, port)]
    numeric = list(dict.fromkeys(called))
    if found.port is None or found.port.name is None:
        numeric.insert(0, f"port {found.number} has no name to be called by")
    elif (first := next(each for each in declared(pod) if each.name == found.port.name)) != found.port:
        raise SkipError(
            Reason.DUPLICATE_PORT_NAME,
            f"the name {found.port.name} leads to {first.container}, not to {found.container}",
        )
    if not numeric:
        return NAMED, _about_names(found, situation)
    if asked == AUTO and not forbidden:
        return REDIRECT, []
    way_out = "call it by the port's name, or move the app and say gapline.dev/capture: explicit"
    why_not = f"; {forbidden}" if asked == AUTO else ""
    raise SkipError(
        Reason.NUMERIC_CALLERS,
        f"port {found.number} is called by its number ({', '.join(numeric)}){why_not}: {way_out}",
    )


def _about_names(found: Target, situation: Situation) -> list[str]:
    callers = situation.facts.callers
    if found.port is None or callers is None:
        return [f"nobody looked who calls port {found}: callers by number would pass the sidecar by"]
    if not any(by_name(callers, situation.pod, port) for port in _named_alike(situation.pod, found)):
        return [f"no Service calls port {found} by its name yet: callers of the pod's own address pass the sidecar by"]
    return []


def _why_no_redirect(situation: Situation) -> str:
    """Empty where the kernel may redirect."""
    if not situation.config.allow_redirect:
        return "redirecting is not allowed here (--allow-redirect)"
    if not situation.namespace.lets_redirect:
        namespace = situation.namespace
        known = "forbids" if namespace.is_known else "may forbid"
        return f"Pod Security of the namespace {namespace.name} {known} redirecting"
    meshes = sorted({each.name for each in all_containers(situation.pod)} & MESH)
    if meshes:
        return f"{meshes[0]} redirects already"
    return ""


def _named_alike(pod: Object, found: Target) -> list[Port]:
    """Each declaration of the port that has a name: somebody may call by any of them."""
    return [
        port
        for container in running(pod)
        if container.name == found.container
        for port in ports(container)
        if port.number == found.number and port.name is not None
    ]


def port_edits(pod: Object, found: Target, way: str, *, listen_port: int, probe_port: int | None) -> Iterator[Edit]:
    """The declared port, and the ports of what the kubelet sends, so that it still reaches the app and nobody else."""
    if way == NAMED:
        for port in _named_alike(pod, found):
            yield Edit(found.container, ("ports", port.index, "containerPort"), found.number, listen_port)
    for container in running(pod):
        listed = ports(container)
        for handler in handlers(container):
            if handler.host is None and _is_led(handler, number_of(handler, listed), found, way, listen_port):
                yield Edit(container.name, handler.path, handler.port, probe_port or found.number)


def _is_led(handler: Handler, number: int | None, found: Target, way: str, listen_port: int) -> bool:
    """Whether what the kubelet sends there would come to the sidecar."""
    match way:
        case "named":
            return handler.container == found.container and isinstance(handler.port, str) and number == found.number
        case "explicit":
            return number == listen_port
        case _:
            return number == found.number
