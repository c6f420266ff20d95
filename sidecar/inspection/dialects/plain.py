"""Streams of an API that no file here knows, and bodies without a framing: errors and `[DONE]` are seen, the rest is
opaque.
"""

from __future__ import annotations

from typing import Final

from otel.hop import EventClass
from sidecar.inspection.dialects.base import Dialect, Ends, Object, error_reading, parsed, reading_of, said_in
from sidecar.inspection.dialects.openai import bare_or_done
from sidecar.inspection.dialects.problems import named, problem
from sidecar.inspection.events import Event, Reading

_FAILURES: Final = (b"exception/", b"error/")
"""How the names of event-stream frames begin that tell of a failure."""


def read(event: Event) -> Reading:
    """The reading of an event of any framing. An `error` member is what nearly every API reports errors with."""
    if event.name.startswith(_FAILURES):
        name = event.name.decode("ascii", "replace").partition("/")[2]
        return error_reading(said_in(event), error_type=name)
    chunk = parsed(event.data) if b'"error"' in event.data and not event.is_cut else None
    if event.name == b"error" or (chunk is not None and chunk.get("error")):
        return error_reading(chunk or said_in(event))
    return bare_or_done(event)


def read_arrival(_event: Event) -> Reading:
    """The reading of what one read of an unframed body brought."""
    return reading_of(EventClass.OPAQUE)


def begins(_event: Event, _chunk: Object | None) -> bool:
    """No event tells that nothing is known of it."""
    return False


PLAIN: Final = Dialect(
    name="plain",
    read=read,
    ends=Ends.FRAMING,
    begins=begins,
    error_form=named(problem),
    is_inference=False,
    spoken_by="any other SSE, NDJSON, JSON array or event stream",
    end_mark="nothing; `[DONE]` proves an end where it comes",
    error_mark="an `error` member, `event: error`, frames of the type `exception` or `error`",
    output="nothing that is known",
)
OPAQUE: Final = Dialect(
    name="opaque",
    read=read_arrival,
    ends=Ends.FRAMING,
    begins=begins,
    error_form=None,
    is_inference=False,
    spoken_by="bodies without a framing, and codings that are not known",
    error_mark="nothing",
    output="nothing that is known",
)
