"""What is installed: valid for every Kubernetes, restricted, wired up, and the same by kustomize as by Helm."""

from __future__ import annotations

import itertools
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from k8s.cluster import LOOK_S
from k8s.config import config_of as injector_config
from k8s.keys import METRICS_PORT_NAME, STATUS
from otel.config import OPTIONS as COLLECTOR_OPTIONS
from otel.config import config_of as collector_config
from tests.k8s import tools
from tests.k8s.series import rules
from tests.k8s.tools import NEWEST, OLDEST, ROOT, charted, inside, invalid, kustomized, tool
from tests.support.processes import gapline

pytestmark = pytest.mark.skipif(bool(tools.missing()), reason=tools.missing())

MANIFESTS = ROOT / "k8s/manifests"
CHART = MANIFESTS / "chart"
NAMESPACE = "gapline"
ON = {"enabled": True}
SAME: dict[str, dict[str, Any]] = {
    "base": {},
    "overlays/cert-manager": {"injector": {"certManager": True}},
    "overlays/jaeger": {"jaeger": ON},
    "overlays/monitoring": {"monitoring": ON},
    "overlays/opentelemetry-collector": {"openTelemetryCollector": ON, "collector": {"replicas": 3}},
    "overlays/redirect": {"injector": {"allowRedirect": True}},
}
"""What of kustomize is which values of the chart."""
FOREIGN = {"Certificate", "Issuer", "PodMonitor", "PrometheusRule"}
"""Kinds of others, for which there are no schemas."""
WATCHING = {"PodMonitor", "PrometheusRule"}
FOLDERS = [*SAME, "example"]

Object = dict[str, Any]


@pytest.fixture(scope="module", params=FOLDERS)
def objects(request) -> list[Object]:
    return kustomized(MANIFESTS / request.param)


@pytest.fixture(scope="module")
def base() -> list[Object]:
    return kustomized(MANIFESTS / "base")


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    return [each for each in objects if each["kind"] == kind]


def one(objects: list[Object], kind: str, name: str = "gapline-injector") -> Object:
    [found] = [each for each in of_kind(objects, kind) if each["metadata"]["name"] == name]
    return found


def workloads(objects: list[Object]) -> list[Object]:
    return [each for each in objects if each["kind"] in {"Deployment", "StatefulSet"}]


def containers(workload: Object) -> list[Object]:
    return workload["spec"]["template"]["spec"]["containers"]


def pod_labels(workload: Object) -> dict[str, str]:
    return workload["spec"]["template"]["metadata"]["labels"]


def selected(objects: list[Object], labels: Mapping[str, str]) -> list[Object]:
    return [each for each in workloads(objects) if labels.items() <= pod_labels(each).items()]


def port_names(workload: Object) -> set[str]:
    return {port["name"] for each in containers(workload) for port in each.get("ports", ())}


def by_name(objects: list[Object]) -> dict[tuple[str, str], Object]:
    """In a form in which two ways of writing the same are equal: variables have no order."""
    found = {}
    for each in json.loads(json.dumps(objects)):
        for container in containers(each) if each in workloads([each]) else ():
            container["env"] = sorted(container.get("env", ()), key=lambda variable: variable["name"])
        found[each["kind"], each["metadata"]["name"]] = each
    assert len(found) == len(objects)
    return found


# ---------------------------------------------------------------------------------------------- both ways


@pytest.mark.parametrize("folder", SAME)
def test_the_chart_makes_what_kustomize_makes(folder):
    wanted = by_name([each for each in kustomized(MANIFESTS / folder) if each["kind"] != "Namespace"])
    found = by_name(charted(CHART, SAME[folder], namespace=NAMESPACE))
    assert found.keys() == wanted.keys()
    for name, each in wanted.items():
        assert found[name] == each, name


def beside(folder: Path, what: str) -> str:
    """A folder of the manifests as a kustomization elsewhere must name it: kustomize takes no absolute paths."""
    return str(Path("../" * len(folder.resolve().parts[1:])) / (MANIFESTS / what).relative_to("/"))


