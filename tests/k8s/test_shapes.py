"""The pods that people really run, by their shapes: planned right, and Kubernetes takes the result."""

from __future__ import annotations

from dataclasses import dataclass

import jsonpatch
import pytest

from k8s.container import variables
from k8s.decisions import Plan, Skip
from k8s.facts import Facts, Namespace
from k8s.keys import REDIRECT, SIDECAR, STATUS
from k8s.patch import applied
from k8s.pods import annotations_of
from k8s.renderer import injection
from k8s.status import original
from sidecar.config import PREFIX, config_of
from tests.support import kube, pods

SHAPES = {f"{shape}:{found}": (shape, found, facts) for shape, found, facts in pods.shapes()}
KINDS = ["may redirect", "by name only"]


@dataclass(frozen=True)
class Expected:
    """What becomes of a pod: where redirecting is allowed, and where it is not. A capture, or the reason for none."""

    allowed: str
    forbidden: str
    beside: str = ""


NUMERIC, NO_HTTP = "called-by-number", "no-http-port"
EXPECTED = {
    "arguments_only:Deployment triton-predictor": Expected("redirect", NUMERIC, "kserve-container:8080"),
    "data_parallel:LeaderWorkerSet dp leaderTemplate": Expected("redirect", NUMERIC, "main:8001"),
    "data_parallel:LeaderWorkerSet dp workerTemplate": Expected(NO_HTTP, NO_HTTP),
    "decode_with_tls:Deployment decode": Expected("tls-port", "tls-port"),
    "engine_as_root:Deployment vllm": Expected("named", "named", "vllm:8000"),
    "engine_beside_frontend:Deployment both": Expected("named", "named", "frontend:8000"),
    "engine_with_router:Deployment stack-llama3-engine": Expected("redirect", NUMERIC, "vllm:8000"),
    "engine_with_router:Deployment stack-router": Expected("not-asked", "not-asked"),
    "frontend_and_worker:Deployment agg-frontend": Expected("named", "named", "main:8000"),
    "frontend_and_worker:Deployment agg-worker": Expected(NO_HTTP, NO_HTTP),
    "gateway_by_name:Deployment gw-litellm": Expected("named", "named", "litellm:4000"),
    "gateway_by_name:Job gw-litellm-migrations": Expected("job", "job"),
    "headless:StatefulSet kimi": Expected("redirect", NUMERIC, "sglang:8000"),
    "nothing_declared:Deployment tgi": Expected("redirect", NUMERIC, "tgi:8080"),
    "on_the_node:StatefulSet sglang": Expected("host-network", "host-network"),
    "operated_engine:Deployment runtime": Expected("redirect", NUMERIC, "vllm:8000"),
    "port_in_a_label:Deployment deepseek": Expected("redirect", NUMERIC, "vllm-openai:8000"),
    "prefill_and_decode:Deployment pd": Expected("named", "named", "routing-proxy:8000"),
    "queue_proxy:Deployment iris-00001-deployment": Expected("redirect", NUMERIC, "queue-proxy:8012"),
    "ray_head:RayCluster engine headGroupSpec": Expected("redirect", NUMERIC, "vllm-ray-head:8000"),
    "ray_head:RayCluster engine workerGroupSpecs[0]": Expected(NO_HTTP, NO_HTTP),
    "ray_service:RayService llm headGroupSpec": Expected("redirect", NUMERIC, "ray-head:8000"),
    "ray_service:RayService llm workerGroupSpecs[0]": Expected("redirect", NUMERIC, "ray-worker:8000"),
    "router_by_number:Deployment stack-router": Expected("redirect", NUMERIC, "router-container:8000"),
    "wide_expert_parallel:LeaderWorkerSet wide-decode workerTemplate": Expected(
        "redirect", NUMERIC, "routing-proxy:8000"
    ),
}


def injected(key: str, kind: str, *, minor: int = 33, pod=None, **given: str):
    _, found, facts = SHAPES[key]
    allow = "true" if kind == "may redirect" else "false"
    return injection(
        pods.created(found) if pod is None else pod,
        namespace=pods.ASKED,
        facts=Facts(callers=facts.callers, oldest_minor=minor),
        config=pods.config(allow_redirect=allow, export="http://collector:4318", **given),
    )


def test_every_shape_is_expected_to_become_something():
    assert EXPECTED.keys() == SHAPES.keys()
    assert len({key.partition(":")[0] for key in SHAPES}) == 19


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key", EXPECTED)
def test_it_is_planned_right(key, kind):
    decision = injected(key, kind).decision
    wanted = EXPECTED[key].allowed if kind == "may redirect" else EXPECTED[key].forbidden
    if isinstance(decision, Skip):
        assert decision.reason.value == wanted, decision.detail
    else:
        assert (decision.capture, f"{decision.container}:{decision.app_port}") == (wanted, EXPECTED[key].beside)


CAPTURED = [
    (key, kind)
    for key, expected in EXPECTED.items()
    for kind, wanted in zip(KINDS, (expected.allowed, expected.forbidden), strict=True)
    if wanted in {"named", "redirect"}
]


@pytest.mark.parametrize(("key", "kind"), CAPTURED)
def test_a_second_round_changes_nothing_though_defaults_were_filled_in(key, kind):
    once = injected(key, kind)
    assert once.patch
    assert injected(key, kind, pod=pods.defaulted(once.pod)).patch == ()


@pytest.mark.parametrize(("key", "kind"), CAPTURED)
def test_the_pod_from_before_comes_back(key, kind):
    before = pods.created(SHAPES[key][1])
    assert original(injected(key, kind).pod) == before


