"""Take events of the usual shape out of a read: classed, counted and stamped without being parsed.

What it takes is exactly what would have come of splitting and reading it; at the first byte of anything else it stops.
`sidecar.native` has the same, compiled.
"""

from __future__ import annotations

import re
from typing import Final

import orjson

from sidecar.inspection.shape import LIMIT_BYTES, NUMBER_DIGITS, Hole, Shape
from sidecar.inspection.stamper import Stamper

_BLANK: Final = b"\n\n"
_DIGITS: Final = re.compile(rb"0|[1-9]\d{0,%d}" % (NUMBER_DIGITS - 1))
_TEXT: Final = re.compile(rb'(?:[^"\\]|\\.)+')


class Lane:
    """The lane of one stream. Its events are stamped in the columns that are given here."""

    __slots__ = ("_after", "_before", "_chars_before", "_last_hole", "_limit_bytes", "_shape", "_stamper")

    def __init__(self, stamper: Stamper, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self._stamper = stamper
        self._limit_bytes = min(limit_bytes, LIMIT_BYTES)
        self._shape: Shape | None = None
        self._before = self._after = b""  # what stood around the last hole of the block before: mostly it does again
        self._chars_before = 0
        self._last_hole = Hole.COUNTED

    def learn(self, shape: Shape) -> None:
        """The usual event, in place of the one before."""
        self._shape = shape
        self._before = b""
        self._after = shape.literals[-1]
        self._last_hole = shape.holes[-1]

    def take(self, data: bytes, at: int, at_ns: int) -> int:
        """The position behind the usual blocks that begin here; the same one where there is none."""
        shape = self._shape
        if shape is None:
            return at
        while (stop := data.find(_BLANK, at) + 2) > 1 and stop - at <= self._limit_bytes:
            start, end = at + len(self._before), stop - len(self._after)
            if self._before and data.startswith(self._before, at) and data.endswith(self._after, start, stop):
                chars = _chars_in(data, start, end, self._last_hole, self._chars_before)
            else:
                chars = self._chars(data, at, stop, shape)
            if chars < 0:
                break
            self._stamper.event(shape.event_class, chars, at_ns, len(data) - stop)
            at = stop
        return at

    def _chars(self, data: bytes, at: int, stop: int, shape: Shape) -> int:
        """How many code points a reader sees of the block; -1 where it is not as the shape says."""
        if not data.startswith(shape.literals[0], at):
            return -1
        chars = shape.fixed_chars
        start = end = at + len(shape.literals[0])
        for hole, literal in zip(shape.holes, shape.literals[1:], strict=True):
            start, self._chars_before = end, chars
            inside = (_DIGITS if hole is Hole.NUMBER else _TEXT).match(data, start, stop)
            end = start if inside is None else inside.end()
            chars = _chars_in(data, start, end, hole, chars) if data.startswith(literal, end) else -1
            if chars < 0:
                self._before = b""
                return -1
            end += len(literal)
        self._before = data[at:start]
        return chars if end == stop else -1


def _chars_in(data: bytes, start: int, end: int, hole: Hole, chars: int) -> int:
    """The code points so far and those in a hole that is filled so; -1 where it may not be."""
    if start >= end:
        return -1
    if hole is Hole.NUMBER:
        return chars if _DIGITS.fullmatch(data, start, end) else -1
    try:
        text = orjson.loads(data[start - 1 : end + 1])
    except orjson.JSONDecodeError:
        return -1
    if type(text) is not str:
        return -1
    return chars + len(text) if hole is Hole.COUNTED else chars
