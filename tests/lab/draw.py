"""What is tried: chains and cases, drawn from a seed. Case n of a seed is the same, however many are run."""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import Final

from otel.demo import script
from otel.demo.faults import CLIENT, WORKER
from tests.lab.chain import NAMES, Chain, Links, Place, Tap
from tests.lab.middles import MIDDLES, Part
from tests.lab.readers import Reader
from tests.lab.shapes import BULKY_WORDS, EVENTS, Shape, Spoken
from tests.lab.told import LINKING, READING, STOPPING, TOLD, Kind, Planted, Told

BLOCK: Final = 10
"""Cases that share one running chain: starting one takes as long as two cases."""
SKEW_S: Final = 3_600.0
"""Largest shift of a sidecar's clocks in seconds."""
DRIFT_PPM: Final = 100.0
"""How fast a sidecar's clock runs away: those of two machines then differ by 200 millionths, 2 ms in ten seconds."""
BULKY_PACE_S: Final = 0.01
MOST_FOR_OTHERS: Final = 500
"""Events of an answer that another reader than ours reads."""
_HOPS: Final = (3, 3, 4, 4, 5)
_WEIGHTS: Final[dict[Kind | None, int]] = {
    None: 6,
    Kind.STALL: 4,
    Kind.SLOW_FIRST: 3,
    Kind.END_HOLD: 1,
    Kind.CUT: 2,
    Kind.BUFFER: 3,
    Kind.FREEZE: 2,
    Kind.SELF: 2,
    Kind.SLOW_READ: 3,
    Kind.LEAVE: 1,
}
_OF_LINKS: Final = {Kind.BLACK_HOLE: 5, Kind.LOSS: 3, Kind.RATE: 3}
"""What goes wrong besides, where there are links."""
_DELAYS_S: Final = (0.0, 0.002, 0.02)
_SMALL_BYTES: Final = 16_384
"""The smallest receive buffers that people set."""
_SHAPES: Final = {shape: {Shape.FLOOD: 1, Shape.BULKY: 0}.get(shape, 4) for shape in Shape}
_WITH_ONE_BEAT: Final = (Shape.STEADY, Shape.SPECULATIVE, Shape.LONG)
"""No pause of these is so long that a hold could hide in it, or be taken for more than it was."""
_PAIRED: Final = (Kind.STALL, Kind.SLOW_FIRST, Kind.END_HOLD)
"""What may happen to one answer together with a stall at another hop."""
_WORDS: Final = (1, 1, 1, 6, 60)
"""Words of an event: most engines send one, some a whole line."""


@dataclass(frozen=True, slots=True)
class Here:
    """What this machine can do. parts: what can stand in the middle; apps of ours take the place of what cannot.

    has_heavy: those of hundreds of megabytes are drawn, too.
    """

    parts: frozenset[Part]
    has_links: bool = False
    has_heavy: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """One request. faults: what is planted, of two the first named is the one that comes first."""

    number: int
    seed: int
    chain: Chain
    shape: Shape
    events: int
    words: int = 1
    faults: tuple[Planted, ...] = ()
    reader: Reader = Reader.OURS

    @property
    def told(self) -> Told:
        """What the request's header says."""
        said = tuple(fault for fault in self.faults if fault.kind in TOLD)
        return Told(self.shape, self.events, self.words, self.seed, said)

    @property
    def kinds(self) -> frozenset[Kind]:
        return frozenset(fault.kind for fault in self.faults)

    @property
    def is_alone(self) -> bool:
        """Whether others cannot run beside it: it stops a process, spoils a link, or keeps the machine busy."""
        return bool(self.kinds & (STOPPING | LINKING)) or self.shape is Shape.FLOOD

    def fault(self, *kinds: Kind) -> Planted | None:
        return next((fault for fault in self.faults if fault.kind in kinds), None)

    def __str__(self) -> str:
        size = "" if self.words == 1 or self.shape is Shape.BULKY else f" of {self.words} words"
        reader = "" if self.reader is Reader.OURS else f", read by {self.reader}"
        return f"{' + '.join(map(str, self.faults)) or 'nothing'} in {self.shape}{size}{reader}"


def chain(seed: int, block: int, here: Here) -> Chain:
    """The chain of a block of cases."""
    draw = random.Random(f"{seed} chain {block}")
    names = NAMES[draw.choice(_HOPS)]
    others = sorted(part for part in MIDDLES if part is not Part.APP and (here.has_heavy or not MIDDLES[part].is_heavy))
    middles = [draw.choice(others) if draw.random() < 0.4 else Part.APP for _ in names[1:]]
    holding = [index for index, part in enumerate(middles) if MIDDLES[part].holds]
    middles = [
        part if part in here.parts and (index in holding[:1] or not MIDDLES[part].holds) else Part.APP
        for index, part in enumerate(middles)
    ]
    links = _links(draw, len(names)) if draw.random() < 0.3 and here.has_links else None
    blind = draw.choice(names) if draw.random() < 0.3 and links is None else None
    places = []
    for name, part in zip(names, (Part.SCRIPTED, *middles), strict=True):
        has_egress = draw.random() < 0.3 and name != WORKER
        tap = Tap.NONE if name == blind else Tap.BOTH if has_egress else Tap.INGRESS
        skew_s, drift_ppm = round(draw.uniform(-SKEW_S, SKEW_S), 3), draw.choice((-DRIFT_PPM, 0.0, DRIFT_PPM))
        places.append(Place(name, part, tap, skew_s=skew_s, drift_ppm=drift_ppm))
    is_exact, has_small_buffers = draw.random() < 0.3, draw.random() < 0.25
    return Chain(tuple(places), is_exact=is_exact, has_small_buffers=has_small_buffers, links=links)


