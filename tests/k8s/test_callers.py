"""Who calls a pod, and by what: the name of its port, or the number."""

from __future__ import annotations

import pytest

from k8s.callers import by_name, by_number, called_at, callers_of, calling, families_of, router_in, spoken_at
from k8s.pods import Port
from tests.support import pods

HTTP = Port("app", 0, "http", 8000)
POOL = {"kind": "InferencePool", "metadata": {"name": "pool"}}


def called(*objects):
    return callers_of(objects)


@pytest.mark.parametrize(
    ("service", "numbers", "names"),
    [
        (pods.service("http"), [], ["Service svc"]),
        (pods.service(8000), ["Service svc"], []),
        (pods.service("8000"), ["Service svc"], []),
        (pods.service(None, port=8000), ["Service svc"], []),
        (pods.service(9000), [], []),
        (pods.service("other"), [], []),
        (pods.service("http", protocol="UDP"), [], []),
        (pods.service("http", labels={"app": "app", "tier": "x"}), [], []),
        (pods.service("http", spec={"clusterIP": "None"}), ["Service svc"], []),
        ({"kind": "Service", "metadata": {"name": "no-selector"}, "spec": {"ports": [{"port": 8000}]}}, [], []),
        ({**POOL, "spec": {"selector": {"matchLabels": {"app": "app"}}, "targetPorts": [{"number": 8000}]}}, ["x"], []),
        ({**POOL, "spec": {"selector": {"app": "app"}, "targetPortNumber": 8000}}, ["x"], []),
    ],
)
def test_a_port_is_called_by_name_or_by_number(service, numbers, names):
    pod, callers = pods.pod(), called(service)
    found = by_number(callers, pod, HTTP)
    assert found == numbers or (numbers == ["x"] and found == ["InferencePool pool"])
    assert by_name(callers, pod, HTTP) == names


def test_a_label_may_say_the_number():
    labelled = pods.pod(labels={"model.aibrix.ai/port": "8000"})
    assert by_number((), labelled, HTTP) == ["label model.aibrix.ai/port"]
    assert by_number((), pods.pod(labels={"model.aibrix.ai/port": "9000"}), HTTP) == []


@pytest.mark.parametrize(
    "args",
    [
        ["--service-discovery", "k8s", "--k8s-label-selector", "app=app", "--k8s-port", "8000"],
        ["--service-discovery=k8s", "--k8s-label-selector=app=app"],
        ["run --service-discovery k8s --k8s-label-selector 'app=app' --k8s-port 8000"],
    ],
)
def test_a_router_calls_pods_at_their_own_addresses(args):
    router = router_in(pods.pod(pods.container(args=args)), name="r", namespace="team-a")
    assert by_number([router], pods.pod(), HTTP) == ["router r"]
    assert by_number([router], pods.pod(labels={"app": "else"}), HTTP) == []


def test_a_pod_that_is_no_router_calls_nobody():
    assert router_in(pods.pod(), name="r", namespace="team-a") is None
    assert router_in(pods.pod(pods.container(args=["--k8s-label-selector", "a=b"])), name="r", namespace="n") is None


def test_what_a_port_speaks_is_said_by_those_who_call_it():
    callers = called(pods.service("http", appProtocol="kubernetes.io/h2c"), pods.service(9000, appProtocol="https"))
    ((who, found),) = spoken_at(callers, pods.pod(), HTTP)
    assert (who, found.is_h2, found.is_tls) == ("Service svc", True, False)
    ((_, found),) = spoken_at(callers, pods.pod(), 9000)
    assert (found.is_h2, found.is_tls) == (False, True)


def test_addresses_are_of_the_families_by_which_a_pod_is_called():
    both = pods.service(spec={"ipFamilies": ["IPv6", "IPv4"]})
    other = pods.service(labels={"app": "else"}, spec={"ipFamilies": ["IPv4"]})
    assert families_of(called(other, both, both), pods.pod()) == ("IPv6", "IPv4")
    assert called_at(called(both, other), pods.pod()) == {"http"}


@pytest.mark.parametrize("odd", [{}, {"kind": "Service"}, {"kind": "Service", "spec": {"selector": 1, "ports": 2}}])
def test_what_is_no_caller_is_passed_over(odd):
    assert called(odd) == ()


def test_who_calls_the_pod_is_told_from_who_calls_others():
    mine, others = pods.service("http", name="mine"), pods.service("http", name="others", labels={"app": "other"})
    assert [caller.name for caller in calling(called(mine, others), pods.pod())] == ["mine"]
