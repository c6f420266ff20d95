"""The Grafana dashboard: rows of panels, each a question with the queries that answer it.

`make golden` writes it to `manifests/chart/monitoring/dashboard.json`. A query speaks of what its variables have
chosen, and of no probes. What Grafana needs beside titles and queries is in one place, so that all panels look alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

UID: Final = "gapline"
COLUMNS: Final = 24
"""Grafana's grid."""
PANEL_ROWS: Final = 8
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_CHOSEN: Final = 'namespace=~"$namespace", hop=~"$hop"'
_ASKED: Final = f'{_CHOSEN}, model=~"$model", probe="false"'


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked, and how its answers are called in the legend."""

    expr: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture: a question, the queries, the unit of the axis, and what to think of it."""

    title: str
    queries: tuple[Query, ...]
    unit: str
    about: str = ""
    is_stacked: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: tuple[Panel, ...]


def _quantile(share: float, metric: str, labels: str) -> str:
    buckets = f"sum by (le, hop) (rate({metric}_bucket{{{labels}}}[$__rate_interval]))"
    return f"histogram_quantile({share:g}, {buckets})"


def _quantiles(metric: str, labels: str, *shares: float) -> tuple[Query, ...]:
    return tuple(Query(_quantile(share, metric, labels), f"{{{{hop}}}} p{share * 100:g}") for share in shares)


def _above(metric: str, bound: str, labels: str) -> str:
    """The share of values above the end of a bucket."""
    within = f'sum by (hop) (rate({metric}_bucket{{{labels}, le="{bound}"}}[$__rate_interval]))'
    return f"1 - {within} / sum by (hop) (rate({metric}_count{{{labels}}}[$__rate_interval]))"


def _rate(metric: str, labels: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}{{{labels}}}[$__rate_interval]))"


def _failures() -> Query:
    """What ended badly, and what came whole and was an error."""
    by = "hop, model, ending, cause"
    ended = _rate("gapline_exchanges_total", f'{_ASKED}, ending!~"complete|client_disconnect"', by)
    told = _rate("gapline_exchanges_total", f'{_ASKED}, ending="complete", cause!~"|fin|reset|framing|timeout"', by)
    return Query(f"{ended} or {told}", "{{hop}} {{model}} {{ending}} {{cause}}")


def _review_time() -> Query:
    buckets = "sum by (le) (rate(gapline_injector_review_seconds_bucket[$__rate_interval]))"
    return Query(f"histogram_quantile(0.99, {buckets})", "p99")


