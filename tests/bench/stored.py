"""What a stored timeline takes: bytes an event of drawn answers, each shape of traffic by itself. Needs no machine."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from otel.grain import quantised
from otel.hop import EventClass, KernelSample, Stamp, Timeline
from otel.timeline import encode
from tests.lab.shapes import EVENTS, Shape, Spoken, answer

MUST_BYTES, AIM_BYTES = 4.0, 3.0
"""An event, before base64."""
JITTER_S: Final = 0.0004
"""Of what lies between the source and us: times are never as even as a script."""
TAKEN_NS: Final = (20_000, 90_000)
"""From an event's arrival until our kernel has it."""
SAMPLE_EVERY_NS: Final = 1_000_000_000
"""Kernel evidence of a healthy stream."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One shape of traffic, and what its timelines take."""

    shape: Shape
    events: int
    payload_bytes: int

    @property
    def bytes_per_event(self) -> float:
        return self.payload_bytes / self.events


def timeline_of(spoken: Spoken, draw: random.Random) -> Timeline:
    """What a sidecar records of a healthy answer."""
    stamps, latest_ns = [], 0
    for seq, (due, position, chars) in enumerate(zip(spoken.script.events, spoken.reached, spoken.chars, strict=True)):
        latest_ns = max(latest_ns, round((due.at_s + draw.uniform(0, JITTER_S)) * 1e9))
        taken_ns = latest_ns + draw.randint(*TAKEN_NS)
        event_class = EventClass.CONTENT if chars else EventClass.CONTROL
        stamps.append(Stamp(seq, latest_ns, taken_ns, event_class, position, is_exact=True))
    return Timeline(unit_ns=1, quantum=1, stamps=tuple(stamps), samples=_samples(stamps))


def _samples(stamps: Sequence[Stamp]) -> tuple[KernelSample, ...]:
    samples, at_ns = [], SAMPLE_EVERY_NS
    for acked_count, stamp in enumerate(stamps):
        if stamp.arrived_ns >= at_ns:
            samples.append(KernelSample(at_ns, acked_count, 0, 0, 65_536, 0, 0, 0))
            at_ns += SAMPLE_EVERY_NS
    return tuple(samples)


def stored(*, seed: int, answers: int = 3) -> list[Stored]:
    """Each shape, in so many drawn answers."""
    draw, found = random.Random(seed), []
    for shape in Shape:
        events = payload_bytes = 0
        for _ in range(answers):
            spoken = answer(shape, request_id="req", events=EVENTS[shape], seed=draw.randrange(1 << 30))
            timeline = timeline_of(spoken, draw)
            events += len(timeline.stamps)
            payload_bytes += len(encode(quantised(timeline)))
        found.append(Stored(shape, events, payload_bytes))
    return found
