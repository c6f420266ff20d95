"""What a sidecar says of its place, before the pod has a name or a node."""

from __future__ import annotations

import pytest

from k8s.attributes import resource_attributes
from tests.support import pods


def said(pod, *, asked=()):
    text = resource_attributes(pod, container="app", asked=asked)
    return dict(pair.split("=", 1) for pair in text.split(","))


def owned(kind, name, **labels):
    pod = pods.pod(labels=labels)
    pod["metadata"]["ownerReferences"] = [{"kind": kind, "name": name}]
    return pod


def test_the_kubelet_fills_in_what_is_not_known_yet():
    assert said(pods.pod()) == {
        "k8s.pod.name": "$(POD_NAME)",
        "k8s.namespace.name": "$(POD_NAMESPACE)",
        "k8s.pod.uid": "$(POD_UID)",
        "k8s.node.name": "$(NODE_NAME)",
        "k8s.container.name": "app",
    }


def test_a_deployment_is_called_as_its_replica_set_without_the_hash():
    found = said(owned("ReplicaSet", "gw-5d9f8c7b6d", **{"pod-template-hash": "5d9f8c7b6d"}))
    assert (found["k8s.replicaset.name"], found["k8s.deployment.name"]) == ("gw-5d9f8c7b6d", "gw")
    assert "k8s.deployment.name" not in said(owned("ReplicaSet", "by-hand"))


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet", "Job"])
def test_other_workloads_own_their_pods(kind):
    assert said(owned(kind, "w"))[f"k8s.{kind.lower()}.name"] == "w"
    assert "w" not in said(owned("Node", "w")).values()


def test_some_workloads_are_told_by_labels():
    assert said(pods.pod(labels={"ray.io/cluster": "llm"}))["k8s.raycluster.name"] == "llm"


def test_what_was_asked_for_wins_and_cannot_break_out():
    found = said(pods.pod(), asked=(("k8s.container.name", "else"), ("team", "a=b,c $(POD_IP)%")))
    assert found["k8s.container.name"] == "else"
    assert found["team"] == "a%3Db%2Cc%20%24%28POD_IP%29%25"
