"""The mark that a verdict gets, when it is known what is true."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from otel.align import LATE_ACK_NS
from otel.demo import check
from otel.demo.answer import Answer
from otel.demo.check import SUM_LIMIT_S, TERM_LIMIT_S, Comparison
from otel.demo.faults import CLIENT
from tests.lab.draw import Case
from tests.lab.felt import FELT_S, waits
from tests.lab.noise import EXPLAINS, Noise
from tests.lab.readers import Reader
from tests.lab.scene import QUIET_S
from tests.lab.told import LINKING, Kind
from tests.lab.truth import Known, Truth, truth

CONFIDENT: Final = 0.8
"""From here on a wrong verdict is an accusation."""
ASKING_S: Final = 0.05
"""What openai-python takes to make a request of a question."""
SAMPLED_S: Final = 0.1
"""How exactly a tap knows when a stopped reader's kernel had its last event: it asks ten times a second."""
LATE_S: Final = LATE_ACK_NS / 1e9
"""How late an acknowledgement may be, unseen: behind a slow link, that of the event before a wait, too."""
CALM: Final = Noise()
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
    HALF = "half"
    MISSED = "missed"
    TOO_SURE = "too sure"
    SECOND = "second"
    WRONG_CAUSE = "wrong cause"
    WRONG_HOP = "wrong hop"
    ACCUSED = "accused"


MEANING: Final = {
    Mark.RIGHT: "cause and hop are those planted; of two faults one is named first, and the other beside it",
    Mark.HEALTHY: "nothing was planted, nobody was named",
    Mark.UNFELT: "the reader's stamps show no fault, nobody was named",
    Mark.BEYOND: "no tap could tell it, and the verdict says so",
    Mark.DISTURBED: "somebody was named for a wait that the machine made, and whatever was planted is told, too",
    Mark.INCONCLUSIVE: "cannot tell",
    Mark.HALF: "of two faults that the reader's stamps show only one is told",
    Mark.MISSED: "called healthy, though the reader's stamps show the fault",
    Mark.TOO_SURE: "a segment that hides several hops, named as if it were one",
    Mark.SECOND: "another was named first, and the planted one beside it",
    Mark.WRONG_CAUSE: "the planted hop, another cause",
    Mark.WRONG_HOP: "another hop",
    Mark.ACCUSED: "nothing was planted, the reader's stamps show nothing, and somebody was named",
}
WRONG: Final = frozenset({Mark.MISSED, Mark.TOO_SURE, Mark.SECOND, Mark.WRONG_CAUSE, Mark.WRONG_HOP, Mark.ACCUSED})


@dataclass(frozen=True, slots=True)
class Said:
    """What a verdict says: who is named, and who beside. Pairs of hop and cause."""

    first: tuple[str, str] | None
    others: tuple[tuple[str, str], ...]

    @property
    def all(self) -> tuple[tuple[str, str], ...]:
        return (*(() if self.first is None else (self.first,)), *self.others)


@dataclass(frozen=True, slots=True)
class Marked:
    """One verdict, marked. term and total compare its seconds with the planted ones and with the reader's, where it is
    right and the machine was never late: what comes late to a sidecar or to the reader is none of their seconds.

    is_shown: the reader's stamps show a fault. late_s: what the script does not explain of the reader's longest wait.
    lag_s: how long the machine let a process wait meanwhile.
    """

    case: Case
    mark: Mark
    named: str
    truth: str
    confidence: float
    is_shown: bool
    late_s: float
    lag_s: float
    term: Comparison | None
    total: Comparison | None

    @property
    def is_calm(self) -> bool:
        """Nothing was planted, no hop holds what passes, and the reader's own stamps call the answer healthy."""
        return not self.case.faults and self.truth == HEALTHY and self.late_s <= FELT_S

    @property
    def is_confidently_wrong(self) -> bool:
        return self.mark in WRONG and self.confidence >= CONFIDENT


def mark(
    case: Case, verdict: Mapping[str, Any], seen: Answer, *, taps: Collection[str] | None = None, noise: Noise = CALM
) -> Marked:
    """The mark of a verdict, as the collector answers it. taps: those that it rests on, all where None."""
    known = truth(case, seen, taps)
    told = _told(verdict)
    is_noise = _is_noise(case, known, verdict, noise)
    how = _mark(known, told, verdict, is_noise=is_noise)
    named = verdict["status"] if told.first is None else f"{told.first[1]} @ {told.first[0]}"
    return Marked(
        case=case,
        mark=how,
        named=named,
        truth=" or ".join(sorted(f"{blame.cause or 'any'} @ {blame.hop}" for blame in known.blames)) or HEALTHY,
        confidence=verdict["confidence"],
        is_shown=any(each.is_shown for each in known.faults),
        late_s=known.late_s,
        lag_s=noise.lag_s,
        term=_term(known, verdict) if how is Mark.RIGHT and not noise.lag_s else None,
        total=_total(case, known, seen, verdict) if how is Mark.RIGHT and not noise.lag_s else None,
    )


def _told(verdict: Mapping[str, Any]) -> Said:
    first = (verdict["first_hop"], verdict["cause"]) if verdict["status"] == "named" else None
    return Said(first, tuple((other["first_hop"], other["cause"]) for other in verdict["others"]))


