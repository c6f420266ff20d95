"""A pod is read as it comes: what is there is found, and what is not is nothing."""

from __future__ import annotations

import pytest

from k8s import pods as read
from tests.support import pods


def test_ports_of_other_protocols_are_none():
    app = pods.container(ports=[pods.http(), pods.http("udp", 53, protocol="UDP"), pods.http("tcp", 1, protocol="TCP")])
    (found,) = read.regular(pods.pod(app))
    assert [(port.index, port.name, port.number) for port in read.ports(found)] == [(0, "http", 8000), (2, "tcp", 1)]


def test_an_init_container_runs_on_only_where_it_says_so():
    pod = pods.pod(initContainers=[pods.container("ends"), pods.container("stays", restartPolicy="Always")])
    assert [each.name for each in read.running(pod)] == ["app", "stays"]
    assert [each.name for each in read.all_containers(pod)] == ["app", "ends", "stays"]
    assert [each.is_native for each in read.running(pod)] == [False, True]


def test_everything_that_the_kubelet_sends_is_found():
    app = pods.container(
        ports=[pods.http()],
        startupProbe={"grpc": {"port": 9000}},
        readinessProbe=pods.probe("http", scheme="HTTPS"),
        livenessProbe={"tcpSocket": {"port": "8000", "host": "10.0.0.1"}},
        lifecycle={"preStop": pods.probe(8000), "postStart": {"exec": {"command": ["true"]}}},
    )
    (found,) = read.regular(pods.pod(app))
    handlers = {handler.kind: handler for handler in read.handlers(found)}
    assert handlers.keys() == {"startupProbe", "readinessProbe", "livenessProbe", "preStop"}
    assert handlers["startupProbe"].is_grpc
    assert handlers["readinessProbe"].is_tls
    assert (handlers["livenessProbe"].port, handlers["livenessProbe"].host) == (8000, "10.0.0.1")
    assert handlers["preStop"].path == ("lifecycle", "preStop", "httpGet", "port")
    ports = read.ports(found)
    assert read.number_of(handlers["readinessProbe"], ports) == 8000


def test_a_name_is_looked_up_in_the_probes_own_container_only():
    app = pods.container(readinessProbe=pods.probe("http"))
    other = pods.container("other", ports=[pods.http()])
    first, second = read.regular(pods.pod(app, other))
    (handler,) = read.handlers(first)
    assert read.number_of(handler, [*read.ports(first), *read.ports(second)]) is None


@pytest.mark.parametrize("name", ["", "Upper", "a_b", "-a", "x" * 64, 1, None])
def test_a_container_whose_name_is_none_does_not_count(name):
    assert read.regular({"spec": {"containers": [{"name": name}]}}) == []


@pytest.mark.parametrize("name", ["", "Upper", "http\n", "x" * 16, 1, ["http"], None])
def test_a_port_with_a_name_that_is_none_has_none(name):
    [app] = read.regular(pods.pod(pods.container(ports=[{"name": name, "containerPort": 8000}])))
    assert [port.name for port in read.ports(app)] == [None]


@pytest.mark.parametrize("odd", [None, 1, "x", [], {"spec": []}, {"spec": {"containers": {"name": "a"}}}])
def test_what_is_no_pod_has_nothing(odd):
    assert read.running(odd) == []
    assert read.labels_of(odd) == read.annotations_of(odd) == {}


@pytest.mark.parametrize(("value", "is_one"), [(1, True), (65_535, True), (0, False), (65_536, False), (True, False)])
def test_a_port_is_a_number_in_its_range(value, is_one):
    assert read.is_port(value) is is_one


def test_the_command_line_is_command_and_arguments():
    (found,) = read.regular(pods.pod(pods.container(command=["a"], args=["--port", 8000])))
    assert found.words == ("a", "--port", "8000")
