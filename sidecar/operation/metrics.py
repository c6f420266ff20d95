"""Every number that one process of the sidecar tells of itself: a table for each of its parts, by name, kind and help.

Each series is there from the start, with 0, so that rates have a beginning. Of several workers the parent adds them
up (`merge.py`); what is no amount has a name that says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from otel.exposition import Series, series, single
from otel.logs import Stderr
from sidecar.bounds.admission import Admission
from sidecar.bounds.memory import resident_bytes
from sidecar.bounds.overload import Overload
from sidecar.downstream.doors import Doors
from sidecar.downstream.listener import Listener
from sidecar.downstream.refusals import RefusedHeads
from sidecar.engine.watch import EngineWatch
from sidecar.exchanges import Exchanges
from sidecar.export.backlog import DROPPED, Counters
from sidecar.export.log_queue import LOST, LogCounters
from sidecar.export.records import Records
from sidecar.export.spool.disk import GAVE_WAY, UNREADABLE
from sidecar.export.spool.turn import FAILURES
from sidecar.guard.complaint import TOKENS
from sidecar.guarding import DID, WOULD
from sidecar.lag import Canary
from sidecar.telling.dimensions import Dimensions
from sidecar.telling.observations import Observations
from sidecar.tls.contexts import ServerTls
from sidecar.upstream import Upstream

GUARD_MODES: Final = (WOULD, DID)
"""By what --guard says: `observe` or `enforce`."""


class Counting(Protocol):
    """What exports spans, as far as its numbers go."""

    @property
    def counters(self) -> Counters: ...


class CountingLogs(Protocol):
    """What exports news of running streams, as far as its numbers go."""

    @property
    def counters(self) -> LogCounters: ...


@dataclass(frozen=True, slots=True)
class Side:
    """One listener, by its name, and what stands behind it."""

    name: str
    listener: Listener
    admission: Admission
    upstream: Upstream


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The parts whose numbers are told. connection_limit: of the doors, None for no limit. now: reads the monotonic
    clock."""

    build: Mapping[str, str]
    exchanges: Exchanges
    records: Records
    canary: Canary
    doors: Doors
    connection_limit: int | None
    refused_heads: RefusedHeads
    sides: Sequence[Side]
    tls: ServerTls | None
    exporter: Counting | None
    observations: Observations
    dimensions: Dimensions
    logs: CountingLogs | None
    engine: EngineWatch | None
    now: Callable[[], int]

    def series(self) -> list[Series]:
        found = [
            series("gapline_build_info", "gauge", "what runs", [(self.build, 1)]),
            *self.observations.series(),
            *_of_exchanges(self.exchanges, self.now()),
            *_of_guard(self.exchanges),
            *_of_recording(self.exchanges, self.records),
            *_of_dimensions(self.dimensions),
            *_of_passthrough(self.exchanges, self.records),
            *_of_connections(self.doors, self.connection_limit, self.refused_heads),
            *_of_memory(self.exchanges.overload, self.exchanges.overload_refused_count),
            *_of_sides(self.sides),
            _gauge("gapline_tasks", "tasks of the event loop, a few more than exchanges", len(asyncio.all_tasks())),
            _counter("gapline_loop_lags_total", "times that the event loop was late", self.canary.lag_count),
            _counter("gapline_loop_lag_seconds_total", "time that it was late", self.canary.lag_ns / 1e9),
        ]
        if self.tls is not None:
            found += _of_tls(self.tls)
        if self.exporter is not None:
            found += _of_export(self.exporter.counters)
        if self.logs is not None:
            found += _of_logs(self.logs.counters)
        if self.engine is not None:
            found += _of_engine(self.engine)
        return found


