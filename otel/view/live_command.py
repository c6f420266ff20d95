"""The command live: which streams are open now, as a collector knows of all sidecars, or one sidecar of itself."""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

from otel.instants import rfc3339
from otel.view import flags
from otel.view.asking import ANSWERED, INTERRUPTED, UNREADABLE, NoAnswerError, Peer, ask
from otel.view.commands import at, complain, put_out, spoken, unreadable
from otel.view.keys import AnswerError
from otel.view.live import LiveAnswer, of_sidecar, read_live
from otel.view.live import live as live_text
from otel.view.openapi import LIMIT_MAX, LIVE_PATH
from otel.view.text import clean

NAME: Final = "live"
STREAMS_PATH: Final = "/streams"
BETWEEN_S: Final = 1.0
"""Between two looks of --watch."""
_ENTER: Final = "\x1b[?1049h\x1b[?25l"
"""The terminal's other screen, without a cursor: what stood there before comes back at the end."""
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
_BY_SIGNAL: Final = 128
"""And its number: how shells tell what ended a program."""


def live(argv: Sequence[str]) -> int:
    """`gapline live`: the streams that are open now, the oldest silence first."""
    parser = flags.parser(NAME, "The streams that are open now, the oldest silence first.")
    parser.add_argument(
        "--sidecar", metavar="URL", help="ask this sidecar at its admin address, on its own machine, not a collector"
    )
    parser.add_argument("--watch", action="store_true", help="look again each second, until interrupted")
    parser.add_argument("--stalled", action="store_true", help="only streams that have fallen silent")
    parser.add_argument(
        "--min-silence",
        type=flags.duration,
        default=0.0,
        metavar="TIME",
        help="only silences of at least this, like 5s",
    )
    parser.add_argument(
        "--limit", type=flags.limit, default=LIMIT_MAX, metavar="N", help=f"at most so many [{LIMIT_MAX}]"
    )
    args = parser.parse_args(argv)
    peer = _peer(parser, args)
    question = partial(_asked_of_sidecar if args.sidecar else _asked_of_collector, peer, args)
    try:
        return _watch(args, question) if args.watch else _once(args, question)
    except NoAnswerError as reason:
        complain(NAME, str(reason))
        return reason.code
    except AnswerError as error:
        complain(NAME, unreadable(error, f"the {'sidecar' if args.sidecar else 'collector'}"))
        return UNREADABLE
    except RecursionError:
        complain(NAME, f"the answer of {peer.url} is nested too deeply to be shown")
        return UNREADABLE
    except KeyboardInterrupt:
        return INTERRUPTED


def _peer(parser: argparse.ArgumentParser, args: argparse.Namespace) -> Peer:
    if not args.sidecar:
        return flags.collector_of(parser, args)
    if args.collector:
        parser.error("--sidecar and --collector: one of them is asked, not both")
    try:
        url = flags.http_url(args.sidecar)
    except ValueError as error:
        parser.error(f"the sidecar's URL {args.sidecar!r} {error}")
    return Peer(
        kind="sidecar",
        url=url,
        if_absent="Is that its --admin address?",
        wants="callers on its own machine",
        if_refused="run this there, and name the sidecar by a loopback address",
    )


def _asked_of_collector(peer: Peer, args: argparse.Namespace) -> dict[str, Any]:
    wanted = {"limit": str(args.limit)}
    wanted |= {"stalled": "true"} if args.stalled else {}
    wanted |= {"min_silence": f"{args.min_silence:g}"} if args.min_silence else {}
    return asyncio.run(ask(peer, f"{LIVE_PATH}?{urlencode(wanted)}", timeout_s=args.timeout))


def _asked_of_sidecar(peer: Peer, args: argparse.Namespace) -> dict[str, Any]:
    answer = asyncio.run(ask(peer, STREAMS_PATH, timeout_s=args.timeout))
    return of_sidecar(
        answer,
        as_of=rfc3339(time.time_ns()),
        is_stalled=args.stalled,
        min_silence_s=args.min_silence,
        limit=args.limit,
    )


def _once(args: argparse.Namespace, question: Callable[[], dict[str, Any]]) -> int:
    answer = question()
    if args.json:
        put_out(json.dumps(answer, indent=2 if sys.stdout.isatty() else None) + "\n")
        return ANSWERED
    read = read_live(answer)
    put_out(_text(read, args))
    if read.strangers:
        complain(NAME, f"the answer has keys that this gapline does not know: {', '.join(read.strangers[:5])}")
    return ANSWERED


def _watch(args: argparse.Namespace, question: Callable[[], dict[str, Any]]) -> int:
    """Look each second. Nobody there at the first look ends it; who goes later may come back, and is waited for."""
    answer = question()
    is_screen = sys.stdout.isatty() and not args.json
    with _other_screen() if is_screen else _as_it_is():
        while True:
            text = json.dumps(answer) + "\n" if args.json else _watched(answer, args)
            if not put_out(_drawn(text) if is_screen else text):
                return ANSWERED
            time.sleep(BETWEEN_S)
            try:
                answer = question()
            except NoAnswerError as reason:
                answer = {"error": str(reason)}


def _watched(answer: dict[str, Any], args: argparse.Namespace) -> str:
    if "error" in answer:
        return clean(str(answer["error"])) + "\n"
    height = shutil.get_terminal_size().lines - 1 if sys.stdout.isatty() else None
    return _text(read_live(answer), args, height=height)


def _text(read: LiveAnswer, args: argparse.Namespace, *, height: int | None = None) -> str:
    words = ["stalled"] * args.stalled + [f"silent for {spoken(args.min_silence)} or more"] * bool(args.min_silence)
    where = f" at {clean(args.sidecar)}" if args.sidecar else ""
    return live_text(read, flags.look(args), where=where, question=", ".join(words), at=at(args), height=height)


def _drawn(text: str) -> str:
    """The text over what the look before drew. Each line is wiped before it is drawn: behind a full one the cursor
    still stands on its last cell, which would be wiped with the rest."""
    return _HOME + "".join(f"{_REST_OF_LINE}{line}\n" for line in text.removesuffix("\n").split("\n")) + _REST_OF_SCREEN


@contextmanager
def _other_screen() -> Iterator[None]:
    """Draw beside what stands on the terminal, and leave that as it was, whatever ends the drawing."""

    def end(number: int, _frame: object) -> None:
        raise SystemExit(_BY_SIGNAL + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)}
    put_out(_ENTER)
    try:
        yield
    finally:
        put_out(_LEAVE)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _as_it_is() -> Iterator[None]:
    yield
