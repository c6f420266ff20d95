"""What a reader made of a stream: in words that can be compared, whatever the reader is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

from tests.readers.streams import Stream


class Missing(Exception):  # noqa: N818
    """A reader that cannot be had here, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """The events that it gave, the object that it made of them at the end, and the error with which it stopped."""

    events: tuple[str, ...]
    final: str = ""
    error: str = ""

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        events = tuple(json.dumps(event, sort_keys=True) for event in told["events"])
        return cls(events=events, final=json.dumps(told.get("final"), sort_keys=True), error=told.get("error") or "")

    def differences(self, other: Read) -> str:
        """How another reading of the same stream differs from this one; empty: in nothing."""
        for number, (here, there) in enumerate(zip(self.events, other.events, strict=False)):
            if here != there:
                return f"event {number} is {there[:200]}, not {here[:200]}"
        if len(self.events) != len(other.events) or self.error != other.error:
            return f"{_told(other)}, not {_told(self)}"
        return "" if self.final == other.final else f"at the end {other.final[:200]}, not {self.final[:200]}"


def _told(read: Read) -> str:
    return f"{len(read.events)} events" + (f" and {read.error[:200]}" if read.error else "")


class Reader(Protocol):
    """One program or library that reads streams over HTTP."""

    name: str

    def takes(self, stream: Stream) -> bool:
        """Whether it can read this one."""
        ...

    async def read(self, origin: str, stream: Stream) -> Read:
        """What it makes of the stream that this origin gives."""
        ...
