"""People are told what was decided in sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from k8s import keys
from k8s.callers import callers_of
from k8s.decisions import Reason, Skip
from k8s.explain import explained, headline
from k8s.facts import Facts
from k8s.planner import plan
from tests.support import pods

README = (Path(__file__).parents[2] / "k8s" / "README.md").read_text("utf-8")


def test_a_reason_is_one_line():
    assert explained(Skip(Reason.HOST_NETWORK, "it uses the node's")) == [
        "no sidecar (host-network): it uses the node's"
    ]


def test_a_plan_says_each_thing_that_changes():
    app = pods.container(
        ports=[pods.http()], readinessProbe=pods.probe("http"), env=[{"name": "URL", "value": "https://api.example/v1"}]
    )
    pod = pods.pod(app, annotations={"gapline.dev/egress": "URL", "gapline.dev/capture": "redirect"})
    facts = Facts(callers=callers_of([pods.service(8000)]), oldest_minor=28)
    lines = explained(plan(pod, namespace=pods.ASKED, facts=facts, config=pods.config(allow_redirect="true")))
    assert lines == [
        "classic sidecar beside app, port 8000: the kernel turns what comes in at 8000 over to 24080",
        "hop app, admin port 24090, image gapline:0.1.0",
        "app: readinessProbe.httpGet.port was http, is 24081",
        "app: env.0.value was https://api.example/v1, is http://127.0.0.1:24100/v1",
        "what the app asks of https://api.example passes 127.0.0.1:24100, as api.example",
        "probes come in at 24081, and the kernel hands them to the app",
        "resources: none, since the pod says none",
        "its end: 5 s after the pod is told to end, then up to 15 s",
    ]


def test_the_ways_are_told_apart():
    ways = {
        headline(
            plan(pods.pod(annotations=asked), namespace=pods.ASKED, facts=Facts(), config=pods.config())
        ).partition(": ")[2]
        for asked in (
            None,
            {"gapline.dev/capture": "explicit", "gapline.dev/listen-port": "80", "gapline.dev/upstream-port": "8000"},
        )
    }
    assert ways == {
        "callers come by the name of the port, which is declared at 24080 now",
        "it listens at 80, and the app was moved to 8000",
    }


@pytest.mark.parametrize("reason", Reason)
def test_the_readme_knows_every_reason(reason):
    assert f"`{reason.value}`" in README


@pytest.mark.parametrize(
    "key", [key for key in vars(keys).values() if isinstance(key, str) and key.startswith(keys.PREFIX)]
)
def test_the_readme_knows_every_key(key):
    assert key in README
