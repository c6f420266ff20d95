"""An API server for tests: objects over HTTP, and the admission of pods as Kubernetes does it, over real TLS.

Selectors, the review (admission.k8s.io/v1), the patch, defaults after every change, a second round for webhooks that
want one, `failurePolicy`, dry runs: written from the documentation. A patch is applied by a library that is not ours.
"""

from __future__ import annotations

import asyncio
import copy
import io
import itertools
import json
import ssl
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import aiohttp
import jsonpatch
from aiohttp import web

from k8s.documents import objects, read
from tests.support.pods import defaulted

BASE = Path(__file__).parents[2] / "k8s" / "manifests" / "base"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
CONFIGURATION = f"{CONFIGURATIONS}/gapline-injector"
TOKEN = "a-token"
Mutator = Callable[[dict[str, Any]], None]


def manifest(name: str) -> list[dict[str, Any]]:
    """The objects of a file of the kustomize base."""
    documents = read((BASE / name).read_text("utf-8"))
    return [copy.deepcopy(each) for each in objects(documents)]


def configuration() -> dict[str, Any]:
    """The webhooks as people install them."""
    (found,) = (each for each in manifest("webhook.yaml") if each["kind"] == "MutatingWebhookConfiguration")
    return found


@cache
def rights() -> list[tuple[str | None, dict[str, Any]]]:
    """What the injector may do: rules, each with the one namespace for which it holds."""
    found = []
    for each in manifest("injector-rights.yaml"):
        if each["kind"] in {"ClusterRole", "Role"}:
            found += [("gapline" if each["kind"] == "Role" else None, rule) for rule in each["rules"]]
    return found


def is_allowed(method: str, path: str) -> bool:
    """Whether the injector's rights cover this."""
    steps = path.strip("/").split("/")
    group, steps = ("", steps[2:]) if steps[0] == "api" else (steps[1], steps[3:])
    namespace = None
    if steps[0] == "namespaces" and len(steps) > 2:
        namespace, steps = steps[1], steps[2:]
    resource, name = steps[0], steps[1] if len(steps) > 1 else None
    verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "GET": "get" if name else "list"}[method]
    return any(
        within in {None, namespace}
        and group in rule["apiGroups"]
        and resource in rule["resources"]
        and verb in rule["verbs"]
        and ("resourceNames" not in rule or name in rule["resourceNames"])
        for within, rule in rights()
    )


@dataclass
class Admitted:
    """A pod as it was stored, and what was seen on the way. failures: webhooks that could not be asked."""

    pod: dict[str, Any]
    rounds: int
    warnings: list[str]
    failures: list[str]


