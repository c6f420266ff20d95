"""What runs without the sidecar that it asked for is found, with the reason; and what is passed by."""

from __future__ import annotations

import pytest

from k8s.audit import Auditor, namespaces_of, router_of
from k8s.callers import callers_of
from k8s.facts import Facts, Namespace
from k8s.keys import INJECT, STATUS
from k8s.renderer import injection
from tests.support import pods

FACTS = Facts(callers=callers_of([pods.service("http")]), oldest_minor=33)


def running(pod, name="app-1", namespace="team-a", owner=None, **status):
    metadata = pod["metadata"] | {"name": name, "namespace": namespace}
    if owner:
        metadata["ownerReferences"] = [{"kind": "ReplicaSet", "name": owner, "controller": True}]
    return {**pod, "metadata": metadata, "status": {"phase": "Running", **status}}


def injected(pod, facts=FACTS):
    return injection(pod, namespace=pods.ASKED, facts=facts, config=pods.config()).pod


def audited(*listed, facts=FACTS, namespace=pods.ASKED):
    auditor = Auditor({namespace.name: namespace}, {namespace.name: facts}, config=pods.config(), own="gapline")
    for each in listed:
        auditor.look(each)
    return auditor.audit()


def test_a_pod_with_its_sidecar_is_no_news():
    found = audited(running(injected(pods.pod())))
    assert (found.asked_count, found.bare_count, found.findings) == (1, 0, ())


def test_a_pod_that_the_webhook_never_saw_is_found_with_what_would_become_of_it():
    (seen,) = audited(running(pods.pod())).findings
    assert (seen.reason, seen.pod) == ("never-seen", "app-1")
    assert "make it anew" in seen.detail
    (hopeless,) = audited(running(pods.pod(hostNetwork=True))).findings
    assert hopeless.reason == "never-seen"
    assert "no sidecar (host-network)" in hopeless.detail


def test_a_reason_that_was_written_is_told():
    skipped = injected(pods.pod(pods.container(ports=[pods.http(None)])))
    (found,) = audited(running(skipped)).findings
    assert found.reason == "called-by-number"
    assert "port 8000 has no name" in found.detail


def test_a_status_that_cannot_be_read_is_told():
    (found,) = audited(running(pods.pod(annotations={STATUS: "?"}))).findings
    assert found.reason == "changed-since"


def test_a_service_that_came_later_and_calls_by_number_passes_the_sidecar_by():
    numeric = Facts(callers=callers_of([pods.service("http"), pods.service(8000, name="later")]))
    found = audited(running(injected(pods.pod())), facts=numeric)
    assert [each.reason for each in found.findings] == ["passed-by"]
    assert "Service later" in found.findings[0].detail
    assert found.bare_count == 0


def test_a_router_that_runs_passes_sidecars_by_and_one_that_has_ended_does_not():
    words = ["--service-discovery", "k8s", "--k8s-label-selector", "app=app", "--k8s-port", "8000"]
    router = running(pods.pod(pods.container(args=words), labels={"app": "router"}), name="router-1")
    found = router_of(router)
    assert found.namespace == "team-a"
    by_router = Facts(callers=(*FACTS.callers, found))
    assert [each.reason for each in audited(running(injected(pods.pod())), facts=by_router).findings] == ["passed-by"]
    assert router_of({**router, "status": {"phase": "Failed"}}) is None


@pytest.mark.parametrize(
    "pod",
    [
        running(pods.pod(labels={INJECT: "false"})),
        running(pods.pod(annotations={"kubernetes.io/config.mirror": "x"})),
        running(pods.pod(), phase="Succeeded"),
        running(pods.pod(), namespace="kube-system"),
        running(pods.pod(), namespace="gapline"),
        running(pods.pod(), namespace="silent"),
        {"metadata": {"deletionTimestamp": "2026-11-30T00:00:00Z", **pods.pod()["metadata"]}, "spec": {}},
        {},
    ],
)
def test_who_did_not_ask_or_is_over_does_not_count(pod):
    pod = (
        pod
        if pod.get("metadata", {}).get("namespace")
        else {**pod, "metadata": {**pod.get("metadata", {}), "namespace": "x"}}
    )
    namespaces = {name: Namespace(name, {INJECT: "enabled"}) for name in ("team-a", "kube-system", "gapline", "x")}
    if not pod["metadata"].get("deletionTimestamp"):
        namespaces.pop("x")
    auditor = Auditor(namespaces, {}, config=pods.config(), own="gapline")
    auditor.look(pod)
    assert auditor.audit().asked_count == 0


def test_pods_of_one_workload_are_one_line():
    found = audited(*(running(pods.pod(), name=f"app-{index}", owner="app") for index in range(3)), running(pods.pod()))
    assert [(each.workload, each.count) for each in found.findings] == [("ReplicaSet app", 3), ("Pod app-1", 1)]
    assert (found.asked_count, found.bare_count) == (4, 4)


def test_a_pods_own_label_asks_too():
    asking = running(pods.pod(labels={INJECT: "true"}))
    assert audited(asking, namespace=Namespace("team-a")).bare_count == 1


def test_namespaces_are_found_among_other_things():
    namespace = {"kind": "Namespace", "metadata": {"name": "a", "labels": {"x": "y"}}}
    found = namespaces_of([namespace, pods.service(), {"kind": "Namespace"}])
    assert found == {"a": Namespace("a", {"x": "y"}, {})}
