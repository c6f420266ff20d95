"""What is tried: chains and cases, drawn from a seed. Case n of a seed is the same, however many are run."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from otel.demo import faults, script
from otel.demo.faults import CLIENT, GATEWAY, HOPS, PROXY, WORKER, Fault
from tests.lab.shapes import EVENTS, Shape, answer

BLOCK: Final = 10
"""Cases that share one running chain: starting one takes as long as two cases."""
SKEW_S: Final = 3_600.0
"""Largest shift of a sidecar's clocks in seconds."""


class Part(StrEnum):
    """What a hop in the middle is."""

    APP = "app"
    REBUILDER = "rebuilder"
    NGINX = "nginx"
    NGINX_BUFFERING = "nginx-buffering"
    HAPROXY = "haproxy"


OURS: Final = frozenset({Part.APP, Part.REBUILDER})
"""Parts that are always there, and do what a request asks of them."""


class Kind(StrEnum):
    """What goes wrong. Those of the demo are told to the hop in the request; the lab itself does the others."""

    NONE = "none"
    STALL = "stall"
    SLOW_FIRST = "slow-first"
    CUT = "cut"
    BUFFER = "buffer"
    FREEZE = "freeze"
    SLOW_READ = "slow-read"
    SELF = "self"
    LEAVE = "leave"


TOLD: Final = frozenset({Kind.STALL, Kind.SLOW_FIRST, Kind.CUT, Kind.BUFFER, Kind.SLOW_READ})
"""Kinds that travel in the request's header."""
FREEZING: Final = frozenset({Kind.FREEZE, Kind.SELF})
"""Kinds that stop a process, and with it every other request."""
_WEIGHTS: Final = {
    Kind.NONE: 6,
    Kind.STALL: 4,
    Kind.SLOW_FIRST: 3,
    Kind.CUT: 2,
    Kind.BUFFER: 3,
    Kind.FREEZE: 2,
    Kind.SLOW_READ: 3,
    Kind.SELF: 2,
    Kind.LEAVE: 1,
}


@dataclass(frozen=True, slots=True)
class Chain:
    """One running path. skew: how far the clocks of each hop's sidecar are wrong in seconds.

    blind: the hop that has no sidecar, if any. is_exact: the sidecars keep every position.
    """

    gateway: Part = Part.APP
    proxy: Part = Part.APP
    skew: tuple[tuple[str, float], ...] = ()
    blind: str | None = None
    is_exact: bool = False

    @property
    def parts(self) -> dict[str, Part]:
        return {WORKER: Part.APP, PROXY: self.proxy, GATEWAY: self.gateway}

    @property
    def tapped(self) -> tuple[str, ...]:
        """The hops that have a sidecar, source first."""
        return tuple(hop for hop in HOPS if hop != self.blind)

    def __str__(self) -> str:
        words = [f"gateway {self.gateway}", f"proxy {self.proxy}"]
        words += [f"no tap at {self.blind}"] if self.blind else []
        return ", ".join([*words, "exact" if self.is_exact else "quantised"])


@dataclass(frozen=True, slots=True)
class Case:
    """One request. kind and hop say what is planted where, for how many seconds; NONE has neither."""

    number: int
    seed: int
    chain: Chain
    shape: Shape
    events: int
    kind: Kind = Kind.NONE
    hop: str | None = None
    seconds: float = 0.0

    @property
    def fault(self) -> Fault | None:
        """What the request's header says."""
        return Fault(self.hop, faults.Kind(self.kind), self.seconds) if self.hop and self.kind in TOLD else None

    @property
    def middle(self) -> int:
        return script.middle_of(self.events)

    def __str__(self) -> str:
        what = "nothing" if self.hop is None else f"{self.hop}:{self.kind}={self.seconds:g}"
        return f"{what} in {self.shape}"


def chain(seed: int, block: int, parts: Collection[Part]) -> Chain:
    """The chain of a block of cases: every second one has another part in it, an app where that is not there."""
    draw = random.Random(f"{seed} chain {block}")
    middles = [Part.APP, Part.APP]
    where, part = draw.randrange(2), draw.choice([part for part in Part if part is not Part.APP])
    if block % 2 and part in parts:
        middles[where] = part
    return Chain(
        gateway=middles[0],
        proxy=middles[1],
        skew=tuple((hop, round(draw.uniform(-SKEW_S, SKEW_S), 3)) for hop in HOPS),
        blind=draw.choice(HOPS) if draw.random() < 0.2 else None,
        is_exact=draw.random() < 0.3,
    )


def case(seed: int, number: int, parts: Collection[Part]) -> Case:
    """Case `number` of this seed."""
    within = chain(seed, number // BLOCK, parts)
    draw = random.Random(f"{seed} case {number}")
    kind = draw.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
    shape = draw.choice(list(Shape))
    own = draw.getrandbits(31)
    if kind in {Kind.BUFFER, Kind.SLOW_READ} | FREEZING:
        shape = Shape.STEADY  # the demo's scripts of these faults; a freeze within a pause could not be measured
    hops = _places(kind, within)
    if kind is Kind.NONE or not hops:
        return Case(number, own, within, shape, EVENTS[shape])
    hop = draw.choice(hops)
    seconds = round(_seconds(draw, kind, hop, shape), 3)
    events = EVENTS[shape]
    made = Case(number, own, within, shape, events, kind, hop, seconds)
    if kind is Kind.CUT:
        whole = answer(shape, request_id="", events=events, seed=own)
        seconds = round(draw.uniform(0.3, 0.8) * whole.events[-1].at_s, 3)
    elif made.fault is not None and shape is Shape.STEADY:
        events = max(events, script.events_needed(made.fault))
    return Case(number, own, within, shape, events, kind, hop, seconds)


def cases(seed: int, count: int, parts: Collection[Part]) -> list[Case]:
    return [case(seed, number, parts) for number in range(count)]


def _places(kind: Kind, within: Chain) -> list[str]:
    """Where this kind can be planted: a real part can be stopped, and not be told to misbehave."""
    match kind:
        case Kind.SLOW_READ | Kind.LEAVE:
            return [CLIENT]
        case Kind.SELF:
            return list(within.tapped)
        case Kind.FREEZE:
            return list(HOPS)
        case _:
            return [hop for hop in HOPS if within.parts[hop] in OURS]


def _seconds(draw: random.Random, kind: Kind, hop: str, shape: Shape) -> float:
    """How long: from what any reader feels to what makes a lab slow; small ones are the likelier."""
    match kind:
        case Kind.BUFFER:
            return draw.uniform(0.4, 0.7)
        case Kind.SLOW_FIRST if hop == WORKER:
            return draw.uniform(1.3, 2.5)
        case Kind.LEAVE:
            return 0.0
        case _:
            return 0.35 * 7.0 ** draw.random()
