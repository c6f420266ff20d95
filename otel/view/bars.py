"""The decomposition of a wait as bars: a waterfall whose steps add up to it, and one bar that is its length.

Tone says guilt (named, also above its threshold, or neither); the fill says what kind of segment it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

from otel.view.answers import Segment, Term, VerdictAnswer
from otel.view.palette import Line, Look, Piece, Strip, Tone
from otel.view.scale import Axis, apportion, settle
from otel.view.text import cells, count, milliseconds, pad, pad_left, seconds

READER_WAITED: Final = "the reader waited"
ROOMY_CELLS: Final = 100  # from here on a segment stands beside its owner
_WAIT: Final = {
    "gap": "between two deliveries",
    "first_event": "for the first output",
    "end": "for the end",
    "pace": "in which it fell behind",
}


def label_of(segment: Segment | None) -> str | None:
    """The label that a segment has among the contributions."""
    if segment is None:
        return None
    if segment.from_hop == "source":
        return "source"
    if segment.from_hop == segment.to_hop == "client":
        return "ui"
    return f"self:{segment.from_hop}" if segment.from_hop == segment.to_hop else f"{segment.from_hop}>{segment.to_hop}"


def readable(label: str) -> str:
    """A segment's label for people: `model-worker → gateway`, `inside gateway`."""
    if label == "ui":
        return "inside client"
    return f"inside {label[5:]}" if label.startswith("self:") else label.replace(">", " → ", 1)


def tone_of(term: Term, verdict: VerdictAnswer) -> Tone:
    if verdict.status == "named" and term.label == label_of(verdict.segment):
        return Tone.FAULT
    return Tone.DOUBT if term.label in {label_of(other.segment) for other in verdict.others} else Tone.PLAIN


def fill_of(term: Term, look: Look) -> str:
    if term.label == "source":
        return look.marks.fill_source
    if term.label.startswith("self:"):
        return look.marks.fill_self
    return look.marks.fill_reader if term.label == "ui" or term.label.endswith(">client") else look.marks.fill_app


def wait_title(verdict: VerdictAnswer) -> str:
    """What the reader waited for, in words."""
    where = ""
    if verdict.wait in {"gap", "pace"} and verdict.at_seq:
        about = "" if verdict.at_position_exact else "about "
        after = f" ({about}{count(verdict.at_position)} characters)" if verdict.at_position else ""
        where = f", after {count(verdict.at_seq)} events{after}"
    kind = _WAIT.get(verdict.wait or "", verdict.wait or "")
    return f"The wait: {seconds(verdict.gap_s or 0.0)} {kind}{where}"


