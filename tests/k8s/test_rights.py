"""The rights that are installed: what the injector asks of the cluster is allowed, and nothing else is."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from k8s.api import ApiError
from k8s.cluster import Cluster
from k8s.decisions import Reason, Skip
from k8s.events import Events
from k8s.review import Review
from k8s.tally import Tally
from k8s.tls import Own
from tests.k8s import tools
from tests.k8s.test_manifests import MANIFESTS, NAMESPACE, of_kind
from tests.k8s.tools import kustomized
from tests.support.clock import FakeClock

pytestmark = pytest.mark.skipif(bool(tools.missing()), reason=tools.missing())

_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/v[^/]+(?:/namespaces/(?P<namespace>[^/]+)(?=/))?/(?P<resource>[a-z]+)(?:/(?P<name>[^/]+))?"
)
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
Asked = tuple[str, str, str, str, str]
"""Verb, group, resource, name and namespace, as rights speak of them; empty where there is none."""


class Recorder:
    """A cluster in which nothing is there, which keeps what it was asked. secret: what lies in the injector's own."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.secret: dict | None = None

    async def get(self, path: str) -> dict:
        self._note("get", path)
        if "/secrets/" in path:
            if self.secret is None:
                raise ApiError(404, "there is none")
            return self.secret
        return {"metadata": {}, "webhooks": [{"name": "w", "clientConfig": {}}]}

    async def list(self, path: str) -> AsyncIterator[dict]:
        self._note("list", path)
        return
        yield {}

    async def create(self, path: str, body: dict) -> dict:
        self._note("create", path)
        if "/secrets" in path:
            self.secret = body
        return dict(body)

    async def replace(self, path: str, body: dict) -> dict:
        self._note("update", path)
        return dict(body)

    async def patch(self, path: str, _operations: object) -> dict:
        self._note("patch", path)
        return {}

    def _note(self, verb: str, path: str) -> None:
        found = _PATH.fullmatch(path)
        assert found is not None, path
        self.asked.append((verb, *(found[key] or "" for key in ("group", "resource", "name", "namespace"))))


async def all_that_is_asked() -> set[Asked]:
    """Everything that an injector with a certificate of its own ever asks."""
    cluster, tally, clock = Recorder(), Tally(), FakeClock()
    await Cluster(cluster, clock=clock, tally=tally).look("llm")
    names = {"service": "gapline-injector", "secret": "gapline-injector-tls", "webhook": "gapline-injector"}
    own = Own(cluster, namespace=NAMESPACE, clock=clock, **names)
    await own.pair()
    cluster.secret = {"metadata": {}, "data": {}}  # not whole, so that it is replaced
    await own.pair()
    events = Events(cluster, clock=clock, tally=tally)
    pod = {"metadata": {"ownerReferences": [OWNER]}}
    events.tell(Review("u", "llm", pod, is_dry_run=False), Skip(Reason.JOB, "it is a job"))
    task = asyncio.ensure_future(events.run())
    while not tally.events["written"]:
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return set(cluster.asked)


def allowed_by(objects: list[dict]) -> dict[Asked, str]:
    """What the installed rules allow: by what may be asked, the namespace to which it is bound; empty for all."""
    bound = {(each["roleRef"]["kind"], each["roleRef"]["name"]) for kind in BINDINGS for each in of_kind(objects, kind)}
    found = {}
    for role in (*of_kind(objects, "ClusterRole"), *of_kind(objects, "Role")):
        assert (role["kind"], role["metadata"]["name"]) in bound
        for rule in role["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for verb in rule["verbs"]:
                        for name in rule.get("resourceNames", [""]):
                            found[verb, group, resource, name] = role["metadata"].get("namespace", "")
    return found


BINDINGS = ("ClusterRoleBinding", "RoleBinding")


def fits(asked: Asked, rule: tuple, namespace: str) -> bool:
    verb, group, resource, name, inside = asked
    return rule[:3] == (verb, group, resource) and rule[3] in {"", name} and namespace in {"", inside}


async def test_the_injector_may_do_what_it_does_and_nothing_else():
    allowed = allowed_by(kustomized(MANIFESTS / "base"))
    asked = await all_that_is_asked()
    assert len(asked) >= 9
    for each in asked:
        assert any(fits(each, rule, namespace) for rule, namespace in allowed.items()), each
    for rule, namespace in allowed.items():
        assert any(fits(each, rule, namespace) for each in asked), f"nobody needs {rule}"


async def test_with_a_certificate_of_others_it_may_not_see_secrets():
    allowed = allowed_by(kustomized(MANIFESTS / "overlays/cert-manager"))
    assert {rule[2] for rule in allowed} == {"namespaces", "nodes", "services", "inferencepools", "events"}
    assert "*" not in {part for rule in allowed for part in rule}