def test_all_components_go_together(tmp_path):
    components = ["cert-manager", "redirect", "opentelemetry-collector", "jaeger", "monitoring"]
    assert {path.name for path in (MANIFESTS / "components").iterdir()} == set(components)
    everything = {
        "resources": [beside(tmp_path, "base")],
        "components": [beside(tmp_path, f"components/{name}") for name in components],
    }
    (tmp_path / "kustomization.yaml").write_text(json.dumps(everything))
    values = {"injector": {"certManager": True, "allowRedirect": True}, "jaeger": ON, "monitoring": ON}
    wanted = by_name([each for each in kustomized(tmp_path) if each["kind"] != "Namespace"])
    assert by_name(charted(CHART, values, namespace=NAMESPACE)) == wanted


def test_monitors_and_rules_have_the_labels_by_which_a_prometheus_chooses():
    found = charted(CHART, {"monitoring": {"enabled": True, "labels": {"release": "prometheus"}}})
    chosen = [each for each in found if each["metadata"]["labels"].get("release") == "prometheus"]
    assert [each["kind"] for each in chosen] == [each["kind"] for each in found if each["kind"] in WATCHING]
    assert all(each["metadata"]["labels"]["app.kubernetes.io/part-of"] == "gapline" for each in chosen)


def test_every_overlay_is_compared():
    overlays = {f"overlays/{path.name}" for path in (MANIFESTS / "overlays").iterdir()}
    assert overlays == SAME.keys() - {"base"}


def test_the_chart_follows_its_namespace():
    everything = {"monitoring": ON, "jaeger": ON, "injector": {"certManager": True}}
    for each in charted(CHART, everything, namespace="elsewhere"):
        text = json.dumps({key: value for key, value in each.items() if key != "data"})
        assert not re.search(r'"namespace": "gapline"|\.gapline:|\.gapline\.svc|gapline/gapline-injector', text), each[
            "kind"
        ]


def test_helm_finds_no_fault_with_the_chart():
    assert inside("lint", str(CHART)) == ["Chart.yaml: icon is recommended"]


@pytest.mark.parametrize(
    "values",
    [
        {"injector": {"replicas": 0}},
        {"injector": {"failurePolicy": "ignore"}},
        {"injector": {"timeoutSeconds": LOOK_S}},
        {"injector": {"env": {"PATH": "/"}}},
        {"injector": {"excludedNamespaces": []}},
        {"colector": {}},
        {"monitoring": {"enabled": "yes"}},
    ],
)
def test_values_that_make_no_sense_are_refused(values):
    with pytest.raises(AssertionError, match="values"):
        charted(CHART, values)


def test_collectors_that_nobody_divides_traces_among_are_refused():
    with pytest.raises(AssertionError, match="needs openTelemetryCollector"):
        charted(CHART, {"collector": {"replicas": 2}})


def test_a_token_guards_both_ends_and_is_shown_by_who_scrapes():
    found = charted(CHART, {"collector": {"tokenSecret": "gapline-token"}, "jaeger": ON, "monitoring": ON})
    [collector] = containers(one(found, "StatefulSet", "gapline-collector"))
    [injector] = containers(one(found, "Deployment"))
    by_variable = {each["name"]: each for each in (*collector["env"], *injector["env"])}
    source = {"secretKeyRef": {"name": "gapline-token", "key": "token"}}
    assert by_variable["GAPLINE_COLLECTOR_TOKEN"]["valueFrom"] == source
    assert by_variable["GAPLINE_INJECTOR_EXPORT_TOKEN"]["value"] == "gapline-token/token"
    assert "GAPLINE_COLLECTOR_INSECURE" not in by_variable
    [endpoint] = one(found, "PodMonitor", "gapline-collector")["spec"]["podMetricsEndpoints"]
    assert endpoint["authorization"] == {"credentials": source["secretKeyRef"]}
    assert "Bearer ${env:GAPLINE_TOKEN}" in one(found, "ConfigMap", "gapline-opentelemetry")["data"]["config.yaml"]


