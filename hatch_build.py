"""Compile `sidecar/native/compiled.pyx` where that can be done; where not, everything is there in Python as well.

    python hatch_build.py        into the source tree, for the interpreter that runs this; needs Cython

A wheel and an editable install do it by themselves. GAPLINE_BUILD_NATIVE: `auto`; `require`, and a build without it
fails; `off`. CC, CFLAGS and LDFLAGS are those of any extension.
"""

from __future__ import annotations

import importlib
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ModuleNotFoundError:  # run by hand
    BuildHookInterface = object

ROOT = Path(__file__).resolve().parent
SOURCE = ROOT / "sidecar/native/compiled.pyx"
MODES = ("auto", "require", "off")


class NotBuilt(Exception):  # noqa: N818  # it is a reason
    """Why there is no compiled module."""


def mode() -> str:
    """Raises SystemExit where the environment says something else."""
    found = os.environ.get("GAPLINE_BUILD_NATIVE", "auto")
    if found not in MODES:
        raise SystemExit(f"GAPLINE_BUILD_NATIVE is one of {', '.join(MODES)}, not {found!r}")
    return found


def module_name() -> str:
    return "compiled" + (sysconfig.get_config_var("EXT_SUFFIX") or ".so")


def compile_into(folder: Path) -> Path:
    """The compiled module, in this folder. Raises NotBuilt."""
    try:
        compiler = importlib.import_module("Cython.Compiler.Main")
    except ModuleNotFoundError:
        raise NotBuilt("Cython is not installed") from None
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if not header.exists():
        raise NotBuilt(f"{header} is not there")
    with tempfile.TemporaryDirectory() as scratch:
        c_file = Path(scratch) / "compiled.c"
        try:
            result = compiler.compile_single(
                str(SOURCE),
                compiler.CompilationOptions(compiler.default_options, output_file=str(c_file)),
                full_module_name="sidecar.native.compiled",
            )
        except Exception as error:  # of a later Cython, as like as not: the package needs none
            raise NotBuilt(f"Cython fails: {error!r}") from error
        if result.num_errors:
            raise NotBuilt("Cython refuses it")
        target = folder / module_name()
        _link(c_file, target, include=header.parent)
    return target


def _link(c_file: Path, target: Path, *, include: Path) -> None:
    """Raises NotBuilt."""
    config = sysconfig.get_config_var
    linker = os.environ.get("CC", config("CC") or "cc").split() + (config("LDSHARED") or "cc -shared").split()[1:]
    flags = [config("CFLAGS") or "", "-g0", config("CCSHARED") or "-fPIC", os.environ.get("CFLAGS", "")]
    words = [*linker, *shlex.split(" ".join(flags)), f"-I{include}", str(c_file), "-o"]
    made = target.with_suffix(".new")
    words += [str(made), *shlex.split(os.environ.get("LDFLAGS", ""))]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603  # a compiler
    except OSError as error:
        raise NotBuilt(f"{words[0]}: {error.strerror}") from None
    if done.returncode:
        raise NotBuilt((done.stderr.strip() or f"{words[0]} ends with {done.returncode}").splitlines()[-1])
    made.replace(target)  # at once: a program that runs keeps the one that it has


class NativeBuild(BuildHookInterface):  # type: ignore[misc,valid-type]
    """Puts the compiled module into a wheel, or beside its source for an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or mode() == "off":
            return
        folder = SOURCE.parent if version == "editable" else Path(self.directory) / "native"
        folder.mkdir(parents=True, exist_ok=True)
        try:
            built = compile_into(folder)
        except NotBuilt as error:
            if mode() == "require":
                raise
            self.app.display_warning(f"gapline is installed without its compiled part: {error}")
            return
        if version != "editable":
            build_data["force_include"][str(built)] = f"sidecar/native/{built.name}"
        build_data["pure_python"] = False
        build_data["infer_tag"] = True


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{compile_into(SOURCE.parent)}\n")
    except NotBuilt as error:
        sys.exit(f"not built: {error}")
