"""The drawn streams: healthy ones keep their pace, and what is counted is what was told."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from otel.tempo import tempo_of
from tests.lab.tempos import EVENTS, SHAPES, Found, line, main, stream, tried


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_keeps_its_pace(shape):
    beats = list(islice(SHAPES[shape](random.Random(7)), 20_000))
    first, second = sum(beats[:10_000]), sum(beats[10_000:])
    assert second == pytest.approx(first, rel=0.1)


def test_a_stream_that_slows_down_does_so_in_its_middle():
    plain, slowed = (stream(random.Random(3), SHAPES["steady"], after=after) for after in (1.0, 3.0))
    count = len(plain.timeline.stamps)
    assert EVENTS[0] <= count <= EVENTS[1]
    half = -(-count // 2) - 1
    assert plain.timeline.stamps[half] == slowed.timeline.stamps[half]
    rest = [hop.timeline.stamps[-1].arrived_ns - hop.timeline.stamps[half].arrived_ns for hop in (plain, slowed)]
    assert rest[1] == pytest.approx(3 * rest[0], rel=1e-6)


def test_of_a_steady_source_nothing_is_told_but_what_was_drawn():
    found = tried(random.Random(1), SHAPES["steady"], 60)
    assert (found.streams, found.slowed, found.unusual, found.slower) == (60, 0, 0, 30)
    assert found.changed_found >= 27
    assert found.slow_found >= 15
    assert line("steady", found).startswith("| steady | 60 | 0 | 0 | 30 |")


def test_telling_of_a_healthy_stream_is_a_failure(monkeypatch, capsys):
    assert main(["--streams", "4"]) == 0
    assert "steady" in capsys.readouterr().out
    monkeypatch.setattr("tests.lab.tempos.tried", lambda *_: Found(streams=1, slowed=1))
    assert main(["--streams", "1"]) == 1


def test_what_chance_makes_of_a_healthy_stream_is_not_told(monkeypatch):
    """Two of 3,500 drawn streams whose first half came twice as fast by chance."""
    monkeypatch.setattr("tests.lab.tempos.EVENTS", (60, 120))
    for seed in (3196, 3495):
        hop = stream(random.Random(seed), SHAPES["exponential"])
        found = tempo_of(hop)
        assert found is not None
        assert found.slowed is None
        with monkeypatch.context() as patch:
            patch.setattr("otel.tempo.CHANCE", 0.0)
            found = tempo_of(hop)
            assert found is not None
            assert found.slowed is not None
