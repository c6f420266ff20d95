"""One verdict as text for a terminal, for a person with a pager at three in the morning.

The first line says it all; every section below is there to check it by hand. Lists run as the bytes ran, from the
source at the top to the reader at the bottom; the path on one line runs as the request did, from the client.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from otel.view.answers import HopRow, VerdictAnswer
from otel.view.bars import wait_title, waterfall_lines
from otel.view.facts import evidence_lines
from otel.view.palette import Line, Look, Piece, Tone, badge, render
from otel.view.path import path_lines
from otel.view.table import Column, flow, table
from otel.view.text import cells, count, cut, pad, seconds, shell_lines, size, wrap

_REACH: Final = {
    "consumed": ("", "as far as the client's own code, which consumed it"),
    "received": (" · as far as the client", "as far as the client; whether its code consumed it was not observed"),
    "reader_kernel": (
        " · as far as the reader's machine",
        "as far as the reader's machine; whether it was read there was not observed",
    ),
    "our_kernel": (
        " · as far as our own kernel",
        "as far as our own kernel; whether it reached the reader's machine was not observed",
    ),
}


def why(verdict: VerdictAnswer, look: Look, *, at: str = "", has_commands: bool = True) -> str:
    """The verdict on one request, each line at most look.width cells.

    at: what every command to try needs behind it, such as ` --collector URL`. has_commands: there are such commands.
    """
    lines = head(verdict, look)
    waterfall = waterfall_lines(verdict, look)
    if waterfall:
        lines += [(), *((Piece(line),) for line in wrap(wait_title(verdict), look.width)), *waterfall]
    for section in (path_lines(verdict, look), _hop_lines(verdict, look), _fact_lines(verdict, look)):
        lines += [(), *section] if section else []
    if has_commands:
        lines += [(), *command_lines(commands_after(verdict), look, at=at)]
    return render(lines, look)


def head(verdict: VerdictAnswer, look: Look) -> list[Line]:
    """The badge and the sentence, then which request this is and how sure the answer is."""
    label, tone = _badge_of(verdict)
    mark = badge(cut(label, look.width - 2), tone, look)
    first, *rest = wrap(verdict.sentence, look.width, taken=cells(mark.text) + 1)
    lines: list[Line] = [(mark, Piece(f" {first}", Tone.STRONG)), *((Piece(line, Tone.STRONG),) for line in rest)]
    facts = [
        f"request {verdict.request_id}",
        *dict.fromkeys(f"model {hop.model}" for hop in verdict.hops if hop.model),
        f"since {clock(verdict.since, verdict.as_of)} UTC" if verdict.since and verdict.status == "named" else "",
        f"confidence {verdict.confidence:.2f}" if verdict.status != "inconclusive" else "",
        f"{_settled(verdict)}, as of {clock(verdict.as_of, verdict.as_of)} UTC",
    ]
    return lines + [(Piece(line, Tone.QUIET),) for line in flow(facts, look.width)]


_ABSENT: Final = ("no record from ", "no tap between ")
"""How a note begins that says which hop is expected on the path and has not reported."""


def _settled(verdict: VerdictAnswer) -> str:
    """Whether the answer can still change, and what it rests on until then."""
    if verdict.verdict_final or verdict.open:
        return "final" if verdict.verdict_final else "open"
    if any(missing.startswith(_ABSENT) for missing in verdict.missing):
        return "not final: a hop may still report"
    hops = len({hop.hop for hop in verdict.hops})
    return f"{'1 hop has' if hops == 1 else f'{count(hops)} hops have'} reported, not final yet"


def _badge_of(verdict: VerdictAnswer) -> tuple[str, Tone]:
    still = " · still open" if verdict.open else ""
    match verdict.status:
        case "named":
            return f"{verdict.cause or 'named'} · {_named(verdict)}{still}", Tone.FAULT_BADGE
        case "healthy":
            reach, _ = _REACH.get(verdict.observed_to, (f" · {verdict.observed_to}", ""))
            return f"healthy{reach}{still}", Tone.FINE_BADGE
        case "inconclusive":
            return f"cannot tell{still}", Tone.DOUBT_BADGE
    return f"{verdict.status}{still}", Tone.DOUBT_BADGE


def _named(verdict: VerdictAnswer) -> str:
    """The hop that is named, or all of those that it may be: an owner such as `model-worker or gateway app`."""
    if verdict.owner and is_shared(verdict.owner):
        return verdict.owner.removesuffix(" app")
    return verdict.first_hop or "no hop"


def is_shared(owner: str) -> bool:
    """Several hops may be meant, because one in between is not observed."""
    return " or " in owner


def clock(at: str, today: str) -> str:
    """The time of day of an RFC 3339 time in UTC, with the date where it is not today's."""
    return at[11:19] if at[:10] == today[:10] else f"{at[5:10]} {at[11:19]}"


