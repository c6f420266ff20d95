"""The reference store: everything in dictionaries. The oracle of the tests, and a collector that forgets."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from otel.hop import Hop
from otel.store.base import (
    HOPS_PER_ANSWER,
    LINKS,
    PRUNE_CHUNK,
    Pruned,
    RetentionPolicy,
    StallQuery,
    Stats,
    VerdictRow,
    as_written,
    is_abnormal,
    key_of,
    keys_of,
    most_overdue,
)

HOP_BYTES: Final = 4_000
STAMP_BYTES: Final = 150
"""What CPython needs for one, about."""


@dataclass(slots=True)
class _Trace:
    received_ns: int
    numbers: list[int] = field(default_factory=list)
    has_abnormal_hop: bool = False
    has_abnormal_verdict: bool = False

    @property
    def is_abnormal(self) -> bool:
        return self.has_abnormal_hop or self.has_abnormal_verdict


@dataclass(frozen=True, slots=True)
class _Kept:
    hop: Hop
    received_ns: int


class MemoryStore:
    """Keeps the contract of `otel.store.base.Store` in the plainest way; durable as long as the process lives."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next_number = 0
        self._hops: dict[int, _Kept] = {}
        self._spans: set[tuple[str, str]] = set()
        self._by_key: dict[str, list[int]] = {}
        self._traces: dict[str, _Trace] = {}
        self._verdicts: dict[tuple[str, str], tuple[int, VerdictRow]] = {}

    def write(self, hops: Sequence[Hop], *, received_ns: int) -> tuple[bool, ...]:
        with self._lock:
            return tuple([self._add(hop, received_ns) for hop in hops])

    def hops_of(self, key: str) -> tuple[Hop, ...]:
        with self._lock:
            chosen = self._by_key.get(key_of(key), [])[::-1][:HOPS_PER_ANSWER]
            for _ in range(LINKS):
                shared = {k for number in chosen for k in keys_of(self._hops[number].hop)}
                others = {number for k in shared for number in self._by_key[k]}.difference(chosen)
                chosen += sorted(others, reverse=True)[: HOPS_PER_ANSWER - len(chosen)]
            return as_written((number, self._hops[number].hop) for number in chosen)

    def latest_requests(self, *, within_ns: int, limit: int) -> tuple[str, ...]:
        with self._lock:
            newest_ns = max((kept.received_ns for kept in self._hops.values()), default=0)
            recent = (kept.hop for kept in reversed(self._hops.values()) if kept.received_ns >= newest_ns - within_ns)
            return tuple(dict.fromkeys(hop.request_id for hop in recent))[:limit]

    def put_verdicts(self, rows: Sequence[VerdictRow], *, judged_ns: int) -> None:
        with self._lock:
            for row in rows:
                traces = {row.trace_id, *row.trace_ids}
                keys = {key_of(text) for text in (row.request_id, *row.request_ids)}
                replaced = [place for place in self._verdicts if place[0] in traces and place[1] in keys]
                for place in replaced:
                    del self._verdicts[place]
                self._verdicts[row.trace_id, key_of(row.request_id)] = (judged_ns, row)
                for trace_id in traces & self._traces.keys():
                    about = [r for _, r in self._verdicts.values() if trace_id in r.keys]
                    self._traces[trace_id].has_abnormal_verdict = any(r.is_abnormal for r in about)

    def verdict_of(self, key: str) -> VerdictRow | None:
        with self._lock:
            found = (row for _, row in self._verdicts.values() if key_of(key) in row.keys)
            return max(found, key=lambda row: row.cursor, default=None)

    def stalls(self, query: StallQuery) -> tuple[VerdictRow, ...]:
        with self._lock:
            rows = sorted((row for _, row in self._verdicts.values() if query.takes(row)), key=lambda row: row.cursor)
            return tuple(reversed(rows))[: query.limit]

    def prune(self, now_ns: int, policy: RetentionPolicy) -> Pruned:
        with self._lock:
            hops = verdicts = 0
            while hops + verdicts < PRUNE_CHUNK:
                oldest = [self._oldest(is_abnormal=False), self._oldest(is_abnormal=True), self._oldest_verdict()]
                is_over_size = self._used_bytes() > policy.max_bytes
                kind = most_overdue([o and o[0] for o in oldest], now_ns, policy, is_over_size=is_over_size)
                match kind:
                    case None:
                        return Pruned(hops, verdicts, is_done=True)
                    case 2:
                        self._drop_oldest_verdict()
                        verdicts += 1
                    case _:
                        chosen = oldest[kind]
                        assert chosen is not None
                        hops += self._drop_from(chosen[1], PRUNE_CHUNK - hops - verdicts)
            return Pruned(hops, verdicts, is_done=False)

    def stats(self) -> Stats:
        with self._lock:
            return Stats(hops=len(self._hops), verdicts=len(self._verdicts), used_bytes=self._used_bytes())

    def tidy(self) -> None:
        """Nothing is ever untidy here."""

    def close(self) -> None:
        """Nothing to give back."""

    def _add(self, hop: Hop, received_ns: int) -> bool:
        if (hop.trace_id, hop.span_id) in self._spans:
            return False
        number = self._next_number
        self._next_number += 1
        self._hops[number] = _Kept(hop, received_ns)
        self._spans.add((hop.trace_id, hop.span_id))
        for key in keys_of(hop):
            self._by_key.setdefault(key, []).append(number)
        trace = self._traces.setdefault(hop.trace_id, _Trace(received_ns))
        trace.numbers.append(number)
        trace.has_abnormal_hop |= is_abnormal(hop)
        return True

    def _oldest(self, *, is_abnormal: bool) -> tuple[int, str] | None:
        traces = self._traces.items()
        return min(((t.received_ns, trace_id) for trace_id, t in traces if t.is_abnormal is is_abnormal), default=None)

    def _oldest_verdict(self) -> tuple[int, str] | None:
        return min(((judged_ns, row.trace_id) for judged_ns, row in self._verdicts.values()), default=None)

    def _drop_oldest_verdict(self) -> None:
        _, place = min((judged_ns, place) for place, (judged_ns, _) in self._verdicts.items())
        del self._verdicts[place]

    def _drop_from(self, trace_id: str, count: int) -> int:
        trace = self._traces[trace_id]
        dropped = trace.numbers[:count]
        for number in dropped:
            hop = self._hops.pop(number).hop
            self._spans.discard((hop.trace_id, hop.span_id))
            for key in keys_of(hop):
                self._by_key[key].remove(number)
                if not self._by_key[key]:
                    del self._by_key[key]
        del trace.numbers[:count]
        if not trace.numbers:
            del self._traces[trace_id]
        return len(dropped)

    def _used_bytes(self) -> int:
        hops: Iterable[Hop] = (kept.hop for kept in self._hops.values())
        verdicts = sum(len(row.answer_json) for _, row in self._verdicts.values())
        return verdicts + sum(HOP_BYTES + STAMP_BYTES * len(hop.timeline.stamps) for hop in hops)
