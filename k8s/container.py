"""The containers that a plan puts into a pod, word for word: the sidecar, and the one that gives the kernel rules."""

from __future__ import annotations

from typing import Any, Final

from k8s.attributes import DOWNWARD, resource_attributes
from k8s.callers import IPV6
from k8s.config import PodConfig
from k8s.decisions import Plan
from k8s.keys import METRICS_PORT_NAME, NO_TOKEN, REDIRECT, SIDECAR
from k8s.pods import Object
from k8s.ruleset import COMMAND, ruleset
from sidecar.config import PREFIX

TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105  # a folder
START_S: Final = 60
"""How long the sidecar may take until it listens; an image that is slow to be read is the usual reason."""
_HOSTS: Final = {"IPv4": "0.0.0.0", IPV6: "[::]"}  # noqa: S104
_NO_GPU: Final = ("NVIDIA_VISIBLE_DEVICES", "void")
"""Where the runtime gives every container all GPUs unless it says this."""


def sidecar(plan: Plan, config: PodConfig, pod: Object) -> dict[str, Any]:
    """The sidecar's container."""
    made: dict[str, Any] = {
        "name": SIDECAR,
        "image": plan.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["gapline", "sidecar"],
        "env": _env(plan, config, pod),
        "ports": [{"name": METRICS_PORT_NAME, "containerPort": plan.admin_port, "protocol": "TCP"}],
        "startupProbe": _asks_ready(plan, period_s=1, failures=START_S),
        "readinessProbe": _asks_ready(plan, period_s=5, failures=3),
        "securityContext": _security(plan.user),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": NO_TOKEN, "mountPath": TOKEN_PATH, "readOnly": True}],
    }
    if plan.resources:
        made["resources"] = _resources(plan)
    if plan.is_native:
        made["restartPolicy"] = "Always"
    elif plan.pause_s:
        made["lifecycle"] = {"preStop": {"exec": {"command": ["sleep", str(plan.pause_s)]}}}
    return made


def redirect(plan: Plan, config: PodConfig) -> dict[str, Any]:
    """The init container of a redirecting pod. It ends once the kernel has the rules."""
    assert plan.probe_port is not None
    rules = ruleset(app_port=plan.app_port, listen_port=plan.listen_port, probe_port=plan.probe_port)
    security = _security(plan.user)
    security["capabilities"]["add"] = ["NET_ADMIN"]
    made: dict[str, Any] = {
        "name": REDIRECT,
        "image": config.redirect_image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(COMMAND),
        "args": [rules],
        "securityContext": security,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": NO_TOKEN, "mountPath": TOKEN_PATH, "readOnly": True}],
    }
    if plan.resources:
        made["resources"] = _resources(plan)
    return made


def volume() -> dict[str, Any]:
    """What both mount over the place of the token."""
    return {"name": NO_TOKEN, "emptyDir": {"sizeLimit": "1Mi"}}


def variables(plan: Plan, config: PodConfig) -> dict[str, str]:
    """The sidecar's options by name, as text."""
    hosts = [_HOSTS[family] for family in plan.families if family in _HOSTS]
    local = "localhost" if IPV6 in plan.families else "127.0.0.1"  # the former tries both families
    found = {
        "hop": plan.hop,
        "listen": ",".join(f"{host}:{plan.listen_port}" for host in hosts),
        "upstream": f"http://{local}:{plan.app_port}",
        "admin": f"{hosts[0]}:{plan.admin_port}",
        "drain_timeout": f"{plan.drain_s}s",
    }
    if config.export is not None:
        found["export"] = config.export
    if plan.egress:
        found["egress"] = ",".join(f"{tap.name}=127.0.0.1:{tap.port}={tap.url}" for tap in plan.egress)
    return found | dict(plan.settings)


def _env(plan: Plan, config: PodConfig, pod: Object) -> list[dict[str, Any]]:
    """A variable may be referred to only behind its own place, so the kubelet's come first."""
    found: list[dict[str, Any]] = [
        {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}} for name, path in DOWNWARD
    ]
    attributes = resource_attributes(pod, container=plan.container, asked=plan.attributes)
    found += [{"name": "OTEL_RESOURCE_ATTRIBUTES", "value": attributes}]
    found += [{"name": _NO_GPU[0], "value": _NO_GPU[1]}]
    found += [
        {"name": PREFIX + name.upper(), "value": value.replace("$(", "$$(")}
        for name, value in variables(plan, config).items()
    ]
    if config.export_token is not None:
        secret, key = config.export_token
        source = {"secretKeyRef": {"name": secret, "key": key, "optional": True}}
        found += [{"name": PREFIX + "EXPORT_TOKEN", "valueFrom": source}]
    return found


def _asks_ready(plan: Plan, *, period_s: int, failures: int) -> dict[str, Any]:
    """Whether it listens; never whether the app does, which starts later and may take an hour."""
    return {
        "httpGet": {"path": "/readyz", "port": plan.admin_port, "scheme": "HTTP"},
        "periodSeconds": period_s,
        "timeoutSeconds": 1,
        "failureThreshold": failures,
    }


def _security(user: int | None) -> dict[str, Any]:
    """What Pod Security calls restricted. The user stands there, or a pod that runs as root would stop us."""
    made: dict[str, Any] = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    return made if user is None else made | {"runAsUser": user, "runAsGroup": user}


def _resources(plan: Plan) -> dict[str, dict[str, str]]:
    return {kind: dict(amounts) for kind, amounts in plan.resources}
