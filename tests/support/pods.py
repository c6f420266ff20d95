"""Pods for tests: the smallest that can be called, and what the API server and its controllers make of a template."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from k8s.config import PodConfig, pod_config
from k8s.documents import Found, objects, pods_in, read
from k8s.facts import Facts, Namespace
from k8s.inject import known_callers
from k8s.keys import INJECT

SHAPES = Path(__file__).parents[1] / "golden" / "pods"
ASKED = Namespace("team-a", labels={INJECT: "enabled"})
FULL = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}


def config(**given: str) -> PodConfig:
    """What pods get, with these options changed; by default on a new cluster."""
    return pod_config({"kubernetes": "1.33", **given}, {})


def container(name: str = "app", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": f"registry.example/{name}:1", **more}


def http(name: str | None = "http", number: int = 8000, **more: Any) -> dict[str, Any]:
    return {**({"name": name} if name else {}), "containerPort": number, **more}


def probe(port: int | str, **more: Any) -> dict[str, Any]:
    return {"httpGet": {"path": "/health", "port": port, **more}}


def pod(*containers: dict[str, Any], labels: Any = None, annotations: Any = None, **spec: Any) -> dict[str, Any]:
    """A pod with one container and one port, unless others are given."""
    metadata = {"labels": {"app": "app", **(labels or {})}, **({"annotations": annotations} if annotations else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": list(containers) or [container(ports=[http()])], **spec},
    }


def service(target: int | str | None = "http", *, name: str = "svc", labels: Any = None, **more: Any) -> dict[str, Any]:
    """A Service that calls those pods. more: fields of its port; `spec` for others."""
    spec = more.pop("spec", {})
    port = {"port": 80, **({} if target is None else {"targetPort": target}), **more}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": ASKED.name},
        "spec": {"selector": labels or {"app": "app"}, "ports": [port], **spec},
    }


def shapes() -> list[tuple[str, Found, Facts]]:
    """Every pod of every file, with what the same file tells of its callers."""
    found = []
    for path in sorted(SHAPES.glob("*.yaml")):
        documents = read(path.read_text("utf-8"))
        everything = list(objects(documents))
        facts = Facts(callers=known_callers(everything, ASKED.name, default=ASKED.name), oldest_minor=33)
        for document in documents:
            found += [(path.stem, each, facts) for each in pods_in(document.value)]
    return found


def created(found: Found) -> dict[str, Any]:
    """The pod that a controller sends to the API server for this template, with the defaults filled in there."""
    made = copy.deepcopy(found.pod)
    metadata, spec = made.setdefault("metadata", {}), made["spec"]
    template = "5d9f8c7b6d"
    metadata.setdefault("labels", {})["pod-template-hash"] = template
    metadata |= {
        "generateName": f"{found.name}-{template}-",
        "creationTimestamp": None,
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": found.owner_kind or "ReplicaSet",
                "name": f"{found.name}-{template}",
                "uid": "8d3f1c9e-5b1a-4c7d-9f53-0a4be1d1f001",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    made = {"apiVersion": "v1", "kind": "Pod", **made}
    token = {"name": "kube-api-access-x7k2p", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    for each in (*spec["containers"], *spec.get("initContainers", [])):
        each.setdefault("volumeMounts", []).append({**token, "readOnly": True})
    spec.setdefault("volumes", []).append({"name": token["name"], "projected": {"sources": [], "defaultMode": 420}})
    spec.setdefault("serviceAccountName", "default")
    spec |= {"enableServiceLinks": True, "priority": 0, "preemptionPolicy": "PreemptLowerPriority"}
    spec["tolerations"] = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")
    ]
    return defaulted(made)


def defaulted(made: dict[str, Any]) -> dict[str, Any]:
    """The pod with what the API server fills in whenever it decodes one. The one that was given stays as it is."""
    made = copy.deepcopy(made)
    spec = made["spec"]
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("securityContext", {})
    for each in (*spec["containers"], *spec.get("initContainers", [])):
        each.setdefault("resources", {})
        each.setdefault("imagePullPolicy", "IfNotPresent")
        each.setdefault("terminationMessagePath", "/dev/termination-log")
        each.setdefault("terminationMessagePolicy", "File")
        for port in each.get("ports", []):
            port.setdefault("protocol", "TCP")
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            if kind in each:
                for key, value in {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1}.items():
                    each[kind].setdefault(key, value)
                each[kind].setdefault("failureThreshold", 3)
                if "httpGet" in each[kind]:
                    each[kind]["httpGet"].setdefault("scheme", "HTTP")
        limits = each["resources"].get("limits", {})
        if limits:
            each["resources"]["requests"] = {**limits, **each["resources"].get("requests", {})}
    return made
