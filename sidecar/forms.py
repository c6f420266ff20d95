"""Write the error event that ends a guarded stream, in the form of its API and the framing of its body.

What is written is whole, begins where an event of the body would begin, and reads as one error and as no end.
"""

from __future__ import annotations

from typing import Final

import orjson

from sidecar.guard.complaint import Complaint
from sidecar.inspection.dialects import PLAIN, Dialect
from sidecar.inspection.dialects.problems import ErrorEvent
from sidecar.inspection.eventstream import framed

JSON: Final = "application/json"


def error_event(dialect: Dialect, framing: str, complaint: Complaint) -> bytes | None:
    """The bytes to write where an event of this framing would begin, None where the API or the framing has no place
    for them.

    In a framing that is not its own an API tells it as nearly all do. An array is open, behind an element and before
    its comma, and stays open.
    """
    form = dialect.error_form
    if form is not None and framing not in dialect.framings:
        form = PLAIN.error_form
    if form is None:
        return None
    event = form(complaint)
    data = orjson.dumps(event.payload)
    match framing:
        case "sse":
            return _sse_block(event, data)
        case "ndjson":
            return data + b"\n"
        case "json_array":
            return b"," + data
        case "eventstream":
            return _frame(complaint, data)
    return None


def error_body(dialect: Dialect, complaint: Complaint) -> tuple[str, bytes]:
    """Content type and body of an answer of our own, in the form that the API's errors have before a stream begins."""
    return JSON, orjson.dumps(dialect.body_form(complaint))


def _sse_block(event: ErrorEvent, data: bytes) -> bytes:
    name = b"" if event.name is None else b"event: " + event.name.encode() + b"\n"
    return name + b"data: " + data + b"\n\n"


def _frame(complaint: Complaint, data: bytes) -> bytes:
    """A frame of the type `error`: clients raise what it says, where they would have to know an exception's name."""
    headers = {
        ":message-type": "error",
        ":error-code": complaint.type,
        ":error-message": complaint.message,
        ":content-type": JSON,
    }
    return framed(headers, data)
