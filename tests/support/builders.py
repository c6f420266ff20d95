"""Hops and timelines for tests: `a_hop()` and `a_timeline()` by hand, `hops()` and `timelines()` for properties.

What a builder is not told is a healthy streamed chat answer. Times are given in seconds, as people think of them,
and kept in nanoseconds, as the code does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from hypothesis import strategies as st

from otel import ids
from otel.grain import QUANTUM, UNIT_NS, quantised, thinned
from otel.hop import (
    WEBSOCKET,
    Anchor,
    Blocked,
    BodyDigests,
    End,
    Ending,
    EngineEvidence,
    EngineSnapshot,
    EventClass,
    Exchange,
    Hop,
    Interval,
    KernelSample,
    Moments,
    Phase,
    Place,
    RateLimits,
    Side,
    Stamp,
    State,
    TapRole,
    Timeline,
    Traffic,
    Usage,
)

WALL_NS = 1_764_500_000_000_000_000
SECOND_NS = 1_000_000_000


def ns(seconds: float) -> int:
    return round(seconds * SECOND_NS)


def a_timeline(
    arrived_s: Sequence[float] = (0.30, 0.32, 0.34, 0.36, 0.38),
    *,
    taken_after_s: float | Sequence[float | None] | None = 0.0001,
    classes: Sequence[EventClass] | None = None,
    chars: int | Sequence[int] = 4,
    first_seq: int = 0,
    blocked_s: Iterable[tuple[float, float]] = (),
    lag_s: Iterable[tuple[float, float]] = (),
    samples: Iterable[KernelSample] = (),
    window_peak_bytes: int | None = None,
    round_trip_ns: int | None = None,
    is_evidence_thinned: bool = False,
    unit_ns: int = UNIT_NS,
    quantum: int = QUANTUM,
) -> Timeline:
    """A quantised timeline of events at these times.

    chars: visible characters of each event, or one number for all. taken_after_s: likewise, None for never taken.
    classes: CONTENT and a TERMINAL at the end when not given.
    """
    count = len(arrived_s)
    lags = taken_after_s if isinstance(taken_after_s, Sequence) else [taken_after_s] * count
    steps = chars if isinstance(chars, Sequence) else [chars] * count
    if classes is None:
        classes = [EventClass.CONTENT] * (count - 1) + [EventClass.TERMINAL] * min(count, 1)
    stamps = []
    position = 0
    for i, (at, lag, step, event_class) in enumerate(zip(arrived_s, lags, steps, classes, strict=True)):
        position += step if event_class is EventClass.CONTENT else 0
        taken_ns = None if lag is None else ns(at + lag)
        stamps.append(Stamp(first_seq + i, ns(at), taken_ns, event_class, position))
    raw = Timeline(
        unit_ns=1,
        quantum=1,
        stamps=tuple(stamps),
        blocked=tuple(Blocked(ns(start), ns(end), None) for start, end in blocked_s),
        lag=tuple(Interval(ns(start), ns(end)) for start, end in lag_s),
        samples=tuple(samples),
        window_peak_bytes=window_peak_bytes,
        round_trip_ns=round_trip_ns,
        is_evidence_thinned=is_evidence_thinned,
    )
    return quantised(raw, unit_ns=unit_ns, quantum=quantum)


def a_hop(
    hop: str = "gateway",
    *,
    request_id: str = "req-1",
    role: TapRole = TapRole.INGRESS,
    timeline: Timeline | None = None,
    wall_ns: int = WALL_NS,
    state: State = State.FINAL,
    ending: Ending = Ending.COMPLETE,
    ended_by: Side = Side.UPSTREAM,
    phase: Phase = Phase.TERMINAL,
    **fields: object,
) -> Hop:
    """A hop whose facts fit its timeline; `fields` replaces any field of Hop outright."""
    timeline = a_timeline() if timeline is None else timeline
    last_ns = max((stamp.taken_ns or stamp.arrived_ns for stamp in timeline.stamps), default=ns(0.2))
    trace_id = ids.trace_id_of(request_id)
    is_open = state is State.OPEN
    made = Hop(
        request_id=request_id,
        request_id_source="header",
        trace_id=trace_id,
        span_id=ids.span_id_of(trace_id, hop, role, state, wall_ns),
        place=Place(hop, role, (("service.name", f"{hop}-tap"), ("service.instance.id", f"{hop}-tap-0"))),
        anchor=Anchor(wall_ns, 5_000 * SECOND_NS, "boot-1:net-1"),
        state=state,
        exchange=Exchange(
            method="POST",
            path="/v1/chat/completions",
            status=200,
            framing="sse",
            dialect="openai_chat",
            model="demo-model",
            response_id="chatcmpl-1",
            is_stream=True,
            has_terminal_rule=True,
        ),
        moments=Moments(
            request_forwarded_ns=ns(0.001),
            headers_received_ns=ns(0.1),
            upstream_ended_ns=None if is_open else last_ns + 200_000,
            downstream_ended_ns=None if is_open else last_ns + 300_000,
            closed_ns=last_ns + 400_000,
        ),
        traffic=Traffic(
            request_bytes=412,
            bytes_in=200 * len(timeline.stamps),
            bytes_out=200 * len(timeline.stamps),
            event_count=len(timeline.stamps),
        ),
        timeline=timeline,
        end=None if is_open else End(ending, ended_by, phase, 200_000),
    )
    return replace(made, **fields)  # type: ignore[arg-type]  # whoever names a field gives its type


def a_conversation(
    hop: str = "gateway", *, received_s: Sequence[float] = (0.5,), sent_s: Sequence[float] = (0.4,), **fields: object
) -> Hop:
    """A WebSocket in which these messages were received from upstream and sent by the reader."""
    made = a_hop(
        hop,
        timeline=a_timeline(received_s, classes=[EventClass.OPAQUE] * len(received_s)),
        sent=a_timeline(sent_s, classes=[EventClass.OPAQUE] * len(sent_s)),
        **fields,  # type: ignore[arg-type]  # as there
    )
    exchange = Exchange(method="GET", path="/v1/realtime", status=101, framing=WEBSOCKET)
    return replace(made, exchange=exchange)


def a_chain(*hops: str, request_id: str = "req-1", timeline: Timeline | None = None) -> tuple[Hop, ...]:
    """The hops of one request, each called by the one before it."""
    return tuple(a_hop(hop, request_id=request_id, timeline=timeline) for hop in hops)


# Strategies. Everything that they draw is what a recorder may hand over: quantised, in order, bounded.

_Value = TypeVar("_Value")
_NS = st.integers(0, 600 * SECOND_NS)
_COUNTS = st.integers(0, 1 << 40)
_TOKENS = st.text(st.characters(codec="ascii", min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=40)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
_NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,31}", fullmatch=True)
_REQUEST_IDS = st.one_of(_TOKENS, st.uuids().map(str), _TEXTS.map(ids.recorded))
_HEX = "0123456789abcdef"


def hex_ids(digits: int) -> st.SearchStrategy[str]:
    return st.text(_HEX, min_size=digits, max_size=digits).filter(lambda text: text.strip("0") != "")


def _maybe(strategy: st.SearchStrategy[_Value]) -> st.SearchStrategy[_Value | None]:
    return st.none() | strategy


_GAPS = st.one_of(st.integers(0, 50_000_000), st.integers(240_000_000, 260_000_000), st.integers(0, 300 * SECOND_NS))
_LAGS = st.one_of(st.none(), st.integers(0, 1_000_000), st.integers(0, 30 * SECOND_NS))
_CLASSES = st.one_of(st.just(EventClass.CONTENT), st.sampled_from(EventClass))
_CHARS = st.one_of(st.integers(0, 12), st.integers(0, 10_000))


@st.composite
def _intervals(draw: st.DrawFn) -> tuple[tuple[int, int], ...]:
    pairs = draw(st.lists(st.tuples(_NS, st.integers(0, 60 * SECOND_NS)), max_size=4))
    return tuple((start, start + length) for start, length in sorted(pairs))


@st.composite
def _samples(draw: st.DrawFn) -> tuple[KernelSample, ...]:
    times = sorted(draw(st.lists(_NS, max_size=4)))
    acked = sorted(draw(st.lists(st.integers(0, 10_000), min_size=len(times), max_size=len(times))))
    small = st.integers(0, 1 << 32)
    return tuple(
        KernelSample(at, count, *draw(st.tuples(small, small, small, small, st.integers(0, 4), st.integers(0, 16))))
        for at, count in zip(times, acked, strict=True)
    )


@st.composite
def raw_timelines(draw: st.DrawFn, *, max_events: int = 40) -> Timeline:
    """Timelines as recorded: whole nanoseconds and characters, some cut short before their last event."""
    rows = draw(st.lists(st.tuples(_GAPS, _LAGS, _CLASSES, _CHARS), max_size=max_events))
    stamps = []
    seq = draw(st.sampled_from((0, 0, 4_096)))
    at = position = 0
    for gap, lag, event_class, chars in rows:
        at += gap
        position += chars
        stamps.append(Stamp(seq, at, None if lag is None else at + lag, event_class, position))
        seq += 1
    is_cut_short = draw(st.booleans())
    if is_cut_short and stamps:
        stamps[-1] = replace(stamps[-1], seq=stamps[-1].seq + draw(st.integers(0, 1_000_000)))
    return Timeline(
        unit_ns=1,
        quantum=1,
        stamps=tuple(stamps),
        blocked=tuple(Blocked(start, end, draw(_maybe(_COUNTS))) for start, end in draw(_intervals())),
        lag=tuple(Interval(start, end) for start, end in draw(_intervals())),
        samples=draw(_samples()),
        window_peak_bytes=draw(_maybe(st.integers(0, 1 << 32))),
        round_trip_ns=draw(_maybe(st.integers(0, SECOND_NS))),
        is_cut_short=is_cut_short,
        is_evidence_thinned=draw(st.booleans()),
    )


@st.composite
def timelines(draw: st.DrawFn, *, max_events: int = 40) -> Timeline:
    """Quantised timelines of the default, the exact and the finest grain, some of them thinned."""
    raw = draw(raw_timelines(max_events=max_events))
    unit_ns, quantum = draw(st.sampled_from(((UNIT_NS, QUANTUM), (UNIT_NS, QUANTUM), (1_000, 1), (1, 32))))
    made = quantised(raw, unit_ns=unit_ns, quantum=quantum)
    return thinned(made) if draw(st.booleans()) else made


def anchors() -> st.SearchStrategy[Anchor]:
    clocks = st.integers(0, (1 << 62) - 1)
    return st.builds(Anchor, wall_ns=clocks, monotonic_ns=clocks, clock_domain=_TEXTS)


def places() -> st.SearchStrategy[Place]:
    resource = st.dictionaries(_TOKENS, _TEXTS, max_size=4).map(lambda pairs: tuple(pairs.items()))
    return st.builds(Place, hop=_TOKENS, role=st.sampled_from(TapRole), resource=resource)


def exchanges() -> st.SearchStrategy[Exchange]:
    return st.builds(
        Exchange,
        method=st.sampled_from(("GET", "POST", "HEAD", "BREW")),
        path=_TEXTS,
        status=_maybe(st.integers(100, 599)),
        framing=st.sampled_from(("sse", "ndjson", "json_array", "eventstream", "websocket", "opaque", "none")),
        dialect=st.sampled_from(("openai_chat", "anthropic", "opaque")),
        model=_maybe(_TEXTS),
        response_model=_maybe(_TEXTS),
        response_id=_maybe(_TEXTS),
        request_is_stream=_maybe(st.booleans()),
        prompt_bucket=_maybe(_TOKENS),
        is_stream=st.booleans(),
        has_terminal_rule=st.booleans(),
        error_type=_maybe(_TOKENS),
        error_code=_maybe(_TOKENS),
        error_detail=_maybe(_TEXTS),
        is_probe=st.booleans(),
        finish_reasons=st.lists(_TOKENS, max_size=3).map(tuple),
        dimensions=st.dictionaries(_NAMES, _TOKENS, max_size=3).map(lambda found: tuple(sorted(found.items()))),
        guard_fired=st.lists(_TOKENS, max_size=2, unique=True).map(tuple),
    )


def digests() -> st.SearchStrategy[BodyDigests]:
    sums = st.binary(min_size=32, max_size=32).map(lambda digest: f"sha256:{digest.hex()}")
    return st.builds(BodyDigests, sums, sums)


def snapshots(*, asked_ns: st.SearchStrategy[int] = _NS) -> st.SearchStrategy[EngineSnapshot]:
    return st.builds(
        EngineSnapshot,
        asked_ns=asked_ns,
        running_count=_maybe(_COUNTS),
        waiting_count=_maybe(_COUNTS),
        kv_cache_share=_maybe(st.floats(0, 1)),
        preemption_count=_maybe(_COUNTS),
    )


@st.composite
def engines(draw: st.DrawFn) -> EngineEvidence:
    """What an engine said; asked for the first time perhaps before the anchor."""
    during = draw(snapshots())
    asked_ns = _NS.map(lambda ago_ns: during.asked_ns - ago_ns)
    return EngineEvidence(
        server=draw(st.sampled_from(("vllm", "sglang", "tgi"))),
        silent_since_ns=draw(st.integers(0, during.asked_ns)),
        during=during,
        earlier=draw(_maybe(snapshots(asked_ns=asked_ns))),
    )


def usages() -> st.SearchStrategy[Usage]:
    some = _maybe(_COUNTS)
    return st.builds(Usage, input_tokens=some, output_tokens=some, total_tokens=some)


def limits() -> st.SearchStrategy[RateLimits]:
    counts = {
        name: _maybe(_COUNTS) for name in ("request_limit", "request_remaining", "token_limit", "token_remaining")
    }
    waits = {f"{name}_ns": _maybe(_NS) for name in ("request_reset", "token_reset", "retry_after")}
    return st.builds(RateLimits, **counts, **waits)


def moments() -> st.SearchStrategy[Moments]:
    some = _maybe(st.integers(0, 20 * 86_400 * SECOND_NS))
    names = (
        "request_forwarded",
        "headers_received",
        "upstream_ended",
        "downstream_ended",
        "client_left",
        "upstream_closed",
    )
    optional = {f"{name}_ns": some for name in names}
    return st.builds(Moments, closed_ns=st.integers(0, 20 * 86_400 * SECOND_NS), **optional)


def traffics() -> st.SearchStrategy[Traffic]:
    return st.builds(
        Traffic,
        request_bytes=_COUNTS,
        bytes_in=_COUNTS,
        bytes_out=_COUNTS,
        event_count=_COUNTS,
        comment_count=_COUNTS,
        dataless_count=_COUNTS,
        wasted_count=_COUNTS,
        has_unterminated_tail=st.booleans(),
        missing_bytes=_maybe(_COUNTS),
        keepalive_count=_COUNTS,
        injected_bytes=_COUNTS,
    )


def ends() -> st.SearchStrategy[End]:
    return st.builds(
        End,
        ending=st.sampled_from(Ending),
        ended_by=st.sampled_from(Side),
        phase=st.sampled_from(Phase),
        idle_ns=_NS,
        framing_incomplete=st.booleans(),
        cut=_maybe(st.sampled_from(("fin", "reset", "framing", "timeout")) | _TOKENS),
    )


@st.composite
def hops(draw: st.DrawFn, *, max_events: int = 12) -> Hop:
    """Hops of every kind, final and open."""
    state = draw(st.sampled_from(State))
    return Hop(
        request_id=draw(_REQUEST_IDS),
        request_id_source=draw(st.sampled_from(("header", "generated"))),
        trace_id=draw(hex_ids(32)),
        span_id=draw(hex_ids(16)),
        parent_span_id=draw(st.none() | hex_ids(16)),
        aliases=draw(st.lists(_REQUEST_IDS, max_size=3).map(tuple)),
        place=draw(places()),
        anchor=draw(anchors()),
        state=state,
        segment_index=draw(st.integers(0, 1_000)),
        exchange=draw(exchanges()),
        moments=draw(moments()),
        traffic=draw(traffics()),
        timeline=draw(timelines(max_events=max_events)),
        sent=draw(_maybe(timelines(max_events=3))),
        usage=draw(usages()),
        limits=draw(limits()),
        digests=draw(_maybe(digests())),
        engine=draw(_maybe(engines())),
        end=None if state is State.OPEN else draw(ends()),
    )
