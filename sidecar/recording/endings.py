"""How an exchange ended, decided once: the facts known when it is over, and one table over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from otel.hop import Ending, Side


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of an exchange when it is over, as far as its ending depends on it.

    is_terminal_passed: the event that marks the end in band was handed on, or the reader was still there.
    has_reader_closed: the reader said first in band that it is through. needs_terminal: a clean end without the event
    that marks it is a cut. has_unmarked_end: only the end of the upstream connection could end the body, and no event
    marks its end. stopped: the sidecar ended it, and how; CLIENT_DISCONNECT: the reader took nothing for too long.
    """

    has_error_event: bool = False
    is_terminal_passed: bool = False
    has_reader_closed: bool = False
    is_upstream_broken: bool = False
    is_upstream_clean: bool = False
    needs_terminal: bool = False
    has_client_left: bool = False
    has_unmarked_end: bool = False
    stopped: Ending | None = None


def _is_stopped(ending: Ending) -> Callable[[Facts], bool]:
    return lambda facts: facts.stopped is ending


ENDINGS: Final[tuple[tuple[Ending, Side, Callable[[Facts], bool]], ...]] = (
    (Ending.ERROR_EVENT, Side.UPSTREAM, lambda facts: facts.has_error_event),
    (Ending.COMPLETE, Side.DOWNSTREAM, lambda facts: facts.has_reader_closed),
    (Ending.COMPLETE, Side.UPSTREAM, lambda facts: facts.is_terminal_passed),
    (Ending.UPSTREAM_CUT, Side.UPSTREAM, lambda facts: facts.is_upstream_broken),
    (Ending.MISSING_TERMINAL, Side.UPSTREAM, lambda facts: facts.is_upstream_clean and facts.needs_terminal),
    (Ending.CLIENT_DISCONNECT, Side.DOWNSTREAM, lambda facts: facts.has_client_left),
    (Ending.CLIENT_DISCONNECT, Side.SIDECAR, _is_stopped(Ending.CLIENT_DISCONNECT)),
    (Ending.TIMED_OUT_FIRST_EVENT, Side.SIDECAR, _is_stopped(Ending.TIMED_OUT_FIRST_EVENT)),
    (Ending.TIMED_OUT_NEXT_EVENT, Side.SIDECAR, _is_stopped(Ending.TIMED_OUT_NEXT_EVENT)),
    (Ending.REFUSED, Side.UPSTREAM, _is_stopped(Ending.REFUSED)),
    (Ending.REJECTED, Side.SIDECAR, _is_stopped(Ending.REJECTED)),
    (Ending.DRAINED, Side.SIDECAR, _is_stopped(Ending.DRAINED)),
    (Ending.LOST, Side.SIDECAR, _is_stopped(Ending.LOST)),
    (Ending.UNKNOWN_END, Side.UPSTREAM, lambda facts: facts.is_upstream_clean and facts.has_unmarked_end),
    (Ending.COMPLETE, Side.UPSTREAM, lambda facts: facts.is_upstream_clean),
    (Ending.LOST, Side.SIDECAR, lambda _facts: True),
)
"""Every ending, who ended it, and what it takes; the first that fits. What was said in band outranks how the bytes
ended, what the upstream did outranks what came of it, and the last row is for what should not be."""


def ending_of(facts: Facts) -> tuple[Ending, Side]:
    """The one ending of an exchange, and who ended it."""
    return next((ending, side) for ending, side, fits in ENDINGS if fits(facts))
