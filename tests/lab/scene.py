"""One case as its reader and these taps saw it, and what the reader's stamps show of what was planted.

Nothing here asks the code under test: the worker's script says what would have come without a fault, and the reader
what arrived.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from otel.demo.answer import Answer
from otel.demo.faults import SLOW_FIRST_S, WORKER
from tests.lab.chain import Chain, Stretch, stretches
from tests.lab.draw import Case
from tests.lab.felt import FELT_S, PAUSE_S, Wait, waits
from tests.lab.middles import PARTS, Rewrites
from tests.lab.shapes import Spoken, longest_pause_s
from tests.lab.told import READING, STOPPING, Kind, Planted

QUIET_S: Final = 0.2
"""More than this, in seconds, no healthy answer is late on a machine that nobody else uses."""
MOMENT_S: Final = 0.2
"""A hop that waits for a few more events holds them for so long at most, in seconds; a wait of that is nobody's."""
RHYTHM: Final = 2.0
"""A pause of the source is shown when it is so many times as long as any other of the answer: what is shorter may be
its rhythm."""
TIMED: Final = frozenset({Kind.STALL, Kind.SLOW_FIRST, Kind.END_HOLD})
"""Faults of which it is known in which wait of the reader they are felt."""
RHYTHMIC: Final = frozenset({Kind.STALL, Kind.BUFFER, Kind.FREEZE, Kind.END_HOLD})
"""What at the source is told from its rhythm alone."""


@dataclass(frozen=True)
class Scene:
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

    @cached_property
    def is_in_steps(self) -> bool:
        """Whether events are found by their place in the text, and that is known only in steps."""
        parts = [PARTS[place.part] for place in self.chain.hops]
        return not self.chain.is_exact and any(Rewrites.COUNT in part.rewrites or part.holds for part in parts)

    def is_placed(self, fault: Planted) -> bool:
        """Whether it is known in which wait it is felt; a hop that holds texts may keep the last of them to the end."""
        return fault.kind in TIMED and not (self.holding and fault.kind is Kind.END_HOLD)

    def where(self, fault: Planted) -> list[Wait]:
        """The waits in which it may be felt."""
        return [w for w in self.felt if not self.is_placed(fault) or w.holds(fault, self.spoken.length)]

    def around_app(self, name: str) -> Stretch:
        return next(each for each in self.stretches if name in each.apps)

    def around_link(self, to: str) -> Stretch:
        return next(each for each in self.stretches if to in each.links)


def felt_as(scene: Scene, fault: Planted) -> set[Kind]:
    """In what kind of wait the reader may have felt one hold: where its character came, or wherever it was late."""
    length = scene.spoken.length
    waits_felt = [wait for wait in scene.felt if wait.added_s > QUIET_S or wait.holds(fault, length)]
    return {
        Kind.SLOW_FIRST if wait.after == 0 else Kind.END_HOLD if wait.until > length else Kind.STALL
        for wait in waits_felt
    }


def is_shown(scene: Scene, fault: Planted, *, at_source: bool) -> bool:
    """Whether the reader's stamps show the fault; at_source: no tap tells its hop from the source, and so it has the
    source's rhythm."""
    is_told_by_waits = fault.kind not in {Kind.CUT, *READING}
    if is_told_by_waits and (scene.is_held or _is_kept(scene, fault)) and not _stands_out(scene, fault):
        return False
    return _is_felt(scene, fault, at_source=at_source)


def _is_kept(scene: Scene, fault: Planted) -> bool:
    """Whether a hop keeps texts for as long as another fault, of the source, keeps it waiting for more of them."""
    return bool(scene.holding) and any(each.hop == WORKER for each in scene.case.faults if each is not fault)


def _stands_out(scene: Scene, fault: Planted) -> bool:
    """Whether a wait in which the fault may lie is longer than all that a hop's holding alone made of this answer; of
    an answer that came in one piece nobody can say."""
    longest = max(scene.where(fault), key=lambda wait: wait.added_s, default=None)
    held = [wait for wait in _held(scene) if wait is not longest]
    between = [wait for wait in held if wait.after > 0 and wait.until <= scene.spoken.length]
    if longest is None or not any(wait.wait_s >= PAUSE_S for wait in between):
        return False
    return longest.added_s - max(wait.added_s for wait in held) > FELT_S


def _held(scene: Scene) -> list[Wait]:
    """The waits in which none of the faults lies of which it is known where they do."""
    placed = [each for each in scene.case.faults if scene.is_placed(each)]
    return [wait for wait in scene.felt if not any(wait.holds(each, scene.spoken.length) for each in placed)]


def held_s(scene: Scene) -> float:
    """The longest that a hop's holding alone made the reader wait: what was planted may lie in the longest wait, and a
    source that sends many events at a time in all of them."""
    buffers = [fault for fault in scene.case.faults if fault.kind is Kind.BUFFER]
    if not scene.is_held or any(scene.around_app(fault.hop).upstream is None for fault in buffers):
        return 0.0
    added_s = sorted((wait.added_s for wait in _held(scene)), reverse=True)
    is_loose = any(not scene.is_placed(fault) for fault in scene.case.faults)
    return max(added_s[is_loose:], default=0.0)


def _is_felt(scene: Scene, fault: Planted, *, at_source: bool) -> bool:
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
        case _ if at_source and fault.kind in RHYTHMIC:
            felt_s = max((wait.wait_s for wait in where if _late_s(scene, wait) > FELT_S), default=0.0)
            return felt_s > RHYTHM * longest_pause_s(spoken)
        case _:
            return max((_late_s(scene, wait) for wait in where), default=0.0) > FELT_S


def _late_s(scene: Scene, wait: Wait) -> float:
    """What neither the script explains of a wait, nor that a hop makes one event of several."""
    return wait.added_s - (wait.gathered_s if scene.holding else 0.0)


def excess_s(scene: Scene) -> float | None:
    """The longest that nobody planted: the machine had other work."""
    faults, length = scene.case.faults, scene.spoken.length
    if any(fault.kind not in {*TIMED, *STOPPING, Kind.BUFFER, Kind.CUT, Kind.LEAVE} for fault in faults):
        return None
    left = [wait.added_s - sum(f.seconds for f in faults if _explains(f, wait, length)) for wait in scene.felt]
    if scene.case.kinds & STOPPING and left:
        left[left.index(max(left))] -= max(fault.seconds for fault in faults)  # wherever it was, it was felt once
    return max(left, default=0.0)


def _explains(fault: Planted, wait: Wait, length: int) -> bool:
    return fault.kind is Kind.BUFFER or (fault.kind in TIMED and wait.holds(fault, length))
