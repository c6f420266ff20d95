"""The API server of Kubernetes, as much of it as gapline asks: get, list, create, replace and patch of plain JSON.

`Api` is the seam: whatever has these five can stand for a cluster. `HttpApi` is the real one, over HTTP, with what
Kubernetes puts into every pod that may ask, or with an address of somebody who has the rights, such as `kubectl proxy`.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import aiohttp
import orjson

from k8s.patch import Operation
from k8s.pods import Object, items, part

POOLS: Final = ("/apis/inference.networking.k8s.io/v1", "/apis/inference.networking.x-k8s.io/v1alpha2")
"""The API of InferencePools, and how it was called before."""
FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST_VARIABLE: Final = "KUBERNETES_SERVICE_HOST"
PORT_VARIABLE: Final = "KUBERNETES_SERVICE_PORT"
TIMEOUT_S: Final = 5.0
"""For one answer: the API server itself waits no longer for ours."""
PAGE: Final = 500
"""Objects of a list at a time, as kubectl does."""
MOST_PAGES: Final = 400
_ANSWER_BYTES: Final = 64 << 20
"""A page of 500 pods has some 5 MB."""
_PIECE_BYTES: Final = 1 << 16


class ApiError(Exception):
    """The API server did not do it. status: of HTTP; None where there was no answer."""

    def __init__(self, status: int | None, message: str) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_absent(self) -> bool:
        return self.status == 404

    @property
    def is_conflict(self) -> bool:
        """Somebody else was faster."""
        return self.status == 409


class Api(Protocol):
    """What is asked of a cluster. path: as the API server has it, from `/api` on. All raise ApiError."""

    async def get(self, path: str) -> dict[str, Any]: ...

    def list(self, path: str) -> AsyncIterator[dict[str, Any]]: ...

    async def create(self, path: str, body: Object) -> dict[str, Any]: ...

    async def replace(self, path: str, body: Object) -> dict[str, Any]: ...

    async def patch(self, path: str, operations: Sequence[Operation]) -> dict[str, Any]: ...


class HttpApi:
    """The API server at a URL.

    token: reads the bearer token anew for each question, since Kubernetes changes it every hour; None for none.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        *,
        token: Callable[[], str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._session = session
        self._url = url.rstrip("/")
        self._token = token
        self._tls = tls

    async def get(self, path: str) -> dict[str, Any]:
        return await self._ask("GET", path)

    async def list(self, path: str) -> AsyncIterator[dict[str, Any]]:
        """Every object of a list, page by page."""
        more = ""
        for _ in range(MOST_PAGES):
            page = await self._ask("GET", path, params={"limit": str(PAGE), **({"continue": more} if more else {})})
            for each in items(page, "items"):
                yield each
            more = str(part(page, "metadata").get("continue") or "")
            if not more:
                return
        raise ApiError(None, f"{path}: has more than {MOST_PAGES * PAGE} objects")

    async def create(self, path: str, body: Object) -> dict[str, Any]:
        return await self._ask("POST", path, body=body)

    async def replace(self, path: str, body: Object) -> dict[str, Any]:
        return await self._ask("PUT", path, body=body)

    async def patch(self, path: str, operations: Sequence[Operation]) -> dict[str, Any]:
        return await self._ask("PATCH", path, body=list(operations), content_type="application/json-patch+json")

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Object | Sequence[Operation] | None = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            if self._token is not None:
                headers["Authorization"] = f"Bearer {self._token()}"
            async with self._session.request(
                method,
                self._url + path,
                params=params,
                data=None if body is None else orjson.dumps(body),
                headers=headers,
                ssl=True if self._tls is None else self._tls,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
            ) as response:
                found = orjson.loads(await _bounded(response))
        except (OSError, aiohttp.ClientError, TimeoutError) as error:
            raise ApiError(None, f"{method} {path}: no answer: {_reason(error)}") from None
        except ValueError:
            raise ApiError(None, f"{method} {path}: the answer is not JSON, or too long") from None
        if not isinstance(found, dict):
            raise ApiError(None, f"{method} {path}: the answer is no object")
        if response.status >= 300:
            raise ApiError(response.status, f"{method} {path}: {response.status} {found.get('message', '')}")
        return found


def in_cluster(session: aiohttp.ClientSession, environ: Mapping[str, str], *, folder: Path = FOLDER) -> HttpApi:
    """The API server of the cluster in whose pod we run. Raises ApiError where we run in none."""
    host, port = environ.get(HOST_VARIABLE), environ.get(PORT_VARIABLE, "443")
    if not host:
        raise ApiError(None, f"this is no pod of a cluster: {HOST_VARIABLE} is not set")
    try:
        tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    except OSError as error:
        raise ApiError(None, f"{folder / 'ca.crt'}: {error.strerror or type(error).__name__}") from None
    url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return HttpApi(session, url, token=lambda: (folder / "token").read_text("utf-8").strip(), tls=tls)


def _reason(error: Exception) -> str:
    """What went wrong in the system's words where it has some: `Connection refused`."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, ssl.SSLError) or not isinstance(cause, OSError):  # the errno of the former is not the system's
        return type(error).__name__
    if isinstance(cause, socket.gaierror) or not cause.errno:
        return cause.strerror or type(error).__name__
    return os.strerror(cause.errno)


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for piece in response.content.iter_chunked(_PIECE_BYTES):
        body += piece
        if len(body) > _ANSWER_BYTES:
            raise ValueError("is too long")
    return bytes(body)
