"""The words of a verdict: status, cause, reach, the thresholds, one finding and the whole answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from otel.decompose import Decomposition
from otel.evidence import Stuck, Unread, Whereabouts
from otel.hop import CLIENT, EGRESS
from otel.lineup import Kind, Segment
from otel.pace import Gaps
from otel.rhythm import Rhythm
from otel.tempo import Tempo

MS: Final = 1_000_000

IDLE_TIMERS_NS: Final = (60_000 * MS, 90_000 * MS, 300_000 * MS, 600_000 * MS)
"""What things come with: nginx and load balancers 60 s, Envoy 300 s, the SDKs of model APIs 600 s."""

ATTEMPTS_TOLD: Final = 8
"""Of other attempts of a request, with how long each took and how it ended: an id that everybody sends has hundreds."""

Fact = str | int | float
Facts = Mapping[str, Fact | Mapping[str, Fact]]


class Status(StrEnum):
    NAMED = "named"
    HEALTHY = "healthy"
    INCONCLUSIVE = "inconclusive"


class Cause(StrEnum):
    SOURCE_STALL = "source_stall"
    SLOW_FIRST_EVENT = "slow_first_event"
    APP_STALL = "app_stall"
    BUFFERING = "buffering"
    THROTTLING = "throttling"
    NETWORK = "network"
    SLOW_READER = "slow_reader"
    UI_BLOCKED = "ui_blocked"
    HIDDEN_OUTPUT = "hidden_output"
    SELF = "self"
    END_HOLD = "end_hold"
    TRUNCATED = "truncated"
    ABORTED = "aborted"
    CLIENT_DISCONNECT = "client_disconnect"
    ERROR_EVENT = "error_event"
    TIMED_OUT = "timed_out"
    IDLE_TIMER = "idle_timer"
    CANCEL_IGNORED = "cancel_ignored"
    RETRY = "retry"
    NONE = "none"


class Reach(StrEnum):
    """How far towards the reader the evidence goes."""

    CONSUMED = "consumed"
    RECEIVED = "received"
    READER_KERNEL = "reader_kernel"
    OUR_KERNEL = "our_kernel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The thresholds. floor_ns: what a hop, link, reader or sidecar may add (healthy ones stay below 50 ms on a
    busy machine). first_event_ns: what a source may take to its first output. ceiling_ns: beyond it no rhythm
    excuses. behind_ns: by how much a segment may fall behind without one long wait. slow_gap_ns: half of the gaps
    of a slow source are at least this long. rhythm_elsewhere_ns: the p90 of the pauses this source showed in other
    streams, pace_elsewhere_ns: its usual time per event; None if unknown. idle_timers_ns: after how long without a byte
    the hops of this path cut a stream."""

    floor_ns: int = 250 * MS
    first_event_ns: int = 5_000 * MS
    ceiling_ns: int = 5_000 * MS
    behind_ns: int = 500 * MS
    slow_gap_ns: int = 200 * MS
    rhythm_elsewhere_ns: int | None = None
    pace_elsewhere_ns: int | None = None
    idle_timers_ns: tuple[int, ...] = IDLE_TIMERS_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One cause found: in which segment, for how long, within which wait of the reader.

    decomposition is None for an ending. at_seq: the event, at the tap nearest the reader, that ended the wait, or
    the last before an ending. at_position: visible characters delivered when the wait began. facts: what else it rests
    on, by names that end in their unit. hidden: the apps in the segment besides the one before its last tap.
    """

    cause: Cause
    segment: Segment
    term_ns: int = 0
    decomposition: Decomposition | None = None
    at_seq: int | None = None
    at_position: int | None = None
    is_position_exact: bool = False
    confidence: float = 0.9
    kernel: Stuck | None = None
    where: Whereabouts | None = None
    detail: str = ""
    facts: Facts = field(default_factory=dict)
    hidden: tuple[str, ...] = ()

    @property
    def felt_ns(self) -> int:
        """How much of the term the reader felt: another hop may have made up for the rest."""
        return self.term_ns if self.decomposition is None else min(self.term_ns, self.decomposition.gap_ns)

    @property
    def first_hop(self) -> str:
        """The hop behind the segment; before an egress tap, which stands behind its own app, the last app in it."""
        if self.segment.kind is Kind.READER:
            return CLIENT
        if self.segment.downstream.endswith(EGRESS) and self.hidden:
            return self.hidden[-1]
        return self.segment.downstream.removesuffix(EGRESS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer. `findings` begins with the named one; `missing` says what evidence would tell more.

    longest and first are the reader's longest wait between two deliveries and the wait for the first, even when
    nothing is wrong; None where there was none to see. gaps: how the gaps are distributed at each tap.
    slow_source: those of the source where it was slow all through; whether that is its nature cannot be told.
    tempo: the source's pace in this answer, where it shows one. unread: for how long its reader did not read what was
    there, where its window shows that; whether it felt that as a wait is another question.
    """

    status: Status
    cause: Cause
    findings: tuple[Finding, ...] = ()
    missing: tuple[str, ...] = ()
    observed_to: Reach
    by_ordinal: bool | None = None
    rhythm: Rhythm | None = None
    longest: Decomposition | None = None
    first: Decomposition | None = None
    gaps: tuple[Gaps, ...] = ()
    slow_source: Gaps | None = None
    tempo: Tempo | None = None
    unread: Unread | None = None

    @property
    def named(self) -> Finding | None:
        return self.findings[0] if self.findings and self.status is not Status.HEALTHY else None
