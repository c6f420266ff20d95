"""Compare what /metrics says with what the log lines of the same processes come to, number by number."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from otel.exposition import sample_of
from tests.support.processes import Sidecar

LINE_MS = 0.0005
"""Half of what the times of a line are rounded to."""

Labels = frozenset[tuple[str, str]]


@dataclass
class Metrics:
    """/metrics, taken apart: values and exemplars by name and labels."""

    values: dict[str, dict[Labels, float]] = field(default_factory=dict)
    trace_ids: set[str] = field(default_factory=set)

    @staticmethod
    def of(text: str) -> Metrics:
        found = Metrics()
        for line in text.split("\n"):
            if line and not line.startswith("#"):
                sample = sample_of(line)
                assert sample is not None, line
                name, _, labels = sample.key.partition("{")
                found.values.setdefault(name, {})[frozenset(_labels(labels))] = float(sample.value)
                found.trace_ids |= {value for _, value in _labels(sample.exemplar.partition("}")[0])}
        return found

    def by(self, name: str, *labels: str) -> Counter[tuple[str, ...]]:
        """The sums of a metric by these labels alone, the empty ones left out."""
        sums: Counter[tuple[str, ...]] = Counter()
        for found, value in self.values.get(name, {}).items():
            sums[tuple(dict(found)[label] for label in labels)] += value
        return +sums


def _labels(text: str) -> Iterator[tuple[str, str]]:
    for name, value in re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', text):
        yield name, re.sub(r"\\(.)", lambda escape: {"n": "\n"}.get(escape[1], escape[1]), value)


async def metrics_of(sidecar: Sidecar) -> Metrics:
    headers = {"Accept": "application/openmetrics-text; version=1.0.0"}
    async with aiohttp.ClientSession() as session, session.get(f"{sidecar.admin_url}/metrics", headers=headers) as got:
        return Metrics.of(await got.text())


def lines_of(said: str) -> list[dict[str, Any]]:
    """What the log says of the exchanges that ended."""
    found = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    return [line for line in found if line["message"] == "exchange ended"]


SUMS = {
    "gapline_bytes_in_total": "bytes_in",
    "gapline_bytes_out_total": "bytes",
    "gapline_request_bytes_total": "request_bytes",
    "gapline_missing_bytes_total": "missing_bytes",
    "gapline_events_total": "events",
    "gapline_wasted_events_total": "wasted_events",
    "gapline_keepalives_total": "keepalives",
    "gapline_injected_bytes_total": "injected_bytes",
}
TIMES = {
    "gapline_exchange_duration_seconds": "total_duration_ms",
    "gapline_time_to_first_event_seconds": "time_to_first_event_ms",
    "gapline_time_to_first_content_seconds": "time_to_first_content_ms",
    "gapline_max_gap_seconds": "max_gap_ms",
}
NOTHING_LOST = (
    "gapline_streams",
    "gapline_lingering",
    "gapline_log_lines_lost_total",
    "gapline_records_lost_total",
    "gapline_relay_failures_total",
    "gapline_recording_failures_total",
    "gapline_worker_restarts_total",
    "gapline_labels_over_total",
)


@dataclass
class Comparison:
    """What /metrics says beside what the lines come to, and the differences."""

    metrics: Metrics
    lines: list[dict[str, Any]]
    differences: list[str] = field(default_factory=list)

    def run(self) -> None:
        self._outcomes()
        for name, key in SUMS.items():
            self._same(name, self.metrics.by(name, "model", "probe"), self._summed(key))
        for kind in ("input", "output"):
            told = {labels[1:]: n for labels, n in self.metrics.by("gapline_tokens_total", "type", "model").items()
                    if labels[0] == kind}  # fmt: skip
            self._same(f"gapline_tokens_total {kind}", Counter(told), self._summed(f"{kind}_tokens", "model"))
        self._close("gapline_blocked_seconds_total", self._summed("blocked_ms"), len(self.lines))
        for name, key in TIMES.items():
            self._histogram(name, key)
        self._guard()
        self._exemplars()
        lost = {name: sum(self.metrics.values[name].values()) for name in NOTHING_LOST if name in self.metrics.values}
        self._say("nothing is open, nothing was lost", f"{sum(lost.values()):g}", not any(lost.values()), str(lost))

    def _outcomes(self) -> None:
        wanted = Counter(
            (line["outcome"], line["cause"] or "", line["model"] or "", _flag(line["probe"])) for line in self.lines
        )
        told = self.metrics.by("gapline_exchanges_total", "ending", "cause", "model", "probe")
        self._same("gapline_exchanges_total", told, wanted)

    def _summed(self, key: str, *by: str) -> Counter[tuple[str, ...]]:
        sums: Counter[tuple[str, ...]] = Counter()
        for line in self.lines:
            labels = {"model": line["model"] or "", "probe": _flag(line["probe"])}
            sums[tuple(labels[name] for name in by or labels)] += line[key] or 0
        return +sums

    def _same(self, name: str, told: Counter[Any], wanted: Counter[Any]) -> None:
        """Both are equal, and are something: nothing is always equal to nothing."""
        wrong = {key: (told[key], wanted[key]) for key in told | wanted if told[key] != wanted[key]}
        is_right = not wrong and bool(told)
        self._say(name, f"{told.total():.0f} in {len(told)}", is_right, f"(told, added up) by labels: {wrong}")

    def _close(self, name: str, wanted_ms: Counter[Any], count: int) -> None:
        told_s, added_s = sum(self.metrics.values[name].values()), wanted_ms.total() / 1e3
        is_right = abs(told_s - added_s) <= count * LINE_MS / 1e3 + 1e-6
        self._say(name, f"{told_s:.6f}", is_right, f"{added_s:.6f} added up over {count} lines")

    def _histogram(self, name: str, key: str) -> None:
        """Each bucket has the times up to its end; a time at the end itself may have been rounded over it."""
        times = [line[key] for line in self.lines if line[key] is not None]
        self._close(f"{name}_sum", Counter({"": sum(times)}), len(times))
        counts = self.metrics.by(f"{name}_bucket", "le")
        wrong = {
            le: count
            for (le,), count in counts.items()
            if not sum(ms + LINE_MS <= float(le) * 1e3 for ms in times)
            <= count
            <= sum(ms - LINE_MS <= float(le) * 1e3 for ms in times)
        }
        total = self.metrics.by(f"{name}_count").total()
        is_right = not wrong and total == len(times) == counts["+Inf",]
        self._say(name, f"{total:.0f} times", is_right, f"{len(times)} lines; buckets {wrong}")

    def _guard(self) -> None:
        wanted = Counter((limit,) for line in self.lines for limit in line["guard_fired"])
        self._same("gapline_guard_fired_total", self.metrics.by("gapline_guard_fired_total", "limit"), wanted)

    def _exemplars(self) -> None:
        strange = self.metrics.trace_ids - {line["trace_id"] for line in self.lines}
        is_right = bool(self.metrics.trace_ids) and not strange
        self._say("exemplars", f"{len(self.metrics.trace_ids)} exchanges", is_right, f"of no line: {strange}")

    def _say(self, name: str, told: str, is_right: bool, wrong: str) -> None:
        print(f"{name:<44}{told:>28}  {'as the lines say' if is_right else 'WRONG'}", flush=True)
        if not is_right:
            self.differences.append(f"{name}: {told}; {wrong}"[:1_000])


def _flag(is_so: bool) -> str:
    return "true" if is_so else "false"
