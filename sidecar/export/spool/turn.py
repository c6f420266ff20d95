"""What the backlog and the disk say to each other: one turn at a time, values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

FAILURES: Final = (
    "disk_full",
    "full",
    "io_error",
    "no_permission",
    "read_only",
    "stuck",
    "too_large",
    "unknown_format",
    "vanished",
)
"""Every kind of failure of the disk."""


class Place(NamedTuple):
    """Where a record lies: the spool's number of its file, and its own in that."""

    file: int
    record: int


@dataclass(frozen=True, slots=True)
class Record:
    """One span: its number in the order of offers, and its bytes as a request of its own."""

    number: int
    is_open: bool
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What the backlog wants of the disk.

    done: delivered or given up. released: no longer in memory. fresh: to be written, in order of their numbers.
    load_bytes: how much of what only the disk has shall be read, at least one record; 0: none.
    is_adopting: see first what dead processes left.
    """

    done: Sequence[Place] = ()
    released: Sequence[Place] = ()
    fresh: Sequence[Record] = ()
    load_bytes: int = 0
    is_adopting: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.done or self.released or self.fresh or self.load_bytes or self.is_adopting)


@dataclass(frozen=True, slots=True)
class Condition:
    """How the disk is: bytes used, records torn by crashes, and failures so far by kind."""

    used_bytes: int = 0
    torn: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turned:
    """What came of it.

    places: of the fresh, in order; None for one that the spool can never hold, none for those that it cannot take
    now. loaded: the oldest that only the disk had. restored: found, left by dead processes. highest: the highest
    number among those. lost: by reason, of what only the disk had.
    """

    places: Sequence[Place | None] = ()
    loaded: Sequence[tuple[Place, Record]] = ()
    restored: int = 0
    highest: int = 0
    lost: Mapping[str, int] = field(default_factory=dict)
    condition: Condition = field(default_factory=Condition)
