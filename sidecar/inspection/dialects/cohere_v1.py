"""Cohere chat, version 1: a JSON object a line, and the last one repeats the whole answer."""

from __future__ import annotations

from typing import Final

from otel.hop import EventClass
from sidecar.guard.complaint import Complaint
from sidecar.inspection.dialects.base import (
    Dialect,
    Ends,
    Object,
    error_reading,
    finished,
    member,
    object_in,
    output_of,
    reading_of,
    text_of,
    usage_of,
)
from sidecar.inspection.dialects.cohere import FAILURES, problem
from sidecar.inspection.dialects.openai import bare_or_done
from sidecar.inspection.dialects.problems import ErrorEvent
from sidecar.inspection.events import Event, Reading

_TOOLS: Final = frozenset({"tool-calls-chunk", "tool-calls-generation"})


def read(event: Event) -> Reading:
    """The reading of one line."""
    chunk = object_in(event)
    if event.name == b"error" or (chunk is not None and chunk.get("error")):
        return error_reading(chunk)
    if chunk is None:
        return bare_or_done(event)
    kind = chunk.get("event_type")
    if kind == "stream-end" or chunk.get("is_finished") is True:
        return _end(chunk)
    if kind == "text-generation":
        return output_of(text_of(chunk.get("text")), EventClass.CONTROL)
    if str(kind) in _TOOLS:
        return reading_of(EventClass.TOOL)
    return reading_of(EventClass.CONTROL, 0, None, chunk.get("generation_id"))


def begins(_event: Event, chunk: Object | None) -> bool:
    """A line by its type and its flag."""
    return chunk is not None and "event_type" in chunk and "is_finished" in chunk


def _end(chunk: Object) -> Reading:
    reason = chunk.get("finish_reason")
    if str(reason) in FAILURES:
        return error_reading({"error": {"type": reason}})
    about = member(member(chunk, "response"), "meta")
    counts = member(about, "tokens") or member(about, "billed_units")
    usage = usage_of(counts.get("input_tokens"), counts.get("output_tokens"))
    return finished(reading_of(EventClass.TERMINAL), finish=reason, usage=usage)


def _error_form(complaint: Complaint) -> ErrorEvent:
    """The last line, of an answer that came to no end of its own; version 1 knows no reason but `ERROR`."""
    line = {"event_type": "stream-end", "is_finished": True, "finish_reason": "ERROR"}
    return ErrorEvent(None, {**line, "error": complaint.message, "error_type": complaint.type})


COHERE_V1: Final = Dialect(
    name="cohere_v1",
    read=read,
    ends=Ends.MARK,
    begins=begins,
    framings=frozenset({"sse", "ndjson"}),
    error_form=_error_form,
    body_form=problem,
    spoken_by="Cohere, version 1",
    end_mark='`stream-end`, or `"is_finished": true`',
    error_mark="an `error` member, the finish reasons `ERROR`, `ERROR_…`, `TIMEOUT`",
    output="`text` of the generations; the repetition at the end counts nothing",
)
