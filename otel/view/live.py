"""The streams that are open now, as text for a terminal: the oldest silence first.

A collector tells of those that sidecars told it of, a sidecar of all its own; both are read into the same rows. A
request id is what people copy from this list, so it is never cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from otel.view.keys import Keys
from otel.view.palette import Line, Look, Piece, Tone, render
from otel.view.table import Column, table
from otel.view.text import count, seconds, wrap

STALLED_S: Final = 2.0
"""A silence from which on a stream is called stalled where its sidecar does not say: the default of --stall-after."""
LONG_S: Final = 10.0
"""A silence from which on it is shown as a fault, and not as a doubt."""
NARROW_CELLS: Final = 100  # on a narrower line the id goes below its row


UNSHOWN: Final = ("trace_id", "span_id", "method", "path", "probe", "dimensions", "buffered_bytes", "worker")
"""What an answer also has, and those of a sidecar only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRow:
    """One open stream. told_s: since its sidecar told of it, 0 where that was asked itself. is_queued: for a place.

    stall_cause: why its reader's side holds it up, None also where that is not told.
    """

    request_id: str
    hop: str
    listener: str | None
    model: str | None
    status: int | None
    phase: str
    age_s: float
    silent_s: float
    told_s: float
    events: int
    is_blocked: bool
    is_stalled: bool
    stall_cause: str | None = None
    is_queued: bool = False
    is_probe: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveAnswer:
    """The rows, and how many streams are open in all. strangers: keys that this version does not know."""

    rows: tuple[LiveRow, ...]
    open_count: int
    has_more: bool
    strangers: tuple[str, ...]


def read_live(answer: object) -> LiveAnswer:
    """What a collector answered, or `of_sidecar` made. Raises AnswerError."""
    keys = Keys(answer)
    keys.instant("as_of")
    streams = keys.each("streams")
    for each in streams:
        each.ignore(*UNSHOWN)
    rows = tuple(
        LiveRow(
            request_id=each.text("request_id"),
            hop=each.text("hop"),
            listener=each.maybe_text("listener"),
            model=each.maybe_text("model"),
            status=each.maybe_whole("status"),
            phase=each.text("phase"),
            age_s=each.seconds("age_s"),
            silent_s=each.seconds("silent_s"),
            told_s=each.seconds("told_s"),
            events=each.whole("events"),
            is_blocked=each.flag("is_blocked"),
            is_stalled=each.flag("is_stalled"),
            stall_cause=each.maybe_text("stall_cause") if each.has("stall_cause") else None,
            is_queued=_is_set(each, "is_queued"),
            is_probe=_is_set(each, "is_probe"),
        )
        for each in streams
    )
    open_count, has_more = keys.whole("open"), keys.flag("has_more")
    return LiveAnswer(rows=rows, open_count=open_count, has_more=has_more, strangers=keys.strangers())


def of_sidecar(answer: object, *, as_of: str, is_stalled: bool, min_silence_s: float, limit: int) -> dict[str, object]:
    """What a sidecar answered at `/streams`, as a collector would answer that question. Raises AnswerError."""
    streams = Keys(answer).each("streams")
    found = []
    for each in streams:
        silent_s = each.seconds("silent_s")
        stalled = (
            each.flag("is_stalled")
            if each.has("is_stalled")
            else silent_s >= STALLED_S and not _is_set(each, "is_queued")
        )
        if silent_s >= min_silence_s and (stalled or not is_stalled):
            order = (-silent_s, -each.seconds("age_s"))
            found.append(
                (order, {**each.given, "is_stalled": stalled, "is_probe": _is_set(each, "probe"), "told_s": 0.0})
            )
    found.sort(key=lambda each: each[0])
    return {
        "as_of": as_of,
        "streams": [stream for _, stream in found[:limit]],
        "open": len(streams),
        "has_more": len(found) > limit,
    }


def _is_set(keys: Keys, key: str) -> bool:
    """A flag that not everybody answers with."""
    return keys.has(key) and keys.flag(key)


def live(
    answer: LiveAnswer, look: Look, *, where: str, question: str = "", at: str = "", height: int | None = None
) -> str:
    """The open streams in lines of at most look.width cells, in at most height lines where that is given.

    where: whose they are, such as ` at URL`. question: what was asked, such as `stalled`. at: what a command to try
    needs to ask the same collector.
    """
    if not answer.rows:
        return render(
            [(Piece(line),) for text in _nothing(answer, where, question) for line in _lines(text, look)], look
        )
    ends: list[Line] = [()]
    for text in _ends(answer, where, question, at):
        ends += [(Piece(line, Tone.QUIET),) for line in _lines(text, look)]
    title, *rows = _rows(answer.rows, look)
    if height is not None and 1 + sum(map(len, rows)) + len(ends) > height:
        if height < 3 * len(ends):
            ends = []  # on so small a screen the streams are more worth than what is said of them
        is_enough = 1 + sum(map(len, rows)) + len(ends) <= height
        rows, hidden = _fitting(rows, height - 1 - len(ends) - (not is_enough))
        if hidden:
            ends.insert(0, (Piece(f"  … {count(hidden)} more", Tone.QUIET),))
    return render([*title, *(line for row in rows for line in row), *ends], look)


