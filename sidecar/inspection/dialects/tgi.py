"""TGI's own generate_stream: a token an event, and the last one has the whole text beside it."""

from __future__ import annotations

from typing import Final

from otel.hop import EventClass
from sidecar.inspection.dialects.base import (
    Dialect,
    Ends,
    Object,
    error_reading,
    finished,
    member,
    object_in,
    output_of,
    text_of,
    usage_of,
)
from sidecar.inspection.dialects.openai import bare_or_done
from sidecar.inspection.dialects.problems import flat_problem, unnamed
from sidecar.inspection.events import Event, Reading


def read(event: Event) -> Reading:
    """The reading of one event. A special token is no text; the whole text at the end was seen before."""
    chunk = object_in(event)
    if event.name == b"error" or (chunk is not None and chunk.get("error")):
        return error_reading(chunk)
    if chunk is None:
        return bare_or_done(event)  # clients of it take the mark of OpenAI for an end as well
    token = member(chunk, "token")
    text = "" if token.get("special") is True else text_of(token.get("text"))
    if chunk.get("generated_text") is None:
        return output_of(text, EventClass.CONTROL)
    details = member(chunk, "details")
    reading = output_of(text, EventClass.TERMINAL)
    usage = usage_of(details.get("input_length"), details.get("generated_tokens"))
    return finished(reading, finish=details.get("finish_reason"), usage=usage, is_end=True)


def begins(_event: Event, chunk: Object | None) -> bool:
    """An event by its token."""
    return chunk is not None and type(chunk.get("token")) is dict


TGI: Final = Dialect(
    name="tgi",
    read=read,
    ends=Ends.MARK,
    begins=begins,
    error_form=unnamed(flat_problem),
    body_form=flat_problem,
    streams_unasked=True,
    asked_at=("/generate_stream",),
    spoken_by="TGI under `/generate_stream`",
    end_mark="`generated_text` that is not null; `[DONE]` as well",
    error_mark="an `error` member; `error_type` beside it",
    output="`text` of tokens that are not special",
)
