"""Which app buffers: all through the answer it lets go in pieces of what came to it evenly.

Many waits charged to one app are the teeth of a comb. Short answers and short holds show few teeth; what shows it there
is that nearly everything left in pieces: then the late first output and the held end are the same buffer's. One
release, or several of which none is like another, cannot be told from a stall.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from otel.decompose import HOLD_NS, Decomposition, Wait
from otel.lineup import Kind, Lineup, Segment
from otel.release import Hold, holds

LOOK_NS: Final = 100_000_000
"""Waits from here on are decomposed: a hop that holds for less than its threshold still shows its comb."""
TEETH: Final = 3
"""This many waits charged to one app are buffering."""
LIKE: Final = 0.35
"""Holds of one app are alike from this share of the longest on."""
EDGE: Final = 1.6
"""A late first output, or a held end, is a buffer's where it is at most so many times as long as its holds."""
NEARLY_ALL: Final = 0.9
"""Of the answer: two pieces that make up so much of it show as much as three others."""


@dataclass(frozen=True, slots=True)
class Comb:
    """What one app held. teeth_ns: its terms of waits between two deliveries, where they were long or most of the wait.

    holds: what it let go in one piece, in order.
    """

    teeth_ns: Sequence[int] = ()
    holds: Sequence[Hold] = ()

    def has_teeth_like(self, term_ns: int) -> bool:
        return sum(tooth > LIKE * term_ns for tooth in self.teeth_ns) >= TEETH

    def has_pieces_like(self, term_ns: int) -> bool:
        """Whether pieces that it held about as long make up the answer; the last of them is what was left."""
        like = [hold for hold in self.holds if hold.held_ns > LIKE * term_ns or hold.is_rest]
        is_long = any(EDGE * hold.held_ns > term_ns for hold in like)
        is_nearly_all = sum(hold.share for hold in like) >= NEARLY_ALL
        return is_long and (len(like) >= TEETH or (len(like) > 1 and is_nearly_all))

    def is_one_piece(self) -> bool:
        """Whether it let go once, and of nearly everything."""
        return len(self.holds) == 1 and self.holds[0].share >= NEARLY_ALL


def combs_of(lineup: Lineup, waits: Iterable[Decomposition]) -> Mapping[Segment, Comb]:
    """The combs of the apps that have a part in one of these waits that is worth a look."""
    teeth: dict[Segment, list[int]] = {}
    asked: set[Segment] = set()
    for wait in waits:
        apps = {s: term_ns for s, term_ns in wait.terms.items() if s.kind is Kind.BETWEEN and term_ns >= LOOK_NS}
        asked |= apps.keys()
        for segment, term_ns in apps.items() if wait.wait is Wait.GAP else ():
            if term_ns >= min(HOLD_NS, wait.gap_ns / 2):
                teeth.setdefault(segment, []).append(term_ns)
    is_whole = not lineup.is_partial and not lineup.rewriters and all(all(lane.is_whole) for lane in lineup.lanes)
    combs = {segment: Comb(found) for segment, found in teeth.items()}
    for n in range(1, len(lineup.lanes)):
        segment = lineup.before(n)
        if segment in asked and is_whole:
            found = holds(lineup.lanes[n - 1], lineup.lanes[n], is_same=lineup.same[n - 1])
            combs[segment] = Comb(teeth.get(segment, ()), found)
    return combs