_STREAMS: Final = f'{_ASKED}, stream="true"'
ROWS: Final = (
    Row(
        "Who makes readers wait",
        (
            Panel(
                "Stalls by first hop",
                (
                    Query(
                        'sum by (hop, cause) (increase(gapline_collector_stalls_total{hop!=""}[10m]))',
                        "{{hop}} {{cause}}",
                    ),
                ),
                "short",
                "In ten minutes. The first hop at which the wait appears; the hops behind it only passed it on.",
                is_stacked=True,
            ),
            Panel(
                "Oldest silence",
                (Query(f"max by (hop) (gapline_oldest_silence_seconds{{{_CHOSEN}}})", "{{hop}}"),),
                "s",
                "How long the stream that has been silent the longest has been so. `gapline live` shows which it is.",
            ),
            Panel(
                "Streams that run",
                (Query(f"sum by (hop) (gapline_streams{{{_CHOSEN}}})", "{{hop}}"),),
                "short",
                is_stacked=True,
            ),
        ),
    ),
    Row(
        "How answers end",
        (
            Panel(
                "Answers by ending",
                (Query(_rate("gapline_exchanges_total", _ASKED, "ending"), "{{ending}}"),),
                "reqps",
                is_stacked=True,
            ),
            Panel(
                "Errors by model and cause",
                (_failures(),),
                "reqps",
                "`complete` is an answer that came whole and was an error.",
                is_stacked=True,
            ),
            Panel(
                "Without their terminal event",
                (
                    Query(
                        _rate(
                            "gapline_exchanges_total",
                            f'{_ASKED}, ending=~"missing_terminal|upstream_cut"',
                            "hop, model",
                        ),
                        "{{hop}} {{model}}",
                    ),
                ),
                "reqps",
                "Closed before the event that marks the end had come.",
                is_stacked=True,
            ),
        ),
    ),
    Row(
        "How long it takes",
        (
            Panel(
                "Time to first content",
                _quantiles("gapline_time_to_first_content_seconds", _STREAMS, 0.5, 0.95),
                "s",
            ),
            Panel(
                "First contents after more than 0.5 s",
                (Query(_above("gapline_time_to_first_content_seconds", "0.5", _STREAMS), "{{hop}}"),),
                "percentunit",
                "The objective is at most 5 %.",
            ),
            Panel("Gaps between events", _quantiles("gapline_event_gap_seconds", _ASKED, 0.5, 0.99), "s"),
            Panel(
                "Gaps of more than 0.2 s and 0.4 s",
                (
                    Query(_above("gapline_event_gap_seconds", "0.2", _ASKED), "{{hop}} 0.2 s"),
                    Query(_above("gapline_event_gap_seconds", "0.4", _ASKED), "{{hop}} 0.4 s"),
                ),
                "percentunit",
                "The objectives are at most 5 % and 1 %.",
            ),
            Panel("Longest gap of an answer", _quantiles("gapline_max_gap_seconds", _STREAMS, 0.5, 0.95), "s"),
            Panel("Duration", _quantiles("gapline_exchange_duration_seconds", _STREAMS, 0.5, 0.95), "s"),
        ),
    ),
    Row(
        "What passes",
        (
            Panel(
                "Tokens",
                (Query(_rate("gapline_tokens_total", _ASKED, "hop, type"), "{{hop}} {{type}}"),),
                "short",
                "A second, as the answers count them.",
            ),
            Panel(
                "Readers that take nothing",
                (Query(_rate("gapline_blocked_seconds_total", _ASKED, "hop"), "{{hop}}"),),
                "short",
                "Streams, on average, whose reader did not take what there was for it.",
            ),
            Panel(
                "Work for nobody",
                (Query(_rate("gapline_wasted_events_total", _ASKED, "hop"), "{{hop}}"),),
                "short",
                "Events a second that came after their reader had left.",
            ),
        ),
    ),
    Row(
        "gapline itself",
        (
            Panel(
                "Spans lost",
                (
                    Query(_rate("gapline_export_dropped_total", _CHOSEN, "hop, reason"), "{{hop}} {{reason}}"),
                    Query(_rate("gapline_export_rejected_total", _CHOSEN, "hop"), "{{hop}} rejected"),
                ),
                "short",
            ),
            Panel(
                "Memory of the sidecars",
                (Query(f"max by (hop) (gapline_memory_used_bytes{{{_CHOSEN}}})", "{{hop}}"),),
                "bytes",
                "Of the largest at each hop.",
            ),
            Panel(
                "The sidecars' own lag",
                (
                    Query(
                        f"max by (hop) (rate(gapline_loop_lag_seconds_total{{{_CHOSEN}}}[$__rate_interval]))", "{{hop}}"
                    ),
                ),
                "percentunit",
                "The share of time in which the worst at each hop was late.",
            ),
            Panel(
                "Verdicts",
                (Query("sum by (status) (rate(gapline_collector_verdicts_total[$__rate_interval]))", "{{status}}"),),
                "reqps",
                is_stacked=True,
            ),
            Panel("Verdicts are behind by", (Query("max(gapline_collector_judge_lag_seconds)", "longest due"),), "s"),
            Panel("Store", (Query("sum by (part) (gapline_collector_store_bytes)", "{{part}}"),), "bytes"),
            Panel(
                "Pods decided",
                (
                    Query(
                        "sum by (result, reason) (increase(gapline_injector_decisions_total[1h])) > 0",
                        "{{result}} {{reason}}",
                    ),
                ),
                "short",
                "In an hour. What was skipped has its reason in an annotation.",
                is_stacked=True,
            ),
            Panel("Time for one review", (_review_time(),), "s"),
            Panel(
                "The webhook's certificate lasts for",
                (Query("min(gapline_injector_certificate_not_after_seconds) - time()", "remaining"),),
                "s",
            ),
        ),
    ),
)
_VARIABLES: Final = (
    ("namespace", "label_values(gapline_build_info, namespace)"),
    ("hop", 'label_values(gapline_build_info{namespace=~"$namespace"}, hop)'),
    ("model", 'label_values(gapline_exchanges_total{namespace=~"$namespace", hop=~"$hop"}, model)'),
)


def queries() -> Iterator[str]:
    """Every query of every panel."""
    for row in ROWS:
        for panel in row.panels:
            yield from (query.expr for query in panel.queries)


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana reads it."""
    return {
        "uid": UID,
        "title": "gapline: who made the reader wait",
        "description": "Streams of language models, hop by hop. Probes are not counted.",
        "tags": ["gapline", "llm"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_datasource(), *(_variable(name, query) for name, query in _VARIABLES)]},
        "panels": list(_panels()),
    }


def _panels() -> Iterator[dict[str, Any]]:
    number, top = 1, 0
    for row in ROWS:
        place = {"x": 0, "y": top, "w": COLUMNS, "h": 1}
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": place, "panels": []}
        number, top = number + 1, top + 1
        width = COLUMNS // 3
        for index, panel in enumerate(row.panels):
            line, column = divmod(index, COLUMNS // width)
            place = {"x": column * width, "y": top + line * PANEL_ROWS, "w": width, "h": PANEL_ROWS}
            yield _picture(panel, number, place)
            number += 1
        top += -(-len(row.panels) // (COLUMNS // width)) * PANEL_ROWS


def _picture(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    stacking = {"mode": "normal" if panel.is_stacked else "none", "group": "A"}
    custom = {"drawStyle": "line", "fillOpacity": 20 if panel.is_stacked else 0, "stacking": stacking}
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": custom}, "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": _SOURCE, "expr": query.expr, "legendFormat": query.legend}
            for index, query in enumerate(panel.queries)
        ],
    }


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }
