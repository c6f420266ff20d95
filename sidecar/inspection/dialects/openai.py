"""What the APIs of OpenAI and of those who speak them have in common: the end mark, errors, and the counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from otel.hop import EventClass, Usage
from sidecar.inspection.dialects.base import NOTHING, Object, bare, error_reading, member, reading_of, usage_of
from sidecar.inspection.events import Event, Reading

DONE: Final = b"[DONE]"
"""Data that is no JSON and ends a stream, with white space around it or without."""
FAILED: Final = "error"
"""The finish reason of a choice that came to no end of its own (OpenRouter, Mistral)."""


def bare_or_done(event: Event) -> Reading:
    """The reading of data in which there is no object."""
    is_mark = event.data.strip() == DONE and not event.is_cut
    return reading_of(EventClass.TERMINAL) if is_mark else bare(event)


def is_error(event: Event, chunk: Object | None) -> bool:
    """Whether the event tells of a failure: by its name, by its `error`, or, as vLLM's once were, as a whole."""
    if event.name == b"error":
        return True
    return chunk is not None and bool(chunk.get("error") or chunk.get("object") == "error")


def failure(chunk: Object | None) -> Reading:
    """The reading of an event that tells of a failure."""
    if chunk is None:
        return error_reading(None)
    if chunk.get("object") == "error":
        error = {"type": chunk.get("type"), "code": chunk.get("code"), "message": chunk.get("message")}
        return error_reading({"error": error})
    return replace(error_reading(chunk), usage=usage_in(chunk))


def failed_choice(chunk: Object, choices: list[Object]) -> Reading:
    """The reading of a chunk in which a choice came to grief, with whatever it says of the reason."""
    error = next((choice["error"] for choice in choices if type(choice.get("error")) is dict), NOTHING)
    error = {"type": FAILED, "message": member(chunk, "x_groq").get("error"), **error}
    return replace(
        error_reading({"model": chunk.get("model"), "id": chunk.get("id"), "error": error}), usage=usage_in(chunk)
    )


def usage_in(chunk: Object) -> Usage | None:
    """The counts of a chunk, where the API has them or where Groq put them first."""
    usage = chunk.get("usage")
    if type(usage) is not dict:
        usage = member(member(chunk, "x_groq"), "usage")
    return usage_of(usage.get("prompt_tokens"), usage.get("completion_tokens"), usage.get("total_tokens"))
