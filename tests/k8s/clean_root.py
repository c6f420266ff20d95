"""A root of its own to build and run an image in, where no container engine is: debootstrap, chroot, namespaces.

What is mounted is mounted in a namespace that ends with the process in it, so nothing is left behind; that process is
the command itself, which hears every signal.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.k8s.dockerfile import Instruction, Stage
from tests.readers.programs import program, run
from tests.readers.reading import Missing

WITHIN_S: Final = 600.0
_BUILDER: Final = ("PIP_CERT", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "HTTP_PROXY", "HTTPS_PROXY")
"""What a builder's network may need, as `--build-arg` and secrets give it; none of it stays in the image."""
_SHELL: Final = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "DEBIAN_FRONTEND": "noninteractive",
    "HOME": "/root",
}
_AUTHORITIES: Final = "etc/ssl/certs/ca-certificates.crt"
_MOUNTED: Final = """\
set -e
mount --bind "$1" "$1"
[ "$2" = rw ] || mount -o remount,ro,bind "$1"
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount -t tmpfs tmpfs "$1/tmp"
[ "$2" = rw ] || mount -t tmpfs -o mode=1777 tmpfs "$1/run"
root="$1"; user="$3"; shift 3
exec chroot --userspec="$user" "$root" "$@"
"""
"""Arguments: the root, rw or ro, USER:GROUP, the command. A read-only one has /tmp and /run to write to."""


def base_root(cache: Path, image: str) -> Path:
    """The root of `debian:SUITE-slim`, made once. Raises Missing where that cannot be."""
    if os.geteuid() != 0:
        raise Missing("a clean root can be made by root only")
    suite = image.removeprefix("debian:").removesuffix("-slim")
    root = cache / f"root-{suite}"
    if not root.exists():
        made = cache / f"root-{suite}.{os.getpid()}"
        shutil.rmtree(made, ignore_errors=True)
        cache.mkdir(parents=True, exist_ok=True)
        run(program("debootstrap", package="debootstrap"), "--variant=minbase", suite, str(made))
        run("chroot", str(made), "apt-get", "clean")
        made.rename(root)
    return root


def copied(source: Path, target: Path) -> Path:
    """The same root once more, with its capabilities and owners."""
    run("cp", "--archive", "--reflink=auto", str(source), str(target))
    return target


def command(
    root: Path, *words: str, user: str = "0:0", is_writable: bool = False, environ: Mapping[str, str] | None = None
) -> list[str]:
    """What runs this in the root, with nothing in its environment but this."""
    variables = [f"{name}={value}" for name, value in (environ or {}).items()]
    how = ("unshare", "--mount", "sh", "-c", _MOUNTED, "sh")
    return [*how, str(root), "rw" if is_writable else "ro", user, "/usr/bin/env", "-i", *variables, *words]


def finished(words: Sequence[str]) -> str:
    """Run to its end; what it said. Raises AssertionError where it failed."""
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=WITHIN_S, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, f"{words[-1][:200]}: {done.returncode}\n{done.stdout[-2_000:]}{done.stderr[-2_000:]}"
    return done.stdout


def build(stages: Sequence[Stage], *, context: Path, cache: Path, folder: Path) -> Path:
    """Carry out every stage, each in a root of its own; the root of the last one."""
    roots: dict[str, Path] = {}
    root = folder
    for number, stage in enumerate(stages):
        source = roots.get(stage.base) or base_root(cache, stage.base)
        root = copied(source, folder / f"stage-{number}")
        roots[stage.name or str(number)] = root
        where = Path("/")
        for each in stage.instructions:
            match each.name:
                case "WORKDIR":
                    where = Path(each.text)
                    _inner(root, where).mkdir(parents=True, exist_ok=True)
                case "COPY":
                    _copy(each, context=context, roots=roots, root=root, where=where)
                case "RUN":
                    _run(each.text, root=root, where=where, environ=stage.environ)
    return root


def _copy(each: Instruction, *, context: Path, roots: Mapping[str, Path], root: Path, where: Path) -> None:
    words = each.words
    of_stage = words.pop(0).removeprefix("--from=") if words[0].startswith("--from=") else None
    source = roots[of_stage] if of_stage else context
    *names, target = words
    place = _inner(root, where / target)
    for name in names:
        found = source / name.lstrip("/")
        if found.is_dir():
            ignore = shutil.ignore_patterns("__pycache__", "manifests")
            shutil.copytree(found, place, symlinks=True, ignore=None if of_stage else ignore, dirs_exist_ok=True)
        else:
            into = place / found.name if target.endswith("/") else place
            into.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(found, into)


def _run(text: str, *, root: Path, where: Path, environ: Mapping[str, str]) -> None:
    """With the network of this machine, and its authorities in place of the root's while it runs."""
    known = {name: os.environ[name] for name in _BUILDER if name in os.environ}
    environ = known | _SHELL | environ
    lent = [_Lent(root, name) for name in ("etc/resolv.conf", "etc/hosts", _AUTHORITIES)]
    try:
        finished(command(root, "sh", "-c", f"cd {where} && {text}", is_writable=True, environ=environ))
    finally:
        for each in lent:
            each.take_back()


class _Lent:
    """A file of this machine in the place of the root's, unless what runs there makes its own."""

    def __init__(self, root: Path, name: str) -> None:
        self._place = root / name
        self._before = self._place.read_bytes() if self._place.is_file() else None
        self._ours = Path("/", name).read_bytes() if Path("/", name).is_file() else b""
        self._place.unlink(missing_ok=True)
        self._place.parent.mkdir(parents=True, exist_ok=True)
        self._place.write_bytes(self._ours)

    def take_back(self) -> None:
        if self._place.read_bytes() != self._ours:
            return
        if self._before is None:
            self._place.unlink()
        else:
            self._place.write_bytes(self._before)


def _inner(root: Path, path: Path) -> Path:
    return root / str(path).lstrip("/")