def test_a_collector_that_nothing_guards_is_refused():
    with pytest.raises(AssertionError, match="open to everybody"):
        charted(CHART, {"networkPolicy": False})
    for values in ({"tokenSecret": "gapline-token"}, {"env": {"GAPLINE_COLLECTOR_INSECURE": True}}):
        found = charted(CHART, {"networkPolicy": False, "collector": values})
        [container] = containers(one(found, "StatefulSet", "gapline-collector"))
        guards = {"GAPLINE_COLLECTOR_TOKEN", "GAPLINE_COLLECTOR_INSECURE"} & {each["name"] for each in container["env"]}
        assert len(guards) == 1
        assert not of_kind(found, "NetworkPolicy")


# ----------------------------------------------------------------------------------------- every folder


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_it_is_valid_in_the_oldest_and_the_newest_version(objects, version):
    known = [each for each in objects if each["kind"] not in FOREIGN]
    assert invalid(known, version=version) == []


def test_every_name_that_one_object_says_of_another_is_there(objects):
    for service in of_kind(objects, "Service"):
        [workload] = selected(objects, service["spec"]["selector"])
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= port_names(workload)
    for workload in workloads(objects):
        assert workload["spec"]["selector"]["matchLabels"].items() <= pod_labels(workload).items()
        for container in containers(workload):
            declared = {port["name"] for port in container.get("ports", ())}
            probes = [container[key]["httpGet"]["port"] for key in container if key.endswith("Probe")]
            assert {port for port in probes if isinstance(port, str)} <= declared
        spec = workload["spec"]["template"]["spec"]
        volumes = {each["name"] for each in spec.get("volumes", ())}
        volumes |= {each["metadata"]["name"] for each in workload["spec"].get("volumeClaimTemplates", ())}
        mounted = {mount["name"] for each in containers(workload) for mount in each.get("volumeMounts", ())}
        assert mounted == volumes
        maps = {each["configMap"]["name"] for each in spec.get("volumes", ()) if "configMap" in each}
        assert maps <= {each["metadata"]["name"] for each in of_kind(objects, "ConfigMap")}
    for policy in of_kind(objects, "NetworkPolicy"):
        [workload] = selected(objects, policy["spec"]["podSelector"]["matchLabels"])
        ports = {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
        assert ports <= port_names(workload)
    for budget in of_kind(objects, "PodDisruptionBudget"):
        assert selected(objects, budget["spec"]["selector"]["matchLabels"])
    for binding in (*of_kind(objects, "RoleBinding"), *of_kind(objects, "ClusterRoleBinding")):
        one(objects, binding["roleRef"]["kind"], binding["roleRef"]["name"])
        for subject in binding["subjects"]:
            assert one(objects, subject["kind"], subject["name"])["metadata"]["namespace"] == subject["namespace"]


def test_images_are_pinned_to_a_version(objects):
    for workload in workloads(objects):
        for container in containers(workload):
            assert re.search(r":v?\d+(\.\d+)+(-[\w.]+)?$", container["image"]), container["image"]


@pytest.mark.parametrize("folder", SAME)
def test_what_we_install_is_restricted(folder):
    for workload in workloads(kustomized(MANIFESTS / folder)):
        spec = workload["spec"]["template"]["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert {"hostNetwork", "hostPID", "hostIPC"}.isdisjoint(spec)
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert {"requests", "limits"} <= container["resources"].keys()
            assert "memory" in container["resources"]["limits"]
        if workload["metadata"]["name"] != "gapline-injector":
            assert spec["automountServiceAccountToken"] is False


# ------------------------------------------------------------------------------------------ the injector


@pytest.mark.parametrize("folder", SAME)
def test_the_webhook_fails_open_and_carries_no_authority(folder):
    objects = kustomized(MANIFESTS / folder)
    hooks = one(objects, "MutatingWebhookConfiguration")["webhooks"]
    assert len(hooks) == 2
    for hook in hooks:
        client = hook["clientConfig"]
        assert client.keys() == {"service"}
        service = one(objects, "Service", client["service"]["name"])
        assert service["metadata"]["namespace"] == client["service"]["namespace"]
        assert client["service"]["port"] in {port["port"] for port in service["spec"]["ports"]}
        assert hook["failurePolicy"] == "Ignore"
        assert hook["reinvocationPolicy"] == "IfNeeded"
        assert hook["sideEffects"] == "NoneOnDryRun"
        assert [rule["operations"] for rule in hook["rules"]] == [["CREATE"]]


def is_selected(selector: Object, labels: Mapping[str, str]) -> bool:
    """As Kubernetes reads it: who lacks the label is in no list, and so `NotIn` every one."""
    for rule in selector["matchExpressions"]:
        is_in = labels.get(rule["key"]) in rule["values"]
        if is_in is not (rule["operator"] == "In"):
            return False
    return True


def asked_by(base: list[Object], namespace: Mapping[str, str], pod: Mapping[str, str]) -> int:
    hooks = one(base, "MutatingWebhookConfiguration")["webhooks"]
    return sum(
        is_selected(hook["namespaceSelector"], namespace) and is_selected(hook["objectSelector"], pod) for hook in hooks
    )


VALUES = (None, "enabled", "true", "disabled", "false", "maybe")


@pytest.mark.parametrize(("namespace", "pod"), list(itertools.product(VALUES, VALUES)))
def test_a_pod_is_asked_about_once_or_never(base, namespace, pod):
    """Its own word counts, else that of its namespace."""
    name = {"kubernetes.io/metadata.name": "llm"}
    labels = [{"gapline.dev/inject": value} if value else {} for value in (namespace, pod)]
    on, off = {"enabled", "true"}, {"disabled", "false"}
    is_wanted = pod in on or (pod not in off and namespace in on)
    assert asked_by(base, name | labels[0], labels[1]) == is_wanted


def test_nobody_is_asked_about_pods_of_the_system_or_our_own(base):
    pod = {"gapline.dev/inject": "true"}
    own = one(base, "Namespace", NAMESPACE)["metadata"]["labels"] | {"kubernetes.io/metadata.name": NAMESPACE}
    assert not asked_by(base, own, pod)
    for name in ("kube-system", "kube-public", "kube-node-lease"):
        assert not asked_by(base, {"kubernetes.io/metadata.name": name, "gapline.dev/inject": "enabled"}, pod)


def test_an_image_of_yours_is_that_of_the_sidecars_too(base, tmp_path):
    """As the README says it: `images`, and the replacement of the base once more."""
    [replaced] = inside("read", [(MANIFESTS / "base/kustomization.yaml").read_text("utf-8")])
    mine = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [beside(tmp_path, "base")],
        "images": [{"name": "gapline", "newName": "registry.example/gapline", "newTag": "9"}],
        "replacements": replaced[0]["replacements"],
    }
    (tmp_path / "kustomization.yaml").write_text(json.dumps(mine))
    [injector] = containers(one(kustomized(tmp_path), "Deployment"))
    told = {each["name"]: each.get("value") for each in injector["env"]}
    assert injector["image"] == told["GAPLINE_INJECTOR_IMAGE"] == "registry.example/gapline:9"


def test_the_images_are_of_this_version(base):
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    [collector] = containers(one(base, "StatefulSet", "gapline-collector"))
    [injector] = containers(one(base, "Deployment"))
    told = {each["name"]: each.get("value") for each in injector["env"]}
    assert {collector["image"], injector["image"], told["GAPLINE_INJECTOR_IMAGE"]} == {f"gapline:{version}"}
    assert told["GAPLINE_INJECTOR_REDIRECT_IMAGE"] == f"gapline-nft:{version}"
    [[chart]] = inside("read", [(CHART / "Chart.yaml").read_text("utf-8")])
    assert (chart["version"], chart["appVersion"]) == (version, version)


@pytest.mark.parametrize("folder", SAME)
def test_the_injector_can_start_with_what_it_is_told(folder):
    objects = kustomized(MANIFESTS / folder)
    deployment = one(objects, "Deployment")
    [container] = containers(deployment)
    told = variables(container) | {"GAPLINE_INJECTOR_NAMESPACE": NAMESPACE}
    assert len(told) == len(container["env"])
    config = injector_config({}, told)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"webhook": config.listen.port, METRICS_PORT_NAME: config.admin.port}
    assert config.drain_timeout < 30, "the grace that Kubernetes gives a pod"
    one(objects, "Service", config.service)
    one(objects, "MutatingWebhookConfiguration", config.webhook)
    assert config.pod.allow_redirect is folder.endswith("redirect")
    if folder.endswith("cert-manager"):
        [volume] = deployment["spec"]["template"]["spec"]["volumes"]
        [mount] = container["volumeMounts"]
        certificate = one(objects, "Certificate")["spec"]
        assert volume["secret"]["secretName"] == certificate["secretName"]
        assert str(config.tls_cert) == f"{mount['mountPath']}/tls.crt"
        assert f"{config.service}.{NAMESPACE}.svc" in certificate["dnsNames"]
        assert not of_kind(objects, "Role")
    else:
        assert config.tls_cert is None
        [rule] = [
            rule for rule in one(objects, "Role", f"{config.service}-certificate")["rules"] if "resourceNames" in rule
        ]
        assert rule["resourceNames"] == [config.tls_secret]


