"""SGLang's own generate: every event repeats the text so far, unless the server was told to send pieces.

What came before is not kept: its length and a checksum tell whether the next text begins with it.
"""

from __future__ import annotations

import zlib
from typing import Final

from otel.hop import EventClass
from sidecar.inspection.dialects.base import (
    Dialect,
    Ends,
    Object,
    Read,
    error_reading,
    finished,
    member,
    parsed,
    reading_of,
    text_of,
    usage_of,
    visible_chars,
)
from sidecar.inspection.dialects.openai import bare_or_done
from sidecar.inspection.dialects.problems import counted_problem, unnamed
from sidecar.inspection.events import Event, Reading

CHOICES: Final = 128
"""Most texts followed at once: the choices of one request. The texts of others are taken for pieces."""
ABORTED: Final = "abort"


class SglangReader:
    """The texts of one stream: of each choice its length and checksum."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, int]] = {}

    def read(self, event: Event) -> Reading:
        """The reading of one event of the stream."""
        chunk = None if event.is_cut else parsed(event.data)
        if event.name == b"error" or (chunk is not None and chunk.get("error")):
            return error_reading(chunk)
        if chunk is None:
            return bare_or_done(event)
        about = member(chunk, "meta_info")
        reason = about.get("finish_reason")
        reason = reason if type(reason) is dict else {"type": reason}
        if reason.get("type") == ABORTED:
            error = {"type": reason.get("err_type") or ABORTED, "code": reason.get("status_code")}
            error["message"] = reason.get("message")
            return error_reading({"error": error, "id": about.get("id")})
        piece = self._piece(chunk.get("index"), text_of(chunk.get("text")))
        event_class = EventClass.CONTENT if piece else EventClass.CONTROL
        reading = reading_of(event_class, visible_chars(piece), None, about.get("id"))
        usage = usage_of(about.get("prompt_tokens"), about.get("completion_tokens"))
        return finished(reading, finish=reason.get("type"), usage=usage)

    def _piece(self, index: object, text: str) -> str:
        """What is new of the text."""
        index = index if type(index) is int else 0
        size, checksum = self._seen.get(index, (0, 0))
        is_repeated = len(text) >= size and _checksum(text[:size]) == checksum
        if index in self._seen or len(self._seen) < CHOICES:
            self._seen[index] = (len(text), _checksum(text))
        return text[size:] if is_repeated else text


def read(event: Event) -> Reading:
    """The reading of an event as the first of a stream."""
    return SglangReader().read(event)


def begin() -> Read:
    return SglangReader().read


def begins(_event: Event, chunk: Object | None) -> bool:
    """An event by what is said about the text."""
    return chunk is not None and type(chunk.get("meta_info")) is dict


def _checksum(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass")) if text else 0


SGLANG: Final = Dialect(
    name="sglang",
    read=read,
    reader=begin,
    ends=Ends.MARK,
    begins=begins,
    error_form=unnamed(counted_problem),
    body_form=counted_problem,
    asked_at=("/generate",),
    spoken_by="SGLang under `/generate`",
    end_mark="`data: [DONE]`",
    error_mark="an `error` member, or the finish reason `abort`",
    output="what is new of `text`, which repeats itself",
)
