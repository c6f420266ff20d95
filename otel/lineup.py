"""All taps of a path lined up, and the segments between them: what lies where, and who owns it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise
from typing import Final

from otel.align import CONTENT, Lane, acknowledged, carriers_of, lane_of, lane_of_ends, with_end
from otel.edits import are_same_events, edited_from, shift_of
from otel.hop import CLIENT, WEBSOCKET, Hop, State, TapRole

SOURCE: Final = "source"
UI: Final = "ui"
ROUGHLY: Final = 0.5
EDITED: Final = 0.8
"""How sure it is that an event is the same at all taps: found by its place in an edited text, or by its number."""


class Kind(Enum):
    """What a segment is made of."""

    SOURCE = "source"
    SIDECAR = "sidecar"
    BETWEEN = "between"
    READER = "reader"
    UI = "ui"
    """What the reader did with what it had received, where it recorded that."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of the path between two neighbouring observation points, named by the taps at its ends."""

    kind: Kind
    upstream: str
    downstream: str

    @property
    def label(self) -> str:
        match self.kind:
            case Kind.SOURCE:
                return SOURCE
            case Kind.UI:
                return UI
            case Kind.SIDECAR:
                return f"self:{self.upstream}"
            case _:
                return f"{self.upstream}>{self.downstream}"


@dataclass(frozen=True, slots=True)
class Lineup:
    """All lanes of a path, source first, and how they are lined up; `reader` has the reader's times of the last one.

    same: for each two neighbouring lanes, whether event k is event k at both, as it may be though others merge.
    rewriters: hops that passed on other text than they got, and the event from which on it is other, None where that is
    not known: there events match only roughly.
    ended: the lanes with the end of the answer as one more event, empty where a tap did not see a whole one.
    is_partial: the lanes hold only the first and the last event of each hop, and no silence in between.
    """

    lanes: Sequence[Lane]
    reader: Sequence[int]
    by_ordinal: bool
    same: Sequence[bool]
    rewriters: Mapping[str, int | None] = field(default_factory=dict)
    ended: Sequence[Lane] = ()
    is_partial: bool = False

    def to_end(self) -> Lineup:
        """The lineup with the end of the answer as one more event; itself where a tap did not see a whole one, or not
        what came before."""
        return replace(self, lanes=self.ended) if self.ended and not self.is_partial else self

    @property
    def last(self) -> Lane:
        return self.lanes[-1]

    def likeness(self, event: int) -> float:
        """How sure it is that what the reader waited for until this event was the same output at all taps."""
        if self.is_partial or None in (events := self.rewriters.values()):
            return ROUGHLY
        return EDITED if any(edited is not None and edited <= event for edited in events) else 1.0

    @property
    def source(self) -> Segment:
        return Segment(Kind.SOURCE, SOURCE, self.lanes[0].name)

    @property
    def has_record(self) -> bool:
        """Whether the reader recorded for itself: then its lane is the last one, and nothing lies behind it."""
        return self.last.hop.place.role is TapRole.CLIENT

    def within(self, i: int) -> Segment:
        """The segment inside of lane i: its sidecar, or what the reader did with what it had."""
        if i == len(self.lanes) - 1 and self.has_record:
            return Segment(Kind.UI, CLIENT, CLIENT)
        return Segment(Kind.SIDECAR, self.lanes[i].name, self.lanes[i].name)

    def before(self, i: int) -> Segment:
        """The segment that ends at lane i; lanes.count is the reader who left no record."""
        if i == 0:
            return self.source
        if i == len(self.lanes) or (i == len(self.lanes) - 1 and self.has_record):
            return Segment(Kind.READER, self.lanes[i - 1].name, CLIENT)
        return Segment(Kind.BETWEEN, self.lanes[i - 1].name, self.lanes[i].name)

    def outermost(self) -> Segment:
        """The segment that ends where the reader's wait is measured."""
        return self.within(len(self.lanes) - 1) if self.has_record else self.before(len(self.lanes))


def line_up(hops: Sequence[Hop]) -> tuple[Lineup | None, list[str]]:
    """The hops whose events can be compared, and the names of those that cannot.

    Where the hops saw different numbers of events, and nothing visible to line them up by, or where the hop nearest
    the reader saw other events than the rest, only the beginning and the end of the answer are compared. None
    where there is nothing to compare at all, or where an answer's events would meet the messages of a WebSocket, which
    may carry many answers and begins long before any of them.
    """
    if meets_websocket(hops):
        return None, [hop.place.hop for hop in hops if hop.exchange.framing == WEBSOCKET]
    for carriers in carriers_of(hops):
        lanes = [lane_of(hop, carriers) for hop in hops]
        usable = [lane for lane in lanes if lane.count]
        if not lanes[-1].count:
            continue
        same = are_same_events(usable)
        has_positions = carriers == CONTENT and all(lane.low[-1] > 0 for lane in usable)
        if same or has_positions:
            unaligned = [lane.name for lane in lanes if not lane.count]
            pairs = [same or are_same_events(pair) for pair in pairwise(usable)]
            lineup = Lineup(
                lanes=usable,
                reader=acknowledged(usable[-1]),
                by_ordinal=same,
                same=pairs,
                rewriters=_rewriters(usable, by_ordinal=same),
                ended=_ended(usable),
            )
            return lineup, unaligned
    ends = [lane_of_ends(hop) for hop in hops if hop.timeline.stamps or hop.state is State.OPEN]
    ends = [lane for lane in ends if lane.count]
    if not ends or ends[-1].hop is not hops[-1]:
        return None, [hop.place.hop for hop in hops if hop.timeline.stamps]
    lineup = Lineup(
        lanes=ends,
        reader=acknowledged(ends[-1]),
        by_ordinal=True,
        same=[True] * (len(ends) - 1),
        ended=_ended(ends),
        is_partial=True,
    )
    return lineup, [hop.place.hop for hop in hops if not hop.timeline.stamps]


def _rewriters(lanes: Sequence[Lane], *, by_ordinal: bool) -> Mapping[str, int | None]:
    if by_ordinal:
        edits = ((outer.name, edited_from(inner, outer)) for inner, outer in pairwise(lanes))
        return {name: event for name, event in edits if event is not None}
    pairs = pairwise(lane for lane in lanes if not lane.is_pending)
    return {outer.name: None for inner, outer in pairs if shift_of(inner, outer) != (0, 0)}


def _ended(lanes: Sequence[Lane]) -> Sequence[Lane]:
    found = [ended for lane in lanes if (ended := with_end(lane)) is not None]
    return found if len(found) == len(lanes) else ()


def meets_websocket(hops: Sequence[Hop]) -> bool:
    """Whether some of these hops saw the messages of a WebSocket, and others the events of an answer."""
    return len({hop.exchange.framing == WEBSOCKET for hop in hops if hop.timeline.stamps}) > 1
