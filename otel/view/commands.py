"""The commands why, timeline and stalls: ask a collector, show the answer, and say by the exit code what it was.

Exit codes: 0 answered (why: healthy), 10 a cause is named, 11 inconclusive, 12 not found, 3 no answer from the
collector (unreachable, too slow, token refused, or not a collector), 2 usage, 1 an answer this version cannot read.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from otel.view import flags
from otel.view.answers import TimelineAnswer, read_stalls, read_timeline, read_verdict
from otel.view.asking import ANSWERED, INCONCLUSIVE, INTERRUPTED, NAMED, UNREADABLE, USAGE, NoAnswerError, Peer, ask
from otel.view.keys import AnswerError
from otel.view.listing import stalls as stalls_text
from otel.view.openapi import LIMIT
from otel.view.palette import Look
from otel.view.picture import extent
from otel.view.picture import timeline as timeline_text
from otel.view.terminal import why as why_text
from otel.view.text import clean, seconds


@dataclass(frozen=True, slots=True)
class Command:
    """How one command deals with its answer.

    show: the answer as text, and the keys that this version does not know; may raise AnswerError.
    code_of: the exit code that the answer means.
    """

    name: str
    show: Callable[[object, Look], tuple[str, Sequence[str]]]
    code_of: Callable[[Mapping[str, Any]], int]


def why(argv: Sequence[str], *, has_commands: bool = True) -> int:
    """`gapline why REQUEST_ID`: which hop made the reader of this request wait.

    has_commands: what to ask next is told, because the collector will still be there.
    """
    parser = flags.parser("why", "Which hop made the reader of this request wait, since when, and why.")
    parser.add_argument("request_id", metavar="REQUEST_ID", type=flags.request_id)
    args = parser.parse_args(argv)

    def show(answer: object, look: Look) -> tuple[str, Sequence[str]]:
        verdict = read_verdict(answer)
        return why_text(verdict, look, at=at(args), has_commands=has_commands), verdict.strangers

    code_of = {"healthy": ANSWERED, "named": NAMED, "inconclusive": INCONCLUSIVE}
    command = Command("why", show, lambda answer: code_of.get(str(answer.get("status")), UNREADABLE))
    return run(args, command, flags.collector_of(parser, args), f"/v1/requests/{_escaped(args.request_id)}/verdict")


def timeline(argv: Sequence[str], *, has_head: bool = True, has_commands: bool = True) -> int:
    """`gapline timeline REQUEST_ID`: the picture of the request, a lane per hop.

    has_head: the verdict is told above it. has_commands: as for `why`.
    """
    parser = flags.parser("timeline", "The picture of one request: a lane per hop, gaps marked, and who made the wait.")
    parser.add_argument("request_id", metavar="REQUEST_ID", type=flags.request_id)
    parser.add_argument("--from", dest="start_s", type=flags.instant, metavar="S", help="show from this second on")
    parser.add_argument("--to", dest="end_s", type=flags.instant, metavar="S", help="show up to this second")
    args = parser.parse_args(argv)
    if args.start_s is not None and args.end_s is not None and args.start_s >= args.end_s:
        parser.error(f"--from {args.start_s:g} must be less than --to {args.end_s:g}")

    def show(answer: object, look: Look) -> tuple[str, Sequence[str]]:
        read = read_timeline(answer)
        if error := _window_error(read, args):
            raise NoAnswerError(USAGE, error)
        shown = timeline_text(
            read,
            look,
            start_s=args.start_s,
            end_s=args.end_s,
            at=at(args),
            has_head=has_head,
            has_commands=has_commands,
        )
        return shown, read.strangers

    command = Command("timeline", show, lambda _: ANSWERED)
    return run(args, command, flags.collector_of(parser, args), f"/v1/requests/{_escaped(args.request_id)}/timeline")


def _window_error(read: TimelineAnswer, args: argparse.Namespace) -> str | None:
    """Why nothing of the answer lies between --from and --to."""
    if not read.taps:
        return None
    begin, end = extent(read.taps)
    if args.start_s is not None and args.start_s >= end:
        return f"--from {args.start_s:g}: the answer is only {seconds(end - begin)} long"
    if args.end_s is not None and args.end_s <= begin:
        return f"--to {args.end_s:g}: the answer begins at {seconds(begin)} and is {seconds(end - begin)} long"
    return None


def stalls(argv: Sequence[str]) -> int:
    """`gapline stalls`: the requests that waited, for people who have no id."""
    parser = flags.parser("stalls", "The requests that waited or broke off, newest first.")
    parser.add_argument("--since", type=flags.duration, default="1h", metavar="TIME", help="how far back [1h]")
    parser.add_argument("--model", metavar="NAME", help="only this model")
    parser.add_argument("--hop", metavar="NAME", help="only where this hop is named; client is the reader's end")
    parser.add_argument("--cause", metavar="CAUSE", help="only this cause, such as source_stall or slow_reader")
    parser.add_argument("--min-gap", type=flags.duration, metavar="TIME", help="only waits of at least this, like 5s")
    parser.add_argument("--limit", type=flags.limit, default=str(LIMIT), metavar="N", help=f"at most so many [{LIMIT}]")
    args = parser.parse_args(argv)

    def show(answer: object, look: Look) -> tuple[str, Sequence[str]]:
        read = read_stalls(answer)
        return stalls_text(read, look, question=_question(args)), read.strangers

    asked = {
        "since": f"{args.since:g}",
        "model": args.model,
        "hop": args.hop,
        "cause": args.cause,
        "min_gap": None if args.min_gap is None else f"{args.min_gap:g}",
        "limit": str(args.limit),
    }
    given = {name: value for name, value in asked.items() if value is not None}
    query = urlencode(given, quote_via=quote, errors="surrogateescape")
    command = Command("stalls", show, lambda _: ANSWERED)
    return run(args, command, flags.collector_of(parser, args), f"/v1/stalls?{query}")


def _escaped(request_id: str) -> str:
    """The id as one segment of a path: byte for byte as it was typed, also where that is no UTF-8."""
    return quote(request_id, safe="", errors="surrogateescape")


def at(args: argparse.Namespace) -> str:
    """What commands to try need to ask the same collector, when it was named on the command line."""
    return f" --collector {shlex.quote(clean(args.collector))}" if args.collector else ""


def _question(args: argparse.Namespace) -> str:
    """The filters in words, to stand behind `3 stalls` or `No stall`."""
    words = [f"in the last {spoken(args.since)}"]
    words += [f"{name} {clean(getattr(args, name))}" for name in ("model", "hop", "cause") if getattr(args, name)]
    words += [f"of {spoken(args.min_gap)} or more"] if args.min_gap else []
    return ", ".join(words)


def spoken(value_s: float) -> str:
    """A time that somebody typed, as people say it."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if value_s >= size and value_s % size == 0:
            return f"{value_s / size:g} {unit}"
    return f"{value_s:g} s"


