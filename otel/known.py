"""What recent answers showed: the rhythm of each source, and the hops that usually stand on a path.

A short answer shows no rhythm and a missing record leaves no hole, so both are remembered from the answers
before it. Everything is bounded, and the latest answers count.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Collection
from dataclasses import replace
from typing import Final, TypeVar

from otel.findings import Policy, Status, Verdict
from otel.hop import TapRole
from otel.join import Path
from otel.rhythm import P90

ANSWERS: Final = 50
"""Remembered for each source and each model: enough for a 90th percentile, young enough to follow a rollout."""
SOURCES: Final = 1_000
"""Sources and models remembered, the longest unseen forgotten first."""
SHORT_ANSWERS_NEEDED: Final = 5
"""One answer with five bursts shows a rhythm; of answers with fewer, this many do together."""
PATHS_NEEDED: Final = 5
USUAL_SHARE: Final = 0.9
"""A hop on this share of the recent paths usually stands there."""

Source = tuple[str, str]
K = TypeVar("K")
V = TypeVar("V")


class Known:
    """The memory. Teach it with `learn`, ask it with `policy_for` and `expected_path`."""

    def __init__(self) -> None:
        self._rhythms: OrderedDict[Source, deque[tuple[int, bool]]] = OrderedDict()
        self._paths: OrderedDict[str, deque[tuple[str, ...]]] = OrderedDict()

    def learn(self, path: Path, verdict: Verdict) -> None:
        """Remember the hops on the path of an answer, and its source's pauses unless one of them was a fault.

        An answer too short to be judged teaches as well, or a source whose answers are all short would never be
        known; and so does a path on which an expected hop was absent, or a hop that was taken away would be
        expected for ever.
        """
        if path.is_open:
            return
        _remember(self._paths, _model(path), _hops(path))
        rhythm = verdict.rhythm
        if verdict.status is not Status.NAMED and rhythm is not None and rhythm.p90_ns is not None:
            _remember(self._rhythms, _source(path), (rhythm.p90_ns, rhythm.shows_own))

    def policy_for(self, path: Path, policy: Policy) -> Policy:
        """The policy with the rhythm that the path's source showed in other answers, if enough of it was seen."""
        seen = sorted(self._rhythms.get(_source(path), ()))
        if len(seen) < SHORT_ANSWERS_NEEDED and not any(shows_own for _, shows_own in seen):
            return policy
        return replace(policy, rhythm_elsewhere_ns=seen[int(P90 * (len(seen) - 1))][0])

    def expected_path(self, names: Collection[str], model: str | None) -> tuple[str, ...]:
        """The hops that usually stand on the path of an answer which these hops saw, source first; () if unknown."""
        recent = [path for path in self._paths.get(model or "", ()) if not set(names).isdisjoint(path)]
        if len(recent) < PATHS_NEEDED:
            return ()
        counts = Counter(name for path in recent for name in set(path))
        usual = {name for name, count in counts.items() if count >= USUAL_SHARE * len(recent)}
        fullest = max(Counter(recent).items(), key=lambda item: (len(usual & set(item[0])), item[1]))[0]
        return tuple(name for name in fullest if name in usual or name in names)


def _remember(memory: OrderedDict[K, deque[V]], key: K, value: V) -> None:
    memory.setdefault(key, deque(maxlen=ANSWERS)).append(value)
    memory.move_to_end(key)
    while len(memory) > SOURCES:
        memory.popitem(last=False)


def _hops(path: Path) -> tuple[str, ...]:
    """The hops that sidecars recorded. A reader that records for itself does so when it likes, and is not missed."""
    return tuple(hop.place.hop for hop in path.taps if hop.place.role is not TapRole.CLIENT)


def _model(path: Path) -> str:
    return next((hop.exchange.model for hop in reversed(path.taps) if hop.exchange.model), "")


def _source(path: Path) -> Source:
    return path.taps[0].place.hop, _model(path)
