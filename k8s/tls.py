"""Keep the webhook's TLS context showing a good certificate: one from files that somebody renews, or one of our own.

Our own lies in a Secret that all replicas share, and the first one that sees it due renews it; who loses that race
takes what the winner wrote. What is to be trusted is told to the API server *before* a certificate of it is shown, so
no question is lost on the way from one to the next. The context is changed while it serves: connections that stand
keep what they have, new ones get the newest.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from base64 import b64decode, b64encode
from binascii import Error
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any, Final, Protocol

from k8s.api import Api, ApiError
from k8s.certificates import Material, MaterialError, not_after, renewed
from k8s.pods import Object, items, part
from k8s.tally import Tally
from sidecar.clock import Clock

log = logging.getLogger(__name__)

CHECK_S: Final = 5.0
"""How often files are looked at, and how soon what failed is tried again."""
RENEW_S: Final = 30.0
"""How often our own is looked at. Who empties the webhook's configuration, or deletes the Secret to have all of it made
anew, costs pods their sidecars until then: another replica's certificate is not trusted any more."""
_FIELDS: Final = {"authorities": "ca.crt", "authority_key": "ca.key", "cert": "tls.crt", "key": "tls.key"}
_TYPE: Final = "kubernetes.io/tls"
_CONFIGURATIONS: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


class Source(Protocol):
    """Where the certificate comes from. pause_s: until it should be looked at again."""

    pause_s: float

    async def pair(self) -> tuple[bytes, bytes]:
        """Certificate chain and key, in PEM. Raises ApiError, MaterialError or OSError."""
        ...


class Files:
    """A pair of files."""

    pause_s = CHECK_S

    def __init__(self, cert: PurePath, key: PurePath) -> None:
        self._cert, self._key = Path(cert), Path(key)

    async def pair(self) -> tuple[bytes, bytes]:
        return await asyncio.to_thread(self._cert.read_bytes), await asyncio.to_thread(self._key.read_bytes)


class Own:
    """Our own, in a Secret, and trusted by the webhook's configuration."""

    pause_s = RENEW_S

    def __init__(self, api: Api, *, namespace: str, service: str, secret: str, webhook: str, clock: Clock) -> None:
        self._api = api
        self._namespace = namespace
        self._secret = secret
        self._configuration = f"{_CONFIGURATIONS}/{webhook}"
        self._hosts = (f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local")
        self._clock = clock

    async def pair(self) -> tuple[bytes, bytes]:
        material = await self._kept()
        await self._trust(material.authorities)
        return material.cert, material.key

    async def _kept(self) -> Material:
        """What lies in the Secret, renewed when that is due; or what another replica put there meanwhile."""
        path = f"/api/v1/namespaces/{self._namespace}/secrets"
        now = datetime.fromtimestamp(self._clock.wall_ns() // 1_000_000_000, UTC)
        try:
            found = await self._api.get(f"{path}/{self._secret}")
        except ApiError as error:
            if not error.is_absent:
                raise
            material = renewed(None, hosts=self._hosts, now=now)
            await self._api.create(path, self._body(material, {"name": self._secret, "namespace": self._namespace}))
            return material
        kept = _material(found)
        material = renewed(kept, hosts=self._hosts, now=now)
        if material != kept:
            kind = str(found.get("type") or _TYPE)  # the type of a Secret cannot be changed
            await self._api.replace(f"{path}/{self._secret}", self._body(material, part(found, "metadata"), kind))
        return material

    def _body(self, material: Material, metadata: Object, kind: str = _TYPE) -> dict[str, Any]:
        """The Secret. The metadata of one that was read holds its version, so that nobody's newer one is lost."""
        data = {field: b64encode(getattr(material, name)).decode() for name, field in _FIELDS.items()}
        return {"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": metadata, "data": data}

    async def _trust(self, authorities: bytes) -> None:
        """Have every webhook of the configuration trust these."""
        wanted = b64encode(authorities).decode()
        found = await self._api.get(self._configuration)
        operations: list[dict[str, Any]] = []
        for index, webhook in enumerate(items(found, "webhooks")):
            if part(webhook, "clientConfig").get("caBundle") != wanted:
                operations += [
                    {"op": "test", "path": f"/webhooks/{index}/name", "value": part(webhook).get("name")},
                    {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": wanted},
                ]
        if operations:
            await self._api.patch(self._configuration, operations)
            log.info("authority told to the API server", extra={"webhooks": len(operations) // 2})


class Keeper:
    """The context, and the task that keeps it good. is_loaded: whether there is a certificate to show."""

    def __init__(self, source: Source, *, tally: Tally) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.options |= ssl.OP_NO_RENEGOTIATION  # a client could make us compute for ever
        self.is_loaded = False
        self._source = source
        self._tally = tally
        self._shown: tuple[bytes, bytes] | None = None

    async def look(self) -> float:
        """Take what there is to be shown now. How many seconds later that should be done again."""
        try:
            pair = await self._source.pair()
            if pair != self._shown:
                self._load(*pair)  # not in a thread: between certificate and key no handshake may begin
        except (ApiError, MaterialError, OSError, ValueError) as error:
            is_race = isinstance(error, ApiError) and error.is_conflict
            if not is_race:
                self._tally.failures["certificate"] += 1
                log.warning("certificate not loaded, the one before stays", extra={"error": _reason(error)})
            return CHECK_S if not is_race else 0.1
        return self._source.pause_s

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            pause_s = await self.look()
            await asyncio.sleep(pause_s)

    def _load(self, cert: bytes, key: bytes) -> None:
        """Show this pair from the next connection on. Raises OSError or MaterialError, and the one before stays.

        OpenSSL reads files only; those in memory have names as well, and no disk ever holds the key.
        """
        ends = not_after(cert)
        trial = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        for context in (trial, self.context):  # a pair that does not fit must not half replace the one before
            with _InMemory(cert) as cert_name, _InMemory(key) as key_name:
                context.load_cert_chain(cert_name, key_name, password=_refuse_password)
        self._shown = (cert, key)
        self.is_loaded = True
        self._tally.certificate_loads += 1
        self._tally.certificate_ends_s = int(ends.timestamp())
        log.info("certificate loaded", extra={"not_after": ends.isoformat()})


class _InMemory:
    """A file that exists only in memory, under a name by which OpenSSL can open it."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._descriptor = -1

    def __enter__(self) -> str:
        self._descriptor = os.memfd_create("pem")
        os.write(self._descriptor, self._data)
        return f"/proc/self/fd/{self._descriptor}"

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def _material(secret: Object) -> Material | None:
    """What a Secret holds; None where it is not whole."""
    data = part(secret, "data")
    try:
        return Material(**{name: b64decode(data[field], validate=True) for name, field in _FIELDS.items()})
    except (KeyError, TypeError, Error, ValueError):
        return None


def _refuse_password() -> str:
    """OpenSSL would ask for it on the terminal, and wait."""
    raise ValueError("the key is encrypted")


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or "not in PEM"
    return str(error) or type(error).__name__