# Ask, show, say what it was.


def run(args: argparse.Namespace, command: Command, peer: Peer, path: str) -> int:
    """Ask once, show the answer or say why there is none; the exit code."""
    try:
        answer = asyncio.run(ask(peer, path, timeout_s=args.timeout, if_missing=_IF_MISSING))
        code = command.code_of(answer)
        if args.json:
            put_out(json.dumps(answer, indent=2 if sys.stdout.isatty() else None) + "\n")
            return code
        text, strangers = command.show(answer, flags.look(args))
    except NoAnswerError as reason:
        complain(command.name, str(reason))
        return reason.code
    except AnswerError as error:
        complain(command.name, unreadable(error, peer.at))
        return UNREADABLE
    except RecursionError:
        complain(command.name, f"the answer of {peer.url} is nested too deeply to be shown")
        return UNREADABLE
    except KeyboardInterrupt:
        return INTERRUPTED
    put_out(text)
    if strangers:
        complain(
            command.name,
            f"the answer has keys that this gapline does not know: {', '.join(strangers[:SHOWN_STRANGERS])}",
        )
    return code


SHOWN_STRANGERS: Final = 5
_IF_MISSING: Final = "`gapline stalls` lists the requests that waited; a record may be a few seconds late."


def unreadable(error: AnswerError, at: str) -> str:
    """Why an answer of whoever was asked cannot be shown."""
    version = f"{at} and this gapline are of different versions; --json shows all of it"
    return f"the answer cannot be shown: {error}; {version}"


def complain(name: str, message: str) -> None:
    """One sentence for the person at the terminal, on stderr."""
    print(f"gapline {name}: {clean(message)}", file=sys.stderr)


def put_out(text: str) -> bool:
    """Write to stdout; False when nobody reads it any more, which is no failure."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has seen enough, as in `gapline why ID | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True
