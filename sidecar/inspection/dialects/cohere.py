"""Cohere chat, version 2: every event names its type, and the last one says why and counts.

A plan for tools is a thought. Some servers add the end mark of OpenAI, which changes nothing.
"""

from __future__ import annotations

from typing import Final

from otel.hop import EventClass
from sidecar.guard.complaint import GATEWAY_TIMEOUT, Complaint
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
from sidecar.inspection.dialects.openai import bare_or_done
from sidecar.inspection.dialects.problems import ErrorEvent
from sidecar.inspection.events import Event, Reading

FAILURES: Final = frozenset({"ERROR", "ERROR_TOXIC", "ERROR_LIMIT", "TIMEOUT"})
"""Finish reasons of an answer that came to no end of its own."""

_TOOLS: Final = frozenset({"tool-call-start", "tool-call-delta"})
_KINDS: Final = _TOOLS | {"message-start", "content-start", "content-delta", "tool-plan-delta", "message-end"}


def read(event: Event) -> Reading:
    """The reading of one event of a chat."""
    chunk = object_in(event)
    kind = None if chunk is None else chunk.get("type")
    if event.name == b"error" or kind == "error" or (chunk is not None and chunk.get("error")):
        return error_reading(chunk)
    if chunk is None:
        return bare_or_done(event)
    delta = member(chunk, "delta")
    message = member(delta, "message")
    match kind:
        case "content-delta" | "content-start":
            content = member(message, "content")
            is_thought = bool(content.get("thinking"))
            return output_of(text_of(content.get("text")), EventClass.REASONING if is_thought else EventClass.CONTROL)
        case "tool-plan-delta":
            return reading_of(EventClass.REASONING)
        case "tool-call-start" | "tool-call-delta":
            return reading_of(EventClass.TOOL)
        case "message-start":
            return reading_of(EventClass.CONTROL, 0, None, chunk.get("id"))
        case "message-end":
            return _end(delta)
    return reading_of(EventClass.CONTROL)


def begins(_event: Event, chunk: Object | None) -> bool:
    """Whether only a stream of this API has the event."""
    return chunk is not None and str(chunk.get("type")) in _KINDS


def _end(delta: Object) -> Reading:
    reason = delta.get("finish_reason")
    if str(reason) in FAILURES:
        return error_reading({"error": {"type": delta.get("error_type") or reason, "message": delta.get("error")}})
    tokens = member(member(delta, "usage"), "tokens")
    usage = usage_of(tokens.get("input_tokens"), tokens.get("output_tokens"))
    return finished(reading_of(EventClass.TERMINAL), finish=reason, usage=usage)


def failure_of(complaint: Complaint) -> str:
    """The finish reason that comes nearest."""
    return "TIMEOUT" if complaint.status == GATEWAY_TIMEOUT else "ERROR"


def problem(complaint: Complaint) -> Object:
    """What is said in place of an answer."""
    return {"message": complaint.message, "error_type": complaint.type}


def _error_form(complaint: Complaint) -> ErrorEvent:
    """The last event, as the API describes it, of an answer that came to no end of its own."""
    delta = {"finish_reason": failure_of(complaint), "error": complaint.message, "error_type": complaint.type}
    return ErrorEvent("message-end", {"type": "message-end", "delta": delta})


COHERE: Final = Dialect(
    name="cohere",
    read=read,
    ends=Ends.MARK,
    begins=begins,
    path_ends=("/v2/chat",),
    error_form=_error_form,
    body_form=problem,
    spoken_by="Cohere, version 2",
    end_mark="`message-end`; `[DONE]` as well",
    error_mark="an `error` member, the finish reasons `ERROR`, `ERROR_…`, `TIMEOUT`",
    output="`text` of the content deltas",
)
