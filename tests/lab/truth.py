"""What is true of a case, what its reader's own stamps show of it, and the mark that a verdict gets.

Nothing here asks the code under test: the worker's script says what would have come without the fault, the fault says
what was added, and the reader says what arrived.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final

from otel.demo import check
from otel.demo.answer import Answer
from otel.demo.check import SUM_LIMIT_S, TERM_LIMIT_S, Comparison
from otel.demo.faults import CLIENT, GATEWAY, HOPS, PROXY, SLOW_FIRST_S, WORKER
from otel.demo.script import Script
from tests.lab.draw import Case, Kind, Part
from tests.lab.shapes import answer, longest_pause_s, texts_s

FELT_S: Final = 0.3
"""What a reader must wait longer than without the fault, in seconds, for the fault to be one that its stamps show: the
floor of verdicts and the noise of a busy machine."""
CONFIDENT: Final = 0.8
"""From here on a wrong verdict is an accusation."""
RHYTHM: Final = 2.0
"""A pause of the source is shown when it is so many times as long as any other of the answer: what is shorter may be
its rhythm."""
HEALTHY: Final = "healthy"
INCONCLUSIVE: Final = "inconclusive"


class Mark(StrEnum):
    """How a verdict compares with what is known."""

    RIGHT = "right"
    HEALTHY = "healthy"
    UNFELT = "not felt"
    BEYOND = "beyond"
    DISTURBED = "disturbed"
    INCONCLUSIVE = "inconclusive"
    MISSED = "missed"
    SECOND = "second"
    WRONG_CAUSE = "wrong cause"
    WRONG_HOP = "wrong hop"
    ACCUSED = "accused"


MEANING: Final = {
    Mark.RIGHT: "cause and hop are those planted",
    Mark.HEALTHY: "nothing was planted, nobody was named",
    Mark.UNFELT: "the reader's stamps show no fault, nobody was named",
    Mark.BEYOND: "behind the last tap, and the verdict says that it saw no delivery",
    Mark.DISTURBED: "nothing was planted, yet the reader waited: the machine was busy",
    Mark.INCONCLUSIVE: "cannot tell",
    Mark.MISSED: "called healthy, though the reader's stamps show the fault",
    Mark.SECOND: "another was named first, and the planted one beside it",
    Mark.WRONG_CAUSE: "the planted hop, another cause",
    Mark.WRONG_HOP: "another hop",
    Mark.ACCUSED: "nothing was planted, the reader's stamps show nothing, and somebody was named",
}
WRONG: Final = frozenset({Mark.MISSED, Mark.SECOND, Mark.WRONG_CAUSE, Mark.WRONG_HOP, Mark.ACCUSED})
_CAUSES: Final = {
    Kind.STALL: ("app_stall", "source_stall"),
    Kind.SLOW_FIRST: ("slow_first_event", "slow_first_event"),
    Kind.CUT: ("truncated", "truncated"),
    Kind.BUFFER: ("buffering", "source_stall"),
    Kind.FREEZE: ("app_stall", "source_stall"),
    Kind.SELF: ("self", "self"),
    Kind.SLOW_READ: ("slow_reader", ""),
    Kind.LEAVE: ("client_disconnect", ""),
}
"""The cause of each kind at a hop or the client, and at the source."""
_RELEASES: Final = frozenset({"buffering", "app_stall", "slow_first_event", "end_hold"})
"""What a hop that buffers all of an answer is rightly called: short answers see one or two releases only."""


@dataclass(frozen=True, slots=True)
class Blame:
    """One right answer. cause None: the segment is merged, and no cause within it can be told."""

    hop: str
    cause: str | None


@dataclass(frozen=True, slots=True)
class Truth:
    """What is known of one case: who may be named, and what the reader saw of it.

    term_s: what the planted segment adds to the wait in seconds, and segment, how its label ends; None where the fault
    adds no delay that is known that exactly. is_shown: the reader's stamps show it. is_disturbed: they show more
    than the worker's script and the fault explain.
    """

    blames: frozenset[Blame]
    is_shown: bool
    is_disturbed: bool
    segment: str | None = None
    term_s: float | None = None


@dataclass(frozen=True, slots=True)
class Marked:
    """One verdict, marked. term and total compare its seconds with the planted ones and with the reader's."""

    case: Case
    mark: Mark
    named: str
    truth: str
    confidence: float
    term: Comparison | None
    total: Comparison | None

    @property
    def is_confidently_wrong(self) -> bool:
        return self.mark in WRONG and self.confidence >= CONFIDENT


