"""The timeline of one request as a picture in text: a lane per tap on one axis of time, and who made the wait.

The source is at the top and the reader at the bottom, so a wait is seen to begin where it was made and to run down.
Times are placed by each lane's shift, which is for the eye only; no verdict uses it.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from otel.view.answers import Stretch, Tap, TimelineAnswer
from otel.view.bars import bar_lines, bracket, label_of, toned_flow
from otel.view.lanes import GAP_S, Columns, Frame, event_strip, handed_on, lay, state_strip, usual_count
from otel.view.palette import Line, Look, Piece, Strip, Tone, render
from otel.view.scale import Axis
from otel.view.terminal import command_lines, commands_after, head, lane_name
from otel.view.text import cells, count, cut, pad, seconds

SHORTEST_AXIS_S: Final = 0.001
ZOOM_BELOW_CELLS: Final = 8  # a wait narrower than this cannot be read: offer the command that enlarges it
MARGIN: Final = 2  # blanks between the names and the lanes
Findings = dict[str | None, list[tuple[str, Tone]]]
"""What was found, in words, by the label of its segment."""


def timeline(
    answer: TimelineAnswer,
    look: Look,
    *,
    start_s: float | None = None,
    end_s: float | None = None,
    at: str = "",
    has_head: bool = True,
    has_commands: bool = True,
) -> str:
    """The picture, each line at most look.width cells; start_s and end_s zoom into a part of its axis.

    at: what every command to try needs behind it, such as ` --collector URL`. has_head: the verdict stands above it.
    """
    lines: list[Line] = [*head(answer.verdict, look), ()] if has_head else []
    if not answer.taps:
        lines += [(Piece("There is nothing to draw: no hop has recorded it."),)]
        tried = commands_after(answer.verdict)
        return render([*lines, *(((), *command_lines(tried, look, at=at)) if has_commands else ())], look)
    whole = extent(answer.taps)
    begin = whole[0] if start_s is None else start_s
    end = max(whole[1] if end_s is None else end_s, begin + SHORTEST_AXIS_S)
    name_cells = _name_cells(answer.taps, look.width // 4)
    axis = Axis(begin, end, look.width - name_cells - MARGIN)
    laid = [lay(tap, axis) for tap in answer.taps]
    frame = Frame(axis, usual_count(laid), _wait_on_axis(answer), look)
    if (begin, end) != whole:
        shown = f"Shown: {seconds(begin)} to {seconds(end)} of {seconds(whole[0])} to {seconds(whole[1])}."
        lines += [(Piece(cut(shown, look.width), Tone.QUIET),), ()]
    lines += [*_lanes(answer, laid, frame, name_cells), *_axis_lines(axis, look, name_cells), ()]
    if frame.wait is not None and (bar := bar_lines(answer.verdict, axis.width, look)):
        lines += [
            (_margin("" if index else WHO_MADE_IT, name_cells, Tone.QUIET), *line) for index, line in enumerate(bar)
        ]
        lines.append(())
    lines += _legend(frame)
    if has_commands:
        lines += [(), *command_lines(_commands(answer, frame, whole), look, at=at)]
    return render(lines, look)


WHO_MADE_IT: Final = "who made it"
TO_THE_READER: Final = "to the reader"
CONSUMED: Final = "consumed"
INDENT: Final = 2  # of what is said of a lane under its name


def extent(taps: Sequence[Tap]) -> Stretch:
    """The stretch of the axis on which anything was recorded."""
    ends = [tap.shift_s + max([tap.duration_s, *(stamp[0] for stamp in tap.stamps[-1:])]) for tap in taps]
    start = min(tap.shift_s for tap in taps)
    return start, max(*ends, start + SHORTEST_AXIS_S)


def _wait_on_axis(answer: TimelineAnswer) -> Stretch | None:
    """The reader's wait, unless it is one of the pauses that every stream has."""
    if answer.wait is None or answer.wait[1] - answer.wait[0] < GAP_S:
        return None
    shift_s = answer.taps[-1].shift_s
    return answer.wait[0] + shift_s, answer.wait[1] + shift_s


def _name_cells(taps: Sequence[Tap], most: int) -> int:
    """What the names of the lanes take, and what is said under them."""
    names = [cells(lane_name(tap.hop, tap.role)) for tap in taps]
    fates = [INDENT + cells(_fate(tap, most - INDENT)) for tap in taps]
    return min(max(cells(TO_THE_READER), *names, *fates), most)


def _margin(name: str, name_cells: int, tone: Tone = Tone.PLAIN) -> Piece:
    return Piece(pad(name, name_cells) + " " * MARGIN, tone)


# The lanes, and between them what was added there.


def _lanes(answer: TimelineAnswer, laid: Sequence[Columns], frame: Frame, name_cells: int) -> list[Line]:
    findings = _findings(answer)
    taps = answer.taps
    lines = _added_here("source", findings, frame.look)
    for index, (tap, columns) in enumerate(zip(taps, laid, strict=True)):
        below = _place(taps[index + 1]) if index + 1 < len(taps) else "client"
        name = _margin(lane_name(tap.hop, tap.role), name_cells, _name_tone(tap.hop, answer))
        fate = _margin(" " * INDENT + _fate(tap, name_cells - INDENT), name_cells, Tone.QUIET)
        lines.append((name, *event_strip(tap, columns, frame).pieces()))
        lines.append((fate, *state_strip(tap, columns, frame).pieces()))
        within = "ui" if tap.role == "client" else f"self:{_place(tap)}"
        lines += _added_here(within, findings, frame.look)
        lines += _added_here(f"{_place(tap)}>{below}", findings, frame.look)
    behind = handed_on(taps[-1])
    reached = CONSUMED if taps[-1].role == "client" else TO_THE_READER
    name = _margin(reached, name_cells, _name_tone("client", answer))
    lines.append((name, *event_strip(behind, lay(behind, frame.axis), frame).pieces()))
    if frame.wait is not None:
        lines.append((_margin("", name_cells), *_wait_strip(frame.wait, frame).pieces()))
    return lines


