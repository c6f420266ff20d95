"""MCP's streamable HTTP: JSON-RPC messages, and the response to the request that was posted is the last one.

Whatever else the server sends in such a stream are notifications, and requests of its own. A stream that was asked
for by GET has no end of its own; one whose events have ids may end at any place, and be taken up in another one.
"""

from __future__ import annotations

from typing import Final

from otel.hop import EventClass
from sidecar.inspection.dialects.base import (
    Dialect,
    Ends,
    Object,
    bare,
    error_reading,
    object_in,
    objects,
    parsed_value,
    reading_of,
)
from sidecar.inspection.events import Event, Reading

VERSION: Final = "2.0"


def read(event: Event) -> Reading:
    """The reading of one event, which is a message or a list of them."""
    messages = _messages(event)
    if not messages:
        return error_reading(None) if event.name == b"error" else bare(event)
    responses = [message for message in messages if "id" in message and "method" not in message]
    failed = next((response for response in responses if response.get("error")), None)
    if failed is not None:
        return error_reading({"error": failed["error"]})
    if responses:
        return reading_of(EventClass.TERMINAL)
    is_beat = all(message.get("method") == "ping" for message in messages)
    return reading_of(EventClass.KEEPALIVE if is_beat else EventClass.CONTROL)


def begins(event: Event, chunk: Object | None) -> bool:
    """A message by its version, or a list of them."""
    if chunk is not None:
        return chunk.get("jsonrpc") == VERSION
    is_list = event.data.startswith(b"[") and not event.is_cut
    return is_list and any(message.get("jsonrpc") == VERSION for message in _messages(event))


def _messages(event: Event) -> list[Object]:
    found = object_in(event)
    if found is not None or event.is_cut:
        return [found] if found else []
    return objects(parsed_value(event.data)) if event.data.startswith(b"[") else []


MCP: Final = Dialect(
    name="mcp",
    read=read,
    ends=Ends.MARK,
    begins=begins,
    path_ends=("/mcp",),
    is_resumable=True,
    open_method="GET",
    error_form=None,  # an error answers a request by its id
    is_inference=False,
    spoken_by="MCP, streamable HTTP",
    end_mark="the response; none where events have ids, or to a GET",
    error_mark="a response with an `error`",
    output="nothing that grows",
)
