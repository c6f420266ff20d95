"""A hop that rebuilds every chunk, as gateways do that speak several APIs: thoughts and the role go, comments come.

    python -m tests.lab.rebuilder --hop gateway --port PORT --next URL

Text passes at once, one event for one; only what stands around it differs, and so the taps count other events.
"""

from __future__ import annotations

import json
from typing import Final

from otel.demo import script
from otel.demo.reader import has_text
from tests.lab import app

COMMENT_EVERY: Final = 10
"""Texts between two comments."""
DONE: Final = b"data: [DONE]\n\n"


class Rebuild:
    """Rewrites the events of one answer."""

    def __init__(self) -> None:
        self._texts = 0

    def __call__(self, event: bytes) -> bytes:
        if event == DONE:
            return event
        said = json.loads(event.removeprefix(b"data: "))
        frame = script.frame_of(request_id="rebuilt", model=said["model"])
        if has_text(event):
            self._texts += 1
            comment = b": processing\n\n" if self._texts % COMMENT_EVERY == 0 else b""
            return comment + script.chunk(frame, {"content": said["choices"][0]["delta"]["content"]})
        if said["choices"] and (reason := said["choices"][0]["finish_reason"]):
            return script.chunk(frame, {}, finish_reason=reason)
        return b""  # the role, a thought, the usage


if __name__ == "__main__":
    app.main("tests.lab.rebuilder", rewriting=Rebuild)
