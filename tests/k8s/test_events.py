"""Events stand at what owns the pod, and cost nobody anything."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from k8s import events as module
from k8s.decisions import Reason, Skip
from k8s.events import MESSAGE_BYTES, Events, event
from k8s.facts import Facts
from k8s.planner import plan
from k8s.review import Review
from k8s.tally import Tally
from tests.support import kube, pods
from tests.support.clock import FakeClock

SKIP = Skip(Reason.HOST_NETWORK, "it uses the node's network")
AT_NS = 1_796_000_000_123_456_789


def of_shape():
    _, found, _ = pods.shapes()[0]
    return Review("u", "team-a", pods.created(found), is_dry_run=False)


def test_it_is_about_the_owner_and_kubernetes_takes_it():
    plan_ = plan(pods.pod(), namespace=pods.ASKED, facts=Facts(), config=pods.config())
    for decision, kind in ((SKIP, "Warning"), (plan_, "Normal")):
        made = event(of_shape(), decision, at_ns=AT_NS)
        assert made["involvedObject"]["kind"] == "ReplicaSet"
        assert (made["type"], made["eventTime"]) == (kind, "2026-11-30T00:53:20.123456Z")
        kube.validate(made, kube.NEWEST)


def test_a_pod_that_nobody_owns_has_no_event():
    assert event(Review("u", "n", pods.pod(), is_dry_run=False), SKIP, at_ns=AT_NS) is None


def test_a_long_sentence_is_cut_within_the_bytes_that_are_taken():
    made = event(of_shape(), Skip(Reason.JOB, "ü" * 5000), at_ns=AT_NS)
    assert MESSAGE_BYTES - 2 <= len(made["message"].encode()) <= MESSAGE_BYTES


async def run_briefly(events, until):
    async with asyncio.TaskGroup() as group:
        task = group.create_task(events.run())
        async with asyncio.timeout(5):
            while not until():
                await asyncio.sleep(0.01)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_events_are_written_afterwards(api, server):
    tally = Tally()
    events = Events(api, clock=FakeClock(), tally=tally)
    events.tell(of_shape(), SKIP)
    assert server.asked == []
    await run_briefly(events, lambda: tally.events["written"])
    (path,) = [path for path in server.objects if "/events/" in path]
    assert server.objects[path]["reason"] == "SidecarSkipped"


async def test_what_cannot_be_written_is_counted(api, server):
    tally = Tally()
    events = Events(api, clock=FakeClock(), tally=tally)
    server.failing = {"events"}
    events.tell(of_shape(), SKIP)
    await run_briefly(events, lambda: tally.events["failed"])


@pytest.mark.parametrize("count", [3])
async def test_what_does_not_fit_is_counted(api, monkeypatch, count):
    monkeypatch.setattr(module, "QUEUE", 1)
    tally = Tally()
    events = Events(api, clock=FakeClock(), tally=tally)
    for _ in range(count):
        events.tell(of_shape(), SKIP)
    assert tally.events["dropped"] == count - 1
