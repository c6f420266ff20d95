"""Anthropic messages: every event names its type, in the JSON and in the SSE event name.

Visible output is the text of text blocks. Thoughts and tool input count no characters.
"""

from __future__ import annotations

from typing import Final

from otel.hop import EventClass
from sidecar.inspection.dialects.base import Dialect, Object, error_reading, parsed, reading_of, visible_chars
from sidecar.inspection.events import Event, Reading

_TOOL_BLOCKS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})


def read(event: Event) -> Reading:
    """The reading of one event of a message stream."""
    chunk = None if event.is_cut else parsed(event.data)
    kind = None if chunk is None else chunk.get("type")
    if event.name == b"error" or kind == "error":
        return error_reading(chunk)
    if chunk is None:
        return reading_of(EventClass.OPAQUE if event.data.strip() else EventClass.KEEPALIVE)
    match kind:
        case "content_block_delta":
            return _read_delta(_object(chunk, "delta"))
        case "content_block_start":
            return _read_start(_object(chunk, "content_block"))
        case "message_start":
            message = _object(chunk, "message")
            return reading_of(EventClass.CONTROL, 0, message.get("model"), message.get("id"))
        case "message_delta":
            return reading_of(EventClass.USAGE if _object(chunk, "usage") else EventClass.CONTROL)
        case "message_stop":
            return reading_of(EventClass.TERMINAL)
        case "ping":
            return reading_of(EventClass.KEEPALIVE)
    return reading_of(EventClass.CONTROL)  # the API may add types, and says to ignore them


def begins(event: Event) -> bool:
    """Whether a stream begins with this event."""
    chunk = None if event.is_cut else parsed(event.data)
    return event.name == b"message_start" or (chunk is not None and chunk.get("type") == "message_start")


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
    return reading_of(EventClass.TOOL if str(block.get("type")) in _TOOL_BLOCKS else EventClass.CONTROL)


def _object(chunk: Object, key: str) -> Object:
    value = chunk.get(key)
    return value if isinstance(value, dict) else {}


ANTHROPIC: Final = Dialect(name="anthropic", has_terminal_rule=True, read=read, path_end="/v1/messages", begins=begins)
