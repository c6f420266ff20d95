"""The flags that all commands which ask have in common, and what follows from them: whom to ask, and how to draw."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable
from typing import Final, TypeVar

from otel import settings
from otel.view.asking import Peer
from otel.view.openapi import LIMIT_MAX
from otel.view.palette import NARROWEST_CELLS, Look

DEFAULT_COLLECTOR: Final = "http://127.0.0.1:24070"
DEFAULT_TIMEOUT: Final = "10s"
UNSEEN_CELLS: Final = 100  # the width of what no terminal shows: a pipe, a file, a ticket
URL_VARIABLE: Final = "GAPLINE_COLLECTOR_URL"
TOKEN_VARIABLE: Final = "GAPLINE_TOKEN"  # noqa: S105  # the name of the variable
COLLECTOR_TOKEN_VARIABLE: Final = "GAPLINE_COLLECTOR_TOKEN"  # noqa: S105  # set where the collector itself runs
EPILOG: Final = (
    "Exit codes: 0 answered (why: healthy), 10 a cause is named, 11 inconclusive, 12 not found, 3 no answer from the "
    "collector, 2 usage, 1 the answer cannot be read."
)

_Value = TypeVar("_Value")


def _typed(parse: Callable[[str], _Value]) -> Callable[[str], _Value]:
    """A parser for argparse, which shows the message of no other error than its own."""

    def parse_flag(text: str) -> _Value:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r} {error}") from None

    return parse_flag


def _between(kind: str, parse: Callable[[str], _Value], low: _Value, high: _Value) -> Callable[[str], _Value]:
    def parse_flag(text: str) -> _Value:
        try:
            value = parse(text)
        except ValueError:  # a part of the rule
            value = None
        if value is None or not low <= value <= high:  # type: ignore[operator]  # numbers only
            raise ValueError(f"must be {kind} from {low} to {high}")
        return value

    return _typed(parse_flag)


request_id = _typed(settings.text)
duration = _typed(settings.seconds)
instant = _between("seconds", float, -1e9, 1e9)  # seconds on the picture's axis; a request of 30 years is a typo
limit = _between("a whole number", settings.count, 1, LIMIT_MAX)
_width = _between("a whole number", settings.count, NARROWEST_CELLS, 1_000)


def parser(name: str, description: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog=f"gapline {name}", description=description, epilog=EPILOG)
    made.add_argument("--collector", metavar="URL", help=f"the collector to ask [{DEFAULT_COLLECTOR}; {URL_VARIABLE}]")
    made.add_argument("--token", help=f"the token that it wants; better kept in {TOKEN_VARIABLE}")
    made.add_argument(
        "--timeout", type=duration, default=DEFAULT_TIMEOUT, metavar="TIME", help=f"for the answer [{DEFAULT_TIMEOUT}]"
    )
    made.add_argument("--json", action="store_true", help="the answer as one JSON object, indented on a terminal")
    made.add_argument(
        "--width", type=_width, metavar="N", help=f"cells of a line [the terminal's, else {UNSEEN_CELLS}]"
    )
    made.add_argument("--ascii", action="store_true", help="draw with ASCII characters only")
    made.add_argument("--color", action=argparse.BooleanOptionalAction, help="[on a terminal, unless NO_COLOR is set]")
    return made


def look(args: argparse.Namespace) -> Look:
    is_terminal = sys.stdout.isatty()
    is_colour = args.color
    if is_colour is None:
        is_colour = is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = args.width or max(shutil.get_terminal_size((UNSEEN_CELLS, 24)).columns, NARROWEST_CELLS)
    is_ascii = args.ascii or "utf" not in (sys.stdout.encoding or "").lower()
    return Look(width=width, is_colour=is_colour, is_ascii=is_ascii)


def collector_of(parser: argparse.ArgumentParser, args: argparse.Namespace) -> Peer:
    """The collector that flags or variables name; a wrong one ends the command."""
    named = args.collector or os.environ.get(URL_VARIABLE) or DEFAULT_COLLECTOR
    try:
        url = http_url(named)
    except ValueError as error:
        parser.error(f"the collector's URL {named!r} {error}")
    token = args.token or next(filter(None, map(_variable, (TOKEN_VARIABLE, COLLECTOR_TOKEN_VARIABLE))), "")
    if not (token.isascii() and token.isprintable()):
        parser.error("the token must be printable ASCII")
    return Peer(
        kind="collector",
        url=url,
        token=token,
        if_absent=f"Is it running (`gapline collector`)? Name another with --collector or {URL_VARIABLE}.",
        wants="a token",
        if_refused=f"give it in {TOKEN_VARIABLE} or with --token",
    )


def http_url(text: str) -> str:
    """A URL of ours; HOST:PORT is short for http://HOST:PORT. Raises ValueError."""
    return settings.http_url(text if "://" in text else f"http://{text}")


def _variable(name: str) -> str:
    return os.environ.get(name, "").strip()  # the newline that ends a secret file is no part of it
