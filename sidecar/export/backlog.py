"""Spans waiting to be delivered: bounded in bytes, with counts that add up at every moment.

A span is encoded when it is offered, so its size is known, and a batch is a concatenation (protobuf merges requests
that stand one behind the other). A batch in flight still belongs to the backlog: it leaves by `settle` alone.

When there is no room, open segments give way, the oldest of them first: the final record of their exchange will have
all they had. What still does not fit is refused itself, since what is older tells how the outage began.

With a spool, what is *fresh* is in memory alone until the disk has it. Then it is *ready*, as long as half of the
memory holds all that is older, and else only *spooled*: on disk, and loaded again in its order when there is room.
Turns are how both sides stay in step: `turn` says what the disk shall do, `turned` what it did. A disk that takes
nothing leaves everything fresh, as if there were no spool.

    offered + restored = accepted + rejected + dropped + queued + spooled
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import merge
from typing import Final

from otel.otlp import OtlpError, decode_request, encode_request
from otel.span import Span, without_timeline
from sidecar.export.spool.turn import Condition, Place, Record, Turn, Turned

LOAD_BYTES: Final = 4 << 20
"""At most so much comes from the disk in one turn, so that a turn is short; one request is less."""
WRITE_BYTES: Final = 4 << 20
"""At most so much goes to the disk in one turn."""
DROPPED: Final = ("queue_full", "segment_gave_way", "unencodable", "spool_given_up")
"""Reasons for which spans are lost here; the spool has its own."""
_SECOND_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Spans since the start, and what waits now (in flight included).

    dropped is by reason: `queue_full`, `segment_gave_way`, `unencodable`; with a spool also `spool_segment_gave_way`,
    `spool_unreadable`, and `spool_given_up` after a mistake of our own. timelines_left_out counts spans sent without
    their timeline because a receiver refused their size. retried counts requests that were repeated. oldest_age_s is
    None when nothing is queued.

    restored: spans found on disk, left by processes that ended. queued are in memory, `unspooled` of them on no disk
    (all of them where there is no spool); spooled are on disk only; spooled_bytes is what all files take. torn counts
    records that a crash left in pieces, spool_failures what the disk refused, by kind.
    """

    offered: int
    accepted: int
    rejected: int
    dropped: Mapping[str, int]
    queued: int
    queued_bytes: int
    oldest_age_s: float | None
    timelines_left_out: int
    retried: int = 0
    restored: int = 0
    unspooled: int = 0
    spooled: int = 0
    spooled_bytes: int = 0
    torn: int = 0
    spool_failures: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Item:
    """One span: its place in the order of offers, and its bytes as a request of its own.

    place: where the disk has it. is_written: the disk has it, or never will. is_gone: delivered or dropped, perhaps
    while it was being written.
    """

    number: int
    body: bytes
    is_open: bool
    offered_ns: int
    is_bare: bool = False
    place: Place | None = None
    is_written: bool = False
    is_gone: bool = False


