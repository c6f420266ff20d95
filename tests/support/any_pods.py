"""Drawn pods and who calls them: right ones of every shape, and ones in which anything may stand anywhere."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from k8s.callers import callers_of
from k8s.facts import Facts, Namespace
from k8s.keys import INJECT
from tests.support import pods

NAMES = st.sampled_from(["app", "vllm", "router", "istio-proxy", "proxy"])
PORT_NAMES = st.sampled_from(["http", "http", "api", "metrics", "grpc", "sidecar", "odd"])
NUMBERS = st.sampled_from([8000, 8001, 4000, 9000, 24_080, 24_090])
AMOUNTS = st.sampled_from(
    [{}, {"cpu": "1"}, {"cpu": "1", "memory": "1Gi"}, {"memory": "64Mi"}, {"nvidia.com/gpu": "1"}]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 70_000) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
WISHES = (
    *(("gapline.dev/capture", way) for way in ("auto", "redirect", "named")),
    *(("gapline.dev/port", port) for port in ("http", "8000")),
    *(("gapline.dev/egress", "BASE_URL"), ("gapline.dev/cpu", "50m"), ("gapline.dev/cpu-limit", "2")),
    *(("gapline.dev/memory", "1Gi"), ("gapline.dev/memory-limit", "64Mi"), ("gapline.dev/cpu", "4")),
    *(("sidecar.gapline.dev/stall-after", "5s"), ("sidecar.gapline.dev/stall-after", "soon")),
    *(("gapline.dev/hop", "worker"), ("checksum/config", "abc"), ("resource.opentelemetry.io/team", "a=b,$(X)")),
)
"""Annotations, of which one is a mistake, and some do not go together."""
_KEYS = st.sampled_from(
    [
        *("metadata", "labels", "annotations", "spec", "containers", "initContainers", "volumes", "name", "ports"),
        *("containerPort", "env", "value", "resources", "limits", "lifecycle", "preStop", "httpGet", "port"),
        *("readinessProbe", "securityContext", "terminationGracePeriodSeconds", "ownerReferences", INJECT),
        "gapline.dev/status",
    ]
)
GARBAGE = st.recursive(
    JSON | st.sampled_from(["enabled", "app", "Always"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=5),
    max_leaves=30,
)
"""What nobody sends, in the places where something is looked for."""


@st.composite
def containers(draw: st.DrawFn, name: str, *, may_be_native: bool = False) -> dict[str, Any]:
    ports = draw(
        st.lists(
            st.tuples(st.none() | PORT_NAMES, NUMBERS),
            min_size=not may_be_native,
            max_size=3,
            unique_by=lambda port: port[0],
        )
    )
    made = pods.container(name, **({"ports": [pods.http(*port) for port in ports]} if ports else {}))
    targets = [number for _, number in ports] + [named for named, _ in ports if named]
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        if targets and draw(st.booleans()):
            way = draw(st.sampled_from(["httpGet", "tcpSocket"]))
            sent = {"port": draw(st.sampled_from(targets))}
            made[kind] = {way: {"path": "/health", **sent} if way == "httpGet" else sent}
    if draw(st.booleans()):
        made["lifecycle"] = {"preStop": {"exec": {"command": ["sh", "-c", f"sleep {draw(st.integers(0, 60))}"]}}}
    requests, limits = draw(AMOUNTS), draw(AMOUNTS)
    if requests or limits:
        made["resources"] = {"requests": requests, "limits": limits}
    if draw(st.booleans()):
        made["env"] = [{"name": "BASE_URL", "value": draw(st.sampled_from(["http://next:8000/v1", "", "$(X)/v1"]))}]
    if may_be_native and draw(st.booleans()):
        made["restartPolicy"] = "Always"
    return made


@st.composite
def any_pods(draw: st.DrawFn) -> dict[str, Any]:
    """A pod as people write them."""
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    split = draw(st.integers(1, len(names)))
    regular = [draw(containers(name)) for name in names[:split]]
    first = [draw(containers(name, may_be_native=True)) for name in names[split:]]
    annotations = dict(draw(st.lists(st.sampled_from(WISHES), max_size=2)))
    spec: dict[str, Any] = {"initContainers": first} if first else {}
    if draw(st.booleans()):
        spec["terminationGracePeriodSeconds"] = draw(st.integers(0, 120))
    if draw(st.booleans()):
        spec["volumes"] = [{"name": "data", "emptyDir": {}}]
    if draw(st.integers(0, 19)) == 7:
        spec["hostNetwork"] = True
    return pods.pod(*regular, annotations=annotations or None, **spec)


@st.composite
def any_facts(draw: st.DrawFn) -> Facts:
    """Who calls it, if anybody looked."""
    targets = draw(st.none() | st.lists(PORT_NAMES | NUMBERS, max_size=2))
    if targets is None:
        return Facts(oldest_minor=draw(st.none() | st.integers(25, 40)))
    services = [pods.service(target, name=f"svc-{index}") for index, target in enumerate(targets)]
    return Facts(callers=callers_of(services), oldest_minor=draw(st.none() | st.integers(25, 40)))


any_namespaces = st.builds(
    Namespace,
    st.just("team-a"),
    labels=st.sampled_from(
        [
            {INJECT: "enabled"},
            {INJECT: "enabled", "pod-security.kubernetes.io/enforce": "restricted"},
            {INJECT: "true"},
        ]
    ),
    annotations=st.sampled_from([{}, {"openshift.io/sa.scc.uid-range": "1000/10000"}, {"gapline.dev/hop": "gateway"}]),
)
any_configs = st.builds(pods.config, allow_redirect=st.sampled_from(["true", "false"]))