def _links(draw: random.Random, count: int) -> Links:
    delays_s = tuple(draw.choice(_DELAYS_S) for _ in range(count))
    return Links(delays_s, receive_bytes=_SMALL_BYTES if draw.random() < 0.4 else None)


def case(seed: int, number: int, here: Here, *, is_healthy: bool = False) -> Case:
    """Case `number` of this seed; is_healthy: nothing is planted, whatever would have been."""
    within = chain(seed, number // BLOCK, here)
    draw = random.Random(f"{seed} case {number}")
    weights = _WEIGHTS | (_OF_LINKS if within.links else {})
    kind = draw.choices(list(weights), list(weights.values()))[0]
    shape = _shape(draw, kind)
    words = BULKY_WORDS if shape is Shape.BULKY else draw.choice(_WORDS) if EVENTS[shape] < 500 else 1
    made = Case(number, draw.getrandbits(31), within, shape, EVENTS[shape], words, reader=_reader(draw, kind, shape))
    hops = _places(kind, within)
    if kind is None or is_healthy or not hops:
        return made
    hop = draw.choice(hops)
    first = Planted(kind, hop, round(_seconds(draw, kind, hop), 3))
    made = replace(made, events=max(made.events, _events_needed(first)))
    spoken = made.told.calm()
    faults = [_placed(draw, first, spoken)]
    others = [hop for hop in _places(Kind.STALL, within) if hop != first.hop]
    if kind in _PAIRED and others and draw.random() < 0.25:
        hop = draw.choice(others)
        second = Planted(Kind.STALL, hop, round(_seconds(draw, Kind.STALL, hop), 3))
        faults.append(_placed(draw, second, spoken, is_second=kind is Kind.STALL))
    return replace(made, faults=tuple(sorted(faults, key=lambda fault: _when(fault, spoken))))


def cases(seed: int, count: int, here: Here) -> list[Case]:
    return [case(seed, number, here) for number in range(count)]


def _shape(draw: random.Random, kind: Kind | None) -> Shape:
    """A shape in which this kind of fault can be seen, and measured."""
    shape = draw.choices(list(_SHAPES), list(_SHAPES.values()))[0]
    if kind is Kind.SLOW_READ:
        return Shape.BULKY
    if kind in LINKING:
        return Shape.STEADY
    if kind is Kind.BUFFER or kind in STOPPING:
        return draw.choice(_WITH_ONE_BEAT)
    return Shape.STEADY if shape is Shape.AT_ONCE and kind in {Kind.CUT, Kind.LEAVE} else shape


def _reader(draw: random.Random, kind: Kind | None, shape: Shape) -> Reader:
    """Who reads. Ours alone can be told to stop or leave, and no other is fast enough to stamp a flood on time."""
    reader = draw.choice((Reader.OURS, Reader.OURS, Reader.OURS, Reader.OPENAI, Reader.CURL))
    return Reader.OURS if kind in READING or EVENTS[shape] > MOST_FOR_OTHERS or not reader.is_here else reader


def _places(kind: Kind | None, within: Chain) -> list[str]:
    """Where this kind can be planted: a real part can be stopped, and not be told to misbehave."""
    if kind is None:
        return []
    if kind in READING:
        return [CLIENT]
    if kind in LINKING:
        return [*within.names[1:], CLIENT]
    if kind is Kind.SELF:
        return list(within.tapped)
    if kind is Kind.FREEZE:
        return list(within.names)
    return [place.name for place in within.hops if place.part is Part.SCRIPTED or MIDDLES[place.part].is_told]


def _seconds(draw: random.Random, kind: Kind, hop: str) -> float:
    """How long: from what any reader feels to what makes a lab slow; small ones are the likelier."""
    match kind:
        case Kind.BUFFER:
            return draw.uniform(0.4, 0.7)
        case Kind.SLOW_FIRST if hop == WORKER:
            return draw.uniform(1.3, 2.5)  # less is what a model may take
        case Kind.LEAVE:
            return 0.0
        case _:
            return 0.35 * math.pow(7.0, draw.random())


def _events_needed(fault: Planted) -> int:
    """So many that the fault leaves a trace: three full flushes, and enough behind a reader's pause."""
    match fault.kind:
        case Kind.BUFFER:
            return script.events_needed(fault.fault)
        case Kind.SLOW_READ:
            return math.ceil((fault.seconds + 2) / BULKY_PACE_S)
        case Kind.BLACK_HOLE | Kind.LOSS | Kind.RATE:
            return math.ceil((fault.seconds + 3) / script.MEAN_PACE_S)
        case _:
            return 0


def _placed(draw: random.Random, fault: Planted, spoken: Spoken, *, is_second: bool = False) -> Planted:
    """With the character at which it begins, the first of an event: a hop that splits events passes that on first. A
    cut has its time instead."""
    share = draw.uniform(0.62, 0.8) if is_second else draw.uniform(0.3, 0.6)
    if fault.kind is Kind.CUT:
        return replace(fault, seconds=round(share * spoken.script.events[-1].at_s + 0.1, 3))
    if fault.kind is Kind.BUFFER:
        return replace(fault, at_chars=spoken.reached[script.OPENING_EVENTS - 1] + 1)
    index = bisect_left(spoken.reached, max(1, int(share * spoken.length)))
    return replace(fault, at_chars=spoken.reached[index - 1] + 1)


def _when(fault: Planted, spoken: Spoken) -> int:
    """The character at which it is felt."""
    match fault.kind:
        case Kind.SLOW_FIRST:
            return 0
        case Kind.END_HOLD:
            return spoken.length + 1
        case _:
            return fault.at_chars
