"""The port to whatever keeps hops and verdicts: what every store promises, and the values that pass through it.

A store keeps two kinds of things: the hops of traces, and the verdicts about requests. It reads no clock: the
collector's time comes with the call as `received_ns`, `judged_ns` or `now_ns`, and only these decide about age,
since the anchors inside hops are other machines' clocks. A trace is kept or dropped whole, by the age of its
first hop, because half a path would make a wrong verdict.

All methods may be called from any thread. Nobody owns what a store returns: it is frozen and never shared with
the store's own state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from otel.hop import Ending, Hop
from otel.ids import normalised, recorded, tells_answers_apart

HOPS_PER_ANSWER: Final = 256
"""A request of five hops with a segment every 4,096 events has fewer; an id that everybody sends has millions."""
EVENTS_PER_ANSWER: Final = 1_000_000
"""Weight of the hops of an answer, some 200 MB: of five hops that stamped all they may. Packed it may be a few KB."""
HOP_EVENTS: Final = 30
"""What a hop without events weighs, in events."""
KEYS_PER_HOP: Final = 16
"""Request id, trace id, the answer's id and the ids that a few gateways gave; more are not looked up."""
LINKS: Final = 4
"""Times that neighbours of neighbours are looked for: five hops, each of which gives the request another id."""
PRUNE_CHUNK: Final = 500
"""Rows deleted at a time: measured as at most 60 ms, in which writers wait."""
SECOND_NS: Final = 1_000_000_000
_DAY_S: Final = 86_400.0
_NORMAL: Final = frozenset({Ending.COMPLETE, Ending.UNKNOWN_END})


class StoreError(Exception):
    """The store failed for now: disk full, file locked, backend away. Nothing of the call took place."""


class Unsupported(Exception):  # noqa: N818  # a refusal, not a failure: trying again changes nothing
    """The store cannot answer this question at all. Never raised for an answer that is merely empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRow:
    """What is kept of one verdict: the columns that lists are filtered by, and the answer as it was given.

    trace_id and normalised request_id identify it. trace_ids and request_ids: of every hop that was joined
    (aliases too), so that a verdict over more hops takes the place of those over fewer; the row's own ids count
    as members in any case. at_ns: when the request happened, wall clock. hop: `first_hop` of the answer.
    is_abnormal: it belongs in the list of stalls. answer_json: the whole verdict answer, UTF-8.
    """

    trace_id: str
    request_id: str
    trace_ids: tuple[str, ...] = ()
    request_ids: tuple[str, ...] = ()
    at_ns: int
    model: str | None
    status: str
    cause: str
    hop: str | None
    owner: str | None
    wait: str | None
    gap_s: float
    confidence: float
    is_open: bool
    is_abnormal: bool
    sentence: str
    answer_json: bytes

    @property
    def keys(self) -> frozenset[str]:
        """Every key under which this verdict is found."""
        texts = (self.request_id, self.trace_id, *self.request_ids, *self.trace_ids)
        return frozenset(key_of(text) for text in texts)

    @property
    def cursor(self) -> Cursor:
        return Cursor(self.at_ns, self.trace_id, key_of(self.request_id))


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """A place in the list of stalls; a total order, so that paging neither skips nor repeats a row."""

    at_ns: int
    trace_id: str
    request_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StallQuery:
    """Which abnormal verdicts to list, newest first: all conditions hold, None does not restrict.

    since_ns: at_ns at or after it. before: only rows that come after this one in the list.
    """

    since_ns: int = 0
    model: str | None = None
    hop: str | None = None
    cause: str | None = None
    min_gap_s: float = 0.0
    limit: int = 100
    before: Cursor | None = None

    def takes(self, row: VerdictRow) -> bool:
        return (
            row.is_abnormal
            and row.at_ns >= self.since_ns
            and row.gap_s >= self.min_gap_s
            and (self.model is None or row.model == self.model)
            and (self.hop is None or row.hop == self.hop)
            and (self.cause is None or row.cause == self.cause)
            and (self.before is None or row.cursor < self.before)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """How long what is kept, and how much at most.

    A trace is abnormal when one of its hops ended other than well or an abnormal verdict is about it. Where
    max_bytes does not suffice, all three times shrink by one factor.
    """

    healthy_s: float = 7 * _DAY_S
    abnormal_s: float = 30 * _DAY_S
    verdicts_s: float = 90 * _DAY_S
    max_bytes: int = 10 << 30


@dataclass(frozen=True, slots=True)
class Pruned:
    """What one call of `prune` deleted; is_done when nothing is left to delete."""

    hops: int
    verdicts: int
    is_done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """What is in the store. used_bytes is what max_bytes limits; file_bytes and wal_bytes are 0 without files.

    unreadable: records met since the start that could not be read; they are left out of every answer.
    disk_free_bytes: None without a disk; below disk_reserve_bytes no hop is taken any more.
    """

    hops: int
    verdicts: int
    used_bytes: int
    file_bytes: int = 0
    wal_bytes: int = 0
    unreadable: int = 0
    disk_free_bytes: int | None = None
    disk_reserve_bytes: int = 0

    @property
    def is_refusing(self) -> bool:
        """The disk is so full that no hop is taken."""
        return self.disk_free_bytes is not None and self.disk_free_bytes < self.disk_reserve_bytes


class Store(Protocol):
    """Every method raises StoreError when the store fails, and Unsupported when it cannot do such a thing at all."""

    def write(self, hops: Sequence[Hop], *, received_ns: int) -> tuple[bool, ...]:
        """Keep hops and say of each whether it was new.

        All of them are durable and readable when it returns, or none is and it raises. A span id is written
        once per trace: whatever comes later under the same one is a duplicate and changes nothing. Order does
        not matter, and neither does lateness: a hop of a trace long pruned begins that trace anew.
        """

    def hops_of(self, key: str) -> tuple[Hop, ...]:
        """The hops found by one of their keys (`keys_of`) in any spelling, and their neighbours; () when unknown.

        Neighbours share a key with a found hop, and their neighbours with them, LINKS times, so that hops are still
        joined where some of them dropped a header. At most HOPS_PER_ANSWER, and beside the first no more than weigh
        EVENTS_PER_ANSWER: nearer ones before farther ones, later written before earlier. Ordered as written. A record
        that cannot be read is left out, counted and logged.
        """

    def latest_requests(self, *, within_ns: int, limit: int) -> tuple[str, ...]:
        """Request ids of the hops received within that time before the newest one, at most limit, newest first.

        For a collector that starts again and cannot know what it had not judged yet.
        """

    def put_verdicts(self, rows: Sequence[VerdictRow], *, judged_ns: int) -> None:
        """Keep verdicts, each in place of those about the same request: same trace, one of its request ids."""

    def verdict_of(self, key: str) -> VerdictRow | None:
        """The verdict on a request id, alias or trace id, of several that of the latest request; None when unknown."""

    def stalls(self, query: StallQuery) -> tuple[VerdictRow, ...]:
        """The rows the query takes, newest request first, at most its limit."""

    def prune(self, now_ns: int, policy: RetentionPolicy) -> Pruned:
        """Delete at most PRUNE_CHUNK rows that the policy does not keep, the most overdue first.

        Called again until it is done, so that writers get their turn in between. A disk that others fill is no
        reason to delete: then hops are refused instead.
        """

    def stats(self) -> Stats:
        """Cheap enough to be asked every second."""

    def tidy(self) -> None:
        """Housekeeping that is due every minute or so."""

    def close(self) -> None:
        """Give everything back. The store is not used afterwards; closing twice is allowed."""


def key_of(text: str) -> str:
    """The key under which an id that somebody typed, clicked or sent is looked up."""
    return normalised(recorded(text))


def keys_of(hop: Hop) -> tuple[str, ...]:
    """The keys of a hop, without repetition: request id, trace id, the answer's id where it tells answers apart,
    aliases; the first KEYS_PER_HOP of them."""
    ids = (hop.request_id, hop.trace_id, *answer_ids_of(hop), *hop.aliases)
    return tuple(dict.fromkeys(map(key_of, ids)))[:KEYS_PER_HOP]


def answer_ids_of(hop: Hop) -> tuple[str, ...]:
    """The answer's own id as this hop saw it, () where it has none or others may have the same."""
    answer_id = hop.exchange.response_id
    return (answer_id,) if answer_id is not None and tells_answers_apart(answer_id) else ()


