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
import shutil
import socket
import ssl
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

import aiohttp
import orjson
import yarl

from otel import settings
from otel.view.answers import TimelineAnswer, read_stalls, read_timeline, read_verdict
from otel.view.keys import AnswerError
from otel.view.listing import stalls as stalls_text
from otel.view.openapi import LIMIT, LIMIT_MAX
from otel.view.palette import NARROWEST_CELLS, Look
from otel.view.picture import extent
from otel.view.picture import timeline as timeline_text
from otel.view.terminal import why as why_text
from otel.view.text import clean, seconds

ANSWERED: Final = 0
UNREADABLE: Final = 1
USAGE: Final = 2
NO_ANSWER: Final = 3
NAMED: Final = 10
INCONCLUSIVE: Final = 11
NOT_FOUND: Final = 12
INTERRUPTED: Final = 130  # as shells report SIGINT

DEFAULT_COLLECTOR: Final = "http://127.0.0.1:24070"
ANSWER_BYTES: Final = 256 << 20  # five hops of 200,000 stamps each are 50 MB; more than this is not an answer
UNSEEN_CELLS: Final = 100  # the width of what no terminal shows: a pipe, a file, a ticket

DEFAULT_TIMEOUT: Final = "10s"
URL_VARIABLE: Final = "GAPLINE_COLLECTOR_URL"
TOKEN_VARIABLE: Final = "GAPLINE_TOKEN"  # noqa: S105  # the name of the variable
COLLECTOR_TOKEN_VARIABLE: Final = "GAPLINE_COLLECTOR_TOKEN"  # noqa: S105  # set where the collector itself runs
EPILOG: Final = (
    "Exit codes: 0 answered (why: healthy), 10 a cause is named, 11 inconclusive, 12 not found, 3 no answer from the "
    "collector, 2 usage, 1 the answer cannot be read."
)


@dataclass(frozen=True, slots=True)
class _Command:
    """How one command deals with its answer.

    show: the answer as text, and the keys that this version does not know; may raise AnswerError.
    code_of: the exit code that the answer means.
    """

    name: str
    show: Callable[[object, Look], tuple[str, Sequence[str]]]
    code_of: Callable[[Mapping[str, Any]], int]


