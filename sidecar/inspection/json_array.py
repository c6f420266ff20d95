"""The elements of one JSON array as it is streamed: what Gemini sends where it is not asked for SSE.

It is no parser: brackets are counted, strings passed over, and an object or array directly inside the outermost
array is an event when its last bracket has come. A body that begins with anything but an array has no elements:
each read is an event of which nothing is known, and `is_lost` says so.
"""

from __future__ import annotations

import re
from typing import Final

from sidecar.inspection.events import Event, Unit

_BLANK: Final = re.compile(rb"[ \t\n\r]*+")
_STRING: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_SKIPPED: Final = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
"""All up to the next bracket, or to a string whose end has not come."""
_OPENING: Final = frozenset(b"{[")
_QUOTE: Final = ord('"')
_ARRAY: Final = ord("[")
_BOM: Final = b"\xef\xbb\xbf"


class JsonArraySplitter:
    """The elements of one body, however it is cut into reads."""

    __slots__ = (
        "_depth",
        "_element",
        "_has_begun",
        "_head",
        "_in_string",
        "_is_cut",
        "_is_escaped",
        "_limit_bytes",
        "is_at_boundary",
        "is_lost",
        "pending_bytes",
    )

    def __init__(self, *, limit_bytes: int) -> None:
        self.pending_bytes = 0
        self.is_lost = False
        self.is_at_boundary = False  # behind an element, before its comma: there alone every further one looks the same
        self._limit_bytes = limit_bytes
        self._head = 0  # bytes of a BOM that have come
        self._has_begun = False  # the outermost array
        self._depth = 0  # brackets that are open
        self._in_string = False
        self._is_escaped = False  # the last byte was a backslash in a string
        self._element = bytearray()
        self._is_cut = False

    def feed(self, data: bytes) -> list[Event]:
        out: list[Event] = []
        pos = 0 if self._has_begun or self.is_lost else self._begin(data)
        if self.is_lost:
            if rest_bytes := self.pending_bytes + len(data):
                out.append(Event(Unit.EVENT, b"", b"", b"", rest_bytes, is_cut=True))
                self.pending_bytes = 0
            return out
        start = pos  # of what belongs to the element and is not kept yet
        counted = 0  # bytes of data that belong to units given out
        while pos < len(data):
            if self._in_string:
                pos = self._string(data, pos)
                continue
            pos = _past(_SKIPPED, data, pos)
            if pos == len(data):
                break
            byte = data[pos]
            if byte == _QUOTE:  # a string whose end has not come
                self._in_string = True
            elif byte in _OPENING:
                self._depth += 1
                if self._depth == 2:
                    start = pos
            elif self._depth:
                self._depth -= 1
                if self._depth == 1:
                    self._keep(data[start : pos + 1])
                    self._end(Unit.EVENT, self.pending_bytes + pos + 1 - counted, out)
                    counted = pos + 1
            pos += 1
        if self._depth > 1:
            self._keep(data[start:])
        self.pending_bytes += len(data) - counted
        self.is_at_boundary = (self.is_at_boundary or counted > 0) and _past(_BLANK, data, counted) == len(data)
        return out

    def finish(self) -> list[Event]:
        out: list[Event] = []
        if self._depth > 1:
            self._end(Unit.TAIL, self.pending_bytes, out)
            self._depth = 0
        return out

    def _begin(self, data: bytes) -> int:
        """Where the first bracket stands, or the end of data while it has not come."""
        pos = 0
        while pos < len(data) and self._head < len(_BOM) and data[pos] == _BOM[self._head]:
            self._head += 1
            pos += 1
        if pos < len(data) and self._head not in {0, len(_BOM)}:
            self.is_lost = True
            return pos
        if pos < len(data):
            self._head = len(_BOM)
        pos = _past(_BLANK, data, pos)
        if pos < len(data):
            self._has_begun = data[pos] == _ARRAY
            self.is_lost = not self._has_begun
        return pos

    def _string(self, data: bytes, pos: int) -> int:
        """Past the end of the string, or to the end of data."""
        if self._is_escaped:
            self._is_escaped = False
            return pos + 1
        pos = _past(_STRING, data, pos)
        if pos < len(data):
            self._in_string = data[pos] != _QUOTE
            self._is_escaped = self._in_string  # a backslash, the last byte of data
            return pos + 1
        return pos

    def _keep(self, data: bytes) -> None:
        room = self._limit_bytes - len(self._element)
        self._is_cut = self._is_cut or len(data) > room
        self._element += data[:room]

    def _end(self, unit: Unit, size_bytes: int, out: list[Event]) -> None:
        out.append(Event(unit, bytes(self._element), b"", b"", size_bytes, self._is_cut))
        self.pending_bytes = 0
        self._element = bytearray()
        self._is_cut = False


def _past(pattern: re.Pattern[bytes], data: bytes, pos: int) -> int:
    found = pattern.match(data, pos)
    return pos if found is None else found.end()
