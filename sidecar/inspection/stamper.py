"""Give each event the time of the read that completed it, the time our kernel had taken it, and its place.

The stamps of one exchange are columns of numbers: an event costs some forty bytes and a few appends. All times are
nanoseconds since the exchange's anchor, and offsets never decrease: a time before the last one counts as the last.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from otel.hop import EventClass, Stamp
from sidecar.inspection.events import Event, Reading, Unit

LIMIT_COUNT: Final = 200_000
"""Events stamped of one exchange: 7 MB of columns, and more than any answer has. What comes after is counted, and
only the last of it is stamped."""

_CLASSES: Final = tuple(EventClass)


class Stamper:
    """The columns of one exchange.

    count: events so far, with or without a stamp. position: visible code points so far. is_cut_short: events found
    no place in the columns and have no stamp; the last event always has one.
    """

    __slots__ = (
        "_acked_count",
        "_arrived_ns",
        "_classes",
        "_last",
        "_last_wire_bytes",
        "_limit_count",
        "_positions",
        "_taken_ns",
        "_wire_bytes",
        "count",
        "position",
    )

    def __init__(self, *, limit_count: int = LIMIT_COUNT) -> None:
        self.count = 0
        self.position = 0
        self._limit_count = limit_count
        self._arrived_ns = array("q")
        self._classes = array("b")
        self._positions = array("q")
        self._taken_ns = array("q")  # shorter than the others by the events not yet taken
        self._wire_bytes = array("q")  # where each ends on the wire; not yet taken: what its read brought behind it
        self._last: Stamp | None = None  # of the last event, where the columns are full
        self._last_wire_bytes = 0
        self._acked_count = 0

    @property
    def is_cut_short(self) -> bool:
        return self.count > len(self._arrived_ns) + (self._last is not None)

    def events(
        self, readings: Iterable[tuple[Event, Reading]], at_ns: int, *, behind_bytes: Iterable[int] = ()
    ) -> None:
        """The units that one read completed, and what they are; those that dispatch no event get no stamp.

        behind_bytes: for each of them, how many bytes of the same read lie behind it, 0 where that is not known.
        """
        behind = iter(behind_bytes)
        for event, reading in readings:
            if event.unit is Unit.EVENT:
                self.event(reading.event_class, reading.visible_chars, at_ns, next(behind, 0))

    def event(self, event_class: int, visible_chars: int, at_ns: int, behind_bytes: int) -> None:
        """One event of a read; so many bytes of the same read lie behind it, 0 where that is not known."""
        arrived = self._arrived_ns
        last = self._last
        latest_ns = last.arrived_ns if last else arrived[-1] if arrived else 0
        at_ns = max(at_ns, latest_ns)
        self.count += 1
        self.position = position = self.position + visible_chars
        if len(arrived) < self._limit_count:
            arrived.append(at_ns)
            self._classes.append(event_class)
            self._positions.append(position)
            self._wire_bytes.append(behind_bytes)
        else:
            self._last = Stamp(self.count - 1, at_ns, None, _CLASSES[event_class], position, is_exact=True)

    def taken(self, at_ns: int, wire_offset_bytes: int) -> None:
        """Our kernel has every event handed over so far, and the last read ends at or before that byte of the body
        as it is on the wire downstream. No event ends later than what lay behind it in its read allows."""
        taken, wire, arrived = self._taken_ns, self._wire_bytes, self._arrived_ns
        first = len(taken)
        if first < len(arrived):
            at_ns = max(at_ns, arrived[-1], taken[-1] if first else 0)
            end = wire[first - 1] if first else 0
            for seq in range(first, len(arrived)):
                end = wire[seq] = max(end, wire_offset_bytes - wire[seq])
                taken.append(at_ns)
        if self._last is not None and self._last.taken_ns is None:
            self._last = replace(self._last, taken_ns=max(at_ns, self._last.arrived_ns, *taken[-1:]))
            self._last_wire_bytes = max(wire_offset_bytes, self._last_wire_bytes, *wire[-1:])

    def acked_count(self, wire_acked_bytes: int) -> int:
        """How many events the peer's kernel has, when it has acknowledged that many bytes of the wire.

        Where the columns are full, at least so many, and all once it has the last; never fewer than said before.
        """
        count = bisect_right(self._wire_bytes, wire_acked_bytes, hi=len(self._taken_ns))
        if self._last is not None and self._last.taken_ns is not None and wire_acked_bytes >= self._last_wire_bytes:
            count = self.count
        self._acked_count = max(self._acked_count, count)
        return self._acked_count

    def stamps(self, *, since: int = 0) -> tuple[Stamp, ...]:
        """The stamps from sequence number `since` on, in order, with exact times and positions."""
        taken = self._taken_ns
        last = () if self._last is None or self._last.seq < since else (self._last,)
        columns = (
            Stamp(
                seq=seq,
                arrived_ns=self._arrived_ns[seq],
                taken_ns=taken[seq] if seq < len(taken) else None,
                event_class=_CLASSES[self._classes[seq]],
                position=self._positions[seq],
                is_exact=True,
            )
            for seq in range(since, len(self._arrived_ns))
        )
        return (*columns, *last)
