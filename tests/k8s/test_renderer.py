"""A plan is carried out on the pod as it came; seen again, nothing happens twice and nothing of people's is lost."""

from __future__ import annotations

import copy
import json
import time

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8s.decisions import Plan, Reason, Skip
from k8s.facts import NOTHING_KNOWN, Facts, Namespace
from k8s.keys import INJECT, INJECTED, NO_TOKEN, REDIRECT, SIDECAR, STATUS
from k8s.patch import applied
from k8s.renderer import injection
from k8s.status import original
from tests.support import kube, pods
from tests.support.any_pods import GARBAGE, any_configs, any_facts, any_namespaces, any_pods

NEW = Facts(oldest_minor=33)


def inject(pod, *, namespace=pods.ASKED, facts=NEW, config=None, **more):
    return injection(pod, namespace=namespace, facts=facts, config=config or pods.config(), **more)


def names(pod, section):
    return [each["name"] for each in pod["spec"].get(section, [])]


@given(pod=any_pods(), facts=any_facts(), namespace=any_namespaces, config=any_configs)
def test_whatever_pod_comes_the_same_holds(pod, facts, namespace, config):
    as_it_came = copy.deepcopy(pod)
    once = injection(pod, namespace=namespace, facts=facts, config=config)
    assert pod == as_it_came
    assert applied(pod, once.patch) == once.pod == jsonpatch.apply_patch(pod, list(once.patch))
    assert original(once.pod) == pod
    assert kube.qos_class(once.pod) == kube.qos_class(pod)
    assert kube.against_restricted(once.pod, {SIDECAR}) in ([], [f"{SIDECAR}: runAsUser"])
    kube.validate(once.pod, kube.NEWEST)
    assert kube.against_limits(once.pod, SIDECAR) == []
    again = injection(pods.defaulted(once.pod), namespace=namespace, facts=facts, config=config)
    assert again.patch == ()
    assert again.decision == once.decision
    for section in ("containers", "initContainers", "volumes"):
        assert len({*names(once.pod, section)}) == len(names(once.pod, section))


@given(pod=GARBAGE.filter(lambda value: isinstance(value, dict)), facts=any_facts())
def test_no_pod_however_odd_raises(pod, facts):
    odd = {"metadata": {"labels": {INJECT: "true"}}, **pod}
    made = inject(odd, facts=facts)
    assert applied(odd, made.patch) == made.pod
    json.dumps(made.patch)


@given(status=st.text() | GARBAGE.map(json.dumps))
def test_no_status_however_odd_raises_or_is_believed(status):
    pod = pods.pod(annotations={STATUS: status})
    made = inject(pod)
    assert made.patch == () or original(made.pod) == original(pod)


MANY = 4_000
"""Of anything in a pod. The API server asks before it looks whether there may be so many."""


@pytest.mark.parametrize(
    "pod",
    [
        pods.pod(*(pods.container(f"c{index}", ports=[pods.http(None)]) for index in range(MANY))),
        pods.pod(pods.container(ports=[pods.http(None, 1 + index) for index in range(MANY)])),
        pods.pod(pods.container(ports=[pods.http("metrics-" * (10 * MANY) + "\n")])),
        pods.pod(
            *(
                pods.container(f"c{index}", ports=[pods.http()], readinessProbe=pods.probe(8000))
                for index in range(MANY)
            ),
            annotations={"gapline.dev/capture": "redirect", "gapline.dev/container": "c1"},
        ),
        pods.pod(
            pods.container(
                ports=[pods.http()], env=[{"name": f"V{index}", "value": "http://next"} for index in range(MANY)]
            ),
            annotations={"gapline.dev/egress": ",".join(f"V{index}" for index in range(MANY))},
        ),
    ],
    ids=["containers", "ports", "name", "probes", "variables"],
)
def test_a_pod_made_to_take_long_takes_time_by_its_size_only(pod):
    """One thread answers for all pods that are being made."""
    begun_s = time.process_time()
    inject(pod, config=pods.config(allow_redirect="true"))
    assert time.process_time() - begun_s < 4


@given(pod=any_pods())
def test_who_did_not_ask_is_left_alone(pod):
    assert inject(pod, namespace=Namespace("other")).patch == ()


def test_a_native_sidecar_stands_first_and_a_classic_one_last():
    pod = pods.pod(initContainers=[pods.container("fetch")])
    assert names(inject(pod).pod, "initContainers") == [SIDECAR, "fetch"]
    classic = inject(pod, facts=NOTHING_KNOWN, config=pods.config(kubernetes="1.28")).pod
    assert (names(classic, "containers"), names(classic, "initContainers")) == (["app", SIDECAR], ["fetch"])


