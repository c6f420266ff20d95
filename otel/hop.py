"""What one sidecar recorded of one exchange: the noun that crosses the network.

A `Hop` is complete by itself. Every instant in it is an integer of nanoseconds since the exchange's
anchor (the moment the request head arrived), read from one monotonic clock; the wall clock appears
once, in the anchor, to find the exchange again, and never in a verdict. Nothing here is text that a
user or a model wrote: only times, counts, classes and ids.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final


class EventClass(IntEnum):
    """What an event carried. The numbers are frozen: they are written into packed timelines."""

    CONTENT = 0
    REASONING = 1
    TOOL = 2
    CONTROL = 3
    KEEPALIVE = 4
    USAGE = 5
    ERROR = 6
    TERMINAL = 7
    OPAQUE = 8


OUTPUT: Final = frozenset({EventClass.CONTENT, EventClass.REASONING, EventClass.TOOL})
"""The classes that carry what a model produced."""


WEBSOCKET: Final = "websocket"
"""The framing of an exchange in which both sides send messages when they like: a silence says nothing of anybody."""


class Ending(StrEnum):
    """How an exchange ended. Exactly one applies; the first that fits, in the order of `sidecar.recording.endings`."""

    COMPLETE = "complete"
    ERROR_EVENT = "error_event"
    UPSTREAM_CUT = "upstream_cut"
    MISSING_TERMINAL = "missing_terminal"
    CLIENT_DISCONNECT = "client_disconnect"
    TIMED_OUT_FIRST_EVENT = "timed_out_first_event"
    TIMED_OUT_NEXT_EVENT = "timed_out_next_event"
    REFUSED = "refused"
    REJECTED = "rejected"
    DRAINED = "drained"
    LOST = "lost"
    UNKNOWN_END = "unknown_end"


class Side(StrEnum):
    """Who ended the exchange, seen from the sidecar."""

    UPSTREAM = "upstream"
    DOWNSTREAM = "downstream"
    SIDECAR = "sidecar"


class Phase(StrEnum):
    """How far the exchange had come when it ended."""

    CONNECT = "connect"
    HEADERS = "headers"
    FIRST_EVENT = "first_event"
    EVENTS = "events"
    TERMINAL = "terminal"
    DRAIN = "drain"


class TapRole(StrEnum):
    """Where the tap stood: before its app, behind it, or in the client."""

    INGRESS = "ingress"
    EGRESS = "egress"
    CLIENT = "client"


class State(StrEnum):
    """FINAL closes an exchange, once; OPEN is a segment: what was new since the segment before it."""

    OPEN = "open"
    FINAL = "final"


@dataclass(frozen=True, slots=True)
class Stamp:
    """One event's place in time and in the visible output.

    seq counts the dispatched events of the exchange from 0. taken_ns is None when our kernel never
    took the event. position is the number of visible code points delivered up to and including this
    event, rounded down to the timeline's quantum unless is_exact.
    """

    seq: int
    arrived_ns: int
    taken_ns: int | None
    event_class: EventClass
    position: int
    is_exact: bool = False


@dataclass(frozen=True, slots=True)
class Interval:
    """A stretch of time, start_ns <= end_ns."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Blocked:
    """A stretch in which we could not hand bytes to our kernel because the reader did not take them.

    unread_bytes waited upstream when it ended; None where that could not be asked.
    """

    start_ns: int
    end_ns: int
    unread_bytes: int | None


