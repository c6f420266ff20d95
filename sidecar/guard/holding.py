"""Hold the head of an answer back until its first event, so that what fails before that can keep its real status.

Once a 200 has been sent, a failure can only be told inside the stream, where few look for it. What is held is the
head and the first bytes, for a time and up to a size: whichever is reached first lets everything pass as it came.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from otel.hop import EventClass
from sidecar.guard.complaint import BAD_GATEWAY

LIMIT_BYTES: Final = 256 << 10
"""Most that is held: comments, pings and the beginning of an event. More of them says that the stream is alive."""

_ERROR_STATUS: Final = re.compile(r"[45][0-9]{2}")
_STATUS_OF_TYPE: Final = {
    # Anthropic
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
    # Bedrock
    "validationException": 400,
    "modelTimeoutException": 408,
    "modelStreamErrorException": 424,
    "throttlingException": 429,
    "internalServerException": 500,
    "serviceUnavailableException": 503,
}
"""The status that these APIs document for errors which, inside a stream, have a type and no number."""


class Verdict(Enum):
    """What becomes of what is held."""

    HOLD = "hold"
    RELEASE = "release"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of what is held; status: of the answer in its place, where it is refused."""

    verdict: Verdict
    status: int | None = None


HOLD: Final = Decision(Verdict.HOLD)
RELEASE: Final = Decision(Verdict.RELEASE)


class Held:
    """One answer that is held back. The first decision other than HOLD stands. held_bytes: of its body."""

    __slots__ = ("_due_ns", "_limit_bytes", "decision", "held_bytes")

    def __init__(self, at_ns: int, *, limit_ns: int, limit_bytes: int = LIMIT_BYTES) -> None:
        """at_ns: when its head was there."""
        self._due_ns = at_ns + limit_ns
        self._limit_bytes = limit_bytes
        self.held_bytes = 0
        self.decision = HOLD

    def feed(
        self,
        size_bytes: int,
        *,
        first_class: EventClass | None,
        error_code: str | None = None,
        error_type: str | None = None,
    ) -> Decision:
        """More of its body has come. first_class: of the first event of the answer that is no keepalive, None while
        there is none. error_code, error_type: of that event, where it is an error."""
        self.held_bytes += size_bytes
        if first_class is EventClass.ERROR:
            return self._decide(Decision(Verdict.REFUSE, status_of(error_code, error_type)))
        has_enough = first_class is not None or self.held_bytes >= self._limit_bytes
        return self._decide(RELEASE if has_enough else HOLD)

    def due(self, at_ns: int) -> Decision:
        """Time has passed."""
        return self._decide(RELEASE if at_ns >= self._due_ns else HOLD)

    def ended(self) -> Decision:
        """The body came to its end in order: it has no event, and passes as it is."""
        return self._decide(RELEASE)

    def _decide(self, decision: Decision) -> Decision:
        if self.decision.verdict is Verdict.HOLD:
            self.decision = decision
        return self.decision


def status_of(error_code: str | None, error_type: str | None = None) -> int:
    """The status of an answer in place of an error event: its code where that is the one of an error, or the one that
    goes with its type; else 502."""
    if error_code is not None and _ERROR_STATUS.fullmatch(error_code):
        return int(error_code)
    return _STATUS_OF_TYPE.get(error_type or "", BAD_GATEWAY)
