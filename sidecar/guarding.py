"""Hold streams to their limits: what is guarded, what a limit that passes comes to, and how often that was."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

from sidecar.bounds.deadlines import CONTENT_LATE, FIRST_EVENT_LATE, NEXT_EVENT_LATE, Stop
from sidecar.guard.complaint import Complaint, complaint_for
from sidecar.guard.limits import GuardLimits
from sidecar.guard.policy import Mode, Policy
from sidecar.guard.watchdog import Expired, Limit, Watch
from sidecar.inspection.dialects import asked_for
from sidecar.recording.recorder import Recorder

log = logging.getLogger(__name__)

WOULD, DID = "would_have", "enforced"
PAUSE_NS: Final = 1_000_000_000
"""Between two looks at one stream, unless a limit is so short that more are needed: a look costs some 6 µs."""
LOOKS: Final = 20
"""Least number of looks while a limit passes: so far, in parts of it, a stream may be silent beyond it."""
STOP_FOR: Final = {
    Limit.FIRST_EVENT: FIRST_EVENT_LATE,
    Limit.NEXT_EVENT: NEXT_EVENT_LATE,
    Limit.CONTENT: CONTENT_LATE,
}


class Guard:
    """The guard of one listener. counts: what fired, by its token and whether the guard acted on it."""

    def __init__(self, policy: Policy, *, hop: str, counts: Counter[tuple[str, str]]) -> None:
        self.policy = policy
        self._hop = hop
        self._counts = counts

    def begin(self, recorder: Recorder, began_ns: int, *, late_ns: int) -> Guarded:
        """Watch an exchange. late_ns: by how much all looks so far were late."""
        return Guarded(self, recorder, began_ns, late_ns=late_ns)

    def fired(self, recorder: Recorder, token: str, expired: Expired | None = None) -> bool:
        """Something happened that the guard is there for; whether it acts on it. Told once an exchange and token.

        expired: the limit, where it is one that passed.
        """
        is_enforced = self.policy.mode is Mode.ENFORCE
        if self.policy.mode is Mode.OFF:
            return False
        if recorder.ours.guard_fired(token):
            self._counts[token, DID if is_enforced else WOULD] += 1
            told = self._line(recorder, token, expired)
            if is_enforced:
                log.warning("guard ends the stream", extra=told)
            else:
                log.info("guard would have ended the stream", extra=told)
        return is_enforced

    def _line(self, recorder: Recorder, token: str, expired: Expired | None) -> dict[str, object]:
        asked = recorder.asked
        return {
            "hop": self._hop,
            "request_id": asked.identity.request_id,
            "trace_id": asked.identity.trace_id,
            "cause": token,
            "path": asked.path,
            "model": _model_of(recorder),
            "probe": asked.is_probe,
            "silent_s": None if expired is None else round(expired.waited_ns / 1e9, 3),
            "limit_s": None if expired is None else expired.limit_ns / 1e9,
        }

    def complaint(self, token: str, expired: Expired | None = None, *, waited_ns: int | None = None) -> Complaint:
        """What the reader is told of it. expired: the limit that passed. waited_ns: since the last byte."""
        if expired is None:
            return complaint_for(token, hop=self._hop, waited_s=None if waited_ns is None else waited_ns / 1e9)
        return complaint_for(token, hop=self._hop, waited_s=expired.waited_ns / 1e9, limit_s=expired.limit_ns / 1e9)


class Guarded:
    """One exchange under guard. dialect: the API of its path, as far as that tells. expired: the limit that ends it."""

    __slots__ = ("_due_ns", "_guard", "_key", "_limits", "_recorder", "_watch", "dialect", "expired")

    def __init__(self, guard: Guard, recorder: Recorder, began_ns: int, *, late_ns: int) -> None:
        self._guard = guard
        self._recorder = recorder
        self._watch = Watch(began_ns, late_ns=late_ns)
        self._due_ns = began_ns
        self._key: tuple[object, ...] = ()
        self._limits: GuardLimits | None = None
        self.dialect = asked_for(recorder.asked.path)
        self.expired: Expired | None = None

    def look(self, forwarded_ns: int | None, at_ns: int, *, late_ns: int) -> Stop | None:
        """Whether it is to be ended now, and how. forwarded_ns: as `Recorder.progress` has it."""
        if at_ns < self._due_ns or self._guard.policy.mode is Mode.OFF or self._recorder.is_muted:
            return None
        limits = self._its_limits()
        self._due_ns = at_ns + _pause_ns(limits)
        expired = self._watch.look(limits, self._recorder.progress(forwarded_ns), at_ns, late_ns=late_ns)
        if expired is None or not self._guard.fired(self._recorder, expired.limit.token, expired):
            return None
        self.expired = self.expired or expired
        return STOP_FOR[expired.limit]

    def complaint(self) -> Complaint | None:
        """What the reader is told when it is ended for a limit."""
        return None if self.expired is None else self._guard.complaint(self.expired.limit.token, self.expired)

    def _its_limits(self) -> GuardLimits | None:
        """Found anew only when something became known on which they depend."""
        asked, seen = self._recorder.asked, self._recorder.seen
        model = _model_of(self._recorder)
        key = (model, asked.is_stream, None if seen is None else seen.dialect)
        if key != self._key:
            self._key = key
            is_inference = self.asks_for_stream if seen is None else self._is_streamed_answer
            self._limits = self._guard.policy.rules.limits_for(asked.path, model, is_inference=is_inference)
        return self._limits

    @property
    def asks_for_stream(self) -> bool:
        """A model is asked for a streamed answer, as far as the request tells."""
        asked = self._recorder.asked
        is_stream = self.dialect.streams_unasked if asked.is_stream is None else asked.is_stream
        return is_stream and (self.dialect.is_inference or asked.model is not None)

    @property
    def is_open_stream(self) -> bool:
        """What comes is a stream that is guarded, and nothing in it has said so far that it is over."""
        seen = self._recorder.seen
        if seen is None or not seen.is_stream or seen.is_over:
            return False
        return self._its_limits() is not None

    @property
    def _is_streamed_answer(self) -> bool:
        seen = self._recorder.seen
        if seen is None:
            return False
        return seen.is_stream and (seen.dialect.is_inference or self._recorder.asked.model is not None)


def _model_of(recorder: Recorder) -> str | None:
    """As the request names it, else as the answer does."""
    return recorder.asked.model or (None if recorder.seen is None else recorder.seen.model)


def _pause_ns(limits: GuardLimits | None) -> int:
    if limits is None:
        return PAUSE_NS
    found = (limits.first_event_ns, limits.next_event_ns, limits.content_ns)
    return min([PAUSE_NS, *(limit_ns // LOOKS for limit_ns in found if limit_ns is not None)])
