"""OpenAI responses: every event names its type; the last one repeats the whole answer, and there is no `[DONE]`.

Where the event was too long to be kept, its name is enough. The response's id is that of the first event that has
one: servers are known that change it with every event.
"""

from __future__ import annotations

from typing import Final

from otel.hop import EventClass
from sidecar.guard.complaint import Complaint
from sidecar.inspection.dialects.base import (
    NOTHING,
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
from sidecar.inspection.dialects.problems import ErrorEvent, problem
from sidecar.inspection.events import Event, Reading

_PREFIX: Final = "response."
_ENDS: Final = frozenset({"response.completed", "response.done", "response.incomplete", "response.cancelled"})
_FAILURES: Final = frozenset({"response.failed", "response.error", "error"})
_BEATS: Final = frozenset({"keepalive", "ping", "response.keepalive", "response.heartbeat"})
_STATES: Final = frozenset({"response.created", "response.queued", "response.in_progress"})


def read(event: Event) -> Reading:
    """The reading of one event of a response."""
    chunk = object_in(event)
    kind = _kind(event, chunk)
    if kind in _FAILURES or event.name == b"error":
        return _failure(chunk)
    if kind in _ENDS:
        return _end(NOTHING if chunk is None else chunk)
    if chunk is None:
        return bare_or_done(event) if not kind else reading_of(EventClass.CONTROL)
    if chunk.get("error") and not kind.startswith(_PREFIX):
        return error_reading(chunk)
    if not kind:
        return reading_of(EventClass.OPAQUE if event.is_cut else EventClass.CONTROL)
    if kind in _BEATS:
        return reading_of(EventClass.KEEPALIVE)
    if kind in _STATES:
        response = member(chunk, "response")
        return reading_of(EventClass.CONTROL, 0, response.get("model"), response.get("id"))
    if kind.endswith((".delta", "_delta", ".partial_image")):
        return _delta(kind, chunk)
    if kind == "response.output_item.added" and text_of(member(chunk, "item").get("type")).endswith("_call"):
        return reading_of(EventClass.TOOL)
    return reading_of(EventClass.CONTROL)  # parts that begin or are done, and what the API may add


def begins(event: Event, chunk: Object | None) -> bool:
    """Any event whose type is a response's: a response may be taken up again in its middle."""
    return _kind(event, chunk).startswith(_PREFIX)


def _kind(event: Event, chunk: Object | None) -> str:
    kind = None if chunk is None else chunk.get("type")
    return kind if isinstance(kind, str) else event.name.decode("ascii", "replace")


def _delta(kind: str, chunk: Object) -> Reading:
    if "reasoning" in kind:
        return reading_of(EventClass.REASONING)
    if "text" in kind or "refusal" in kind or "transcript" in kind:
        return output_of(text_of(chunk.get("delta")), EventClass.CONTROL)
    return reading_of(EventClass.TOOL)  # arguments, code, sound, pictures: output without text


def _end(chunk: Object) -> Reading:
    response = member(chunk, "response")
    usage = member(response, "usage")
    reason = member(response, "incomplete_details").get("reason") or response.get("status")
    reading = reading_of(EventClass.TERMINAL, 0, response.get("model"), response.get("id"))
    counts = usage_of(usage.get("input_tokens"), usage.get("output_tokens"), usage.get("total_tokens"))
    return reading if reason is counts is None else finished(reading, finish=reason, usage=counts)


def _failure(chunk: Object | None) -> Reading:
    response = NOTHING if chunk is None else member(chunk, "response")
    return error_reading(response or chunk)


def _error_form(complaint: Complaint) -> ErrorEvent:
    """The members that the API describes, and the `error` that it sends and that its clients raise on. The number is
    no further one of the sequence: who asks for the rest of the response after it gets it from the beginning."""
    fields = {"code": complaint.type, "message": complaint.message, "param": None, "sequence_number": 0}
    return ErrorEvent("error", {"type": "error", **fields, **problem(complaint)})


OPENAI_RESPONSES: Final = Dialect(
    name="openai_responses",
    read=read,
    ends=Ends.MARK,
    begins=begins,
    path_ends=("/v1/responses", "/openai/responses"),
    error_form=_error_form,
    spoken_by="OpenAI, Azure, OpenRouter, Bedrock, DeepSeek, vLLM under `/v1/responses`",
    end_mark="`response.completed`, `.incomplete`, `.done` or `.cancelled`; `[DONE]` as well",
    error_mark="`response.failed`, `error`",
    output="deltas of `output_text`, `refusal` and transcripts",
)
