"""The faults that a streaming hop must survive: what each is, which test plants it, and the table of both.

Every test says what it plants with `@fault(12, "connect refused: 502 at once")`, or with `@report("R101", ...)` for a
report from the field. `python -m tests.faults` prints the table; `test_table.py` checks that nothing is missing.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

Function = TypeVar("Function", bound=Callable[..., object])

FAULTS = {
    1: "the upstream closes in mid-chunk",
    2: "the upstream resets within the body",
    3: "a body shorter than its Content-Length",
    4: "a clean end without the terminal event",
    5: "the terminal event, and the connection stays open",
    6: "the terminal event, then a reset",
    7: "an error event, then a regular end",
    8: "the first event comes late, or too late",
    9: "a gap within the limit, or over it",
    10: "comments or pings, and nothing else, for ever",
    11: "the upstream accepts and never answers",
    12: "the upstream refuses, or does not even refuse",
    13: "a stream that lasts an hour",
    14: "our own event loop is late",
    15: "the client leaves before the first byte",
    16: "the client resets in mid-stream",
    17: "the client closes its sending side",
    18: "client and upstream end in the same moment",
    19: "a client that never reads",
    20: "a client that reads slowly",
    21: "a hundred stuck clients and a good one",
    22: "a line of many megabytes without an end",
    23: "a body cut at every byte",
    24: "a keepalive due where none may stand",
    25: "a keepalive before, between and after",
    26: "an answer that is an error, a redirect or a refusal",
    27: "a reset on a used connection before any byte of the answer",
    28: "a fault after the first byte of the answer",
    29: "the upstream closes idle connections as we use them",
    30: "more streams than may run",
    31: "memory runs out",
    32: "descriptors run out",
    33: "SIGTERM while streams run",
    34: "SIGTERM while a stream is stuck",
    35: "SIGKILL under load, and a start on the same port",
    36: "the upstream fails again and again",
    37: "requests made to be read in two ways",
    38: "answers made to be read in two ways",
    39: "heads that are long",
    40: "heads and bodies that come a byte at a time",
    41: "the collector is down, slow or failing",
    42: "no room for the log, or for the spool",
    43: "the wall clock steps",
    44: "all of it at once, for long",
    45: "chunks of every form in one body",
}

ELSEWHERE = {
    44: "`python -m tests.soak`",
}
"""Faults that no test of this folder plants, and why not or where."""


def fault(number: int, what: str) -> Callable[[Function], Function]:
    """This test plants that fault; what: the case, and what has to come of it."""
    if number not in FAULTS or number in ELSEWHERE or not what:
        raise ValueError(f"{number}: {what!r}: is none of the faults that this folder plants")
    return lambda function: function


def report(number: str, what: str) -> Callable[[Function], Function]:
    """This test repeats that report from the field."""
    if not (number[:1] == "R" and number[1:].isdigit() and what):
        raise ValueError(f"{number}: {what!r}: is no report")
    return lambda function: function


def planted(folder: Path = Path(__file__).parent) -> Iterator[tuple[int | str, str, str]]:
    """(fault or report, `file::test`, what it says) for every decorator in the folder, without importing a test."""
    for path in sorted(folder.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for each in node.decorator_list:
                    if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id in _NAMES:
                        number, what = (ast.literal_eval(argument) for argument in each.args)
                        yield number, f"{path.name}::{node.name}", what


_NAMES = ("fault", "report")


def table() -> str:
    """Every fault and the tests that plant it, in Markdown."""
    found: dict[int | str, list[str]] = {}
    for number, test, what in planted():
        file, _, name = test.partition("::")
        found.setdefault(number, []).append(f"{what}: `{file.removeprefix('test_').removesuffix('.py')}::{name[5:]}`")
    rows = [
        f"| {number} | {text} | {'<br>'.join(found.get(number, [ELSEWHERE.get(number, '')]))} |"
        for number, text in FAULTS.items()
    ]
    reports = sorted((number, tests) for number, tests in found.items() if isinstance(number, str))
    rows += [f"| {number} | from the field | {'<br>'.join(tests)} |" for number, tests in reports]
    return "\n".join(["| # | fault | expected: test |", "|---|---|---|", *rows]) + "\n"
