"""The containers, word for word where it matters."""

from __future__ import annotations

import pytest

from k8s import container
from k8s.callers import callers_of
from k8s.config import PodConfig
from k8s.decisions import Plan
from k8s.facts import Facts, Namespace
from k8s.keys import INJECT
from k8s.planner import plan
from k8s.ruleset import ruleset
from sidecar.config import PREFIX, config_of
from tests.support import pods


def made(pod=None, *, config=None, namespace=pods.ASKED, callers=(), minor=33):
    pod, config = pod or pods.pod(), config or pods.config()
    facts = Facts(callers=callers_of(callers), oldest_minor=minor)
    decided = plan(pod, namespace=namespace, facts=facts, config=config)
    assert isinstance(decided, Plan)
    return decided, container.sidecar(decided, config, pod)


def environ(own):
    return {each["name"]: each.get("value") for each in own["env"]}


def test_the_sidecar_asks_nothing_of_the_app_before_it_is_ready():
    decided, own = made()
    for probe in ("startupProbe", "readinessProbe"):
        assert own[probe]["httpGet"] == {"path": "/readyz", "port": decided.admin_port, "scheme": "HTTP"}
    assert "livenessProbe" not in own  # a restart would cut every stream that runs


@pytest.mark.parametrize(
    ("families", "listen", "admin", "upstream"),
    [
        (["IPv4"], "0.0.0.0:24080", "0.0.0.0:24090", "http://127.0.0.1:8000"),
        (["IPv6"], "[::]:24080", "[::]:24090", "http://localhost:8000"),
        (["IPv6", "IPv4"], "[::]:24080,0.0.0.0:24080", "[::]:24090", "http://localhost:8000"),
    ],
)
def test_it_listens_where_the_pod_is_called(families, listen, admin, upstream):
    _, own = made(callers=[pods.service(spec={"ipFamilies": families})])
    found = environ(own)
    assert [found[PREFIX + name] for name in ("LISTEN", "ADMIN", "UPSTREAM")] == [listen, admin, upstream]


def test_what_was_asked_for_reaches_the_sidecar_and_nothing_is_expanded_on_the_way():
    pod = pods.pod(
        pods.container(ports=[pods.http()], env=[{"name": "URL", "value": "https://api.example/v1"}]),
        annotations={
            "sidecar.gapline.dev/keepalive-text": "at $(POD_NAME)",
            "sidecar.gapline.dev/keepalive": "15s",
            "gapline.dev/egress": "URL",
            "gapline.dev/hop": "gateway",
        },
    )
    _, own = made(pod, config=pods.config(export="http://collector:4318"))
    found = environ(own)
    assert found[PREFIX + "KEEPALIVE_TEXT"] == "at $$(POD_NAME)"
    read = config_of({}, {key: value for key, value in found.items() if key.startswith(PREFIX)})
    assert (read.hop, read.keepalive, read.export) == ("gateway", 15.0, "http://collector:4318")
    assert [str(each) for each in read.egress] == ["api.example=127.0.0.1:24100=https://api.example"]


def test_a_token_is_a_reference_and_never_a_value():
    _, own = made(config=pods.config(export="http://c:4318", export_token="tokens/export"))
    source = next(each for each in own["env"] if each["name"] == PREFIX + "EXPORT_TOKEN")
    assert source == {
        "name": PREFIX + "EXPORT_TOKEN",
        "valueFrom": {"secretKeyRef": {"name": "tokens", "key": "export", "optional": True}},
    }


def test_a_variable_is_set_before_it_is_referred_to():
    _, own = made()
    names = [each["name"] for each in own["env"]]
    assert names.index("OTEL_RESOURCE_ATTRIBUTES") > max(map(names.index, ("POD_NAME", "POD_UID", "NODE_NAME")))
    assert len({*names}) == len(names)


def test_the_user_is_left_to_the_platform_that_chooses_it():
    openshift = Namespace("team-a", labels={INJECT: "enabled"}, annotations={"openshift.io/sa.scc.uid-range": "1/2"})
    assert made()[1]["securityContext"]["runAsUser"] == 64_102
    assert "runAsUser" not in made(namespace=openshift)[1]["securityContext"]


def test_only_a_classic_sidecar_puts_its_end_off():
    assert made()[1]["restartPolicy"] == "Always"
    assert "lifecycle" not in made()[1]
    _, classic = made(minor=28)
    assert "restartPolicy" not in classic
    assert classic["lifecycle"] == {"preStop": {"exec": {"command": ["sleep", "5"]}}}


def test_the_rules_are_one_word_of_the_command_line():
    pod = pods.pod(pods.container(ports=[pods.http(None)]))
    config: PodConfig = pods.config(allow_redirect="true")
    decided, _ = made(pod, config=config)
    own = container.redirect(decided, config)
    assert own["command"] == ["/usr/sbin/nft"]
    assert own["args"] == [ruleset(app_port=8000, listen_port=24_080, probe_port=24_081)]
    assert own["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN"]}
    assert own["securityContext"]["allowPrivilegeEscalation"] is False
