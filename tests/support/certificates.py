"""Certificates for a test, made by the `openssl` command: an authority of one, whose certificate is its server's."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True, slots=True)
class Pair:
    cert: Path
    key: Path


def make_pair(folder: Path, name: str, *, host: str = "localhost") -> Pair:
    """A certificate for that host and 127.0.0.1 that signs itself. Skips the test where there is no openssl."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl command to make a certificate with")
    pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{host},IP:127.0.0.1"),
            *("-keyout", str(pair.key), "-out", str(pair.cert)),
        ],
        check=True,
        capture_output=True,
    )
    return pair
