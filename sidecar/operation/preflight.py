"""See whether what the configuration names outside of itself can be used: certificates, keys and folders.

Nothing is made or changed. Each error names its option and its path, and never what is in a file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Final

from otel.settings import UnixPath
from sidecar.config import endpoints_of
from sidecar.tls.contexts import TlsError, server_context, upstream_context

_FILES: Final = (
    ("tls_cert", b"CERTIFICATE-----"),
    ("tls_key", b"PRIVATE KEY-----"),
    ("upstream_ca", b"CERTIFICATE-----"),
    ("upstream_cert", b"CERTIFICATE-----"),
    ("upstream_key", b"PRIVATE KEY-----"),
)
"""Options that name a file in PEM format, and what stands in its first line."""
_WHAT: Final = {b"CERTIFICATE-----": "certificate", b"PRIVATE KEY-----": "private key"}


def file_errors(values: Mapping[str, object]) -> list[str]:
    """What is wrong with the certificates and keys; without them it cannot start. values: by option, those that
    could be read."""
    paths = {name: path for name, _ in _FILES if isinstance(path := values.get(name), PurePath)}
    wrong = {
        name: f"{_option(name)}: {str(paths[name])!r}: {error}"
        for name, mark in _FILES
        if name in paths and (error := _error_of(paths[name], mark)) is not None
    }
    return [*wrong.values(), *_pair_errors({name: path for name, path in paths.items() if name not in wrong})]


def _pair_errors(usable: Mapping[str, PurePath]) -> list[str]:
    """What only loading shows: damage, encryption, two that do not belong together."""
    errors = []
    for cert, key in (("tls_cert", "tls_key"), ("upstream_cert", "upstream_key")):
        if cert in usable and key in usable:
            try:
                server_context(usable[cert], usable[key])  # of the client's pair, too, that is all there is to see
            except TlsError as error:
                errors.append(f"{_option(cert)}, {_option(key)}: {error}")
    if "upstream_ca" in usable:
        try:
            upstream_context(ca=usable["upstream_ca"], cert=None, key=None)
        except TlsError as error:
            errors.append(f"{_option('upstream_ca')}: {error}")
    return errors


def place_errors(values: Mapping[str, object]) -> list[str]:
    """What is wrong with the places where it would make something: unix sockets and the spool."""
    errors = []
    for flag, endpoint in endpoints_of(values):
        if isinstance(endpoint, UnixPath) and (error := _socket_error(Path(endpoint.path))) is not None:
            errors.append(f"{flag}: {str(endpoint)!r}: {error}")
    spool = values.get("spool")
    if isinstance(spool, PurePath) and (error := _folder_error(Path(spool))) is not None:
        errors.append(f"--spool: {str(spool)!r}: {error}")
    return errors


def _error_of(path: PurePath, mark: bytes) -> str | None:
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        return error.strerror or type(error).__name__
    return None if mark in text else f"holds no {_WHAT[mark]} in PEM format"


def _socket_error(path: Path) -> str | None:
    if not path.parent.is_dir():
        return f"there is no folder {str(path.parent)!r}"
    if path.exists() and not path.is_socket():
        return "is there and is no socket"
    return None if os.access(path.parent, os.W_OK | os.X_OK) else f"nothing can be made in {str(path.parent)!r}"


def _folder_error(path: Path) -> str | None:
    """Why it cannot be a folder in which files are made, None when it can, be it there or not."""
    there = next((each for each in (path, *path.parents) if os.path.lexists(each)), path)
    if not there.is_dir():
        return "is no folder" if there == path else f"{str(there)!r} is no folder"
    return None if os.access(there, os.W_OK | os.X_OK) else f"nothing can be made in {str(there)!r}"


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
