"""How often a healthy source is told to be slower than it is, and how often one that is slower: streams drawn by shape.

    python -m tests.lab.tempos --streams 2000

No processes: the stamps of a source are drawn, and the rule is asked. Every healthy stream keeps one pace from its
beginning to its end, however widely its pauses spread; of one source the answers' paces differ as load differs.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from otel.hop import Anchor, End, Ending, EventClass, Exchange, Hop, Moments, Phase, Place, Side, Stamp, TapRole
from otel.hop import Timeline as Stamps
from otel.known import Paces
from otel.tempo import Tempo, tempo_of

S: Final = 1_000_000_000
EVENTS: Final = (60, 2_000)
"""Fewest and most events of a stream; their logarithm is spread evenly."""
LOAD: Final = 0.25
"""Spread of the paces of one source's answers, as the standard deviation of their logarithm: one in forty is 1.6 times
slower than the middle."""
TOLD_SHARE: Final = 0.001
"""Of the healthy streams of a shape, those of which something may be told: it accuses nobody."""
SLOWER: Final = 3.0
"""What a source that slows down is drawn to do."""

Beat = Callable[[random.Random], Iterator[float]]


def _steady(draw: random.Random) -> Iterator[float]:
    while True:
        yield draw.uniform(0.018, 0.032)


def _grouped(draw: random.Random) -> Iterator[float]:
    while True:
        yield draw.uniform(0.16, 0.24)
        yield from [0.0] * 7


def _speculative(draw: random.Random) -> Iterator[float]:
    while True:
        yield draw.uniform(0.03, 0.06)
        yield from [0.0] * draw.randrange(5)


def _exponential(draw: random.Random) -> Iterator[float]:
    while True:
        yield draw.expovariate(1 / 0.04)


def _bursty(draw: random.Random) -> Iterator[float]:
    while True:
        yield draw.uniform(0.1, 0.5)
        yield from [0.001] * draw.randint(4, 24)


def _heavy(draw: random.Random) -> Iterator[float]:
    while True:
        yield min(2.0, 0.01 * draw.paretovariate(1.5))


def _waves(draw: random.Random) -> Iterator[float]:
    """A batch that fills and empties: every some 40 events another pace."""
    while True:
        pace = draw.uniform(0.018, 0.036)
        yield from (draw.uniform(0.8, 1.2) * pace for _ in range(draw.randint(20, 60)))


def _interrupted(draw: random.Random) -> Iterator[float]:
    """Steady, with a long pause now and then, such as another request's prompt makes."""
    while True:
        yield draw.uniform(0.3, 1.5) if draw.random() < 0.02 else draw.uniform(0.018, 0.032)


SHAPES: Final[dict[str, Beat]] = {
    "steady": _steady,
    "grouped": _grouped,
    "speculative": _speculative,
    "exponential": _exponential,
    "bursty": _bursty,
    "heavy-tailed": _heavy,
    "waves": _waves,
    "interrupted": _interrupted,
}


@dataclass(frozen=True, slots=True)
class Found:
    """Of how many healthy streams it was told that they slowed down, or were slower than usual (unusual); and of as
    many as `slower` says that did the one, or were the other, of how many that was told."""

    streams: int = 0
    slowed: int = 0
    unusual: int = 0
    slower: int = 0
    changed_found: int = 0
    slow_found: int = 0


def stream(draw: random.Random, beat: Beat, *, load: float = 1.0, after: float = 1.0) -> Hop:
    """A source's stamps. load: times the pauses last as long. after: times more from the middle on."""
    events = round(EVENTS[0] * (EVENTS[1] / EVENTS[0]) ** draw.random())
    at_ns, stamps = S // 5, []
    for seq, pause_s in enumerate(islice(beat(draw), events)):
        at_ns += round(pause_s * load * (after if 2 * seq >= events else 1.0) * S)
        stamps.append(Stamp(seq, at_ns, at_ns, EventClass.CONTENT, 5 * (seq + 1)))
    return Hop(
        request_id="drawn",
        request_id_source="header",
        trace_id="0" * 31 + "1",
        span_id="0" * 15 + "1",
        place=Place("model-worker", TapRole.INGRESS),
        anchor=Anchor(0, 0, ""),
        exchange=Exchange(method="POST", path="/", is_stream=True),
        moments=Moments(closed_ns=at_ns),
        timeline=Stamps(unit_ns=1, quantum=1, stamps=tuple(stamps)),
        end=End(Ending.COMPLETE, Side.UPSTREAM, Phase.TERMINAL, 0),
    )


def tried(draw: random.Random, beat: Beat, streams: int) -> Found:
    """One source of a shape: so many healthy streams, of which every other one is also drawn with a slower source."""
    count, paces = Counter[str](), Paces()
    for n in range(streams):
        load = draw.lognormvariate(0.0, LOAD)
        healthy = tempo_of(stream(draw, beat, load=load), usual_ns=paces.usual_ns)
        count["slowed"] += _has_slowed(healthy)
        count["unusual"] += _is_slow(healthy)
        if n % 2:
            changed = tempo_of(stream(draw, beat, load=load, after=SLOWER))
            slow = tempo_of(stream(draw, beat, load=load * SLOWER), usual_ns=paces.usual_ns)
            count["changed_found"] += _has_slowed(changed)
            count["slow_found"] += _is_slow(slow)
        if healthy is not None:
            paces = paces.with_one(healthy.pace_ns)
    return Found(streams=streams, slower=streams // 2, **count)


def _has_slowed(tempo: Tempo | None) -> bool:
    return tempo is not None and tempo.slowed is not None


def _is_slow(tempo: Tempo | None) -> bool:
    return tempo is not None and tempo.is_slow


def line(shape: str, found: Found) -> str:
    counts = (found.streams, found.slowed, found.unusual, found.slower, found.changed_found, found.slow_found)
    return f"| {shape} | " + " | ".join(map(str, counts)) + " |"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.tempos", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--streams", type=int, default=2_000, metavar="N", help="of each shape [2000]")
    parser.add_argument("--seed", type=int, default=1, help="of all that is drawn [1]")
    options = parser.parse_args(argv)
    print(
        "| shape | healthy | told slowed | told slow | drawn slower | found slowed | found slow |\n|---|" + "---:|" * 6
    )
    is_rare = True
    for shape, beat in SHAPES.items():
        found = tried(random.Random(f"{options.seed} {shape}"), beat, options.streams)
        is_rare = is_rare and found.slowed + found.unusual <= TOLD_SHARE * found.streams
        print(line(shape, found), flush=True)
    return 0 if is_rare else 1


if __name__ == "__main__":
    sys.exit(main())
