"""The two programs in C, the upstream and the readers, compiled once for each version of their text."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Final

from tests.bench.contenders import FILES
from tests.lab.installed import CACHE, run
from tests.readers.reading import Missing

COMPILERS: Final = ("cc", "gcc", "clang")
FLAGS: Final = ("-std=gnu17", "-O2", "-Wall")
PROGRAMS: Final = ("upstream", "load")


def version(sources: Path = FILES) -> str:
    """Of all that they are made from."""
    text = hashlib.sha256(" ".join(FLAGS).encode())
    for source in sorted(sources.glob("*.[ch]")):
        text.update(source.name.encode() + b"\0" + source.read_bytes())
    return text.hexdigest()[:16]


def built(*, cache: Path = CACHE, sources: Path = FILES) -> dict[str, str]:
    """Where both are. Raises Missing where there is no compiler, or it refuses them."""
    folder = cache / f"bench-{version(sources)}"
    paths = {name: folder / name for name in PROGRAMS}
    if not all(path.exists() for path in paths.values()):
        compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
        if compiler is None:
            raise Missing(f"there is none of {', '.join(COMPILERS)} here; the package gcc has one")
        folder.mkdir(parents=True, exist_ok=True)
        for name, path in paths.items():
            part = path.with_suffix(".part")  # whole, or not there
            run(compiler, *FLAGS, "-o", str(part), str(sources / f"{name}.c"))
            part.rename(path)
    return {name: str(path) for name, path in paths.items()}
