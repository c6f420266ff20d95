"""Gemini, as SSE or as one JSON array: every event is a whole response with the next parts.

A finish reason is only a candidate for the end, for it comes on every chunk, too early, or in the middle after a
tool has run. Thoughts are parts that say so; calls and pictures are output without text.
"""

from __future__ import annotations

from typing import Final

from otel.hop import EventClass, Usage
from sidecar.guard.complaint import GATEWAY_TIMEOUT, Complaint
from sidecar.inspection.dialects.base import (
    Dialect,
    Ends,
    Object,
    bare,
    error_reading,
    finished,
    member,
    objects,
    parsed,
    reading_of,
    text_of,
    usage_of,
    visible_chars,
)
from sidecar.inspection.dialects.problems import unnamed
from sidecar.inspection.events import Event, Reading

_UNSPECIFIED: Final = "FINISH_REASON_UNSPECIFIED"
_TELLING: Final = frozenset({"candidates", "usageMetadata", "promptFeedback"})


def read(event: Event) -> Reading:
    """The reading of one response of a stream."""
    chunk = None if event.is_cut else parsed(event.data)
    if event.name == b"error" or (chunk is not None and chunk.get("error")):
        return error_reading(chunk)
    if chunk is None:
        return bare(event)
    chunk = _unwrapped(chunk)
    candidates = objects(chunk.get("candidates"))
    event_class, chars = _class_of(candidates)
    usage = _usage(member(chunk, "usageMetadata"))
    if event_class is EventClass.CONTROL and usage is not None and not candidates:
        event_class = EventClass.USAGE
    reading = reading_of(event_class, chars, chunk.get("modelVersion"), chunk.get("responseId"))
    reasons = [_reason(candidate) for candidate in candidates] or [member(chunk, "promptFeedback").get("blockReason")]
    is_end = all(reasons)
    if not is_end and usage is None:
        return reading
    finish = next((reason for reason in reasons if reason), None)
    return finished(reading, finish=finish, usage=usage, is_end=is_end)


def begins(_event: Event, chunk: Object | None) -> bool:
    """A response by its members, or by the wrapping of them."""
    return chunk is not None and not _TELLING.isdisjoint(_unwrapped(chunk))


def _unwrapped(chunk: Object) -> Object:
    inner = chunk.get("response")
    return inner if type(inner) is dict and "candidates" not in chunk else chunk


def _class_of(candidates: list[Object]) -> tuple[EventClass, int]:
    """What a reader sees of the parts of all candidates: the most visible of them."""
    chars = 0
    has_text = has_thought = has_other = False
    for candidate in candidates:
        for part in objects(member(candidate, "content").get("parts")):
            text = text_of(part.get("text"))
            if text and part.get("thought") is True:
                has_thought = True
            elif text:
                has_text = True
                chars += visible_chars(text)
            elif part.keys() - {"text", "thought", "thoughtSignature"}:
                has_other = True
    if has_text:
        return EventClass.CONTENT, chars
    if has_other:
        return EventClass.TOOL, 0
    return EventClass.REASONING if has_thought else EventClass.CONTROL, 0


def _reason(candidate: Object) -> object:
    reason = candidate.get("finishReason")
    return None if reason == _UNSPECIFIED else reason


def _usage(counts: Object) -> Usage | None:
    """Thoughts are tokens that were made as well: together with the text they are what is paid as output."""
    made = usage_of(counts.get("candidatesTokenCount"), counts.get("thoughtsTokenCount"))
    parts = [] if made is None else [part for part in (made.input_tokens, made.output_tokens) if part is not None]
    return usage_of(counts.get("promptTokenCount"), sum(parts) if parts else None, counts.get("totalTokenCount"))


def _problem(complaint: Complaint) -> Object:
    """Clients raise on a code of 400 to 599; the status is one of google.rpc.Code, the type our own beside it."""
    status = "DEADLINE_EXCEEDED" if complaint.status == GATEWAY_TIMEOUT else "UNAVAILABLE"
    error = {"code": complaint.status, "message": complaint.message, "status": status, "type": complaint.type}
    return {"error": error}


GEMINI: Final = Dialect(
    name="gemini",
    read=read,
    ends=Ends.FINISH,
    begins=begins,
    framings=frozenset({"sse", "json_array"}),
    path_ends=(":streamGenerateContent",),
    error_form=unnamed(_problem),
    body_form=_problem,
    streams_unasked=True,
    spoken_by="Gemini, Vertex",
    end_mark="`finishReason` of all candidates, or `blockReason`, unless output follows",
    error_mark="an `error` member; its `status` is the type",
    output="`text` of parts that are no thoughts",
)
