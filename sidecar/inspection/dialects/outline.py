"""What stands plainly at the top of a JSON object of which only the beginning was kept.

Final events repeat a whole answer, and some are longer than what is kept of an event. That they are the end stands
beside the answer, at the top; what lies deeper is passed over by its brackets and strings.
"""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

STEPS: Final = 10_000
"""Brackets looked at in one object, 10 ms of a core."""
VALUE_BYTES: Final = 256
"""Longest value that is taken over; longer strings are taken as empty ones, for they are text."""

_BLANK: Final = re.compile(rb"[ \t\n\r]*+")
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_SCALAR: Final = re.compile(rb"[A-Za-z0-9+.\-]++")
_SKIPPED: Final = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_OPENING: Final = frozenset(b"{[")
_QUOTE: Final = ord('"')


def plain_members(data: bytes) -> dict[str, Any] | None:
    """The members of the object that data begins with whose values are strings, numbers, true, false or null, as far
    as they are there. None when data begins with no object. Never raises."""
    pos = _past(_BLANK, data, 0)
    if data[pos : pos + 1] != b"{":
        return None
    found: dict[str, Any] = {}
    steps = STEPS
    while steps > 0:
        pos = _past(_BLANK, data, pos + 1)  # past the bracket, or the comma
        key = _STRING.match(data, pos)
        if key is None:
            break
        pos = _past(_BLANK, data, key.end())
        if data[pos : pos + 1] != b":":
            break
        pos = _past(_BLANK, data, pos + 1)
        if pos == len(data):
            break
        value, pos, used = _value(data, pos, steps)
        steps -= used
        if value is not ... and key.end() - key.start() <= VALUE_BYTES:
            found[_loaded(key[0])] = value
        pos = _past(_BLANK, data, pos)
        if data[pos : pos + 1] != b",":
            break
    return found


def _value(data: bytes, pos: int, steps: int) -> tuple[object, int, int]:
    """The value at a place, `...` where it is none to take over; where it ends, and the steps it took."""
    first = data[pos]
    if first == _QUOTE:
        text = _STRING.match(data, pos)
        if text is None:
            return "", len(data), 1
        is_short = text.end() - pos <= VALUE_BYTES
        return _loaded(text[0]) if is_short else "", text.end(), 1
    if first in _OPENING:
        end, used = _past_nested(data, pos, steps)
        return ..., end, used
    scalar = _SCALAR.match(data, pos)
    if scalar is None or scalar.end() == len(data):  # the rest of it may have been cut off
        return ..., len(data), 1
    return _loaded(scalar[0]), scalar.end(), 1


def _past_nested(data: bytes, pos: int, steps: int) -> tuple[int, int]:
    depth = used = 0
    while used < steps:
        used += 1
        depth += 1 if data[pos] in _OPENING else -1
        if not depth:
            return pos + 1, used
        pos = _past(_SKIPPED, data, pos + 1)
        if pos == len(data) or data[pos] == _QUOTE:
            break
    return len(data), used


def _past(pattern: re.Pattern[bytes], data: bytes, pos: int) -> int:
    found = pattern.match(data, pos)
    return pos if found is None else found.end()


def _loaded(token: bytes) -> Any:  # noqa: ANN401  # any JSON value
    try:
        return orjson.loads(token)
    except orjson.JSONDecodeError:
        return ""
