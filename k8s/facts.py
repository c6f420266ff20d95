"""What is known of the cluster when a pod is planned: its namespace, who calls it, how old the nodes are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from k8s.callers import Caller
from k8s.config import PodConfig
from k8s.pods import Object

_ENFORCE: Final = "pod-security.kubernetes.io/enforce"
_PRIVILEGED: Final = "privileged"
_OPENSHIFT_USERS: Final = "openshift.io/sa.scc.uid-range"


@dataclass(frozen=True, slots=True)
class Namespace:
    """The namespace of the pod. is_known: whether somebody has looked at it; else its labels are what must be so."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    is_known: bool = True

    @property
    def lets_redirect(self) -> bool:
        """Whether Pod Security lets an init container change the rules of the pod's network."""
        return self.is_known and self.labels.get(_ENFORCE, _PRIVILEGED) == _PRIVILEGED

    @property
    def chooses_users(self) -> bool:
        """Whether the platform gives containers a user of its own, and refuses another."""
        return _OPENSHIFT_USERS in self.annotations


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """callers: of the pod's namespace; None where nobody could look. oldest_minor: of the nodes' versions."""

    callers: tuple[Caller, ...] | None = None
    oldest_minor: int | None = None


NOTHING_KNOWN: Final = Facts()


@dataclass(frozen=True, slots=True)
class Situation:
    """One pod, and all that its plan follows from."""

    pod: Object
    namespace: Namespace
    facts: Facts
    config: PodConfig
