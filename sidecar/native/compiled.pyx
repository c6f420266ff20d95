# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, embedsignature=True
"""What is done once for every event, compiled: the twins are in `sidecar.http1.chunked`, `sidecar.inspection.stamper` and
`sidecar.inspection.lane`, and say what is meant.

Bytes are read through a pointer and the position of their end; whoever reads one has compared the two before.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport int8_t, int64_t
from libc.string cimport memcmp, memcpy

from otel.hop import EventClass, Stamp
from sidecar.inspection import shape as _shape
from sidecar.inspection.events import Unit
from sidecar.inspection.stamper import LIMIT_COUNT as _LIMIT_COUNT

ctypedef const unsigned char* Bytes

cdef enum:
    HOLES = 8
    SIZE_DIGITS = 16
    NUMBER_DIGITS = 15
    COUNTED = 0
    UNCOUNTED = 1
    NUMBER = 2

cdef tuple _CLASSES = tuple(EventClass)
cdef object _EVENT = Unit.EVENT

if (HOLES, NUMBER_DIGITS) != (_shape.HOLES, _shape.NUMBER_DIGITS) or (COUNTED, UNCOUNTED, NUMBER) != tuple(_shape.Hole):
    raise ImportError("compiled from another version of sidecar/inspection/shape.py")


# Chunks.


cdef inline int _digit(unsigned char byte) noexcept nogil:
    """The value of a hex digit, -1 for anything else."""
    if 0x30 <= byte <= 0x39:
        return byte - 0x30
    byte |= 0x20
    return byte - 0x57 if 0x61 <= byte <= 0x66 else -1


cdef Py_ssize_t _content_start(Bytes data, Py_ssize_t at, Py_ssize_t end, Py_ssize_t* size_bytes) noexcept nogil:
    """Where the content of a chunk begins whose last byte has come, -1 where that is not so."""
    cdef Py_ssize_t start = at, size = 0
    cdef int digit
    while at < end and at - start < SIZE_DIGITS:
        digit = _digit(data[at])
        if digit < 0:
            break
        if size > end:  # more than is there: no whole chunk
            return -1
        size = size * 16 + digit
        at += 1
    if at == start or size == 0 or end - at < 2 or data[at] != 0x0D or data[at + 1] != 0x0A:
        return -1
    at += 2
    if end - at < 2 or size > end - at - 2 or data[at + size] != 0x0D or data[at + size + 1] != 0x0A:
        return -1
    size_bytes[0] = size
    return at


def whole_chunks(bytes data not None, Py_ssize_t at):
    """The content of the whole chunks at this boundary, and the position behind them."""
    cdef Bytes source = <Bytes>PyBytes_AS_STRING(data)
    cdef Py_ssize_t end = len(data), first = at, start, size = 0, total = 0, count = 0
    if at < 0 or at > end:
        return b"", at
    start = _content_start(source, at, end, &size)
    while start >= 0:
        total += size
        count += 1
        at = start + size + 2
        start = _content_start(source, at, end, &size)
    if count == 0:
        return b"", first
    if count == 1:
        return PyBytes_FromStringAndSize(<const char*>source + at - 2 - total, total), at
    cdef bytes content = PyBytes_FromStringAndSize(NULL, total)
    cdef char* target = PyBytes_AS_STRING(content)
    cdef Py_ssize_t filled = 0, stop = at
    at = first
    while at < stop:
        start = _content_start(source, at, stop, &size)
        if start < 0 or size > total - filled:  # cannot be: they were counted a moment ago
            raise AssertionError("chunks are as they were")
        memcpy(target + filled, source + start, size)
        filled += size
        at = start + size + 2
    return content, stop


cdef object _whole_content(bytes data):
    """The content of bytes that are nothing but whole chunks; None of any others."""
    if not data.endswith(b"\r\n"):
        return None
    content, at = whole_chunks(data, 0)
    return content if content and at == len(data) else None


cdef class Receiver:
    """What is called with the size of each read of a connection, in place of its `buffer_updated`.

    sink: takes whole chunks, as `Answer.arrived` does; set only while the next byte begins a chunk. Else, and with
    all that is more than that, `came` gets the read.
    """

    cdef public object sink
    cdef object _clock
    cdef object _came
    cdef const unsigned char[::1] _buffer

    def __init__(self, buffer, clock, came):
        self._buffer = buffer
        self._clock = clock
        self._came = came
        self.sink = None

    def __call__(self, Py_ssize_t size_bytes):
        at_ns = self._clock()
        if not 0 <= size_bytes <= self._buffer.shape[0]:
            raise ValueError(f"a read has 0 to {self._buffer.shape[0]} bytes, not {size_bytes}")
        data = PyBytes_FromStringAndSize(<const char*>&self._buffer[0], size_bytes)
        if self.sink is not None:
            content = _whole_content(data)
            if content is not None:
                self.sink(content, at_ns, data)
                return
        self._came(data, at_ns)


# Columns.


cdef struct Row:
    int64_t arrived_ns
    int64_t taken_ns
    int64_t position
    int64_t wire_bytes
    int8_t event_class


cdef class Stamper:
    """The columns of one exchange."""

    cdef readonly int64_t count
    cdef readonly int64_t position
    cdef Row* _rows
    cdef Py_ssize_t _row_count
    cdef Py_ssize_t _room_count
    cdef Py_ssize_t _taken_count
    cdef Py_ssize_t _limit_count
    cdef int64_t _acked_count
    cdef Row _last  # of the last event, where the columns are full; wire_bytes: once taken
    cdef bint _is_full
    cdef bint _is_last_taken

    def __cinit__(self, *, Py_ssize_t limit_count=_LIMIT_COUNT):
        self._limit_count = limit_count

    def __dealloc__(self):
        PyMem_Free(self._rows)

    @property
    def is_cut_short(self):
        return self.count > self._row_count + self._is_full

    def event(self, int event_class, int64_t visible_chars, int64_t at_ns, int64_t behind_bytes):
        """One event of a read; so many bytes of the same read lie behind it, 0 where that is not known."""
        if not 0 <= event_class < len(_CLASSES):
            raise ValueError(f"a class is one of {len(_CLASSES)}, not {event_class}")
        self.add(event_class, visible_chars, at_ns, behind_bytes)

    def events(self, readings, at_ns, *, behind_bytes=()):
        """The units that one read completed, and what they are; those that dispatch no event get no stamp."""
        behind = iter(behind_bytes)
        for event, reading in readings:
            if event.unit is _EVENT:
                self.event(reading.event_class, reading.visible_chars, at_ns, next(behind, 0))

    cdef int add(self, int event_class, int64_t visible_chars, int64_t at_ns, int64_t behind_bytes) except -1:
        cdef int64_t latest_ns = 0
        cdef Row* row
        if self._is_full:
            latest_ns = self._last.arrived_ns
        elif self._row_count:
            latest_ns = self._rows[self._row_count - 1].arrived_ns
        if at_ns < latest_ns:
            at_ns = latest_ns
        if self._row_count < self._limit_count and self._row_count == self._room_count:
            self.grow()
        self.count += 1
        self.position += visible_chars
        if self._row_count < self._limit_count:
            row = self._rows + self._row_count
            self._row_count += 1
        else:
            row = &self._last
            self._is_full, self._is_last_taken = True, False
            behind_bytes = row.wire_bytes  # what was taken before, and what its own end is at least
        row.arrived_ns = at_ns
        row.taken_ns = 0
        row.position = self.position
        row.wire_bytes = behind_bytes
        row.event_class = event_class
        return 0

    cdef int grow(self) except -1:
        """Room for half as many more. Raises MemoryError, and everything is as it was."""
        cdef Py_ssize_t room_count = min(self._limit_count, self._room_count + self._room_count // 2 + 16)
        cdef Row* rows = <Row*>PyMem_Realloc(self._rows, room_count * sizeof(Row))
        if rows is NULL:
            raise MemoryError
        self._rows = rows
        self._room_count = room_count
        return 0

    def taken(self, int64_t at_ns, int64_t wire_offset_bytes):
        """Our kernel has every event handed over so far, and the last read ends at or before that byte of the body."""
        cdef Py_ssize_t seq = self._taken_count
        cdef int64_t end = self._rows[seq - 1].wire_bytes if seq else 0
        if seq < self._row_count:
            at_ns = max(at_ns, self._rows[self._row_count - 1].arrived_ns, self._rows[seq - 1].taken_ns if seq else 0)
            while seq < self._row_count:
                end = max(end, wire_offset_bytes - self._rows[seq].wire_bytes)
                self._rows[seq].wire_bytes = end
                self._rows[seq].taken_ns = at_ns
                seq += 1
            self._taken_count = seq
        if self._is_full and not self._is_last_taken:
            self._is_last_taken = True
            self._last.taken_ns = max(at_ns, self._last.arrived_ns, self._rows[seq - 1].taken_ns if seq else 0)
            self._last.wire_bytes = max(wire_offset_bytes, self._last.wire_bytes, end)

    def acked_count(self, int64_t wire_acked_bytes):
        """How many events the peer's kernel has, when it has acknowledged that many bytes of the wire."""
        cdef Py_ssize_t low = 0, high = self._taken_count, middle
        while low < high:
            middle = (low + high) // 2
            if self._rows[middle].wire_bytes <= wire_acked_bytes:
                low = middle + 1
            else:
                high = middle
        cdef int64_t count = low
        if self._is_full and self._is_last_taken and wire_acked_bytes >= self._last.wire_bytes:
            count = self.count
        self._acked_count = max(self._acked_count, count)
        return self._acked_count

    def stamps(self, *, Py_ssize_t since=0):
        """The stamps from sequence number `since` on, in order, with exact times and positions."""
        cdef Py_ssize_t seq
        found = [self.stamp(&self._rows[seq], seq, seq < self._taken_count) for seq in range(max(since, 0), self._row_count)]
        if self._is_full and self.count > since:
            found.append(self.stamp(&self._last, self.count - 1, self._is_last_taken))
        return tuple(found)

    cdef object stamp(self, Row* row, int64_t seq, bint is_taken):
        """A row as others read it."""
        taken_ns = row.taken_ns if is_taken else None
        return Stamp(seq, row.arrived_ns, taken_ns, _CLASSES[row.event_class], row.position, is_exact=True)


