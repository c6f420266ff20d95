"""Triton's generate_stream: a piece of text an event, and nothing that says it was the last."""

from __future__ import annotations

from typing import Final

from otel.hop import EventClass
from sidecar.inspection.dialects.base import Dialect, Ends, Object, bare, error_reading, output_of, parsed, text_of
from sidecar.inspection.dialects.problems import flat_problem, unnamed
from sidecar.inspection.events import Event, Reading


def read(event: Event) -> Reading:
    """The reading of one event; `sequence_end` is false to the last one, and tells nothing."""
    chunk = None if event.is_cut else parsed(event.data)
    if event.name == b"error" or (chunk is not None and chunk.get("error")):
        return error_reading(chunk)
    if chunk is None:
        return bare(event)
    return output_of(text_of(chunk.get("text_output")), EventClass.CONTROL, chunk.get("model_name"), chunk.get("id"))


def begins(_event: Event, chunk: Object | None) -> bool:
    """An event by its text."""
    return chunk is not None and "text_output" in chunk


TRITON: Final = Dialect(
    name="triton",
    read=read,
    ends=Ends.FRAMING,
    begins=begins,
    error_form=unnamed(flat_problem),
    body_form=flat_problem,
    streams_unasked=True,
    spoken_by="Triton under `/generate_stream`",
    output="`text_output`",
)
