"""A store for tests of the receiver: a list, and a script of what goes wrong before all goes well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from otel.hop import Hop
from otel.store.base import StoreError, Unsupported

TROUBLES = {"ok": None, "later": StoreError, "never": Unsupported, "crash": ZeroDivisionError}


@dataclass
class TroubledStore:
    """`write` does what the script says next (a key of TROUBLES), and its duty from then on."""

    script: list[str] = field(default_factory=list)
    hops: list[Hop] = field(default_factory=list)

    async def write(self, hops: Sequence[Hop]) -> int:
        if self.script and (trouble := TROUBLES[self.script.pop(0)]) is not None:
            raise trouble("disk full")
        before = len(self.hops)
        self.hops = list(dict.fromkeys([*self.hops, *hops]))
        return len(self.hops) - before
