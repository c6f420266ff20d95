"""The injector as a whole, before an API server that asks it as Kubernetes does, over TLS."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import signal
import ssl
import statistics
import sys
import time
from base64 import b64decode
from contextlib import asynccontextmanager

import aiohttp
import pytest

from k8s import injector as module
from k8s.audit_command import asked
from k8s.config import config_of
from k8s.injector import Injector, main
from k8s.keys import INJECT, SIDECAR, STATUS
from k8s.pods import annotations_of
from k8s.status import original
from tests.support import kube, pods
from tests.support.api_server import CONFIGURATION, is_allowed, review
from tests.support.certificates import make_pair
from tests.support.clock import FakeClock

DAY_NS = 86_400_000_000_000
QUICK_MS = 50


FOUND = next(found for shape, found, _ in pods.shapes() if shape == "gateway_by_name")


def created():
    """A gateway's pod, as its controller makes it."""
    return pods.created(FOUND)


@asynccontextmanager
async def running(api, server, *, clock=None, **given):
    flags = {"listen": "127.0.0.1:0", "admin": "localhost:0", "drain_timeout": "0", **given}
    config = config_of(flags, {})
    injector = Injector(config, api=api, clock=clock or FakeClock(wall_ns=time.time_ns()))
    ended = asyncio.Event()
    await injector.start()
    server.webhook_port = injector.port
    async with asyncio.TaskGroup() as group:
        task = group.create_task(injector.run_until(ended.wait()))
        try:
            yield injector
        finally:
            ended.set()
            async with asyncio.timeout(10):
                await task


class Alternating:
    """The one certificate and the other by turns."""

    pause_s = 0.0

    def __init__(self, *pairs):
        self._pairs = itertools.cycle(pairs)

    async def pair(self):
        await asyncio.sleep(0.001)
        return next(self._pairs)


async def until(is_so):
    async with asyncio.timeout(20):
        while not is_so():
            await asyncio.sleep(0.01)


def names(pod):
    return [each["name"] for each in pod["spec"].get("initContainers", [])]


async def admin(injector, path):
    async with aiohttp.ClientSession() as session, session.get(f"http://localhost:{injector.admin_port}{path}") as got:
        return got.status, await got.text()


SERVICE = {
    "metadata": {"name": "litellm"},
    "spec": {
        "selector": {"app.kubernetes.io/name": "litellm"},
        "ports": [{"port": 4000, "targetPort": "http", "protocol": "TCP"}],
    },
}


@pytest.fixture
def server(server):
    server.put("/api/v1/namespaces/team-a/services/litellm", SERVICE)
    return server


async def test_a_pod_of_a_namespace_that_asked_gets_a_sidecar(api, server):
    async with running(api, server) as injector:
        admitted = await server.create_pod("team-a", created())
        assert (admitted.failures, admitted.warnings) == ([], [])
        assert names(admitted.pod) == [SIDECAR]
        kube.validate(admitted.pod, kube.NEWEST)
        assert kube.found_port(admitted.pod, "http") == 24_080
        status, metrics = await admin(injector, "/metrics")
        assert status == 200
        assert 'gapline_injector_decisions_total{result="injected",reason="named"} 1' in metrics
        assert "gapline_injector_review_seconds_count 1" in metrics
        assert "gapline_injector_certificate_not_after_seconds" in metrics


@pytest.mark.parametrize(
    ("namespace", "label", "has_one"),
    [("team-a", None, True), ("team-a", "false", False), ("team-b", None, False), ("team-b", "true", True)],
)
async def test_labels_ask_and_decline(api, server, namespace, label, has_one):
    pod = created()
    if label:
        pod["metadata"]["labels"][INJECT] = label
    async with running(api, server):
        admitted = await server.create_pod(namespace, pod)
    assert (SIDECAR in names(admitted.pod)) is has_one
    assert admitted.rounds <= 1  # no pod matches both webhooks


async def test_a_second_webhook_causes_a_second_round_in_which_nothing_happens_twice(api, server):
    def mesh(pod):
        if "istio-init" not in names(pod):
            pod["spec"].setdefault("initContainers", []).insert(0, pods.container("istio-init"))
            pod["spec"]["containers"].append(
                pods.container("istio-proxy", ports=[pods.http("http-envoy-prom", 15_090)])
            )

    server.mutators.append(mesh)
    async with running(api, server):
        admitted = await server.create_pod("team-a", created())
    assert admitted.rounds == 2
    assert names(admitted.pod) == ["istio-init", SIDECAR]
    assert kube.found_port(admitted.pod, "http") == 24_080
    assert original(admitted.pod)["spec"]["containers"][0]["ports"][0]["containerPort"] == 4000


