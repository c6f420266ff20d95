"""What a link between two hosts does to packets: how long they take, how many wait, which are lost, and until when.

One direction of a link is a `Pipe`: packets that come wait for their turn on the line (`bits_per_s`, at most
`queue_bytes` of them), and then fly for `delay_ns`, all for the same time, so that none overtakes another. Times are
readings of one monotonic clock; chance is a number of the caller's in [0, 1).
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import asdict, dataclass
from typing import Final

NS: Final = 1_000_000_000
QUEUE_BYTES: Final = 65_536
"""What a slow line holds before it drops: at 1 Mbit/s half a second, as home routers do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What one direction is like. loss_share: of packets, 1 is a black hole. bits_per_s: None for no limit."""

    delay_ns: int = 0
    loss_share: float = 0.0
    bits_per_s: float | None = None
    queue_bytes: int = QUEUE_BYTES

    def __post_init__(self) -> None:
        if self.delay_ns < 0 or not 0 <= self.loss_share <= 1 or (self.bits_per_s is not None and self.bits_per_s <= 0):
            raise ValueError(f"{self}: a delay is not negative, a share lies in [0, 1], a rate is more than 0")


@dataclass(frozen=True, slots=True)
class Change:
    """From now until then this link is another one, in both directions, and after that what it was."""

    link: int
    line: Line
    until_ns: int

    def to_json(self) -> str:
        """On one line."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Change:
        """Raises ValueError, KeyError and TypeError for what `to_json` did not write."""
        given = json.loads(text)
        return cls(given["link"], Line(**given["line"]), given["until_ns"])


class Pipe:
    """One direction of a link. lost_count: packets that never came out, by chance or for want of room."""

    def __init__(self, line: Line) -> None:
        self._usual = line
        self._unusual: Line | None = None
        self._until_ns = 0
        self._waiting: deque[tuple[int, bytes]] = deque()  # when it came
        self._waiting_bytes = 0
        self._flying: deque[tuple[int, bytes]] = deque()  # when it is there
        self._free_ns = 0
        self.lost_count = 0

    def change(self, line: Line, until_ns: int) -> None:
        """Be like that until then; what flies is not touched."""
        self._unusual, self._until_ns = line, until_ns

    def offer(self, packet: bytes, now_ns: int, chance: float) -> None:
        """A packet comes to the link."""
        line = self._line(now_ns)
        is_full = line.bits_per_s is not None and self._waiting_bytes + len(packet) > line.queue_bytes
        if chance < line.loss_share or is_full:
            self.lost_count += 1
            return
        self._waiting.append((now_ns, packet))
        self._waiting_bytes += len(packet)
        self._serve(now_ns)

    def take(self, now_ns: int) -> list[bytes]:
        """The packets that are there by now, in the order in which they came."""
        self._serve(now_ns)
        there = []
        while self._flying and self._flying[0][0] <= now_ns:
            there.append(self._flying.popleft()[1])
        return there

    def due_ns(self, now_ns: int) -> int | None:
        """When to look again, None where nothing is under way."""
        due = [self._flying[0][0]] if self._flying else []
        if self._waiting:
            served_ns = self._served_ns(self._line(now_ns))
            due.append(served_ns if now_ns >= self._until_ns else min(served_ns, self._until_ns))
        return min(due, default=None)

    def _line(self, now_ns: int) -> Line:
        if self._unusual is not None and now_ns >= self._until_ns:
            self._unusual = None
            self._free_ns = max(self._free_ns, self._until_ns)  # what waited for a slow line has waited until then
        return self._unusual or self._usual

    def _served_ns(self, line: Line) -> int:
        """When the first that waits will have been put on the line."""
        came_ns, packet = self._waiting[0]
        cost_ns = 0 if line.bits_per_s is None else round(8 * len(packet) * NS / line.bits_per_s)
        return max(self._free_ns, came_ns) + cost_ns

    def _serve(self, now_ns: int) -> None:
        line = self._line(now_ns)
        while self._waiting and (served_ns := self._served_ns(line)) <= now_ns:
            _, packet = self._waiting.popleft()
            self._waiting_bytes -= len(packet)
            self._free_ns = served_ns
            there_ns = served_ns + line.delay_ns
            if self._flying:
                there_ns = max(there_ns, self._flying[-1][0])
            self._flying.append((there_ns, packet))