def _place(tap: Tap) -> str:
    """The name that the ends of segments have."""
    return {"client": "client", "egress": f"{tap.hop} egress"}.get(tap.role, tap.hop)


def _findings(answer: TimelineAnswer) -> Findings:
    verdict = answer.verdict
    found: Findings = {}
    if verdict.status == "named":
        guilty = label_of(verdict.segment)
        term_s = sum(term.seconds for term in verdict.contributions if term.label == guilty)
        found.setdefault(guilty, []).append((_finding(verdict.cause, term_s, verdict.owner), Tone.FAULT))
    for other in verdict.others:
        text = _finding(other.cause, other.seconds, other.owner)
        found.setdefault(label_of(other.segment), []).append((text, Tone.DOUBT))
    return found


def _finding(cause: str | None, term_s: float, owner: str | None) -> str:
    return "  ".join(filter(None, (cause, f"+{seconds(term_s)}" if term_s else "", owner)))


def _added_here(label: str, findings: Findings, look: Look) -> list[Line]:
    return [(Piece(cut(f"{look.marks.down} {text}", look.width), tone),) for text, tone in findings.get(label, ())]


def _name_tone(hop: str, answer: TimelineAnswer) -> Tone:
    is_named = answer.verdict.status == "named" and hop == answer.verdict.first_hop
    return Tone.FAULT if is_named else Tone.STRONG


def _fate(tap: Tap, room: int) -> str:
    """How the exchange ended, and how many events are drawn where there is room."""
    fate = (tap.outcome or "open") + (", thinned" if tap.is_thinned else "")
    number = count(len(tap.stamps))
    forms = (f"{fate}, {number} {'event' if len(tap.stamps) == 1 else 'events'}", f"{fate}, {number} ev.")
    return next((form for form in forms if cells(form) <= room), fate)


def _wait_strip(wait: Stretch, frame: Frame) -> Strip:
    """The reader's wait in brackets, with its length inside or beside them."""
    strip = Strip(frame.axis.width)
    words = f"waited {seconds(wait[1] - wait[0])}"
    columns = frame.axis.columns(*wait)
    if not columns:
        strip.put(0, f"{words}, outside of this window"[: strip.width], Tone.QUIET)
        return strip
    bracket(strip, columns, frame.look, Tone.FAULT)
    if not strip.label(columns, words, Tone.FAULT):
        is_room = columns.stop + 1 + len(words) <= strip.width
        strip.put(columns.stop + 1 if is_room else max(columns.start - 1 - len(words), 0), words, Tone.FAULT)
    return strip


# Below the lanes: the axis, the legend, what to ask next.


def _axis_lines(axis: Axis, look: Look, name_cells: int) -> list[Line]:
    rule, labels = Strip(axis.width), Strip(axis.width)
    rule.fill(range(axis.width), look.marks.rule, Tone.QUIET)
    free = 0
    for column, label in axis.ticks():
        rule.put(column, look.marks.tick, Tone.QUIET)
        at = min(max(column - len(label) // 2, 0), axis.width - len(label))
        if at >= free:
            labels.put(at, label, Tone.QUIET)
            free = at + len(label) + 1
    unit = _margin("min:s" if axis.is_in_minutes else "seconds", name_cells, Tone.QUIET)
    return [(_margin("", name_cells), *rule.pieces()), (unit, *labels.pieces())]


def _legend(frame: Frame) -> list[Line]:
    """What the marks mean: only those that the picture has."""
    marks = frame.look.marks
    meanings = [
        (marks.content, "events, half height is the usual pace", Tone.FLOW),
        (marks.reasoning, "reasoning only", Tone.DOUBT),
        (marks.other, "keepalive or control only", Tone.QUIET),
        (marks.void, f"silence of {GAP_S} s or more", Tone.QUIET),
        (marks.blocked, "blocked: the next one did not read", Tone.FAULT),
        (marks.lag, "lag of our own sidecar", Tone.DOUBT),
        (marks.held, "held: arrived and not handed on", Tone.DOUBT),
        (marks.terminal, "end mark", Tone.STRONG),
        (marks.error, "error or broken off", Tone.FAULT),
        (marks.open, "still open", Tone.DOUBT),
    ]
    shown = [(f"{_sample(shapes)} {words}", tone) for shapes, words, tone in meanings if frame.drawn & set(shapes)]
    return toned_flow(shown, frame.look.width)


def _sample(shapes: str) -> str:
    return shapes[0] + shapes[len(shapes) // 2] + shapes[-1] if len(shapes) > 1 else shapes


def _commands(answer: TimelineAnswer, frame: Frame, whole: Stretch) -> list[tuple[str, str]]:
    request_id = shlex.quote(answer.request_id)
    commands = [(f"gapline why {request_id}", "the numbers")]
    if frame.wait is not None and 0 < len(frame.axis.columns(*frame.wait)) < ZOOM_BELOW_CELLS:
        start_s, end_s = frame.wait
        begin, end = max(2 * start_s - end_s, whole[0]), min(2 * end_s - start_s, whole[1])
        commands.append((f"gapline timeline {request_id} --from {begin:.2f} --to {end:.2f}", "the wait, enlarged"))
    return commands
