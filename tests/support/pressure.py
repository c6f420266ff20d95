"""A path whose buffers fill: who stops takes the hops above along, as far as their buffers are small.

Between a tap and the next app lie two kernels' buffers, in an app lies what it keeps, and each of them has room for so
many events. Every instant follows from earlier events and from the stations before it, so the whole is arithmetic.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from otel.grain import QUANTUM, UNIT_NS, quantised
from otel.hop import Blocked, Hop, KernelSample, Stamp, Timeline
from tests.support.builders import a_hop
from tests.support.chain import APP, LINK, MS, PEAK, S

NAMES = ("model-worker", "inference-proxy", "router", "filter", "gateway")
HAND_OVER = 60_000
ENDLESS = 1 << 30
"""Room for as much as there ever is."""


@dataclass(frozen=True)
class Station:
    """An app and the tap in front of it, by how many events have room: in the app, between it and its tap, in the tap's
    send buffer, and in the receive buffer of whoever stands behind."""

    app: int = ENDLESS
    inside: int = 4
    send: int = 4
    receive: int = 4


@dataclass(frozen=True)
class Stop:
    """An app, or the reader (where it is the number of stations), does nothing for so long from that event on.

    is_reading: it takes what comes all the same, for as long as it has room.
    """

    at: int
    event: int
    ns: int
    is_reading: bool = False


@dataclass(frozen=True)
class Path:
    """stops: of apps and the reader. slow: an app, or the reader, that passes on or takes one event in so long.

    is_paced: the source makes an event so long after it was rid of the one before, and not by the clock.
    """

    stations: Sequence[Station]
    gaps: Sequence[int] = (20 * MS,)
    events: int = 200
    first: int = 150 * MS
    stops: Sequence[Stop] = ()
    slow: tuple[int, int] | None = None
    is_paced: bool = False
    is_exact: bool = False

    @property
    def names(self) -> Sequence[str]:
        return NAMES[: len(self.stations) - 1] + NAMES[-1:]


@dataclass
class _Course:
    """When an app read and sent each event, and when its tap read it, handed it over and had it acknowledged."""

    read: list[int]
    sent: list[int]
    arrived: list[int]
    taken: list[int]
    acked: list[int]


def run(path: Path) -> list[Hop]:
    """The hops that the path leaves behind, source first."""
    courses = [_Course([], [], [], [], []) for _ in path.stations]
    taken_by_reader: list[int] = []
    pauses = list(accumulate(path.gaps[(k - 1) % len(path.gaps)] if k else path.first for k in range(path.events)))
    for k in range(path.events):
        ready = pauses[k]
        for i, (station, course) in enumerate(zip(path.stations, courses, strict=True)):
            if i == 0:
                slack = path.gaps[(k - 1) % len(path.gaps)] if k else 0
                ready = max(ready, course.sent[k - 1] + slack) if path.is_paced and k else ready
                read = ready
            else:
                read = max([ready + LINK, *course.read[-1:], *_freed(course.sent, k, station.app)])
                read = _awake(read, path, i, course, for_reading=True)
            course.read.append(read)
            stalled = _until(path, i, k, read)
            least = [course.sent[-1] + _pace(path, i)] if k else []
            sent = max([stalled + (APP if i else 0), *least, *_freed(course.arrived, k, station.inside)])
            course.sent.append(_awake(sent, path, i, course, for_reading=False))
            arrived = max([course.sent[-1] + LINK, *course.taken[-1:]])
            course.arrived.append(arrived)
            behind = courses[i + 1].read if i + 1 < len(courses) else taken_by_reader
            course.taken.append(max([arrived + HAND_OVER, *_freed(behind, k, station.send + station.receive)]))
            course.acked.append(max([course.taken[-1], *_freed(behind, k, station.receive), *course.acked[-1:]]))
            ready = course.acked[-1]
        least = [taken_by_reader[-1] + _pace(path, len(courses))] if k else []
        taken_by_reader.append(max([_until(path, len(courses), k, ready + LINK), *least]))
    return [_hop(path, i, courses) for i in range(len(courses))]


def _freed(behind: Sequence[int], k: int, room: int) -> list[int]:
    """When there was room for event k: once the one that takes its place had left."""
    return [behind[k - room]] if k >= room else []


def _pace(path: Path, at: int) -> int:
    return path.slow[1] if path.slow is not None and path.slow[0] == at else 0


def _until(path: Path, at: int, k: int, ready: int) -> int:
    return ready + sum(stop.ns for stop in path.stops if (stop.at, stop.event) == (at, k))


def _awake(at: int, path: Path, i: int, course: _Course, *, for_reading: bool) -> int:
    """When an app that stands still does what it would have done meanwhile."""
    for stop in path.stops:
        if stop.at != i or stop.event >= len(course.read) or (for_reading and stop.is_reading):
            continue
        begin = course.read[stop.event]
        if begin <= at < begin + stop.ns:
            at = begin + stop.ns
    return at


def _hop(path: Path, i: int, courses: Sequence[_Course]) -> Hop:
    station, course = path.stations[i], courses[i]
    asked = APP * (len(courses) - 1 - i)
    stamps = tuple(
        Stamp(k, arrived - asked, taken - asked, 0, 4 * (k + 1))
        for k, (arrived, taken) in enumerate(zip(course.arrived, course.taken, strict=True))
    )
    blocked = tuple(
        Blocked(arrived + HAND_OVER - asked, taken - asked, 4_096)
        for arrived, taken in zip(course.arrived, course.taken, strict=True)
        if taken > arrived + HAND_OVER
    )
    timeline = Timeline(
        unit_ns=1,
        quantum=1,
        stamps=stamps,
        blocked=blocked,
        samples=tuple(_samples(course, station, asked)),
        window_peak_bytes=PEAK,
    )
    unit, quantum = (1_000, 1) if path.is_exact else (UNIT_NS, QUANTUM)
    name = path.names[i]
    hop = a_hop(name, timeline=quantised(timeline, unit_ns=unit, quantum=quantum))
    anchor = replace(hop.anchor, monotonic_ns=asked + (i + 1) * 7_919 * S, clock_domain=f"clock-{i}")
    return replace(hop, anchor=anchor)


def _samples(course: _Course, station: Station, asked: int) -> list[KernelSample]:
    """Ten a second, while something is outstanding; the window is what has room in the peer's receive buffer."""
    found = []
    for at in range(course.taken[0], course.acked[-1] + 100 * MS, 100 * MS):
        taken, acked = bisect_right(course.taken, at), bisect_right(course.acked, at)
        is_waiting = acked < len(course.arrived) and course.arrived[acked] + HAND_OVER <= at
        if taken > acked or is_waiting or (found and found[-1].unsent_bytes):
            found.append(
                KernelSample(
                    offset_ns=at - asked,
                    acked_count=acked,
                    in_flight_segments=0,
                    unsent_bytes=4_096 * is_waiting,
                    window_bytes=PEAK if station.receive == ENDLESS or not is_waiting else 0,
                    lost_segments=0,
                    congestion_state=0,
                    backoff=0,
                )
            )
    return found
