"""The collector's answers, read into values: every key that a view needs is there and of its kind, every text clean.

Collectors and commands are upgraded at different times. A key that is missing, or of another kind, is an
`AnswerError` that names it; a key that this version does not know is no error, and is listed in `strangers`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from otel.view.keys import Keys, as_number, as_text
from otel.view.text import clean


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of the path between two neighbouring points of observation."""

    from_hop: str
    to_hop: str


@dataclass(frozen=True, slots=True)
class Term:
    """What one segment contributed to the reader's wait. label: `source`, `self:HOP`, `HOPA>HOPB` or `HOP>client`."""

    label: str
    owner: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """A contributor above its own threshold that is not the named one."""

    cause: str
    first_hop: str
    owner: str
    segment: Segment | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HopRow:
    """One hop in numbers; None where it is not known, outcome also while the exchange is open."""

    hop: str
    role: str
    events: int
    outcome: str | None
    ended_by: str | None
    cut: str | None
    phase: str | None
    hold_s: float | None
    bytes_in: int | None
    bytes_out: int | None
    status: int | None
    model: str | None
    duration_s: float | None
    first_event_s: float | None
    longest_gap_s: float | None
    blocked_s: float | None
    lag_s: float | None
    comments: int | None


Fact = tuple[str, "str | int | float | bool | None"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictAnswer:
    """GET /v1/requests/ID/verdict. hops are ordered source first; evidence is grouped facts in the answer's order."""

    request_id: str
    trace_id: str
    status: str
    verdict_final: bool
    open: bool
    as_of: str
    since: str | None
    cause: str | None
    first_hop: str | None
    owner: str | None
    segment: Segment | None
    gap_s: float | None
    at_seq: int | None
    at_position: int | None
    at_position_exact: bool
    wait: str | None
    contributions: tuple[Term, ...]
    others: tuple[Other, ...]
    confidence: float
    missing: tuple[str, ...]
    observed_to: str
    evidence: tuple[tuple[str, tuple[Fact, ...]], ...]
    hops: tuple[HopRow, ...]
    sentence: str
    strangers: tuple[str, ...]


Stretch = tuple[float, float]
StampRow = tuple[float, "float | None", str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tap:
    """One lane. stamps are (arrived_s, taken_s or None, class) from the lane's zero, which lies at shift_s."""

    hop: str
    role: str
    shift_s: float
    duration_s: float
    outcome: str | None
    stamps: tuple[StampRow, ...]
    blocked: tuple[Stretch, ...]
    lag: tuple[Stretch, ...]
    gaps: tuple[Stretch, ...]
    is_thinned: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineAnswer:
    """GET /v1/requests/ID/timeline. taps are ordered source first; wait is on the last tap's lane."""

    request_id: str
    trace_id: str
    verdict: VerdictAnswer
    taps: tuple[Tap, ...]
    wait: Stretch | None
    strangers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StallRow:
    request_id: str
    at: str
    model: str | None
    status: str
    cause: str | None
    first_hop: str | None
    wait: str | None
    gap_s: float | None
    open: bool
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StallsAnswer:
    """GET /v1/stalls, newest first."""

    as_of: str
    stalls: tuple[StallRow, ...]
    has_more: bool
    strangers: tuple[str, ...]


def read_verdict(answer: object) -> VerdictAnswer:
    """The verdict, or AnswerError."""
    return _verdict(Keys(answer))


def read_timeline(answer: object) -> TimelineAnswer:
    """The timeline, or AnswerError."""
    keys = Keys(answer)
    wait = keys.maybe("wait")
    return TimelineAnswer(
        request_id=keys.text("request_id"),
        trace_id=keys.text("trace_id"),
        verdict=_verdict(keys.inner("verdict")),
        taps=tuple(_tap(tap) for tap in keys.each("taps")),
        wait=None if wait is None else (wait.seconds("start_s"), wait.seconds("end_s")),
        strangers=keys.strangers(),
    )


def read_stalls(answer: object) -> StallsAnswer:
    """The list of stalls, or AnswerError."""
    keys = Keys(answer)
    return StallsAnswer(
        as_of=keys.instant("as_of"),
        stalls=tuple(_stall(stall) for stall in keys.each("stalls")),
        has_more=keys.flag("has_more"),
        strangers=keys.strangers(),
    )


def _verdict(keys: Keys) -> VerdictAnswer:
    return VerdictAnswer(
        request_id=keys.text("request_id"),
        trace_id=keys.text("trace_id"),
        status=keys.text("status"),
        verdict_final=keys.flag("verdict_final"),
        open=keys.flag("open"),
        as_of=keys.instant("as_of"),
        since=keys.maybe_instant("since"),
        cause=keys.maybe_text("cause"),
        first_hop=keys.maybe_text("first_hop"),
        owner=keys.maybe_text("owner"),
        segment=_segment(keys),
        gap_s=keys.maybe_seconds("gap_s"),
        at_seq=keys.maybe_whole("at_seq"),
        at_position=keys.maybe_whole("at_position"),
        at_position_exact=bool(keys.maybe_flag("at_position_exact")),
        wait=keys.maybe_text("wait"),
        contributions=tuple(
            Term(term.text("segment"), term.text("owner"), term.seconds("seconds"))
            for term in keys.each("contributions")
        ),
        others=tuple(_other(other) for other in keys.each("others")),
        confidence=keys.seconds("confidence"),
        missing=keys.texts("missing"),
        observed_to=keys.text("observed_to"),
        evidence=_evidence(keys.mapping("evidence")),
        hops=tuple(_hop_row(hop) for hop in keys.each("hops")),
        sentence=keys.text("sentence"),
        strangers=keys.strangers(),
    )


def _segment(keys: Keys) -> Segment | None:
    segment = keys.maybe("segment")
    return None if segment is None else Segment(segment.text("from"), segment.text("to"))


def _other(keys: Keys) -> Other:
    made = Other(
        cause=keys.text("cause"),
        first_hop=keys.text("first_hop"),
        owner=keys.text("owner"),
        segment=_segment(keys),
        seconds=keys.seconds("seconds"),
    )
    keys.ignore("wait", "gap_s", "at_seq")
    return made


def _hop_row(keys: Keys) -> HopRow:
    made = HopRow(
        hop=keys.text("hop"),
        role=keys.text("role"),
        events=keys.whole("events"),
        outcome=keys.maybe_text("outcome"),
        ended_by=keys.maybe_text("ended_by"),
        cut=keys.later_text("cut"),
        phase=keys.maybe_text("phase"),
        hold_s=keys.maybe_seconds("hold_s"),
        bytes_in=keys.maybe_whole("bytes_in"),
        bytes_out=keys.maybe_whole("bytes_out"),
        status=keys.maybe_whole("status"),
        model=keys.maybe_text("model"),
        duration_s=keys.maybe_seconds("duration_s"),
        first_event_s=keys.maybe_seconds("first_event_s"),
        longest_gap_s=keys.maybe_seconds("longest_gap_s"),
        blocked_s=keys.maybe_seconds("blocked_s"),
        lag_s=keys.maybe_seconds("lag_s"),
        comments=keys.maybe_whole("comments"),
    )
    keys.ignore("trace_id", "span_id", "started_at", "wasted_events", "idle_at_end_s", "framing_incomplete", "open")
    keys.ignore("prompt", "bytes_missing", "messages_sent")
    return made


def _tap(keys: Keys) -> Tap:
    return Tap(
        hop=keys.text("hop"),
        role=keys.text("role"),
        shift_s=keys.seconds("shift_s"),
        duration_s=keys.seconds("duration_s"),
        outcome=keys.maybe_text("outcome"),
        stamps=tuple(_stamp(row, where) for row, where in keys.rows("stamps", 5)),
        blocked=tuple(_stretch(row, where) for row, where in keys.rows("blocked", 2)),
        lag=tuple(_stretch(row, where) for row, where in keys.rows("lag", 2)),
        gaps=tuple(_gap(gap) for gap in keys.each("gaps")),
        is_thinned=keys.flag("is_thinned"),
    )


def _gap(keys: Keys) -> Stretch:
    keys.ignore("seq")
    return keys.seconds("start_s"), keys.seconds("end_s")


def _stamp(row: list[object], where: str) -> StampRow:
    taken = row[2]
    return as_number(row[1], where), None if taken is None else as_number(taken, where), as_text(row[3], where)


def _stretch(row: list[object], where: str) -> Stretch:
    return as_number(row[0], where), as_number(row[1], where)


def _stall(keys: Keys) -> StallRow:
    made = StallRow(
        request_id=keys.text("request_id"),
        at=keys.instant("at"),
        model=keys.maybe_text("model"),
        status=keys.text("status"),
        cause=keys.maybe_text("cause"),
        first_hop=keys.maybe_text("first_hop"),
        wait=keys.maybe_text("wait"),
        gap_s=keys.maybe_seconds("gap_s"),
        open=keys.flag("open"),
        sentence=keys.text("sentence"),
    )
    keys.ignore("trace_id", "owner", "confidence")
    return made


EVIDENCE_FACTS: Final = 12  # facts shown of one group; the rest is in --json


def _evidence(groups: Mapping[object, object]) -> tuple[tuple[str, tuple[Fact, ...]], ...]:
    """Any JSON object as groups of facts: what stands alone at the top goes into the group ``."""
    alone: list[Fact] = []
    made: list[tuple[str, tuple[Fact, ...]]] = []
    for key, value in groups.items():
        facts = list(_facts("", value))
        if isinstance(value, (Mapping, list)):
            made.append((clean(str(key)), tuple(facts[:EVIDENCE_FACTS])))
        else:
            alone += [(clean(str(key)), fact) for _, fact in facts]
    return (("", tuple(alone)), *made) if alone else tuple(made)


def _facts(name: str, value: object) -> Iterator[Fact]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _facts(f"{name} {clean(str(key))}".strip(), inner)
    elif isinstance(value, list):
        if all(isinstance(item, str) for item in value):
            yield name, ", ".join(map(clean, value))
        else:
            for index, inner in enumerate(value[:EVIDENCE_FACTS]):
                yield from _facts(f"{name} {index}".strip(), inner)
    elif value is None or isinstance(value, (bool, int, float)):
        yield name, value
    else:
        yield name, clean(str(value))
