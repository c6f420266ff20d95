"""What the sidecar says of itself: health, readiness, metrics, and the streams that run right now.

Everything is served on an address of its own, so that no path of the upstream is ever taken away. The list of
streams names request ids, and so only a caller on this machine gets it.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping

from aiohttp import web

from otel.exposition import CONTENT_TYPE, Series, exposition, series, single
from otel.hop import Ending
from sidecar.backlog import Counters
from sidecar.clock import Clock
from sidecar.exchanges import Exchanges
from sidecar.exporter import Exporter
from sidecar.lag import Canary
from sidecar.listener import RefusedHeads
from sidecar.records import Records


class Admin:
    """The routes, and what they read."""

    def __init__(
        self,
        *,
        clock: Clock,
        exchanges: Exchanges,
        records: Records,
        canary: Canary,
        refused_heads: RefusedHeads,
        exporter: Exporter | None,
        build: Mapping[str, str],
    ) -> None:
        self._clock = clock
        self._exchanges = exchanges
        self._records = records
        self._canary = canary
        self._refused_heads = refused_heads
        self._exporter = exporter
        self._build = dict(build)

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/readyz", self._readiness)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/streams", self._streams)
        return app

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readiness(self, _request: web.Request) -> web.Response:
        if self._exchanges.is_draining:
            return web.Response(status=503, text="draining\n")
        return web.Response(text="ready\n")

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=exposition(self.metrics()).encode(), headers={"Content-Type": CONTENT_TYPE})

    async def _streams(self, request: web.Request) -> web.Response:
        if not _is_local(request):
            return web.Response(status=403, text="only for callers on this machine\n")
        return web.Response(
            text=json.dumps({"streams": self.streams()}, indent=1) + "\n", content_type="application/json"
        )

    def streams(self) -> list[dict[str, object]]:
        """What runs right now, the longest first."""
        now_ns = self._clock.monotonic_ns()
        return [
            {
                **live.recorder.glance(now_ns),
                "age_s": round((now_ns - live.anchor.monotonic_ns) / 1e9, 3),
                "buffered_bytes": 0 if live.connection is None else live.connection.buffered_bytes,
            }
            for live in self._exchanges.running()
        ]

    def metrics(self) -> list[Series]:
        """All series of the sidecar; every ending has one from the start, so that rates have a beginning."""
        exchanges, records = self._exchanges, self._records
        found = [
            series("gapline_build_info", "gauge", "what runs", [(self._build, 1)]),
            _gauge("gapline_streams", "exchanges that run", exchanges.running_count),
            _gauge("gapline_lingering", "records that wait for the reader's kernel", exchanges.lingering_count),
            series(
                "gapline_exchanges_total",
                "counter",
                "exchanges by ending",
                [({"ending": ending.value}, records.ended[ending]) for ending in Ending],
            ),
            _counter("gapline_stalls_total", "silences of at least --stall-after", exchanges.stall_count),
            _counter("gapline_refused_heads_total", "requests refused before they were any", self._refused_heads.count),
            _counter(
                "gapline_recording_failures_total", "bodies no longer looked at", exchanges.recording_failure_count
            ),
            _counter(
                "gapline_relay_failures_total", "exchanges that the sidecar itself lost", exchanges.relay_failure_count
            ),
            _counter("gapline_records_lost_total", "records that could not be made", records.lost_count),
            _counter("gapline_kernel_samples_dropped_total", "samples past the limit", exchanges.dropped_sample_count),
            _counter(
                "gapline_blocked_stretches_dropped_total", "stretches past the limit", exchanges.dropped_block_count
            ),
            _counter("gapline_loop_lags_total", "times that the event loop was late", self._canary.lag_count),
            _counter("gapline_loop_lag_seconds_total", "time that it was late", self._canary.lag_ns / 1e9),
        ]
        if self._exporter is not None:
            found += _of_export(self._exporter.counters)
        return found


def _of_export(counters: Counters) -> list[Series]:
    return [
        _counter("gapline_export_offered_total", "spans made", counters.offered),
        _counter("gapline_export_accepted_total", "spans that the endpoint has taken", counters.accepted),
        _counter("gapline_export_rejected_total", "spans that the endpoint has refused", counters.rejected),
        series(
            "gapline_export_dropped_total",
            "counter",
            "spans lost, by reason",
            [({"reason": reason}, number) for reason, number in counters.dropped.items()],
        ),
        _counter("gapline_export_retries_total", "requests that were repeated", counters.retried),
        _gauge("gapline_export_queue_spans", "spans that wait", counters.queued),
        _gauge("gapline_export_queue_bytes", "bytes that they take", counters.queued_bytes),
        _gauge("gapline_export_oldest_seconds", "how long the oldest has waited", counters.oldest_age_s or 0),
    ]


def _gauge(name: str, text: str, value: float) -> Series:
    return single(name, "gauge", text, value)


def _counter(name: str, text: str, value: float) -> Series:
    return single(name, "counter", text, value)


def _is_local(request: web.Request) -> bool:
    try:
        return ipaddress.ip_address(request.remote or "").is_loopback
    except ValueError:
        return False
