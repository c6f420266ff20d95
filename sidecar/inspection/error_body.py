"""Read what an answer of the status 400 or more says in its body: the type, the code, and its words, masked."""

from __future__ import annotations

from typing import Final

from otel.hop import EventClass
from sidecar.headers import essence_of
from sidecar.inspection.coding import CodingError, Decoder, decoder_for
from sidecar.inspection.dialects.base import Object, error_reading, objects, parsed_value, text_of
from sidecar.inspection.dialects.outline import plain_members
from sidecar.inspection.events import Reading

LIMIT_BYTES: Final = 64 << 10
"""Most that is kept of one body. Real ones are below 2 KB; those that repeat what was asked say first what is wrong."""
FAILED: Final = 400


class ErrorBody:
    """One body, kept up to a limit until it ends, and then forgotten. Never raises."""

    __slots__ = ("_data", "_decoder", "_is_json")

    def __init__(self, *, is_json: bool, decoder: Decoder) -> None:
        self._is_json = is_json
        self._decoder: Decoder | None = decoder  # None: the rest cannot be decoded
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        """The next bytes as they were on the wire."""
        if self._decoder is None or len(self._data) >= LIMIT_BYTES:
            return
        try:
            decoded = self._decoder.decode(data)
        except CodingError:
            self._decoder = None
            return
        self._data += decoded[: LIMIT_BYTES - len(self._data)]

    def reading(self) -> Reading | None:
        """What it says, None where it says nothing that is known."""
        data = bytes(self._data)
        self._data.clear()
        chunk = _object_in(data) if self._is_json else {"message": data.decode("utf-8", "replace").strip()}
        if chunk is None:
            return None
        reading = _reading(chunk)
        is_known = reading.error_text is not None or reading != Reading(EventClass.ERROR)  # texts are not compared
        return reading if is_known else None


def error_body_for(status: int | None, content_type: str | None, content_encoding: str | None) -> ErrorBody | None:
    """Who reads the body of an answer, None where it is no error, or one in a form that only people can read."""
    if status is None or status < FAILED:
        return None
    essence = essence_of(content_type)
    is_json = essence == "application/json" or essence.endswith("+json")
    decoder = decoder_for(content_encoding) if is_json or essence == "text/plain" else None
    return None if decoder is None else ErrorBody(is_json=is_json, decoder=decoder)


def _object_in(data: bytes) -> Object | None:
    """The object, or the first one of a list; of what was cut, what stands plainly at its top."""
    value = parsed_value(data)
    if value is None:
        return plain_members(data)
    return value if isinstance(value, dict) else next(iter(objects(value)), None)


def _reading(chunk: Object) -> Reading:
    first = next(iter(objects(chunk.get("errors"))), None)  # watsonx, Writer, GraphQL
    if first is not None and not chunk.get("error"):
        return error_reading({**chunk, "error": {**first, "type": first.get("type") or first.get("code")}})
    return error_reading(chunk, error_type=text_of(chunk.get("__type")).rpartition("#")[2])  # AWS
