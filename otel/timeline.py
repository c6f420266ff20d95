"""The packed timeline, format 1: every stamp of one hop in two to three bytes, and the evidence beside them.

The payload, all numbers unsigned LEB128 (`uvarint`) unless said otherwise:

    version = 1, flags, unit_ns, quantum
    window_peak_bytes, round_trip_ns          (each when its flag is set)
    stamp count, then a row per stamp:
        head   gap << 4 | lag << 2 | step << 1 | extended
        then, if extended, one byte  (bits 0-3 class, 4 long lag, 5 not taken, 6 placed, 7 skipped)
               and in this order:
               skipped   events left out before this one       (and seq of the first row)
               long lag  taken - arrived
               placed    position steps, then 0 or 1 + the exact remainder
    blocked count, rows of   start since the previous start, length, 0 or 1 + unread bytes
    lag count, rows of       start since the previous start, length
    sample count, rows of    time since the previous sample, acked_count since it, in_flight_segments,
                             unsent_bytes, window_bytes, lost_segments, congestion_state, backoff

Flags: bit 0 thinned, 1 cut short, 2 evidence thinned, 3 window peak known, 4 round trip known; no other may be set.
Events may be left out before any row of a thinned timeline, and before the last row of one that was cut short.

Times count units of unit_ns since the anchor (round_trip_ns is in ns). `gap` is the time since the row before
arrived, `lag` is taken - arrived (0 to 2; 3 says that the extension has it), `step` one quantum of position. A row
is extended only when it must be: its class differs from the row before it (the first row's from CONTENT), it was
never taken, its lag or its step do not fit, its position is exact, or events were left out before it. So every
timeline has exactly one encoding, and a steady stream costs two bytes an event.

Limits, part of the format and checked on both sides: PAYLOAD_BYTES in all, ROWS stamps, EVIDENCE_ROWS each of blocked,
lag and samples; every number (a head without its 4 low bits) and every seq, time, position and acked_count that they
add up to is below 2**53.

Format 1 is frozen: `tests/golden/timelines/v1` holds its vectors. A change of layout is format 2.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from otel.grain import thinned
from otel.hop import Blocked, EventClass, Interval, KernelSample, Stamp, Timeline

FORMAT: Final = 1
PART_CHARS: Final = 2_000
"""Tempo cuts string attributes at 2,048 bytes."""
PAYLOAD_BYTES: Final = 675_000
"""900 KB of base64: Tempo drops a trace over 5 MB, and a request may have five hops."""
ROWS: Final = 250_000
"""A sidecar stamps 200,000 events; a row may be one byte, and becomes two hundred in memory."""
EVIDENCE_ROWS: Final = 10_000
"""Blocked stretches, lag intervals and samples each: more than twice what a sidecar keeps."""
LIMIT: Final = 1 << 53
"""Below it every number is exact in JSON and in a double, and sums of them fit the 64 bits of a database."""

_CLASS_BITS: Final = 0x0F
_LONG_LAG: Final = 0x10
_NOT_TAKEN: Final = 0x20
_PLACED: Final = 0x40
_SKIPPED: Final = 0x80
_LAG_ELSEWHERE: Final = 3
_THINNED: Final = 0x01
_CUT_SHORT: Final = 0x02
_EVIDENCE_THINNED: Final = 0x04
_WINDOW_KNOWN: Final = 0x08
_ROUND_TRIP_KNOWN: Final = 0x10
_FLAGS: Final = 0x1F
_HEAD_LIMIT: Final = LIMIT << 4
_MAX_SHIFT: Final = 56
_CLASSES: Final = tuple(EventClass)


class TimelineError(ValueError):
    """The parts do not add up to a timeline; the message names the part or field and the rule."""


class TooLongError(TimelineError):
    """There are more stamps than the format takes."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A timeline as it travels: base64 parts in order, and what is needed to know that none is missing or cut."""

    parts: tuple[str, ...]
    payload_bytes: int
    crc32: int
    row_count: int
    format: int = FORMAT


def pack(timeline: Timeline, *, limit_bytes: int = PAYLOAD_BYTES) -> Packed:
    """Encode, thin where the payload would pass limit_bytes, and cut into parts.

    Raises TimelineError when even the thinned timeline is too long (a stream of very many stalls).
    """
    try:
        payload = encode(timeline, limit_bytes=limit_bytes)
    except TooLongError:
        timeline = thinned(timeline)
        payload = encode(timeline, limit_bytes=limit_bytes)
    text = base64.b64encode(payload).decode("ascii")
    parts = tuple(text[i : i + PART_CHARS] for i in range(0, len(text), PART_CHARS))
    return Packed(parts, payload_bytes=len(payload), crc32=zlib.crc32(payload), row_count=len(timeline.stamps))


