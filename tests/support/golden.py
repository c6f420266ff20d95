"""Golden files: text that a test compares with, rewritten on request and never by accident.

`GAPLINE_REWRITE_GOLDEN=1 pytest …` writes what the code says now. The vectors of the packed timeline are not
rewritten at all: see `tests.support.vectors`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "golden"
FROZEN = FOLDER / "timelines"


def golden(name: str, actual: str) -> str:
    """The text kept under tests/golden/NAME; when asked to rewrite, `actual` becomes it first."""
    path = FOLDER / name
    if os.environ.get("GAPLINE_REWRITE_GOLDEN"):
        if path.is_relative_to(FROZEN):
            raise PermissionError(f"{name} is frozen: a change of the format is a new format")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(actual, "utf-8")
    return path.read_text("utf-8")


def names(folder: str) -> set[str]:
    """Every golden file of one folder, so that a test can tell that it uses them all."""
    return {path.name for path in (FOLDER / folder).iterdir()}


def pretty(value: object, *, width: int = 160, indent: str = "") -> str:
    """JSON in which whatever fits into a line is one, so that a difference is a line that people can read."""
    line = json.dumps(value)
    if len(indent) + len(line) <= width or not value or not isinstance(value, dict | list | tuple):
        return line
    inner = indent + " "
    if not isinstance(value, dict):
        rows = [inner + pretty(item, width=width, indent=inner) for item in value]
        return "[\n" + ",\n".join(rows) + f"\n{indent}]"
    rows = [f"{inner}{json.dumps(key)}: {pretty(item, width=width, indent=inner)}" for key, item in value.items()]
    return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
