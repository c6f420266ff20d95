"""What a reader is told when the sidecar ends its stream: a token, a sentence with numbers, and a status.

The sentence has the name of the hop and of the limit, and nothing of what anybody asked or answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FIRST_EVENT_TIMEOUT: Final = "first_event_timeout"
NEXT_EVENT_TIMEOUT: Final = "next_event_timeout"
CONTENT_TIMEOUT: Final = "content_timeout"
UPSTREAM_CUT: Final = "upstream_cut"
MISSING_TERMINAL: Final = "missing_terminal"

GATEWAY_TIMEOUT: Final = 504
BAD_GATEWAY: Final = 502


@dataclass(frozen=True, slots=True)
class Complaint:
    """Why a stream is ended: a token for programs, a sentence for people, and the status that an answer of our own
    has, or would have had."""

    type: str
    message: str
    status: int


@dataclass(frozen=True, slots=True)
class _Kind:
    status: int
    sentence: str


_KINDS: Final = {
    FIRST_EVENT_TIMEOUT: _Kind(GATEWAY_TIMEOUT, "the upstream sent no first event"),
    NEXT_EVENT_TIMEOUT: _Kind(GATEWAY_TIMEOUT, "the upstream fell silent between two events"),
    CONTENT_TIMEOUT: _Kind(GATEWAY_TIMEOUT, "the upstream sent signs of life only, and no event"),
    UPSTREAM_CUT: _Kind(BAD_GATEWAY, "the upstream broke off in the middle of the stream"),
    MISSING_TERMINAL: _Kind(BAD_GATEWAY, "the stream ended without the event that marks its end"),
}
TOKENS: Final = tuple(_KINDS)


def complaint_for(token: str, *, hop: str, waited_s: float | None = None, limit_s: float | None = None) -> Complaint:
    """The complaint about one of TOKENS at the hop of this name. waited_s and limit_s: how long somebody waited, and
    how long he should have. Raises ValueError for another token."""
    kind = _KINDS.get(token)
    if kind is None:
        raise ValueError(f"complaint {token!r} is none of {', '.join(TOKENS)}")
    is_silence = kind.status == GATEWAY_TIMEOUT
    waited = (
        ""
        if waited_s is None
        else f" for {waited_s:.1f} s"
        if is_silence
        else f", {waited_s:.1f} s after its last byte"
    )
    limit = "" if limit_s is None else f" (limit {limit_s:g} s)"
    return Complaint(token, f"{hop}: {kind.sentence}{waited}{limit}", kind.status)
