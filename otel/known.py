"""What recent answers showed: the rhythm and the pace of each source, and the hops that usually stand on a path.

A short answer shows no rhythm, no answer shows whether its source is always that slow, and a missing record leaves no
hole, so they are remembered from the answers before. A source is a pool: all workers of one service that serve one
model, so that a new worker does not start from nothing. Everything is bounded, and the latest answers count.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from otel.findings import Policy, Status, Verdict
from otel.hop import Hop, TapRole
from otel.join import Path
from otel.rhythm import P90

ANSWERS: Final = 50
"""Remembered for each source and each model: enough for a 90th percentile, young enough to follow a rollout."""
SOURCES: Final = 1_000
"""Sources and models remembered, the longest unseen forgotten first."""
SHORT_ANSWERS_NEEDED: Final = 5
"""One answer with five bursts shows a rhythm; of answers with fewer, this many do together."""
PACES_NEEDED: Final = 10
"""Answers that show how fast a source usually is, of which it may have been slow in one."""
PATHS_NEEDED: Final = 5
HOPS: Final = 32
"""Paths of more hops are no paths: an id that everybody sends brings hundreds together."""
NAME_CHARS: Final = 200
"""Of a service's name, which tells sources apart; anybody may send longer ones."""
USUAL_SHARE: Final = 0.9
"""A hop on this share of the recent paths usually stands there."""

Source = tuple[str, str, str]
"""Namespace and name of a service, and the model that it serves."""
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Paces:
    """The paces of a source's latest answers, ns per event."""

    latest: tuple[int, ...] = ()

    def with_one(self, pace_ns: int) -> Paces:
        return Paces((*self.latest, pace_ns)[-ANSWERS:])

    @property
    def usual_ns(self) -> int | None:
        """A pace that the source kept or was faster than in nine of ten answers; None where they are too few."""
        if len(self.latest) < PACES_NEEDED:
            return None
        return sorted(self.latest)[int(P90 * (len(self.latest) - 1))]


class Known:
    """The memory. Teach it with `learn`, ask it with `policy_for` and `expected_path`."""

    def __init__(self) -> None:
        self._rhythms: OrderedDict[Source, deque[tuple[int, bool]]] = OrderedDict()
        self._paces: OrderedDict[Source, Paces] = OrderedDict()
        self._paths: OrderedDict[str, deque[tuple[str, ...]]] = OrderedDict()

    def learn(self, path: Path, verdict: Verdict) -> None:
        """Remember the hops on the path of an answer, its source's pace, and its pauses unless one of them was a fault.

        A slower pace is remembered too: it may be the usual one from now on. An answer too short to be judged teaches
        as well, or a source whose answers are all short would never be known; and so does a path on which an expected
        hop was absent, or a hop that was taken away would be expected for ever.
        """
        if path.is_open:
            return
        source, tempo, rhythm = _source(path.taps[0]), verdict.tempo, verdict.rhythm
        if len(path.taps) <= HOPS:
            _remember(self._paths, _model(path), _hops(path))
        if tempo is not None:
            _keep(self._paces, source, self._paces.get(source, Paces()).with_one(tempo.pace_ns))
        if verdict.status is not Status.NAMED and rhythm is not None and rhythm.p90_ns is not None:
            _remember(self._rhythms, source, (rhythm.p90_ns, rhythm.shows_own))

    def policy_for(self, path: Path, policy: Policy) -> Policy:
        """The policy with the rhythm and pace that the path's source showed in other answers, if enough was seen."""
        source = _source(path.taps[0])
        policy = replace(policy, pace_elsewhere_ns=self._paces.get(source, Paces()).usual_ns)
        seen = sorted(self._rhythms.get(source, ()))
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
    kept = memory.get(key) or deque[V](maxlen=ANSWERS)
    kept.append(value)
    _keep(memory, key, kept)


def _keep(memory: OrderedDict[K, V], key: K, value: V) -> None:
    memory[key] = value
    memory.move_to_end(key)
    while len(memory) > SOURCES:
        memory.popitem(last=False)


def _hops(path: Path) -> tuple[str, ...]:
    """The hops that sidecars recorded. A reader that records for itself does so when it likes, and is not missed."""
    return tuple(hop.place.hop for hop in path.taps if hop.place.role is not TapRole.CLIENT)


def _model(path: Path) -> str:
    return next((hop.exchange.model for hop in reversed(path.taps) if hop.exchange.model), "")


def _source(first: Hop) -> Source:
    """The pool that the hop next to the model belongs to. A service's name is one for all of its instances, and the
    hop's where nobody gave it another; a model is what the worker calls it, since a gateway may give it other names."""
    resource = dict(first.place.resource)
    namespace = resource.get("service.namespace") or resource.get("k8s.namespace.name", "")
    service = resource.get("service.name", first.place.hop)
    return namespace[:NAME_CHARS], service[:NAME_CHARS], first.exchange.model or ""
