"""Judges every request once its hops have settled, and any request anew when somebody asks.

An answer is always reckoned from the hops in the store. What is stored of a verdict serves the lists, and
questions that come after the hops have been dropped. Judging runs in a reader's thread of the store.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median_low
from typing import Final

import orjson

from otel.findings import Cause, Policy, Status, Verdict
from otel.grouping import requests_of
from otel.hop import Hop
from otel.instants import rfc3339
from otel.join import Path, paths
from otel.known import Known
from otel.query import Answer, verdict_answer
from otel.settling import Settling
from otel.store.base import SECOND_NS, StoreError, VerdictRow, key_of, keys_of, weight_of
from otel.store.threads import AsyncStore
from otel.verdict import judge

BATCH: Final = 32
"""Requests judged between two looks at the clock; one takes a few milliseconds, and one commit keeps them all."""
TICK_S: Final = 0.1
RETRY_NS: Final = 5 * SECOND_NS
"""After the store failed."""
READ_TRIES: Final = 5
"""A request that the store fails to read as often is given up."""
WEIGHT_JUDGED: Final = 2_000_000
"""In events, half a minute: one large hop may lie on the paths of a hundred requests that sent one id, and then the
latest of them are judged."""
REPLAY_NS: Final = 300 * SECOND_NS
"""What came in within this time before the last hop is judged again after a restart; judging lags by seconds."""
REPLAY_REQUESTS: Final = 50_000
COUNTED: Final = 20_000
"""Verdicts remembered so that one that is only confirmed is not counted twice."""
HOPS: Final = 100
"""Names of hops with a place of their own in the metrics; spans are made by anybody who may send some."""
OTHER: Final = "other"
_RANK: Final = {Status.HEALTHY: 0, Status.INCONCLUSIVE: 1, Status.NAMED: 2}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the collector was told about judging. expected_path: source first, empty to learn it from the answers."""

    policy: Policy
    stall_after_s: float
    expected_path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Clock:
    """The collector's clocks, in ns."""

    wall_ns: Callable[[], int]
    monotonic_ns: Callable[[], int]


@dataclass(frozen=True, slots=True)
class Case:
    """What was asked about as it stands: the worst of its requests, the verdict on that one and the answer to it.

    hops: of all the requests.
    """

    path: Path
    verdict: Verdict
    answer: Answer
    hops: tuple[Hop, ...]


@dataclass(frozen=True, slots=True)
class _Found:
    request_id: str
    case: Case
    row: VerdictRow


