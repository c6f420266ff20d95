"""OpenAI chat completions, and the many servers that speak them with fields of their own.

Visible output is the text of the deltas, `content` and `refusal`, summed over choices. Tool calls are output too,
but none that a reader sees grow: they count no characters.
"""

from __future__ import annotations

from typing import Final

from otel.hop import EventClass
from sidecar.inspection.dialects.base import Dialect, Object, error_reading, parsed, reading_of, visible_chars
from sidecar.inspection.events import Event, Reading

_BARE: Final = {b"[DONE]": EventClass.TERMINAL, b"": EventClass.KEEPALIVE}
"""Data that is no JSON and yet means something, without the white space around it."""
_THOUGHTS: Final = frozenset({"thinking", "reasoning"})


def read(event: Event) -> Reading:
    """The reading of one event of a chat stream."""
    chunk = None if event.is_cut else parsed(event.data)
    if event.name == b"error" or (chunk is not None and chunk.get("error")):
        return error_reading(chunk)
    if chunk is None:
        return reading_of(_BARE.get(event.data.strip(), EventClass.OPAQUE))
    model, response_id = chunk.get("model"), chunk.get("id")
    choices = chunk.get("choices")
    if not isinstance(choices, list) or not choices:
        has_usage = isinstance(chunk.get("usage"), dict)
        return reading_of(EventClass.USAGE if has_usage else EventClass.CONTROL, 0, model, response_id)
    chars = 0
    has_text = has_tool = has_thought = False
    for choice in choices:
        delta = choice.get("delta") if isinstance(choice, dict) else None
        if not isinstance(delta, dict):
            continue
        content = delta.get("content")
        text = content if isinstance(content, str) else _text(content)
        if refusal := delta.get("refusal"):
            text += _text(refusal)
        if text:
            has_text = True
            chars += visible_chars(text)
        elif not has_text:
            has_tool = has_tool or bool(delta.get("tool_calls") or delta.get("function_call"))
            has_thought = has_thought or _is_thought(delta)
    if has_text:
        return reading_of(EventClass.CONTENT, chars, model, response_id)
    if has_tool:
        return reading_of(EventClass.TOOL, 0, model, response_id)
    return reading_of(EventClass.REASONING if has_thought else EventClass.CONTROL, 0, model, response_id)


def begins(event: Event) -> bool:
    """Whether a stream begins with this event: a chunk by its name, or by its choices where it has no name (Azure)."""
    chunk = None if event.is_cut else parsed(event.data)
    if chunk is None:
        return False
    return chunk.get("object") == "chat.completion.chunk" or ("choices" in chunk and not chunk.get("object"))


def _text(value: object) -> str:
    """The text of a member of a delta, which is a string or a list of parts."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    parts = [part.get("text") for part in value if isinstance(part, dict) and str(part.get("type")) not in _THOUGHTS]
    return "".join(text for text in parts if isinstance(text, str))


def _is_thought(delta: Object) -> bool:
    content = delta.get("content")
    parts = content if isinstance(content, list) else []
    has_part = any(isinstance(part, dict) and str(part.get("type")) in _THOUGHTS for part in parts)
    return bool(delta.get("reasoning_content") or delta.get("reasoning")) or has_part


OPENAI_CHAT: Final = Dialect(
    name="openai_chat", has_terminal_rule=True, read=read, path_end="/chat/completions", begins=begins
)
