"""OpenAI text completions, which the inference engines still speak: a piece of text for each choice."""

from __future__ import annotations

from typing import Final

from otel.hop import EventClass
from sidecar.inspection.dialects.base import (
    Dialect,
    Ends,
    Object,
    finished,
    objects,
    parsed,
    reading_of,
    text_of,
    visible_chars,
)
from sidecar.inspection.dialects.openai import FAILED, bare_or_done, failed_choice, failure, is_error, usage_in
from sidecar.inspection.events import Event, Reading


def read(event: Event) -> Reading:
    """The reading of one event of a completion."""
    chunk = None if event.is_cut else parsed(event.data)
    if is_error(event, chunk):
        return failure(chunk)
    if chunk is None:
        return bare_or_done(event)
    model, response_id = chunk.get("model"), chunk.get("id")
    choices = objects(chunk.get("choices"))
    usage = usage_in(chunk)
    if not choices:
        event_class = EventClass.CONTROL if usage is None else EventClass.USAGE
        return finished(reading_of(event_class, 0, model, response_id), usage=usage)
    finish: object = None
    has_text = False
    chars = 0
    for choice in choices:
        finish = choice.get("finish_reason") or finish
        if text := text_of(choice.get("text")):
            has_text = True
            chars += visible_chars(text)
    if finish == FAILED:
        return failed_choice(chunk, choices)
    reading = reading_of(EventClass.CONTENT if has_text else EventClass.CONTROL, chars, model, response_id)
    return reading if finish is usage is None else finished(reading, finish=finish, usage=usage)


def begins(_event: Event, chunk: Object | None) -> bool:
    """A chunk by the text in its choices."""
    if chunk is None:
        return False
    choices = chunk.get("choices")
    if not choices:
        return choices == [] and chunk.get("object") == "text_completion"
    return isinstance(choices, list) and isinstance(choices[0], dict) and "text" in choices[0]


OPENAI_COMPLETIONS: Final = Dialect(
    name="openai_completions",
    read=read,
    ends=Ends.MARK,
    begins=begins,
    path_ends=("/v1/completions",),
    spoken_by="OpenAI, vLLM, SGLang, TGI, llama.cpp under `/v1/completions`",
    end_mark="`data: [DONE]`",
    error_mark="an `error` member, `event: error`, the finish reason `error`",
    output="`text` of the choices",
)
