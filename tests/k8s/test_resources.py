"""The class of a pod is what it was, and people get what they asked for where that leaves the choice."""

from __future__ import annotations

import copy
import dataclasses

import pytest
from hypothesis import given

from k8s.resources import Qos, Wanted, fitting, qos, resources
from tests.support import kube, pods
from tests.support.any_pods import any_pods

WANTED = Wanted(cpu="100m", memory="96Mi", cpu_limit=None, memory_limit="256Mi", guaranteed_cpu="500m")


@given(pod=any_pods())
def test_the_class_is_that_of_the_documentation(pod):
    assert qos(pod).value == kube.qos_class(pod)


@given(pod=any_pods())
def test_a_further_container_changes_no_class(pod):
    more = copy.deepcopy(pod)
    more["spec"]["containers"].append(pods.container("gapline", resources=resources(pod, WANTED)))
    assert qos(more) is qos(pod)


def test_a_pod_that_speaks_for_all_its_containers_shares_what_it_says():
    whole = pods.pod(resources={"requests": {"cpu": "4", "memory": "8Gi"}, "limits": {"cpu": "4", "memory": "8Gi"}})
    assert (qos(whole), resources(whole, WANTED)) == (Qos.GUARANTEED, {})


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({}, {}),
        (
            {"requests": {"cpu": "1"}},
            {"requests": {"cpu": "100m", "memory": "96Mi"}, "limits": {"memory": "256Mi"}},
        ),
        (
            {"limits": {"cpu": "1", "memory": "1Gi"}},
            {"requests": {"cpu": "500m", "memory": "256Mi"}, "limits": {"cpu": "500m", "memory": "256Mi"}},
        ),
        (
            {"requests": {"cpu": "1000m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1024Mi"}},
            {"requests": {"cpu": "500m", "memory": "256Mi"}, "limits": {"cpu": "500m", "memory": "256Mi"}},
        ),
    ],
)
def test_what_a_sidecar_asks_follows_from_the_class(given_, expected):
    assert resources(pods.pod(pods.container(resources=given_)), WANTED) == expected


def test_a_limit_of_cpu_is_given_where_one_was_asked_for():
    wanted = Wanted(cpu="100m", memory="96Mi", cpu_limit="2", memory_limit="1Gi", guaranteed_cpu="500m")
    burstable = pods.pod(pods.container(resources={"requests": {"cpu": "1"}}))
    assert resources(burstable, wanted)["limits"] == {"cpu": "2", "memory": "1Gi"}
    assert resources(pods.pod(pods.container(resources=pods.FULL)), wanted)["requests"] == {"cpu": "2", "memory": "1Gi"}


def test_where_every_container_has_a_limit_of_cpu_so_has_the_sidecar():
    """Else a quota on limits of CPU refuses the pod that it let pass before."""
    limited = pods.container(resources={"limits": {"cpu": "2"}, "requests": {"cpu": "1"}})
    assert resources(pods.pod(limited), WANTED)["limits"] == {"cpu": "500m", "memory": "256Mi"}
    beside = pods.container("beside", resources={"requests": {"cpu": "1"}})
    assert resources(pods.pod(limited, beside), WANTED)["limits"] == {"memory": "256Mi"}
    assert resources(pods.pod(limited, initContainers=[beside]), WANTED)["limits"] == {"memory": "256Mi"}
    more = dataclasses.replace(WANTED, cpu="2")
    assert resources(pods.pod(limited), more) == {
        "requests": {"cpu": "2", "memory": "96Mi"},
        "limits": {"cpu": "2", "memory": "256Mi"},
    }


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ((None, None), ("96Mi", "256Mi")),
        (("1Gi", None), ("1Gi", "1Gi")),
        ((None, "64Mi"), ("64Mi", "64Mi")),
        (("32Mi", "64Mi"), ("32Mi", "64Mi")),
    ],
)
def test_what_is_usual_gives_way_to_what_was_asked_for(asked, expected):
    assert fitting(asked, ("96Mi", "256Mi")) == expected


def test_without_a_limit_any_request_fits():
    assert fitting(("4", None), ("100m", None)) == ("4", None)
