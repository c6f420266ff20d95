"""What is decided for a pod, and why."""

from __future__ import annotations

import pytest
from hypothesis import given

from k8s.callers import callers_of
from k8s.decisions import Plan, Reason, Skip
from k8s.facts import Facts, Namespace
from k8s.keys import INJECT
from k8s.planner import plan
from tests.support import pods
from tests.support.any_pods import any_configs, any_facts, any_namespaces, any_pods

BY_NAME = Facts(callers=callers_of([pods.service("http")]), oldest_minor=33)


def decided(pod=None, *, namespace=pods.ASKED, facts=BY_NAME, config=None, **more):
    return plan(pod or pods.pod(), namespace=namespace, facts=facts, config=config or pods.config(), **more)


def reason(*args, **kwargs):
    found = decided(*args, **kwargs)
    assert isinstance(found, Skip), found
    return found.reason


@pytest.mark.parametrize(
    ("on_pod", "on_namespace", "is_asked"),
    [
        (None, None, False),
        (None, "enabled", True),
        (None, "true", True),
        ("true", None, True),
        ("enabled", "disabled", True),
        ("false", "enabled", False),
        ("disabled", "enabled", False),
        (None, "maybe", False),
    ],
)
def test_a_label_asks_and_the_pods_own_wins(on_pod, on_namespace, is_asked):
    pod = pods.pod(labels={INJECT: on_pod} if on_pod else None)
    found = decided(pod, namespace=Namespace("n", labels={INJECT: on_namespace} if on_namespace else {}))
    assert isinstance(found, Plan) is is_asked
    if isinstance(found, Skip):
        assert found.reason is Reason.NOT_ASKED


@pytest.mark.parametrize("value", ["enable", "no", "", "Enabled"])
def test_a_label_that_says_neither_is_told(value):
    """Where its namespace asked, the webhook hears of it; silence would be taken for a sidecar that sees nothing."""
    found = decided(pods.pod(labels={INJECT: value}))
    assert (found.reason, found.detail) == (
        Reason.BAD_ANNOTATION,
        f"label {INJECT}: {value!r}: must be enabled or disabled",
    )


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (pods.pod(hostNetwork=True), Reason.HOST_NETWORK),
        (pods.pod(annotations={"kubernetes.io/config.mirror": "x"}), Reason.MIRROR),
        (pods.pod(os={"name": "windows"}), Reason.WINDOWS),
        (pods.pod(nodeSelector={"kubernetes.io/os": "windows"}), Reason.WINDOWS),
        (pods.pod(pods.container("gapline", ports=[pods.http()])), Reason.PRESENT),
        (pods.pod(volumes=[{"name": "gapline-no-token", "emptyDir": {}}]), Reason.PRESENT),
        (pods.pod(annotations={"gapline.dev/typo": "x"}), Reason.BAD_ANNOTATION),
        (pods.pod(annotations={"gapline.dev/egress": "URL"}), Reason.BAD_EGRESS),
        (pods.pod(annotations={"gapline.dev/port": "nope"}), Reason.NO_SUCH_PORT),
        (pods.pod(annotations={"gapline.dev/capture": "redirect"}), Reason.REDIRECT_FORBIDDEN),
    ],
)
def test_what_cannot_be_seen_gets_nothing_and_the_reason(pod, expected):
    assert reason(pod) is expected