class _NoAnswerError(Exception):
    """There is no answer to show; code is the exit code that says why."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def why(argv: Sequence[str], *, has_commands: bool = True) -> int:
    """`gapline why REQUEST_ID`: which hop made the reader of this request wait.

    has_commands: what to ask next is told, because the collector will still be there.
    """
    parser = _parser("why", "Which hop made the reader of this request wait, since when, and why.")
    parser.add_argument("request_id", metavar="REQUEST_ID", type=_request_id)
    args = parser.parse_args(argv)

    def show(answer: object, look: Look) -> tuple[str, Sequence[str]]:
        verdict = read_verdict(answer)
        return why_text(verdict, look, at=_at(args), has_commands=has_commands), verdict.strangers

    code_of = {"healthy": ANSWERED, "named": NAMED, "inconclusive": INCONCLUSIVE}
    command = _Command("why", show, lambda answer: code_of.get(str(answer.get("status")), UNREADABLE))
    return _run(parser, args, command, f"/v1/requests/{_escaped(args.request_id)}/verdict")


def timeline(argv: Sequence[str], *, has_head: bool = True, has_commands: bool = True) -> int:
    """`gapline timeline REQUEST_ID`: the picture of the request, a lane per hop.

    has_head: the verdict is told above it. has_commands: as for `why`.
    """
    parser = _parser("timeline", "The picture of one request: a lane per hop, the gaps marked, and who made the wait.")
    parser.add_argument("request_id", metavar="REQUEST_ID", type=_request_id)
    parser.add_argument("--from", dest="start_s", type=_instant, metavar="S", help="show from this second on")
    parser.add_argument("--to", dest="end_s", type=_instant, metavar="S", help="show up to this second")
    args = parser.parse_args(argv)
    if args.start_s is not None and args.end_s is not None and args.start_s >= args.end_s:
        parser.error(f"--from {args.start_s:g} must be less than --to {args.end_s:g}")

    def show(answer: object, look: Look) -> tuple[str, Sequence[str]]:
        read = read_timeline(answer)
        if error := _window_error(read, args):
            raise _NoAnswerError(USAGE, error)
        shown = timeline_text(
            read,
            look,
            start_s=args.start_s,
            end_s=args.end_s,
            at=_at(args),
            has_head=has_head,
            has_commands=has_commands,
        )
        return shown, read.strangers

    command = _Command("timeline", show, lambda _: ANSWERED)
    return _run(parser, args, command, f"/v1/requests/{_escaped(args.request_id)}/timeline")


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
    parser = _parser("stalls", "The requests that waited or broke off, newest first.")
    parser.add_argument("--since", type=_duration, default="1h", metavar="TIME", help="how far back [1h]")
    parser.add_argument("--model", metavar="NAME", help="only this model")
    parser.add_argument("--hop", metavar="NAME", help="only where this hop is named; client is the reader's end")
    parser.add_argument("--cause", metavar="CAUSE", help="only this cause, such as source_stall or slow_reader")
    parser.add_argument("--min-gap", type=_duration, metavar="TIME", help="only waits of at least this, such as 5s")
    parser.add_argument("--limit", type=_limit, default=str(LIMIT), metavar="N", help=f"at most this many [{LIMIT}]")
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
    return _run(parser, args, _Command("stalls", show, lambda _: ANSWERED), f"/v1/stalls?{query}")


def _escaped(request_id: str) -> str:
    """The id as one segment of a path: byte for byte as it was typed, also where that is no UTF-8."""
    return quote(request_id, safe="", errors="surrogateescape")


def _at(args: argparse.Namespace) -> str:
    """What commands to try need to ask the same collector, when it was named on the command line."""
    return f" --collector {shlex.quote(clean(args.collector))}" if args.collector else ""


def _question(args: argparse.Namespace) -> str:
    """The filters in words, to stand behind `3 stalls` or `No stall`."""
    words = [f"in the last {_spoken(args.since)}"]
    words += [f"{name} {clean(getattr(args, name))}" for name in ("model", "hop", "cause") if getattr(args, name)]
    words += [f"of {args.min_gap:g} s or more"] if args.min_gap else []
    return ", ".join(words)


def _spoken(value_s: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if value_s >= size and value_s % size == 0:
            return f"{value_s / size:g} {unit}"
    return f"{value_s:g} s"


# Flags.

_Value = TypeVar("_Value")


def _typed(parse: Callable[[str], _Value]) -> Callable[[str], _Value]:
    """A parser for argparse, which shows the message of no other error than its own."""

    def parse_flag(text: str) -> _Value:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r} {error}") from None

    return parse_flag


def _between(parse: Callable[[str], _Value], low: _Value, high: _Value) -> Callable[[str], _Value]:
    def parse_flag(text: str) -> _Value:
        value = parse(text)
        if not low <= value <= high:  # type: ignore[operator]  # numbers only
            raise ValueError(f"must be from {low} to {high}")
        return value

    return _typed(parse_flag)


_request_id = _typed(settings.text)
_duration = _typed(settings.seconds)
_instant = _between(float, -1e9, 1e9)  # seconds on the picture's axis; a request of 30 years is a typo
_limit = _between(settings.count, 1, LIMIT_MAX)
_width = _between(settings.count, NARROWEST_CELLS, 1_000)


def _parser(name: str, description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"gapline {name}", description=description, epilog=EPILOG)
    parser.add_argument(
        "--collector", metavar="URL", help=f"the collector to ask [{DEFAULT_COLLECTOR}; {URL_VARIABLE}]"
    )
    parser.add_argument("--token", help=f"the token that it wants; better kept in {TOKEN_VARIABLE}")
    parser.add_argument(
        "--timeout", type=_duration, default=DEFAULT_TIMEOUT, metavar="TIME", help=f"for the answer [{DEFAULT_TIMEOUT}]"
    )
    parser.add_argument("--json", action="store_true", help="the answer as one JSON object, indented on a terminal")
    parser.add_argument(
        "--width", type=_width, metavar="N", help=f"cells of a line [the terminal's, else {UNSEEN_CELLS}]"
    )
    parser.add_argument("--ascii", action="store_true", help="draw with ASCII characters only")
    parser.add_argument(
        "--color", action=argparse.BooleanOptionalAction, help="[on a terminal, unless NO_COLOR is set]"
    )
    return parser


def _look(args: argparse.Namespace) -> Look:
    is_terminal = sys.stdout.isatty()
    is_colour = args.color
    if is_colour is None:
        is_colour = is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = args.width or max(shutil.get_terminal_size((UNSEEN_CELLS, 24)).columns, NARROWEST_CELLS)
    is_ascii = args.ascii or "utf" not in (sys.stdout.encoding or "").lower()
    return Look(width=width, is_colour=is_colour, is_ascii=is_ascii)


# Ask, show, say what it was.


def _run(parser: argparse.ArgumentParser, args: argparse.Namespace, command: _Command, path: str) -> int:
    try:
        collector = _collector_url(args.collector or os.environ.get(URL_VARIABLE) or DEFAULT_COLLECTOR)
    except ValueError as error:
        parser.error(f"the collector's URL {args.collector or os.environ.get(URL_VARIABLE)!r} {error}")
    token = args.token or next(filter(None, map(_variable, (TOKEN_VARIABLE, COLLECTOR_TOKEN_VARIABLE))), "")
    if not (token.isascii() and token.isprintable()):
        parser.error("the token must be printable ASCII")
    try:
        answer = asyncio.run(_ask(collector, path, token=token, timeout_s=args.timeout))
        code = command.code_of(answer)
        if args.json:
            _print(json.dumps(answer, indent=2 if sys.stdout.isatty() else None) + "\n")
            return code
        text, strangers = command.show(answer, _look(args))
    except _NoAnswerError as reason:
        _complain(command, str(reason))
        return reason.code
    except AnswerError as error:
        version = f"the collector at {collector} and this gapline are of different versions; --json shows all of it"
        _complain(command, f"the answer cannot be shown: {error}; {version}")
        return UNREADABLE
    except RecursionError:
        _complain(command, f"the answer of {collector} is nested too deeply to be shown")
        return UNREADABLE
    except KeyboardInterrupt:
        return INTERRUPTED
    _print(text)
    if strangers:
        _complain(
            command, f"the answer has keys that this gapline does not know: {', '.join(strangers[:SHOWN_STRANGERS])}"
        )
    return code


def _collector_url(text: str) -> str:
    """The collector's URL; HOST:PORT is short for http://HOST:PORT. Raises ValueError."""
    return settings.http_url(text if "://" in text else f"http://{text}")


