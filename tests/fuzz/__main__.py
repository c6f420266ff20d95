"""Fuzz the parsers, one after the other: `python -m tests.fuzz --seconds N [--target NAME] [--input BASE64]`.

It exits with 1 when a target raised or its memory grew, and prints the input that did it as Base64; `--target NAME
--input BASE64` runs that one again, without atheris.
"""

from __future__ import annotations

import argparse
import base64
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path

from tests.fuzz.targets import TARGETS


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz the parsers of the sidecar.")
    parser.add_argument("--seconds", type=float, default=60.0, help="time for all targets together")
    parser.add_argument("--target", choices=TARGETS, help="this one alone")
    parser.add_argument("--input", help="run this one input of the target again, in Base64")
    parser.add_argument("--corpus", type=Path, help="folder in which found inputs stay")
    options = parser.parse_args(arguments)
    names = TARGETS if options.target is None else [options.target]
    if options.input is not None:
        for name in names:
            TARGETS[name].check(base64.b64decode(options.input))
        return 0
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
        return fuzz_all(names, options.seconds / len(names), options.corpus or Path(scratch))


def fuzz_all(names: Collection[str], seconds: float, corpus: Path) -> int:
    """Each target in a process of its own, since a fuzzer never returns; 1 when something was found."""
    failed = []
    for name in names:
        command = [sys.executable, "-m", "tests.fuzz.guided", name, str(seconds), str(corpus / name)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        coverage = re.findall(r"cov: (\d+)", done.stderr)
        print(f"{name:14}", done.stdout.strip(), f"coverage {coverage[-1]}" if coverage else "", flush=True)
        if done.returncode:
            failed.append(name)
            print(done.stderr[-2_000:], file=sys.stderr)
    print(f"failed: {', '.join(failed)}" if failed else "nothing found")
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
