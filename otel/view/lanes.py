"""One lane of a picture: the events of a tap by column, its silences as marked voids, and what the tap was doing.

The height of a mark is the number of events in its column: half height is the usual pace of this request.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import Final

from otel.view.answers import Stretch, Tap
from otel.view.palette import Look, Strip, Tone
from otel.view.scale import Axis
from otel.view.text import seconds

GAP_S: Final = 0.25  # a silence from here on is drawn as a void: shorter ones are the pulse of a stream


@dataclass(frozen=True, slots=True)
class Frame:
    """What all lanes share: the axis, the usual number of events in a column, the wait on the axis, the look.

    drawn gathers the marks of the lanes for the legend.
    """

    axis: Axis
    usual: float
    wait: Stretch | None
    look: Look
    drawn: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Columns:
    """The events of one lane by column, and the stretches in which an event had arrived and was not handed on."""

    content: list[int]
    reasoning: list[int]
    other: list[int]
    terminal: set[int] = field(default_factory=set)
    error: set[int] = field(default_factory=set)
    held: list[Stretch] = field(default_factory=list)

    def has_output(self, column: int) -> bool:
        """Whether more than keepalive and control lies in the column."""
        is_marked = column in self.terminal or column in self.error
        return is_marked or bool(self.content[column] or self.reasoning[column])


def lay(tap: Tap, axis: Axis) -> Columns:
    """The events of the tap on the columns of the axis."""
    laid = Columns([0] * axis.width, [0] * axis.width, [0] * axis.width)
    for arrived_s, taken_s, event_class in tap.stamps:
        held_until = tap.duration_s if taken_s is None else taken_s
        if held_until - arrived_s >= GAP_S:
            laid.held.append((arrived_s, held_until))
        column = axis.column(tap.shift_s + arrived_s)
        if not 0 <= column < axis.width:
            continue
        match event_class:
            case "content" | "tool" | "opaque":
                laid.content[column] += 1
            case "reasoning":
                laid.reasoning[column] += 1
            case "terminal":
                laid.terminal.add(column)
            case "error":
                laid.error.add(column)
            case _:
                laid.other[column] += 1
    return laid


def usual_count(lanes: Iterable[Columns]) -> float:
    """The number of events in the typical column that has any."""
    counts = [n for lane in lanes for kind in (lane.content, lane.reasoning) for n in kind if n]
    return max(1.0, float(median(counts))) if counts else 1.0


def handed_on(tap: Tap) -> Tap:
    """The lane behind the tap: every event at the time when our kernel took it."""
    stamps = tuple((taken_s, taken_s, event_class) for _, taken_s, event_class in tap.stamps if taken_s is not None)
    gaps = tuple((a[0], b[0]) for a, b in pairwise(stamps) if b[0] - a[0] >= GAP_S)
    return replace(tap, stamps=stamps, gaps=gaps)


def event_strip(tap: Tap, laid: Columns, frame: Frame) -> Strip:
    """The upper line of a lane: events, silences, and how it ended."""
    axis, marks = frame.axis, frame.look.marks
    strip = Strip(axis.width)
    for silence in silences(tap):
        _draw_silence(strip, laid, silence, tap.shift_s, frame)
    for column in range(axis.width):
        if column in laid.error:
            strip.fill((column,), marks.error, Tone.FAULT)
        elif column in laid.terminal:
            strip.fill((column,), marks.terminal, Tone.STRONG)
        elif laid.content[column]:
            strip.fill((column,), level(marks.content, laid.content[column], frame.usual), Tone.FLOW)
        elif laid.reasoning[column]:
            strip.fill((column,), level(marks.reasoning, laid.reasoning[column], frame.usual), Tone.DOUBT)
        elif laid.other[column] and strip.mark_at(column) in {" ", marks.void}:
            strip.fill((column,), marks.other, Tone.QUIET)
    end_s = tap.shift_s + tap.duration_s
    if tap.outcome is None:
        strip.fill(axis.columns(end_s, end_s), marks.open, Tone.DOUBT)
    elif tap.outcome != "complete":
        strip.fill(axis.columns(end_s, end_s), marks.error, Tone.FAULT)
    frame.drawn.update(strip.drawn)
    return strip


def level(levels: str, events: int, usual: float) -> str:
    """Half height at the usual number of events, full from four times it on.

    One event more or less is where the edge of a column fell, and not pace.
    """
    pace = 1.0 if abs(events - usual) <= 1 else events / usual
    height = len(levels) / 2 - 1 + len(levels) / 4 * math.log2(pace)
    return levels[min(max(round(height), 0), len(levels) - 1)]


@dataclass(frozen=True, slots=True)
class Silence:
    """A stretch of a lane without events; its length is written into it where there is room, and the words too."""

    start_s: float
    end_s: float
    words: str = ""

    @property
    def length(self) -> str:
        return seconds(self.end_s - self.start_s)


def silences(tap: Tap) -> list[Silence]:
    """The gaps, and the silences before the first event and after the last one."""
    found = [Silence(start_s, end_s) for start_s, end_s in tap.gaps]
    if not tap.stamps:
        return [*found, Silence(0.0, tap.duration_s, "without an event")]
    first, last = tap.stamps[0], tap.stamps[-1]
    if first[0] >= GAP_S and first[0] not in {end_s for _, end_s in tap.gaps}:
        found.append(Silence(0.0, first[0], "to the first event"))
    if tap.duration_s - last[0] >= GAP_S and last[2] != "terminal":
        found.append(Silence(last[0], tap.duration_s, "to the end" if tap.outcome else "so far"))
    return found


def _draw_silence(strip: Strip, laid: Columns, silence: Silence, shift_s: float, frame: Frame) -> None:
    start_s, end_s = silence.start_s + shift_s, silence.end_s + shift_s
    columns = [column for column in frame.axis.columns(start_s, end_s) if not laid.has_output(column)]
    if not columns:
        return
    is_awaited = frame.wait is not None and start_s < frame.wait[1] and end_s > frame.wait[0]
    tone = Tone.FAULT if is_awaited else Tone.QUIET
    strip.fill(columns, frame.look.marks.void, tone)
    room = range(columns[0], columns[-1] + 1)
    if len(columns) == len(room) and not strip.label(room, f"{silence.length} {silence.words}".strip(), tone):
        strip.label(room, silence.length, tone)


def state_strip(tap: Tap, laid: Columns, frame: Frame) -> Strip:
    """The lower line of a lane: events held, blocked on the reader, or late because our own loop lagged."""
    marks = frame.look.marks
    strip = Strip(frame.axis.width)
    states: tuple[tuple[Sequence[Stretch], str, str, Tone], ...] = (
        (joined(laid.held), marks.held, "held", Tone.DOUBT),
        (tap.blocked, marks.blocked, "blocked", Tone.FAULT),
        (tap.lag, marks.lag, "lag", Tone.DOUBT),
    )
    for stretches, mark, word, tone in states:
        for start_s, end_s in stretches:
            columns = frame.axis.columns(tap.shift_s + start_s, tap.shift_s + end_s)
            strip.fill(columns, mark, tone)
            strip.label(columns, f"{word} {seconds(end_s - start_s)}", tone)
    frame.drawn.update(strip.drawn)
    return strip


def joined(stretches: Iterable[Stretch]) -> list[Stretch]:
    """The stretches in order, those that touch made one."""
    made: list[Stretch] = []
    for start_s, end_s in sorted(stretches):
        if made and start_s <= made[-1][1]:
            made[-1] = (made[-1][0], max(made[-1][1], end_s))
        else:
            made.append((start_s, end_s))
    return made