def test_a_job_gets_one_only_where_its_own_pods_ask_and_it_can_end():
    asking = pods.pod(labels={INJECT: "true"})
    assert reason(owner_kind="Job") is Reason.JOB
    assert isinstance(decided(asking, owner_kind="Job"), Plan)
    assert reason(asking, owner_kind="Job", facts=Facts(oldest_minor=28)) is Reason.JOB
    owned = pods.pod()
    owned["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "j"}]
    assert reason(owned) is Reason.JOB


@pytest.mark.parametrize(
    ("native", "cluster", "told", "is_native"),
    [
        ("auto", 29, "off", True),
        ("auto", 28, "off", False),
        ("auto", 28, "1.33", False),
        ("auto", None, "1.33", True),
        ("auto", None, "off", False),
        ("always", 20, "off", True),
        ("never", 33, "off", False),
    ],
)
def test_a_sidecar_is_native_where_every_node_is_known_to_have_them(native, cluster, told, is_native):
    config = pods.config(native=native, kubernetes=told)
    found = decided(facts=Facts(callers=BY_NAME.callers, oldest_minor=cluster), config=config)
    assert found.is_native is is_native


def test_an_app_that_was_moved_by_hand_is_asked_where_it_is():
    moved = {
        "gapline.dev/capture": "explicit",
        "gapline.dev/listen-port": "8000",
        "gapline.dev/upstream-port": "18000",
    }
    pod = pods.pod(
        pods.container(ports=[pods.http()], args=["--port", "18000"], readinessProbe=pods.probe(18000)),
        annotations=moved,
    )
    found = decided(pod, facts=Facts(callers=callers_of([pods.service(8000)])))
    assert (found.capture, found.listen_port, found.app_port, found.edits) == ("explicit", 8000, 18000, ())
    tls = pods.pod(
        pods.container(ports=[pods.http()], readinessProbe=pods.probe(18000, scheme="HTTPS")), annotations=moved
    )
    assert reason(tls) is Reason.TLS_PORT
    two = pods.pod(pods.container("a"), pods.container("b"), annotations=moved)
    assert reason(two) is Reason.BAD_ANNOTATION
    named = pods.pod(pods.container("a"), pods.container("b"), annotations={**moved, "gapline.dev/container": "b"})
    assert decided(named).container == "b"


def test_ports_give_way_to_everything_that_the_pod_names():
    app = pods.container(
        ports=[pods.http()],
        args=["--zmq-port=24080"],
        env=[{"name": "P", "value": "24081"}],
        livenessProbe=pods.probe(24090),
    )
    found = decided(pods.pod(app))
    assert (found.listen_port, found.admin_port) == (24_082, 24_091)


def test_ports_of_ours_give_way_to_each_other():
    taken = " ".join(str(number) for number in range(24_081, 24_090))
    crowded = pods.pod(pods.container(ports=[pods.http(None)], args=[taken]))
    found = decided(crowded, config=pods.config(allow_redirect="true"))
    assert (found.listen_port, found.probe_port, found.admin_port) == (24_080, 24_090, 24_091)


def test_amounts_that_were_asked_for_are_given():
    asked = {"gapline.dev/cpu": "2", "gapline.dev/memory-limit": "1Gi"}
    burstable = pods.pod(pods.container(ports=[pods.http()], resources={"requests": {"cpu": "1"}}), annotations=asked)
    assert dict(decided(burstable).resources)["requests"] == (("cpu", "2"), ("memory", "96Mi"))
    full = pods.pod(pods.container(ports=[pods.http()], resources=pods.FULL), annotations=asked)
    assert dict(decided(full).resources)["limits"] == (("cpu", "2"), ("memory", "1Gi"))


def test_the_hop_is_called_as_its_container_unless_somebody_says_otherwise():
    assert decided().hop == "app"
    assert decided(pods.pod(annotations={"gapline.dev/hop": "gateway"})).hop == "gateway"
    defaults = Namespace("n", labels={INJECT: "enabled"}, annotations={"gapline.dev/hop": "of-namespace"})
    assert decided(namespace=defaults).hop == "of-namespace"


def test_what_people_should_know_is_noted():
    assert decided().notes == ()
    assert len(decided(pods.pod(terminationGracePeriodSeconds=0)).notes) == 1
    assert "nobody looked" in decided(facts=Facts(oldest_minor=33)).notes[0]
    unknown = Facts(callers=BY_NAME.callers)
    assert "age of the nodes" in decided(facts=unknown, config=pods.config(kubernetes="off")).notes[0]
    assert decided(facts=unknown, config=pods.config(kubernetes="off", native="never")).notes == ()


@given(pod=any_pods(), facts=any_facts(), namespace=any_namespaces, config=any_configs)
def test_a_plan_never_lets_two_listen_on_one_port(pod, facts, namespace, config):
    found = plan(pod, namespace=namespace, facts=facts, config=config)
    if isinstance(found, Skip):
        assert found.detail
        return
    ports = [found.app_port, found.listen_port, found.admin_port, *(tap.port for tap in found.egress)]
    ports += [found.probe_port] if found.probe_port else []
    assert len({*ports}) == len(ports)