@dataclass(frozen=True, slots=True)
class KernelSample:
    """What the kernel knew of the downstream connection at one moment (Linux `struct tcp_info`).

    acked_count: events whose last byte the peer's kernel had acknowledged; the end of the body counts
    as one more. in_flight_segments: sent and not acknowledged. unsent_bytes: not yet sent, in the
    kernel and in our buffer. window_bytes: the peer's receive window. congestion_state: 0 open,
    1 disorder, 2 CWR, 3 recovery, 4 loss. backoff: doublings of the retransmission timer.
    """

    offset_ns: int
    acked_count: int
    in_flight_segments: int
    unsent_bytes: int
    window_bytes: int
    lost_segments: int
    congestion_state: int
    backoff: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The stamps of one hop and the evidence beside them, in order of time.

    unit_ns: every offset is a multiple of it. quantum: inexact positions are multiples of it.
    window_peak_bytes: the largest receive window the reader ever offered, round_trip_ns: the shortest round trip
    to its kernel; None when never sampled. Sequence numbers rise by one unless is_thinned, which says that events
    beside no gap were left out. is_cut_short: there were more events than could be kept, and what is missing lies
    between the last stamp, which is the last event's, and the one before it.
    is_evidence_thinned: some samples or blocked or lag intervals were left out, so their absence proves nothing.
    """

    unit_ns: int
    quantum: int
    stamps: tuple[Stamp, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    lag: tuple[Interval, ...] = ()
    samples: tuple[KernelSample, ...] = ()
    window_peak_bytes: int | None = None
    round_trip_ns: int | None = None
    is_thinned: bool = False
    is_cut_short: bool = False
    is_evidence_thinned: bool = False


@dataclass(frozen=True, slots=True)
class Anchor:
    """One reading of both clocks, taken when the request head arrived.

    clock_domain names the clock: two hops with the same non-empty domain read the same monotonic clock.
    """

    wall_ns: int
    monotonic_ns: int
    clock_domain: str


EGRESS = " egress"
CLIENT: Final = "client"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the hop stood: its name, which side of its app, and the OTel resource around it."""

    hop: str
    role: TapRole
    resource: tuple[tuple[str, str], ...] = ()

    @property
    def tap(self) -> str:
        """Its name on a path: a hop with an egress listener has two, and the reader one, whatever it calls itself."""
        return {TapRole.CLIENT: CLIENT, TapRole.EGRESS: self.hop + EGRESS}.get(self.role, self.hop)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """The instants of one exchange, ns since the anchor; None where it never came to that.

    request_forwarded: the request head was handed to the upstream connection.
    headers_received: the upstream's final response head had been read.
    upstream_ended: the upstream's body ended, cleanly or not.
    downstream_ended: the last byte of the response was taken by our kernel.
    client_left: the downstream connection was seen to close before the response had ended.
    upstream_closed: after that, our upstream connection was closed.
    closed: the record was closed; for an open segment, the moment it was cut.
    """

    request_forwarded_ns: int | None = None
    headers_received_ns: int | None = None
    upstream_ended_ns: int | None = None
    downstream_ended_ns: int | None = None
    client_left_ns: int | None = None
    upstream_closed_ns: int | None = None
    closed_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What passed, counted: bytes of bodies as they were on the wire (content coding untouched).

    comment_count and dataless_count are SSE blocks that dispatch no event and get no sequence number;
    wasted_count are events that still arrived after the client had left. missing_bytes: what the upstream had
    announced (Content-Length) and did not send; None where it announced nothing, or sent all.
    injected_bytes: those of bytes_out that the sidecar itself put into the body: its keepalive comments, which
    keepalive_count counts, and an error event of its own.
    """

    request_bytes: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    event_count: int = 0
    comment_count: int = 0
    dataless_count: int = 0
    wasted_count: int = 0
    has_unterminated_tail: bool = False
    missing_bytes: int | None = None
    keepalive_count: int = 0
    injected_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What was asked and answered, as far as it may be recorded: no query string, no header, no body.

    framing: `sse`, `ndjson`, `json_array`, `eventstream`, `websocket`, `opaque` or `none`.
    dialect: the API whose rules classed the events.
    model: as the request names it, else as the answer does, whose own word is response_model.
    request_is_stream: the request asked for a stream, None where it did not say. prompt_bucket: the size of the
    prompt, coarsely (`<16K`). is_stream: the response was a stream of events. error_type and error_code are tokens,
    never text. error_detail: what the error said, masked: of its words only those that errors are told in.
    has_terminal_rule: the dialect marks its end in band, so a clean end without the mark is a cut.
    is_probe: somebody asked only to see whether it answers.
    finish_reasons: why the model stopped, as tokens in the order in which they came, each once.
    dimensions: who asked, coarsely, as (name, token) in order of name, each name once: what the operator allowed.
    guard_fired: the limits that were passed and the rules that were broken, as tokens in order, each once, whether or
    not the guard then ended the stream.
    """

    method: str
    path: str
    status: int | None = None
    framing: str = "none"
    dialect: str = "opaque"
    model: str | None = None
    response_model: str | None = None
    response_id: str | None = None
    request_is_stream: bool | None = None
    prompt_bucket: str | None = None
    is_stream: bool = False
    has_terminal_rule: bool = False
    error_type: str | None = None
    error_code: str | None = None
    error_detail: str | None = None
    is_probe: bool = False
    finish_reasons: tuple[str, ...] = ()
    dimensions: tuple[tuple[str, str], ...] = ()
    guard_fired: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The tokens of one answer as the answer counts them; None where it does not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """What the upstream's head said of its rate limits; None where it did not.

    reset: how long until the limit is whole again. retry_after: how long the upstream asks to wait.
    """

    request_limit: int | None = None
    request_remaining: int | None = None
    request_reset_ns: int | None = None
    token_limit: int | None = None
    token_remaining: int | None = None
    token_reset_ns: int | None = None
    retry_after_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSnapshot:
    """What an inference engine said of itself at one moment; None where it did not say.

    asked_ns: when it was asked. running_count and waiting_count are requests, kv_cache_share is how much of its KV
    cache is in use, from 0 to 1, preemption_count how often it has taken the cache from a request since it began.
    """

    asked_ns: int
    running_count: int | None = None
    waiting_count: int | None = None
    kv_cache_share: float | None = None
    preemption_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineEvidence:
    """What the engine beside the sidecar said in a silence of the stream, the longest in which it was asked.

    server: `vllm`, `sglang` or `tgi`. silent_since_ns: when the silence began. during was asked in it; earlier when it
    began or before, and so perhaps before the anchor; None where it had not been asked then. Times are rounded down
    to milliseconds.
    """

    server: str
    silent_since_ns: int
    during: EngineSnapshot
    earlier: EngineSnapshot | None = None


