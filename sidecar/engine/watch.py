"""Ask the engine for its metrics: when a stream has fallen silent, and now and then before, to have what to compare.

It is never in a stream's way: one request at a time, one a second at most, each bounded in time and size, read in a
thread. Whatever goes wrong is counted by its reason, and the silence goes without the engine's numbers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NoReturn

import aiohttp

from otel.hop import EngineEvidence
from sidecar.clock import Clock
from sidecar.engine.history import History
from sidecar.engine.reading import Seen, reading_of

log = logging.getLogger(__name__)

EVERY_NS: Final = 1_000_000_000
"""Least time between two requests: an engine whose streams all hang at once is asked once."""
BASELINE_NS: Final = 10_000_000_000
"""Longest time without a request while exchanges run, so that there is something to compare with."""
TIMEOUT_S: Final = 1.0
"""Most that a silence of 2 s is worth waiting for; an engine whose front hangs too is not asked in vain for long."""
LIMIT_BYTES: Final = 1 << 20
"""Metrics of an engine are some 100 KB; of more nothing is read."""
LOST: Final = ("no_answer", "failed", "status", "too_large", "unknown")
"""Why a request told nothing: not in time, not over this connection, not with a 200, too long, or of no engine."""

_HEADERS: Final = {"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "identity", "User-Agent": "gapline"}

Take = Callable[[Seen], None]


class EngineWatch:
    """Asks while `run` runs; belongs to one event loop.

    asked_count: requests. lost_counts: those that told nothing, by reason. missed_count: silences that ended, or went
    on, without the engine's numbers.
    """

    def __init__(self, url: str, *, clock: Clock) -> None:
        """url: where the engine shows its metrics."""
        self._url = url
        self._clock = clock
        self._history = History()
        self._waiting: list[tuple[int, Take]] = []
        self._wanted = asyncio.Event()
        self._asked_ns: int | None = None
        self._failure: str | None = None
        self._has_told = False
        self.asked_count = 0
        self.lost_counts = dict.fromkeys(LOST, 0)
        self.missed_count = 0

    def tick(self, at_ns: int) -> None:
        """Exchanges run: ask if it has been long."""
        if self._asked_ns is None or at_ns - self._asked_ns >= BASELINE_NS:
            self._wanted.set()

    def ask(self, since_ns: int, at_ns: int, take: Take) -> None:
        """A stream is silent since then. take: gets what the engine said after that, now or soon, or is not called."""
        if (seen := self._history.young(at_ns, since_ns=since_ns)) is not None:
            take(seen)
        else:
            self._waiting.append((since_ns, take))
            self._wanted.set()

    def evidence(self, seen: Seen, *, since_ns: int, anchor_ns: int) -> EngineEvidence:
        """What is recorded of a silence; see `History.evidence`."""
        return self._history.evidence(seen, since_ns=since_ns, anchor_ns=anchor_ns)

    async def run(self) -> None:
        """Ask when it is wanted, until cancelled."""
        async with aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=_HEADERS,
            auto_decompress=False,
        ) as session:
            while True:
                await self._wanted.wait()
                await asyncio.sleep(self._pause_s())
                self._wanted.clear()
                self._deliver(await self._look(session))

    def _pause_s(self) -> float:
        if self._asked_ns is None:
            return 0.0
        return max(0, self._asked_ns + EVERY_NS - self._clock.monotonic_ns()) / 1e9

    async def _look(self, session: aiohttp.ClientSession) -> Seen | None:
        """One request and what it told."""
        self._asked_ns = asked_ns = self._clock.monotonic_ns()
        self.asked_count += 1
        try:
            text = await self._get(session)
            if (seen := await asyncio.to_thread(reading_of, text, asked_ns=asked_ns)) is None:
                _lose("unknown")
        except _LostError as lost:
            self._lost(lost.reason, lost.about)
        except TimeoutError:
            self._lost("no_answer")
        except Exception as error:  # noqa: BLE001  # whatever it was, streams go on
            self._lost("failed", type(error).__name__)
        else:
            self._told(seen)
            return seen
        return None

    async def _get(self, session: aiohttp.ClientSession) -> bytes:
        async with session.get(self._url, allow_redirects=False) as response:
            if response.status != 200:
                _lose("status", response.status)
            text = bytearray()
            async for piece in response.content.iter_any():
                text += piece
                if len(text) > LIMIT_BYTES:
                    _lose("too_large")
            return bytes(text)

    def _deliver(self, seen: Seen | None) -> None:
        """Give it to all whose silence had begun when it was asked; without an answer nobody gets one."""
        waiting, self._waiting = self._waiting, []
        if seen is None:
            self.missed_count += len(waiting)
            return
        for since_ns, take in waiting:
            if since_ns >= seen.snapshot.asked_ns:
                self._waiting.append((since_ns, take))
                continue
            try:
                take(seen)
            except Exception:  # noqa: BLE001  # one stream's record must not cost the others theirs
                self.missed_count += 1
        if self._waiting:
            self._wanted.set()

    def _told(self, seen: Seen) -> None:
        self._history.add(seen)
        if self._failure is not None or not self._has_told:
            log.info("the engine tells", extra={"url": self._url, "server": seen.server})
        self._failure, self._has_told = None, True

    def _lost(self, reason: str, about: object = None) -> None:
        self.lost_counts[reason] += 1
        if reason != self._failure:
            log.warning("the engine does not tell", extra={"url": self._url, "reason": reason, "about": about})
        self._failure = reason


class _LostError(Exception):
    """A request told nothing, for that reason."""

    def __init__(self, reason: str, about: object) -> None:
        self.reason = reason
        self.about = about


def _lose(reason: str, about: object = None) -> NoReturn:
    raise _LostError(reason, about)