def test_the_authority_of_cert_manager_outlives_what_it_signs():
    """Else reviews fail from each renewal until the kubelet has brought the new certificate to every replica."""
    objects = kustomized(MANIFESTS / "overlays/cert-manager")
    leaf = one(objects, "Certificate")["spec"]
    issuer = one(objects, leaf["issuerRef"]["kind"], leaf["issuerRef"]["name"])["spec"]
    authority = one(objects, "Certificate", issuer["ca"]["secretName"])["spec"]
    assert (authority["isCA"], authority["secretName"]) == (True, issuer["ca"]["secretName"])
    assert authority["privateKey"]["rotationPolicy"] == "Never"
    assert int(authority["duration"].removesuffix("h")) > 10 * int(leaf["duration"].removesuffix("h"))
    assert one(objects, "Issuer", authority["issuerRef"]["name"])["spec"] == {"selfSigned": {}}
    [source] = one(objects, "MutatingWebhookConfiguration")["metadata"]["annotations"].values()
    assert source == "gapline/gapline-injector"


async def test_the_example_gets_its_sidecars(tmp_path):
    """As the webhook would give them, in a cluster of today."""
    written = tmp_path / "example.yaml"
    written.write_text(tool("kubectl", "kustomize", str(MANIFESTS / "example")).stdout)
    done = await gapline("inject", "-f", str(written), "--kubernetes", "1.33")
    assert done.code == 0, done.errors
    [objects] = inside("read", [done.out.decode()])
    hops = {}
    for workload in workloads(objects):
        pod = workload["spec"]["template"]
        [sidecar] = [each for each in pod["spec"]["initContainers"] if each["name"] == "gapline"]
        assert sidecar["restartPolicy"] == "Always"
        assert pod["metadata"]["labels"]["gapline.dev/injected"] == "true"
        hops[workload["metadata"]["name"]] = hop_of(pod["metadata"]["annotations"]["gapline.dev/status"])
    assert hops == {name: name for name in ("gateway", "inference-proxy", "model-worker")}
    assert invalid(objects, version=NEWEST) == []