def unpack(packed: Packed) -> Timeline:
    """The timeline that was packed. Raises TimelineError for anything else, never returns a shorter one."""
    if not 1 <= packed.format <= FORMAT:
        raise TimelineError(
            f"timeline format {packed.format} is not one of those that this reader knows, 1 to {FORMAT}"
        )
    size_chars, most_chars = sum(map(len, packed.parts)), -(-PAYLOAD_BYTES // 3) * 4
    if size_chars > most_chars:
        raise TimelineError(f"the {len(packed.parts)} parts have {size_chars} characters, more than {most_chars}")
    try:
        payload = base64.b64decode("".join(packed.parts), validate=True)
    except (binascii.Error, ValueError) as error:
        raise TimelineError(f"the {len(packed.parts)} parts are not base64: {error}") from None
    if len(payload) != packed.payload_bytes:
        raise TimelineError(f"the {len(packed.parts)} parts hold {len(payload)} bytes, not {packed.payload_bytes}")
    if zlib.crc32(payload) != packed.crc32:
        raise TimelineError(f"checksum of {len(payload)} bytes is {zlib.crc32(payload)}, not {packed.crc32}")
    timeline = decode(payload)
    if len(timeline.stamps) != packed.row_count:
        raise TimelineError(f"payload has {len(timeline.stamps)} rows, not {packed.row_count}")
    return timeline


def encode(timeline: Timeline, *, limit_bytes: int = PAYLOAD_BYTES) -> bytes:
    """The payload of a quantised timeline. Raises TimelineError when a value does not fit the format's rules."""
    out = bytearray()
    unit, quantum = timeline.unit_ns, timeline.quantum
    if unit < 1 or quantum < 1:
        raise TimelineError(f"unit_ns {unit} and quantum {quantum} must be at least 1")
    known = [number for number in (timeline.window_peak_bytes, timeline.round_trip_ns) if number is not None]
    _put(out, FORMAT, _flags(timeline), unit, quantum, *known)
    last = len(timeline.stamps) - 1
    if last >= ROWS:
        raise TooLongError(f"{'thinned ' * timeline.is_thinned}timeline has {last + 1} stamps, more than {ROWS}")
    _put(out, last + 1)
    previous = _START
    for i, stamp in enumerate(timeline.stamps):
        _put_row(out, stamp, previous, timeline, may_skip=_may_skip(i, last, timeline))
        previous = stamp
    _put_count(out, "blocked stretches", timeline.blocked)
    at = 0
    for block in timeline.blocked:
        unread = 0 if block.unread_bytes is None else block.unread_bytes + 1
        _put_interval(out, at, block, unit)
        _put(out, unread)
        at = block.start_ns
    _put_count(out, "lag intervals", timeline.lag)
    at = 0
    for lag in timeline.lag:
        _put_interval(out, at, lag, unit)
        at = lag.start_ns
    _put_count(out, "samples", timeline.samples)
    at = acked = 0
    for s in timeline.samples:
        _put(out, _units(_within("time", s.offset_ns) - at, unit), _within("acked_count", s.acked_count) - acked)
        _put(out, s.in_flight_segments, s.unsent_bytes, s.window_bytes, s.lost_segments, s.congestion_state, s.backoff)
        at, acked = s.offset_ns, s.acked_count
    if len(out) > limit_bytes:
        raise TooLongError(f"{'thinned ' * timeline.is_thinned}timeline has {len(out)} bytes, more than {limit_bytes}")
    return bytes(out)


def decode(payload: bytes) -> Timeline:
    """The timeline of a payload. Raises TimelineError when the payload is not exactly one canonical encoding."""
    if len(payload) > PAYLOAD_BYTES:
        raise TimelineError(f"payload has {len(payload)} bytes, more than {PAYLOAD_BYTES}")
    take = _Reader(payload)
    if (version := take.number()) != FORMAT:
        raise TimelineError(f"timeline format {version} is not known, this reader knows {FORMAT}")
    flags, unit, quantum = (take.number() for _ in range(3))
    if flags & ~_FLAGS or unit < 1 or quantum < 1:
        raise TimelineError(f"flags {flags}, unit_ns {unit}, quantum {quantum} are not valid")
    empty = Timeline(
        unit_ns=unit,
        quantum=quantum,
        window_peak_bytes=take.number() if flags & _WINDOW_KNOWN else None,
        round_trip_ns=take.number() if flags & _ROUND_TRIP_KNOWN else None,
        is_thinned=bool(flags & _THINNED),
        is_cut_short=bool(flags & _CUT_SHORT),
        is_evidence_thinned=bool(flags & _EVIDENCE_THINNED),
    )
    stamps = []
    previous = _START
    last = take.count("stamps", ROWS) - 1
    for i in range(last + 1):
        previous = take.plain_row(previous, empty) or take.row(previous, empty, may_skip=_may_skip(i, last, empty))
        stamps.append(previous)
    blocked = []
    at = 0
    for _ in range(take.count("blocked stretches", EVIDENCE_ROWS)):
        at = take.time(at, unit)
        end = take.time(at, unit)
        unread = take.number()
        blocked.append(Blocked(at, end, unread - 1 if unread else None))
    lag = []
    at = 0
    for _ in range(take.count("lag intervals", EVIDENCE_ROWS)):
        at = take.time(at, unit)
        lag.append(Interval(at, take.time(at, unit)))
    samples = []
    at = acked = 0
    for _ in range(take.count("samples", EVIDENCE_ROWS)):
        at = take.time(at, unit)
        acked = _within("acked_count", acked + take.number())
        samples.append(KernelSample(at, acked, *(take.number() for _ in range(6))))
    if take.at != len(payload):
        raise TimelineError(f"{len(payload) - take.at} bytes left over after the last sample")
    return replace(empty, stamps=tuple(stamps), blocked=tuple(blocked), lag=tuple(lag), samples=tuple(samples))


_START: Final = Stamp(seq=-1, arrived_ns=0, taken_ns=0, event_class=EventClass.CONTENT, position=0, is_exact=True)


def _flags(timeline: Timeline) -> int:
    left_out = timeline.is_thinned, timeline.is_cut_short, timeline.is_evidence_thinned
    known = timeline.window_peak_bytes is not None, timeline.round_trip_ns is not None
    return sum(flag << bit for bit, flag in enumerate((*left_out, *known)))


def _may_skip(row: int, last_row: int, timeline: Timeline) -> bool:
    return timeline.is_thinned or row == 0 or (timeline.is_cut_short and row == last_row)


def _within(name: str, value: int) -> int:
    if value >= LIMIT:
        raise TimelineError(f"{name} {value} is not below 2**53")
    return value


def _put_row(out: bytearray, stamp: Stamp, previous: Stamp, timeline: Timeline, *, may_skip: bool) -> None:
    unit, quantum = timeline.unit_ns, timeline.quantum
    gap = _units(stamp.arrived_ns - previous.arrived_ns, unit)
    lag = None if stamp.taken_ns is None else _units(stamp.taken_ns - stamp.arrived_ns, unit)
    steps = stamp.position // quantum - previous.position // quantum
    remainder = stamp.position % quantum
    skipped = stamp.seq - previous.seq - 1
    if steps < 0 or skipped < 0 or (remainder and not stamp.is_exact):
        raise TimelineError(
            f"seq {stamp.seq}: position {stamp.position} after {previous.position} breaks the order or the quantum"
        )
    if skipped and not may_skip:
        raise TimelineError(f"seq {stamp.seq} after {previous.seq}: only a thinned timeline leaves events out here")
    _within("seq", stamp.seq)
    _within("position", stamp.position)
    _within("time", stamp.arrived_ns if stamp.taken_ns is None else stamp.taken_ns)
    extension = 0
    if skipped:
        extension |= _SKIPPED
    if lag is None:
        extension |= _NOT_TAKEN
    elif lag >= _LAG_ELSEWHERE:
        extension |= _LONG_LAG
    if steps > 1 or stamp.is_exact:
        extension |= _PLACED
    is_extended = bool(extension) or stamp.event_class is not previous.event_class
    short_lag = lag if lag is not None and lag < _LAG_ELSEWHERE else _LAG_ELSEWHERE
    step = steps if not extension & _PLACED else 0
    _put(out, gap << 4 | short_lag << 2 | step << 1 | is_extended, limit=_HEAD_LIMIT)
    if not is_extended:
        return
    out.append(extension | stamp.event_class)
    if skipped:
        _put(out, skipped)
    if extension & _LONG_LAG and lag is not None:
        _put(out, lag)
    if extension & _PLACED:
        _put(out, steps, remainder + 1 if stamp.is_exact else 0)


def _units(ns: int, unit_ns: int) -> int:
    count, rest = divmod(ns, unit_ns)
    if count < 0 or rest:
        raise TimelineError(f"{ns} ns is not a whole, non-negative number of units of {unit_ns} ns")
    return count


def _put_count(out: bytearray, name: str, rows: Sequence[object]) -> None:
    if len(rows) > EVIDENCE_ROWS:
        raise TimelineError(f"{len(rows)} {name}, more than {EVIDENCE_ROWS}")
    _put(out, len(rows))


def _put_interval(out: bytearray, previous_ns: int, interval: Blocked | Interval, unit_ns: int) -> None:
    start_ns, end_ns = interval.start_ns, _within("time", interval.end_ns)
    _put(out, _units(start_ns - previous_ns, unit_ns), _units(end_ns - start_ns, unit_ns))


def _put(out: bytearray, *numbers: int, limit: int = LIMIT) -> None:
    for number in numbers:
        if not 0 <= number < limit:
            raise TimelineError(f"{number} is not from 0 to below 2**{limit.bit_length() - 1}")
        rest = number
        while rest > 0x7F:
            out.append(rest & 0x7F | 0x80)
            rest >>= 7
        out.append(rest)


class _Reader:
    """A position in a payload; every method raises TimelineError at the first byte that breaks a rule."""

    __slots__ = ("at", "payload")

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.at = 0

    def number(self, *, limit: int = LIMIT) -> int:
        value = shift = 0
        while (byte := self.byte()) > 0x7F and shift < _MAX_SHIFT:
            value |= (byte & 0x7F) << shift
            shift += 7
        value |= byte << shift
        if byte == 0 and shift:
            raise TimelineError(f"byte {self.at - 1}: number is longer than it needs to be")
        if value >= limit:
            raise TimelineError(f"byte {self.at - 1}: number is not below 2**{limit.bit_length() - 1}")
        return value

    def time(self, since_ns: int, unit_ns: int) -> int:
        return _within("time", since_ns + self.number() * unit_ns)

    def byte(self) -> int:
        if self.at >= len(self.payload):
            raise TimelineError(f"payload ends at byte {self.at}, in the middle of a row")
        byte = self.payload[self.at]
        self.at += 1
        return byte

    def count(self, name: str, limit: int) -> int:
        count = self.number()
        if count > limit:
            raise TimelineError(f"{count} {name}, more than {limit}")
        if count > len(self.payload) - self.at:
            raise TimelineError(f"{count} rows cannot fit into the {len(self.payload) - self.at} bytes left")
        return count

    def plain_row(self, previous: Stamp, timeline: Timeline) -> Stamp | None:
        """A row of one or two bytes that is not extended and passes no limit: nothing else is to be checked."""
        at = self.at
        two = self.payload[at : at + 2]
        if len(two) < 2:
            return None
        head, size = two[0], 1
        if head > 0x7F:
            if not 0 < two[1] < 0x80:
                return None
            head, size = head & 0x7F | two[1] << 7, 2
        lag = head >> 2 & 3
        if head & 1 or lag == _LAG_ELSEWHERE:
            return None
        arrived = previous.arrived_ns + (head >> 4) * timeline.unit_ns
        position = (previous.position // timeline.quantum + (head >> 1 & 1)) * timeline.quantum
        taken = arrived + lag * timeline.unit_ns
        if taken >= LIMIT or position >= LIMIT or previous.seq >= LIMIT - 1:
            return None
        self.at = at + size
        return Stamp(previous.seq + 1, arrived, taken, previous.event_class, position)

    def row(self, previous: Stamp, timeline: Timeline, *, may_skip: bool) -> Stamp:
        start = self.at
        unit, quantum = timeline.unit_ns, timeline.quantum
        head = self.number(limit=_HEAD_LIMIT)
        extension = self.byte() if head & 1 else int(previous.event_class)
        if extension & _CLASS_BITS >= len(_CLASSES):
            raise TimelineError(f"byte {self.at - 1}: event class {extension & _CLASS_BITS} is not known")
        skipped = self.number() if extension & _SKIPPED else 0
        lag: int | None = head >> 2 & 3
        if extension & _LONG_LAG:
            lag = self.number()
        elif extension & _NOT_TAKEN:
            lag = None
        steps, exact = head >> 1 & 1, 0
        if extension & _PLACED:
            steps, exact = self.number(), self.number()
        arrived = previous.arrived_ns + (head >> 4) * unit
        stamp = Stamp(
            seq=previous.seq + 1 + skipped,
            arrived_ns=arrived,
            taken_ns=None if lag is None else arrived + lag * unit,
            event_class=_CLASSES[extension & _CLASS_BITS],
            position=(previous.position // quantum + steps) * quantum + max(0, exact - 1),
            is_exact=exact > 0,
        )
        if exact > quantum:
            raise TimelineError(f"seq {stamp.seq}: remainder {exact - 1} is not below the quantum {quantum}")
        canonical = bytearray()
        _put_row(canonical, stamp, previous, timeline, may_skip=may_skip)
        if canonical != self.payload[start : self.at]:
            raise TimelineError(f"seq {stamp.seq}: row is not in its canonical form")
        return stamp
