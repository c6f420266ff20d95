"""The streams that are open right now, by what their sidecars last said of each: a bounded table, pure.

A stream comes in with the first glance at it, its row follows the youngest one, and it goes when the stream is told to
be closed, when its final span comes in, or when its sidecar has missed three heartbeats. A glance that comes late,
twice, or after the end changes nothing. Ages go on by the collector's own clock, so the clocks of sidecars need not
agree.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from otel.glance import Glance, Moment

ROWS: Final = 20_000
"""Streams in the table, a kilobyte each; further ones are counted and left out."""
MISSED_HEARTBEATS: Final = 3
"""One may be lost and one late; the third says that nobody is there any more."""
SILENT_SIDECAR_S: Final = 900.0
"""How long a row is kept whose sidecar sends no heartbeats: nothing else would end it when that has crashed."""
LONGEST_HEARTBEAT_S: Final = 3600.0
"""A longer one is taken for this."""
SHORTEST_PATIENCE_S: Final = 5.0
"""Records travel in batches, and a batch may have to be sent again."""
ENDED: Final = 20_000
"""Ends that are remembered, so that a glance on its way does not bring a stream back."""
_SECOND_NS: Final = 1_000_000_000
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStream:
    """One row at the time of asking.

    silent_s: since the stream last went on. While it is stalled that grows until its sidecar says that it went on;
    else it is what the sidecar last said, told_s ago, and it may have gone on since. age_s goes on in both cases.
    """

    glance: Glance
    age_s: float
    silent_s: float
    told_s: float


@dataclass(slots=True)
class _Row:
    glance: Glance
    heard_ns: int


class LiveStreams:
    """The table. Times are the collector's monotonic clock.

    overflow_count: streams that found no room. expired_count: rows whose sidecar was not heard of any more.
    late_count: glances that were older than what is known.
    """

    def __init__(self, *, limit: int = ROWS) -> None:
        self._limit = limit
        self._rows: dict[_Key, _Row] = {}
        self._ended: OrderedDict[_Key, None] = OrderedDict()
        self._expire_due_ns = 0  # a look at all rows takes milliseconds: not for every stream that finds no room
        self.overflow_count = 0
        self.expired_count = 0
        self.late_count = 0

    def __len__(self) -> int:
        return len(self._rows)

    def seen(self, glance: Glance, *, at_ns: int) -> None:
        """Take a glance that has come in."""
        key = (glance.trace_id, glance.span_id)
        if glance.moment is Moment.CLOSED:
            self.ended(*key)
            return
        row = self._rows.get(key)
        if key in self._ended or (row is not None and _order(glance) < _order(row.glance)):
            self.late_count += 1
        elif row is not None:
            row.glance, row.heard_ns = glance, at_ns
        elif self._has_room(at_ns):
            self._rows[key] = _Row(glance, at_ns)
        else:
            self.overflow_count += 1

    def ended(self, trace_id: str, span_id: str) -> None:
        """The exchange of this final span is over."""
        key = (trace_id, span_id)
        self._rows.pop(key, None)
        self._ended[key] = None
        self._ended.move_to_end(key)
        if len(self._ended) > ENDED:
            self._ended.popitem(last=False)

    def open_streams(self, at_ns: int) -> list[OpenStream]:
        """All of them, the oldest silence first, the oldest stream first among equals."""
        self.expire(at_ns)
        found = [_shown(row, at_ns) for row in self._rows.values()]
        return sorted(found, key=lambda each: (-each.silent_s, -each.age_s, each.glance.span_id))

    def expire(self, at_ns: int) -> None:
        """Drop the rows whose sidecar has missed its heartbeats."""
        gone = [key for key, row in self._rows.items() if at_ns - row.heard_ns > _patience_ns(row.glance)]
        for key in gone:
            del self._rows[key]
        self.expired_count += len(gone)

    def _has_room(self, at_ns: int) -> bool:
        if len(self._rows) >= self._limit and at_ns >= self._expire_due_ns:
            self._expire_due_ns = at_ns + _SECOND_NS
            self.expire(at_ns)
        return len(self._rows) < self._limit


def _order(glance: Glance) -> tuple[int, bool]:
    """Which of two glances is the younger; a heartbeat of the same moment knows less than news."""
    return glance.at_ns, glance.moment is not Moment.OPEN


def _patience_ns(glance: Glance) -> int:
    if glance.heartbeat_s is None:
        return round(SILENT_SIDECAR_S * _SECOND_NS)
    patience_s = MISSED_HEARTBEATS * min(glance.heartbeat_s, LONGEST_HEARTBEAT_S)
    return round(max(patience_s, SHORTEST_PATIENCE_S) * _SECOND_NS)


def _shown(row: _Row, at_ns: int) -> OpenStream:
    told_s = max(0, at_ns - row.heard_ns) / _SECOND_NS
    glance = row.glance
    return OpenStream(
        glance=glance,
        age_s=glance.age_s + told_s,
        silent_s=_silent_s(glance, told_s),
        told_s=told_s,
    )


def _silent_s(glance: Glance, told_s: float) -> float:
    if glance.moment is Moment.RESUMED:
        return 0.0  # what it tells is how long the silence was that is over
    return glance.silent_s + (told_s if glance.is_stalled else 0.0)
