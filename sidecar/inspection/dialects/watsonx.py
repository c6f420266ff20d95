"""IBM watsonx, text and chat: each event has an id and is named `message`, and none is the end.

Every piece of text says why the model stopped, `not_finished` until it did. Chat chunks are those of OpenAI, with
the model in a member of another name and no `[DONE]`.
"""

from __future__ import annotations

from typing import Final

from otel.hop import EventClass
from sidecar.guard.complaint import Complaint
from sidecar.inspection.dialects import openai_chat
from sidecar.inspection.dialects.base import (
    Dialect,
    Ends,
    Object,
    error_reading,
    finished,
    objects,
    parsed,
    reading_of,
    text_of,
    usage_of,
    visible_chars,
)
from sidecar.inspection.dialects.openai import bare_or_done
from sidecar.inspection.dialects.problems import named
from sidecar.inspection.events import Event, Reading

_GOES_ON: Final = frozenset({"not_finished", ""})


def read(event: Event) -> Reading:
    """The reading of one event."""
    chunk = None if event.is_cut else parsed(event.data)
    if event.name == b"error" or (chunk is not None and (chunk.get("error") or chunk.get("errors"))):
        first = next(iter(objects(None if chunk is None else chunk.get("errors"))), None)
        return error_reading(chunk if first is None else {"error": {**first, "type": first.get("code"), "code": None}})
    if chunk is None:
        return bare_or_done(event)
    if "choices" in chunk:
        return _chat(event, chunk)
    results = objects(chunk.get("results"))
    texts = [text_of(result.get("generated_text")) for result in results]
    event_class = EventClass.CONTENT if any(texts) else EventClass.CONTROL
    reading = reading_of(event_class, sum(map(visible_chars, texts)), chunk.get("model_id"))
    if not results:
        return reading
    read_count = max((_number(result.get("input_token_count")) for result in results), default=None)
    made_count = sum(_number(result.get("generated_token_count")) for result in results)
    reasons = [text_of(result.get("stop_reason")).lower() for result in results]
    is_end = not any(reason in _GOES_ON for reason in reasons)
    return finished(
        reading, finish=reasons[0] if is_end else None, usage=usage_of(read_count, made_count), is_end=is_end
    )


def begins(_event: Event, chunk: Object | None) -> bool:
    """An event by the name of its model, and by what it carries."""
    return chunk is not None and "model_id" in chunk and ("results" in chunk or "choices" in chunk)


def _chat(event: Event, chunk: Object) -> Reading:
    reading = openai_chat.read(event)
    named = reading_of(reading.event_class, reading.visible_chars, chunk.get("model_id"), reading.response_id)
    if reading.event_class is EventClass.ERROR:
        return reading
    return finished(named, finish=reading.finish, usage=reading.usage, is_end=reading.finish is not None)


def _number(value: object) -> int:
    return value if type(value) is int and value > 0 else 0


def _problem(complaint: Complaint) -> Object:
    error = {"code": complaint.type, "message": complaint.message}
    return {"errors": [error], "status_code": complaint.status}


WATSONX: Final = Dialect(
    name="watsonx",
    read=read,
    ends=Ends.FINISH,
    begins=begins,
    path_ends=("/generation_stream", "/chat_stream"),
    error_form=named(_problem),
    body_form=_problem,
    streams_unasked=True,
    spoken_by="IBM watsonx",
    end_mark="`stop_reason` of all results other than `not_finished`, or `finish_reason`, unless output follows",
    error_mark="`event: error`, or an `errors` or `error` member",
    output="`generated_text` of the results, `content` of the deltas",
)