def _of_exchanges(exchanges: Exchanges, now_ns: int) -> Iterator[Series]:
    yield _gauge("gapline_streams", "exchanges that run", exchanges.running_count)
    yield _gauge(
        "gapline_oldest_silence_seconds",
        "how long the upstream that has been silent the longest has been so, while its reader waits; 0: none is",
        _oldest_silence_ns(exchanges, now_ns) / 1e9,
    )
    yield _gauge("gapline_lingering", "records that wait for the reader's kernel", exchanges.lingering_count)
    yield _counter("gapline_stalls_total", "silences of at least --stall-after", exchanges.stall_count)
    yield series(
        "gapline_holdups_total",
        "counter",
        "times that the reader's side held a stream up, by cause",
        [({"cause": cause.value}, number) for cause, number in exchanges.holdup_counts.items()],
    )
    yield _counter(
        "gapline_relay_failures_total", "exchanges that the sidecar itself lost", exchanges.relay_failure_count
    )
    yield _counter("gapline_look_failures_total", "looks at all exchanges that failed", exchanges.look_failure_count)
    yield series(
        "gapline_stopped_total",
        "counter",
        "exchanges that the sidecar ended, by reason",
        [({"reason": stop.error_type or stop.ending.value}, number) for stop, number in exchanges.stop_counts.items()],
    )


def _oldest_silence_ns(exchanges: Exchanges, now_ns: int) -> int:
    """Of what is watched. Who waits in line waits for us, who has not sent all of a request waits for himself, and
    where the reader takes nothing the upstream may not send."""
    silences = (
        now_ns - max(live.recorder.progress_ns, live.asked_ns or 0)
        for live in exchanges.running()
        if live.recorder.is_watched
        and live.queued_since_ns is None
        and live.body_wait_since_ns is None
        and live.recorder.blocked_since_ns is None
    )
    return max(silences, default=0)


def _of_guard(exchanges: Exchanges) -> Iterator[Series]:
    counts = dict.fromkeys(((limit, mode) for limit in TOKENS for mode in GUARD_MODES), 0) | exchanges.guard_counts
    yield series(
        "gapline_guard_fired_total",
        "counter",
        "streams that the guard ended (`enforced`), or would have ended if --guard were enforce (`would_have`)",
        [({"limit": limit, "mode": mode}, number) for (limit, mode), number in counts.items()],
    )


def _of_dimensions(dimensions: Dimensions) -> Iterator[Series]:
    for kind, text, counts in (
        ("over", "values of a dimension told as `other`, as there were too many", dimensions.overflow_counts),
        ("unfit", "values of a dimension told as `other`, as they were no token", dimensions.unfit_counts),
    ):
        yield series(
            f"gapline_dimension_values_{kind}_total",
            "counter",
            text,
            [({"dimension": name}, number) for name, number in counts.items()],
        )


def _of_recording(exchanges: Exchanges, records: Records) -> Iterator[Series]:
    yield _counter("gapline_recording_failures_total", "bodies no longer looked at", exchanges.recording_failure_count)
    yield _counter("gapline_log_lines_lost_total", "log lines that could not be written", Stderr.lost_count)
    yield _counter("gapline_records_lost_total", "records that could not be made", records.lost_count)
    yield _counter("gapline_kernel_samples_dropped_total", "samples past the limit", exchanges.dropped_sample_count)
    yield _counter("gapline_blocked_stretches_dropped_total", "stretches past the limit", exchanges.dropped_block_count)


def _of_passthrough(exchanges: Exchanges, records: Records) -> Iterator[Series]:
    yield _gauge("gapline_passthrough_is_on", "whether the kill switch is on", int(exchanges.is_passthrough))
    yield _gauge("gapline_streams_muted", "exchanges that run and are not looked at", exchanges.muted_count)
    yield _counter("gapline_exchanges_muted_total", "exchanges that gave no span for it", records.muted_count)


