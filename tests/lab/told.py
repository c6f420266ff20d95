"""What one request of the lab asks for, in a header that every hop passes on: the answer, and what goes wrong where.

A hop holds the event that brings a certain *character* of the visible output, not a certain event: hops that merge,
split or drop events pass on another number of them, and always the same text.
"""

from __future__ import annotations

import json
import uuid
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from otel.demo import faults, script
from otel.demo.faults import WORKER, Fault
from otel.demo.reader import receipt
from otel.demo.script import Script
from tests.lab.shapes import Shape, Spoken, answer, model_of

HEADER: Final = "x-lab"


class Kind(StrEnum):
    """What goes wrong."""

    STALL = "stall"
    SLOW_FIRST = "slow-first"
    END_HOLD = "end-hold"
    CUT = "cut"
    BUFFER = "buffer"
    FREEZE = "freeze"
    SELF = "self"
    SLOW_READ = "slow-read"
    LEAVE = "leave"
    BLACK_HOLE = "black-hole"
    LOSS = "loss"
    RATE = "rate"


TOLD: Final = frozenset({Kind.STALL, Kind.SLOW_FIRST, Kind.END_HOLD, Kind.CUT, Kind.BUFFER})
"""What a hop does to its own answer when it is told to."""
STOPPING: Final = frozenset({Kind.FREEZE, Kind.SELF})
"""What stops a process, and with it every other request: an app's, or its sidecar's."""
READING: Final = frozenset({Kind.SLOW_READ, Kind.LEAVE})
"""What the reader does."""
LINKING: Final = frozenset({Kind.BLACK_HOLE, Kind.LOSS, Kind.RATE})
"""What is done to the link before a hop, seen from the source; before the client it is the last one."""


@dataclass(frozen=True, slots=True)
class Planted:
    """One fault: at which hop, for how many seconds, from which character of the visible output on."""

    kind: Kind
    hop: str
    seconds: float
    at_chars: int = 1

    def __str__(self) -> str:
        return f"{self.hop}:{self.kind}={self.seconds:g}"

    @property
    def fault(self) -> Fault:
        """In the words of the demo's apps; a hold before the end is a stall of what comes there."""
        kind = faults.Kind.STALL if self.kind is Kind.END_HOLD else faults.Kind(self.kind)
        return Fault(self.hop, kind, self.seconds)

    def begins(self) -> Callable[[bytes], bool]:
        """Asked with every event of one answer, in order: whether the fault begins with it."""
        passed = 0

        def has_begun(event: bytes) -> bool:
            nonlocal passed
            passed += receipt(event.rstrip(b"\n"), at_s=0.0).chars
            return self.kind is Kind.SLOW_FIRST or passed >= self.at_chars

        def has_ended(event: bytes) -> bool:
            return b'"finish_reason":"' in event or event.startswith(b"data: [DONE]")

        return has_ended if self.kind is Kind.END_HOLD else has_begun


@dataclass(frozen=True, slots=True)
class Told:
    """The answer that the worker is to give, and the faults that hops are to play. words: in each event."""

    shape: Shape
    events: int
    words: int
    seed: int
    faults: tuple[Planted, ...] = ()

    def header(self) -> str:
        planted = [[each.kind, each.hop, each.seconds, each.at_chars] for each in self.faults]
        return json.dumps([self.shape, self.events, self.words, self.seed, planted], separators=(",", ":"))

    def question(self, request_id: str) -> tuple[dict[str, str], dict[str, object]]:
        """Headers and body of the request; an engine that obeys no header is told how long its answer may be."""
        headers = {
            "x-request-id": request_id,
            "traceparent": f"00-{uuid.uuid4().hex}-{uuid.uuid4().hex[:16]}-01",
            HEADER: self.header(),
        }
        body: dict[str, object] = {
            "model": model_of(self.shape),
            "messages": [{"role": "user", "content": "Tell me a story."}],
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": self.events,
        }
        return headers, body

    @classmethod
    def parse(cls, header: str) -> Self:
        shape, events, words, seed, planted = json.loads(header)
        return cls(Shape(shape), events, words, seed, tuple(_planted(planted)))

    def calm(self, *, request_id: str = "") -> Spoken:
        """The healthy answer."""
        return answer(self.shape, request_id=request_id, events=self.events, words=self.words, seed=self.seed)

    def script(self, *, request_id: str = "") -> Script:
        """What the worker sends, with its own faults."""
        spoken = self.calm(request_id=request_id)
        played = spoken.script
        for each in self.faults:
            if each.hop == WORKER:
                played = planted(played, each, index=first_event(spoken, each))
        return played

    def at(self, hop: str) -> Planted | None:
        """What this hop is to do, if anything."""
        return next((each for each in self.faults if each.hop == hop), None)


def first_event(spoken: Spoken, fault: Planted) -> int:
    """The event of the source with which a fault begins."""
    match fault.kind:
        case Kind.SLOW_FIRST:
            return 0
        case Kind.END_HOLD:
            return spoken.texts[-1] + 1
        case _:
            return bisect_left(spoken.reached, fault.at_chars)


def planted(played: Script, fault: Planted, *, index: int) -> Script:
    """An answer of the source with its own fault, which begins with the event of this index."""
    match fault.kind:
        case Kind.SLOW_FIRST:
            return script.held(played, 0, until_s=fault.seconds)
        case Kind.STALL | Kind.END_HOLD:
            return script.held(played, index, until_s=played.events[index - 1].at_s + fault.seconds)
        case Kind.BUFFER:
            return script.flushed(played, index, every_s=fault.seconds)
        case Kind.CUT:
            return script.cut(played, after_s=fault.seconds)
        case _:
            return played


def _planted(rows: Iterable[tuple[str, str, float, int]]) -> Iterable[Planted]:
    return (Planted(Kind(kind), hop, seconds, at_chars) for kind, hop, seconds, at_chars in rows)
