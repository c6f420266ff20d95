"""What is true of a case: who may be named for each of its faults, and what each added.

Nothing here asks the code under test: the fault says what was added, and the chain says which taps could see it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from otel.demo.answer import Answer
from otel.demo.faults import CLIENT, WORKER
from otel.hop import EGRESS
from tests.lab.chain import Stretch
from tests.lab.draw import Case
from tests.lab.felt import FELT_S, has_rhythm
from tests.lab.scene import RHYTHMIC, Scene, excess_s, felt_as, held_s, is_shown
from tests.lab.shapes import longest_pause_s
from tests.lab.told import LINKING, READING, STOPPING, Kind, Planted, first_event, planted

_CAUSES: Final = {
    Kind.STALL: ({"app_stall"}, {"source_stall"}),
    Kind.SLOW_FIRST: ({"slow_first_event"}, {"slow_first_event"}),
    Kind.END_HOLD: ({"end_hold"}, {"end_hold"}),
    Kind.CUT: ({"truncated"}, {"truncated"}),
    Kind.BUFFER: ({"buffering", "app_stall"}, {"source_stall"}),
    Kind.FREEZE: ({"app_stall"}, {"source_stall"}),
    Kind.SLOW_READ: ({"slow_reader"}, set[str]()),
    Kind.LEAVE: ({"client_disconnect"}, set[str]()),
    Kind.BLACK_HOLE: ({"network"}, set[str]()),
    Kind.LOSS: ({"network"}, set[str]()),
    Kind.RATE: ({"network"}, set[str]()),
}
"""The causes of each kind at a hop, a link or the reader, and at the source."""
_RELEASES: Final = frozenset({"buffering", "app_stall", "slow_first_event", "end_hold"})
"""What a hop that always buffers is rightly called: short answers see one or two releases only."""
_MOVED: Final = frozenset({Kind.STALL, Kind.FREEZE, Kind.SLOW_FIRST, Kind.END_HOLD})
"""One hold each, which a hop that keeps texts together makes one before the first of them, or before the end."""


@dataclass(frozen=True, slots=True)
class Blame:
    """One right answer. cause None: several lie in the segment, and no cause within it can be told."""

    hop: str
    cause: str | None

    def fits(self, hop: str, cause: str) -> bool:
        return self.hop == hop and self.cause in {None, cause}


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one fault.

    blames: any of them is right. is_shown: the reader's stamps show it. is_tellable: there is a tap that can tell it;
    where not, to say that it cannot be told is right. segment: the label of its term, and term_s what it adds in
    seconds, None where that is not known exactly; slack_s: how much of that may belong to what is around it.
    """

    fault: Planted
    blames: frozenset[Blame]
    is_shown: bool
    is_tellable: bool
    segment: str | None = None
    term_s: float | None = None
    slack_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Truth:
    """All that is known of a case. holders: who may be named for hops that always buffer.

    late_s: what the script does not explain of the reader's longest wait. excess_s: the most that no fault explains
    either, None where that is not known. is_held: a hop holds so much that what was planted may lie hidden in it: then
    it is shown only where it stands out from all other waits of the answer. held_s: the longest wait that its holding
    alone made. is_observed: no hop without a tap stands between the last one and the reader.
    """

    faults: tuple[Known, ...]
    holders: frozenset[Blame]
    late_s: float
    excess_s: float | None
    is_held: bool
    held_s: float
    is_observed: bool

    @property
    def blames(self) -> frozenset[Blame]:
        return self.holders.union(*(known.blames for known in self.faults))


def truth(case: Case, seen: Answer, taps: Collection[str] | None = None) -> Truth:
    """What is true of the case, seen by these taps of its chain; None is all of them.

    `client` among them is the reader's own record.
    """
    scene = Scene(case, seen, frozenset(case.chain.taps if taps is None else taps))
    known = tuple(_known(scene, fault) for fault in case.faults)
    return Truth(
        faults=known if not scene.is_held else tuple(replace(each, segment=None, term_s=None) for each in known),
        holders=frozenset(b for name in scene.holding for b in _blames_of(scene.around_app(name), _RELEASES)),
        late_s=max((wait.added_s for wait in scene.felt), default=0.0),
        excess_s=None if scene.is_held else excess_s(scene),
        is_held=scene.is_held,
        held_s=held_s(scene),
        is_observed=scene.stretches[-1].is_whole,
    )


