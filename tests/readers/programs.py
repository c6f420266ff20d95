"""Programs that readers need: found on this machine, or installed where we may."""

from __future__ import annotations

import os
import shutil
import subprocess

from tests.readers.reading import Missing

WITHIN_S = 240.0


def program(*names: str, package: str) -> str:
    """The first of these that is there, else from this Debian package. Raises Missing where neither can be."""
    if (found := _found(names)) is not None:
        return found
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise Missing(f"there is no `{names[0]}` here, and we may not install it")
    for words in (("update",), ("install", "-y", "--no-install-recommends", package)):
        run("apt-get", "-qq", *words)
    if (found := _found(names)) is None:
        raise Missing(f"the package {package} brought no `{names[0]}`")
    return found


def run(*command: str, folder: str | os.PathLike[str] = ".") -> None:
    """A command that must succeed. Raises Missing with the last that it said."""
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        subprocess.run(command, cwd=folder, env=quiet, check=True, capture_output=True, timeout=WITHIN_S)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        said = (error.stderr or b"").decode("utf-8", "replace").strip()
        raise Missing(f"{command[0]}: {error} {said[-300:]}") from None


def _found(names: tuple[str, ...]) -> str | None:
    return next((found for name in names if (found := shutil.which(name))), None)
