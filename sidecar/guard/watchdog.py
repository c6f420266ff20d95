"""Decide whether a stream has been silent for too long. Pure: the state and the time come in, a decision goes out.

There are two clocks. *Liveness*: any byte renews it, a comment and a ping too; until the first event it runs against
the first-event limit, and after that against the next-event limit. *Content*: only an event that is no keepalive
renews it.

Time for which the upstream is not to blame does not count: in which our reader takes nothing, so that we read
nothing, and in which our own event loop was late. Both are known only at the looks, so a whole interval between two
looks is excused when the reader was stuck at one of its ends: where this is inexact, the stream gets the benefit.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sidecar.guard.complaint import CONTENT_TIMEOUT, FIRST_EVENT_TIMEOUT, NEXT_EVENT_TIMEOUT
from sidecar.guard.limits import GuardLimits


class Limit(Enum):
    """Which limit a stream has reached; the value is the token in records, metrics and messages."""

    FIRST_EVENT = FIRST_EVENT_TIMEOUT
    NEXT_EVENT = NEXT_EVENT_TIMEOUT
    CONTENT = CONTENT_TIMEOUT

    @property
    def token(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a stream is. Times are readings of the monotonic clock.

    forwarded_ns: when the upstream had the request; None: it has not (the request waits for a place, or for its own
    body), and no clock runs. heard_ns: when the last byte of the upstream came. has_event: an event that is no
    keepalive has come. progress_ns: when the last such event came; before the first one anything not later than
    forwarded_ns. is_blocked: our reader takes nothing. is_over: the event that marks the end has come.
    """

    forwarded_ns: int | None
    heard_ns: int
    has_event: bool
    progress_ns: int
    is_blocked: bool
    is_over: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """A limit that was reached. waited_ns: the silence, without the time that does not count."""

    limit: Limit
    waited_ns: int
    limit_ns: int

    @property
    def overdue_ns(self) -> int:
        return self.waited_ns - self.limit_ns


class Watch:
    """One stream under watch, from its beginning: to be asked at every look, ten times a second or so."""

    __slots__ = ("_alive", "_content", "_excused_ns", "_late_ns", "_looked_ns", "_was_blocked")

    def __init__(self, began_ns: int, *, late_ns: int) -> None:
        self._looked_ns = began_ns
        self._late_ns = late_ns
        self._was_blocked = False
        self._excused_ns = 0  # of all the time since it began
        self._alive = _Silence(began_ns)
        self._content = _Silence(began_ns)

    def look(self, limits: GuardLimits | None, progress: Progress, at_ns: int, *, late_ns: int) -> Expired | None:
        """The limit that was reached and was not told yet for this silence; of two, the one that was due first.

        limits None: not guarded, or not yet known. late_ns: by how much all looks so far were late, in total.
        """
        before_ns = self._excused_ns
        self._excuse(progress, at_ns, late_ns=late_ns)
        if progress.forwarded_ns is None or progress.is_over:
            return None
        self._alive.began(max(progress.heard_ns, progress.forwarded_ns), excused_ns=before_ns)
        self._content.began(max(progress.progress_ns, progress.forwarded_ns), excused_ns=before_ns)
        if limits is None:
            return None
        if progress.has_event:
            alive = self._reached(self._alive, Limit.NEXT_EVENT, limits.next_event_ns, at_ns)
        else:
            alive = self._reached(self._alive, Limit.FIRST_EVENT, limits.first_event_ns, at_ns)
        content = self._reached(self._content, Limit.CONTENT, limits.content_ns, at_ns)
        is_content = alive is None or (content is not None and content.overdue_ns > alive.overdue_ns)
        silence, expired = (self._content, content) if is_content else (self._alive, alive)
        if expired is not None:
            silence.told = expired.limit
        return expired

    def _excuse(self, progress: Progress, at_ns: int, *, late_ns: int) -> None:
        passed_ns = max(0, at_ns - self._looked_ns)
        is_blocked = progress.is_blocked or self._was_blocked
        self._excused_ns += passed_ns if is_blocked else min(passed_ns, max(0, late_ns - self._late_ns))
        self._looked_ns += passed_ns
        self._late_ns = late_ns
        self._was_blocked = progress.is_blocked

    def _reached(self, silence: _Silence, limit: Limit, limit_ns: int | None, at_ns: int) -> Expired | None:
        """The limit, where the silence has reached it and that was not told."""
        silent_ns = at_ns - silence.since_ns
        if limit_ns is None or silent_ns < limit_ns or silence.told is limit:
            return None
        waited_ns = silent_ns - min(silent_ns, self._excused_ns - silence.excused_before_ns)
        return Expired(limit=limit, waited_ns=waited_ns, limit_ns=limit_ns) if waited_ns >= limit_ns else None


class _Silence:
    """One clock: since when it runs, how much of all time had been excused before that, and what was told of it."""

    __slots__ = ("excused_before_ns", "since_ns", "told")

    def __init__(self, since_ns: int) -> None:
        self.since_ns = since_ns
        self.excused_before_ns = 0
        self.told: Limit | None = None

    def began(self, since_ns: int, *, excused_ns: int) -> None:
        """It runs since then; excused_ns: as of the last look at which it ran since another time."""
        if since_ns != self.since_ns:
            self.since_ns = since_ns
            self.excused_before_ns = excused_ns
            self.told = None
