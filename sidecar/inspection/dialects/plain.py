"""Streams of an API that no file here knows, and bodies without a framing: errors are seen, the rest is opaque."""

from __future__ import annotations

from typing import Final

from otel.hop import EventClass
from sidecar.inspection.dialects.base import Dialect, error_reading, parsed, reading_of
from sidecar.inspection.events import Event, Reading


def read(event: Event) -> Reading:
    """The reading of an SSE event or NDJSON line. An `error` member is what nearly every API reports errors with."""
    chunk = parsed(event.data) if b'"error"' in event.data and not event.is_cut else None
    if event.name == b"error" or (chunk is not None and chunk.get("error")):
        return error_reading(chunk)
    return reading_of(EventClass.OPAQUE if event.data.strip() else EventClass.KEEPALIVE)


def read_arrival(_event: Event) -> Reading:
    """The reading of what one read of an unframed body brought."""
    return reading_of(EventClass.OPAQUE)


PLAIN: Final = Dialect(name="plain", has_terminal_rule=False, read=read)
OPAQUE: Final = Dialect(name="opaque", has_terminal_rule=False, read=read_arrival)
