"""Spans as records in a file: framed, checked, and told apart from what a crash left of one; both directions.

    file    = head *record
    head    = "gapline-spool/1 " kind LF          kind: "final" or "open ", of every record in the file
    record  = state size number crc body          little-endian: 1, 4, 8, 4 and size bytes
    state   = %x00 waiting | %x01 done            the one byte that changes later, in its place
    crc     = CRC-32 of size, number and body

A body is the OTLP request of one span. Numbers are nanoseconds of wall time when the span was offered, made to grow:
they are the order of the spans, also of several processes.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Final

DONE: Final = b"\x01"
"""Written over a record's first byte when it needs no more delivering."""

_HEADS: Final = {False: b"gapline-spool/1 final\n", True: b"gapline-spool/1 open \n"}
HEAD_BYTES: Final = len(_HEADS[False])

_RECORD: Final = struct.Struct("<BIQI")
_CHECKED: Final = struct.Struct("<IQ")
RECORD_BYTES: Final = _RECORD.size
"""What a record takes beside its body."""


class FormatError(ValueError):
    """The file is none of ours, or of another version; nobody but its writer may touch it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Where one record lies in its file, and what its frame says."""

    offset: int
    size_bytes: int
    number: int
    is_done: bool


@dataclass(frozen=True, slots=True)
class Scan:
    """The whole records of a file, and how many pieces of it are none: the tail that a crash tore, as a rule.

    size_bytes: up to where it can be read.
    """

    is_open: bool
    entries: tuple[Entry, ...]
    torn_count: int
    size_bytes: int


def encode_head(*, is_open: bool) -> bytes:
    """The beginning of a file for records of open exchanges, or for final ones."""
    return _HEADS[is_open]


def encode_record(number: int, body: bytes) -> bytes:
    return _RECORD.pack(0, len(body), number, _crc(number, body)) + body


def decode_body(record: bytes) -> bytes | None:
    """The body of a record's bytes; None when they are not what was written."""
    if len(record) < RECORD_BYTES:
        return None
    _, size_bytes, number, crc = _RECORD.unpack_from(record)
    body = record[RECORD_BYTES:]
    return body if len(body) == size_bytes and _crc(number, body) == crc else None


def scan(data: bytes) -> Scan:
    """What a file holds. A file that ends within its head holds nothing. Raises FormatError.

    A record whose bytes were changed is passed over by its frame; where a frame leads past the end, nothing can be
    told of what follows it.
    """
    kind = next((is_open for is_open, head in _HEADS.items() if head.startswith(data[:HEAD_BYTES])), None)
    if kind is None:
        raise FormatError("the file does not begin with a head of this version")
    view = memoryview(data)
    entries: list[Entry] = []
    at, torn_count = HEAD_BYTES, 0
    while at < len(data):
        if at + RECORD_BYTES > len(data):
            torn_count += 1
            break
        state, size_bytes, number, crc = _RECORD.unpack_from(data, at)
        begin, end = at + RECORD_BYTES, at + RECORD_BYTES + size_bytes
        if not size_bytes or end > len(data):  # no span is empty; a power cut leaves zeros
            torn_count += 1
            break
        if _crc(number, view[begin:end]) == crc:
            entries.append(Entry(at, size_bytes, number, bool(state)))
        else:
            torn_count += 1
        at = end
    return Scan(kind, tuple(entries), torn_count, min(at, len(data)))


def _crc(number: int, body: bytes | memoryview) -> int:
    return zlib.crc32(body, zlib.crc32(_CHECKED.pack(len(body), number)))
