"""What a run of the lab tells: a line for each case, the matrix of causes, what was wrong, and how exact it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from otel.demo.check import Comparison
from tests.lab.marks import MEANING, WRONG, Mark, Marked
from tests.lab.middles import PARTS
from tests.lab.rows import Row, table
from tests.lab.told import Kind

Judged = tuple[Row, Marked]
_ANYWHERE: Final = frozenset({Kind.SLOW_READ, Kind.LEAVE, Kind.SELF})
"""Kinds of which the hop is none, or told by the cause."""
_UNTELLABLE: Final = frozenset({Mark.BEYOND, Mark.DISTURBED})

_LISTED: Final = WRONG | {Mark.HALF, Mark.DISTURBED}
"""What somebody should look at: an excuse, too."""


def line(marked: Marked) -> str:
    """One case, when it is done."""
    flag = "  <-- confidently wrong" if marked.is_confidently_wrong else ""
    said = f"{marked.named} ({marked.confidence:g})"
    return f"{marked.case.number:>5}  {marked.mark:<13}{said:<44}{marked.case}{flag}"


def report(results: Sequence[Marked], rows: Sequence[Judged], *, seed: int) -> str:
    """Everything, for people. rows: the same cases judged with more evidence and with less."""
    parts = [
        markdown(results, rows),
        _marks(results),
        _shares(results),
        _exactness(results),
        "\n".join(_looked_at([(None, marked) for marked in results], seed=seed)),
        "\n".join(_looked_at(_only_in_rows(results, rows), seed=seed)),
    ]
    return "\n\n".join(part for part in parts if part)


def as_json(results: Sequence[Marked], rows: Sequence[Judged], *, seed: int, took_s: float) -> dict[str, Any]:
    """Everything, for programs."""
    felt = [marked for marked in results if _counts(marked)]
    return {
        "seed": seed,
        "cases": len(results),
        "took_s": round(took_s, 1),
        "marks": dict(Counter(marked.mark for marked in results)),
        "felt": len(felt),
        "felt_right": sum(marked.mark is Mark.RIGHT for marked in felt),
        "healthy": dict(Counter(marked.mark for marked in results if marked.is_calm)),
        "confidently_wrong": [marked.case.number for marked in results if marked.is_confidently_wrong],
        "term_errors_s": _errors(marked.term for marked in results),
        "sum_errors_s": _errors(marked.total for marked in results),
        "results": [_row(marked) for marked in results],
        "rows": [{"row": row, **_row(marked)} for row, marked in rows],
    }


def is_passed(results: Iterable[Marked], rows: Iterable[Judged]) -> bool:
    """No verdict was confidently wrong, with whatever evidence."""
    return not any(marked.is_confidently_wrong for marked in (*results, *(marked for _, marked in rows)))


def markdown(results: Sequence[Marked], rows: Sequence[Judged]) -> str:
    """The tables: what was planted by what was named, and how the same cases are marked by their evidence."""
    tables = [matrix(results), table((row, marked.mark) for row, marked in rows) if rows else ""]
    return "\n\n".join(each for each in tables if each)


def matrix(results: Sequence[Marked]) -> str:
    """What was planted, by what was named; `@` where the hop is another one."""
    counts = Counter((_planted(marked), _column(marked)) for marked in results)
    rows, columns = sorted({row for row, _ in counts}), sorted({column for _, column in counts})
    lines = ["| planted | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    lines += [f"| {row} | " + " | ".join(str(counts[row, column] or "") for column in columns) + " |" for row in rows]
    return "\n".join(lines)


def _counts(marked: Marked) -> bool:
    """Whether the verdict should have told a fault: the reader's stamps show it, and a tap could tell it."""
    return marked.is_shown and marked.mark not in _UNTELLABLE


def _planted(marked: Marked) -> str:
    case, chain = marked.case, marked.case.chain
    around = "" if len(chain.tapped) == len(chain.hops) else ", a tap missing"
    around += ", a hop buffers" if any(PARTS[place.part].holds is not None for place in chain.hops) else ""
    if len(case.faults) != 1:
        return ("two faults" if case.faults else "nothing") + around
    [fault] = case.faults
    place = "" if fault.kind in _ANYWHERE else " at the source" if fault.hop == chain.names[0] else " at a hop"
    return f"{fault.kind}{place}{around}"


def _column(marked: Marked) -> str:
    is_elsewhere = marked.mark in {Mark.WRONG_HOP, Mark.SECOND, Mark.ACCUSED, Mark.DISTURBED}
    return marked.named.partition(" @ ")[0] + (" @" if is_elsewhere else "")


