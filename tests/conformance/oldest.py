"""The contract of the proxy with the oldest aiohttp that pyproject.toml allows; the locked one is the newest.

    python -m tests.conformance.oldest [--version 3.13.5] [words of tests.conformance.tiers, such as --brief]

It stands in an environment of its own in this user's cache, above this one: whatever it does not bring is ours.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.readers.programs import run
from tests.readers.reading import Missing
from tests.support.caches import cache_folder
from tests.support.processes import LEASH, ROOT

_BOUND: Final = re.compile(r"aiohttp>=([0-9.]+)")


def lowest(project: str) -> str:
    """The lowest version of aiohttp that the text of a pyproject.toml allows."""
    needed = tomllib.loads(project)["project"]["dependencies"]
    (found,) = (match[1] for each in needed if (match := _BOUND.match(each)))
    return found


def environment(version: str) -> Path:
    """Where that version is; made where it is not yet. Raises Missing with the reason."""
    folder = cache_folder() / f"gapline-aiohttp-{version}-{sys.version_info.major}.{sys.version_info.minor}"
    python = folder / "bin/python"
    if not (folder / "whole").exists():
        print(f"installing aiohttp {version} into {folder}", flush=True)
        venv.create(folder, clear=True)
        pip = (sys.executable, "-m", "pip", "--python", str(python), "--quiet", "--disable-pip-version-check")
        run(*pip, "install", f"aiohttp=={version}")
        (folder / "whole").touch()
    site = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    Path(site, "beneath.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance.oldest", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--version", help="[the lowest of pyproject.toml]")
    options, words = parser.parse_known_args(arguments)
    try:
        python = environment(options.version or lowest((ROOT / "pyproject.toml").read_text("utf-8")))
    except Missing as missing:
        print(missing)
        return 2
    leash = (sys.executable, "-I", "-S", "-c", LEASH, str(os.getpid()))
    return subprocess.run(
        (*leash, str(python), "-m", "tests.conformance.tiers", *words), cwd=ROOT, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