# ------------------------------------------------------------------------------------------ the collector


def variables(container: Object) -> dict[str, str]:
    return {each["name"]: each.get("value", "x") for each in container["env"]}


def test_the_collector_can_start_with_what_it_is_told(base):
    [container] = containers(one(base, "StatefulSet", "gapline-collector"))
    config = collector_config({}, variables(container))
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert config.grpc is not None
    assert config.http is not None
    assert ports == {"otlp-grpc": config.grpc.port, "otlp-http": config.http.port, "query": config.query.port}
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {str(config.data), "/tmp"}
    [claim] = one(base, "StatefulSet", "gapline-collector")["spec"]["volumeClaimTemplates"]
    assert config.max_size < int(claim["spec"]["resources"]["requests"]["storage"].removesuffix("Gi")) << 30


@pytest.mark.parametrize("folder", SAME)
def test_sidecars_send_to_what_takes_spans(folder):
    objects = kustomized(MANIFESTS / folder)
    [injector] = containers(one(objects, "Deployment"))
    url = variables(injector)["GAPLINE_INJECTOR_EXPORT"]
    name, namespace, port = re.fullmatch(r"http://([a-z-]+)\.([a-z-]+):(\d+)", url).groups()
    service = one(objects, "Service", name)
    assert service["metadata"]["namespace"] == namespace
    assert int(port) in {each["port"] for each in service["spec"]["ports"]}
    policy = one(objects, "NetworkPolicy", name)
    peers = [peer for rule in policy["spec"]["ingress"] for peer in rule.get("from", ())]
    assert {"gapline.dev/injected": "true"} in [peer["podSelector"].get("matchLabels") for peer in peers]


