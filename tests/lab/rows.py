"""The same recorded case judged again with more evidence and with less: is the verdict still right, or does it say so?

The hops are those that the collector stored, and judging is the collector's own, in this process. What is taken away
was recorded, so every row is about the very same answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from otel.demo.answer import Answer
from otel.findings import Policy
from otel.grain import quantised
from otel.hop import Hop, TapRole
from otel.join import Path, join
from otel.known import Known
from otel.query import verdict_answer
from otel.verdict import judge
from tests.lab.record import record

AS_OF: Final = "2030-01-01T00:00:00.000Z"
"""When a verdict is asked for: no row depends on it."""


class Row(StrEnum):
    """What a verdict was reached with."""

    TAPS = "taps alone"
    RECORD = "with the reader's record"
    EXACT = "exact positions"
    QUANTISED = "positions in steps"
    TAP_AWAY = "an inner tap taken away"
    EGRESS_AWAY = "without egress taps"


MEANING: Final = {
    Row.TAPS: "the hops as they were recorded",
    Row.RECORD: "and what the reader itself stamped, as one more hop",
    Row.EXACT: "the hops of sidecars that keep every position",
    Row.QUANTISED: "the same with positions and times rounded, and those that were recorded so",
    Row.TAP_AWAY: "once for each tap between the first and the last",
    Row.EGRESS_AWAY: "one tap for each hop, where some have two",
}


@dataclass(frozen=True, slots=True)
class Judged:
    """One verdict, as the collector would answer it. taps: what was there, source first."""

    row: Row
    taps: tuple[str, ...]
    verdict: dict[str, Any]


def judged(
    hops: Sequence[Hop],
    *,
    answer: Answer,
    policy: Policy,
    expected_path: Sequence[str],
    known: Known | None = None,
    has_left: bool = False,
) -> Iterator[Judged]:
    """Every row of one case, the hops as they are first.

    answer: what the reader saw, which left early where has_left. known: what answers before this one showed; it learns
    this one too, as a collector does, from the first row alone.
    """
    known = known or Known()
    whole = join(hops, expected_path=expected_path)
    policy = known.policy_for(whole, policy)
    for rows, path in _paths(whole, answer, has_left=has_left):
        verdict = judge(path, policy)
        if path is whole:
            known.learn(path, verdict)
        told = verdict_answer(path, verdict, as_of=AS_OF, is_final=True)
        for row in rows:
            yield Judged(row, tuple(hop.place.tap for hop in path.taps), told)


def table(marks: Iterable[tuple[Row, StrEnum]]) -> str:
    """How often each row got which mark, in Markdown; the marks in the order in which they are defined."""
    counts = Counter(marks)
    columns = sorted({mark for _, mark in counts}, key=lambda mark: list(type(mark)).index(mark))
    found = [row for row in Row if any(of is row for of, _ in counts)]
    lines = ["| evidence | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    lines += [f"| {row} | " + " | ".join(str(counts[row, mark] or "") for mark in columns) + " |" for row in found]
    return "\n".join(lines)


def _paths(whole: Path, answer: Answer, *, has_left: bool) -> Iterator[tuple[tuple[Row, ...], Path]]:
    """The paths to judge, each with the rows that it stands for."""
    taps = whole.taps
    is_exact = all(hop.timeline.quantum == 1 for hop in taps)
    yield (Row.TAPS, Row.EXACT if is_exact else Row.QUANTISED), whole
    own = record(answer, outermost=taps[-1], has_left=has_left, is_exact=is_exact)
    yield (Row.RECORD,), _of(whole, (*taps, own))
    if is_exact:
        coarse = [replace(hop, timeline=quantised(hop.timeline)) for hop in taps]
        yield (Row.QUANTISED,), _of(whole, coarse)
    for inner in taps[1:-1]:
        yield (Row.TAP_AWAY,), _of(whole, [hop for hop in taps if hop is not inner])
    single = [hop for hop in taps if hop.place.role is not TapRole.EGRESS]
    if 0 < len(single) < len(taps):
        yield (Row.EGRESS_AWAY,), _of(whole, single)


def _of(whole: Path, taps: Sequence[Hop]) -> Path:
    """The path that these taps alone would have given, the other attempts as before."""
    places = {hop.place for hop in taps}
    return join([*taps, *(hop for hop in whole.others if hop.place in places)], expected_path=whole.expected)
