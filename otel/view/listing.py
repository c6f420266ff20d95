"""The list of stalls as text for a terminal: one line each where the ids fit, two where they do not.

A request id is what people copy from this list, so it is never cut.
"""

from __future__ import annotations

from typing import Final

from otel.view.answers import StallRow, StallsAnswer
from otel.view.palette import Line, Look, Piece, Tone, render
from otel.view.table import Column, table
from otel.view.terminal import clock
from otel.view.text import cells, count, cut, seconds, wrap

ROOMY_CELLS: Final = 140  # on a narrower line the sentence is cut so short that it says nothing
READABLE_CELLS: Final = 24  # and so it does where an id leaves it less than this


def stalls(answer: StallsAnswer, look: Look, *, question: str) -> str:
    """The requests that waited, newest first, in lines of at most look.width cells. question: what was asked."""
    if not answer.stalls:
        return render([(Piece(line),) for text in _nothing(question) for line in wrap(text, look.width)], look)
    lines = _on_one_line(answer, look.width) or _on_two_lines(answer, look.width)
    number = "1 stall" if len(answer.stalls) == 1 else f"{count(len(answer.stalls))} stalls"
    ends = [f"{number} {question}; `gapline why REQUEST_ID` says who made the reader wait."]
    if answer.has_more:
        ends.append("There are more: raise --limit, or narrow with --since, --hop, --cause, --model or --min-gap.")
    lines += [(), *((Piece(line, Tone.QUIET),) for text in ends for line in wrap(text, look.width))]
    return render(lines, look)


def _nothing(question: str) -> list[str]:
    return [
        f"No stall {question}.",
        "If you expected one: look further back (--since 24h), drop a filter, or ask `gapline why ID`.",
        "A hop whose sidecar does not reach this collector is not seen here.",
    ]


def _columns(answer: StallsAnswer) -> dict[str, Column]:
    rows = answer.stalls
    return {
        "when": Column("started (UTC)", [Piece(clock(row.at, answer.as_of), Tone.QUIET) for row in rows]),
        "request": Column("request", [Piece(row.request_id) for row in rows]),
        "model": Column("model", [Piece(_or_dash(row.model)) for row in rows], 1, least=12),
        "cause": Column("cause", [_cause(row) for row in rows]),
        "hop": Column("hop", [Piece(_or_dash(row.first_hop)) for row in rows], least=10),
        "waited": Column("waited", [Piece(_waited(row), Tone.STRONG) for row in rows], is_number=True),
        "kind": Column("kind", [Piece(row.wait or _ended(row)) for row in rows], 2),
        "sentence": Column("what happened", [Piece(row.sentence) for row in rows], 3, least=READABLE_CELLS),
    }


def _on_one_line(answer: StallsAnswer, width: int) -> list[Line]:
    """The table with the id in its row; empty where the columns that always stay do not fit."""
    columns = _columns(answer)
    if width < ROOMY_CELLS:
        del columns["sentence"]
    least = [column.narrowest for column in columns.values() if not column.rank]
    return table(list(columns.values()), width) if sum(least) + 2 * len(least) <= width else []


def _on_two_lines(answer: StallsAnswer, width: int) -> list[Line]:
    """The table without ids, and under each row its id, with the sentence where there is room."""
    columns = _columns(answer)
    title, *rows = table([columns[name] for name in ("when", "cause", "hop", "waited", "kind", "model")], width)
    lines: list[Line] = [title]
    for row, stall in zip(rows, answer.stalls, strict=True):
        lines += [row, *((Piece("  " + line),) for line in wrap(stall.request_id, width - 2))]
        room = width - cells(lines[-1][0].text) - 2
        if width >= ROOMY_CELLS and room >= READABLE_CELLS:
            lines[-1] += (Piece("  " + cut(stall.sentence, room), Tone.QUIET),)
    return lines


def _cause(row: StallRow) -> Piece:
    text = (
        row.cause or row.status
        if row.status == "named"
        else "cannot tell"
        if row.status == "inconclusive"
        else row.status
    )
    return Piece(f"{text} (open)" if row.open else text, Tone.FAULT if row.status == "named" else Tone.DOUBT)


def _waited(row: StallRow) -> str:
    return seconds(row.gap_s) if row.gap_s else "-"


def _ended(row: StallRow) -> str:
    """What there is to say of an answer that nobody waited for."""
    if row.status != "named":
        return "-"
    return "went on" if row.cause == "cancel_ignored" else "broken off"  # the answer was over: nobody broke it off


def _or_dash(value: str | None) -> str:
    return value or "-"
