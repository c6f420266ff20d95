"""OpenAI chat completions, and the many servers that speak them with fields of their own.

Visible output is the text of the deltas, `content` and `refusal`, summed over choices. Tool calls are output too,
but none that a reader sees grow: they count no characters.
"""

from __future__ import annotations

from typing import Final

from otel.hop import EventClass
from sidecar.inspection.dialects.base import Dialect, Ends, Object, finished, member, parsed, reading_of, visible_chars
from sidecar.inspection.dialects.openai import (
    FAILED,
    bare_or_done,
    failed_choice,
    failure,
    is_error,
    usage_in,
)
from sidecar.inspection.events import Event, Reading

_THOUGHTS: Final = frozenset({"thinking", "reasoning"})


def read(event: Event) -> Reading:
    """The reading of one event of a chat stream."""
    chunk = None if event.is_cut else parsed(event.data)
    if event.name == b"error" or (chunk is not None and chunk.get("error")):
        return failure(chunk)
    if chunk is None:
        return bare_or_done(event)
    model, response_id = chunk.get("model"), chunk.get("id")
    choices = chunk.get("choices")
    if not isinstance(choices, list) or not choices:
        return _without_choices(event, chunk)
    chars = 0
    has_text = has_tool = has_thought = False
    finish: object = None
    for choice in choices:
        if not isinstance(choice, dict):
            continue
        finish = choice.get("finish_reason") or finish
        delta = choice.get("delta")
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
        event_class = EventClass.CONTENT
    elif has_tool:
        event_class = EventClass.TOOL
    else:
        event_class = EventClass.REASONING if has_thought else EventClass.CONTROL
    reading = reading_of(event_class, chars, model, response_id)
    if finish is None and not chunk.get("usage"):
        return reading
    if finish == FAILED:
        return failed_choice(chunk, [choice for choice in choices if isinstance(choice, dict)])
    return finished(reading, finish=finish, usage=usage_in(chunk))


def begins(_event: Event, chunk: Object | None) -> bool:
    """A chunk by its name, or by its choices where it has no name (Azure) or another one."""
    if chunk is None or not isinstance(choices := chunk.get("choices"), list):
        return False
    if not choices:
        return not chunk.get("object") or chunk["object"] == "chat.completion.chunk"
    return isinstance(choices[0], dict) and "delta" in choices[0]


def _without_choices(event: Event, chunk: Object) -> Reading:
    if is_error(event, chunk):
        return failure(chunk)
    if member(chunk, "x_groq").get("error"):
        return failed_choice(chunk, [])
    reading = reading_of(
        EventClass.USAGE if isinstance(chunk.get("usage"), dict) else EventClass.CONTROL,
        0,
        chunk.get("model"),
        chunk.get("id"),
    )
    usage = usage_in(chunk)
    return reading if usage is None else finished(reading, usage=usage)


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
    name="openai_chat",
    read=read,
    ends=Ends.MARK,
    begins=begins,
    path_ends=("/chat/completions", "/fim/completions", "/agents/completions"),
    spoken_by="OpenAI, Azure, OpenRouter, Groq, Mistral, vLLM, SGLang, TGI, llama.cpp, Ollama under `/v1`",
    end_mark="`data: [DONE]`",
    error_mark="an `error` member, `event: error`, the finish reason `error`, `x_groq.error`",
    output="`content` and `refusal` of the deltas",
)
