"""What a run of the lab tells: a line for each case, the matrix of causes, what was wrong, and how exact it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from otel.demo.check import Comparison
from tests.lab.draw import Kind
from tests.lab.truth import MEANING, WRONG, Mark, Marked

HEALTHY: Final = "none"


def line(marked: Marked) -> str:
    """One case, when it is done."""
    flag = "  <-- confidently wrong" if marked.is_confidently_wrong else ""
    said = f"{marked.named} ({marked.confidence:g})"
    return f"{marked.case.number:>5}  {marked.mark:<13}{said:<44}{marked.case}{flag}"


def report(results: Sequence[Marked], *, seed: int) -> str:
    """Everything, for people."""
    parts = [_matrix(results), _marks(results), _exactness(results), _wrong(results, seed=seed)]
    return "\n\n".join(part for part in parts if part)


def is_passed(results: Iterable[Marked]) -> bool:
    """No verdict was confidently wrong."""
    return not any(marked.is_confidently_wrong for marked in results)


def _matrix(results: Sequence[Marked]) -> str:
    """What was planted, by what was named; `@` where the hop is another one."""
    counts = Counter((_planted(marked), _column(marked)) for marked in results)
    rows, columns = sorted({row for row, _ in counts}), sorted({column for _, column in counts})
    lines = ["| planted | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    lines += [f"| {row} | " + " | ".join(str(counts[row, column] or "") for column in columns) + " |" for row in rows]
    return "\n".join(lines)


def _planted(marked: Marked) -> str:
    case = marked.case
    if case.hop is None:
        return "none" if marked.truth == "healthy" else "a hop that buffers"
    where = "" if case.kind in {Kind.SLOW_READ, Kind.LEAVE, Kind.SELF} else f" @ {case.hop}"
    return f"{case.kind}{where}" + ("" if case.chain.blind is None else ", a tap missing")


def _column(marked: Marked) -> str:
    is_elsewhere = marked.mark in {Mark.WRONG_HOP, Mark.SECOND, Mark.ACCUSED}
    return marked.named.partition(" @ ")[0] + (" @" if is_elsewhere else "")


def _marks(results: Sequence[Marked]) -> str:
    counts = Counter(marked.mark for marked in results)
    shown = [f"{counts[mark]:>5} {mark:<13}{MEANING[mark]}" for mark in Mark if counts[mark]]
    return "\n".join([f"{len(results)} cases", *shown])


def _exactness(results: Sequence[Marked]) -> str:
    """Of the right verdicts: the planted seconds, and the reader's."""
    rows = [
        _compared("planted segment against the planted delay", [m.term for m in results]),
        _compared("sum of the terms against the reader's wait", [m.total for m in results]),
    ]
    return "\n".join(row for row in rows if row)


def _compared(what: str, comparisons: Iterable[Comparison | None]) -> str:
    made = [each for each in comparisons if each is not None]
    if not made:
        return ""
    beyond = sum(not each.is_within for each in made)
    worst = max(abs(each.error_s) for each in made)
    limit = made[0].limit_s
    return f"{what}: {len(made)} compared, {beyond} off by more than {limit * 1e3:g} ms, worst {worst * 1e3:.0f} ms"


def _wrong(results: Sequence[Marked], *, seed: int) -> str:
    """What to look at, and how to have it again."""
    return "\n".join(_looked_at(results, seed=seed))


def _looked_at(results: Sequence[Marked], *, seed: int) -> Iterator[str]:
    for marked in sorted(results, key=lambda marked: marked.case.number):
        inexact = [
            f"{what} off by {each.error_s * 1e3:+.0f} ms"
            for what, each in (("term", marked.term), ("sum", marked.total))
            if each is not None and not each.is_within
        ]
        if marked.mark in WRONG or inexact:
            yield (
                f"{marked.mark}{', confidently' if marked.is_confidently_wrong else ''}: {marked.case}\n"
                f"    said {marked.named} ({marked.confidence:g}); true is {marked.truth}"
                f"{''.join(f'; {words}' for words in inexact)}\n"
                f"    {marked.case.chain}\n"
                f"    python -m tests.lab --seed {seed} --case {marked.case.number}"
            )