def weight_of(hop: Hop) -> int:
    """What a hop takes in memory, in events: some 200 bytes each, and so does a row of its evidence."""
    kept = [timeline for timeline in (hop.timeline, hop.sent) if timeline is not None]
    return HOP_EVENTS + sum(len(t.stamps) + len(t.samples) + len(t.blocked) + len(t.lag) for t in kept)


def as_written(found: Iterable[tuple[int, Hop]]) -> tuple[Hop, ...]:
    """Of (number in the order of writing, hop), the nearest first: the first, and as many behind it as weigh no more
    than EVENTS_PER_ANSWER together. No more of them are taken from the iterable than that."""
    kept: list[tuple[int, Hop]] = []
    weight = 0
    for number, hop in found:
        weight += weight_of(hop)
        if kept and weight > EVENTS_PER_ANSWER:
            break
        kept.append((number, hop))
    return tuple(hop for _, hop in sorted(kept, key=lambda each: each[0]))


def is_abnormal(hop: Hop) -> bool:
    """The hop alone shows that something went wrong."""
    return hop.end is not None and hop.end.ending not in _NORMAL


def spent_share(received_ns: int, now_ns: int, *, limit_s: float) -> float:
    """How much of its time something has used; above 1 it is overdue."""
    return (now_ns - received_ns) / max(1.0, limit_s * SECOND_NS)


def most_overdue(
    oldest_ns: Iterable[int | None], now_ns: int, policy: RetentionPolicy, *, is_over_size: bool
) -> int | None:
    """Which of healthy traces (0), abnormal traces (1) and verdicts (2) to delete from next, None for no one.

    oldest_ns: the oldest of each kind, None where there is none.
    """
    limits_s = (policy.healthy_s, policy.abnormal_s, policy.verdicts_s)
    shares = [
        (spent_share(at_ns, now_ns, limit_s=limit_s), kind)
        for kind, (at_ns, limit_s) in enumerate(zip(oldest_ns, limits_s, strict=True))
        if at_ns is not None
    ]
    share, kind = max(shares, default=(0.0, 0))
    return kind if shares and (share > 1 or is_over_size) else None
