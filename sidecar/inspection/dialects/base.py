"""What a dialect is, and what all of them need: JSON that may be broken, tokens instead of text, cheap readings.

A dialect reads what an event carried and forgets it at once: a class, a number of characters, ids stay. No text
of a user or a model leaves these files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import orjson

from otel.hop import EventClass
from sidecar.inspection.events import Event, Reading

NAME_CHARS: Final = 128
"""Longest model name or response id taken over: the longest real ones are paths and digests of some 100."""
READINGS: Final = 2_048
"""Readings kept to be given again, about 300 bytes each: the streams of one sidecar times the lengths of a piece."""

Object = dict[str, Any]

_NAME: Final = re.compile(rf"[!-~]{{1,{NAME_CHARS}}}\Z")
_TOKEN: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}\Z")
_HIGH_HALF: Final = re.compile(r"[\ud800-\udbff]")


@dataclass(frozen=True, slots=True)
class Dialect:
    """The rules of one API by which events are classed.

    read: total, whatever the event. has_terminal_rule: the API marks the end of a stream in band.
    path_end: requests whose path ends so speak it; empty when no path tells. begins: whether an event is how a
    stream of this API begins, for paths that tell nothing.
    """

    name: str
    has_terminal_rule: bool
    read: Callable[[Event], Reading]
    path_end: str = ""
    begins: Callable[[Event], bool] = lambda _event: False


def parsed(data: bytes) -> Object | None:
    """The JSON object in data, None when it is anything else.

    What orjson refuses and readers accept goes the slow way: half a surrogate pair (an emoji cut in two by
    the server), NaN, and bytes that are not UTF-8, which an SSE reader has replaced before it parses.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            value = json.loads(data.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None
    return value if type(value) is dict else None


def visible_chars(text: str) -> int:
    """The code points a reader sees in text. Of a pair cut in two, the half that completes it counts."""
    return len(text) if text.isascii() else len(text) - len(_HIGH_HALF.findall(text))


def reading_of(event_class: EventClass, chars: int = 0, model: object = None, response_id: object = None) -> Reading:
    """A reading, from any values that stand where the API has its names."""
    if model is not None and (not isinstance(model, str) or len(model) > NAME_CHARS):
        model = None
    if response_id is not None and (not isinstance(response_id, str) or len(response_id) > NAME_CHARS):
        response_id = None
    return _reading(event_class, chars, model, response_id)


def error_reading(chunk: Object | None) -> Reading:
    """The reading of an error event: the type and code of its `error` object, or of the event itself, as tokens."""
    chunk = chunk or {}
    error = chunk.get("error")
    error = error if isinstance(error, dict) else chunk
    return Reading(
        EventClass.ERROR,
        model=name_of(chunk.get("model")),
        response_id=name_of(chunk.get("id")),
        error_type=_token(error.get("type")) or _token(chunk.get("error_type")),
        error_code=_token(error.get("code")),
    )


@lru_cache(READINGS)
def _reading(event_class: EventClass, chars: int, model: str | None, response_id: str | None) -> Reading:
    return Reading(event_class, chars, name_of(model), name_of(response_id))


def name_of(value: object) -> str | None:
    """A model name or id, and never a sentence: printable ASCII without blanks."""
    return value if isinstance(value, str) and _NAME.match(value) else None


def _token(value: object) -> str | None:
    text = str(value) if type(value) is int else value
    return text if isinstance(text, str) and _TOKEN.match(text) else None
