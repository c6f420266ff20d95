"""AdmissionReview, as the API server asks and is answered (admission.k8s.io/v1): both directions.

The answer always allows the pod: who watches must not stop a model from starting.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from k8s.patch import Operation
from k8s.pods import Object, part

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
WARNING_CHARS: Final = 120
"""Longer warnings may be cut by the API server, and too many of them dropped."""
_UID_CHARS: Final = 253
_NAMESPACE: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
"""Its name becomes a part of paths that we ask of the API server, and whoever reaches our port can send a question."""


class ReviewError(ValueError):
    """The body is no question that could be answered. The message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Review:
    """One question. pod: None where the object is none, or is not being made. namespace: empty where none is named."""

    uid: str
    namespace: str
    pod: dict[str, Any] | None
    is_dry_run: bool


def read(body: bytes) -> Review:
    """The question in a body. Raises ReviewError."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise ReviewError("is not JSON") from None
    if not isinstance(found, dict) or found.get("apiVersion") != API_VERSION or found.get("kind") != KIND:
        raise ReviewError(f"is no {KIND} of {API_VERSION}")
    request = part(found, "request")
    uid = request.get("uid")
    if not isinstance(uid, str) or not 0 < len(uid) <= _UID_CHARS:
        raise ReviewError("has no request with a uid")
    pod = _pod(request)
    namespace = request.get("namespace") or part(pod, "metadata").get("namespace") or ""
    if namespace and not (isinstance(namespace, str) and _NAMESPACE.fullmatch(namespace)):
        raise ReviewError("names a namespace that can be none")
    return Review(
        uid=uid,
        namespace=namespace,
        pod=pod,
        is_dry_run=request.get("dryRun") is True,
    )


def answer(uid: str, patch: Sequence[Operation] = (), *, warning: str | None = None) -> bytes:
    """The body of the answer."""
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if patch:
        response |= {"patchType": "JSONPatch", "patch": b64encode(orjson.dumps(list(patch))).decode()}
    if warning is not None:
        text = f"gapline: {warning}"
        response["warnings"] = [text if len(text) <= WARNING_CHARS else text[: WARNING_CHARS - 1] + "…"]
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _pod(request: Object) -> dict[str, Any] | None:
    kind, raw = part(request, "kind"), request.get("object")
    is_pod = kind.get("kind") == "Pod" and kind.get("group", "") == "" and request.get("operation") == "CREATE"
    return raw if is_pod and not request.get("subResource") and isinstance(raw, dict) else None
