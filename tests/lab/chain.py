"""A path of three to five hops: what stands where, who stamps what passes there, and whose clock is wrong."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Self

from otel.demo.faults import CLIENT, GATEWAY, PROXY, WORKER
from otel.hop import EGRESS
from tests.lab.middles import Part

ROUTER: Final = "router"
FILTER: Final = "filter"
NAMES: Final = {
    3: (WORKER, PROXY, GATEWAY),
    4: (WORKER, ROUTER, PROXY, GATEWAY),
    5: (WORKER, ROUTER, PROXY, FILTER, GATEWAY),
}
"""The hops of a path by how many there are, source first."""


class Tap(StrEnum):
    """Where a hop's sidecar stands."""

    NONE = "none"
    INGRESS = "ingress"
    BOTH = "ingress+egress"


@dataclass(frozen=True, slots=True)
class Place:
    """One hop. skew_s and drift_ppm: how far its sidecar's clocks are wrong, and how fast they run away."""

    name: str
    part: Part
    tap: Tap = Tap.INGRESS
    skew_s: float = 0.0
    drift_ppm: float = 0.0

    @property
    def taps(self) -> tuple[str, ...]:
        """The names of its taps, source first."""
        ingress = () if self.tap is Tap.NONE else (self.name,)
        return (self.name + EGRESS, *ingress) if self.tap is Tap.BOTH else ingress


@dataclass(frozen=True, slots=True)
class Links:
    """Real links between the hops, and to the reader. delays_s: of each, one way, source's side first.

    receive_bytes: the largest receive buffer of any socket, None for the kernel's own choice.
    """

    delays_s: tuple[float, ...]
    receive_bytes: int | None = None

    def __str__(self) -> str:
        small = "" if self.receive_bytes is None else f", at most {self.receive_bytes} bytes received"
        return f"links of {' '.join(f'{delay_s * 1e3:g}' for delay_s in self.delays_s)} ms{small}"


@dataclass(frozen=True, slots=True)
class Chain:
    """One running path, source first. is_exact: sidecars keep every position. has_small_buffers: our apps do.

    links: each hop is on a host of its own, and has a sidecar; None is one host for all.
    """

    hops: tuple[Place, ...]
    is_exact: bool = False
    has_small_buffers: bool = False
    links: Links | None = None

    @classmethod
    def of(cls, *middles: Part, worker: Part = Part.SCRIPTED) -> Self:
        """The plainest chain: a worker, and behind it these middles."""
        parts = (worker, *middles)
        return cls(tuple(Place(name, part) for name, part in zip(NAMES[len(parts)], parts, strict=True)))

    def without(self, *names: str) -> Self:
        """The same chain without the sidecars of these hops."""
        return replace(self, hops=tuple(replace(p, tap=Tap.NONE) if p.name in names else p for p in self.hops))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(place.name for place in self.hops)

    @property
    def taps(self) -> tuple[str, ...]:
        """Every tap, source first."""
        return tuple(tap for place in self.hops for tap in place.taps)

    @property
    def tapped(self) -> tuple[str, ...]:
        """The hops that have a sidecar."""
        return tuple(place.name for place in self.hops if place.tap is not Tap.NONE)

    def place(self, name: str) -> Place:
        return next(place for place in self.hops if place.name == name)

    def before(self, name: str) -> str:
        """Whom this hop, or the client, asks."""
        names = (*self.names, CLIENT)
        return names[names.index(name) - 1]

    def __str__(self) -> str:
        words = [" <- ".join(f"{place.name}{_marks(place)}" for place in self.hops)]
        words += ["small buffers"] if self.has_small_buffers else []
        words += [str(self.links)] if self.links else []
        return ", ".join([*words, "exact" if self.is_exact else "quantised"])


def _marks(place: Place) -> str:
    marks = [] if place.part in {Part.SCRIPTED, Part.APP} else [str(place.part)]
    marks += [] if place.tap is Tap.INGRESS else ["no tap" if place.tap is Tap.NONE else "two taps"]
    return f" ({', '.join(marks)})" if marks else ""


@dataclass(frozen=True, slots=True)
class Stretch:
    """What lies between two neighbouring points where something was observed.

    upstream: the tap it begins at, None for the source's end. downstream: the tap it ends at, or `client`.
    apps: hops whose app lies in it; links: what their links, or the reader's, lead to. has_reader: the reader, too.
    """

    upstream: str | None
    downstream: str
    apps: tuple[str, ...]
    links: tuple[str, ...]
    has_reader: bool = False

    @property
    def first_hop(self) -> str:
        """The hop that a verdict names for it; before an egress tap, which is behind its own app, that is another."""
        return self.apps[-1] if self._is_before_egress else self.downstream.removesuffix(EGRESS)

    @property
    def is_whole(self) -> bool:
        """Whether no more than one hop, or the reader, may have done what happened here, and a link is told from it."""
        return len(self.apps) + self.has_reader <= 1 and not self._is_before_egress

    @property
    def _is_before_egress(self) -> bool:
        """An app and the link behind it lie here: the tap between them is missing."""
        return bool(self.apps) and self.downstream.endswith(EGRESS)

    @property
    def label(self) -> str:
        """How the segment is called in a verdict."""
        return "source" if self.upstream is None else f"{self.upstream}>{self.downstream}"


def stretches(names: tuple[str, ...], taps: Collection[str]) -> tuple[Stretch, ...]:
    """A path of these hops, cut at these taps, source first."""
    made: list[Stretch] = []
    upstream: str | None = None
    apps: list[str] = []
    links: list[str] = []
    for name in names:
        if name != names[0]:
            links.append(name)
        for point in (name + EGRESS, "", name):
            if not point:
                apps.append(name)  # the app stands between what it asks and who asks it
            elif point in taps:
                made.append(Stretch(upstream, point, tuple(apps), tuple(links)))
                upstream, apps, links = point, [], []
    return (*made, Stretch(upstream, CLIENT, tuple(apps), (*links, CLIENT), has_reader=True))
