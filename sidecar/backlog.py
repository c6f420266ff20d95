"""Spans waiting to be delivered: bounded in bytes, with counts that add up at every moment.

A span is encoded when it is offered, so its size is known, and a batch is a concatenation (protobuf merges requests
that stand one behind the other). A batch in flight still belongs to the backlog: it leaves by `settle` alone.

When there is no room, open segments give way, the oldest of them first: the final record of their exchange will have
all they had. What still does not fit is refused itself, since what is older tells how the outage began.

    offered = accepted + rejected + dropped + queued
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from otel.otlp import OtlpError, decode_request, encode_request
from otel.span import Span, without_timeline

_SECOND_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Spans since the start, and what is queued now (in flight included).

    dropped is by reason: `queue_full`, `segment_gave_way`, `unencodable`. timelines_left_out counts spans sent
    without their timeline because a receiver refused their size. retried counts requests that were repeated.
    oldest_age_s is None when nothing is queued.
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


@dataclass(frozen=True, slots=True)
class _Item:
    """One span: its place in the order of offers, and its bytes as a request of its own."""

    number: int
    body: bytes
    is_segment: bool
    offered_ns: int
    is_bare: bool = False


class Backlog:
    """The queue; a batch at a time is in flight."""

    def __init__(self, *, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._finals, self._segments, self._flight = _Queue(), _Queue(), _Queue()
        self._offered = self._accepted = self._rejected = self._left_out = 0
        self._dropped: Counter[str] = Counter()

    @property
    def held_bytes(self) -> int:
        return self._finals.size_bytes + self._segments.size_bytes + self._flight.size_bytes

    @property
    def flight_count(self) -> int:
        return len(self._flight.items)

    @property
    def dropped(self) -> Mapping[str, int]:
        return dict(self._dropped)

    def counters(self, now_ns: int) -> Counters:
        queues = (self._finals, self._segments, self._flight)
        oldest_ns = min((queue.items[0].offered_ns for queue in queues if queue.items), default=None)
        return Counters(
            offered=self._offered,
            accepted=self._accepted,
            rejected=self._rejected,
            dropped=self.dropped,
            queued=sum(len(queue.items) for queue in queues),
            queued_bytes=self.held_bytes,
            oldest_age_s=None if oldest_ns is None else (now_ns - oldest_ns) / _SECOND_NS,
            timelines_left_out=self._left_out,
        )

    def offer(self, span: Span, at_ns: int) -> bool:
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
        is_segment = span.attributes.get("gapline.state") == "open"
        (self._segments if is_segment else self._finals).append(_Item(self._offered, body, is_segment, at_ns))
        return True

    def take(self, limit_bytes: int) -> bytes:
        """Put the oldest into flight, as many as limit_bytes holds and at least one; their bytes as one request."""
        while queues := [queue for queue in (self._finals, self._segments) if queue.items]:
            queue = min(queues, key=lambda queue: queue.items[0].number)
            size_bytes = self._flight.size_bytes + len(queue.items[0].body)
            if self._flight.items and size_bytes > limit_bytes:
                break
            self._flight.append(queue.take_first())
        return b"".join(item.body for item in self._flight.items)

    def put_back(self) -> None:
        """Nothing was decided about what is in flight: it queues again, in its old place."""
        while self._flight.items:
            item = self._flight.take_last()
            (self._segments if item.is_segment else self._finals).put_first(item)

    def settle(self, *, rejected: int | None = None) -> int:
        """The receiver has what is in flight, save `rejected` of them (None: all); how many those were."""
        refused = self.flight_count if rejected is None else max(0, min(rejected, self.flight_count))
        self._rejected += refused
        self._accepted += self.flight_count - refused
        self._flight = _Queue()
        return refused

    def lighten(self) -> bool:
        """Take the timeline out of the one span in flight; False when it has lost it already."""
        item = self._flight.take_first()
        if not item.is_bare:
            self._left_out += 1
            body = encode_request(map(without_timeline, decode_request(item.body)))
            self._flight.append(replace(item, body=body, is_bare=True))
            return True
        self._flight.append(item)
        return False

    def _make_room(self, size_bytes: int) -> bool:
        excess = self.held_bytes + size_bytes - self._limit_bytes
        if excess > self._segments.size_bytes:
            return False
        enough = self._segments.size_bytes - excess
        while self._segments.size_bytes > enough:
            self._segments.take_first()
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
