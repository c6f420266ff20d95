"""What a question's address says: the id in its path, its parameters, and the place in a list where a page begins."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import unquote

import orjson

from otel import settings
from otel.findings import Cause
from otel.live import OpenStream
from otel.store.base import SECOND_NS, Cursor, StallQuery
from otel.view.openapi import ID_CHARS, LIMIT, LIMIT_MAX

LONGEST_S: Final = 1e9
"""30 years; more is a mistake, and would not fit an integer of the store."""
_LARGEST: Final = (1 << 63) - 1
_CURSOR_CHARS: Final = 2_000
_SHOWN_CHARS: Final = 100

T = TypeVar("T")
D = TypeVar("D")


class ParameterError(ValueError):
    """An address that cannot be answered; the message lists everything that is wrong with it."""


def request_id(raw_path: str) -> str:
    """The id in `/v1/requests/ID/…`, decoded as headers are, so that any id that a hop can see can be asked for."""
    text = unquote(raw_path.split("/")[3], errors="surrogateescape")
    if len(text) > ID_CHARS:
        raise ParameterError(f"id: has {len(text)} characters, at most {ID_CHARS} are looked up")
    return text


def stall_query(parameters: Sequence[tuple[str, str]], *, now_ns: int) -> StallQuery:
    """The query of /v1/stalls. An empty value is none at all."""
    take = _Taker(parameters)
    since_s = take("since", _seconds, None)
    query = StallQuery(
        since_ns=0 if since_s is None else max(0, now_ns - round(since_s * SECOND_NS)),
        model=take("model", str, None),
        hop=take("hop", str, None),
        cause=take("cause", settings.choice(*Cause), None),
        min_gap_s=take("min_gap", _seconds, 0.0),
        limit=take("limit", _limit, LIMIT),
        before=take("before", read_cursor, None),
    )
    take.finish()
    return query


@dataclass(frozen=True, slots=True)
class LiveQuery:
    """Which of the open streams are asked for."""

    is_stalled: bool
    min_silence_s: float
    limit: int

    def takes(self, stream: OpenStream) -> bool:
        return stream.silent_s >= self.min_silence_s and (stream.glance.is_stalled or not self.is_stalled)


def live_query(parameters: Sequence[tuple[str, str]]) -> LiveQuery:
    """The query for open streams. An empty value is none at all."""
    take = _Taker(parameters)
    query = LiveQuery(
        is_stalled=take("stalled", settings.switch, False),
        min_silence_s=take("min_silence", _seconds, 0.0),
        limit=take("limit", _limit, LIMIT_MAX),
    )
    take.finish()
    return query


def no_parameters(parameters: Sequence[tuple[str, str]]) -> None:
    """For questions that have none."""
    _Taker(parameters).finish()


def write_cursor(cursor: Cursor) -> str:
    """A place in the list as one opaque word."""
    return base64.urlsafe_b64encode(orjson.dumps([cursor.at_ns, cursor.trace_id, cursor.request_key])).decode()


def read_cursor(text: str) -> Cursor:
    """The place that `write_cursor` wrote. Raises ValueError for anything else."""
    try:
        members = orjson.loads(base64.b64decode(text[:_CURSOR_CHARS], altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        members = None
    match members:
        case [int(at_ns), str(trace_id), str(request_key)] if 0 <= at_ns <= _LARGEST:
            return Cursor(at_ns, trace_id, request_key)
    raise ValueError("is not a place that a Link header gave")


class _Taker:
    """Takes parameters one by one and remembers what was wrong with them."""

    def __init__(self, parameters: Sequence[tuple[str, str]]) -> None:
        self._given: dict[str, list[str]] = {}
        for name, value in parameters:
            self._given.setdefault(name, []).append(value)
        self._errors: list[str] = []

    def __call__(self, name: str, parse: Callable[[str], T], default: D) -> T | D:
        given = self._given.pop(name, [""])
        if len(given) > 1:
            self._errors.append(f"{name}: is given {len(given)} times")
        elif given[0]:
            try:
                return parse(given[0])
            except ValueError as error:
                self._errors.append(f"{name}: {given[0][:_SHOWN_CHARS]!r}: {error}")
        return default

    def finish(self) -> None:
        """Nothing is left over, and everything was right. Raises ParameterError."""
        errors = [*self._errors, *(f"{name[:_SHOWN_CHARS]!r}: no such parameter" for name in self._given)]
        if errors:
            raise ParameterError("; ".join(errors))


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = settings.seconds(text)
    if not (math.isfinite(value) and 0 <= value <= LONGEST_S):
        raise ValueError(f"must be from 0 to {LONGEST_S:.0f} seconds")
    return value


def _limit(text: str) -> int:
    if not 1 <= (value := settings.count(text)) <= LIMIT_MAX:
        raise ValueError(f"must be from 1 to {LIMIT_MAX}")
    return value