class Judge:
    """Owns what is due to be judged. `verdicts` counts requests by status and cause, `failures` those given up,
    `stalls` those of the list of stalls by first hop (empty: none is named) and cause."""

    def __init__(self, store: AsyncStore, *, rules: Rules, settling: Settling, clock: Clock) -> None:
        self.settling = settling
        self.verdicts: Counter[tuple[Status, Cause]] = Counter()
        self.stalls: Counter[tuple[str, Cause]] = Counter()
        self.failures = 0
        self._store = store
        self._rules = rules
        self._clock = clock
        self._known = Known()
        self._known_lock = threading.Lock()
        self._tries: Counter[str] = Counter()
        self._counted: OrderedDict[tuple[str, str], tuple[object, ...]] = OrderedDict()
        self._hops: set[str] = set()

    def arrived(self, hops: Iterable[Hop]) -> None:
        """These hops are in the store."""
        at_ns = self._clock.monotonic_ns()
        for hop in hops:
            self.settling.arrived(hop.request_id, at_ns)

    async def recover(self) -> None:
        """Take up what an earlier run may not have judged."""
        latest = await self._store.read(self._store.store.latest_requests, within_ns=REPLAY_NS, limit=REPLAY_REQUESTS)
        at_ns = self._clock.monotonic_ns()
        for request_id in reversed(latest):
            self.settling.again(request_id, at_ns)

    async def run(self) -> None:
        """Judge what is due, until cancelled."""
        while True:
            if not await self.judge_due():
                await asyncio.sleep(TICK_S)

    async def judge_due(self, *, ahead_ns: int = 0) -> int:
        """Judge some of what is due, or will be due ahead_ns from now; how many requests that were."""
        due = self.settling.due(self._clock.monotonic_ns() + ahead_ns, limit=BATCH)
        if not due:
            return 0
        found, unread = await self._store.read(self._examine_all, due)
        if found:
            await self._keep(found)
        self._again(unread)
        return len(due)

    def examine(self, key: str) -> Case | None:
        """The request as it stands now, None when no hop of it is known. Blocks: call it in a reader's thread.

        Of several requests (an id used again, the id of a trace) it is the worst: named before inconclusive before
        healthy, then the longest wait, then the latest.
        """
        wanted = key_of(key)
        requests = [
            request
            for request in requests_of(self._store.store.hops_of(key))
            if any(wanted in keys_of(hop) for hop in request)
        ]
        judged: list[tuple[Path, Verdict]] = []
        weight = 0
        for path in (path for request in reversed(requests) for path in self._paths(request)):
            weight += sum(map(weight_of, path.taps))
            if judged and weight > WEIGHT_JUDGED:
                break
            judged.append(self._judged(path))
        if not judged:
            return None
        path, verdict = max(judged, key=_badness)
        hops = tuple(hop for request in requests for hop in request)
        is_final = self.settling.is_final(
            {hop.request_id for hop in hops},
            self._clock.monotonic_ns(),
            is_complete=not any(path.absent for path, _ in judged),
        )
        answer = verdict_answer(path, verdict, as_of=rfc3339(self._clock.wall_ns()), is_final=is_final)
        answer["evidence"]["requests"] = len(judged)
        return Case(path, verdict, answer, hops)

    def _paths(self, hops: Sequence[Hop]) -> tuple[Path, ...]:
        model = next((hop.exchange.model for hop in hops if hop.exchange.model), None)
        with self._known_lock:
            usual = self._known.expected_path({hop.place.hop for hop in hops}, model)
        return paths(hops, expected_path=self._rules.expected_path or usual)

    def _judged(self, path: Path) -> tuple[Path, Verdict]:
        with self._known_lock:
            policy = self._known.policy_for(path, self._rules.policy)
        return path, judge(path, policy)

    def _examine_all(self, request_ids: Sequence[str]) -> tuple[list[_Found], list[str]]:
        """Judge these: what was found, and which the store could not read.

        One that cannot be judged costs no other its verdict, and is not tried again.
        """
        found: dict[tuple[str, str], _Found] = {}
        unread: list[str] = []
        for request_id in request_ids:
            with self._giving_up(request_id):
                try:
                    case = self.examine(request_id)
                except StoreError:
                    self._tries[request_id] += 1
                    if self._tries[request_id] < READ_TRIES:
                        unread.append(request_id)
                        continue
                    del self._tries[request_id]
                    raise
                self._tries.pop(request_id, None)
                if case is not None:
                    row = row_of(case, now_ns=self._clock.wall_ns(), stall_after_s=self._rules.stall_after_s)
                    found[row.trace_id, key_of(row.request_id)] = _Found(request_id, case, row)
        return list(found.values()), unread

    def _again(self, request_ids: Iterable[str]) -> None:
        """The store failed: judge these once more, a while later."""
        at_ns = self._clock.monotonic_ns() + RETRY_NS
        for request_id in request_ids:
            self.settling.again(request_id, at_ns)

    async def _keep(self, found: Sequence[_Found]) -> None:
        """Store what was found, and tell of it once it is stored."""
        try:
            await self._store.put_verdicts([each.row for each in found], judged_ns=self._clock.wall_ns())
        except StoreError as error:
            log.warning("verdicts not stored", extra={"requests": len(found), "error": str(error)})
            self._again(each.request_id for each in found)
            return
        except Exception:
            if len(found) > 1:  # one of them cannot be stored, and the others can
                for each in found:
                    await self._keep([each])
                return
            with self._giving_up(found[0].request_id):
                raise
            return
        for each in found:
            with self._giving_up(each.request_id):
                self._tell(each.case, each.row)

    @contextmanager
    def _giving_up(self, request_id: str) -> Iterator[None]:
        """Whatever goes wrong with one request ends here: an odd record must not end the collector."""
        try:
            yield
        except Exception:
            self.failures += 1
            log.exception("request not judged", extra={"request_id": request_id})

    def _tell(self, case: Case, row: VerdictRow) -> None:
        """Count, learn and log a verdict, unless it only confirms the one before it."""
        if row.is_open:
            return
        place = (row.trace_id, key_of(row.request_id))
        told = (case.verdict.status, case.verdict.cause, row.hop, len(case.path.taps))
        if self._counted.get(place) == told:
            return
        self._counted[place] = told
        self._counted.move_to_end(place)
        while len(self._counted) > COUNTED:
            self._counted.popitem(last=False)
        self.verdicts[case.verdict.status, case.verdict.cause] += 1
        if row.is_abnormal:
            self.stalls[self._shown(row.hop or ""), case.verdict.cause] += 1
        with self._known_lock:
            self._known.learn(case.path, case.verdict)
        facts = {"request_id": row.request_id, "trace_id": row.trace_id, "cause": row.cause, "hop": row.hop}
        log.log(logging.INFO if row.is_abnormal else logging.DEBUG, "verdict", extra={**facts, "gap_s": row.gap_s})

    def _shown(self, hop: str) -> str:
        """The hop as a label."""
        if len(self._hops) < HOPS:
            self._hops.add(hop)
        return hop if hop in self._hops else OTHER


def _badness(judged: tuple[Path, Verdict]) -> tuple[int, int, int]:
    path, verdict = judged
    wait = (verdict.named.decomposition if verdict.named else None) or verdict.longest
    return _RANK[verdict.status], wait.gap_ns if wait else 0, path.taps[-1].anchor.wall_ns


def row_of(case: Case, *, now_ns: int, stall_after_s: float) -> VerdictRow:
    """What is stored of a case. It takes the place of every verdict on one of its hops.

    It happened when the middle one of its hops' clocks says, so one clock that is wrong does not move it, and
    never in the future.
    """
    taps, answer = case.path.taps, case.answer
    return VerdictRow(
        trace_id=case.path.trace_id,
        request_id=case.path.request_id,
        trace_ids=tuple(dict.fromkeys(hop.trace_id for hop in case.hops)),
        request_ids=tuple(dict.fromkeys(text for hop in case.hops for text in (hop.request_id, *hop.aliases))),
        at_ns=min(now_ns, median_low(hop.anchor.wall_ns for hop in taps)),
        model=next((hop.exchange.model for hop in reversed(taps) if hop.exchange.model), None),
        status=answer["status"],
        cause=answer["cause"],
        hop=answer["first_hop"],
        owner=answer["owner"],
        wait=answer["wait"],
        gap_s=answer["gap_s"],
        confidence=answer["confidence"],
        is_open=answer["open"],
        is_abnormal=is_abnormal(answer, stall_after_s=stall_after_s),
        sentence=answer["sentence"],
        answer_json=orjson.dumps(answer),
    )


def is_abnormal(answer: Answer, *, stall_after_s: float) -> bool:
    """Whether a request belongs in the list of stalls: a wait from stall_after_s on, or a named end without a wait."""
    if answer["status"] == Status.HEALTHY:
        return False
    if answer["wait"] is None:
        return bool(answer["status"] == Status.NAMED)
    return bool(answer["gap_s"] >= stall_after_s)
