"""The command audit, over files and over an API server."""

from __future__ import annotations

import json

import aiohttp
import pytest

from k8s import audit_command
from k8s.api import ApiError, HttpApi
from k8s.audit_command import asked, main, text
from k8s.config import config_of
from k8s.facts import Facts
from k8s.renderer import injection
from tests.support import pods
from tests.support.api_server import ApiServer

NAMESPACE = {"kind": "Namespace", "metadata": {"name": "team-a", "labels": {"gapline.dev/inject": "enabled"}}}
BARE = {**pods.pod(), "metadata": {"name": "bare", "namespace": "team-a", "labels": {"app": "app"}}}


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(audit_command.os, "environ", {})

    def run_on(*found, argv=()):
        path = tmp_path / "found.json"
        path.write_text(json.dumps({"kind": "List", "items": list(found)}), "utf-8")
        return (main(["-f", str(path), *argv]), *capsys.readouterr())

    return run_on


def test_bare_pods_are_listed_and_told_by_the_exit_code(run):
    code, out, err = run(NAMESPACE, BARE)
    assert (code, err) == (10, "")
    assert out == (
        "team-a  Pod bare  never-seen\n"
        "    the injector was not asked, or did not answer, when it was made: make it anew\n"
        "1 pods asked for a sidecar, 1 of them have none\n"
    )
    assert run(NAMESPACE, pods.service())[:2] == (0, "0 pods asked for a sidecar, 0 of them have none\n")


def test_a_router_among_the_pods_is_a_caller(run):
    words = ["--service-discovery=k8s", "--k8s-label-selector=app=app", "--k8s-port=8000"]
    router = {**pods.pod(pods.container(args=words)), "metadata": {"name": "router", "namespace": "team-a"}}
    router["metadata"]["labels"] = {"gapline.dev/inject": "false"}
    made = injection(BARE, namespace=pods.ASKED, facts=Facts(oldest_minor=33), config=pods.config()).pod
    assert run(NAMESPACE, made)[0] == 0
    code, out, _ = run(NAMESPACE, made, router)
    assert (code, "router router" in out) == (10, True)
    assert out.endswith("1 pods asked for a sidecar, 0 of them have none, 1 are passed by\n")


def test_programs_get_json(run):
    code, out, _ = run(NAMESPACE, BARE, argv=["--json"])
    answer = json.loads(out)
    assert (code, answer["asked"], answer["bare"]) == (10, 1, 1)
    assert answer["findings"][0]["reason"] == "never-seen"


def test_nothing_that_stands_on_a_pod_draws_on_the_terminal(run):
    status = json.dumps({"version": 1, "result": "skipped", "reason": "job", "detail": "\x1b[2J"})
    annotated = {**BARE, "metadata": {**BARE["metadata"], "annotations": {"gapline.dev/status": status}}}
    assert "\x1b" not in run(NAMESPACE, annotated)[1]


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["-f", "/nowhere"], 1, "-f: '/nowhere': cannot be read: No such file or directory"),
        (["--cpu", "much"], 2, "--cpu: 'much'"),
        ([], 3, "KUBERNETES_SERVICE_HOST is not set"),
        (
            ["--server", "http://127.0.0.1:1"],
            3,
            "--server: 'http://127.0.0.1:1': GET /api/v1/namespaces: no answer: Connection refused",
        ),
    ],
)
def test_what_is_wrong_is_told(capsys, monkeypatch, argv, code, said):
    monkeypatch.setattr(audit_command.os, "environ", {})
    assert main(argv) == code
    assert said in capsys.readouterr().err


async def test_a_cluster_is_asked_for_what_runs_in_it(aiohttp_server):
    server = ApiServer(has_all_rights=True)
    server.put("/api/v1/namespaces/team-a/services/svc", pods.service("http"))
    for index in range(3):
        server.put(f"/api/v1/namespaces/team-a/pods/bare-{index}", BARE)
    made = await aiohttp_server(server.app())
    async with aiohttp.ClientSession() as session:
        api = HttpApi(session, str(made.make_url("/")), token=lambda: "a-token")
        found = await asked(api, config_of({}, {}))
        assert (found.asked_count, found.bare_count) == (3, 3)
        assert "3 pods asked" in text(found)
        server.failing = {"pods"}
        with pytest.raises(ApiError, match="500"):
            await asked(api, config_of({}, {}))
