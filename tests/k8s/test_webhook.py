"""The webhook answers every question with leave, whatever comes and whatever breaks."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from base64 import b64decode

import pytest

from k8s import webhook as module
from k8s.cluster import Nowhere
from k8s.decisions import Plan
from k8s.keys import SIDECAR
from k8s.renderer import injection
from k8s.tally import Tally
from k8s.webhook import APART_FROM_BYTES, BODY_BYTES, Webhook
from tests.support import pods
from tests.support.api_server import review
from tests.support.clock import FakeClock


@pytest.fixture
def tally():
    return Tally()


@pytest.fixture
async def ask(aiohttp_client, tally):
    told = []
    webhook = Webhook(
        pods.config(), surroundings=Nowhere(), clock=FakeClock(), tally=tally, tell=lambda *event: told.append(event)
    )
    client = await aiohttp_client(webhook.app())

    async def ask_with(body, *, content_type="application/json"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        response = await client.post("/mutate", data=io.BytesIO(data), headers={"Content-Type": content_type})
        return response.status, await response.read()

    ask_with.told = told
    return ask_with


def response_of(body):
    return json.loads(body)["response"]


async def test_a_pod_gets_its_patch(ask, tally):
    status, body = await ask(review("u1", "team-a", pods.pod()))
    response = response_of(body)
    assert (status, response["uid"], response["allowed"]) == (200, "u1", True)
    assert SIDECAR in b64decode(response["patch"]).decode()
    assert "warnings" not in response
    assert tally.decisions == {("injected", "named"): 1}
    ((asked, decision),) = ask.told
    assert (asked.uid, type(decision)) == ("u1", Plan)


async def test_whoever_gets_none_hears_why(ask):
    _, body = await ask(review("u1", "team-a", pods.pod(hostNetwork=True)))
    (warning,) = response_of(body)["warnings"]
    assert warning.startswith("gapline: no sidecar (host-network)")


async def test_who_declined_hears_nothing(ask):
    _, body = await ask(review("u1", "team-a", pods.pod(labels={"gapline.dev/inject": "false"})))
    assert response_of(body) == {"uid": "u1", "allowed": True}


async def test_a_dry_run_is_answered_alike_and_told_to_nobody(ask):
    _, wet = await ask(review("u1", "team-a", pods.pod()))
    _, dry = await ask(review("u1", "team-a", pods.pod(), dry_run=True))
    assert response_of(dry) == response_of(wet)
    assert len(ask.told) == 1


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"{}", b"\x00" * 100, json.dumps({"kind": "AdmissionReview"}).encode()]
)
async def test_what_is_no_question_is_refused(ask, tally, body):
    assert (await ask(body))[0] == 400
    assert tally.reviews == {"malformed": 1}


async def test_another_kind_of_body_is_refused(ask):
    assert (await ask(review("u", "n", pods.pod()), content_type="text/plain"))[0] == 400


@pytest.mark.parametrize("pod", [None, "text", {}, {"spec": {"containers": "x"}}, {"metadata": 7, "spec": []}])
async def test_a_pod_that_is_none_is_let_through(ask, pod):
    status, body = await ask(review("u1", "team-a", pod))
    assert (status, response_of(body)["allowed"]) == (200, True)


async def test_a_pod_of_two_megabytes_gets_its_patch(ask):
    large = pods.pod(annotations={"large": "x" * (2 << 20)})
    status, body = await ask(review("u1", "team-a", large))
    assert status == 200
    patch = json.loads(b64decode(response_of(body)["patch"]))
    assert len(json.dumps(patch)) < 20_000  # what stays is not sent back


async def test_more_than_a_review_can_be_is_refused(ask, tally):
    assert (await ask(b" " * (BODY_BYTES + 1)))[0] == 413
    assert tally.reviews == {"malformed": 1}


async def test_a_fault_of_our_own_stops_no_pod(ask, tally, monkeypatch, caplog):
    def fail(*_, **__):
        raise RuntimeError("with the secret of somebody")

    monkeypatch.setattr(module, "injection", fail)
    status, body = await ask(review("u1", "team-a", pods.pod()))
    assert status == 200
    assert response_of(body) == {"uid": "u1", "allowed": True, "warnings": ["gapline: no sidecar: RuntimeError"]}
    assert tally.reviews == {"failed": 1}
    assert tally.decisions == {("skipped", "failed"): 1}


async def test_a_pod_that_takes_long_keeps_no_other_waiting(ask, monkeypatch):
    begun, may_end = threading.Event(), threading.Event()

    def slow(pod, **around):
        if "large" in pod["metadata"]["annotations"]:
            begun.set()
            may_end.wait(5)
        return injection(pod, **around)

    monkeypatch.setattr("k8s.webhook.injection", slow)
    large = asyncio.ensure_future(ask(review("u1", "team-a", pods.pod(annotations={"large": "x" * APART_FROM_BYTES}))))
    await asyncio.to_thread(begun.wait, 5)
    small = await asyncio.wait_for(ask(review("u2", "team-a", pods.pod(annotations={"small": "x"}))), 2)
    assert (response_of(small[1])["uid"], large.done()) == ("u2", False)
    may_end.set()
    assert response_of((await large)[1])["uid"] == "u1"
