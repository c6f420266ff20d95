"""The command: manifests in, manifests with sidecars out, and a word about those that get none."""

from __future__ import annotations

import io
import json

import pytest
import yaml

from k8s import inject
from k8s.keys import INJECTED, SIDECAR
from tests.support import pods

BY_NAME = (pods.SHAPES / "gateway_by_name.yaml").read_text("utf-8")


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(inject.os, "environ", {})

    def run_on(text, *argv):
        path = tmp_path / "in.yaml"
        path.write_text(text, "utf-8")
        code = inject.main(["-f", str(path), *argv])
        return (code, *capsys.readouterr())

    return run_on


def test_manifests_come_out_with_sidecars(run):
    code, out, err = run(BY_NAME, "--kubernetes", "1.33")
    service, deployment, job = yaml.safe_load_all(out)
    assert code == 0
    assert service["kind"] == "Service"
    template = deployment["spec"]["template"]
    assert template["metadata"]["labels"][INJECTED] == "true"
    assert template["spec"]["initContainers"][0]["name"] == SIDECAR
    assert "initContainers" not in job["spec"]["template"]["spec"]
    assert err.startswith("Job gw-litellm-migrations: no sidecar (job): ")
    assert err.count("\n") == 1


def test_what_came_out_may_go_in_again(run):
    _, once, _ = run(BY_NAME, "--kubernetes", "1.33")
    _, twice, _ = run(once, "--kubernetes", "1.33")
    assert twice == once


def test_explain_says_why_for_every_pod(run):
    _, out, err = run(BY_NAME, "--kubernetes", "1.33", "--explain")
    assert "Deployment gw-litellm: native sidecar beside litellm, port 4000" in err
    assert "  litellm: ports.0.containerPort was 4000, is 24080\n" in err
    assert "litellm: ports" not in out


def test_explain_says_where_nobody_will_hear_of_them(run):
    assert "no --export" in run(BY_NAME, "--explain")[2]
    assert "no --export" not in run(BY_NAME, "--explain", "--export", "http://collector:4318")[2]
    assert "no --export" not in run(BY_NAME)[2]


def test_it_reads_from_stdin_and_json_stays_json(capsys, monkeypatch):
    monkeypatch.setattr(inject.os, "environ", {})
    monkeypatch.setattr(inject.sys, "stdin", io.StringIO(json.dumps(pods.pod())))
    assert inject.main(["-f", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["metadata"]["labels"][INJECTED] == "true"


@pytest.mark.parametrize(("label", "has_one"), [("enabled", True), ("disabled", False)])
def test_a_label_still_says_no(run, label, has_one):
    namespace = f"kind: Namespace\nmetadata: {{name: default, labels: {{gapline.dev/inject: {label}}}}}\n"
    _, out, _ = run(f"{namespace}---\n{json.dumps(pods.pod())}\n")
    assert (INJECTED in out) is has_one


def test_callers_of_another_namespace_are_not_ours(run):
    numeric = pods.service(8000)  # in team-a
    text = f"{json.dumps(numeric)}\n---\n{json.dumps(pods.pod())}\n"
    assert INJECTED in run(text)[1]
    assert INJECTED not in run(text, "--namespace", "team-a")[1]


@pytest.mark.parametrize(
    ("text", "argv", "code", "said"),
    [
        ("kind: [", (), 1, "in.yaml': document 1: line"),
        ("- 1", (), 1, "is a list, not an object"),
        ("kind: A", ("--cpu", "much"), 2, "--cpu: 'much': must be an amount"),
        ("kind: A", ("-f", "/nowhere.yaml"), 1, "-f: '/nowhere.yaml': cannot be read: No such file or directory"),
        ("kind: A", ("--config", "/nowhere.toml"), 2, "--config"),
    ],
)
def test_what_is_wrong_is_told(run, text, argv, code, said):
    found, out, err = run(text, *argv)
    assert (found, out) == (code, "")
    assert said in err