def _of_connections(doors: Doors, limit: int | None, refused_heads: RefusedHeads) -> Iterator[Series]:
    yield _gauge("gapline_connections", "open connections of clients", doors.open_count)
    yield _gauge("gapline_connections_limit", "most that may be open; 0: no limit", limit or 0)
    yield _counter("gapline_connections_refused_total", "connections beyond the limit", doors.refused_count)
    yield series(
        "gapline_refused_heads_total",
        "counter",
        "requests refused before they were any, by the rule that they broke",
        [({"rule": rule}, number) for rule, number in refused_heads.counts.items()],
    )
    yield _counter("gapline_slow_heads_total", "requests whose head took too long", doors.slow_head_count)
    opaque = [(opening.name.lower(), passed) for opening, passed in doors.opaque.items()]
    yield series(
        "gapline_opaque_open",
        "gauge",
        "connections passed on unread that are open",
        [({"protocol": name}, len(passed.running)) for name, passed in opaque],
    )
    yield series(
        "gapline_opaque_connections_total",
        "counter",
        "connections passed on unread",
        [({"protocol": name}, passed.count) for name, passed in opaque],
    )
    yield series(
        "gapline_opaque_failures_total",
        "counter",
        "unread connections that found no upstream",
        [({"protocol": name}, passed.failed_count) for name, passed in opaque],
    )
    yield series(
        "gapline_opaque_bytes_total",
        "counter",
        "bytes passed on unread",
        [
            ({"protocol": name, "way": way}, size_bytes)
            for name, passed in opaque
            for way, size_bytes in zip(("sent", "answered"), passed.traffic, strict=True)
        ],
    )


def _of_memory(overload: Overload, refused_count: int) -> Iterator[Series]:
    yield _gauge("gapline_memory_used_bytes", "memory of the process that is in RAM", resident_bytes() or 0)
    if overload.limit_bytes is not None:  # a 0 would be read as a limit that is exceeded
        yield _gauge("gapline_memory_limit_bytes", "--memory-limit, where there is one", overload.limit_bytes)
    yield _gauge("gapline_overload_level", "0 calm, 1 refusing, 2 giving streams up", int(overload.level))
    yield _counter("gapline_overloads_total", "times that memory became short", overload.entered_count)
    yield _counter("gapline_overload_refused_total", "requests refused for it", refused_count)


_BY_LISTENER: Final[tuple[tuple[str, str, str, Callable[[Side], int | float]], ...]] = (
    (
        "gapline_accept_pauses_total",
        "counter",
        "rests of accepting, for want of descriptors or memory",
        lambda side: side.listener.pause_count,
    ),
    (
        "gapline_tls_handshake_failures_total",
        "counter",
        "connections without an agreement on TLS",
        lambda side: side.listener.failed_handshake_count,
    ),
    ("gapline_admitted_streams", "gauge", "exchanges that have a place", lambda side: side.admission.running_count),
    ("gapline_admitted_limit", "gauge", "--max-streams; 0: no limit", lambda side: side.admission.max_streams),
    ("gapline_queue_streams", "gauge", "exchanges that wait for a place", lambda side: side.admission.waiting_count),
    (
        "gapline_queue_seconds_total",
        "counter",
        "time that they waited who got one",
        lambda side: side.admission.waited_ns / 1e9,
    ),
    ("gapline_queue_full_total", "counter", "exchanges refused at once", lambda side: side.admission.full_count),
    (
        "gapline_queue_timeouts_total",
        "counter",
        "exchanges refused after --queue-timeout",
        lambda side: side.admission.timeout_count,
    ),
    ("gapline_queue_left_total", "counter", "readers that left the queue", lambda side: side.admission.left_count),
    ("gapline_upstream_connections", "gauge", "connections to the upstream", lambda side: side.upstream.open_count),
    (
        "gapline_upstream_idle",
        "gauge",
        "kept connections to the upstream that wait for a request",
        lambda side: side.upstream.idle_count,
    ),
    ("gapline_upstream_opened_total", "counter", "connections made", lambda side: side.upstream.opened_count),
    ("gapline_upstream_reused_total", "counter", "requests on a kept one", lambda side: side.upstream.reused_count),
    ("gapline_upstream_resent_total", "counter", "requests sent again", lambda side: side.upstream.resent_count),
)


def _of_sides(sides: Sequence[Side]) -> Iterator[Series]:
    for name, kind, text, value in _BY_LISTENER:
        yield series(name, kind, text, [({"listener": side.name}, value(side)) for side in sides])


