"""One target under atheris, in a process that ends with it: `python -m tests.fuzz.guided NAME SECONDS CORPUS`."""

from __future__ import annotations

import gc
import os
import sys
import time
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["sidecar"], enable_loader_override=False):
    from tests.fuzz.targets import TARGETS

INPUT_BYTES = 4_096
HANG_S = 20
WARM_UP = 0.4
"""Share of the time after which memory counts as the usual one: caches are filled by then."""
GROWTH_BLOCKS = 20_000
"""Python objects more than after the warm-up that are no leak: lazily made tables and what the last run left."""
GROWTH_BYTES = 48 << 20
"""Resident memory likewise: most of it is the fuzzer's own corpus."""


def fuzz(name: str, seconds: float, corpus: Path) -> None:
    target = TARGETS[name]
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(data)
    dictionary = corpus.with_suffix(".words")
    dictionary.write_text("".join(f'"{escaped(word)}"\n' for word in target.words), "ascii")
    watch = Watch(seconds)

    def check(data: bytes) -> None:
        watch.check()
        target.check(data)

    flags = [f"-max_len={INPUT_BYTES}", f"-dict={dictionary}", f"-timeout={HANG_S}", f"-artifact_prefix={corpus}-"]
    atheris.Setup([sys.argv[0], *flags, str(corpus)], check)
    atheris.Fuzz()


def escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


class Watch:
    """Ends the process when its time is over, as a crash when its memory has grown."""

    def __init__(self, seconds: float) -> None:
        self._started = time.monotonic()
        self._seconds = seconds
        self._runs = 0
        self._usual: tuple[int, int] | None = None

    def check(self) -> None:
        self._runs += 1
        if self._runs % 256:
            return
        elapsed = time.monotonic() - self._started
        if self._usual is None and elapsed > self._seconds * WARM_UP:
            self._usual = memory()
        elif self._usual is not None and elapsed > self._seconds:
            self._end(self._usual)

    def _end(self, usual: tuple[int, int]) -> None:
        blocks, resident_bytes = (now - then for now, then in zip(memory(), usual, strict=True))
        print(
            f"{self._runs} runs, {blocks:+} objects and {resident_bytes / (1 << 20):+.1f} MiB since the warm-up",
            flush=True,
        )
        if blocks > GROWTH_BLOCKS or resident_bytes > GROWTH_BYTES:
            raise MemoryError("memory grew from run to run")
        os._exit(0)  # an ordinary exit counts as a crash of the target


def memory() -> tuple[int, int]:
    """Python objects, and resident bytes."""
    gc.collect()
    resident_pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return sys.getallocatedblocks(), resident_pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    fuzz(sys.argv[1], float(sys.argv[2]), Path(sys.argv[3]))
