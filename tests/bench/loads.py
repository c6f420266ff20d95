"""What contenders are put under: how many streams, how fast, and for how long before it counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

PATH: Final = "/v1/chat/completions"


class Kind(StrEnum):
    """What the upstream does and what the readers do."""

    PACED = "paced"
    FLOOD = "flood"
    SHORT = "short"
    IDLE = "idle"
    STUCK = "stuck"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One load. rate: events a second of each stream. ramp_s: over which the streams are opened; settle_s: from then
    to the window, so that what opening costs is not in it; grace_s: what a slow proxy may take behind the window.
    For idle and stuck streams the window is what they rest before memory is looked at.
    """

    name: str
    title: str
    kind: Kind
    streams: int
    rate: float = 0.0
    ramp_s: float = 0.6
    settle_s: float = 0.8
    window_s: float = 2.0
    grace_s: float = 6.0

    @property
    def is_of_memory(self) -> bool:
        return self.kind in {Kind.IDLE, Kind.STUCK}

    @property
    def is_alone(self) -> bool:
        """Each measurement is of a process that has just been started, and ends with it: memory that was freed is used
        again, and the records of a flood are in the making for half a minute, in everybody's way.
        """
        return self.is_of_memory or self.kind is Kind.FLOOD

    @property
    def events(self) -> int:
        """What each stream must have brought when it ends; 0: as many as come."""
        if self.kind is Kind.PACED:
            return math.ceil(self.rate * (self.ramp_s + self.settle_s + self.window_s + 0.2))
        return 2 if self.kind is Kind.IDLE else 0

    @property
    def shape(self) -> str:
        """What the upstream is told."""
        match self.kind:
            case Kind.PACED:
                return f"kind=paced&rate={self.rate:g}&events={self.events}"
            case Kind.FLOOD:
                return f"kind=flood&seconds={self.ramp_s + self.settle_s + self.window_s + 0.2:g}"
            case Kind.STUCK:
                return f"kind=flood&seconds={self.ramp_s + self.window_s + 1.0:g}"
            case _:
                return f"kind={self.kind}"

    @property
    def reads(self) -> str:
        """What the readers are told."""
        return "stream" if self.kind is Kind.PACED else self.kind


ANCHOR: Final = Load(name="anchor", title="200 streams × 50 events/s", kind=Kind.PACED, streams=200, rate=50)
BUSY: Final = Load(
    name="busy", title="500 streams × 50 events/s", kind=Kind.PACED, streams=500, rate=50, ramp_s=0.8, settle_s=1.0
)
LIGHT: Final = Load(name="light", title="10 streams × 40 events/s", kind=Kind.PACED, streams=10, rate=40, ramp_s=0.3)
FLOOD: Final = Load(
    name="flood",
    title="16 streams, as fast as it goes",
    kind=Kind.FLOOD,
    streams=16,
    ramp_s=0.15,
    settle_s=0.4,
    window_s=1.0,
    grace_s=2.0,
)
SHORT: Final = Load(
    name="short",
    title="1 KB answers, 32 connections",
    kind=Kind.SHORT,
    streams=32,
    ramp_s=0.15,
    settle_s=0.4,
    window_s=1.5,
)
IDLE: Final = Load(name="idle", title="1,000 idle streams", kind=Kind.IDLE, streams=1_000, ramp_s=1.5)
STUCK: Final = Load(
    name="stuck",
    title="100 streams in flood that nobody reads",
    kind=Kind.STUCK,
    streams=100,
    ramp_s=0.3,
    window_s=2.7,
    grace_s=20.0,
)


def many(streams: int) -> Load:
    """So many idle streams, opened no faster than Python answers requests."""
    title = f"{streams:,} idle streams"
    return Load(
        name="many", title=title, kind=Kind.IDLE, streams=streams, ramp_s=streams / 400, window_s=5.0, grace_s=30.0
    )


LOADS: Final[Mapping[str, Load]] = {load.name: load for load in (ANCHOR, BUSY, LIGHT, FLOOD, SHORT, IDLE, STUCK)}
