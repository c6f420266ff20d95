"""Count and measure every exchange that has ended: outcomes, times, sizes and tokens, for /metrics.

What is counted here is what the log lines say: added up over all lines of a process, they give these numbers. Both
take them from the record and from its `Figures`.

Every label has few values. Names that come from outside get a place of their own as long as there are places; the
rest is `other`. A model that nobody has answered for can be made up by anybody, so failed exchanges may only take half
of the places.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from otel.exposition import Series, series
from otel.hop import Ending, Hop
from sidecar.telling import figures as summing
from sidecar.telling.figures import BOUNDS_S, Figures
from sidecar.telling.genai import GenAi
from sidecar.telling.measures import OTHER, Counters, Histograms, Names, Source, flag

MODELS: Final = 100
CAUSES: Final = 50
"""Names with a place of their own. A sidecar sees some ten of each; a model costs about a hundred samples."""

PAIRS: Final = 1_000
"""Pairs of a model and a cause with a place of their own. There could be some 5,000, made up by callers and upstreams
together, and they would come to half a million samples."""

_NANO: Final = 10**9
_ASKED: Final = ("model", "probe")
_NOBODY: Final = ("", "false")

_TOTALS: Final[tuple[tuple[str, str, int, Callable[[Hop, Figures], int]], ...]] = (
    ("request_bytes", "bytes of requests' bodies", 1, lambda hop, _: hop.traffic.request_bytes),
    ("bytes_in", "bytes of answers' bodies that came from the upstream", 1, lambda hop, _: hop.traffic.bytes_in),
    ("bytes_out", "bytes of answers' bodies that were handed to readers", 1, lambda hop, _: hop.traffic.bytes_out),
    (
        "missing_bytes",
        "bytes that answers had announced and did not have",
        1,
        lambda hop, _: hop.traffic.missing_bytes or 0,
    ),
    ("events", "events of answers", 1, lambda hop, _: hop.traffic.event_count),
    (
        "wasted_events",
        "events that came after their reader had left: work for nobody",
        1,
        lambda hop, _: hop.traffic.wasted_count,
    ),
    (
        "blocked_seconds",
        "time in which readers took nothing of what there was for them",
        _NANO,
        lambda _, found: found.blocked_ns,
    ),
    ("keepalives", "keepalive comments put into answers", 1, lambda hop, _: hop.traffic.keepalive_count),
    (
        "injected_bytes",
        "bytes put into answers: keepalive comments, and error events of our own",
        1,
        lambda hop, _: hop.traffic.injected_bytes,
    ),
)
"""What is added up: name, help, how many make one of what is shown, and what of a record it is."""

_TIMES: Final[tuple[tuple[str, str, Callable[[Figures], int | None]], ...]] = (
    (
        "exchange_duration",
        "from a request's head until its reader had the answer, or left",
        lambda found: found.duration_ns,
    ),
    (
        "time_to_first_event",
        "from a request's head to the first event that is no keepalive",
        lambda found: found.first_event_ns,
    ),
    (
        "time_to_first_content",
        "from a request's head to the first event with output",
        lambda found: found.first_content_ns,
    ),
    (
        "max_gap",
        "the longest time between two successive events that are no keepalives; one for each answer that has two",
        lambda found: found.max_gap_ns,
    ),
)


class Observations:
    """What all exchanges of this process came to. One call of `observe` for each final record, muted ones too."""

    def __init__(self, semconv: str = "none") -> None:
        """semconv: which names of OpenTelemetry's GenAI conventions are shown too: none, server, client or both."""
        self._models = Names(MODELS)
        self._causes = Names(CAUSES)
        self._pairs: set[tuple[str, str]] = set()
        self._pairs_over_count = 0
        self._outcomes = Counters(
            "gapline_exchanges_total",
            "exchanges that ended: how (only `complete` is as it should be), by which cause where there is more to say "
            "than that, for which model, and whether it was a probe",
            ("ending", "cause", *_ASKED),
        )
        self._totals = [
            (Counters(f"gapline_{name}_total", text, _ASKED, per_unit=per_unit), value)
            for name, text, per_unit, value in _TOTALS
        ]
        self._times = [
            (Histograms(f"gapline_{name}_seconds", text, (*_ASKED, "stream"), BOUNDS_S), value)
            for name, text, value in _TIMES
        ]
        self._gaps = Histograms(
            "gapline_event_gap_seconds", "time between two successive events with output, of all", _ASKED, BOUNDS_S
        )
        self._tokens = Counters("gapline_tokens_total", "tokens, as the answers count them", ("type", *_ASKED))
        self._genai = GenAi(semconv)
        for ending in Ending:
            self._outcomes.begin((ending.value, "", *_NOBODY))
        for counters, _ in self._totals:
            counters.begin(_NOBODY)

    def observe(self, hop: Hop, figures: Figures | None = None) -> None:
        """A final record with exact times. figures: of that record, where they have been worked out already."""
        if hop.end is None:
            return
        found = figures or summing.figures(hop)
        exchange = hop.exchange
        is_answered = exchange.status is not None and exchange.status < 400
        model = self._models.shown(exchange.model, is_borne_out=is_answered)
        cause = self._cause(found.cause, model)
        labels = (model, flag(is_so=exchange.is_probe))
        source = Source(hop.trace_id, hop.anchor.wall_ns + hop.moments.closed_ns)
        self._outcomes.add((hop.end.ending.value, cause, *labels), 1, source)
        for counters, value in self._totals:
            counters.add(labels, value(hop, found))
        for histograms, time in self._times:
            histograms.add((*labels, flag(is_so=exchange.is_stream)), time(found), source)
        self._gaps.add_many(labels, found.content_gaps, source)
        for kind, tokens in (("input", hop.usage.input_tokens), ("output", hop.usage.output_tokens)):
            if tokens is not None:
                self._tokens.add((kind, *labels), tokens)
        self._genai.observe(hop, found, source, model=model, cause=cause)

    def _cause(self, name: str | None, model: str) -> str:
        cause = self._causes.shown(name, is_borne_out=True)
        if cause in {"", OTHER} or (model, cause) in self._pairs:
            return cause
        if len(self._pairs) >= PAIRS:
            self._pairs_over_count += 1
            return OTHER
        self._pairs.add((model, cause))
        return cause

    def series(self) -> list[Series]:
        """All of it, to be shown."""
        over = (
            ("model", self._models.over_count),
            ("cause", self._causes.over_count + self._pairs_over_count),
        )
        return [
            self._outcomes.series(),
            *(histograms.series() for histograms, _ in self._times),
            self._gaps.series(),
            *(counters.series() for counters, _ in self._totals),
            self._tokens.series(),
            series(
                "gapline_labels_over_total",
                "counter",
                "exchanges counted under `other`, as there were too many names for that label",
                [({"label": label}, over_count) for label, over_count in over],
            ),
            *self._genai.series(),
        ]
