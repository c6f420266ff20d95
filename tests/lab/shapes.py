"""Traffic shapes: how a healthy model's answer is spread over time, drawn from a seed.

Every shape is healthy, whatever its pauses. The text of an event is one word, so that positions differ between events.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import pairwise
from typing import Final

from otel.demo import script
from otel.demo.faults import Fault, Kind
from otel.demo.reader import has_text
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
    LONG = "long"


EVENTS: Final = {
    Shape.STEADY: 120,
    Shape.SPECULATIVE: 180,
    Shape.GROUPED: 120,
    Shape.BURSTY: 160,
    Shape.EXPONENTIAL: 80,
    Shape.REASONING: 130,
    Shape.INTERLEAVED: 120,
    Shape.LONG: 3_000,
}
"""Content and reasoning events of an answer: about three seconds of each shape, where nobody asks for more."""

Beats = Iterator[tuple[float, str]]
"""Seconds after the event before, and the member that the event fills, for as long as anybody asks."""


def answer(shape: Shape, *, request_id: str, events: int, seed: int, fault: Fault | None = None) -> Script:
    """The answer of the worker, with its own fault in it, if any. Each shape is a model of its own name."""
    model = f"lab-{shape}"
    if shape is Shape.STEADY or (fault is not None and fault.kind is Kind.SLOW_READ):
        return script.script(request_id=request_id, model=model, events=events, seed=seed, fault=fault)
    draw = random.Random(seed)
    frame = script.frame_of(request_id=request_id, model=model)
    at_s = script.THINKING_S
    dues = [Due(at_s, script.chunk(frame, {"role": "assistant", "content": ""}))]
    for index, (pause_s, member) in zip(range(events), _BEATS[shape](draw, events), strict=False):
        at_s += pause_s if index else 0.0  # the role is sent when the first output is there
        dues.append(Due(at_s, script.chunk(frame, {member: f"{draw.choice(WORDS)} "})))
    dues += script.ending(frame, at_s=at_s, events=events)
    return script.planted(Script(tuple(dues)), fault, middle=script.middle_of(events))


def texts_s(answer: Script) -> list[float]:
    """When the visible output is due, in seconds after the request."""
    return [due.at_s for due in answer.events if has_text(due.data)]


def longest_pause_s(answer: Script) -> float:
    """The longest pause of the source, be it in text or in thought."""
    return max((later.at_s - earlier.at_s for earlier, later in pairwise(answer.events)), default=0.0)


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
    """The first 40 of 100 events are thoughts: below the middle, where a stall is planted."""
    for index in range(events):
        yield draw.uniform(*script.PACE_S), REASONING if index < 0.4 * events else TEXT


def _interleaved(draw: random.Random, events: int) -> Beats:
    """Thoughts again behind the middle: the reader sees no text for long, and nothing stalls."""
    for index in range(events):
        yield draw.uniform(*script.PACE_S), REASONING if 0.55 * events < index < 0.85 * events else TEXT


def _long(draw: random.Random, _: int) -> Beats:
    """A fast model with a long answer: 800 events a second."""
    while True:
        yield draw.uniform(0.001, 0.0015), TEXT


_BEATS: Final[dict[Shape, Callable[[random.Random, int], Beats]]] = {
    Shape.SPECULATIVE: _speculative,
    Shape.GROUPED: _grouped,
    Shape.BURSTY: _bursty,
    Shape.EXPONENTIAL: _exponential,
    Shape.REASONING: _reasoning,
    Shape.INTERLEAVED: _interleaved,
    Shape.LONG: _long,
}
