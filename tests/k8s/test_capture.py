"""Which way leads callers to the sidecar, and what of the app changes for it."""

from __future__ import annotations

import pytest

from k8s.callers import callers_of
from k8s.capture import port_edits, way_to
from k8s.decisions import Edit, Reason, SkipError
from k8s.facts import Facts, Namespace, Situation
from k8s.ports import target
from k8s.wishes import Wishes
from tests.support import pods

RESTRICTED = Namespace("team-a", labels={"pod-security.kubernetes.io/enforce": "baseline"})
PRIVILEGED = Namespace("team-a", labels={"pod-security.kubernetes.io/enforce": "privileged"})


def way(*services, asked="auto", allow="true", namespace=pods.ASKED, pod=None, known=True):
    pod = pod or pods.pod()
    facts = Facts(callers=callers_of(services) if known else None)
    situation = Situation(pod, namespace, facts, pods.config(allow_redirect=allow))
    try:
        return way_to(target(pod, Wishes(), ()), situation, asked=asked)
    except SkipError as error:
        return error.skip.reason


def test_who_calls_by_name_follows_the_name():
    assert way(pods.service("http")) == ("named", [])


@pytest.mark.parametrize(("services", "known"), [((), True), ((), False), ((pods.service("other"),), True)])
def test_where_nobody_is_known_to_call_by_name_it_is_said(services, known):
    found, notes = way(*services, known=known)
    assert (found, len(notes)) == ("named", 1)


def test_one_caller_by_number_is_enough_to_need_the_kernel():
    both = pods.service("http"), pods.service(8000)
    assert way(*both) == ("redirect", [])
    assert way(*both, namespace=PRIVILEGED) == ("redirect", [])
    assert way(*both, allow="false") is Reason.NUMERIC_CALLERS
    assert way(*both, namespace=RESTRICTED) is Reason.NUMERIC_CALLERS
    assert way(*both, pod=pods.pod(pods.container(ports=[pods.http()]), pods.container("istio-proxy"))) is (
        Reason.NUMERIC_CALLERS
    )


def test_the_way_that_was_asked_for_is_taken_or_refused():
    assert way(pods.service("http"), asked="redirect") == ("redirect", [])
    assert way(pods.service("http"), asked="redirect", allow="false") is Reason.REDIRECT_FORBIDDEN
    assert way(pods.service(8000), asked="named") is Reason.NUMERIC_CALLERS


def test_a_name_that_leads_elsewhere_is_no_way():
    twice = pods.pod(pods.container("a", ports=[pods.http()]), pods.container("b", ports=[pods.http("http", 9)]))
    situation = Situation(twice, pods.ASKED, Facts(callers=()), pods.config())
    with pytest.raises(SkipError, match="leads to a, not to b"):
        way_to(target(twice, Wishes(container="b"), ()), situation, asked="auto")


PROBED = pods.pod(
    pods.container(
        ports=[pods.http()],
        readinessProbe=pods.probe("http"),
        livenessProbe=pods.probe(8000),
        startupProbe=pods.probe("http", host="127.0.0.1"),
        lifecycle={"preStop": pods.probe("http")},
    ),
    pods.container("other", livenessProbe=pods.probe(8000)),
)
READY, LIVE = ("readinessProbe", "httpGet", "port"), ("livenessProbe", "httpGet", "port")
STOP = ("lifecycle", "preStop", "httpGet", "port")


def edits(way, **ports):
    return set(port_edits(PROBED, target(PROBED, Wishes(), ()), way, **ports))


def test_a_port_that_keeps_its_name_gets_the_number_and_its_probes_the_apps():
    assert edits("named", listen_port=24_080, probe_port=None) == {
        Edit("app", ("ports", 0, "containerPort"), 8000, 24_080),
        Edit("app", READY, "http", 8000),
        Edit("app", STOP, "http", 8000),
    }


def test_in_a_redirecting_pod_everything_that_the_kubelet_sends_there_goes_round_the_sidecar():
    assert edits("redirect", listen_port=24_080, probe_port=24_081) == {
        Edit("app", READY, "http", 24_081),
        Edit("app", LIVE, 8000, 24_081),
        Edit("app", STOP, "http", 24_081),
        Edit("other", LIVE, 8000, 24_081),
    }


def test_where_the_app_was_moved_its_probes_move_too():
    moved = pods.pod(
        pods.container(ports=[pods.http()], readinessProbe=pods.probe("http"), livenessProbe=pods.probe(18000))
    )
    found = target(moved, Wishes(port=18000), ())
    assert list(port_edits(moved, found, "explicit", listen_port=8000, probe_port=None)) == [
        Edit("app", READY, "http", 18000)
    ]


def test_a_port_of_two_names_is_led_by_both():
    """Else who calls by the other name comes to the app, past the sidecar, and nobody hears of it."""
    app = pods.container(ports=[pods.http(), pods.http("api"), pods.http("odd", 9)], readinessProbe=pods.probe("api"))
    pod = pods.pod(app)
    found = target(pod, Wishes(port="http"), ())
    assert list(port_edits(pod, found, "named", listen_port=24_080, probe_port=None)) == [
        Edit("app", ("ports", 0, "containerPort"), 8000, 24_080),
        Edit("app", ("ports", 1, "containerPort"), 8000, 24_080),
        Edit("app", READY, "api", 8000),
    ]
    only = pods.pod(pods.container(ports=[pods.http(), pods.http("api")]))
    assert way(pods.service("api"), pod=only) == ("named", [])
    assert way(pods.service("api", spec={"clusterIP": "None"}), pod=only, allow="false") is Reason.NUMERIC_CALLERS