class Backlog:
    """The queue; a batch at a time is in flight, and at most one turn."""

    def __init__(self, *, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._finals, self._segments = _Queue(), _Queue()
        self._ready, self._flight = _Queue(), _Queue()
        self._number = 0
        self._offered = self._accepted = self._rejected = self._left_out = self._restored = 0
        self._dropped: Counter[str] = Counter()
        self._spooled = 0
        self._writing: list[_Item] = []
        self._done: list[Place] = []
        self._released: list[Place] = []
        self._condition = Condition()
        self._stuck_count = 0
        self._is_disk_stuck = False

    @property
    def held_bytes(self) -> int:
        return sum(queue.size_bytes for queue in self._queues())

    @property
    def sendable_bytes(self) -> int:
        """What the next batch can be taken from."""
        return self._ready.size_bytes + (0 if self._is_fresh_waiting else self._fresh_bytes)

    @property
    def is_empty(self) -> bool:
        return not (self.held_bytes or self.is_spooling)

    @property
    def is_spooling(self) -> bool:
        """Whether something is on disk only."""
        return self._spooled > 0

    @property
    def flight_count(self) -> int:
        return len(self._flight.items)

    @property
    def dropped(self) -> Mapping[str, int]:
        return dict(self._dropped)

    def counters(self, now_ns: int) -> Counters:
        oldest_ns = min((queue.items[0].offered_ns for queue in self._queues() if queue.items), default=None)
        return Counters(
            offered=self._offered,
            accepted=self._accepted,
            rejected=self._rejected,
            dropped=self.dropped,
            queued=sum(len(queue.items) for queue in self._queues()),
            queued_bytes=self.held_bytes,
            oldest_age_s=None if oldest_ns is None else (now_ns - oldest_ns) / _SECOND_NS,
            timelines_left_out=self._left_out,
            restored=self._restored,
            unspooled=sum(len(queue.items) for queue in (self._finals, self._segments)) + self._unwritten_in_flight,
            spooled=self._spooled,
            spooled_bytes=self._condition.used_bytes,
            torn=self._condition.torn,
            spool_failures={**self._condition.failures, **({"stuck": self._stuck_count} if self._stuck_count else {})},
        )

    def offer(self, span: Span, at_ns: int, *, wall_ns: int = 0) -> bool:
        """Queue a span; False when it was dropped. Never raises."""
        self._offered += 1
        try:
            body = encode_request([span])
        except OtlpError:
            self._dropped["unencodable"] += 1
            return False
        if not self._make_room(len(body)):
            self._dropped["queue_full"] += 1
            return False
        self._number = max(self._number + 1, wall_ns)
        is_open = span.attributes.get("gapline.state") == "open"
        (self._segments if is_open else self._finals).append(_Item(self._number, body, is_open, at_ns))
        return True

    def take(self, limit_bytes: int) -> bytes:
        """Put the oldest into flight, as many as limit_bytes holds and at least one; their bytes as one request."""
        while (queue := self._next()) is not None:
            size_bytes = self._flight.size_bytes + len(queue.items[0].body)
            if self._flight.items and size_bytes > limit_bytes:
                break
            self._flight.append(queue.take_first())
        return b"".join(item.body for item in self._flight.items)

    def put_back(self) -> None:
        """Nothing was decided about what is in flight: it queues again, in its old place."""
        while self._flight.items:
            item = self._flight.take_last()
            self._station_of(item).put_first(item)

    def settle(self, *, rejected: int | None = None) -> int:
        """The receiver has what is in flight, save `rejected` of them (None: all); how many those were."""
        refused = self.flight_count if rejected is None else max(0, min(rejected, self.flight_count))
        self._rejected += refused
        self._accepted += self.flight_count - refused
        while self._flight.items:
            self._end(self._flight.take_first())
        return refused

    def lighten(self) -> bool:
        """Take the timeline out of the one span in flight; False when it has lost it already."""
        item = self._flight.items[0]
        if item.is_bare:
            return False
        try:
            body = encode_request(map(without_timeline, decode_request(item.body)))
        except OtlpError:  # a span of another version, from the disk: as it is or not at all
            return False
        self._flight.take_first()
        item.body, item.is_bare = body, True
        self._flight.append(item)
        self._left_out += 1
        return True

    # The disk.

    @property
    def has_fresh(self) -> bool:
        """Whether something is on no disk yet that could be."""
        return bool(self._fresh_bytes or self._unwritten_in_flight)

    @property
    def has_done(self) -> bool:
        """Whether the disk has something to forget, or to keep alone."""
        return bool(self._done or self._released)

    @property
    def is_short(self) -> bool:
        """Whether the next batch, or the one after it, waits for the disk."""
        return self.is_spooling and self._load_bytes > 0

    def turn(self, *, is_writing: bool = True, is_loading: bool = True, is_adopting: bool = False) -> Turn:
        """What the disk shall do next."""
        self._writing = []
        room_bytes = WRITE_BYTES if is_writing else 0
        for item in self._unwritten():
            if room_bytes <= 0:
                break
            room_bytes -= len(item.body)
            self._writing.append(item)
        fresh = tuple(Record(item.number, item.is_open, item.body) for item in self._writing)
        done, self._done = self._done, []
        released, self._released = self._released, []
        load_bytes = self._load_bytes if is_loading and (self.is_spooling or is_adopting) else 0
        return Turn(done=done, released=released, fresh=fresh, load_bytes=load_bytes, is_adopting=is_adopting)

    def turned(self, turned: Turned, *, at_ns: int, wall_ns: int) -> None:
        """What the disk did with the last turn."""
        self._is_disk_stuck = False
        self._condition = turned.condition
        self._restored += turned.restored
        self._spooled += turned.restored - len(turned.loaded) - sum(turned.lost.values())
        self._dropped.update(turned.lost)
        self._number = max(self._number, turned.highest)
        for place, record in turned.loaded:
            age_ns = max(0, wall_ns - record.number)
            item = _Item(record.number, record.body, record.is_open, at_ns - age_ns, place=place, is_written=True)
            self._ready.append(item)
        for item, written in zip(self._writing, turned.places, strict=False):
            item.place, item.is_written = written, True
            if item.is_gone:
                self._end(item)
        self._writing = []
        while (queue := self._oldest_fresh()) is not None and queue.items[0].is_written:
            item = queue.take_first()
            if item.place is None or (self._room_bytes >= len(item.body) and not self.is_spooling):
                self._ready.append(item)
            else:
                self._released.append(item.place)
                self._spooled += 1

    def disk_stuck(self) -> None:
        """The turn takes long: until it is over, what is in memory does not wait for what is not."""
        self._stuck_count += 1
        self._is_disk_stuck = True

    def disk_gone(self) -> None:
        """There will be no further turn: what only the disk has is out of reach, and the next process will find it."""
        if self._spooled:
            self._dropped["spool_given_up"] += self._spooled
        self._spooled = 0

    # Where things stand.

    @property
    def _fresh_bytes(self) -> int:
        return self._finals.size_bytes + self._segments.size_bytes

    @property
    def _is_fresh_waiting(self) -> bool:
        return self.is_spooling and not self._is_disk_stuck

    @property
    def _room_bytes(self) -> int:
        """What may still be ready: half is left for the fresh, so that an outage's next spans always find room."""
        return self._limit_bytes // 2 - self._ready.size_bytes - self._flight.size_bytes

    @property
    def _load_bytes(self) -> int:
        """What to load: nothing while half of the room is taken, so that loads are few."""
        room_bytes = self._room_bytes
        return min(room_bytes, LOAD_BYTES) if room_bytes > self._limit_bytes // 4 else 0

    @property
    def _unwritten_in_flight(self) -> int:
        return sum(not item.is_written for item in self._flight.items)

    def _queues(self) -> tuple[_Queue, ...]:
        return self._flight, self._ready, self._finals, self._segments

    def _unwritten(self) -> Iterator[_Item]:
        """What is on no disk, in its order."""
        queues = (self._flight, self._finals, self._segments)
        for item in merge(*(queue.items for queue in queues), key=lambda item: item.number):
            if not item.is_written:
                yield item

    def _oldest_fresh(self) -> _Queue | None:
        queues = [queue for queue in (self._finals, self._segments) if queue.items]
        return min(queues, key=lambda queue: queue.items[0].number, default=None)

    def _next(self) -> _Queue | None:
        """The queue whose first is the next to be sent; None when that is not in memory."""
        if self._ready.items:
            return self._ready
        return None if self._is_fresh_waiting else self._oldest_fresh()

    def _station_of(self, item: _Item) -> _Queue:
        if item.is_written:
            return self._ready
        return self._segments if item.is_open else self._finals

    def _end(self, item: _Item) -> None:
        """The item needs no more delivering, and so neither does its copy on disk."""
        item.is_gone = True
        if item.place is not None:
            self._done.append(item.place)

    def _make_room(self, size_bytes: int) -> bool:
        excess = self.held_bytes + size_bytes - self._limit_bytes
        if excess > self._segments.size_bytes:
            return False
        enough = self._segments.size_bytes - excess
        while self._segments.size_bytes > enough:
            self._end(self._segments.take_first())
            self._dropped["segment_gave_way"] += 1
        return True


class _Queue:
    """Items in order, and their size together."""

    def __init__(self) -> None:
        self.items: deque[_Item] = deque()
        self.size_bytes = 0

    def append(self, item: _Item) -> None:
        self.items.append(item)
        self.size_bytes += len(item.body)

    def put_first(self, item: _Item) -> None:
        self.items.appendleft(item)
        self.size_bytes += len(item.body)

    def take_first(self) -> _Item:
        item = self.items.popleft()
        self.size_bytes -= len(item.body)
        return item

    def take_last(self) -> _Item:
        item = self.items.pop()
        self.size_bytes -= len(item.body)
        return item