def _known(scene: Scene, fault: Planted) -> Known:
    stretch = _stretch(scene, fault)
    at_source = stretch is not None and stretch.upstream is None
    is_beyond = stretch is scene.stretches[-1] and not stretch.is_whole and CLIENT not in scene.taps
    is_rhythmic = at_source and fault.kind in RHYTHMIC
    label, term_s = _term(scene, fault, stretch)
    blames = _blames(fault, stretch, at_source=at_source)
    if scene.holding and stretch is not None and fault.kind in _MOVED:
        for kind in felt_as(scene, fault):
            blames |= _blames(replace(fault, kind=kind), stretch, at_source=at_source)
    return Known(
        fault,
        frozenset(blames),
        is_shown=is_shown(scene, fault, at_source=at_source),
        is_tellable=not is_beyond and (has_rhythm(scene.spoken) or not is_rhythmic),
        segment=label,
        term_s=term_s,
        slack_s=_slack(scene, fault),
    )


# ---------------------------------------------------------------------------------- where it lies


def _stretch(scene: Scene, fault: Planted) -> Stretch | None:
    """The stretch between two taps in which it happened; None where a sidecar itself did it and can say so."""
    if fault.kind in READING:
        return scene.stretches[-1]
    if fault.kind in LINKING:
        return scene.around_link(fault.hop)
    if fault.kind is not Kind.SELF:
        return scene.around_app(fault.hop)
    if fault.hop in scene.taps or fault.hop + EGRESS in scene.taps:
        return None
    names = scene.chain.names
    return scene.around_link((*names, CLIENT)[names.index(fault.hop) + 1])


def _blames(fault: Planted, stretch: Stretch | None, *, at_source: bool) -> set[Blame]:
    if stretch is None:
        return {Blame(fault.hop, "self")}
    if fault.kind is Kind.SELF:
        return {Blame(stretch.first_hop, None)}
    return _blames_of(stretch, _CAUSES[fault.kind][at_source])


def _blames_of(stretch: Stretch, causes: Collection[str]) -> set[Blame]:
    """Where a tap is missing, the segment that hides it, and any cause."""
    if not stretch.is_whole:
        return {Blame(stretch.first_hop, None)}
    return {Blame(stretch.first_hop, cause) for cause in causes}


# ------------------------------------------------------------------------------------ its seconds


def _slack(scene: Scene, fault: Planted) -> float:
    """What else lies in the planted segment or takes part of it: a pause of the source within a hold that began by the
    clock, or beside one where positions are in steps; what a reader waits until the sender has noticed that it reads
    again; and of a first event the ways over the link before the hop, to connect and to ask."""
    chain = scene.chain
    if fault.kind in {Kind.BUFFER, *STOPPING} or (fault.kind is Kind.STALL and scene.is_in_steps):
        return longest_pause_s(scene.spoken)
    if fault.kind is Kind.SLOW_READ:
        return max(0.0, scene.seen.longest_gap_s - fault.seconds)
    if fault.kind is not Kind.SLOW_FIRST or chain.links is None or fault.hop == chain.names[0]:
        return 0.0
    return 4 * chain.links.delays_s[chain.names.index(chain.before(fault.hop))]


def _term(scene: Scene, fault: Planted, stretch: Stretch | None) -> tuple[str | None, float | None]:
    """The label of the planted segment, and what it adds in seconds."""
    spoken = scene.spoken
    if stretch is None:
        return f"self:{fault.hop}", fault.seconds
    if not stretch.is_whole or fault.kind is Kind.SELF:
        return None, None
    match fault.kind:
        case Kind.STALL if fault.hop == WORKER:
            index = first_event(spoken, fault)
            due = planted(spoken.script, fault, index=index).events
            return stretch.label, due[index].at_s - due[index - 1].at_s
        case Kind.SLOW_FIRST if spoken.script.events[spoken.texts[0]].at_s > FELT_S:
            return None, None  # thoughts go before the text, and take up part of it
        case Kind.SLOW_READ if scene.chain.links is not None:
            return None, None  # a window that opens again is noticed when the sender next asks
        case Kind.STALL | Kind.SLOW_FIRST | Kind.END_HOLD | Kind.BUFFER | Kind.FREEZE | Kind.SLOW_READ:
            return stretch.label, fault.seconds
        case _:
            return None, None
