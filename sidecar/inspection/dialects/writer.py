"""Writer completions: a piece of text an event, and nothing else. Its chat is that of OpenAI."""

from __future__ import annotations

from typing import Final

from otel.hop import EventClass
from sidecar.inspection.dialects.base import Dialect, Ends, Object, error_reading, output_of, parsed, text_of
from sidecar.inspection.dialects.openai import bare_or_done
from sidecar.inspection.events import Event, Reading


def read(event: Event) -> Reading:
    """The reading of one event."""
    chunk = None if event.is_cut else parsed(event.data)
    if event.name == b"error" or (chunk is not None and chunk.get("error")):
        return error_reading(chunk)
    if chunk is None:
        return bare_or_done(event)
    return output_of(text_of(chunk.get("value")), EventClass.CONTROL, chunk.get("model"))


def begins(_event: Event, chunk: Object | None) -> bool:
    """An event of one member that is a text: with more in it, it may be of anybody."""
    return chunk is not None and len(chunk) == 1 and isinstance(chunk.get("value"), str)


WRITER: Final = Dialect(
    name="writer",
    read=read,
    ends=Ends.FRAMING,
    begins=begins,
    spoken_by="Writer completions",
    output="`value`",
)
