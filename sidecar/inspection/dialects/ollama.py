"""Ollama, generate and chat: a JSON object a line, and the last one says `done` and counts."""

from __future__ import annotations

from typing import Final

from otel.hop import EventClass
from sidecar.inspection.dialects.base import (
    Dialect,
    Ends,
    Object,
    bare,
    error_reading,
    finished,
    member,
    object_in,
    output_of,
    text_of,
    usage_of,
)
from sidecar.inspection.dialects.problems import flat_problem, unnamed
from sidecar.inspection.events import Event, Reading


def read(event: Event) -> Reading:
    """The reading of one line."""
    chunk = object_in(event)
    if event.name == b"error" or (chunk is not None and chunk.get("error")):
        return error_reading(chunk)
    if chunk is None:
        return bare(event)
    message = member(chunk, "message")
    is_end = chunk.get("done") is True
    otherwise = EventClass.TERMINAL if is_end else _class_without_text(chunk, message)
    text = text_of(chunk.get("response")) or text_of(message.get("content"))
    reading = output_of(text, otherwise, chunk.get("model"))
    if not is_end:
        return reading
    usage = usage_of(chunk.get("prompt_eval_count"), chunk.get("eval_count"))
    return finished(reading, finish=chunk.get("done_reason"), usage=usage, is_end=True)


def begins(_event: Event, chunk: Object | None) -> bool:
    """A line by its flag and what it carries."""
    return chunk is not None and isinstance(chunk.get("done"), bool) and ("response" in chunk or "message" in chunk)


def _class_without_text(chunk: Object, message: Object) -> EventClass:
    if message.get("tool_calls"):
        return EventClass.TOOL
    return EventClass.REASONING if chunk.get("thinking") or message.get("thinking") else EventClass.CONTROL


OLLAMA: Final = Dialect(
    name="ollama",
    read=read,
    ends=Ends.MARK,
    begins=begins,
    framings=frozenset({"ndjson"}),
    path_ends=("/api/generate", "/api/chat"),
    error_form=unnamed(flat_problem),
    body_form=flat_problem,
    streams_unasked=True,
    spoken_by="Ollama",
    end_mark='`"done": true`',
    output="`response`, or `content` of the message",
)