def truth(case: Case, seen: Answer) -> Truth:
    """What is true of the case, and what its reader's stamps show."""
    calm = _script(case, is_calm=True)
    late_s = max([(seen.first_text_s or 0.0) - texts_s(calm)[0], *(added_s for _, added_s in _gaps(seen, calm))])
    buffers = [hop for hop, part in case.chain.parts.items() if part is Part.NGINX_BUFFERING]
    blames = {blame for hop in buffers for blame in _blames(case, hop, _RELEASES)}
    if case.hop is not None:
        kind = Kind.STALL if case.kind is Kind.FREEZE else case.kind
        causes = {_CAUSES[kind][case.hop == WORKER]}
        causes |= {"app_stall"} if kind is Kind.BUFFER and case.hop != WORKER else set()
        blames |= _blames(case, case.hop, frozenset(causes))
    segment, term_s = (None, None) if buffers or case.chain.blind else _term(case)
    return Truth(
        frozenset(blames),
        is_shown=_is_shown(case, seen, calm, late_s=late_s),
        is_disturbed=late_s > FELT_S,
        segment=segment,
        term_s=term_s,
    )


def mark(case: Case, verdict: Mapping[str, Any], seen: Answer) -> Marked:
    """The mark of a verdict, as the collector answered it."""
    known = truth(case, seen)
    named = Blame(verdict["first_hop"], verdict["cause"]) if verdict["status"] == "named" else None
    terms = verdict["contributions"]
    how = _mark(case, known, named, verdict)
    term = total = None
    if how is Mark.RIGHT and known.segment is not None and known.term_s is not None and terms:
        planted = [part["seconds"] for part in terms if part["segment"].endswith(known.segment)]
        term = Comparison(sum(planted), known.term_s, TERM_LIMIT_S)
    if how is Mark.RIGHT and terms and (waited_s := _waited(seen, verdict)) is not None:
        total = Comparison(sum(part["seconds"] for part in terms), waited_s, SUM_LIMIT_S)
    return Marked(
        case=case,
        mark=how,
        named=f"{named.cause} @ {named.hop}" if named else verdict["status"],
        truth=" or ".join(sorted(f"{blame.cause or 'any'} @ {blame.hop}" for blame in known.blames)) or HEALTHY,
        confidence=verdict["confidence"],
        term=term,
        total=total,
    )


def _mark(case: Case, known: Truth, named: Blame | None, verdict: Mapping[str, Any]) -> Mark:
    if named is None and verdict["status"] == INCONCLUSIVE:
        return Mark.INCONCLUSIVE
    if not known.blames:
        if named is None:
            return Mark.HEALTHY
        return Mark.DISTURBED if known.is_disturbed else Mark.ACCUSED
    if named is None:
        if _is_beyond(case) and verdict["observed_to"] == "our_kernel":
            return Mark.BEYOND
        return Mark.MISSED if known.is_shown else Mark.UNFELT
    if _fits(named, known.blames):
        return Mark.RIGHT
    if any(named.hop == blame.hop for blame in known.blames):
        return Mark.WRONG_CAUSE
    others = [Blame(other["first_hop"], other["cause"]) for other in verdict["others"]]
    return Mark.SECOND if any(_fits(other, known.blames) for other in others) else Mark.WRONG_HOP


def _fits(named: Blame, blames: frozenset[Blame]) -> bool:
    return named in blames or Blame(named.hop, None) in blames