def _is_noise(case: Case, known: Truth, verdict: Mapping[str, Any], noise: Noise) -> bool:
    """Whether the named wait is one that the machine made: by the reader's stamps, or where those cannot tell, by the
    time that the processes it lies between waited for a core."""
    named_s = max((part["seconds"] for part in verdict["contributions"]), default=0.0)
    if known.excess_s is not None:
        return known.excess_s > max(QUIET_S, EXPLAINS * named_s) and named_s > 0
    return noise.has_made(verdict, case.chain)


def _mark(known: Truth, told: Said, verdict: Mapping[str, Any], *, is_noise: bool) -> Mark:
    shown = [each for each in known.faults if each.is_shown]
    to_tell = [each for each in shown if each.is_tellable]
    if told.first is None:
        return _mark_of_nobody(known, shown, verdict)
    if fitting := [blame for blame in known.blames if blame.fits(*told.first)]:
        if verdict["confidence"] >= CONFIDENT and all(blame.cause is None for blame in fitting):
            return Mark.TOO_SURE
        return Mark.RIGHT if all(_is_told(known, each, told) for each in to_tell) else Mark.HALF
    if is_noise and all(_is_told(known, each, told) for each in to_tell):
        return Mark.DISTURBED
    if not known.blames:
        return Mark.ACCUSED
    if any(told.first[0] == blame.hop for blame in known.blames):
        return Mark.WRONG_CAUSE
    return Mark.SECOND if any(_is_told(known, each, told) for each in known.faults) else Mark.WRONG_HOP


def _mark_of_nobody(known: Truth, shown: list[Known], verdict: Mapping[str, Any]) -> Mark:
    is_unsure = verdict["status"] == INCONCLUSIVE
    if shown and all(not each.is_tellable for each in shown):
        is_said = is_unsure or verdict["observed_to"] == "our_kernel"
        return Mark.BEYOND if is_said else Mark.MISSED
    if is_unsure:
        return Mark.INCONCLUSIVE
    if shown or known.held_s > FELT_S:
        return Mark.MISSED
    return Mark.UNFELT if known.faults else Mark.HEALTHY


def _is_told(known: Truth, fault: Known, told: Said) -> bool:
    """At the hop that also holds what passes, its hold and its fault are one."""
    hops = {blame.hop for blame in fault.blames}
    blames = {*fault.blames, *(blame for blame in known.holders if blame.hop in hops)}
    return any(blame.fits(*each) for blame in blames for each in told.all)


def _term(known: Truth, verdict: Mapping[str, Any]) -> Comparison | None:
    """The seconds of the planted segment; of two faults a verdict decomposes the wait of one."""
    if len(known.faults) != 1 or not verdict["contributions"]:
        return None
    [fault] = known.faults
    if fault.term_s is None:
        return None
    seconds = [part["seconds"] for part in verdict["contributions"] if part["segment"] == fault.segment]
    return Comparison(sum(seconds), fault.term_s, TERM_LIMIT_S + fault.slack_s)


def _total(case: Case, known: Truth, seen: Answer, verdict: Mapping[str, Any]) -> Comparison | None:
    if not known.is_observed or not verdict["contributions"] or (waited_s := _waited(case, seen, verdict)) is None:
        return None
    loses = case.fault(Kind.LOSS)
    if loses is not None and loses.hop == CLIENT:
        return None  # acknowledgements are lost as well: no tap knows when the reader had what
    limit_s = SUM_LIMIT_S if case.fault(Kind.SLOW_READ, *LINKING) is None else SAMPLED_S
    slow = case.fault(Kind.RATE)
    if slow is not None and slow.hop == CLIENT:
        limit_s += LATE_S
    if verdict["wait"] == "first_event":
        limit_s += _unseen_s(case)
    elif case.chain.links is not None and case.chain.links.receive_bytes is not None:
        limit_s += 2 * case.chain.links.delays_s[-1]  # what fills a window takes another round trip, which no look sees
    return Comparison(sum(part["seconds"] for part in verdict["contributions"]), waited_s, limit_s)


def _unseen_s(case: Case) -> float:
    """What a reader waits for its first event where no tap can see it: its own work, and the way to the first tap."""
    own_s = ASKING_S if case.reader is Reader.OPENAI else 0.0
    return own_s + (0.0 if case.chain.links is None else 2 * case.chain.links.delays_s[-1])


def _waited(case: Case, seen: Answer, verdict: Mapping[str, Any]) -> float | None:
    """The reader's own measurement of the wait that the verdict is about. Its first output may be a thought; and of a
    stream's many gaps a verdict may be about any that the script does not explain, or else about the longest."""
    if verdict["wait"] == "first_event" and seen.first_text_s is not None:
        waits_s = [seen.receipts[0].at_s, seen.first_text_s]
    elif verdict["wait"] == "gap" and seen.held_off_s is None:
        spoken = case.told.calm()
        between = [each for each in waits(seen, spoken) if each.after > 0 and each.until <= spoken.length]
        waits_s = [each.wait_s for each in between if each.added_s > QUIET_S] or [seen.longest_gap_s]
    else:
        return check.waited(seen, verdict["wait"])
    return min(waits_s, key=lambda wait_s: abs(wait_s - verdict["gap_s"]))