# Usual events.


cdef inline bint _is_tail(unsigned char byte) noexcept nogil:
    """One of the bytes of a character of UTF-8 behind its first."""
    return byte & 0xC0 == 0x80


cdef Py_ssize_t _character_end(Bytes data, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
    """Behind a character of several bytes, as RFC 3629 has them; -1 where it is none."""
    cdef unsigned char first = data[at]
    if end - at >= 2 and 0xC2 <= first <= 0xDF:
        return at + 2 if _is_tail(data[at + 1]) else -1
    if end - at >= 3 and 0xE0 <= first <= 0xEF:
        if first == 0xE0 and data[at + 1] < 0xA0 or first == 0xED and data[at + 1] > 0x9F:
            return -1
        return at + 3 if _is_tail(data[at + 1]) and _is_tail(data[at + 2]) else -1
    if end - at >= 4 and 0xF0 <= first <= 0xF4:
        if first == 0xF0 and data[at + 1] < 0x90 or first == 0xF4 and data[at + 1] > 0x8F:
            return -1
        return at + 4 if _is_tail(data[at + 1]) and _is_tail(data[at + 2]) and _is_tail(data[at + 3]) else -1
    return -1


cdef int _unit(Bytes data, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
    """The number in a \\u escape that begins here, -1 where there is none."""
    cdef int value = 0, digit
    cdef Py_ssize_t place
    if end - at < 6 or data[at] != 0x5C or data[at + 1] != 0x75:
        return -1
    for place in range(at + 2, at + 6):
        digit = _digit(data[place])
        if digit < 0:
            return -1
        value = value * 16 + digit
    return value


cdef Py_ssize_t _escape_end(Bytes data, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
    """Behind an escape of one code point; -1 where it is none, or half of a surrogate pair."""
    cdef unsigned char kind
    cdef int unit, other
    if end - at < 2:
        return -1
    kind = data[at + 1]
    if kind in (0x22, 0x2F, 0x5C, 0x62, 0x66, 0x6E, 0x72, 0x74):  # " / \ b f n r t
        return at + 2
    unit = _unit(data, at, end)
    if unit < 0 or 0xDC00 <= unit <= 0xDFFF:
        return -1
    if unit < 0xD800 or unit > 0xDBFF:
        return at + 6
    other = _unit(data, at + 6, end)
    return at + 12 if 0xDC00 <= other <= 0xDFFF else -1


cdef Py_ssize_t _text_end(Bytes data, Py_ssize_t at, Py_ssize_t end, int64_t* chars) noexcept nogil:
    """The quote that ends a JSON string, with the code points up to it added to chars; -1 where it is none for sure."""
    cdef unsigned char byte
    cdef int64_t count = 0
    while at >= 0 and at < end:
        byte = data[at]
        if byte == 0x22:
            chars[0] += count
            return at
        if byte < 0x20:
            return -1
        if byte == 0x5C:
            at = _escape_end(data, at, end)
        elif byte < 0x80:
            at += 1
        else:
            at = _character_end(data, at, end)
        count += 1
    return -1


cdef Py_ssize_t _number_end(Bytes data, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
    """Behind a number of few digits, at where there is none."""
    cdef Py_ssize_t start = at
    if at < end and data[at] == 0x30:
        return at + 1
    while at < end and at - start < NUMBER_DIGITS and 0x30 <= data[at] <= 0x39:
        at += 1
    return at


cdef struct Part:
    int hole
    Bytes behind
    Py_ssize_t behind_bytes


cdef class Lane:
    """The lane of one stream. Its events are stamped in the columns that are given here."""

    cdef Stamper _stamper
    cdef Py_ssize_t _limit_bytes
    cdef tuple _literals  # what the pointers point into
    cdef Bytes _before
    cdef Py_ssize_t _before_bytes
    cdef Part _parts[HOLES]
    cdef int _part_count
    cdef int _event_class
    cdef int64_t _fixed_chars

    def __cinit__(self, Stamper stamper not None, *, Py_ssize_t limit_bytes=_shape.LIMIT_BYTES):
        self._stamper = stamper
        self._limit_bytes = min(limit_bytes, <Py_ssize_t>_shape.LIMIT_BYTES)
        self._part_count = 0

    def learn(self, shape):
        """The usual event, in place of the one before."""
        cdef tuple literals = shape.literals
        cdef tuple holes = shape.holes
        cdef bytes literal
        cdef int number
        if not 0 < len(holes) <= HOLES or len(literals) != len(holes) + 1:
            raise ValueError(f"a shape has 1 to {HOLES} holes and one literal more, not {len(holes)} and {len(literals)}")
        self._part_count = 0
        literal = literals[0]
        self._before, self._before_bytes = <Bytes>PyBytes_AS_STRING(literal), len(literal)
        for number in range(<int>len(holes)):
            literal = literals[number + 1]
            self._parts[number].hole = holes[number]
            self._parts[number].behind = <Bytes>PyBytes_AS_STRING(literal)
            self._parts[number].behind_bytes = len(literal)
        self._literals = literals
        self._event_class = EventClass(shape.event_class)
        self._fixed_chars = shape.fixed_chars
        self._part_count = <int>len(holes)

    def take(self, bytes data not None, Py_ssize_t at, int64_t at_ns):
        """The position behind the usual blocks that begin here; the same one where there is none."""
        cdef Bytes source = <Bytes>PyBytes_AS_STRING(data)
        cdef Py_ssize_t end = len(data), stop
        cdef int64_t chars = 0
        if self._part_count == 0 or at < 0:
            return at
        while at < end:
            stop = self.block_end(source, at, end, &chars)
            if stop < 0:
                break
            self._stamper.add(self._event_class, chars, at_ns, end - stop)
            at = stop
        return at

    cdef Py_ssize_t block_end(self, Bytes data, Py_ssize_t at, Py_ssize_t end, int64_t* chars) noexcept:
        """Behind a block of the shape, with the code points that a reader sees of it; -1 where it is another one."""
        cdef Py_ssize_t start = at, hole_start
        cdef int64_t uncounted
        cdef Part* part
        cdef int number
        if end - at < self._before_bytes or memcmp(data + at, self._before, self._before_bytes) != 0:
            return -1
        at += self._before_bytes
        chars[0] = self._fixed_chars
        for number in range(self._part_count):
            part = &self._parts[number]
            hole_start = at
            if part.hole == NUMBER:
                at = _number_end(data, at, end)
            else:
                uncounted = 0
                at = _text_end(data, at, end, chars if part.hole == COUNTED else &uncounted)
            if at <= hole_start or end - at < part.behind_bytes:
                return -1
            if memcmp(data + at, part.behind, part.behind_bytes) != 0:
                return -1
            at += part.behind_bytes
        return at if at - start <= self._limit_bytes else -1
