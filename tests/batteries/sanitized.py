"""Run the tests of the compiled part, with many examples and with the compiler's checks of addresses and sums in it.

    python -m tests.batteries.sanitized

It is built anew, in a copy of the tree, by the compiler that is here. Its allocator stands in for that of Python, so
that each byte string has bounds of its own. What is found ends the run with a report.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from tests.readers.reading import Missing

ROOT: Final = Path(__file__).resolve().parents[2]
FLAGS: Final = "-g -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined"
TESTS: Final = (
    "tests/sidecar/native",
    "tests/sidecar/inspection/test_lane.py",
    "tests/sidecar/inspection/test_stamper.py",
    "tests/fuzz/test_targets.py",
    "-k",
    "not test_targets or lane or chunked",
)
BUILD_S: Final = 300
TEST_S: Final = 1_200


def library(name: str) -> str:
    """The path of one of the compiler's libraries. Raises Missing."""
    try:
        found = subprocess.run(
            ["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        raise Missing("compiler to build the checks in") from None
    if not os.path.isabs(found):
        raise Missing(f"{name} beside the compiler")
    return found


def build(folder: Path) -> Path:
    """A copy of the tree with the checked module in it."""
    tree = folder / "tree"
    names = (
        subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
        .stdout.decode()
        .split("\0")
    )
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tree / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(tree)]
    environ = os.environ | {
        "GAPLINE_BUILD_NATIVE": "require",
        "CFLAGS": FLAGS,
        "LDFLAGS": "-fsanitize=address,undefined",
    }
    subprocess.run(command, env=environ, check=True, timeout=BUILD_S)
    (wheel,) = folder.glob("gapline-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (module,) = (name for name in archive.namelist() if name.endswith(".so"))
        archive.extract(module, tree)
    return tree


def environ() -> dict[str, str]:
    """For a Python that was built without the checks to load a module that has them."""
    return os.environ | {
        "LD_PRELOAD": f"{library('libasan.so')} {library('libubsan.so')}",
        "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1",  # Python keeps what it has to its end
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "PYTHONMALLOC": "malloc",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_PROFILE": "deep",
    }


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="gapline-") as scratch:
        try:
            checked = environ()
            tree = build(Path(scratch))
        except Missing as missing:
            print(f"skipped: there is no {missing}")
            return 0
        for words in (
            ("-c", "from sidecar.native import COMPILED; assert COMPILED is not None"),
            ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--capture=sys", "--timeout", str(TEST_S), *TESTS),
        ):
            done = subprocess.run([sys.executable, *words], cwd=tree, env=checked, timeout=TEST_S, check=False)
            if done.returncode:
                print("something was found")
                return 1
    print("nothing was found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
