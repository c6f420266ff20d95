"""What the collector says of itself on /metrics: what came in, what was judged, what is kept, how far it lags."""

from __future__ import annotations

from collections.abc import Mapping

from otel.exposition import Series, series, single
from otel.judging import Judge
from otel.live import LiveStreams
from otel.receiver import Counters
from otel.store.base import SECOND_NS, Stats

_P = "gapline_collector_"


def meters(
    build: Mapping[str, str], received: Counters, judge: Judge, live: LiveStreams, stats: Stats, *, now_ns: int
) -> list[Series]:
    """All series. build: labels of the build-info series; now_ns: monotonic."""
    spans = {"stored": received.stored, "duplicate": received.duplicate, "rejected": received.rejected}
    refused = {"failed": received.failed_requests, "refused": received.refused_requests}
    logs = {"taken": received.glances, "rejected": received.rejected_logs, "foreign": received.foreign_logs}
    missing = {"no_room": live.overflow_count, "expired": live.expired_count}
    verdicts = sorted(judge.verdicts.items())
    size = {"used": stats.used_bytes, "file": stats.file_bytes, "wal": stats.wal_bytes}
    lag_s = judge.settling.late_by(now_ns) / SECOND_NS
    return [
        series(_P + "build_info", "gauge", "What runs; always 1.", [(build, 1)]),
        single(_P + "requests_total", "counter", "OTLP requests that were let in.", received.requests),
        series(
            _P + "requests_not_taken_total",
            "counter",
            "OTLP requests answered with an error: failed may be tried again, refused not.",
            [({"result": name}, value) for name, value in refused.items()],
        ),
        series(
            _P + "spans_total",
            "counter",
            "Spans of the requests that were taken.",
            [({"result": name}, value) for name, value in spans.items()],
        ),
        single(_P + "spans_foreign_total", "counter", "Rejected spans of other programs.", received.foreign),
        series(
            _P + "log_records_total",
            "counter",
            "Log records: taken tell of a stream that runs, foreign are of other programs and dropped.",
            [({"result": name}, value) for name, value in logs.items()],
        ),
        single(_P + "live_streams", "gauge", "Open streams that sidecars told of and did not close.", len(live)),
        series(
            _P + "live_missing_total",
            "counter",
            "Open streams that are not listed: for want of room, or because their sidecar is not heard of any more.",
            [({"reason": name}, value) for name, value in missing.items()],
        ),
        single(_P + "live_late_total", "counter", "Log records that told less than was known.", live.late_count),
        series(
            _P + "verdicts_total",
            "counter",
            "Requests judged; one whose verdict changes counts again.",
            [({"status": status.value, "cause": cause.value}, count) for (status, cause), count in verdicts],
        ),
        series(
            _P + "stalls_total",
            "counter",
            "Requests of the list of stalls, by the first hop that is named (empty: none is) and the cause.",
            [({"hop": hop, "cause": cause.value}, count) for (hop, cause), count in sorted(judge.stalls.items())],
        ),
        single(_P + "judge_waiting", "gauge", "Requests that wait to settle or to be judged.", len(judge.settling)),
        single(_P + "judge_lag_seconds", "gauge", "How long the longest due request has been due.", lag_s),
        single(
            _P + "judge_overlooked_total", "counter", "Requests not judged unless asked for.", judge.settling.overlooked
        ),
        single(_P + "judge_failures_total", "counter", "Requests that could not be judged.", judge.failures),
        single(_P + "store_hops", "gauge", "Hops kept.", stats.hops),
        single(_P + "store_verdicts", "gauge", "Verdicts kept.", stats.verdicts),
        series(
            _P + "store_bytes",
            "gauge",
            "Size of the store: what is used of it, its file, its write-ahead log.",
            [({"part": name}, value) for name, value in size.items()],
        ),
    ]
