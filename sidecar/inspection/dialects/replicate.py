"""Replicate: the output is the data itself, as text, and the events have names."""

from __future__ import annotations

import re
from typing import Final

from otel.hop import EventClass
from sidecar.guard.complaint import Complaint
from sidecar.inspection.dialects import plain
from sidecar.inspection.dialects.base import (
    Dialect,
    Ends,
    Object,
    error_reading,
    finished,
    output_of,
    parsed,
    reading_of,
    said_in,
)
from sidecar.inspection.dialects.problems import named
from sidecar.inspection.events import Event, Reading

_ID: Final = re.compile(rb"\d+:\d+\Z")
"""Seconds, and a number within them."""
FAILED: Final = "error"


def read(event: Event) -> Reading:
    """The reading of one event. Data without text in an output is a piece of the answer that is empty, no beat."""
    match event.name:
        case b"output":
            return output_of(event.data.decode("utf-8", "replace"), EventClass.CONTROL)
        case b"done":
            return _done(event)
        case b"error":
            return error_reading(said_in(event))
        case b"logs":
            return reading_of(EventClass.CONTROL)
    return plain.read(event)


def begins(event: Event, _chunk: Object | None) -> bool:
    """An output with an id as they are here."""
    return event.name in {b"output", b"done"} and _ID.match(event.id) is not None


def _done(event: Event) -> Reading:
    reason = (parsed(event.data) or {}).get("reason")
    if reason == FAILED:
        return error_reading({"error": {"type": FAILED}})
    return finished(reading_of(EventClass.TERMINAL), finish=reason)


def _problem(complaint: Complaint) -> Object:
    return {"detail": complaint.message, "error_type": complaint.type, "status": complaint.status}


REPLICATE: Final = Dialect(
    name="replicate",
    read=read,
    ends=Ends.MARK,
    begins=begins,
    error_form=named(_problem),
    body_form=_problem,
    streams_unasked=True,
    spoken_by="Replicate",
    end_mark="`event: done`",
    error_mark="`event: error`, or `done` with the reason `error`",
    output="the data of `event: output`",
)