def waterfall_lines(verdict: VerdictAnswer, look: Look) -> list[Line]:
    """One line per segment, source first: owner, seconds, bar; the last line is the sum. Empty without terms."""
    terms = verdict.contributions
    if not terms:
        return []
    parts_ms = settle([term.seconds for term in terms])
    owner_cells = min(max(cells(READER_WAITED), *(cells(term.owner) for term in terms)), look.width // 3)
    label_cells = 0
    if look.width >= ROOMY_CELLS:
        label_cells = min(2 + max(cells(readable(term.label)) for term in terms), look.width // 3)
    total = milliseconds(sum(parts_ms))
    seconds_cells = max(cells(total), *(cells(milliseconds(part)) for part in parts_ms))
    bars = waterfall(parts_ms, look.width - 2 - owner_cells - label_cells - 2 - seconds_cells - 2, look)
    lines: list[Line] = []
    for term, part_ms, bar in zip(terms, parts_ms, bars, strict=False):
        tone = tone_of(term, verdict)
        mark = look.marks.guilty + " " if tone is Tone.FAULT else "  "
        owner, label = pad(term.owner, owner_cells), pad("  " + readable(term.label), label_cells)
        lines.append(
            (
                Piece(mark + owner, tone),
                Piece(label, Tone.QUIET),
                Piece("  " + pad_left(milliseconds(part_ms), seconds_cells) + "  ", tone),
                *(Piece(piece.text, tone) for piece in bar),
            )
        )
    name = "  " + pad(READER_WAITED, owner_cells) + " " * label_cells
    return [*lines, (Piece(f"{name}  {pad_left(total, seconds_cells)}  ", Tone.STRONG), *bars[-1])]


def waterfall(parts: Sequence[int], width: int, look: Look) -> list[Line]:
    """One bar per part, each beginning where the one before it ended, and a bracket over their sum.

    A part too small for a column is a sliver; a negative one runs back.
    """
    sums = list(accumulate(parts, initial=0))
    axis = Axis(min(sums), max(*sums, min(sums) + 1), width)
    edges = [round((at - axis.start_s) / axis.cell_s) for at in sums]
    lines: list[Line] = []
    for before, after in pairwise(edges):
        strip = Strip(width)
        if after > before:
            strip.fill(range(before, after), look.marks.fill_source)
        elif after < before:
            strip.fill(range(after, before), look.marks.negative)
        else:
            strip.put(min(before, width - 1), look.marks.sliver)
        lines.append(strip.pieces())
    strip = Strip(width)
    bracket(strip, range(min(edges[0], edges[-1]), max(edges[0], edges[-1])), look)
    return [*lines, strip.pieces()]


def bracket(strip: Strip, columns: range, look: Look, tone: Tone = Tone.STRONG) -> None:
    """A brace under the columns; under one column or none it is a pointer."""
    if len(columns) < 2:
        strip.put(min(columns.start, strip.width - 1), look.marks.up, tone)
        return
    strip.fill(columns, look.marks.rule, tone)
    strip.put(columns.start, look.marks.bracket_left, tone)
    strip.put(columns.stop - 1, look.marks.bracket_right, tone)


SHOWN_SHARE: Final = 0.02  # of the wait; a smaller part is less than two columns and goes into the rest


def bar_lines(verdict: VerdictAnswer, width: int, look: Look) -> list[Line]:
    """The whole wait as one bar of the given width, and under it what its parts are. Empty without terms."""
    terms = verdict.contributions
    if not terms:
        return []
    parts_ms = settle([term.seconds for term in terms])
    columns = apportion([max(part, 0) for part in parts_ms], width)
    bar = tuple(
        Piece(_filled(term, part, taken, look), tone_of(term, verdict))
        for term, part, taken in zip(terms, parts_ms, columns, strict=True)
        if taken
    )
    floor_ms = SHOWN_SHARE * max(sum(max(part, 0) for part in parts_ms), 1)
    shown = [(term, part) for term, part in zip(terms, parts_ms, strict=True) if abs(part) >= floor_ms]
    names = [
        (f"{fill_of(term, look)} {term.owner} {milliseconds(part)}", tone_of(term, verdict)) for term, part in shown
    ]
    if rest := len(terms) - len(shown):
        rest_ms = sum(parts_ms) - sum(part for _, part in shown)
        names.append((f"{rest} other {'part' if rest == 1 else 'parts'} {milliseconds(rest_ms)}", Tone.QUIET))
    names.append((f"= {milliseconds(sum(parts_ms))}", Tone.STRONG))
    return [bar, *toned_flow(names, width)]


def _filled(term: Term, part_ms: int, columns: int, look: Look) -> str:
    text = f" {seconds(part_ms / 1000)} "
    fill = fill_of(term, look)
    if columns < len(text) + 4:
        return fill * columns
    left = (columns - len(text)) // 2
    return fill * left + text + fill * (columns - left - len(text))


def toned_flow(parts: Sequence[tuple[str, Tone]], width: int, *, gap: int = 3) -> list[Line]:
    """Parts of a legend side by side on as few lines as hold them; one that no line holds is cut."""
    lines: list[Line] = []
    room = 0
    for text, tone in parts:
        shown = pad(text, min(cells(text), width))
        if lines and cells(shown) + gap <= room:
            lines[-1] += (Piece(" " * gap), Piece(shown, tone))
            room -= cells(shown) + gap
        else:
            lines.append((Piece(shown, tone),))
            room = width - cells(shown)
    return lines
