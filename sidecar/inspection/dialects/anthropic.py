"""Anthropic messages: every event names its type, in the JSON and in the SSE event name.

Visible output is the text of text blocks. Thoughts and tool input count no characters. The text completions that
came before the messages have events of one type only, and end with a stop reason.
"""

from __future__ import annotations

from typing import Final

from otel.hop import EventClass, Usage
from sidecar.guard.complaint import Complaint
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
    reading_of,
    text_of,
    usage_of,
    visible_chars,
)
from sidecar.inspection.dialects.problems import named
from sidecar.inspection.events import Event, Reading

_TOOL_BLOCKS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_KINDS: Final = frozenset(
    {"message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "completion"}
)


def read(event: Event) -> Reading:
    """The reading of one event of a message stream."""
    chunk = object_in(event)
    kind = None if chunk is None else chunk.get("type")
    if event.name == b"error" or kind == "error":
        return error_reading(chunk)
    if chunk is None:
        return bare(event)
    if event.is_cut and kind != "message_stop":
        return reading_of(EventClass.OPAQUE)
    match kind:
        case "content_block_delta":
            return _read_delta(member(chunk, "delta"))
        case "content_block_start":
            return _read_start(member(chunk, "content_block"))
        case "message_start":
            message = member(chunk, "message")
            reading = reading_of(EventClass.CONTROL, 0, message.get("model"), message.get("id"))
            usage = _usage(message)
            return reading if usage is None else finished(reading, usage=usage)
        case "message_delta":
            event_class = EventClass.USAGE if member(chunk, "usage") else EventClass.CONTROL
            return finished(
                reading_of(event_class), finish=member(chunk, "delta").get("stop_reason"), usage=_usage(chunk)
            )
        case "message_stop":
            return reading_of(EventClass.TERMINAL)
        case "completion":
            return _read_completion(chunk)
        case "ping":
            return reading_of(EventClass.KEEPALIVE)
    if chunk.get("error"):  # of a gateway that speaks another API
        return error_reading(chunk)
    return reading_of(EventClass.CONTROL)  # the API may add types, and says to ignore them


def begins(event: Event, chunk: Object | None) -> bool:
    """Whether only a stream of this API has the event."""
    return event.name == b"message_start" or (chunk is not None and str(chunk.get("type")) in _KINDS)


def _read_delta(delta: Object) -> Reading:
    text = delta.get("text")
    if isinstance(text, str) and text:
        return reading_of(EventClass.CONTENT, visible_chars(text))
    if delta.get("thinking"):
        return reading_of(EventClass.REASONING)
    return reading_of(EventClass.TOOL if delta.get("type") == "input_json_delta" else EventClass.CONTROL)


def _read_start(block: Object) -> Reading:
    text = block.get("text")
    if isinstance(text, str) and text:  # normally empty, but servers that imitate the API send the first piece here
        return reading_of(EventClass.CONTENT, visible_chars(text))
    kind = str(block.get("type"))
    if kind == "redacted_thinking" or block.get("thinking"):
        return reading_of(EventClass.REASONING)
    return reading_of(EventClass.TOOL if kind in _TOOL_BLOCKS else EventClass.CONTROL)


def _read_completion(chunk: Object) -> Reading:
    reason = chunk.get("stop_reason")
    otherwise = EventClass.CONTROL if reason is None else EventClass.TERMINAL
    reading = output_of(text_of(chunk.get("completion")), otherwise, chunk.get("model"), chunk.get("id"))
    return reading if reason is None else finished(reading, finish=reason, is_end=True)


def _usage(chunk: Object) -> Usage | None:
    usage = member(chunk, "usage")
    return usage_of(usage.get("input_tokens"), usage.get("output_tokens"))


def _problem(complaint: Complaint) -> Object:
    return {"type": "error", "error": {"type": complaint.type, "message": complaint.message}}


ANTHROPIC: Final = Dialect(
    name="anthropic",
    read=read,
    ends=Ends.MARK,
    begins=begins,
    path_ends=("/v1/messages",),
    error_form=named(_problem),
    body_form=_problem,
    spoken_by="Anthropic, Vertex, and those who imitate it under `/v1/messages`",
    end_mark="`message_stop`",
    error_mark="`event: error` or an event of the type `error`",
    output="`text` of the text blocks",
)
