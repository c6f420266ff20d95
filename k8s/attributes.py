"""What the sidecar says of the place where it stands, as OpenTelemetry names it: pod, node, workload, container.

A pod has no name yet when it is planned, and no node: those the kubelet fills in, through variables of the container.
The workload follows from the owner: a ReplicaSet is called as its Deployment and the hash of its template.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from k8s.pods import Object, items, labels_of, part

DOWNWARD: Final = (
    ("POD_NAME", "metadata.name"),
    ("POD_NAMESPACE", "metadata.namespace"),
    ("POD_UID", "metadata.uid"),
    ("NODE_NAME", "spec.nodeName"),
)
"""Variables that the kubelet fills in, and from what."""
_PLACES: Final = (
    ("k8s.pod.name", "POD_NAME"),
    ("k8s.namespace.name", "POD_NAMESPACE"),
    ("k8s.pod.uid", "POD_UID"),
    ("k8s.node.name", "NODE_NAME"),
)
_HASH: Final = "pod-template-hash"
_OWNERS: Final = {"StatefulSet": "statefulset", "DaemonSet": "daemonset", "Job": "job", "ReplicaSet": "replicaset"}
_BY_LABEL: Final = (
    ("leaderworkerset.sigs.k8s.io/name", "k8s.leaderworkerset.name"),
    ("ray.io/cluster", "k8s.raycluster.name"),
    ("ray.io/node-type", "ray.node.type"),
)
"""Labels of workloads whose own kind does not own the pods."""


def resource_attributes(pod: Object, *, container: str, asked: tuple[tuple[str, str], ...]) -> str:
    """The value of OTEL_RESOURCE_ATTRIBUTES. asked: attributes that win over what is found here."""
    found = {key: f"$({variable})" for key, variable in _PLACES}
    said = {"k8s.container.name": container, **dict(_workload(pod)), **dict(asked)}
    found |= {quote(key, safe="/"): quote(value, safe="/") for key, value in said.items()}
    return ",".join(f"{key}={value}" for key, value in found.items())


def _workload(pod: Object) -> Iterator[tuple[str, str]]:
    labels = labels_of(pod)
    for owner in items(part(pod, "metadata"), "ownerReferences"):
        kind, name = part(owner).get("kind"), part(owner).get("name")
        if not isinstance(name, str) or kind not in _OWNERS:
            continue
        yield f"k8s.{_OWNERS[kind]}.name", name
        template = labels.get(_HASH)
        if kind == "ReplicaSet" and template and name.endswith(f"-{template}"):
            yield "k8s.deployment.name", name.removesuffix(f"-{template}")
    for label, key in _BY_LABEL:
        if label in labels:
            yield key, labels[label]
