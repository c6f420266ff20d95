"""Judges every request once its hops have settled, and any request anew when somebody asks.

An answer is always reckoned from the hops in the store. What is stored of a verdict serves the lists, and
questions that come after the hops have been dropped. Judging runs in a reader's thread of the store.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Final

import orjson

from otel.findings import Cause, Policy, Status, Verdict
from otel.hop import Hop
from otel.instants import rfc3339
from otel.join import Path, join
from otel.known import Known
from otel.query import Answer, verdict_answer
from otel.settling import Settling
from otel.store.base import SECOND_NS, StoreError, VerdictRow, key_of, keys_of
from otel.store.threads import AsyncStore
from otel.verdict import judge

BATCH: Final = 32
"""Requests judged between two looks at the clock; one takes a few milliseconds, and one commit keeps them all."""
TICK_S: Final = 0.1
RETRY_NS: Final = 5 * SECOND_NS
"""After the store failed."""
REPLAY_NS: Final = 300 * SECOND_NS
"""What came in within this time before the last hop is judged again after a restart; judging lags by seconds."""
REPLAY_REQUESTS: Final = 50_000
COUNTED: Final = 20_000
"""Verdicts remembered so that one that is only confirmed is not counted twice."""

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
    """One request as it stands: its path, the verdict on it and the answer to `verdict`."""

    path: Path
    verdict: Verdict
    answer: Answer


class Judge:
    """Owns what is due to be judged. `verdicts` counts requests by status and cause, `failures` those given up."""

    def __init__(self, store: AsyncStore, *, rules: Rules, settling: Settling, clock: Clock) -> None:
        self.settling = settling
        self.verdicts: Counter[tuple[Status, Cause]] = Counter()
        self.failures = 0
        self._store = store
        self._rules = rules
        self._clock = clock
        self._known = Known()
        self._known_lock = threading.Lock()
        self._counted: OrderedDict[tuple[str, str], tuple[object, ...]] = OrderedDict()

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
        try:
            cases = await self._store.read(self._examine_all, due)
            rows = [self._row(case) for case in cases]
            await self._store.put_verdicts(rows, judged_ns=self._clock.wall_ns())
        except StoreError as error:
            log.warning("verdicts not stored", extra={"requests": len(due), "error": str(error)})
            for request_id in due:
                self.settling.again(request_id, self._clock.monotonic_ns() + RETRY_NS)
            return len(due)
        for case, row in zip(cases, rows, strict=True):
            self._tell(case, row)
        return len(due)

    def examine(self, key: str) -> Case | None:
        """The request as it stands now, None when no hop of it is known. Blocks: call it in a reader's thread."""
        hops = of_request(self._store.store.hops_of(key), key)
        if not hops:
            return None
        model = next((hop.exchange.model for hop in hops if hop.exchange.model), None)
        with self._known_lock:
            usual = self._known.expected_path({hop.place.hop for hop in hops}, model)
        path = join(hops, expected_path=self._rules.expected_path or usual)
        with self._known_lock:
            policy = self._known.policy_for(path, self._rules.policy)
        verdict = judge(path, policy)
        request_ids = {hop.request_id for hop in hops}
        is_final = self.settling.is_final(request_ids, self._clock.monotonic_ns())
        answer = verdict_answer(path, verdict, as_of=rfc3339(self._clock.wall_ns()), is_final=is_final)
        return Case(path, verdict, answer)

    def _examine_all(self, request_ids: Sequence[str]) -> list[Case]:
        cases: dict[tuple[str, str], Case] = {}
        for request_id in request_ids:
            try:
                case = self.examine(request_id)
            except StoreError:
                raise
            except Exception:
                self.failures += 1
                log.exception("request not judged", extra={"request_id": request_id})
                continue
            if case is not None:
                cases[case.path.trace_id, key_of(case.path.request_id)] = case
        return list(cases.values())

    def _row(self, case: Case) -> VerdictRow:
        return row_of(case, now_ns=self._clock.wall_ns(), stall_after_s=self._rules.stall_after_s)

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
        with self._known_lock:
            self._known.learn(case.path, case.verdict)
        facts = {"request_id": row.request_id, "trace_id": row.trace_id, "cause": row.cause, "hop": row.hop}
        log.log(logging.INFO if row.is_abnormal else logging.DEBUG, "verdict", extra={**facts, "gap_s": row.gap_s})


def of_request(hops: Sequence[Hop], key: str) -> tuple[Hop, ...]:
    """The hops of the one request that was asked for.

    A trace may hold many requests (an agent's), so a hop that is only found through the trace counts where no
    hop with the key itself stands in the same place.
    """
    wanted = key_of(key)
    direct = [hop for hop in hops if wanted in keys_of(hop)]
    taken = {(hop.place.hop, hop.place.role) for hop in direct}
    others = [hop for hop in hops if (hop.place.hop, hop.place.role) not in taken]
    return (*direct, *others)


def row_of(case: Case, *, now_ns: int, stall_after_s: float) -> VerdictRow:
    """What is stored of a case.

    It happened when the middle one of its hops' clocks says, so one clock that is wrong does not move it, and
    never in the future.
    """
    taps, answer = case.path.taps, case.answer
    return VerdictRow(
        trace_id=case.path.trace_id,
        request_id=case.path.request_id,
        trace_ids=tuple(dict.fromkeys(hop.trace_id for hop in taps)),
        request_ids=tuple(dict.fromkeys(text for hop in taps for text in (hop.request_id, *hop.aliases))),
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
