"""The packed timeline, format 1: every stamp of one hop in two to three bytes, and the evidence beside them.

The payload, all numbers unsigned LEB128 (`uvarint`) unless said otherwise:

    version = 1, flags (bit 0: thinned, bit 1: window peak known), unit_ns, quantum
    window_peak_bytes (when known)
    stamp count, then a row per stamp:
        head   gap << 4 | lag << 2 | step << 1 | extended
        then, if extended, one byte  (bits 0-3 class, 4 long lag, 5 not taken, 6 placed, 7 skipped)
               and in this order:
               skipped   events left out before this one       (thinned timelines, and seq of the first row)
               long lag  taken - arrived
               placed    position steps, then 0 or 1 + the exact remainder
    blocked count, rows of   start since the previous start, length, 0 or 1 + unread bytes
    lag count, rows of       start since the previous start, length
    sample count, rows of    time since the previous sample, acked_count since it, in_flight_segments,
                             unsent_bytes, window_bytes, lost_segments, congestion_state, backoff

Times count units of unit_ns since the anchor. `gap` is the time since the row before arrived, `lag` is
taken - arrived (0 to 2; 3 says that the extension has it), `step` one quantum of position. A row is extended
only when it must be: its class differs from the row before it (the first row's from CONTENT), it was never
taken, its lag or its step do not fit, its position is exact, or events were left out before it. So every
timeline has exactly one encoding, and a steady stream costs two bytes an event.

Format 1 is frozen: `tests/golden/timelines/v1` holds its vectors. A change of layout is format 2.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from otel.hop import Blocked, EventClass, Interval, KernelSample, Stamp, Timeline

FORMAT: Final = 1
UNIT_NS: Final = 100_000
"""Default unit, 0.1 ms: finer times of single events would tell which tokens they were."""
EXACT_UNIT_NS: Final = 1_000
QUANTUM: Final = 32
"""Default step of positions in characters, for the same reason."""
NOISE_NS: Final = 250_000_000
"""Gaps from here on can matter to a verdict: positions beside them stay exact, and thinning keeps them."""
PART_CHARS: Final = 2_000
"""Tempo cuts string attributes at 2,048 bytes."""
PAYLOAD_BYTES: Final = 675_000
"""900 KB of base64: Tempo drops a trace over 5 MB, and a request may have five hops."""

_CLASS_BITS: Final = 0x0F
_LONG_LAG: Final = 0x10
_NOT_TAKEN: Final = 0x20
_PLACED: Final = 0x40
_SKIPPED: Final = 0x80
_LAG_ELSEWHERE: Final = 3
_THINNED: Final = 0x01
_WINDOW_KNOWN: Final = 0x02
_MAX_SHIFT: Final = 63
_CLASSES: Final = tuple(EventClass)


class TimelineError(ValueError):
    """The parts do not add up to a timeline; the message names the part or field and the rule."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A timeline as it travels: base64 parts in order, and what is needed to know that none is missing or cut."""

    parts: tuple[str, ...]
    payload_bytes: int
    crc32: int
    row_count: int
    format: int = FORMAT


def quantised(timeline: Timeline, *, unit_ns: int = UNIT_NS, quantum: int = QUANTUM) -> Timeline:
    """Round every time down to unit_ns and every position down to quantum, as they are kept.

    Rounding is of offsets from the anchor and of running sums, so errors never add up. A position stays
    exact beside a gap of at least NOISE_NS, because a verdict may rest on it.
    """
    stamps = timeline.stamps

    def floor(ns: int) -> int:
        return ns // unit_ns * unit_ns

    arrived = [floor(stamp.arrived_ns) for stamp in stamps]
    is_gap = [True, *(after - before >= NOISE_NS for before, after in pairwise(arrived)), False]
    is_exact = [quantum == 1 or before or after for before, after in pairwise(is_gap)]
    rounded = tuple(
        Stamp(
            seq=s.seq,
            arrived_ns=arrived_ns,
            taken_ns=None if s.taken_ns is None else floor(s.taken_ns),
            event_class=s.event_class,
            position=s.position if exact else s.position // quantum * quantum,
            is_exact=exact,
        )
        for s, arrived_ns, exact in zip(stamps, arrived, is_exact, strict=False)
    )
    return replace(
        timeline,
        unit_ns=unit_ns,
        quantum=quantum,
        stamps=rounded,
        blocked=tuple(replace(b, start_ns=floor(b.start_ns), end_ns=floor(b.end_ns)) for b in timeline.blocked),
        lag=tuple(Interval(floor(i.start_ns), floor(i.end_ns)) for i in timeline.lag),
        samples=tuple(replace(s, offset_ns=floor(s.offset_ns)) for s in timeline.samples),
    )