@pytest.mark.parametrize(("key", "kind"), CAPTURED)
def test_the_patch_makes_the_pod_and_another_program_reads_it_alike(key, kind):
    before = pods.created(SHAPES[key][1])
    once = injected(key, kind)
    assert applied(before, once.patch) == once.pod
    assert jsonpatch.apply_patch(before, list(once.patch)) == once.pod


@pytest.mark.parametrize("minor", [33, 28])
@pytest.mark.parametrize(("key", "kind"), CAPTURED)
def test_kubernetes_knows_every_field(key, kind, minor):
    made = injected(key, kind, minor=minor).pod
    kube.validate(made, kube.NEWEST)
    own_natives = any(each.get("restartPolicy") for each in SHAPES[key][1].pod["spec"].get("initContainers", []))
    if minor < 29 and not own_natives:
        kube.validate(made, kube.OLDEST)


@pytest.mark.parametrize("minor", [33, 28])
@pytest.mark.parametrize(("key", "kind"), CAPTURED)
def test_the_class_of_the_pod_stays(key, kind, minor):
    before = pods.created(SHAPES[key][1])
    assert kube.qos_class(injected(key, kind, minor=minor).pod) == kube.qos_class(before)


@pytest.mark.parametrize(("key", "kind"), CAPTURED)
def test_the_sidecar_is_restricted_and_only_the_redirect_asks_for_more(key, kind):
    once = injected(key, kind)
    assert kube.against_restricted(once.pod, {SIDECAR}) == []
    is_redirect = once.decision.capture == "redirect"
    assert kube.against_restricted(once.pod, {REDIRECT}) == ([f"{REDIRECT}: add"] if is_redirect else [])


@pytest.mark.parametrize(("key", "kind"), CAPTURED)
def test_the_kubelet_asks_the_app_as_before(key, kind):
    """By number, and at the app's own port; a redirecting pod's by the port that the kernel hands to the app."""
    before = pods.created(SHAPES[key][1])
    once = injected(key, kind)
    plan = once.decision
    handed_on = {plan.probe_port: plan.app_port} if plan.probe_port else {}
    after = [(name, what, handed_on.get(port, port)) for name, what, port in kube.asked(once.pod) if name != SIDECAR]
    assert sorted(after) == sorted(kube.asked(before))
    taken = {plan.listen_port} | ({plan.app_port} if plan.capture == "redirect" else set())
    assert not [each for each in kube.asked(once.pod) if each[2] in taken]


@pytest.mark.parametrize("minor", [31, 33])
@pytest.mark.parametrize(("key", "kind"), CAPTURED)
def test_who_calls_by_name_comes_to_the_sidecar_on_old_and_new_clusters(key, kind, minor):
    """Before 1.33 a name is not found among the ports of native sidecars: it stays on the app's container."""
    _, found, facts = SHAPES[key]
    before, once = pods.created(found), injected(key, kind)
    plan = once.decision
    if plan.capture == "redirect":
        assert plan.edits == () or all("Probe" in str(edit.path) for edit in plan.edits)
        return
    targets = [each.target for caller in facts.callers if caller.calls(before) for each in caller.called]
    reached = [target for target in targets if kube.found_port(before, target, minor=minor) == plan.app_port]
    is_proxys = plan.container not in {each["name"] for each in before["spec"]["containers"]}
    assert reached or (is_proxys and minor < 33)  # a name of a native proxy led nowhere before, either
    assert {kube.found_port(once.pod, target, minor=minor) for target in reached} <= {plan.listen_port}


@pytest.mark.parametrize(("key", "kind"), CAPTURED)
def test_nothing_else_of_the_app_changes(key, kind):
    before, once = pods.created(SHAPES[key][1]), injected(key, kind)
    for section in ("containers", "initContainers"):
        others = [each for each in once.pod["spec"].get(section, []) if each["name"] not in {SIDECAR, REDIRECT}]
        assert [each["name"] for each in others] == [each["name"] for each in before["spec"].get(section, [])]
        for old, new in zip(before["spec"].get(section, []), others, strict=True):
            for key_ in ("image", "command", "args", "env", "envFrom", "resources", "volumeMounts", "securityContext"):
                assert old.get(key_) == new.get(key_)


@pytest.mark.parametrize(("key", "kind"), CAPTURED)
def test_the_sidecar_takes_its_settings(key, kind):
    once = injected(key, kind)
    own = kube_container(once.pod, SIDECAR)
    environ = {each["name"]: each["value"] for each in own["env"] if each["name"].startswith(PREFIX)}
    read = config_of({}, environ)
    assert str(read.listen[0]).endswith(f":{once.decision.listen_port}")
    assert read.upstream.endswith(f":{once.decision.app_port}")
    assert read.hop == once.decision.container
    assert environ.keys() == {
        PREFIX + name.upper() for name in variables(once.decision, pods.config(export="http://c"))
    }


@pytest.mark.parametrize("key", [key for key, expected in EXPECTED.items() if expected.allowed == expected.forbidden])
def test_without_a_sidecar_only_the_reason_is_written(key):
    once = injected(key, "may redirect")
    if isinstance(once.decision, Plan):
        return
    before = pods.created(SHAPES[key][1])
    if once.decision.reason.is_silent:
        assert (once.pod, once.patch) == (before, ())
        return
    assert once.decision.reason.value in annotations_of(once.pod)[STATUS]
    assert original(once.pod) == before
    assert injected(key, "may redirect", pod=once.pod).patch == ()


def test_a_namespace_that_did_not_ask_gets_nothing():
    for key in EXPECTED:
        _, found, facts = SHAPES[key]
        made = injection(pods.created(found), namespace=Namespace("other"), facts=facts, config=pods.config())
        assert made.patch == ()


def kube_container(pod, name):
    every = (*pod["spec"]["containers"], *pod["spec"].get("initContainers", []))
    return next(each for each in every if each["name"] == name)
