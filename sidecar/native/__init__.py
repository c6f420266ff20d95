"""What is done for every event, compiled where that was built, and its twins in Python: one set of rules and of tests.

`hatch_build.py` builds the compiled module. Nothing depends on it: who is given no parts uses the twins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sidecar.http1.chunked import WholeChunks, whole_chunks
from sidecar.http1.receiving import Receiver
from sidecar.inspection.lane import Lane
from sidecar.inspection.stamper import Stamper


@dataclass(frozen=True, slots=True)
class Parts:
    """One way of doing it, all of it. lane: None where every event is to be read."""

    is_compiled: bool
    whole_chunks: WholeChunks
    receiver: type[Receiver]
    stamper: type[Stamper]
    lane: type[Lane] | None


TWINS: Final = Parts(is_compiled=False, whole_chunks=whole_chunks, receiver=Receiver, stamper=Stamper, lane=Lane)


def _compiled() -> Parts | None:
    try:
        from sidecar.native import compiled  # noqa: PLC0415  # it may not be there

        return Parts(
            is_compiled=True,
            whole_chunks=compiled.whole_chunks,
            receiver=compiled.Receiver,
            stamper=compiled.Stamper,
            lane=compiled.Lane,
        )
    except (ImportError, AttributeError):  # not built, or from an older source
        return None


COMPILED: Final = _compiled()
"""None where it was not built, or for another interpreter, or from another version of the source."""


def parts_for(choice: str) -> Parts:
    """The parts for `auto`, `on` or `off`. Raises ValueError where they are not there."""
    if choice == "off" or (choice == "auto" and COMPILED is None):
        return TWINS
    if COMPILED is None:
        raise ValueError("is not built here: see GAPLINE_BUILD_NATIVE")
    return COMPILED
