"""The TLS contexts of both sides: ours from a certificate that may change while we run, and the one we ask with."""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Final

from sidecar.tls.certificate import CertificateError, not_after_s

log = logging.getLogger(__name__)

CHECK_NS: Final = 5_000_000_000
"""How often the files are looked at: certificates are renewed days before they end, and a look costs two `stat`."""
HTTP_1_1: Final = ("http/1.1",)
H2: Final = ("h2",)

_Signature = tuple[tuple[int, int, int], ...]


class TlsError(Exception):
    """A certificate, key or list of authorities cannot be used. The message names the file, never what is in it."""


class ServerTls:
    """The context of a listener. New connections get the newest that could be loaded; old ones keep theirs.

    reload_count: pairs taken since the start. failure_count: pairs that could not be loaded; the old one stays.
    not_after_s: when the certificate ends, in seconds since 1970; None where that cannot be read.
    """

    def __init__(self, cert: PurePath, key: PurePath) -> None:
        """Load the pair. Raises TlsError."""
        self._cert, self._key = Path(cert), Path(key)
        self._signature = self._signed()
        self._due_ns: int | None = None
        self.context = server_context(self._cert, self._key)
        self.not_after_s = _not_after_s(self._cert)
        self.reload_count = 0
        self.failure_count = 0

    def tick(self, at_ns: int) -> None:
        """Look at the files, every CHECK_NS, and load them when they are others."""
        if self._due_ns is not None and at_ns < self._due_ns:
            return
        self._due_ns = at_ns + CHECK_NS
        if self._signed() != self._signature:
            self.reload()

    def reload(self) -> bool:
        """Load the pair again; whether it could be used."""
        self._signature = self._signed()
        try:
            self.context = server_context(self._cert, self._key)
        except TlsError as error:
            self.failure_count += 1
            log.warning("certificate not loaded, the old one stays", extra={"error": str(error)})
            return False
        self.not_after_s = _not_after_s(self._cert)
        self.reload_count += 1
        self.tell()
        return True

    def tell(self) -> None:
        """A line of the log: which certificate is shown, and until when it is valid."""
        ends_s = self.not_after_s
        not_after = None if ends_s is None else datetime.fromtimestamp(ends_s, UTC).isoformat()
        log.info("certificate loaded", extra={"cert": str(self._cert), "not_after": not_after})

    def _signed(self) -> _Signature:
        """What tells another file from this one; of a file that is not there, nothing."""
        return tuple(map(_signature, (self._cert, self._key)))


def server_context(cert: PurePath, key: PurePath) -> ssl.SSLContext:
    """TLS 1.2 or newer, for HTTP/1.1 alone. Raises TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # a client could make us compute for ever
    context.set_alpn_protocols(list(HTTP_1_1))
    _load_pair(context, cert, key)
    return context


def upstream_context(
    *, ca: PurePath | None, cert: PurePath | None, key: PurePath | None, protocols: Sequence[str] = HTTP_1_1
) -> ssl.SSLContext:
    """Verifies the upstream by the system's authorities, or by those of `ca` alone. Raises TlsError.

    cert, key: shown to an upstream that asks who we are. protocols: what is offered by ALPN.
    """
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except (OSError, ssl.SSLError) as error:
        raise TlsError(f"{ca}: {_reason(error)}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(list(protocols))
    if cert is not None:
        _load_pair(context, cert, cert if key is None else key)
    return context


def _load_pair(context: ssl.SSLContext, cert: PurePath, key: PurePath) -> None:
    try:
        context.load_cert_chain(cert, key, password=_refuse_password)
    except (OSError, ssl.SSLError, ValueError) as error:
        raise TlsError(f"{cert}, {key}: {_reason(error)}") from None


def _not_after_s(cert: Path) -> int | None:
    try:
        return not_after_s(cert.read_bytes())
    except (OSError, CertificateError):  # OpenSSL has read it, so it is good; only its end is not known
        return None


def _refuse_password() -> str:
    """OpenSSL would ask for it on the terminal, and wait."""
    raise ValueError("the key is encrypted")


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or "not in PEM format"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _signature(path: Path) -> tuple[int, int, int]:
    try:
        found = os.stat(path)  # noqa: PTH116  # follows the links by which Kubernetes swaps a secret
    except OSError:
        return (0, 0, 0)
    return (found.st_ino, found.st_mtime_ns, found.st_size)
