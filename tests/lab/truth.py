"""What is true of a case: who may be named for each of its faults, and what the reader's stamps show of them.

Nothing here asks the code under test: the worker's script says what would have come without a fault, the fault says
what was added, the chain says which taps could see it, and the reader says what arrived.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from otel.demo.answer import Answer
from otel.demo.faults import CLIENT, SLOW_FIRST_S, WORKER
from otel.hop import EGRESS
from tests.lab.chain import Chain, Stretch, stretches
from tests.lab.draw import Case
from tests.lab.felt import FELT_S, Wait, has_rhythm, waits
from tests.lab.middles import PARTS
from tests.lab.shapes import Spoken, longest_pause_s
from tests.lab.told import LINKING, READING, STOPPING, Kind, Planted, first_event, planted

QUIET_S: Final = 0.2
"""More than this, in seconds, no healthy answer is late on a machine that nobody else uses."""
MOMENT_S: Final = 0.2
"""A hop that waits for a few more events holds them for so long at most, in seconds; a wait of that is nobody's."""
RHYTHM: Final = 2.0
"""A pause of the source is shown when it is so many times as long as any other of the answer: what is shorter may be
its rhythm."""

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
_TIMED: Final = frozenset({Kind.STALL, Kind.SLOW_FIRST, Kind.END_HOLD})
"""Faults of which it is known in which wait of the reader they are felt."""


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
    it is shown only where it stands out from all other waits of the answer.
    """

    faults: tuple[Known, ...]
    holders: frozenset[Blame]
    late_s: float
    excess_s: float | None
    is_held: bool

    @property
    def blames(self) -> frozenset[Blame]:
        return self.holders.union(*(known.blames for known in self.faults))


_MOVED: Final = frozenset({Kind.STALL, Kind.FREEZE, Kind.SLOW_FIRST, Kind.END_HOLD})
"""One hold each, which a hop that keeps texts together makes one before the first of them, or before the end."""
_RHYTHMIC: Final = frozenset({Kind.STALL, Kind.BUFFER, Kind.FREEZE, Kind.END_HOLD})
"""What at the source is told from its rhythm alone."""


def truth(case: Case, seen: Answer, taps: Collection[str] | None = None) -> Truth:
    """What is true of the case, seen by these taps of its chain; None is all of them.

    `client` among them is the reader's own record.
    """
    scene = _Scene(case, seen, frozenset(case.chain.taps if taps is None else taps))
    known = tuple(_known(scene, fault) for fault in case.faults)
    return Truth(
        faults=known if not scene.is_held else tuple(replace(each, segment=None, term_s=None) for each in known),
        holders=frozenset(b for name in scene.holding for b in _blames_of(scene.around_app(name), _RELEASES)),
        late_s=max((wait.added_s for wait in scene.felt), default=0.0),
        excess_s=None if scene.is_held else _excess(scene),
        is_held=scene.is_held,
    )


@dataclass(frozen=True)
class _Scene:
    """One case as these taps saw it, and what follows from that."""

    case: Case
    seen: Answer
    taps: frozenset[str]

    @property
    def chain(self) -> Chain:
        return self.case.chain

    @cached_property
    def spoken(self) -> Spoken:
        return self.case.told.calm()

    @cached_property
    def felt(self) -> list[Wait]:
        return waits(self.seen, self.spoken)

    @cached_property
    def stretches(self) -> tuple[Stretch, ...]:
        return stretches(self.chain.names, self.taps)

    @cached_property
    def holding(self) -> list[str]:
        """Hops that keep texts until others come, or the end."""
        return [place.name for place in self.chain.hops if PARTS[place.part].holds is not None]

    @cached_property
    def is_held(self) -> bool:
        """Whether one of them holds what nobody would call a moment."""
        holds = [PARTS[self.chain.place(name).part].holds for name in self.holding]
        pause_s = longest_pause_s(self.spoken)
        return any(hold is not None and (hold.texts is None or hold.texts * pause_s > MOMENT_S) for hold in holds)

    def is_placed(self, fault: Planted) -> bool:
        """Whether it is known in which wait it is felt; a hop that holds texts may keep the last of them to the end."""
        return fault.kind in _TIMED and not (self.holding and fault.kind is Kind.END_HOLD)

    def where(self, fault: Planted) -> list[Wait]:
        """The waits in which it may be felt."""
        return [w for w in self.felt if not self.is_placed(fault) or w.holds(fault, self.spoken.length)]

    def around_app(self, name: str) -> Stretch:
        return next(each for each in self.stretches if name in each.apps)

    def around_link(self, to: str) -> Stretch:
        return next(each for each in self.stretches if to in each.links)


def _known(scene: _Scene, fault: Planted) -> Known:
    stretch = _stretch(scene, fault)
    at_source = stretch is not None and stretch.upstream is None
    is_beyond = stretch is scene.stretches[-1] and not stretch.is_whole and CLIENT not in scene.taps
    is_rhythmic = at_source and fault.kind in _RHYTHMIC
    label, term_s = _term(scene, fault, stretch)
    blames = _blames(fault, stretch, at_source=at_source)
    if scene.holding and stretch is not None and fault.kind in _MOVED:
        for kind in _felt_as(scene, fault):
            blames |= _blames(replace(fault, kind=kind), stretch, at_source=at_source)
    return Known(
        fault,
        frozenset(blames),
        is_shown=_is_shown(scene, fault, at_source=at_source),
        is_tellable=not is_beyond and (has_rhythm(scene.spoken) or not is_rhythmic),
        segment=label,
        term_s=term_s,
        slack_s=_slack(scene, fault),
    )


# ---------------------------------------------------------------------------------- where it lies


def _stretch(scene: _Scene, fault: Planted) -> Stretch | None:
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


# ------------------------------------------------------------------------ what the reader's stamps show


def _felt_as(scene: _Scene, fault: Planted) -> set[Kind]:
    """In what kind of wait the reader may have felt one hold: where its character came, or wherever it was late."""
    length = scene.spoken.length
    waits_felt = [wait for wait in scene.felt if wait.added_s > QUIET_S or wait.holds(fault, length)]
    return {
        Kind.SLOW_FIRST if wait.after == 0 else Kind.END_HOLD if wait.until > length else Kind.STALL
        for wait in waits_felt
    }


def _is_shown(scene: _Scene, fault: Planted, *, at_source: bool) -> bool:
    is_told_by_waits = fault.kind not in {Kind.CUT, *READING}
    if is_told_by_waits and scene.is_held and not _stands_out(scene, fault):
        return False
    return _is_felt(scene, fault, at_source=at_source)


def _stands_out(scene: _Scene, fault: Planted) -> bool:
    """Whether a wait in which the fault may lie is longer than all that a hop's holding alone made of this answer; of
    an answer that came in one piece nobody can say."""
    longest = max(scene.where(fault), key=lambda wait: wait.added_s, default=None)
    placed = [each for each in scene.case.faults if scene.is_placed(each)]
    held = [
        w for w in scene.felt if w is not longest and not any(w.holds(each, scene.spoken.length) for each in placed)
    ]
    if longest is None or not any(wait.after > 0 and wait.until <= scene.spoken.length for wait in held):
        return False
    return longest.added_s - max(wait.added_s for wait in held) > FELT_S


def _is_felt(scene: _Scene, fault: Planted, *, at_source: bool) -> bool:
    """Whether the reader's stamps show the fault. A hop that no tap tells from the source has the source's rhythm."""
    seen, spoken = scene.seen, scene.spoken
    where = scene.where(fault)
    match fault.kind:
        case Kind.CUT:
            return not (seen.is_whole and seen.is_done)
        case Kind.LEAVE:
            return True
        case Kind.SLOW_READ:
            return (seen.held_off_s or 0.0) > FELT_S
        case Kind.SLOW_FIRST if at_source:
            return (seen.first_text_s or 0.0) > SLOW_FIRST_S + FELT_S
        case Kind.BUFFER if at_source:
            return False  # a source that sends many events at a time may do so on purpose
        case _ if at_source and fault.kind in _RHYTHMIC:
            felt_s = max((wait.wait_s for wait in where if wait.added_s > FELT_S), default=0.0)
            return felt_s > RHYTHM * longest_pause_s(spoken)
        case _:
            return max((wait.added_s for wait in where), default=0.0) > FELT_S


def _excess(scene: _Scene) -> float | None:
    """The longest that nobody planted: the machine had other work."""
    faults, length = scene.case.faults, scene.spoken.length
    if any(fault.kind not in {*_TIMED, *STOPPING, Kind.BUFFER, Kind.CUT, Kind.LEAVE} for fault in faults):
        return None
    left = [wait.added_s - sum(f.seconds for f in faults if _explains(f, wait, length)) for wait in scene.felt]
    if scene.case.kinds & STOPPING and left:
        left[left.index(max(left))] -= max(fault.seconds for fault in faults)  # wherever it was, it was felt once
    return max(left, default=0.0)


def _explains(fault: Planted, wait: Wait, length: int) -> bool:
    return fault.kind is Kind.BUFFER or (fault.kind in _TIMED and wait.holds(fault, length))


def _slack(scene: _Scene, fault: Planted) -> float:
    """What else lies in the planted segment or takes part of it: a pause of the source within a hold that began by the
    clock, and of a first event the ways over the link before the hop, to connect and to ask."""
    chain = scene.chain
    if fault.kind in {Kind.BUFFER, *STOPPING}:
        return longest_pause_s(scene.spoken)
    if fault.kind is not Kind.SLOW_FIRST or chain.links is None or fault.hop == chain.names[0]:
        return 0.0
    return 4 * chain.links.delays_s[chain.names.index(chain.before(fault.hop))]


def _term(scene: _Scene, fault: Planted, stretch: Stretch | None) -> tuple[str | None, float | None]:
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