def _of_tls(tls: ServerTls) -> Iterator[Series]:
    if tls.not_after_s is not None:
        yield _gauge(
            "gapline_tls_certificate_not_after_seconds", "when the certificate ends, since 1970", tls.not_after_s
        )
    yield _counter("gapline_tls_reloads_total", "certificates taken since the start", tls.reload_count)
    yield _counter("gapline_tls_failures_total", "certificates that could not be loaded", tls.failure_count)


_REASONS: Final = (*DROPPED, GAVE_WAY, UNREADABLE)


def _of_export(counters: Counters) -> Iterator[Series]:
    yield _counter("gapline_export_offered_total", "spans made", counters.offered)
    yield _counter("gapline_export_accepted_total", "spans that the endpoint has taken", counters.accepted)
    yield _counter("gapline_export_rejected_total", "spans that the endpoint has refused", counters.rejected)
    yield series(
        "gapline_export_dropped_total",
        "counter",
        "spans lost, by reason",
        [({"reason": reason}, number) for reason, number in _all_of(_REASONS, counters.dropped)],
    )
    yield _counter("gapline_export_retries_total", "requests that were repeated", counters.retried)
    yield _gauge("gapline_export_queue_spans", "spans that wait", counters.queued)
    yield _gauge("gapline_export_queue_bytes", "bytes that waiting spans take", counters.queued_bytes)
    yield _gauge("gapline_export_oldest_seconds", "how long the oldest has waited", counters.oldest_age_s or 0)
    yield _counter(
        "gapline_export_timelines_left_out_total", "spans sent without theirs, for size", counters.timelines_left_out
    )
    yield _gauge("gapline_spool_spans", "spans that are on disk only", counters.spooled)
    yield _gauge("gapline_spool_bytes", "bytes that the files of the spool take", counters.spooled_bytes)
    yield _gauge("gapline_spool_missing_spans", "spans that wait and are on no disk", counters.unspooled)
    yield _counter("gapline_spool_restored_total", "spans that earlier processes left", counters.restored)
    yield _counter("gapline_spool_torn_total", "records that a crash left in pieces", counters.torn)
    yield series(
        "gapline_spool_failures_total",
        "counter",
        "what the disk refused, by kind",
        [({"kind": kind}, number) for kind, number in _all_of(FAILURES, counters.spool_failures)],
    )


def _of_logs(counters: LogCounters) -> Iterator[Series]:
    yield _counter("gapline_log_records_offered_total", "news of running streams to be sent", counters.offered)
    yield _counter(
        "gapline_log_records_accepted_total", "news of running streams that the endpoint has taken", counters.accepted
    )
    yield series(
        "gapline_log_records_lost_total",
        "counter",
        "news of running streams that were lost, by reason",
        [({"reason": reason}, number) for reason, number in _all_of(LOST, counters.lost)],
    )
    yield _counter("gapline_log_records_retries_total", "requests that were repeated", counters.retried)
    yield _gauge("gapline_log_records_queue", "news of running streams that wait", counters.queued)
    yield _gauge("gapline_log_records_queue_bytes", "bytes that waiting news take", counters.queued_bytes)


def _of_engine(engine: EngineWatch) -> Iterator[Series]:
    yield _counter("gapline_engine_asked_total", "times that the engine was asked for its metrics", engine.asked_count)
    yield series(
        "gapline_engine_lost_total",
        "counter",
        "times that it told nothing, by reason",
        [({"reason": reason}, number) for reason, number in engine.lost_counts.items()],
    )
    yield _counter("gapline_engine_missed_total", "silences without what the engine said", engine.missed_count)


def _all_of(names: Iterable[str], counts: Mapping[str, int]) -> Iterable[tuple[str, int]]:
    """With 0 for what has not happened yet."""
    return (dict.fromkeys(names, 0) | dict(counts)).items()


def _gauge(name: str, text: str, value: float) -> Series:
    return single(name, "gauge", text, value)


def _counter(name: str, text: str, value: float) -> Series:
    return single(name, "counter", text, value)
