"""What the cluster knows of a pod's surroundings: asked when a pod comes, and kept for the pods that come with it.

A pod must not wait for us, nor be planned from what is old where asking helps. So a namespace is asked at most every
two seconds however many of its pods come; an answer that fails or takes long leaves what was known a minute ago, and
then nothing, with which a plan is possible too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

from k8s.api import POOLS, Api, ApiError
from k8s.callers import Caller, callers_of
from k8s.facts import NOTHING_KNOWN, Facts, Namespace
from k8s.keys import INJECT
from k8s.pods import annotations_of, labels_of, minor_of
from k8s.tally import Tally
from sidecar.clock import Clock

log = logging.getLogger(__name__)

LOOK_S: Final = 1.0
"""Longest that a pod waits for what we ask; the API server waits 5 s for everything."""
ASK_S: Final = 30.0
"""Longest that we go on asking when no pod waits any more."""
FRESH_NS: Final = 2_000_000_000
STALE_NS: Final = 60_000_000_000
NODES_FRESH_NS: Final = 300_000_000_000
"""Nodes grow older by being upgraded away, and new ones are seldom older."""
MOST_NAMESPACES: Final = 1_000
"""Kept at a time; the one that was asked for the longest time ago goes."""

_Value = TypeVar("_Value")


class _Kept(Generic[_Value]):
    """One thing that was asked, and when. Whoever comes while it is being asked waits for that answer; and what takes
    longer than anybody waits, as the list of a thousand nodes may, is there for the pods that come afterwards."""

    def __init__(
        self,
        ask: Callable[[], Awaitable[_Value]],
        *,
        fresh_ns: int,
        stale_ns: int | None,
        failed: Callable[[Exception], None],
    ) -> None:
        self._ask = ask
        self._fresh_ns = fresh_ns
        self._stale_ns = stale_ns
        self._failed = failed
        self._asking: asyncio.Task[None] | None = None
        self._value: _Value | None = None
        self._at_ns: int | None = None
        self._failed_ns: int | None = None

    async def get(self, clock: Clock) -> _Value | None:
        """The answer, or the one from before; None where neither is there. Takes LOOK_S at most."""
        now_ns = clock.monotonic_ns()
        if not _is_within(self._at_ns, self._fresh_ns, now_ns) and not self._has_just_failed(now_ns):
            if self._asking is None:
                self._asking = asyncio.get_running_loop().create_task(self._take(now_ns))
            done, _ = await asyncio.wait({self._asking}, timeout=LOOK_S)
            for task in done:
                task.result()  # what is no answer of the cluster is a fault of ours
            if not done and not self._has_just_failed(now_ns):
                self._fail(TimeoutError(f"no answer within {LOOK_S} s"), now_ns)
        return self._usable(clock.monotonic_ns())

    def close(self) -> None:
        """Ask no longer."""
        if self._asking is not None:
            self._asking.cancel()

    async def _take(self, now_ns: int) -> None:
        try:
            async with asyncio.timeout(ASK_S):
                self._value = await self._ask()
            self._at_ns = now_ns
        except (ApiError, TimeoutError) as error:
            self._fail(error, now_ns)
        finally:
            self._asking = None

    def _fail(self, error: Exception, now_ns: int) -> None:
        self._failed_ns = now_ns  # and is left alone for FRESH_NS: every pod would wait as long
        self._failed(error)

    def _has_just_failed(self, now_ns: int) -> bool:
        return _is_within(self._failed_ns, FRESH_NS, now_ns)

    def _usable(self, now_ns: int) -> _Value | None:
        is_stale = self._at_ns is None or (self._stale_ns is not None and now_ns - self._at_ns > self._stale_ns)
        return None if is_stale else self._value


def _is_within(at_ns: int | None, duration_ns: int, now_ns: int) -> bool:
    return at_ns is not None and now_ns - at_ns < duration_ns


class Cluster:
    """The surroundings of pods, by their namespaces."""

    def __init__(self, api: Api, *, clock: Clock, tally: Tally) -> None:
        self._api = api
        self._clock = clock
        self._tally = tally
        self._namespaces: dict[str, _Kept[Namespace]] = {}
        self._callers: dict[str, _Kept[tuple[Caller, ...]]] = {}
        self._nodes = _Kept(self._oldest, fresh_ns=NODES_FRESH_NS, stale_ns=None, failed=self._failed)

    async def look(self, name: str) -> tuple[Namespace, Facts]:
        """The namespace of a pod and what else is known; never raises, and takes LOOK_S at most."""
        namespaces = self._kept(self._namespaces, name, lambda: self._namespace(name))
        callers = self._kept(self._callers, name, lambda: self._calling(name))
        questions = namespaces.get(self._clock), callers.get(self._clock), self._nodes.get(self._clock)
        namespace, calling, oldest = await asyncio.gather(*questions)
        return namespace or unknown(name), Facts(callers=calling, oldest_minor=oldest)

    def close(self) -> None:
        """Once nobody looks any more."""
        every: list[_Kept[Any]] = [*self._namespaces.values(), *self._callers.values(), self._nodes]
        for kept in every:
            kept.close()

    def _failed(self, error: Exception) -> None:
        self._tally.failures["cluster"] += 1
        log.warning("cluster not asked", extra={"error": str(error) or type(error).__name__})

    def _kept(
        self, all_kept: dict[str, _Kept[_Value]], name: str, ask: Callable[[], Awaitable[_Value]]
    ) -> _Kept[_Value]:
        kept = all_kept.pop(name, None) or _Kept(ask, fresh_ns=FRESH_NS, stale_ns=STALE_NS, failed=self._failed)
        all_kept[name] = kept
        while len(all_kept) > MOST_NAMESPACES:
            del all_kept[next(iter(all_kept))]
        return kept

    async def _namespace(self, name: str) -> Namespace:
        found = await self._api.get(f"/api/v1/namespaces/{name}")
        return Namespace(name, labels_of(found), annotations_of(found))

    async def _calling(self, name: str) -> tuple[Caller, ...]:
        found = [{"kind": "Service", **each} async for each in self._api.list(f"/api/v1/namespaces/{name}/services")]
        for group in POOLS:
            path = f"{group}/namespaces/{name}/inferencepools"
            try:
                found += [{"kind": "InferencePool", **each} async for each in self._api.list(path)]
            except ApiError as error:
                if not error.is_absent:  # a cluster without this kind has none
                    raise
        return callers_of(found)

    async def _oldest(self) -> int | None:
        """Nodes are large, and only the least number is kept; None where there is no node yet."""
        oldest: int | None = None
        async for node in self._api.list("/api/v1/nodes"):
            minor = minor_of(node)
            oldest = minor if oldest is None or (minor is not None and minor < oldest) else oldest
        return oldest


class Nowhere:
    """The surroundings where nobody may look."""

    async def look(self, name: str) -> tuple[Namespace, Facts]:
        """What follows from being asked at all."""
        return unknown(name), NOTHING_KNOWN


def unknown(name: str) -> Namespace:
    """A namespace that nobody has looked at: that its pods come to us says that it asked."""
    return Namespace(name, {INJECT: "enabled"}, {}, is_known=False)