async def test_what_the_second_webhook_brings_is_seen(api, server):
    """A pod of no class becomes a Guaranteed one, and stays that with its sidecar."""

    def limits(pod):
        for each in pod["spec"]["containers"]:
            each["resources"] = pods.FULL

    server.mutators.append(limits)
    async with running(api, server):
        admitted = await server.create_pod("team-a", created())
    assert admitted.rounds == 2
    assert admitted.pod["spec"]["initContainers"][0]["resources"]["limits"] == {"cpu": "500m", "memory": "256Mi"}
    assert kube.qos_class(admitted.pod) == "Guaranteed"


def test_the_rights_are_those_of_the_manifest_and_no_more():
    assert is_allowed("GET", "/api/v1/namespaces/team-a/services")
    assert not is_allowed("GET", "/api/v1/namespaces/team-a/secrets/s")
    assert not is_allowed("PATCH", CONFIGURATION.replace("gapline-injector", "another"))


async def test_a_pod_of_two_megabytes_gets_its_sidecar(api, server):
    pod = created()
    pod["spec"]["containers"][0]["env"].append({"name": "LARGE", "value": "x" * (2 << 20)})
    async with running(api, server):
        admitted = await server.create_pod("team-a", pod)
    assert (admitted.failures, names(admitted.pod)) == ([], [SIDECAR])


async def test_a_dry_run_leaves_nothing_behind(api, server):
    async with running(api, server, events="true"):
        before = set(server.objects)
        admitted = await server.create_pod("team-a", created(), dry_run=True)
        await asyncio.sleep(0.1)
    assert SIDECAR in names(admitted.pod)
    assert set(server.objects) == before


async def test_an_event_tells_what_was_done(api, server):
    async with running(api, server, events="true") as injector:
        await server.create_pod("team-a", created())
        await until(lambda: injector.tally.events["written"])
    (event,) = [value for path, value in server.objects.items() if "/events/" in path]
    assert (event["reason"], event["involvedObject"]["kind"]) == ("SidecarInjected", "ReplicaSet")


async def test_a_numeric_service_that_the_cluster_knows_is_a_reason(api, server):
    numeric = {**SERVICE, "spec": {**SERVICE["spec"], "ports": [{"port": 80, "targetPort": 4000}]}}
    server.put("/api/v1/namespaces/team-a/services/by-number", {**numeric, "metadata": {"name": "by-number"}})
    async with running(api, server):
        admitted = await server.create_pod("team-a", created())
        assert "called-by-number" in annotations_of(admitted.pod)[STATUS]
        assert len(admitted.warnings) == 1
    async with running(api, server, allow_redirect="true"):
        admitted = await server.create_pod("team-a", created())
    assert names(admitted.pod) == ["gapline-redirect", SIDECAR]


async def test_where_the_cluster_does_not_answer_a_pod_is_planned_from_itself(api, server):
    async with running(api, server, kubernetes="1.33"):
        server.failing = {"namespaces", "nodes"}
        admitted = await server.create_pod("team-a", created())
    assert names(admitted.pod) == [SIDECAR]


async def test_a_webhook_that_is_not_there_costs_the_sidecar_and_not_the_pod_and_the_audit_finds_it(api, server):
    async with running(api, server):
        pass
    admitted = await server.create_pod("team-a", created())
    assert admitted.failures
    assert names(admitted.pod) == []
    server.has_all_rights = True  # of a person
    audit = await asked(api, config_of({}, {}))
    assert [(found.reason, found.namespace) for found in audit.findings] == [("never-seen", "team-a")]


@pytest.mark.parametrize(("made_days_ago", "before_days", "authorities"), [(61, 61, 1), (2_440, 40, 2)])
async def test_a_certificate_is_renewed_without_a_lost_review(api, server, made_days_ago, before_days, authorities):
    """By the same authority, and by a new one when that is old. Each review comes over a connection of its own."""
    clock = FakeClock(wall_ns=time.time_ns() - made_days_ago * DAY_NS)
    async with running(api, server, clock=clock) as injector:
        clock.advance((made_days_ago - before_days) * DAY_NS)
        await injector.keeper.look()
        is_over, answered = asyncio.Event(), []

        async def ask():
            while not is_over.is_set():
                webhook = server.objects[CONFIGURATION]["webhooks"][0]
                found = await server.review(webhook, review("u", "team-a", created()))
                answered.append(found["response"]["uid"])

        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(ask())
            await until(lambda: len(answered) > 5)
            old_pair = injector.keeper._shown
            loads, answered_before = injector.tally.certificate_loads, len(answered)
            clock.advance(before_days * DAY_NS)
            await injector.keeper.look()
            assert injector.tally.certificate_loads == loads + 1
            injector.keeper._source = Alternating(old_pair, injector.keeper._shown)
            for _ in range(100):  # a handshake may begin at any moment of a change
                await injector.keeper.look()
            await until(lambda: len(answered) > answered_before + 5)
            is_over.set()
    bundle = b64decode(server.objects[CONFIGURATION]["webhooks"][0]["clientConfig"]["caBundle"])
    assert bundle.count(b"BEGIN CERTIFICATE") == authorities


