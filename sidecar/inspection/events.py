"""The vocabulary between the stations of the sidecar: what a read brought, and what was found in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from otel.hop import EventClass, Usage


class Unit(Enum):
    """What kind of framed unit the splitter found."""

    EVENT = "event"
    """A dispatched event: gets a sequence number."""
    COMMENT = "comment"
    """An SSE block of comment lines only: liveness, no event."""
    DATALESS = "dataless"
    """An SSE block with fields but no data: dispatches nothing (WHATWG HTML, 9.2.6)."""
    TAIL = "tail"
    """What was left when the body ended inside a unit: dispatches nothing."""


class Event(NamedTuple):
    """One framed unit of the stream, seen by the splitter. A tuple, since a frozen dataclass takes three times as long.

    data: the event's data (SSE: data lines joined by LF, without the last; NDJSON: the line; JSON array: the element;
    event stream: the payload of the frame; opaque: empty).
    name: the SSE event type, empty for the default `message`; of an event-stream frame its message type and the type
    of that, as `event/chunk` or `exception/throttlingException`. id: the SSE last event id as of this event.
    size_bytes: bytes of the body from the end of the unit before it to its own end, so sizes add up to the
    body. is_cut: the unit was longer than the splitter keeps, and data is only its beginning.
    """

    unit: Unit
    data: bytes
    name: bytes
    id: bytes
    size_bytes: int
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """What a dialect makes of one event: nothing of it is text, but for what an error said.

    visible_chars: Unicode code points of visible output this event adds, summed over choices.
    error_type, error_code: tokens of an error event. model, response_id: as the answer names them.
    finish: why the model stopped, a token. usage: the tokens counted so far. is_end: the event marks the end of the
    stream though it is of another class than TERMINAL. request_id: the upstream's own id of the request.
    error_detail: what an error event said, masked: only words that errors are told in. error_text: its beginning as it
    was, which nothing shows or compares, and which may go to the log of an operator who asked for it, and nowhere else.
    """

    event_class: EventClass
    visible_chars: int = 0
    model: str | None = None
    response_id: str | None = None
    error_type: str | None = None
    error_code: str | None = None
    finish: str | None = None
    usage: Usage | None = None
    is_end: bool = False
    request_id: str | None = None
    error_detail: str | None = None
    error_text: str | None = field(default=None, repr=False, compare=False)
