"""What the engine has said of late, and what of it belongs to the silence of one stream."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Final

from otel.hop import EngineEvidence, EngineSnapshot
from sidecar.engine.reading import Seen

KEPT: Final = 64
"""Answers kept. They are a second apart at the least, so a silence of a minute still finds what was before it."""
YOUNG_NS: Final = 1_000_000_000
"""What is no older than this holds for now: the engine is not asked more often."""
NEAR_NS: Final = 1_000_000_000
"""What was said so shortly after a silence had begun still tells how it was then: with the first stream after a rest
there is nothing older."""
_MS: Final = 1_000_000


class History:
    """The newest answers of the engine, in the order in which it was asked. Times are readings of one clock."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: deque[Seen] = deque(maxlen=KEPT)

    def add(self, seen: Seen) -> None:
        self._seen.append(seen)

    def young(self, at_ns: int, *, since_ns: int) -> Seen | None:
        """The newest, where it is young and was asked after that time."""
        if not self._seen:
            return None
        seen = self._seen[-1]
        asked_ns = seen.snapshot.asked_ns
        return seen if since_ns < asked_ns and at_ns - asked_ns <= YOUNG_NS else None

    def evidence(self, seen: Seen, *, since_ns: int, anchor_ns: int) -> EngineEvidence:
        """What it said in a silence that began at since_ns, for an exchange with that anchor."""
        earlier = self._earlier(seen, since_ns)
        return EngineEvidence(
            server=seen.server,
            silent_since_ns=_offset(since_ns, anchor_ns),
            during=_moved(seen.snapshot, anchor_ns),
            earlier=None if earlier is None else _moved(earlier.snapshot, anchor_ns),
        )

    def _earlier(self, seen: Seen, since_ns: int) -> Seen | None:
        """What it said when the silence began: the last before it, else the first near it."""
        before: Seen | None = None
        for each in self._seen:
            asked_ns = each.snapshot.asked_ns
            if each.server != seen.server or asked_ns >= seen.snapshot.asked_ns:
                continue
            if asked_ns <= since_ns or (before is None and asked_ns <= since_ns + NEAR_NS):
                before = each
        return before


class Silences:
    """What the engine said in the silences of one stream, of which only the longest is kept. Times are offsets."""

    __slots__ = ("_kept", "_kept_ns", "_now")

    def __init__(self) -> None:
        self._now: EngineEvidence | None = None
        self._kept: EngineEvidence | None = None
        self._kept_ns = 0

    def told(self, evidence: EngineEvidence) -> None:
        """Of the silence that lasts."""
        self._now = evidence

    def over(self, at_ns: int) -> None:
        """The silence, if there was one, ended at that time."""
        self._kept, self._kept_ns = self.longest(at_ns), max(self._kept_ns, self._lasted_ns(at_ns))
        self._now = None

    def longest(self, at_ns: int) -> EngineEvidence | None:
        """That of the longest; one that still lasts has lasted until at_ns."""
        return self._now if self._now is not None and self._lasted_ns(at_ns) >= self._kept_ns else self._kept

    def _lasted_ns(self, at_ns: int) -> int:
        return 0 if self._now is None else at_ns - self._now.silent_since_ns


def _moved(snapshot: EngineSnapshot, anchor_ns: int) -> EngineSnapshot:
    return replace(snapshot, asked_ns=_offset(snapshot.asked_ns, anchor_ns))


def _offset(at_ns: int, anchor_ns: int) -> int:
    """Finer times of events than milliseconds could tell what was written."""
    return (at_ns - anchor_ns) // _MS * _MS
