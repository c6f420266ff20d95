"""What a dialect is, and what all of them need: JSON that may be broken, tokens instead of text, cheap readings.

A dialect reads what an event carried and forgets it at once: a class, a number of characters, ids stay. No text
of a user or a model leaves these files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, Final

import orjson

from otel.hop import EventClass, Usage
from sidecar.inspection.dialects.outline import plain_members
from sidecar.inspection.dialects.problems import UNNAMED, BodyForm, ErrorForm, problem
from sidecar.inspection.events import Event, Reading
from sidecar.inspection.lexicon import MASK, masked

NAME_CHARS: Final = 128
"""Longest model name or response id taken over: the longest real ones are paths and digests of some 100."""
READINGS: Final = 2_048
"""Readings kept to be given again, about 300 bytes each: the streams of one sidecar times the lengths of a piece."""
LENIENT_BYTES: Final = 64 << 10
"""Longest event that is parsed a second time, the slow way: 2 ms. What is odd about JSON is odd in small pieces of
text; a longer event that the first parser refuses is looked at from outside only."""
LARGE_BYTES: Final = 64 << 10
"""Longest event that is parsed whatever it is: 5 ms of a core at worst."""
PARTS: Final = 30_000
"""Most brackets and commas in a longer one that is parsed: a picture has none, and a million small values would hold
the loop for 0.2 s. What has more is looked at from outside only."""
TEXT_CHARS: Final = 500
"""Most that is kept of what an error said, as it was: its first sentences."""
TOKENS: Final = 1 << 53
"""More tokens than any answer has: what counts higher is no count."""

Object = dict[str, Any]
Read = Callable[[Event], Reading]
"""The reading of one event; total, whatever the event."""

NOTHING: Final[Object] = {}
_WORDS: Final = ("message", "Message", "detail", "error_description", "description")
"""Members that say what went wrong."""
_SSE: Final = frozenset({"sse"})

_NAME: Final = re.compile(rf"[!-~]{{1,{NAME_CHARS}}}\Z")
_TOKEN: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}\Z")
_HIGH_HALF: Final = re.compile(r"[\ud800-\udbff]")


class Ends(Enum):
    """How a stream of a dialect says that it is over; the values are what a table says of them."""

    MARK = "an event of its own"
    """Nothing follows the event that marks the end, and a clean end without it is a cut."""
    FINISH = "a finish reason, unless output follows"
    """Whether it was the end is known when the body has ended: servers repeat the reason, or send it too early."""
    FRAMING = "nothing"
    """Only the end of the body tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The rules of one API by which events are classed.

    read: the reading of an event by itself. reader: makes the `read` of one stream, where what came before matters.
    ends: how it says that it is over. begins: whether an event, with the JSON object in it, can only be of this API;
    without the object where it is none. path_ends: requests whose path ends so speak it, unless the events say
    otherwise. framings: those in which its end is marked. is_resumable: a stream whose events have ids may go on in
    another one, so that its end proves nothing. open_method: asked for by this method a stream has no end of its own.
    error_form: how a stream tells of an error that ends it, None where it cannot without knowing more; body_form: how
    an answer does that is no stream. is_inference: a model answers. streams_unasked: it streams unless the request says
    otherwise. asked_at: further paths that ask for it, which other APIs share, so that an answer's events have to tell.
    spoken_by, end_mark, error_mark, output: what people are told of it.
    """

    name: str
    read: Read
    ends: Ends
    begins: Callable[[Event, Object | None], bool]
    reader: Callable[[], Read] | None = None
    path_ends: tuple[str, ...] = ()
    framings: frozenset[str] = _SSE
    is_resumable: bool = False
    open_method: str = ""
    error_form: ErrorForm | None = UNNAMED
    body_form: BodyForm = problem
    is_inference: bool = True
    streams_unasked: bool = False
    asked_at: tuple[str, ...] = ()
    spoken_by: str = ""
    end_mark: str = "nothing"
    error_mark: str = "an `error` member"
    output: str = ""

    @property
    def has_terminal_rule(self) -> bool:
        """The API marks the end of a stream in band."""
        return self.ends is not Ends.FRAMING

    def begin(self) -> Read:
        """The reader of a new stream."""
        return self.read if self.reader is None else self.reader()


# JSON.


def parsed(data: bytes) -> Object | None:
    """The JSON object in data, None when it is anything else.

    What orjson refuses and readers accept goes the slow way: half a surrogate pair (an emoji cut in two by
    the server), NaN, and bytes that are not UTF-8, which an SSE reader has replaced before it parses.
    """
    if len(data) > LARGE_BYTES and _has_many_parts(data):
        return None
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        value = _leniently(data)
    return value if type(value) is dict else None


def parsed_value(data: bytes) -> object:
    """The JSON value in data, None when it is none."""
    if len(data) > LARGE_BYTES and _has_many_parts(data):
        return None
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return _leniently(data)


def _has_many_parts(data: bytes) -> bool:
    return data.count(b",") + data.count(b"{") + data.count(b"[") > PARTS


def _leniently(data: bytes) -> object:
    if len(data) > LENIENT_BYTES:
        return None
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def object_in(event: Event) -> Object | None:
    """The JSON object of an event; of one that was cut or is too large to be parsed, what stands plainly at its top."""
    if event.is_cut:
        return plain_members(event.data)
    found = parsed(event.data)
    return plain_members(event.data) if found is None and len(event.data) > LARGE_BYTES else found


def member(chunk: Object, key: str) -> Object:
    """The object that is a member of another one, empty where it is none."""
    value = chunk.get(key)
    return value if type(value) is dict else NOTHING


def objects(value: object) -> list[Object]:
    """The objects in a list, none where it is no list."""
    return [item for item in value if type(item) is dict] if isinstance(value, list) else []


def text_of(value: object) -> str:
    """A text, empty where it is none."""
    return value if isinstance(value, str) else ""


# Readings.


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


def finished(reading: Reading, *, finish: object = None, usage: Usage | None = None, is_end: bool = False) -> Reading:
    """The same reading with what only a few events of a stream say; finish: anything where the API has its reason."""
    return Reading(
        reading.event_class,
        reading.visible_chars,
        reading.model,
        reading.response_id,
        finish=token_of(finish),
        usage=usage,
        is_end=is_end,
    )


def output_of(text: str, otherwise: EventClass, model: object = None, response_id: object = None) -> Reading:
    """The reading of visible text, of the other class where there is none."""
    if text:
        return reading_of(EventClass.CONTENT, visible_chars(text), model, response_id)
    return reading_of(otherwise, 0, model, response_id)


def bare(event: Event) -> Reading:
    """The reading of data in which there is no object: nearly every API uses empty data as a sign of life."""
    return reading_of(EventClass.OPAQUE if event.is_cut or event.data.strip() else EventClass.KEEPALIVE)


def error_reading(chunk: Object | None, *, error_type: object = None) -> Reading:
    """The reading of an error event: the type and code of its `error` object, or of the event itself, as tokens, and
    what it says, masked.

    error_type: where the event says it in another place.
    """
    chunk = NOTHING if chunk is None else chunk
    error = chunk.get("error")
    nested_type = error.get("type") if isinstance(error, dict) else None
    error = error if isinstance(error, dict) else chunk
    text = _said(error, chunk).encode("utf-8", "replace").decode()  # half a surrogate pair can be written nowhere
    return Reading(
        EventClass.ERROR,
        model=name_of(chunk.get("model")),
        response_id=name_of(chunk.get("id")),
        error_type=_first_token(
            error_type, nested_type, chunk.get("error_type"), error.get("type"), error.get("status")
        ),
        error_code=token_of(error.get("code")),
        request_id=name_of(chunk.get("request_id")),
        error_detail=_detail(text),
        error_text=text[:TEXT_CHARS] or None,
    )


def _detail(text: str) -> str | None:
    """What may be told of an error's text, None where none of it is known."""
    detail = masked(text)
    return None if detail in {"", MASK} else detail


