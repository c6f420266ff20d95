"""The tables of a run: every contender under every load, and the figures that must be reached, met or not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tests.bench.contenders import NGINX, PLAIN, Contender
from tests.bench.goals import FIGURES, OVERVIEW, Goal, Row
from tests.bench.loads import LOADS, Load
from tests.bench.results import Results
from tests.bench.spreads import Spread
from tests.bench.stored import AIM_BYTES, MUST_BYTES, Stored

FULL = 0.93
"""Of a core: in the real-time class nobody gets more than 95 %."""
NONE = "–"
"""Not measured, or something was wrong: then it is told below the table."""


def markdown(
    results: Results,
    contenders: Sequence[Contender],
    rows: Sequence[Row],
    *,
    subject: str,
    stored: Sequence[Stored],
    about: Mapping[str, str],
) -> str:
    """Everything. subject: the contender that has to reach the figures."""
    parts = [
        ", ".join(about.values()),
        overview(results, contenders),
        *(each for load in LOADS.values() if (each := load_table(results, contenders, load)) is not None),
        goal_table(results, rows, subject=subject, stored=stored),
    ]
    return "\n\n".join(parts)


def overview(results: Results, contenders: Sequence[Contender]) -> str:
    """Every contender in one line."""
    lines = []
    for each in contenders:
        spreads = [(results.alone(load.name, each.name, figure), form) for _, load, figure, form in OVERVIEW]
        if any(spread is not None for spread, _ in spreads):
            lines.append(
                [each.title, *(NONE if spread is None else form.format(spread.median) for spread, form in spreads)]
            )
    return "\n".join(_table(["medians", *(head for head, *_ in OVERVIEW)], lines))


def load_table(results: Results, contenders: Sequence[Contender], load: Load) -> str | None:
    """Every contender that was under this load; None where none was."""
    there = [each for each in contenders if (load.name, each.name) in results.taken]
    if not there:
        return None
    figures = FIGURES[load.name]
    (leading, first, _), *_ = figures
    others = [name for name in (NGINX, PLAIN) if not load.is_of_memory and (load.name, name) in results.taken]
    heads = [load.title, *(title for title, _, _ in figures), *(f"{leading.split()[0]} ÷ {name}" for name in others)]
    lines, faults = [], []
    for each in there:
        cells = [_text(results.alone(load.name, each.name, figure), form) for _, figure, form in figures]
        cells += [_text(results.ratio(load.name, each.name, other, first), "{:.2f}") for other in others]
        lines.append([each.title, *cells])
        if wrong := results.faults(load.name, each.name):
            faults.append(f"{each.title} has no figure: {'; '.join(wrong)[:300]}")
        elif max(taken.load_share for taken in results.taken[load.name, each.name]) > FULL:
            faults.append(f"{each.title}: upstream and readers had no more to give, so it may have more")
    return "\n".join([*_table(heads, lines), *(f"\n{fault}" for fault in faults)])


def goal_table(results: Results, rows: Sequence[Row], *, subject: str, stored: Sequence[Stored]) -> str:
    """The figures that must be reached."""
    lines = []
    for row in rows:
        whose = row.of or subject
        reached = [goal.of(results, whose) for goal in row.must]
        lines.append(
            [
                str(row.number),
                row.title,
                "; ".join(goal.text for goal in row.must),
                row.aim.text,
                "; ".join(_text(spread, goal.form, goal.unit) for goal, spread in zip(row.must, reached, strict=True)),
                _aimed(row, results, whose),
                _verdict(row, results, whose),
            ]
        )
    if stored:
        lines.append(_stored_line(stored))
    return "\n".join(_table(["#", "figure", "must", "aim", "reached", "of the aim", "met"], lines))


def as_json(
    results: Results, rows: Sequence[Row], *, subject: str, stored: Sequence[Stored], about: Mapping[str, str]
) -> dict[str, Any]:
    """Everything, for programs, and for the tables of a later run."""
    return {
        "about": dict(about),
        "results": results.as_json(),
        "rows": [
            {
                "row": row.number,
                "title": row.title,
                "met": _verdict(row, results, row.of or subject),
                **_goals(row, results, row.of or subject),
            }
            for row in rows
        ],
        "stored_bytes_per_event": {each.shape: round(each.bytes_per_event, 3) for each in stored},
    }


def _goals(row: Row, results: Results, subject: str) -> dict[str, Any]:
    return {
        "must": [_goal(goal, goal.of(results, subject)) for goal in row.must],
        "aim": _goal(row.aim, row.aim.of(results, subject)),
    }


def _goal(goal: Goal, reached: Spread | None) -> dict[str, Any]:
    spread = None if reached is None else {"median": reached.median, "least": reached.least, "most": reached.most}
    return {"limit": goal.limit, "is_least": goal.is_least, "reached": spread}


def _verdict(row: Row, results: Results, subject: str) -> str:
    reached = [(goal, goal.of(results, subject)) for goal in row.must]
    if any(spread is None for _, spread in reached):
        return "not measured"
    if not all(spread is not None and goal.is_met(spread) for goal, spread in reached):
        return "no"
    aimed = row.aim.of(results, subject)
    return "aim" if aimed is not None and row.aim.is_met(aimed) else "must"


def _aimed(row: Row, results: Results, subject: str) -> str:
    """What was reached of an aim that is compared with something else than the must."""
    (first, *_) = row.must
    is_same = (row.aim.figure, row.aim.against, row.aim.compared) == (first.figure, first.against, first.compared)
    return "" if is_same else _text(row.aim.of(results, subject), row.aim.form, row.aim.unit)


def _stored_line(stored: Sequence[Stored]) -> list[str]:
    """By the shape that takes most."""
    spread = Spread.of([each.bytes_per_event for each in stored])
    assert spread is not None
    met = "aim" if spread.most <= AIM_BYTES else "must" if spread.most <= MUST_BYTES else "no"
    limits = [f"≤ {limit:.0f} bytes" for limit in (MUST_BYTES, AIM_BYTES)]
    return ["10", "stored timeline, bytes per event", *limits, spread.text("{:.1f}"), "", met]


def _text(spread: Spread | None, form: str, unit: str = "") -> str:
    return NONE if spread is None else spread.text(form, unit)


def _table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> Iterator[str]:
    """Columns of one width, so that it reads well as text, too."""
    cells = [list(heads), *map(list, lines)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(heads))]
    for number, line in enumerate(cells):
        yield "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        if number == 0:
            yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"