def _variable(name: str) -> str:
    return os.environ.get(name, "").strip()  # the newline that ends a secret file is no part of it


SHOWN_STRANGERS: Final = 5


def _complain(command: _Command, message: str) -> None:
    print(f"gapline {command.name}: {clean(message)}", file=sys.stderr)


def _print(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has seen enough, as in `gapline why ID | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


async def _ask(collector: str, path: str, *, token: str, timeout_s: float) -> dict[str, Any]:
    """The JSON object at the path; raises _NoAnswerError."""
    headers = {"Accept": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    at = f"the collector at {collector}"
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
            session.get(yarl.URL(collector + path, encoded=True), allow_redirects=False) as response,
        ):
            body = await _read(response, at)
            return _understood(response.status, body, at, has_token=bool(token))
    except TimeoutError:
        raise _NoAnswerError(NO_ANSWER, f"{at} did not answer within {timeout_s:g} s (--timeout)") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        if isinstance(error, aiohttp.ClientConnectorSSLError) and _is_plain(error.os_error):
            without_tls = collector.replace("https:", "http:", 1)
            raise _NoAnswerError(NO_ANSWER, f"{at} does not speak TLS; try {without_tls}") from None
        hint = f"Is it running (`gapline collector`)? Name another with --collector or {URL_VARIABLE}."
        raise _NoAnswerError(NO_ANSWER, f"no answer from {at}: {_reason(error)}. {hint}") from None


def _reason(error: Exception) -> str:
    """What went wrong in the system's words where it has some: `Connection refused`."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not trusted ({getattr(error.certificate_error, 'verify_message', 'unverified')})"
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, ssl.SSLError):  # its errno is not the system's
        return f"no TLS connection ({str(cause.reason).lower().replace('_', ' ')})"
    if isinstance(cause, socket.gaierror):
        return cause.strerror or "the name is not known"
    if isinstance(cause, OSError) and cause.errno:
        return os.strerror(cause.errno)
    return str(error) or type(error).__name__


_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST"})
"""What OpenSSL, depending on its version, says of a peer that answers a TLS greeting in plain text."""


def _is_plain(error: OSError) -> bool:
    return isinstance(error, ssl.SSLError) and error.reason in _NOT_TLS


async def _read(response: aiohttp.ClientResponse, at: str) -> bytes:
    body = bytearray()
    async for data in response.content.iter_any():
        body += data
        if len(body) > ANSWER_BYTES:
            raise _NoAnswerError(NO_ANSWER, f"{at} answered with more than {ANSWER_BYTES >> 20} MiB")
    return bytes(body)


def _understood(status: int, body: bytes, at: str, *, has_token: bool) -> dict[str, Any]:
    """The answer in a body, or the reason why there is none."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = None
    error = answer.get("error") if isinstance(answer, dict) else None
    kind, message = (error.get("type"), error.get("message")) if isinstance(error, dict) else (None, None)
    match status:
        case 200 if isinstance(answer, dict):
            return answer
        case 404 if kind == "not_found":
            hint = "`gapline stalls` lists the requests that waited; a record may be a few seconds late."
            raise _NoAnswerError(NOT_FOUND, f"{message or 'not found'} ({at}). {hint}")
        case 400 if kind is not None:
            raise _NoAnswerError(USAGE, f"{message} ({at})")
        case 401 | 403:
            wanted = "refused the token" if has_token else "wants a token"
            said = f" It says: {message}." if message else ""
            hint = f"give it in {TOKEN_VARIABLE} or with --token.{said}"
            raise _NoAnswerError(NO_ANSWER, f"{at} {wanted} ({status}): {hint}")
        case _ if kind is not None:
            raise _NoAnswerError(NO_ANSWER, f"{at} cannot answer now ({status}): {message}")
    raise _NoAnswerError(NO_ANSWER, f"{at} answered {status} and not as a gapline collector does; is the URL right?")
