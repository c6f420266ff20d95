"""Does the verdict name what was planted, and do its seconds agree with the fault and with the reader's clock?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from otel.demo.answer import Answer
from otel.demo.faults import WORKER, Fault, Kind

TERM_LIMIT_S: Final = 0.050
"""How far the term of the planted segment may lie from the planted delay, in seconds."""
SUM_LIMIT_S: Final = 0.020
"""How far the sum of the terms may lie from the wait that the reader measured itself, in seconds."""

_CAUSES: Final = {
    Kind.STALL: (("app_stall",), ("source_stall",)),
    Kind.SLOW_FIRST: (("slow_first_event",), ("slow_first_event",)),
    Kind.CUT: (("truncated",), ("truncated",)),
    Kind.BUFFER: (("buffering", "app_stall"), ("buffering", "source_stall")),
    Kind.FREEZE: ((), ("source_stall",)),
    Kind.SLOW_READ: (("slow_reader",), ()),
}
"""The causes that fit a kind of fault: at a hop behind the source or the client, and at the source."""

Verdict = Mapping[str, Any]
"""What the collector answers to the question for one request's verdict."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What the verdict should say. segment: the label of the planted term, None where a fault adds no delay."""

    status: str
    first_hop: str | None
    causes: tuple[str, ...]
    segment: str | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two measurements of one time in seconds, by the verdict and by somebody who knows."""

    verdict_s: float
    known_s: float
    limit_s: float

    @property
    def error_s(self) -> float:
        return self.verdict_s - self.known_s

    @property
    def is_within(self) -> bool:
        return abs(self.error_s) <= self.limit_s


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one request. The comparisons are None where the verdict or the fault has no such time.

    is_named_right: status and hop are those planted. is_cause_right: the cause is one that fits, too.
    """

    expected: Expected
    is_named_right: bool
    is_cause_right: bool
    term: Comparison | None
    total: Comparison | None


def expected(fault: Fault | None) -> Expected:
    """What a right verdict on the planted fault says."""
    if fault is None:
        return Expected("healthy", None, ("none",), None)
    at_source = fault.hop == WORKER
    segment = None if fault.kind is Kind.CUT else "source" if at_source else f">{fault.hop}"
    return Expected("named", fault.hop, _CAUSES[fault.kind][at_source], segment)


def judge(fault: Fault | None, verdict: Verdict, answer: Answer) -> Outcome:
    """Compare one verdict with what was planted and with what the reader measured."""
    wanted = expected(fault)
    is_named_right = verdict["status"] == wanted.status and verdict["first_hop"] == wanted.first_hop
    terms = verdict["contributions"]
    term = total = None
    if fault is not None and wanted.segment is not None and terms:
        planted = [part["seconds"] for part in terms if part["segment"].endswith(wanted.segment)]
        term = Comparison(sum(planted), fault.seconds, TERM_LIMIT_S)
    waited_s = waited(answer, verdict["wait"])
    if fault is not None and terms and waited_s is not None:  # without a fault there is no claim
        total = Comparison(sum(part["seconds"] for part in terms), waited_s, SUM_LIMIT_S)
    return Outcome(wanted, is_named_right, is_named_right and verdict["cause"] in wanted.causes, term, total)


def waited(answer: Answer, wait: str | None) -> float | None:
    """The client's own measurement of the wait that the verdict is about; a pause of its own is one it knows of."""
    match wait:
        case "first_event":
            return answer.first_text_s
        case "end":
            return answer.end_s
        case "gap":
            return answer.longest_gap_s if answer.held_off_s is None else answer.held_off_s
        case _:
            return None
