"""Programs that check what Kubernetes and Prometheus are given: kubectl, Helm, hadolint, promtool.

    python -m tests.k8s.tools        put them into a folder of this user's cache, once

Tests only look there, and are skipped where the programs are not; see `missing`.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import kubernetes_validate

from tests.readers.programs import run
from tests.readers.reading import Missing
from tests.support.caches import cache_folder

ROOT: Final = Path(__file__).parents[2]
REQUIREMENTS: Final = ROOT / "requirements/k8s-tools.txt"
INSIDE: Final = Path(__file__).with_name("inside.py")
OLDEST, NEWEST = "1.25", "1.37"
"""Of Kubernetes, as far as there are schemas."""
WITHIN_S: Final = 60.0
_PROMTOOL: Final = "usr/bin/promtool"


def folder() -> Path:
    """Where they are, or would be: other versions of them lie elsewhere."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]
    return cache_folder() / f"gapline-k8s-tools-{digest}-{sys.version_info.major}.{sys.version_info.minor}"


def missing() -> str:
    """Why the checks cannot be made here; empty: they can."""
    if folder().exists():
        return ""
    return f"there is no {folder()}; `python -m tests.k8s.tools` makes it"


def install() -> None:
    """Bring them. It is there as a whole or not at all. Raises Missing with the reason."""
    if folder().exists():
        return
    folder().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder().parent) as made:
        target = Path(made) / "tools"
        pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--require-hashes")
        run(*pip, "--target", str(target), "--requirement", str(REQUIREMENTS))
        _add_promtool(target, Path(made))
        try:
            target.rename(folder())
        except OSError:
            if not folder().exists():  # else somebody was faster
                raise


def _add_promtool(target: Path, aside: Path) -> None:
    """Out of Debian's package, which is not installed: it would start a server."""
    os.chmod(aside, 0o755)  # apt gives up root to download
    run("apt-get", "-qq", "update")
    run("apt-get", "-qq", "download", "prometheus", folder=aside)
    for package in aside.glob("prometheus_*.deb"):
        run("dpkg-deb", "--extract", str(package), str(aside / "prometheus"))
    shutil.copy(aside / "prometheus" / _PROMTOOL, target / "bin/promtool")


def tool(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run one of the programs to its end."""
    command = (str(folder() / "bin" / name), *words)
    return subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)


def inside(verb: str, asked: object) -> Any:
    """Have it done by what is in the folder: `inside.py` lists the verbs."""
    environ = os.environ | {"PYTHONPATH": str(folder())}
    command = (sys.executable, str(INSIDE), verb)
    done = subprocess.run(
        command, input=json.dumps(asked), env=environ, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return json.loads(done.stdout)


def kustomized(where: Path) -> list[dict[str, Any]]:
    """What `kubectl apply -k` would send."""
    return json.loads(_kustomized(where))


@functools.cache
def _kustomized(where: Path) -> str:
    done = tool("kubectl", "kustomize", str(where))
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr  # what is deprecated is said there
    [documents] = inside("read", [done.stdout])
    return json.dumps(documents)


def charted(
    chart: Path, values: Mapping[str, Any], *, name: str = "gapline", namespace: str = "gapline-system"
) -> list[dict[str, Any]]:
    """What `helm install` would send."""
    return inside("render", {"folder": str(chart), "values": values, "name": name, "namespace": namespace})


def invalid(documents: Sequence[Mapping[str, Any]], *, version: str) -> list[str]:
    """What is wrong with them by the strict schemas of that version of Kubernetes."""
    errors = []
    for document in documents:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            named = f"{document.get('kind')} {document.get('metadata', {}).get('name')}"
            errors.append(f"{named}: {'.'.join(map(str, error.path))}: {error.message[:300]}")
    return errors


def main() -> int:
    try:
        install()
    except Missing as error:
        print(error, file=sys.stderr)
        return 1
    print(folder())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
