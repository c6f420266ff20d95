"""What is known around a pod: fresh where that helps, old for a while where asking fails, and never waited for long."""

from __future__ import annotations

import asyncio

import pytest

from k8s import cluster as module
from k8s.cluster import FRESH_NS, NODES_FRESH_NS, STALE_NS, Cluster, Nowhere
from k8s.tally import Tally
from tests.support import pods
from tests.support.clock import FakeClock

SERVICES = "/api/v1/namespaces/team-a/services"


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def tally():
    return Tally()


@pytest.fixture
def cluster(api, clock, tally):
    made = Cluster(api, clock=clock, tally=tally)
    yield made
    made.close()


def asked(server, kind):
    return [path for _, path in server.asked if path.endswith(kind)]


async def test_namespace_callers_and_nodes_are_found(cluster, server):
    server.put(f"{SERVICES}/svc", pods.service("http"))
    server.put("/api/v1/nodes/n2", {"metadata": {"name": "n2"}, "status": {"nodeInfo": {"kubeletVersion": "v1.28.9"}}})
    namespace, facts = await cluster.look("team-a")
    assert namespace.labels["gapline.dev/inject"] == "enabled"
    assert [str(caller) for caller in facts.callers] == ["Service svc"]
    assert facts.oldest_minor == 28


@pytest.mark.parametrize("group", ["inference.networking.k8s.io/v1", "inference.networking.x-k8s.io/v1alpha2"])
async def test_pools_of_both_names_are_callers(cluster, server, group):
    path = f"/apis/{group}/namespaces/team-a/inferencepools"
    pool = {
        "metadata": {"name": "p"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "targetPorts": [{"number": 1}]},
    }
    server.put(f"{path}/p", pool)
    server.put(path, {"items": [pool]})
    _, facts = await cluster.look("team-a")
    assert [str(caller) for caller in facts.callers] == ["InferencePool p"]


async def test_a_wave_of_pods_asks_once(cluster, server):
    server.delay_s = 0.05
    await asyncio.gather(*(cluster.look("team-a") for _ in range(50)))
    assert len(asked(server, "services")) == 1
    assert len(asked(server, "nodes")) == 1


async def test_what_is_old_is_asked_anew(cluster, server, clock):
    await cluster.look("team-a")
    server.put(f"{SERVICES}/svc", pods.service("http"))
    clock.advance(FRESH_NS)
    assert (await cluster.look("team-a"))[1].callers
    assert len(asked(server, "nodes")) == 1
    clock.advance(NODES_FRESH_NS)
    await cluster.look("team-a")
    assert len(asked(server, "nodes")) == 2


async def test_where_asking_fails_what_was_known_counts_for_a_while(cluster, server, clock, tally):
    server.put(f"{SERVICES}/svc", pods.service("http"))
    await cluster.look("team-a")
    server.failing = {"team-a", "nodes"}
    clock.advance(FRESH_NS)
    namespace, facts = await cluster.look("team-a")
    assert (namespace.is_known, len(facts.callers)) == (True, 1)
    assert tally.failures["cluster"] == 2
    clock.advance(STALE_NS)
    namespace, facts = await cluster.look("team-a")
    assert (namespace.is_known, facts.callers, facts.oldest_minor) == (False, None, 33)


async def test_a_failure_is_not_asked_again_for_every_pod(cluster, server, clock):
    server.failing = {"services"}
    for _ in range(5):
        assert (await cluster.look("team-a"))[1].callers is None
    assert len(asked(server, "services")) == 1
    clock.advance(FRESH_NS)
    server.failing = set()
    assert (await cluster.look("team-a"))[1].callers == ()


async def test_nodes_that_could_not_be_listed_are_asked_for_again_soon(cluster, server, clock):
    server.failing = {"nodes"}
    assert (await cluster.look("team-a"))[1].oldest_minor is None
    server.failing = set()
    clock.advance(FRESH_NS)
    assert (await cluster.look("team-a"))[1].oldest_minor == 33


async def test_a_slow_answer_is_not_waited_for(cluster, server, monkeypatch):
    monkeypatch.setattr(module, "LOOK_S", 0.05)
    server.delay_s = 5.0
    async with asyncio.timeout(2):
        namespace, facts = await cluster.look("team-a")
    assert (namespace.is_known, facts.callers, facts.oldest_minor) == (False, None, None)


async def test_an_answer_that_nobody_waited_for_is_there_for_the_next_pod(cluster, server, clock, tally, monkeypatch):
    """Else a cluster whose nodes take longer to be listed than a pod waits never gets native sidecars."""
    monkeypatch.setattr(module, "LOOK_S", 0.05)
    server.delay_s = 0.3
    found = await asyncio.gather(*(cluster.look("team-a") for _ in range(9)))
    assert {facts.oldest_minor for _, facts in found} == {None}
    assert tally.failures["cluster"] == 3  # namespace, callers, nodes
    async with asyncio.timeout(5):
        while (await cluster.look("team-a"))[1].oldest_minor is None:
            await asyncio.sleep(0.01)
    assert len(asked(server, "nodes")) == 1


async def test_closed_it_asks_nothing_any_more(cluster, server, monkeypatch):
    monkeypatch.setattr(module, "LOOK_S", 0.05)
    server.delay_s = 5.0
    await cluster.look("team-a")
    before = asyncio.all_tasks()
    cluster.close()
    async with asyncio.timeout(2):
        while asyncio.all_tasks() == before:
            await asyncio.sleep(0.01)


async def test_nobody_asks_for_ever(cluster, server, monkeypatch):
    monkeypatch.setattr(module, "ASK_S", 0.05)
    server.delay_s = 0.3
    async with asyncio.timeout(2):
        assert (await cluster.look("team-a"))[1].oldest_minor is None


async def test_namespaces_that_are_not_asked_for_any_more_are_forgotten(cluster, server, monkeypatch):
    monkeypatch.setattr(module, "MOST_NAMESPACES", 1)
    for name in ("team-a", "team-b", "team-a"):
        await cluster.look(name)
    assert len(asked(server, "team-a")) == 2


async def test_who_may_not_look_assumes_that_being_asked_means_being_wanted():
    namespace, facts = await Nowhere().look("team-a")
    assert namespace.labels == {"gapline.dev/inject": "enabled"}
    assert not namespace.lets_redirect
    assert facts.callers is None