def _is_beyond(case: Case) -> bool:
    """Whether the fault lies where no tap is: only the hop behind the last tap and the reader saw it."""
    return case.chain.blind == GATEWAY and case.hop in {GATEWAY, CLIENT, None}


def _blames(case: Case, hop: str, causes: frozenset[str]) -> set[Blame]:
    """Who may be named for what happened at this hop: where a tap is missing, the segment that hides it."""
    order = (*HOPS, CLIENT)
    blind = case.chain.blind
    if blind is None or case.kind is Kind.SELF:
        return {Blame(hop, cause) for cause in causes}
    merged = order[order.index(blind) + 1]
    if hop in {blind, merged}:
        return {Blame(merged, None)}
    return {Blame(hop, cause) for cause in causes}


def _is_shown(case: Case, seen: Answer, calm: Script, *, late_s: float) -> bool:
    """Whether the reader's stamps show the fault. A hop that no tap tells from the source has the source's rhythm."""
    at_source = case.hop == WORKER or (case.hop == PROXY and case.chain.blind == WORKER)
    match case.kind:
        case Kind.CUT:
            return not (seen.is_whole and seen.is_done)
        case Kind.LEAVE:
            return True
        case Kind.SLOW_READ:
            return (seen.held_off_s or 0.0) > FELT_S
        case Kind.SLOW_FIRST if at_source:
            return (seen.first_text_s or 0.0) > SLOW_FIRST_S + FELT_S
        case Kind.STALL | Kind.BUFFER | Kind.FREEZE if at_source:
            felt_s = max((gap_s for gap_s, added_s in _gaps(seen, calm) if added_s > FELT_S), default=0.0)
            return felt_s > RHYTHM * longest_pause_s(calm)
        case _:
            return late_s > FELT_S


def _gaps(seen: Answer, calm: Script) -> list[tuple[float, float]]:
    """The reader's waits between pieces of text, each with what it has more than without the fault, in seconds."""
    pairs = zip(pairwise(seen.texts_s), pairwise(texts_s(calm)), strict=False)  # what broke off has fewer
    return [(b - a, (b - a) - (d - c)) for (a, b), (c, d) in pairs]


def _term(case: Case) -> tuple[str | None, float | None]:
    """How the label of the planted segment ends, and what it adds in seconds."""
    at_source = case.hop == WORKER
    label = "source" if at_source else f">{case.hop}"
    match case.kind:
        case Kind.STALL if at_source:
            due = _script(case, is_calm=False).events
            return label, due[case.middle].at_s - due[case.middle - 1].at_s
        case Kind.SLOW_FIRST if texts_s(_script(case, is_calm=True))[0] > FELT_S:
            return None, None  # thoughts go before the text, and take up part of it
        case Kind.SELF:
            return f"self:{case.hop}", case.seconds
        case Kind.STALL | Kind.SLOW_FIRST | Kind.BUFFER | Kind.FREEZE | Kind.SLOW_READ:
            return label, case.seconds
        case _:
            return None, None


def _script(case: Case, *, is_calm: bool) -> Script:
    """What the worker sends; is_calm: without its own fault. A slow reader always has an answer made for it."""
    fault = case.fault if case.kind is Kind.SLOW_READ or (case.hop == WORKER and not is_calm) else None
    return answer(case.shape, request_id="", events=case.events, seed=case.seed, fault=fault)


def _waited(seen: Answer, verdict: Mapping[str, Any]) -> float | None:
    """The reader's own measurement of the wait that the verdict is about, of several the one that comes nearest: a
    stream has many gaps, and the verdict need not be about the longest; its first output may be a thought."""
    if verdict["wait"] == "first_event" and seen.first_text_s is not None:
        waits_s = [seen.receipts[0].at_s, seen.first_text_s]
    elif verdict["wait"] == "gap" and seen.held_off_s is None:
        waits_s = [later - earlier for earlier, later in pairwise(seen.texts_s)]
    else:
        return check.waited(seen, verdict["wait"])
    return min(waits_s, key=lambda wait_s: abs(wait_s - verdict["gap_s"]), default=None)
