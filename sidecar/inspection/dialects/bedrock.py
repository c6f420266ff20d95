"""AWS Bedrock in event-stream frames: Converse, and what models say for themselves, wrapped in base64.

A wrapped chunk is read as the dialect of its model. The last one of every model carries the metrics of the
invocation, so the end is known even of models that do not mark it.
"""

from __future__ import annotations

import binascii
from typing import Final

from otel.hop import EventClass
from sidecar.guard.complaint import Complaint
from sidecar.inspection.dialects import anthropic, cohere_v1, openai_chat
from sidecar.inspection.dialects.base import (
    Dialect,
    Ends,
    Object,
    bare,
    error_reading,
    finished,
    member,
    objects,
    output_of,
    parsed,
    reading_of,
    text_of,
    usage_of,
)
from sidecar.inspection.dialects.problems import ErrorEvent
from sidecar.inspection.events import Event, Reading

METRICS: Final = "amazon-bedrock-invocationMetrics"

_EVENT: Final = b"event/"
_CHUNK: Final = b"event/chunk"
_CONVERSE: Final = frozenset(
    {"messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata"}
)


def read(event: Event) -> Reading:
    """The reading of one frame."""
    kind, _, name = event.name.decode("ascii", "replace").partition("/")
    chunk = None if event.is_cut else parsed(event.data)
    if kind in {"exception", "error"}:
        return error_reading(chunk, error_type=name)
    if chunk is None:
        return bare(event)
    if chunk.get("error"):  # of a gateway that speaks another API
        return error_reading(chunk)
    if event.name == _CHUNK:
        return _wrapped(event, chunk)
    return _converse(name, chunk)


def begins(event: Event, _chunk: Object | None) -> bool:
    """A frame by the type of its event."""
    return event.name == _CHUNK or (
        event.name.startswith(_EVENT) and event.name[len(_EVENT) :].decode("ascii", "replace") in _CONVERSE
    )


def _converse(name: str, chunk: Object) -> Reading:
    match name:
        case "contentBlockDelta":
            return _delta(member(chunk, "delta"))
        case "contentBlockStart":
            return reading_of(EventClass.TOOL if "toolUse" in member(chunk, "start") else EventClass.CONTROL)
        case "messageStop":
            return finished(reading_of(EventClass.TERMINAL), finish=chunk.get("stopReason"))
        case "metadata":
            usage = member(chunk, "usage")
            counts = usage_of(usage.get("inputTokens"), usage.get("outputTokens"), usage.get("totalTokens"))
            return finished(reading_of(EventClass.USAGE), usage=counts)
    return reading_of(EventClass.CONTROL)


def _delta(delta: Object) -> Reading:
    if "reasoningContent" in delta:
        return reading_of(EventClass.REASONING)
    return (
        reading_of(EventClass.TOOL) if "toolUse" in delta else output_of(text_of(delta.get("text")), EventClass.CONTROL)
    )


def _wrapped(event: Event, chunk: Object) -> Reading:
    inner = _unwrapped(chunk.get("bytes"))
    found = None if inner is None else parsed(inner)
    if found is None or inner is None:
        return bare(event)
    reading = _model_reading(Event(event.unit, inner, b"", b"", 0), found)
    metrics = member(found, METRICS)
    if not metrics:
        return reading
    usage = reading.usage or usage_of(metrics.get("inputTokenCount"), metrics.get("outputTokenCount"))
    if reading.event_class is EventClass.CONTROL:
        reading = finished(reading_of(EventClass.TERMINAL), finish=reading.finish)
    return finished(reading, finish=reading.finish, usage=usage, is_end=True)


def _unwrapped(value: object) -> bytes | None:
    try:
        return binascii.a2b_base64(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _model_reading(event: Event, found: Object) -> Reading:
    """The reading of what a model said, by the members that only it has."""
    if "type" in found:
        return anthropic.read(event)
    if found.get("choices"):
        return openai_chat.read(event)
    if "event_type" in found:
        return cohere_v1.read(event)
    name = next((name for name in found if name in _CONVERSE), None)
    if name is not None:
        return _converse(name, member(found, name))
    pieces = [found, *objects(found.get("outputs"))]  # Titan, Llama; Mistral
    texts = [text_of(piece.get(key)) for piece in pieces for key in ("outputText", "generation", "text")]
    reasons = [piece.get(key) for piece in pieces for key in ("completionReason", "stop_reason")]
    reading = output_of("".join(texts), EventClass.CONTROL)
    finish = next((reason for reason in reasons if reason), None)
    return reading if finish is None else finished(reading, finish=finish)


def _problem(complaint: Complaint) -> Object:
    return {"message": complaint.message, "type": complaint.type}


def _error_form(complaint: Complaint) -> ErrorEvent:
    """A frame of the type `error`: clients raise what it says, and need not know the code as they need exceptions."""
    return ErrorEvent(f"error/{complaint.type}", {"message": complaint.message})


BEDROCK: Final = Dialect(
    name="bedrock",
    read=read,
    ends=Ends.MARK,
    begins=begins,
    framings=frozenset({"eventstream"}),
    path_ends=("/converse-stream", "/invoke-with-response-stream"),
    error_form=_error_form,
    body_form=_problem,
    streams_unasked=True,
    spoken_by="AWS Bedrock, Converse and InvokeModel with a response stream",
    end_mark="`messageStop`, the model's own, or the chunk with the invocation's metrics",
    error_mark="frames of the type `exception` or `error`",
    output="`text` of the deltas, or as the model says it",
)