def _marks(results: Sequence[Marked]) -> str:
    counts = Counter(marked.mark for marked in results)
    shown = [f"{counts[mark]:>5} {mark:<13}{MEANING[mark]}" for mark in Mark if counts[mark]]
    return "\n".join([f"{len(results)} cases", *shown])


def _shares(results: Sequence[Marked]) -> str:
    """The figures that a release is judged by."""
    felt = [marked for marked in results if _counts(marked)]
    right = sum(marked.mark is Mark.RIGHT for marked in felt)
    calm = [marked for marked in results if marked.is_calm]
    marks = Counter(marked.mark for marked in calm)
    confident = sum(marked.is_confidently_wrong for marked in results)
    share = f" ({100 * right / len(felt):.1f} %)" if felt else ""
    return (
        f"felt by the reader and to be told: {len(felt)}, of them right by cause and hop: {right}{share}\n"
        f"healthy by the reader's own stamps: {len(calm)}, of them called so: {marks[Mark.HEALTHY]}, "
        f"accused: {marks[Mark.ACCUSED]}, excused for the machine: {marks[Mark.DISTURBED]}\n"
        f"confidently wrong: {confident}"
    )


def _exactness(results: Sequence[Marked]) -> str:
    """Of the right verdicts: the planted seconds, and the reader's."""
    right = [marked for marked in results if marked.mark is Mark.RIGHT]
    rows = [
        _compared("planted segment against the planted delay", [m.term for m in right]),
        _compared("sum of the terms against the reader's wait", [m.total for m in right]),
    ]
    return "\n".join(row for row in rows if row)


def _compared(what: str, comparisons: Iterable[Comparison | None]) -> str:
    asked = list(comparisons)
    made = [each for each in asked if each is not None]
    if not made:
        return ""
    beyond = sum(not each.is_within for each in made)
    worst = max(abs(each.error_s) for each in made)
    limit_s = min(each.limit_s for each in made)
    words = f"{beyond} off by more than {limit_s * 1e3:g} ms and what is known of their surroundings"
    return f"{what}: {len(made)} of {len(asked)} right ones compared, {words}, worst {worst * 1e3:.0f} ms"


def _only_in_rows(results: Sequence[Marked], rows: Sequence[Judged]) -> list[Judged]:
    """Confidently wrong with other evidence, where the verdict itself was not."""
    wrong = {marked.case.number for marked in results if marked.mark in WRONG}
    return [(row, m) for row, m in rows if m.is_confidently_wrong and m.case.number not in wrong]


def _looked_at(results: Sequence[tuple[Row | None, Marked]], *, seed: int) -> Iterator[str]:
    """What was wrong, or excused, and how to have it again."""
    for row, marked in sorted(results, key=lambda each: each[1].case.number):
        inexact = [
            f"{what} off by {each.error_s * 1e3:+.0f} ms"
            for what, each in (("term", marked.term), ("sum", marked.total))
            if each is not None and not each.is_within
        ]
        if marked.mark in _LISTED or inexact:
            yield (
                f"{marked.mark}{', confidently' if marked.is_confidently_wrong else ''}"
                f"{f', {row}' if row else ''}: {marked.case}\n"
                f"    said {marked.named} ({marked.confidence:g}); true is {marked.truth}"
                f"{''.join(f'; {words}' for words in inexact)}; the reader late by "
                f"{marked.late_s * 1e3:.0f} ms, the machine by {marked.lag_s * 1e3:.0f} ms\n"
                f"    {marked.case.chain}\n"
                f"    python -m tests.lab --seed {seed} --case {marked.case.number}"
            )


def _errors(comparisons: Iterable[Comparison | None]) -> dict[str, float]:
    errors = sorted(abs(each.error_s) for each in comparisons if each is not None)
    return {"count": len(errors), "median": errors[len(errors) // 2], "worst": errors[-1]} if errors else {"count": 0}


def _row(marked: Marked) -> dict[str, Any]:
    return {
        "case": marked.case.number,
        "planted": str(marked.case),
        "chain": str(marked.case.chain),
        "mark": marked.mark,
        "named": marked.named,
        "true": marked.truth,
        "confidence": marked.confidence,
        "is_shown": marked.is_shown,
        "late_s": round(marked.late_s, 3),
        "machine_late_s": round(marked.lag_s, 3),
        "term_error_s": None if marked.term is None else round(marked.term.error_s, 4),
        "sum_error_s": None if marked.total is None else round(marked.total.error_s, 4),
    }
