"""llama.cpp's own completion: a piece of text an event, and the last one says `stop` and counts."""

from __future__ import annotations

from typing import Final

from otel.hop import EventClass
from sidecar.inspection.dialects.base import (
    Dialect,
    Ends,
    Object,
    error_reading,
    finished,
    object_in,
    output_of,
    text_of,
    usage_of,
)
from sidecar.inspection.dialects.openai import bare_or_done
from sidecar.inspection.dialects.problems import counted_problem, unnamed
from sidecar.inspection.events import Event, Reading


def read(event: Event) -> Reading:
    """The reading of one event."""
    chunk = object_in(event)
    if event.name == b"error" or (chunk is not None and chunk.get("error")):
        return error_reading(chunk)
    if chunk is None:
        return bare_or_done(event)
    is_end = chunk.get("stop") is True
    text = text_of(chunk.get("content"))
    reading = output_of(text, EventClass.TERMINAL if is_end else EventClass.CONTROL, chunk.get("model"))
    if not is_end:
        return reading
    usage = usage_of(chunk.get("tokens_evaluated"), chunk.get("tokens_predicted"))
    return finished(reading, finish=chunk.get("stop_type"), usage=usage, is_end=True)


def begins(_event: Event, chunk: Object | None) -> bool:
    """An event by its text and its flag."""
    return chunk is not None and isinstance(chunk.get("stop"), bool) and isinstance(chunk.get("content"), str)


LLAMA_CPP: Final = Dialect(
    name="llama_cpp",
    read=read,
    ends=Ends.MARK,
    begins=begins,
    error_form=unnamed(counted_problem),
    body_form=counted_problem,
    asked_at=("/completion", "/completions"),
    spoken_by="llama.cpp under `/completion`",
    end_mark='`"stop": true`; `[DONE]` as well',
    output="`content`",
)
