"""Why the sidecar ends an exchange by itself, and when it is due: the limits, and one rule over three waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from otel.hop import Ending
from sidecar.guard.complaint import CONTENT_TIMEOUT, FIRST_EVENT_TIMEOUT, NEXT_EVENT_TIMEOUT


@dataclass(frozen=True, slots=True)
class Stop:
    """What the record of an exchange says when the sidecar ended it. error_type None: the ending says it all."""

    ending: Ending
    error_type: str | None = None


DRAINED: Final = Stop(Ending.DRAINED, "draining")
SLOW_READER: Final = Stop(Ending.CLIENT_DISCONNECT, "slow_reader")
"""The reader is still there but takes nothing: for everybody else that is a reader who left."""
BODY_IDLE: Final = Stop(Ending.REJECTED, "request_timeout")
ANSWER_LATE: Final = Stop(Ending.TIMED_OUT_FIRST_EVENT, "upstream_answer_timeout")
OVERLOADED: Final = Stop(Ending.LOST, "overloaded")
"""Neither side did anything wrong and nobody was told to stop: the sidecar gave up a stream to save the others."""
FIRST_EVENT_LATE: Final = Stop(Ending.TIMED_OUT_FIRST_EVENT, FIRST_EVENT_TIMEOUT)
NEXT_EVENT_LATE: Final = Stop(Ending.TIMED_OUT_NEXT_EVENT, NEXT_EVENT_TIMEOUT)
CONTENT_LATE: Final = Stop(Ending.TIMED_OUT_NEXT_EVENT, CONTENT_TIMEOUT)
STOPS: Final = (
    DRAINED,
    SLOW_READER,
    BODY_IDLE,
    ANSWER_LATE,
    OVERLOADED,
    FIRST_EVENT_LATE,
    NEXT_EVENT_LATE,
    CONTENT_LATE,
)
"""All of them, so that each can be counted from the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long an exchange may wait for whom.

    stall_after_ns: silence that is reported; it ends nothing. body_idle_ns: the client sends nothing of the body
    that it announced. write_deadline_ns: our kernel takes nothing for the reader. answer_ns: the upstream has what
    there is of the request and sends no head. None: as long as it likes.
    """

    stall_after_ns: int
    body_idle_ns: int
    write_deadline_ns: int | None = None
    answer_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """For whom an exchange waits right now, and since when; None: not for them.

    body: the client's next bytes. stuck: the reader has taken nothing of what we hold. asked: the upstream was
    given the last of the request so far, and its answer has no head yet.
    """

    body_since_ns: int | None = None
    stuck_since_ns: int | None = None
    asked_ns: int | None = None


def due(limits: Limits, waits: Waits, at_ns: int) -> Stop | None:
    """Why an exchange has to end now, None while it may go on.

    An upstream that waits for a body is not late: as long as the client owes bytes, only the client's limit counts.
    """
    if _is_over(waits.stuck_since_ns, limits.write_deadline_ns, at_ns):
        return SLOW_READER
    if waits.body_since_ns is not None:
        return BODY_IDLE if _is_over(waits.body_since_ns, limits.body_idle_ns, at_ns) else None
    return ANSWER_LATE if _is_over(waits.asked_ns, limits.answer_ns, at_ns) else None


def _is_over(since_ns: int | None, limit_ns: int | None, at_ns: int) -> bool:
    return since_ns is not None and limit_ns is not None and at_ns - since_ns >= limit_ns