@dataclass(frozen=True, slots=True)
class BodyDigests:
    """What went in and what came out, as `sha256:` and hex digits: the upstream's body, and the body as written.

    They are equal unless the sidecar put something of its own into the body, or the body was not passed on to its end.
    """

    upstream: str
    downstream: str


@dataclass(frozen=True, slots=True)
class End:
    """How it ended, by whom, in which phase, and after how long without a byte from upstream.

    framing_incomplete: the HTTP framing of the upstream's body broke off, whatever else was true.
    cut: how the side that ended it did so where that was no orderly end: `fin` or `reset` of its connection, `framing`
    that cannot be read on, `timeout` of a limit; None where it was orderly, or is not known.
    """

    ending: Ending
    ended_by: Side
    phase: Phase
    idle_ns: int
    framing_incomplete: bool = False
    cut: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One sidecar's record of one exchange. `end` is None exactly while `state` is OPEN.

    request_id is printable ASCII of at most 200 characters, as `otel.ids.recorded` makes it.
    aliases: other ids of the same request that this hop saw. segment_index counts the segments cut
    before this record; a segment's stamps begin where the one before it ended, a final hop has all.
    sent: the messages of the reader, where both sides send them (a WebSocket); `timeline` has those towards it.
    digests: of the answer's body, where they were asked for.
    engine: what the engine said while it was silent, where one is asked.
    """

    request_id: str
    request_id_source: str
    trace_id: str
    span_id: str
    parent_span_id: str | None = None
    aliases: tuple[str, ...] = ()
    place: Place
    anchor: Anchor
    state: State = State.FINAL
    segment_index: int = 0
    exchange: Exchange
    moments: Moments
    traffic: Traffic = field(default_factory=Traffic)
    timeline: Timeline
    sent: Timeline | None = None
    usage: Usage = field(default_factory=Usage)
    limits: RateLimits = field(default_factory=RateLimits)
    digests: BodyDigests | None = None
    engine: EngineEvidence | None = None
    end: End | None = None
