"""The table of API dialects. A further one is a file beside this and a row in it."""

from __future__ import annotations

from typing import Final

from sidecar.inspection.dialects.anthropic import ANTHROPIC
from sidecar.inspection.dialects.base import Dialect
from sidecar.inspection.dialects.openai_chat import OPENAI_CHAT
from sidecar.inspection.dialects.plain import OPAQUE, PLAIN
from sidecar.inspection.events import Event

DIALECTS: Final = (
    OPENAI_CHAT,
    ANTHROPIC,
)


def dialect_for(path: str, framing: str) -> Dialect:
    """The dialect of a response of this framing to a request of this path, which has no query."""
    if framing == "sse":
        end = path.rstrip("/")
        return next((dialect for dialect in DIALECTS if end.endswith(dialect.path_end)), PLAIN)
    return PLAIN if framing == "ndjson" else OPAQUE


def recognise(event: Event) -> Dialect | None:
    """The dialect of a stream whose first dispatched event this is, where the path tells none. None: not known."""
    return next((dialect for dialect in DIALECTS if dialect.begins(event)), None)


__all__ = ["DIALECTS", "Dialect", "dialect_for", "recognise"]
