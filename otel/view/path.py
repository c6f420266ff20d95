"""The path on one line, client ← gateway ← … ← source, with every finding written under the place where it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from otel.view.answers import Segment, VerdictAnswer
from otel.view.bars import label_of
from otel.view.palette import Line, Look, Piece, Tone
from otel.view.text import cells, cut, seconds

SHOWN_FINDINGS: Final = 4  # with more, the marks say less than the list of parts


def path_lines(verdict: VerdictAnswer, look: Look) -> list[Line]:
    """The drawn path, on more lines where it is too long for one. Empty without hops."""
    if not verdict.hops:
        return []
    names = ["client", *(hop.hop for hop in reversed(verdict.hops) if hop.role != "client"), "source"]
    arrow = f" {look.marks.arrow} "
    lines: list[list[Piece]] = []
    spots: list[tuple[int, int]] = []  # line and column of each name
    column = look.width
    for index, name in enumerate(names):
        lead = arrow if index else ""
        shown = cut(name, look.width - len(lead) - 2)
        if column + len(lead) + cells(shown) > look.width:
            lines.append([Piece("  ")])
            column = 2
        spots.append((len(lines) - 1, column + len(lead)))
        is_guilty = verdict.status == "named" and name == verdict.first_hop
        lines[-1] += [Piece(lead, Tone.QUIET), Piece(shown, Tone.FAULT if is_guilty else Tone.PLAIN)]
        column += len(lead) + cells(shown)
    made: list[Line] = []
    for index, line in enumerate(lines):
        made.append(tuple(line))
        made += [
            _mark(column, text, tone, look) for at, column, text, tone in _marks(verdict, names, spots) if at == index
        ]
    return made


def _marks(
    verdict: VerdictAnswer, names: Sequence[str], spots: Sequence[tuple[int, int]]
) -> list[tuple[int, int, str, Tone]]:
    """Line, column, text and tone of each finding that has a place on the path."""
    findings: list[tuple[Segment | None, str, float, Tone]] = []
    if verdict.status == "named":
        guilty = label_of(verdict.segment)
        term_s = sum(term.seconds for term in verdict.contributions if term.label == guilty)
        findings.append((verdict.segment, verdict.cause or "", term_s, Tone.FAULT))
    findings += [(other.segment, other.cause, other.seconds, Tone.DOUBT) for other in verdict.others]
    marks = []
    for segment, cause, term_s, tone in findings[:SHOWN_FINDINGS]:
        if segment is None or segment.to_hop not in names or segment.from_hop not in names:
            continue
        near, far = names.index(segment.to_hop), names.index(segment.from_hop)
        line, column = spots[far]
        if near < far:  # under the arrow into the nearer hop; what a sidecar did itself stands under its name
            line, column = spots[near + 1]
            column -= 2
        marks.append((line, column, f"{cause} {seconds(term_s)}" if term_s else cause, tone))
    return marks


def _mark(column: int, text: str, tone: Tone, look: Look) -> Line:
    noted = f"{look.marks.up} {text}"
    if column + cells(noted) <= look.width:
        return (Piece(" " * column), Piece(noted, tone))
    noted = cut(text, column - 1) + f" {look.marks.up}"
    return (Piece(" " * (column + 1 - cells(noted))), Piece(noted, tone))
