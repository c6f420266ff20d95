"""What the injector has decided and how long that took, counted, and what went wrong beside it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from k8s.decisions import Decision, Plan, Reason
from otel.exposition import Distribution, Series, series, single

BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
"""An answer should take less than 50 ms; the API server waits for 5 s."""
_NS: Final = 1_000_000_000


@dataclass(slots=True)
class Tally:
    """The numbers of one process. reviews: by what became of the question. decisions: by result and reason.

    certificate_ends_s: since 1970; None before there is one. failures: of what is done beside answering, by its kind.
    """

    reviews: Counter[str] = field(default_factory=Counter)
    decisions: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    certificate_loads: int = 0
    certificate_ends_s: int | None = None
    _counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    _sum_ns: int = 0

    def decided(self, decision: Decision) -> None:
        if isinstance(decision, Plan):
            self.decisions["injected", decision.capture] += 1
        else:
            self.decisions["skipped", decision.reason.value] += 1

    def answered(self, duration_ns: int) -> None:
        self._counts[bisect_left(BUCKETS_S, duration_ns / _NS)] += 1
        self._sum_ns += duration_ns

    def series(self) -> list[Series]:
        """Everything, for `otel.exposition`. What can be known beforehand stands at 0 from the start."""
        skipped = {("skipped", reason.value): 0 for reason in Reason}
        injected = {("injected", capture): 0 for capture in ("named", "redirect", "explicit")}
        duration = Distribution(BUCKETS_S, tuple(self._counts), self._sum_ns / _NS)
        found = [
            series(
                "gapline_injector_reviews_total",
                "counter",
                "Questions of the API server, by what became of them.",
                [
                    ({"result": key}, count)
                    for key, count in _from_zero(self.reviews, "answered", "malformed", "failed")
                ],
            ),
            series(
                "gapline_injector_decisions_total",
                "counter",
                "Pods that were planned, by result and reason; of an injected one the reason is the way of capture.",
                [
                    ({"result": result, "reason": reason}, count)
                    for (result, reason), count in (injected | skipped | self.decisions).items()
                ],
            ),
            series("gapline_injector_review_seconds", "histogram", "Time for one answer.", [({}, duration)]),
            series(
                "gapline_injector_failures_total",
                "counter",
                "What went wrong beside answering.",
                [({"what": key}, count) for key, count in _from_zero(self.failures, "cluster", "certificate")],
            ),
            series(
                "gapline_injector_events_total",
                "counter",
                "Events for decisions, by what became of them.",
                [({"result": key}, count) for key, count in _from_zero(self.events, "written", "dropped", "failed")],
            ),
            single(
                "gapline_injector_certificate_loads_total",
                "counter",
                "Certificates taken since the start.",
                self.certificate_loads,
            ),
        ]
        if self.certificate_ends_s is not None:
            found.append(
                single(
                    "gapline_injector_certificate_not_after_seconds",
                    "gauge",
                    "When the certificate ends, since 1970.",
                    self.certificate_ends_s,
                )
            )
        return found


def _from_zero(counter: Counter[str], *keys: str) -> Iterable[tuple[str, int]]:
    return {**dict.fromkeys(keys, 0), **counter}.items()
