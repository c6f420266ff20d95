"""What the planner may decide about a pod: a sidecar and the changes that it needs, or none and the reason why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from k8s.pods import PathInContainer


class Reason(Enum):
    """Why a pod gets no sidecar. The value stands in the status annotation and in the label of a counter."""

    NOT_ASKED = "not-asked"
    HOST_NETWORK = "host-network"
    MIRROR = "mirror-pod"
    WINDOWS = "windows"
    JOB = "job"
    PRESENT = "already-there"
    BAD_ANNOTATION = "bad-annotation"
    NO_SUCH_PORT = "no-such-port"
    NO_HTTP_PORT = "no-http-port"
    AMBIGUOUS_PORT = "ambiguous-port"
    DUPLICATE_PORT_NAME = "duplicate-port-name"
    TLS_PORT = "tls-port"
    H2_PORT = "h2-port"
    NUMERIC_CALLERS = "called-by-number"
    REDIRECT_FORBIDDEN = "redirect-forbidden"
    BAD_EGRESS = "bad-egress"
    CHANGED = "changed-since"
    FAILED = "failed"

    @property
    def is_silent(self) -> bool:
        """Whether the pod is none of our business, so that nothing is written on it either."""
        return self in {Reason.NOT_ASKED, Reason.MIRROR}


@dataclass(frozen=True, slots=True)
class Skip:
    """No sidecar. detail: a sentence for the person who wonders, with what could be done about it."""

    reason: Reason
    detail: str


class SkipError(Exception):
    """Raised within the planner where it ends in no sidecar."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.skip = Skip(reason, detail)


@dataclass(frozen=True, slots=True)
class Edit:
    """One value within a container that becomes another: a declared port, the port of a probe, a variable."""

    container: str
    path: PathInContainer
    old: int | str
    new: int | str


@dataclass(frozen=True, slots=True)
class EgressTap:
    """What the app asks of somebody, and where the sidecar listens for it. name: of that somebody, for verdicts."""

    name: str
    port: int
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A sidecar, and what of the pod has to change for it.

    capture: how traffic comes to it. container: beside which one it stands. app_port: where that listens.
    listen_port: where the sidecar does. probe_port: where the kernel takes probes to the app; None unless redirecting.
    families: of the addresses that it listens on, as Kubernetes writes them, the pod's first one first.
    settings: the sidecar's options by name, as text. pause_s: how long its end is put off while endpoints are
    withdrawn; 0 where it ends after the app anyway. drain_s: how long its streams may go on then. user: None lets the
    platform choose. notes: what people should know though there is nothing wrong.
    """

    capture: str
    container: str
    hop: str
    image: str
    app_port: int
    listen_port: int
    admin_port: int
    probe_port: int | None
    edits: tuple[Edit, ...]
    egress: tuple[EgressTap, ...]
    families: tuple[str, ...]
    is_native: bool
    resources: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    settings: tuple[tuple[str, str], ...]
    attributes: tuple[tuple[str, str], ...]
    pause_s: int
    drain_s: int
    user: int | None
    notes: tuple[str, ...]


Decision = Plan | Skip