@dataclass
class ApiServer:
    """objects: by path. mutators: other webhooks, asked after ours. webhook_port: where our Service leads.
    has_all_rights: whoever asks may do everything; else what the injector may."""

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    mutators: list[Mutator] = field(default_factory=list)
    webhook_port: int = 0
    asked: list[tuple[str, str]] = field(default_factory=list)
    delay_s: float = 0.0
    failing: set[str] = field(default_factory=set)
    url: str = ""
    has_all_rights: bool = False
    _versions: Any = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.put(CONFIGURATION, configuration())
        for name, labels in {"team-a": {"gapline.dev/inject": "enabled"}, "team-b": {}}.items():
            named = {"kubernetes.io/metadata.name": name, **labels}
            self.put(f"/api/v1/namespaces/{name}", {"metadata": {"name": name, "labels": named}})
        self.put(
            "/api/v1/nodes/n1", {"metadata": {"name": "n1"}, "status": {"nodeInfo": {"kubeletVersion": "v1.33.2"}}}
        )

    def put(self, path: str, value: dict[str, Any]) -> None:
        made = copy.deepcopy(value)
        made.setdefault("metadata", {})["resourceVersion"] = str(next(self._versions))
        self.objects[path] = made

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        return app

    async def _serve(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return _status(401, "Unauthorized")
        path = request.path
        self.asked.append((request.method, path))
        await asyncio.sleep(self.delay_s)
        if not self.has_all_rights and not is_allowed(request.method, path):
            return _status(403, f"{request.method} {path} is forbidden")
        if any(part in path for part in self.failing):
            return _status(500, "the test says so")
        body = await request.json() if request.can_read_body else None
        match request.method:
            case "GET" if path in self.objects:
                return web.json_response(self.objects[path])
            case "GET" if path.rpartition("/")[2] in {"services", "nodes", "pods", "namespaces", "events"}:
                return self._list(path, request.query)
            case "POST":
                name = body["metadata"].get("name") or f"{body['metadata']['generateName']}{next(self._versions)}"
                if f"{path}/{name}" in self.objects:
                    return _status(409, "already exists")
                self.put(f"{path}/{name}", body)
                return web.json_response(self.objects[f"{path}/{name}"], status=201)
            case "PUT" if path in self.objects:
                version = body["metadata"].get("resourceVersion")
                if version not in {None, self.objects[path]["metadata"]["resourceVersion"]}:
                    return _status(409, "the object has been modified")
                self.put(path, body)
                return web.json_response(self.objects[path])
            case "PATCH" if path in self.objects:
                try:
                    self.put(path, jsonpatch.apply_patch(self.objects[path], body))
                except jsonpatch.JsonPatchException as error:
                    return _status(422, str(error))
                return web.json_response(self.objects[path])
        return _status(404, "not found")

    def _list(self, path: str, query: Any) -> web.Response:
        kind = path.rpartition("/")[2]
        across = path.count("/") == 3  # /api/v1/KIND
        found = [
            {key: value for key, value in each.items() if key not in {"kind", "apiVersion"}}  # as in real lists
            for name, each in self.objects.items()
            if name.rpartition("/")[0] == path or (across and name.split("/")[-2] == kind)
        ]
        begin, limit = int(query.get("continue", "0")), int(query.get("limit", "500"))
        page = {"items": found[begin : begin + limit], "metadata": {}}
        if begin + limit < len(found):
            page["metadata"] = {"continue": str(begin + limit)}
        return web.json_response(page)

    async def create_pod(self, namespace: str, pod: dict[str, Any], *, dry_run: bool = False) -> Admitted:
        """Admit a pod and store it, unless it is a dry run."""
        made = defaulted(pod)
        admitted = Admitted(made, 0, [], [])
        await self._ask_webhooks(namespace, admitted, dry_run=dry_run)
        before = copy.deepcopy(admitted.pod)
        for mutator in self.mutators:
            mutator(admitted.pod)
        admitted.pod = defaulted(admitted.pod)
        if admitted.pod != before:  # reinvocationPolicy: IfNeeded
            await self._ask_webhooks(namespace, admitted, dry_run=dry_run)
        if not dry_run:
            name = admitted.pod["metadata"].get("name") or f"{admitted.pod['metadata']['generateName']}abc"
            admitted.pod["metadata"] |= {"name": name, "namespace": namespace}
            self.put(f"/api/v1/namespaces/{namespace}/pods/{name}", admitted.pod)
        return admitted

    async def _ask_webhooks(self, namespace: str, admitted: Admitted, *, dry_run: bool) -> None:
        labels = self.objects[f"/api/v1/namespaces/{namespace}"]["metadata"].get("labels", {})
        for webhook in self.objects[CONFIGURATION]["webhooks"]:
            pod_labels = admitted.pod["metadata"].get("labels") or {}
            if selects(webhook["namespaceSelector"], labels) and selects(webhook["objectSelector"], pod_labels):
                await self._ask(webhook, namespace, admitted, dry_run=dry_run)

    async def _ask(self, webhook: Any, namespace: str, admitted: Admitted, *, dry_run: bool) -> None:
        uid = f"uid-{next(self._versions)}"
        try:
            response = await self.review(webhook, review(uid, namespace, admitted.pod, dry_run=dry_run))
            answer = response["response"]
            assert answer["uid"] == uid
            assert answer["allowed"] is True
            if "patch" in answer:
                assert answer["patchType"] == "JSONPatch"
                admitted.pod = defaulted(jsonpatch.apply_patch(admitted.pod, json.loads(b64decode(answer["patch"]))))
            admitted.warnings += answer.get("warnings", [])
            admitted.rounds += 1
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            assert webhook["failurePolicy"] == "Ignore"
            admitted.failures.append(type(error).__name__)

    async def review(self, webhook: Any, body: Any, *, session: aiohttp.ClientSession | None = None) -> Any:
        """Ask the webhook at its Service, with the authority that its configuration holds."""
        client = webhook["clientConfig"]
        service = client["service"]
        tls = trusting(client.get("caBundle", ""))
        own = session or aiohttp.ClientSession()
        try:
            async with own.post(
                f"https://127.0.0.1:{self.webhook_port}{service['path']}",
                data=io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode()),
                headers={"Content-Type": "application/json"},
                ssl=tls,
                server_hostname=f"{service['name']}.{service['namespace']}.svc",
                timeout=aiohttp.ClientTimeout(total=webhook["timeoutSeconds"]),
                raise_for_status=True,
            ) as response:
                return await response.json()
        finally:
            if session is None:
                await own.close()


def review(uid: str, namespace: str, pod: Any, *, dry_run: bool = False) -> dict[str, Any]:
    """A review of a pod that the controller of a ReplicaSet makes."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
            "requestResource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": namespace,
            "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
            "object": pod,
            "oldObject": None,
            "dryRun": dry_run,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        },
    }


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Whether a label selector fits; what is not there fits NotIn."""
    for term in selector.get("matchExpressions", []):
        value = labels.get(term["key"])
        if (value in term["values"]) is not (term["operator"] == "In"):
            return False
    return True


@cache
def trusting(bundle: str) -> ssl.SSLContext:
    """What a client needs that trusts these authorities and no others."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if bundle:
        context.load_verify_locations(cadata=b64decode(bundle).decode())
    return context


def _status(code: int, message: str) -> web.Response:
    return web.json_response({"kind": "Status", "code": code, "message": message}, status=code)