def thinned(timeline: Timeline) -> Timeline:
    """Leave out the events beside no gap of at least NOISE_NS; the first, the last and every odd one out stay.

    What is left keeps its sequence numbers, positions and times, and the timeline says that it is thinned.
    """
    stamps = timeline.stamps
    kept = []
    for i, stamp in enumerate(stamps):
        is_edge = i in {0, len(stamps) - 1}
        after = stamp.arrived_ns - stamps[i - 1].arrived_ns >= NOISE_NS
        before = not is_edge and stamps[i + 1].arrived_ns - stamp.arrived_ns >= NOISE_NS
        taken_late = stamp.taken_ns is None or stamp.taken_ns - stamp.arrived_ns >= NOISE_NS
        if is_edge or after or before or taken_late:
            kept.append(stamp)
    return replace(timeline, stamps=tuple(kept), is_thinned=True)


def pack(timeline: Timeline, *, limit_bytes: int = PAYLOAD_BYTES) -> Packed:
    """Encode, thin where the payload would pass limit_bytes, and cut into parts.

    Raises TimelineError when even the thinned timeline is too long (a stream of very many stalls).
    """
    payload = encode(timeline)
    if len(payload) > limit_bytes:
        timeline = thinned(timeline)
        payload = encode(timeline)
    if len(payload) > limit_bytes:
        raise TimelineError(f"thinned timeline has {len(payload)} bytes, more than {limit_bytes}")
    text = base64.b64encode(payload).decode("ascii")
    parts = tuple(text[i : i + PART_CHARS] for i in range(0, len(text), PART_CHARS))
    return Packed(parts, payload_bytes=len(payload), crc32=zlib.crc32(payload), row_count=len(timeline.stamps))


def unpack(packed: Packed) -> Timeline:
    """The timeline that was packed. Raises TimelineError for anything else, never returns a shorter one."""
    if not 1 <= packed.format <= FORMAT:
        raise TimelineError(
            f"timeline format {packed.format} is not one of those that this reader knows, 1 to {FORMAT}"
        )
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


def encode(timeline: Timeline) -> bytes:
    """The payload of a quantised timeline. Raises TimelineError when a value does not fit the format's rules."""
    out = bytearray()
    unit, quantum = timeline.unit_ns, timeline.quantum
    if unit < 1 or quantum < 1:
        raise TimelineError(f"unit_ns {unit} and quantum {quantum} must be at least 1")
    flags = _THINNED * timeline.is_thinned | _WINDOW_KNOWN * (timeline.window_peak_bytes is not None)
    _put(out, FORMAT, flags, unit, quantum)
    if timeline.window_peak_bytes is not None:
        _put(out, timeline.window_peak_bytes)
    _put(out, len(timeline.stamps))
    previous = _START
    for stamp in timeline.stamps:
        _put_row(out, stamp, previous, timeline)
        previous = stamp
    _put(out, len(timeline.blocked))
    at = 0
    for block in timeline.blocked:
        unread = 0 if block.unread_bytes is None else block.unread_bytes + 1
        _put(out, _units(block.start_ns - at, unit), _units(block.end_ns - block.start_ns, unit), unread)
        at = block.start_ns
    _put(out, len(timeline.lag))
    at = 0
    for lag in timeline.lag:
        _put(out, _units(lag.start_ns - at, unit), _units(lag.end_ns - lag.start_ns, unit))
        at = lag.start_ns
    _put(out, len(timeline.samples))
    at = acked = 0
    for s in timeline.samples:
        _put(out, _units(s.offset_ns - at, unit), s.acked_count - acked, s.in_flight_segments, s.unsent_bytes)
        _put(out, s.window_bytes, s.lost_segments, s.congestion_state, s.backoff)
        at, acked = s.offset_ns, s.acked_count
    return bytes(out)


