"""Mistral conversations: every event names its type. Its chat is that of OpenAI, and read as such."""

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
from sidecar.inspection.dialects.openai import bare_or_done
from sidecar.inspection.dialects.problems import ErrorEvent
from sidecar.inspection.events import Event, Reading

_TOOLS: Final = frozenset({"function.call.delta", "tool.execution.started", "tool.execution.delta"})
_KINDS: Final = frozenset({"conversation.response.started", "message.output.delta", "conversation.response.done"})


def read(event: Event) -> Reading:
    """The reading of one event of a conversation."""
    chunk = object_in(event)
    kind = _kind(event, chunk)
    if kind in {"error", "conversation.response.error"} or (chunk is not None and chunk.get("error")):
        return error_reading(chunk)
    if chunk is None:
        return bare_or_done(event)
    if kind == "conversation.response.done":
        usage = member(chunk, "usage")
        counts = usage_of(usage.get("prompt_tokens"), usage.get("completion_tokens"), usage.get("total_tokens"))
        return finished(reading_of(EventClass.TERMINAL), usage=counts)
    if kind == "message.output.delta":
        return _delta(chunk)
    if kind in _TOOLS:
        return reading_of(EventClass.TOOL)
    return reading_of(EventClass.CONTROL, 0, chunk.get("model"), chunk.get("conversation_id"))


def begins(event: Event, chunk: Object | None) -> bool:
    """Whether only a conversation has the event."""
    return chunk is not None and _kind(event, chunk) in _KINDS


def _kind(event: Event, chunk: Object | None) -> str:
    kind = None if chunk is None else chunk.get("type")
    return kind if isinstance(kind, str) else event.name.decode("ascii", "replace")


def _delta(chunk: Object) -> Reading:
    content = chunk.get("content")
    if not isinstance(content, dict):
        return output_of(text_of(content), EventClass.CONTROL, chunk.get("model"))
    is_thought = content.get("type") == "thinking"
    text = "" if is_thought else text_of(content.get("text"))
    return output_of(text, EventClass.REASONING if is_thought else EventClass.CONTROL, chunk.get("model"))


def _error_form(complaint: Complaint) -> ErrorEvent:
    kind = "conversation.response.error"
    fields = {"message": complaint.message, "code": complaint.status, "error_type": complaint.type}
    return ErrorEvent(kind, {"type": kind, **fields})


def _problem(complaint: Complaint) -> Object:
    fields = {"type": complaint.type, "message": complaint.message, "param": None, "code": str(complaint.status)}
    return {"object": "error", **fields}


MISTRAL: Final = Dialect(
    name="mistral",
    read=read,
    ends=Ends.MARK,
    begins=begins,
    path_ends=("/v1/conversations",),
    error_form=_error_form,
    body_form=_problem,
    spoken_by="Mistral conversations and agents",
    end_mark="`conversation.response.done`",
    error_mark="`conversation.response.error`, `event: error` or an `error` member",
    output="`content` of the message deltas",
)
