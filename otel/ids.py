"""Ids: what is recorded of a request id, when two ids mean the same request, and ids made from them.

Everything is a pure function, so every hop that sees the same request id arrives at the same trace.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

REQUEST_ID_CHARS: Final = 200
"""Longest request id recorded as it is. Gateways send UUIDs; a longer one is a mistake or an attack."""

ANSWER_ID_CHARS: Final = 16
ANSWER_ID_VARIETY: Final = 6
"""An answer's own id is trusted from so many characters, and so many different ones, on: a UUID has 32 and more than
six, while some servers count (`chatcmpl-7`), draw from a thousand (`chatcmpl-417`) or say `0000000000000000`."""

_PRINTABLE: Final = re.compile(rf"[\x21-\x7e]{{1,{REQUEST_ID_CHARS}}}\Z")
_PREFIXES: Final = ("chatcmpl-", "cmpl-", "resp_", "msg_", "req_", "req-")
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")
_UUID_VERSION_AT: Final = 14  # the nibble in which Envoy keeps its trace decision
_TRACEPARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?\Z")


def recorded(request_id: str) -> str:
    """The form in which a request id is recorded: itself, or a digest when it is not printable ASCII of sane length.

    The digest keeps a hostile id joinable without letting it into spans, logs or terminals.
    """
    if _PRINTABLE.match(request_id):
        return request_id
    return "sha256:" + hashlib.sha256(request_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def normalised(request_id: str) -> str:
    """The form in which two ids of one request are equal: lower case, without the prefixes that APIs put
    before it, and with the UUID nibble that Envoy overwrites (`pack_trace_reason`) set back to 4."""
    key = request_id.lower()
    while key.startswith(_PREFIXES):
        prefix = next((p for p in _PREFIXES if key.startswith(p) and len(key) > len(p)), None)
        if prefix is None:
            break
        key = key[len(prefix) :]  # a worker puts its own before the one that the gateway made
    if _UUID.match(key):
        key = key[:_UUID_VERSION_AT] + "4" + key[_UUID_VERSION_AT + 1 :]
    return key


def tells_answers_apart(answer_id: str) -> bool:
    """Whether no other answer is likely to carry this id of an answer as well."""
    key = normalised(answer_id)
    return len(key) >= ANSWER_ID_CHARS and len(set(key)) >= ANSWER_ID_VARIETY


def trace_id_of(request_id: str) -> str:
    """The trace id (32 hex digits) of a request that came without a traceparent."""
    return _hex("gapline/trace/1", normalised(request_id), digits=32)


def span_id_of(trace_id: str, *parts: str | int) -> str:
    """A span id (16 hex digits) from whatever makes the span unique within its trace."""
    return _hex("gapline/span/1", trace_id, *parts, digits=16)


def parse_traceparent(value: str) -> tuple[str, str] | None:
    """(trace id, parent span id) of a W3C traceparent, None when it is not valid (Trace Context, section 3.2)."""
    match = _TRACEPARENT.match(value)
    if match is None or (value.startswith("00") and len(value) != 55):
        return None
    trace_id, parent_id = match.groups()
    if trace_id == "0" * 32 or parent_id == "0" * 16:
        return None
    return trace_id, parent_id


def _hex(*parts: str | int, digits: int) -> str:
    digest = hashlib.sha256("\0".join(map(str, parts)).encode("utf-8", "surrogatepass")).hexdigest()[:digits]
    return digest if digest.strip("0") else "0" * (digits - 1) + "1"  # all zeroes is invalid in OTLP