def decode(payload: bytes) -> Timeline:
    """The timeline of a payload. Raises TimelineError when the payload is not exactly one canonical encoding."""
    take = _Reader(payload)
    if (version := take.number()) != FORMAT:
        raise TimelineError(f"timeline format {version} is not known, this reader knows {FORMAT}")
    flags, unit, quantum = take.number(), take.number(), take.number()
    if flags & ~(_THINNED | _WINDOW_KNOWN) or unit < 1 or quantum < 1:
        raise TimelineError(f"flags {flags}, unit_ns {unit}, quantum {quantum} are not valid")
    peak = take.number() if flags & _WINDOW_KNOWN else None
    empty = Timeline(unit_ns=unit, quantum=quantum, window_peak_bytes=peak, is_thinned=bool(flags & _THINNED))
    stamps = []
    previous = _START
    for _ in range(take.count()):
        previous = take.plain_row(previous, empty) or take.row(previous, empty)
        stamps.append(previous)
    blocked = []
    at = 0
    for _ in range(take.count()):
        at += take.number() * unit
        end = at + take.number() * unit
        unread = take.number()
        blocked.append(Blocked(at, end, unread - 1 if unread else None))
    lag = []
    at = 0
    for _ in range(take.count()):
        at += take.number() * unit
        lag.append(Interval(at, at + take.number() * unit))
    samples = []
    at = acked = 0
    for _ in range(take.count()):
        at += take.number() * unit
        acked += take.number()
        samples.append(KernelSample(at, acked, *(take.number() for _ in range(6))))
    if take.at != len(payload):
        raise TimelineError(f"{len(payload) - take.at} bytes left over after the last sample")
    return replace(empty, stamps=tuple(stamps), blocked=tuple(blocked), lag=tuple(lag), samples=tuple(samples))


_START: Final = Stamp(seq=-1, arrived_ns=0, taken_ns=0, event_class=EventClass.CONTENT, position=0, is_exact=True)


def _put_row(out: bytearray, stamp: Stamp, previous: Stamp, timeline: Timeline) -> None:
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
    if skipped and not timeline.is_thinned and previous is not _START:
        raise TimelineError(f"seq {stamp.seq} after {previous.seq}: only a thinned timeline leaves events out")
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
    _put(out, gap << 4 | short_lag << 2 | step << 1 | is_extended)
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


def _put(out: bytearray, *numbers: int) -> None:
    for number in numbers:
        if number < 0 or number >> (_MAX_SHIFT + 1):
            raise TimelineError(f"{number} does not fit an unsigned 64-bit number")
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

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if byte == 0 and shift:
                    raise TimelineError(f"byte {self.at - 1}: number is longer than it needs to be")
                if value >> (_MAX_SHIFT + 1):
                    raise TimelineError(f"byte {self.at - 1}: number does not fit 64 bits")
                return value
            shift += 7
            if shift > _MAX_SHIFT:
                raise TimelineError(f"byte {self.at - 1}: number does not fit 64 bits")

    def byte(self) -> int:
        if self.at >= len(self.payload):
            raise TimelineError(f"payload ends at byte {self.at}, in the middle of a row")
        byte = self.payload[self.at]
        self.at += 1
        return byte

    def count(self) -> int:
        count = self.number()
        if count > len(self.payload) - self.at:
            raise TimelineError(f"{count} rows cannot fit into the {len(self.payload) - self.at} bytes left")
        return count

    def plain_row(self, previous: Stamp, timeline: Timeline) -> Stamp | None:
        """A row of one or two bytes that is not extended: it has no other encoding, so there is nothing to check."""
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
        self.at = at + size
        arrived = previous.arrived_ns + (head >> 4) * timeline.unit_ns
        position = (previous.position // timeline.quantum + (head >> 1 & 1)) * timeline.quantum
        return Stamp(previous.seq + 1, arrived, arrived + lag * timeline.unit_ns, previous.event_class, position)

    def row(self, previous: Stamp, timeline: Timeline) -> Stamp:
        start = self.at
        unit, quantum = timeline.unit_ns, timeline.quantum
        head = self.number()
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
        _put_row(canonical, stamp, previous, timeline)
        if canonical != self.payload[start : self.at]:
            raise TimelineError(f"seq {stamp.seq}: row is not in its canonical form")
        return stamp
