"""Which port of a pod the model's traffic comes in at, when nobody says so, and what it must not be: TLS or HTTP/2."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from k8s.callers import Caller, called_at, spoken_at
from k8s.decisions import Reason, SkipError
from k8s.keys import PORTS, REDIRECT, SIDECAR
from k8s.pods import Object, Port, handlers, number_of, ports, running
from k8s.wishes import Wishes

USUAL: Final = (
    *("queue-port", "http", "http1", "api", "openai", "serve", "container-port", "router-port"),
    *("sidecar", "routing-proxy", "modelserver", "http-server", "server", "service"),
)
"""Names under which model servers, routers and gateways take requests. The first of them that a pod has is meant: where
a proxy of the pod stands in front of its model server, the proxy's."""
OTHER: Final = re.compile(
    r"(?:.*-)?(?:metrics?|prometheus|prom|health|status|admin|system|debug|pprof|dashboard|zmq|ucx|nixl|nccl|dist|rpc)"
    r"(?:-.*)?|client|gcs(?:-server)?|http-(?:queueadm|autometric|usermetric)|user-port|https(?:-.*)?|.*-https|tls.*"
)
"""Names of ports at which no request of a model comes in, or only what another port of the pod hands on."""
GRPC: Final = re.compile(r"grpc(?:-.*)?|.*-grpc|h2c?(?:-.*)?|http2(?:-.*)?")
MESH: Final = frozenset({"istio-proxy", "linkerd-proxy", "kuma-sidecar", "envoy-sidecar"})
"""Containers of service meshes: their ports are not the app's."""
_TLS_WORDS: Final = re.compile(r"--(?:ssl[-_](?:certfile|keyfile)|tls[-_]cert(?:[-_]file)?|certfile|ssl[-_]cert)\b")


@dataclass(frozen=True, slots=True)
class Target:
    """Where the app listens. port: its declaration; None where it has none, and only the number is known."""

    container: str
    number: int
    port: Port | None

    def __str__(self) -> str:
        return str(self.port or self.number)


def declared(pod: Object) -> list[Port]:
    """Every TCP port of every container that runs."""
    return [port for container in running(pod) for port in ports(container)]


def target(pod: Object, wishes: Wishes, callers: Iterable[Caller]) -> Target:
    """The port that is meant. Raises SkipError where it cannot be told."""
    containers = [each.name for each in running(pod) if each.name not in {*MESH, SIDECAR, REDIRECT}]
    if wishes.container is not None:
        if wishes.container not in containers:
            raise SkipError(
                Reason.BAD_ANNOTATION, f"there is no container {wishes.container!r}; there are {', '.join(containers)}"
            )
        containers = [wishes.container]
    listed = [port for port in declared(pod) if port.container in containers]
    if wishes.port is not None:
        return _asked_for(wishes.port, listed, containers)
    by_grpc = _asked_by_grpc(pod)
    candidates = [port for port in listed if not _is_other(port, by_grpc)]
    called = called_at(callers, pod)
    if not listed and len(containers) == len(called) == 1 and isinstance(number := next(iter(called)), int):
        return Target(containers[0], number, None)
    if not candidates:
        names = ", ".join(map(str, listed)) or "none"
        raise SkipError(
            Reason.NO_HTTP_PORT,
            f"no port that may take requests is declared ({names}); say which with gapline.dev/port",
        )
    return _chosen(candidates, pod, called)


def refuse_unreadable(pod: Object, found: Target, callers: Iterable[Caller]) -> None:
    """Raise SkipError where the port speaks what the sidecar cannot read: TLS that the app ends itself, or HTTP/2."""
    for who, called in spoken_at(callers, pod, found.port or found.number):
        if called.is_h2:
            raise SkipError(Reason.H2_PORT, f"{who} says that port {found} speaks {called.app_protocol}")
        if called.is_tls:
            raise SkipError(Reason.TLS_PORT, f"{who} says that port {found} speaks {called.app_protocol}")
    for container in running(pod):
        listed = ports(container)
        for handler in handlers(container):
            if number_of(handler, listed) != found.number:
                continue
            if handler.is_tls:
                raise SkipError(Reason.TLS_PORT, f"the {handler.kind} of {container.name} asks port {found} by HTTPS")
            if handler.is_grpc:
                raise SkipError(Reason.H2_PORT, f"the {handler.kind} of {container.name} asks port {found} by gRPC")
        if container.name == found.container and (word := _TLS_WORDS.search(" ".join(container.words))):
            raise SkipError(Reason.TLS_PORT, f"{container.name} is started with {word[0]}")


def free_port(first: int, taken: Iterable[int]) -> int:
    """The first of our ports, from this one on, that nothing of the pod uses. Raises SkipError."""
    used = set(taken)
    for number in range(first, PORTS.stop):
        if number not in used:
            return number
    raise SkipError(Reason.NO_SUCH_PORT, f"all ports from {first} to {PORTS.stop - 1} are taken")


def _asked_for(wanted: str | int, listed: Sequence[Port], containers: Sequence[str]) -> Target:
    found = [port for port in listed if wanted in {port.name, port.number}]
    if found:
        return _with_a_name(found)
    if isinstance(wanted, int) and len(containers) == 1:
        return Target(containers[0], wanted, None)
    hint = "" if isinstance(wanted, str) else "; gapline.dev/container says whose it is"
    raise SkipError(
        Reason.NO_SUCH_PORT, f"no port {wanted} is declared; there are {', '.join(map(str, listed)) or 'none'}{hint}"
    )


def _with_a_name(alike: Sequence[Port]) -> Target:
    """Of several declarations of one port the first that has a name: by that it can be called."""
    port = next((each for each in alike if each.name), alike[0])
    return Target(port.container, port.number, port)


def _chosen(candidates: Sequence[Port], pod: Object, called: Collection[int | str]) -> Target:
    numbers = {port.number for port in candidates}
    if len(numbers) == 1:
        return _with_a_name(candidates)
    for name in USUAL:
        found = [port for port in candidates if port.name == name]
        if found:
            return Target(found[0].container, found[0].number, found[0])
    wanted = [port for port in candidates if port.name in called or port.number in called]
    if len({port.number for port in wanted}) == 1:
        return Target(wanted[0].container, wanted[0].number, wanted[0])
    if len(proxies := [port for port in candidates if port.is_native]) == 1:  # it stands before the model server
        return Target(proxies[0].container, proxies[0].number, proxies[0])
    if asked := _asked_by_readiness(candidates, pod):
        return Target(asked.container, asked.number, asked)
    raise SkipError(
        Reason.AMBIGUOUS_PORT,
        f"several ports may take requests: {', '.join(map(str, candidates))}; say which with gapline.dev/port",
    )


def _asked_by_readiness(candidates: Sequence[Port], pod: Object) -> Port | None:
    for container in running(pod):
        listed = ports(container)
        for handler in handlers(container):
            if handler.kind == "readinessProbe":
                number = number_of(handler, listed)
                found = [each for each in candidates if each.container == container.name and each.number == number]
                if found:
                    return found[0]
    return None


def _is_other(port: Port, by_grpc: Collection[tuple[str, int | str]]) -> bool:
    if port.name is not None:
        return bool(OTHER.fullmatch(port.name) or GRPC.fullmatch(port.name))
    return (port.container, port.number) in by_grpc


def _asked_by_grpc(pod: Object) -> set[tuple[str, int | str]]:
    """Containers and their ports whose health is asked by gRPC."""
    return {(each.name, handler.port) for each in running(pod) for handler in handlers(each) if handler.is_grpc}
