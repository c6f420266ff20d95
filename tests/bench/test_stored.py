"""What stored timelines take: at most four bytes an event in every shape, and what is weighed can be read again."""

from __future__ import annotations

import random

from otel.grain import quantised
from otel.timeline import decode, encode
from tests.bench.stored import MUST_BYTES, stored, timeline_of
from tests.lab.shapes import Shape, answer


def test_every_shape_takes_what_it_may() -> None:
    found = stored(seed=3, answers=1)
    assert [each.shape for each in found] == list(Shape)
    assert [each for each in found if each.bytes_per_event > MUST_BYTES] == []


def test_what_is_weighed_is_a_timeline_of_all_events() -> None:
    spoken = answer(Shape.STEADY, request_id="r", events=50, seed=5)
    timeline = quantised(timeline_of(spoken, random.Random(5)))
    assert decode(encode(timeline)) == timeline
    assert len(timeline.stamps) == len(spoken.script.events)
    assert timeline.samples