def _fitting(rows: Sequence[list[Line]], room: int) -> tuple[list[list[Line]], int]:
    kept: list[list[Line]] = []
    for row in rows:
        room -= len(row)
        if room < 0:
            break
        kept.append(row)
    return kept, len(rows) - len(kept)


def _rows(rows: Sequence[LiveRow], look: Look) -> list[list[Line]]:
    """The title, and the lines of each row: one where the id has room in it, else the id below."""
    width = look.width - 2
    columns = _columns(rows)
    kept = [column for column in columns.values() if not column.rank]
    is_wide = look.width >= NARROW_CELLS and sum(column.narrowest + 2 for column in kept) <= width + 2
    if not is_wide:
        del columns["request"]
    title, *lines = table(list(columns.values()), width)
    made: list[list[Line]] = [[(Piece("  "), *title)]]
    for row, line in zip(rows, lines, strict=True):
        mark = look.marks.guilty if row.is_stalled else " "
        made.append([(Piece(f"{mark} ", _tone(row)), *line)])
        if not is_wide:
            made[-1] += [(Piece("    " + part),) for part in wrap(row.request_id, look.width - 4)]
    return made


def _columns(rows: Sequence[LiveRow]) -> dict[str, Column]:
    columns = {
        "silent": Column("silent", [Piece(seconds(row.silent_s), _tone(row)) for row in rows], is_number=True),
        "age": Column("age", [Piece(seconds(row.age_s)) for row in rows], is_number=True),
        "phase": Column("phase", [Piece("queued" if row.is_queued else row.phase) for row in rows], least=11),
        "hop": Column("hop", [Piece(row.hop) for row in rows], least=10),
        "request": Column("request", [Piece(row.request_id) for row in rows]),
        "events": Column("events", [Piece(count(row.events)) for row in rows], is_number=True),
        "reader": Column("reader", [_reader(row) for row in rows]),
        "model": Column("model", [Piece(_or_dash(row.model)) for row in rows], 1, least=12),
        "told": Column("told", [Piece(f"{seconds(row.told_s)} ago", Tone.QUIET) for row in rows], 2, is_number=True),
        "status": Column("status", [Piece(_or_dash(row.status)) for row in rows], 3, is_number=True),
        "listener": Column("listener", [Piece(_or_dash(row.listener)) for row in rows], 4, least=10),
    }
    if any(row.is_probe for row in rows):
        columns["probe"] = Column("probe", [Piece("probe" if row.is_probe else "-", Tone.QUIET) for row in rows], 2)
    if not any(row.told_s for row in rows):
        del columns["told"]
    return columns


def _tone(row: LiveRow) -> Tone:
    if row.is_stalled or row.silent_s >= STALLED_S:
        return Tone.FAULT if row.silent_s >= LONG_S else Tone.DOUBT
    return Tone.PLAIN


def _reader(row: LiveRow) -> Piece:
    if row.stall_cause is not None:
        return Piece(row.stall_cause, _tone(row))
    return Piece("blocked", Tone.FLOW) if row.is_blocked else Piece("-", Tone.QUIET)


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)


def _lines(text: str, look: Look) -> list[str]:
    return wrap(text, look.width)


def _ends(answer: LiveAnswer, where: str, question: str, at: str) -> list[str]:
    shown = len(answer.rows)
    number = "1 open stream" if answer.open_count == 1 else f"{count(answer.open_count)} open streams"
    asked = f", {count(shown)}{' and more' * answer.has_more} {question}" if question else ""
    stalled = "" if question else f", {count(sum(row.is_stalled for row in answer.rows))} stalled"
    ends = [f"{number}{where}{asked}{stalled}. `gapline why REQUEST_ID{at}` says what is known of one."]
    if answer.has_more and not question:
        ends.append(f"Only {count(shown)} of them are shown: the oldest silences.")
    if any(row.told_s for row in answer.rows):
        ends.append("Silence is as last told; that of a stalled stream goes on until its sidecar says otherwise.")
    return ends


def _nothing(answer: LiveAnswer, where: str, question: str) -> list[str]:
    if answer.open_count:
        number = "1 stream is" if answer.open_count == 1 else f"{count(answer.open_count)} streams are"
        return [f"{number} open{where}, none {question or 'of those asked for'}."]
    if where:
        return [f"No stream is open{where}."]
    return ["No open stream was told of: a sidecar tells of one that stalls or runs for longer than its --heartbeat."]