def said_in(event: Event) -> Object:
    """What an error event says: its object, or its data as a text."""
    return object_in(event) or {"message": event.data[:LENIENT_BYTES].decode("utf-8", "replace")}


def _said(error: Object, chunk: Object) -> str:
    """What an error says, in the first of the places where APIs say it; empty where none of them has a text."""
    detail = chunk.get("detail")
    details = objects(detail)[:1]  # FastAPI: what was wrong with a request, one after the other
    places = [error.get(key) for key in _WORDS] + [chunk.get(key) for key in ("error", *_WORDS)]
    places += [member(chunk, "detail").get(key) for key in ("message", "error")] + [item.get("msg") for item in details]
    return next((value for value in places if isinstance(value, str) and value), "")


@lru_cache(READINGS)
def _reading(event_class: EventClass, chars: int, model: str | None, response_id: str | None) -> Reading:
    return Reading(event_class, chars, name_of(model), name_of(response_id))


def name_of(value: object) -> str | None:
    """A model name or id, and never a sentence: printable ASCII without blanks."""
    return value if isinstance(value, str) and _NAME.match(value) else None


def token_of(value: object) -> str | None:
    """A token that stands for a kind of thing, None for anything longer or with blanks in it."""
    text = str(value) if type(value) is int and abs(value) < TOKENS else value
    return text if isinstance(text, str) and _TOKEN.match(text) else None


def _first_token(*values: object) -> str | None:
    return next((token for value in values if (token := token_of(value)) is not None), None)


def usage_of(input_tokens: object, output_tokens: object, total_tokens: object = None) -> Usage | None:
    """The counts of an answer, None where it has none of them."""
    counts = _count(input_tokens), _count(output_tokens), _count(total_tokens)
    if counts == (None, None, None):
        return None
    return Usage(input_tokens=counts[0], output_tokens=counts[1], total_tokens=counts[2])


def _count(value: object) -> int | None:
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value < TOKENS else None