async def test_readiness_waits_for_a_certificate_and_ends_with_the_drain(api, server):
    server.failing = {"secrets"}
    ended = asyncio.Event()
    config = config_of({"listen": "127.0.0.1:0", "admin": "localhost:0", "drain_timeout": "1"}, {})
    injector = Injector(config, api=api, clock=FakeClock(wall_ns=time.time_ns()))
    await injector.start()
    server.webhook_port = injector.port
    assert (await admin(injector, "/readyz"))[0] == 503
    assert (await admin(injector, "/healthz"))[0] == 200
    server.failing = set()
    await injector.keeper.look()
    assert (await admin(injector, "/readyz"))[0] == 200
    async with asyncio.TaskGroup() as group:
        task = group.create_task(injector.run_until(ended.wait()))
        ended.set()
        await asyncio.sleep(0.2)
        assert (await admin(injector, "/readyz"))[0] == 503
        assert (await server.create_pod("team-a", created())).failures == []  # who has not heard of it yet
        await task


async def test_answers_are_quick(api, server):
    """p99 of reviews, one after the other, as whoever asks over TLS sees it. The machine may be busy: best of five."""
    body, p99s = review("u", "team-a", created()), []
    async with running(api, server), aiohttp.ClientSession() as session:
        webhook = server.objects[CONFIGURATION]["webhooks"][0]
        while len(p99s) < 5 and min(p99s, default=QUICK_MS) >= QUICK_MS:
            times_ms = []
            for _ in range(100):
                begun = time.perf_counter()
                await server.review(webhook, body, session=session)
                times_ms.append((time.perf_counter() - begun) * 1e3)
            p99s.append(statistics.quantiles(times_ms, n=100)[98])
            print(f"100 reviews over TLS: median {statistics.median(times_ms):.1f} ms, p99 {p99s[-1]:.1f} ms")
    assert min(p99s) < QUICK_MS


def test_a_process_serves_with_files_and_ends_when_it_is_told(tmp_path):
    pair = make_pair(tmp_path, "webhook")
    environ = {**os.environ, "GAPLINE_INJECTOR_LOG_FORMAT": "json"}
    command = [
        *(sys.executable, "-m", "sidecar.cli", "injector", "--look", "nothing", "--drain-timeout", "0"),
        *(
            "--listen",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
            "--tls-cert",
            str(pair.cert),
            "--tls-key",
            str(pair.key),
        ),
    ]

    async def run():
        process = await asyncio.create_subprocess_exec(*command, env=environ, stderr=asyncio.subprocess.PIPE)
        try:
            async with asyncio.timeout(30):
                while b'"listening"' not in (line := await process.stderr.readline()):
                    assert line, "ended before it listened"
                process.send_signal(signal.SIGTERM)
                rest = await process.stderr.read()
                return await process.wait(), rest
        finally:
            if process.returncode is None:
                process.kill()

    code, rest = asyncio.run(run())
    assert code == 0
    assert b'"ended"' in rest


@contextlib.contextmanager
def log_as_it_was():
    """A command sets up the log of its process; here that would stay for all tests behind this one."""
    loggers = [logging.getLogger(name) for name in (None, "aiohttp", "asyncio", "grpc")]
    before = [(logger.level, logger.handlers[:]) for logger in loggers]
    try:
        yield
    finally:
        for logger, (level, handlers) in zip(loggers, before, strict=True):
            logger.setLevel(level)
            logger.handlers[:] = handlers


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["--check-config"], 0, "the configuration can be used"),
        (["--cpu", "much"], 2, "--cpu: 'much'"),
        (["--tls-cert", "/x"], 2, "one needs the other"),
        (["--log-format", "text"], 1, "KUBERNETES_SERVICE_HOST is not set"),
    ],
)
def test_what_is_wrong_is_told(capfd, monkeypatch, argv, code, said):
    monkeypatch.setattr(module.os, "environ", {})
    with log_as_it_was():
        assert main(argv) == code
    out, err = capfd.readouterr()
    assert said in out + err


def test_tls_is_not_older_than_1_2(tmp_path):
    from k8s.tally import Tally
    from k8s.tls import Files, Keeper

    keeper = Keeper(Files(tmp_path / "a", tmp_path / "b"), tally=Tally())
    assert keeper.context.minimum_version == ssl.TLSVersion.TLSv1_2
