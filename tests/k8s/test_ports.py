"""The port that is meant is found, or the reason why it cannot be told."""

from __future__ import annotations

import pytest

from k8s.callers import callers_of
from k8s.decisions import Reason, SkipError
from k8s.ports import free_port, refuse_unreadable, target
from k8s.wishes import Wishes
from tests.support import pods


def meant(*containers, port=None, container=None, callers=(), **spec):
    found = target(pods.pod(*containers, **spec), Wishes(port=port, container=container), callers_of(callers))
    return found.container, found.number


def why(*containers, **given):
    with pytest.raises(SkipError) as raised:
        meant(*containers, **given)
    return raised.value.skip.reason


@pytest.mark.parametrize("name", ["http", "odd", None])
def test_an_only_port_is_meant_whatever_its_name(name):
    assert meant(pods.container(ports=[pods.http(name)])) == ("app", 8000)


def test_of_two_names_for_one_number_the_name_is_taken():
    both = pods.container(ports=[pods.http(None), pods.http("web")])
    assert target(pods.pod(both), Wishes(), ()).port.name == "web"
    assert target(pods.pod(both), Wishes(port=8000), ()).port.name == "web"


def test_a_name_is_that_of_a_port_of_the_container_that_is_meant():
    found = target(
        pods.pod(pods.container(ports=[pods.http(None)]), pods.container("b", ports=[pods.http()])), Wishes(), ()
    )
    assert (found.container, found.port.container) == ("b", "b")


@pytest.mark.parametrize("name", ["metrics", "zmq-port", "grpc", "nixl", "https", "dp-rpc", "h2c", "http-queueadm"])
def test_ports_at_which_no_request_comes_in_are_none(name):
    assert meant(pods.container(ports=[pods.http(name, 1), pods.http("odd", 2)])) == ("app", 2)
    assert why(pods.container(ports=[pods.http(name, 1)])) is Reason.NO_HTTP_PORT


def test_a_port_without_a_name_is_no_grpc_port_unless_it_is_asked_so():
    grpc = pods.container(ports=[pods.http(None, 1), pods.http("odd", 2)], readinessProbe={"grpc": {"port": 1}})
    assert meant(grpc) == ("app", 2)


def test_a_usual_name_is_meant_where_there_are_several():
    assert meant(pods.container(ports=[pods.http("odd", 1), pods.http("openai", 2)])) == ("app", 2)


def test_a_proxy_of_the_pod_stands_before_its_model_server():
    server = pods.container("main", ports=[pods.http(None, 8001)])
    proxy = pods.container("routing", ports=[pods.http(None, 8000)], restartPolicy="Always")
    assert meant(server, initContainers=[proxy]) == ("routing", 8000)


def test_who_is_called_is_meant_before_who_is_asked_for_readiness():
    app = pods.container(ports=[pods.http("one", 1), pods.http("two", 2)], readinessProbe=pods.probe(2))
    assert meant(app) == ("app", 2)
    assert meant(app, callers=[pods.service(1)]) == ("app", 1)
    assert meant(app, callers=[pods.service("one"), pods.service("two")]) == ("app", 2)


def test_several_ports_and_no_hint_are_ambiguous():
    assert why(pods.container(ports=[pods.http("one", 1), pods.http("two", 2)])) is Reason.AMBIGUOUS_PORT


def test_a_port_that_only_a_service_knows_is_enough():
    assert meant(pods.container(), callers=[pods.service(8080)]) == ("app", 8080)
    assert why(pods.container(), callers=[pods.service("http")]) is Reason.NO_HTTP_PORT
    assert why(pods.container(), callers=[pods.service(1), pods.service(2)]) is Reason.NO_HTTP_PORT


def test_a_port_that_was_asked_for_is_taken_whatever_it_is_called():
    app = pods.container(ports=[pods.http("metrics", 1), pods.http("http", 2)])
    assert meant(app, port="metrics") == ("app", 1)
    assert meant(app, port=2) == ("app", 2)
    assert meant(app, port=9) == ("app", 9)
    assert why(app, port="typo") is Reason.NO_SUCH_PORT
    assert why(app, pods.container("other"), port=9) is Reason.NO_SUCH_PORT
    assert meant(app, pods.container("other"), port=9, container="other") == ("other", 9)


def test_a_container_that_was_asked_for_must_be_there():
    two = pods.container("a", ports=[pods.http()]), pods.container("b", ports=[pods.http("http", 9)])
    assert meant(*two, container="b") == ("b", 9)
    assert why(*two, container="c") is Reason.BAD_ANNOTATION


def test_a_mesh_is_no_app():
    mesh = pods.container("istio-proxy", ports=[pods.http("http", 15_090)])
    assert meant(mesh, pods.container(ports=[pods.http("odd")])) == ("app", 8000)


def refused(app, callers=()):
    pod = pods.pod(app)
    try:
        refuse_unreadable(pod, target(pod, Wishes(), ()), callers_of(callers))
    except SkipError as error:
        return error.skip.reason
    return None


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({}, None),
        ({"readinessProbe": pods.probe("http", scheme="HTTPS")}, Reason.TLS_PORT),
        ({"livenessProbe": pods.probe(8000, scheme="HTTPS")}, Reason.TLS_PORT),
        ({"livenessProbe": pods.probe(9000, scheme="HTTPS")}, None),
        ({"livenessProbe": {"grpc": {"port": 8000}}}, Reason.H2_PORT),
        ({"args": ["--ssl-keyfile", "/tls.key"]}, Reason.TLS_PORT),
        ({"command": ["sh", "-c", "serve --ssl-certfile=/tls.crt"]}, Reason.TLS_PORT),
        ({"args": ["--ssl-verify"]}, None),
    ],
)
def test_a_port_of_tls_or_http_2_is_refused(more, reason):
    assert refused(pods.container(ports=[pods.http()], **more)) is reason


@pytest.mark.parametrize(
    ("protocol", "reason"),
    [
        ("kubernetes.io/h2c", Reason.H2_PORT),
        ("grpc", Reason.H2_PORT),
        ("https", Reason.TLS_PORT),
        ("http", None),
        ("kubernetes.io/ws", None),
        ("kubernetes.io/wss", Reason.TLS_PORT),
    ],
)
def test_a_service_may_say_what_it_speaks(protocol, reason):
    assert refused(pods.container(ports=[pods.http()]), [pods.service("http", appProtocol=protocol)]) is reason
    assert refused(pods.container(ports=[pods.http()]), [pods.service(9, appProtocol=protocol)]) is None


def test_ports_of_ours_give_way_to_those_of_the_pod():
    assert free_port(24_080, {24_080, 24_081}) == 24_082
    with pytest.raises(SkipError, match="are taken"):
        free_port(24_198, {24_198, 24_199})
