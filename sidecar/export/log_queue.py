"""Log records waiting to be delivered: bounded in bytes, news before heartbeats, with counts that add up.

Of a stream only its youngest heartbeat is worth sending: it takes the place of the one before. When there is no room,
heartbeats give way to news, the oldest first; what still does not fit is refused. What is in flight still belongs to
the queue: it leaves by `settle` alone.

    offered = accepted + lost + queued
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

LOST: Final = ("queue_full", "superseded", "heartbeat_gave_way", "rejected", "unsupported", "unencodable", "left")
"""Why a record was not delivered: no room; a younger one of its stream took its place; it was a heartbeat and made
room for news; the receiver refused it for good; the receiver takes no logs; it does not fit OTLP; the process ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCounters:
    """Records since the start, and what waits now, in flight included: offered = accepted + all lost + queued.

    lost is by reason, every one of LOST. retried counts requests that were repeated.
    """

    offered: int
    accepted: int
    queued: int
    queued_bytes: int
    retried: int
    lost: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Record:
    body: bytes
    heartbeat_of: str | None


class LogQueue:
    """Takes encoded records, gives out batches of them."""

    def __init__(self, *, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._news: deque[_Record] = deque()
        self._heartbeats: dict[str, _Record] = {}
        self._flight: deque[_Record] = deque()
        self._bytes = 0
        self._offered = 0
        self._accepted = 0
        self._lost: Counter[str] = Counter(dict.fromkeys(LOST, 0))

    @property
    def is_empty(self) -> bool:
        return not (self._news or self._heartbeats or self._flight)

    @property
    def flight_count(self) -> int:
        return len(self._flight)

    @property
    def dropped_count(self) -> int:
        """Records that were lost here, and not refused by anybody or made needless by a younger one."""
        return sum(self._lost[reason] for reason in ("queue_full", "heartbeat_gave_way", "unencodable", "left"))

    def counters(self, *, retried: int) -> LogCounters:
        return LogCounters(
            offered=self._offered,
            accepted=self._accepted,
            queued=len(self._news) + len(self._heartbeats) + len(self._flight),
            queued_bytes=self._bytes,
            retried=retried,
            lost=dict(self._lost),
        )

    def put_news(self, body: bytes) -> None:
        """Something has happened to a stream."""
        self._offered += 1
        while self._heartbeats and self._bytes + len(body) > self._limit_bytes:
            self._take_heartbeat(next(iter(self._heartbeats)), "heartbeat_gave_way")
        if self._takes_room(len(body)):
            self._news.append(_Record(body, None))

    def put_heartbeat(self, stream: str, body: bytes) -> None:
        """A stream still runs."""
        self._offered += 1
        older = self._heartbeats.get(stream)
        if self._takes_room(len(body) - (0 if older is None else len(older.body))):
            self._lost["superseded"] += older is not None
            self._heartbeats[stream] = _Record(body, stream)  # in the place of the older one, so that its turn comes

    def supersede(self, stream: str) -> None:
        """News that makes a waiting heartbeat of this stream needless."""
        if stream in self._heartbeats:
            self._take_heartbeat(stream, "superseded")

    def lose(self, reason: str) -> None:
        """A record that is lost before it could be put here."""
        self._offered += 1
        self._lost[reason] += 1

    def lose_all(self, reason: str) -> None:
        """Everything here, in flight or not."""
        self._lost[reason] += len(self._news) + len(self._heartbeats) + len(self._flight)
        self._news.clear()
        self._heartbeats.clear()
        self._flight.clear()
        self._bytes = 0

    def take(self, limit_bytes: int) -> list[bytes]:
        """The next batch, now in flight: as many as fit, and at least one; empty when nothing waits."""
        size_bytes = 0
        while (record := self._first()) is not None:
            size_bytes += len(record.body)
            if self._flight and size_bytes > limit_bytes:
                break
            self._flight.append(self._pop_first())
        return [record.body for record in self._flight]

    def put_back(self) -> None:
        """Nothing was decided about what is in flight: it waits again, in its old place."""
        back: dict[str, _Record] = {}
        while self._flight:
            record = self._flight.pop()
            if record.heartbeat_of is None:
                self._news.appendleft(record)
            elif record.heartbeat_of in self._heartbeats:
                self._lose_bytes(record, "superseded")
            else:
                back[record.heartbeat_of] = record
        if back:
            self._heartbeats = dict(reversed(back.items())) | self._heartbeats

    def settle(self, *, rejected: int | None = None) -> int:
        """The receiver has what is in flight, save `rejected` of them (None: all); how many those were."""
        refused = len(self._flight) if rejected is None else max(0, min(rejected, len(self._flight)))
        self._lost["rejected"] += refused
        self._accepted += len(self._flight) - refused
        self._bytes -= sum(len(record.body) for record in self._flight)
        self._flight.clear()
        return refused

    def _takes_room(self, size_bytes: int) -> bool:
        """Take the room, or count what does not find it as lost."""
        if self._bytes + size_bytes > self._limit_bytes:
            self._lost["queue_full"] += 1
            return False
        self._bytes += size_bytes
        return True

    def _take_heartbeat(self, stream: str, reason: str) -> None:
        self._lose_bytes(self._heartbeats.pop(stream), reason)

    def _lose_bytes(self, record: _Record, reason: str) -> None:
        self._bytes -= len(record.body)
        self._lost[reason] += 1

    def _first(self) -> _Record | None:
        if self._news:
            return self._news[0]
        return next(iter(self._heartbeats.values()), None)

    def _pop_first(self) -> _Record:
        if self._news:
            return self._news.popleft()
        return self._heartbeats.pop(next(iter(self._heartbeats)))