def _hop_lines(verdict: VerdictAnswer, look: Look) -> list[Line]:
    hops = verdict.hops
    if not hops:
        return []

    def each(shown: Callable[[HopRow], str]) -> list[Piece]:
        return [Piece(shown(hop)) for hop in hops]

    columns = [
        Column("hop", each(lambda hop: lane_name(hop.hop, hop.role)), least=12),
        Column("outcome", [_outcome(hop) for hop in hops], least=8),
        Column("events", each(lambda hop: count(hop.events)), is_number=True),
        Column("first", _times(hop.first_event_s for hop in hops), 1, is_number=True),
        Column("longest gap", _times(hop.longest_gap_s for hop in hops), is_number=True),
        Column("held", _times(hop.hold_s for hop in hops), 2, is_number=True),
        Column("blocked", _times(hop.blocked_s for hop in hops), is_number=True),
        Column("lag", _times(hop.lag_s for hop in hops), is_number=True),
        Column("took", _times(hop.duration_s for hop in hops), 3, is_number=True),
        Column("ended by", each(lambda hop: _or_dash(hop.ended_by)), 4),
        Column("in phase", each(lambda hop: _or_dash(hop.phase)), 5),
        Column("status", each(lambda hop: _or_dash(hop.status)), 6, is_number=True),
        Column("out", each(lambda hop: "-" if hop.bytes_out is None else size(hop.bytes_out)), 7, is_number=True),
        Column("comments", each(lambda hop: "-" if hop.comments is None else count(hop.comments)), 8, is_number=True),
    ]
    title, *rows = table(columns, look.width - 2)
    guilty = verdict.first_hop if verdict.status == "named" else None
    marks = [look.marks.guilty + " " if hop.hop == guilty else "  " for hop in hops]
    return [(Piece("  "), *title), *((Piece(mark, Tone.FAULT), *row) for mark, row in zip(marks, rows, strict=True))]


def lane_name(hop: str, role: str) -> str:
    return hop if role == "ingress" else f"{hop} ({role})"


def _outcome(hop: HopRow) -> Piece:
    if hop.outcome is None:
        return Piece("open", Tone.DOUBT)
    if hop.outcome == "complete":
        return Piece(hop.outcome)
    return Piece(f"{hop.outcome} ({hop.cut})" if hop.cut else hop.outcome, Tone.FAULT)


def _times(values: Iterable[float | None]) -> list[Piece]:
    return [Piece("-" if value is None else seconds(value), Tone.PLAIN if value else Tone.QUIET) for value in values]


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)


def _fact_lines(verdict: VerdictAnswer, look: Look) -> list[Line]:
    facts = evidence_lines(verdict.evidence, has_wait=verdict.wait is not None, peer=_peer(verdict))
    facts += [("missing", missing) for missing in verdict.missing]
    if verdict.wait is not None:
        _, seen = _REACH.get(verdict.observed_to, ("", verdict.observed_to))
        facts.append(("seen", seen))
    if not facts:
        return []
    name_cells = min(max(cells(name) for name, _ in facts), look.width // 4)
    lines: list[Line] = []
    for name, text in facts:
        tone = Tone.DOUBT if name == "missing" else Tone.PLAIN
        for index, line in enumerate(wrap(text, look.width - name_cells - 4)):
            lines.append((Piece("  " + pad("" if index else name, name_cells), Tone.QUIET), Piece("  " + line, tone)))
    return lines


def _peer(verdict: VerdictAnswer) -> str:
    """Whose machine is behind the tap of the named segment, where that is known."""
    if verdict.segment is None or is_shared(verdict.owner or ""):
        return "the next hop's machine"
    return "the reader's machine" if verdict.segment.to_hop == "client" else f"{verdict.segment.to_hop}'s machine"


def commands_after(verdict: VerdictAnswer) -> list[tuple[str, str]]:
    """(command, what it answers): what a person may want to ask next, quoted for a shell."""
    request_id = shlex.quote(verdict.request_id)
    commands = [(f"gapline timeline {request_id}", "the picture")]
    if verdict.open:
        commands.append((f"watch gapline why {request_id}", "it is still running"))
    if verdict.status == "named" and verdict.cause and verdict.first_hop:
        narrowed = f"--cause {shlex.quote(verdict.cause)} --hop {shlex.quote(verdict.first_hop)}"
        return [*commands, (f"gapline stalls --since 1h {narrowed}", "is it the only one?")]
    return [*commands, ("gapline stalls --since 1h", "what else waited")]


def command_lines(commands: Sequence[tuple[str, str]], look: Look, *, at: str) -> list[Line]:
    """Commands to paste, with what each answers where there is room for all of it."""
    command_cells = max(cells(command + at) for command, _ in commands)
    lines: list[Line] = []
    for command, purpose in commands:
        shown = shell_lines(command + at, look.width)
        lines += ((Piece(line),) for line in shown)
        if len(shown) == 1 and 2 + command_cells + 3 + cells(purpose) <= look.width:
            lines[-1] += (Piece(" " * (2 + command_cells - cells(shown[0]) + 3) + purpose, Tone.QUIET),)
    return lines
