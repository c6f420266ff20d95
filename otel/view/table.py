"""Tables and runs of parts that fit a width: what matters least is left out first, and nothing wraps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from otel.view.palette import Line, Piece, Tone
from otel.view.text import cells, cut, pad, pad_left, wrap


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table. rank 0 always stays, the highest rank goes first.

    least: cells that it may be cut down to when the table is too wide; None when it is never cut.
    """

    title: str
    cells: Sequence[Piece]
    rank: int = 0
    is_number: bool = False
    least: int | None = None

    @property
    def width(self) -> int:
        return max(cells(self.title), *(cells(cell.text) for cell in self.cells), 0)

    @property
    def wanted(self) -> int:
        """What it needs for the columns of higher rank to stay: one that can go makes itself small first."""
        return self.narrowest if self.rank else self.width

    @property
    def narrowest(self) -> int:
        return self.width if self.least is None else min(self.least, self.width)


GUTTER: Final = 2  # blanks between two columns


def table(columns: Sequence[Column], width: int) -> list[Line]:
    """The head and the rows in at most width cells: columns go by rank, then are cut, the last one first."""
    kept = list(columns)
    while _sum(column.wanted for column in kept) > width and (rank := max(column.rank for column in kept)):
        kept.remove(next(column for column in kept if column.rank == rank))
    widths = [column.width for column in kept]
    for index in reversed(range(len(kept))):
        widths[index] = max(kept[index].narrowest, widths[index] - max(0, _sum(widths) - width))
    rows = [[Piece(column.title, Tone.QUIET) for column in kept], *zip(*(column.cells for column in kept), strict=True)]
    return [_row(row, kept, widths, width) for row in rows]


def _sum(widths: Iterable[int]) -> int:
    each = list(widths)
    return sum(each) + GUTTER * (len(each) - 1)


def _row(row: Sequence[Piece], columns: Sequence[Column], widths: Sequence[int], room: int) -> Line:
    pieces: list[Piece] = []
    for cell, column, width in zip(row, columns, widths, strict=True):
        text = pad_left(cell.text, width) if column.is_number else pad(cell.text, width)
        text = cut(" " * GUTTER * bool(pieces) + text, room)
        room -= cells(text)
        pieces.append(Piece(text, cell.tone))
    return tuple(pieces)


def flow(parts: Sequence[str], width: int) -> list[str]:
    """Parts side by side, two blanks between, on as few lines as hold them; a part too long for a line is wrapped."""
    lines: list[str] = []
    for part in filter(None, parts):
        joined = f"{lines[-1]}  {part}" if lines else part
        if lines and cells(joined) <= width:
            lines[-1] = joined
        else:
            lines += wrap(part, width)
    return lines
