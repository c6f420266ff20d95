"""Traffic shapes: how a healthy model's answer is spread over time, drawn from a seed.

Every shape is healthy, whatever its pauses. Positions in the text differ between events, whatever their size.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import Final

from otel.demo import script
from otel.demo.script import Due, Script

TEXT, REASONING = "content", "reasoning_content"
WORDS: Final = ("amber", "birch", "cedar", "dune", "ember", "fjord", "grove", "heath", "inlet", "knoll", "ledge")


class Shape(StrEnum):
    """How the events of an answer come."""

    STEADY = "steady"
    SPECULATIVE = "speculative"
    GROUPED = "grouped"
    BURSTY = "bursty"
    EXPONENTIAL = "exponential"
    REASONING = "reasoning"
    INTERLEAVED = "interleaved"
    BRIEF = "brief"
    AT_ONCE = "at-once"
    LONG = "long"
    FLOOD = "flood"
    BULKY = "bulky"


EVENTS: Final = {
    Shape.STEADY: 120,
    Shape.SPECULATIVE: 180,
    Shape.GROUPED: 120,
    Shape.BURSTY: 160,
    Shape.EXPONENTIAL: 80,
    Shape.REASONING: 200,
    Shape.INTERLEAVED: 120,
    Shape.BRIEF: 30,
    Shape.AT_ONCE: 30,
    Shape.LONG: 3_000,
    Shape.FLOOD: 30_000,
    Shape.BULKY: 300,
}
"""Content and reasoning events of an answer: three to ten seconds of most shapes, where nobody asks for more."""
BULKY_WORDS: Final = 280
"""Words of a bulky event: 1,600 characters, so that a reader that stops fills its kernel's buffer."""

Beats = Iterator[tuple[float, str]]
"""Seconds after the event before, and the member that the event fills, for as long as anybody asks."""


@dataclass(frozen=True)
class Spoken:
    """An answer and the visible characters that each of its events brings."""

    script: Script
    chars: tuple[int, ...]

    @cached_property
    def reached(self) -> tuple[int, ...]:
        """The visible characters up to and with each event."""
        return tuple(accumulate(self.chars))

    @cached_property
    def length(self) -> int:
        return sum(self.chars)

    @cached_property
    def texts(self) -> list[int]:
        """Which events bring visible output."""
        return [index for index, chars in enumerate(self.chars) if chars]


@lru_cache(maxsize=16)
def answer(shape: Shape, *, request_id: str, events: int, seed: int, words: int = 1) -> Spoken:
    """A healthy answer with so many events of content and thoughts. Each shape is a model of its own name."""
    draw = random.Random(seed)
    frame = script.frame_of(request_id=request_id, model=model_of(shape))
    makes = {member: _chunks(frame, member) for member in (TEXT, REASONING)}
    at_s = script.THINKING_S
    dues, chars = [Due(at_s, script.chunk(frame, {"role": "assistant", "content": ""}))], [0]
    for index, (pause_s, member) in zip(range(events), _BEATS[shape](draw, events), strict=False):
        at_s += pause_s if index else 0.0  # the role is sent when the first output is there
        text = " ".join(draw.choices(WORDS, k=words)) + " "
        dues.append(Due(at_s, makes[member](text)))
        chars.append(len(text) if member == TEXT else 0)
    ends = script.ending(frame, at_s=at_s, events=events)
    return Spoken(Script((*dues, *ends)), (*chars, *(0 for _ in ends)))


def model_of(shape: Shape) -> str:
    """The name under which the collector keeps what it learns of a model that speaks so."""
    return f"lab-{shape}"


def longest_pause_s(spoken: Spoken) -> float:
    """The longest pause of the source, be it in text or in thought."""
    return max((later.at_s - earlier.at_s for earlier, later in pairwise(spoken.script.events)), default=0.0)


def _chunks(frame: dict[str, object], member: str) -> Callable[[str], bytes]:
    """Makes the chunk of a text; thirty thousand of them have to be there at once."""
    head, tail = script.chunk(frame, {member: "|"}).split(b"|")
    return lambda text: head + text.encode() + tail


def _steady(draw: random.Random, _: int) -> Beats:
    while True:
        yield draw.uniform(*script.PACE_S), TEXT


def _speculative(draw: random.Random, _: int) -> Beats:
    while True:
        yield draw.uniform(0.04, 0.07), TEXT
        yield from ((0.0, TEXT) for _ in range(draw.randint(0, 4)))


def _grouped(draw: random.Random, _: int) -> Beats:
    """An engine that streams every eighth token."""
    while True:
        yield draw.uniform(0.18, 0.22), TEXT
        yield from ((0.0, TEXT) for _ in range(7))


def _bursty(draw: random.Random, _: int) -> Beats:
    while True:
        yield draw.uniform(0.1, 0.5), TEXT
        yield from ((0.001, TEXT) for _ in range(draw.randint(4, 24)))


def _exponential(draw: random.Random, _: int) -> Beats:
    while True:
        yield min(0.4, draw.expovariate(1 / 0.04)), TEXT


def _reasoning(draw: random.Random, events: int) -> Beats:
    """More than half of the events are thoughts, two and a half seconds of them before the first word."""
    for index in range(events):
        yield draw.uniform(*script.PACE_S), REASONING if index < 0.55 * events else TEXT


def _interleaved(draw: random.Random, events: int) -> Beats:
    """Thoughts again behind the middle: the reader sees no text for long, and nothing stalls."""
    for index in range(events):
        yield draw.uniform(*script.PACE_S), REASONING if 0.55 * events < index < 0.85 * events else TEXT


def _at_once(_: random.Random, events: int) -> Beats:
    """A whole answer in one moment, as a cache gives it: it fits into any buffer on its way."""
    yield from ((0.0, TEXT) for _ in range(events))


def _long(draw: random.Random, _: int) -> Beats:
    """A fast model with a long answer: 800 events a second."""
    while True:
        yield draw.uniform(0.001, 0.0015), TEXT


def _flood(draw: random.Random, _: int) -> Beats:
    """A very long answer from an engine that sends every hundredth token: 3,000 events a second."""
    while True:
        yield draw.uniform(0.03, 0.036), TEXT
        yield from ((0.0, TEXT) for _ in range(99))


def _bulky(draw: random.Random, _: int) -> Beats:
    """Large events that come fast."""
    while True:
        yield draw.uniform(0.008, 0.012), TEXT


_BEATS: Final[dict[Shape, Callable[[random.Random, int], Beats]]] = {
    Shape.STEADY: _steady,
    Shape.SPECULATIVE: _speculative,
    Shape.GROUPED: _grouped,
    Shape.BURSTY: _bursty,
    Shape.EXPONENTIAL: _exponential,
    Shape.REASONING: _reasoning,
    Shape.INTERLEAVED: _interleaved,
    Shape.BRIEF: _steady,
    Shape.AT_ONCE: _at_once,
    Shape.LONG: _long,
    Shape.FLOOD: _flood,
    Shape.BULKY: _bulky,
}