def test_the_rules_of_a_redirect_come_before_everything():
    pod = pods.pod(pods.container(ports=[pods.http(None)]), initContainers=[pods.container("fetch")])
    config = pods.config(allow_redirect="true")
    assert names(inject(pod, config=config).pod, "initContainers") == [REDIRECT, SIDECAR, "fetch"]
    classic = inject(pod, facts=NOTHING_KNOWN, config=pods.config(allow_redirect="true", kubernetes="1.28")).pod
    assert (names(classic, "containers"), names(classic, "initContainers")) == (["app", SIDECAR], [REDIRECT, "fetch"])


def test_what_another_webhook_puts_in_stays_and_ours_stays_where_it_is():
    once = inject(pods.pod()).pod
    once["spec"]["initContainers"].insert(0, pods.container("istio-init"))
    once["spec"]["containers"].append(pods.container("istio-proxy"))
    once["spec"]["initContainers"][1]["resources"] = {"limits": {"memory": "1Gi"}}  # as a LimitRange does
    again = inject(pods.defaulted(once))
    assert again.patch == ()
    assert names(again.pod, "initContainers") == ["istio-init", SIDECAR]


def test_a_container_that_came_later_may_change_the_plan_but_not_its_place():
    full = pods.container(ports=[pods.http()], resources=pods.FULL)
    once = inject(pods.pod(full)).pod
    once["spec"]["initContainers"].insert(0, pods.container("istio-init"))
    again = inject(once)
    assert names(again.pod, "initContainers") == ["istio-init", SIDECAR]
    assert again.pod["spec"]["initContainers"][1]["resources"]["limits"] == {"memory": "256Mi"}
    assert kube.qos_class(again.pod) == "Burstable"
    assert inject(again.pod).patch == ()


def test_a_new_image_replaces_the_sidecar_and_nothing_else():
    once = inject(pods.pod())
    newer = inject(once.pod, config=pods.config(image="registry.example/gapline:9"))
    assert {each["path"] for each in newer.patch if each["op"] != "test"} == {
        "/metadata/annotations/gapline.dev~1status",
        "/spec/initContainers/0/image",
    }
    assert original(newer.pod) == pods.pod()


def test_index_paths_are_guarded_by_the_name_of_what_is_meant():
    pod = pods.pod(pods.container("first"), pods.container("app", ports=[pods.http()]))
    patch = inject(pod).patch
    guard = {"op": "test", "path": "/spec/containers/1/name", "value": "app"}
    assert patch.index(guard) < [each["path"] for each in patch].index("/spec/containers/1/ports/0/containerPort")


def test_fields_that_nobody_knows_survive():
    pod = pods.pod(pods.container(ports=[pods.http()], futureField={"a": [1]}), otherFuture=True)
    made = inject(pod).pod
    assert made["spec"]["containers"][0]["futureField"] == {"a": [1]}
    assert made["spec"]["otherFuture"] is True


def test_a_skip_is_written_once_and_rewritten_when_the_reason_changes():
    numeric = pods.pod(pods.container(ports=[pods.http(None)]))
    once = inject(numeric)
    assert '"reason":"called-by-number"' in once.pod["metadata"]["annotations"][STATUS]
    assert inject(once.pod).patch == ()
    later = inject(once.pod, config=pods.config(allow_redirect="true"))
    assert isinstance(later.decision, Plan)
    assert original(later.pod) == numeric


def test_a_sidecar_that_stands_there_is_not_taken_out_when_the_facts_speak_against_it():
    once = inject(pods.pod()).pod
    from k8s.callers import callers_of

    numeric = Facts(callers=callers_of([pods.service(8000)]), oldest_minor=33)
    again = inject(once, facts=numeric)
    assert isinstance(again.decision, Skip)
    assert again.patch == ()


def test_a_container_of_our_name_that_somebody_else_put_there_is_left_alone():
    made = inject(pods.pod(pods.container(ports=[pods.http()]), pods.container(SIDECAR)))
    assert made.decision.reason is Reason.PRESENT
    assert names(made.pod, "containers") == ["app", SIDECAR]


@pytest.mark.parametrize(
    "change",
    [
        lambda pod: pod["spec"]["containers"][0]["ports"][0].update(containerPort=9999),
        lambda pod: pod["spec"]["containers"][0].pop("ports"),
        lambda pod: pod["spec"]["containers"].pop(0),
        lambda pod: pod["spec"].pop("initContainers"),
    ],
)
def test_what_somebody_changed_behind_us_is_not_guessed_at(change):
    once = inject(pods.pod()).pod
    change(once)
    made = inject(once)
    assert made.decision.reason is Reason.CHANGED
    assert made.patch == ()


def test_the_pod_is_marked_and_the_token_is_out_of_sight():
    made = inject(pods.pod()).pod
    assert made["metadata"]["labels"][INJECTED] == "true"
    assert names(made, "volumes") == [NO_TOKEN]
