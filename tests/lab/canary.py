"""How late the machine was: a process that does nothing but sleep, and says when it woke too late.

python -m tests.lab.canary, or `with Canary() as canary: … canary.lag_s(begin_s, end_s)`
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

SLEEP_S: Final = 0.01
LATE_S: Final = 0.03
"""From here on a wake is late: on a calm machine it is less than a millisecond."""
Lags = Sequence[tuple[float, float]]
"""(when it should have woken, when it did), seconds of the machine's monotonic clock, which all processes share."""


def longest_s(lags: Lags, begin_s: float, end_s: float) -> float:
    """The longest time without a turn that touches this stretch."""
    return max((woken - due for due, woken in lags if due < end_s and woken > begin_s), default=0.0)


def parse(said: str) -> Lags:
    """What a canary wrote, without a last line that is not yet whole."""
    lines = [line.split() for line in said.splitlines(keepends=True) if line.endswith("\n")]
    return [(float(due), float(woken)) for due, woken in lines]


class Canary:
    """The process, for as long as a block lasts. It writes to a file: a thread of ours would be late with us."""

    def __enter__(self) -> Self:
        self._said = tempfile.NamedTemporaryFile(prefix="gapline-canary-")
        command = (sys.executable, "-m", "tests.lab.canary")
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self._said)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._said.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def lag_s(self, begin_s: float, end_s: float) -> float:
        """How long the machine let it wait at most between these readings of time.monotonic()."""
        return longest_s(parse(Path(self._said.name).read_text()), begin_s, end_s)


def sing() -> None:
    """Sleep and tell until the parent is gone."""
    parent = os.getppid()
    while os.getppid() == parent:
        due = time.monotonic() + SLEEP_S
        time.sleep(SLEEP_S)
        if (woken := time.monotonic()) - due > LATE_S:
            print(due, woken, flush=True)


if __name__ == "__main__":
    sing()