@pytest.mark.parametrize("folder", ["overlays/opentelemetry-collector", "overlays/jaeger"])
def test_all_hops_of_a_trace_go_to_the_same_collector(folder):
    objects = kustomized(MANIFESTS / folder)
    [[config]] = inside("read", [one(objects, "ConfigMap", "gapline-opentelemetry")["data"]["config.yaml"]])
    exporter = config["exporters"]["loadbalancing"]
    assert exporter["routing_key"] == "traceID"
    service = one(objects, "Service", exporter["resolver"]["dns"]["hostname"])
    assert service["spec"]["clusterIP"] == "None"
    assert int(exporter["resolver"]["dns"]["port"]) in {port["port"] for port in service["spec"]["ports"]}
    for pipeline in config["service"]["pipelines"].values():
        assert "loadbalancing" in pipeline["exporters"]
        assert set(pipeline["exporters"]) <= config["exporters"].keys()
    assert ("otlp/jaeger" in config["service"]["pipelines"]["traces"]["exporters"]) is folder.endswith("jaeger")


def test_every_option_of_the_collector_that_is_set_is_one(base):
    [container] = containers(one(base, "StatefulSet", "gapline-collector"))
    known = {f"GAPLINE_COLLECTOR_{option.name.upper()}" for option in COLLECTOR_OPTIONS}
    assert variables(container).keys() <= known


# ---------------------------------------------------------------------------------------- what is watched


def watched(objects: list[Object]) -> Iterator[tuple[Object, str]]:
    for monitor in of_kind(objects, "PodMonitor"):
        for endpoint in monitor["spec"]["podMetricsEndpoints"]:
            yield monitor, endpoint["port"]


def hop_of(status: str) -> str:
    """The `hop` of a pod's series, as the pod monitor makes it from the annotation."""
    [monitor] = [
        each
        for each in inside("read", [(CHART / "monitoring/podmonitors.yaml").read_text("utf-8")])[0]
        if each["metadata"]["name"] == "gapline-sidecars"
    ]
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    [relabeling] = endpoint["relabelings"]
    assert endpoint["port"] == METRICS_PORT_NAME
    assert relabeling["sourceLabels"] == ["__meta_kubernetes_pod_annotation_" + re.sub(r"\W", "_", STATUS)]
    return re.fullmatch(relabeling["regex"], status)[1]  # Prometheus anchors it as well


def test_everything_that_has_metrics_is_watched():
    objects = kustomized(MANIFESTS / "overlays/monitoring")
    found = {}
    for monitor, port in watched(objects):
        labels = monitor["spec"]["selector"]["matchLabels"]
        if labels != {"gapline.dev/injected": "true"}:
            [workload] = selected(objects, labels)
            found[workload["metadata"]["name"]] = port
            assert port in port_names(workload)
    assert found == {"gapline-injector": "gapline-metrics", "gapline-collector": "query"}


def test_every_alert_says_what_it_is_and_what_to_do():
    for group in rules(CHART / "monitoring/alerts.yaml"):
        for rule in group["rules"]:
            if "alert" in rule:
                assert re.fullmatch(r"Gapline[A-Z][A-Za-z]+", rule["alert"])
                assert rule["labels"]["severity"] in {"critical", "warning", "info"}
                assert rule["annotations"].keys() == {"summary", "description"}
                named = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
                kept = set(re.findall(r"\w+", " ".join(re.findall(r"\bby \(([^)]*)\)", rule["expr"]))))
                assert named <= kept | rule["labels"].keys() | (
                    {"hop", "cause"} if ":stalls:" in rule["expr"] else set()
                )


def test_promtool_finds_no_fault_with_the_rules(tmp_path):
    (tmp_path / "rules.json").write_text(json.dumps({"groups": rules(CHART / "monitoring/alerts.yaml")}))
    done = tool("promtool", "check", "rules", "--lint=all", "--lint-fatal", str(tmp_path / "rules.json"))
    assert done.returncode == 0, done.stdout + done.stderr
