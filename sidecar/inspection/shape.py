"""Learn the shape of a stream's usual event, so that the next one like it need not be parsed.

The events of a stream are alike: the same JSON, but for a piece of text and now and then a number. A shape is what
stays the same, with holes where those stand. It is learnt by trial: the holes of a real event are filled with other
values, and the dialect reads what comes of it. Two things make that a proof for all values. Where a string begins and
ends says how all that is around it reads, so whatever is one string by itself is one in the hole, and nothing else
changes. And no dialect looks at what the members listed here say for more than whether they are empty and how long.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from otel.hop import OUTPUT, EventClass
from sidecar.inspection.dialects.base import LARGE_BYTES, Read
from sidecar.inspection.events import Event, Reading

SHAPE_BYTES: Final = 4_096
"""Longest event that is learnt, since each stream keeps its shape: usual ones have some 200 bytes."""
HOLES: Final = 8
"""Most holes of a shape: a text for each of several choices, some numbers. Each costs the dialect one more reading."""
NUMBER_DIGITS: Final = 15
"""Longest number that fills a hole: all of these are read alike by everybody."""
LIMIT_BYTES: Final = LARGE_BYTES
"""Longest event that is taken by its shape; what is longer may not be parsed at all."""

_TEXTS: Final = "content|text|delta|completion|refusal|reasoning_content|reasoning|thinking|partial_json|arguments"
_PADDING: Final = "obfuscation|p"
"""Of a length that hides that of the text (OpenAI, Mistral); no dialect reads it."""
_NUMBERS: Final = "created|sequence_number|index"
"""No dialect reads them, but for one that reads each event in the light of those before it."""
_SITE: Final = re.compile(
    rb'(?<!\\)"(?:(?:%b)"\s*:\s*"((?:[^"\\]|\\.)+)"|(?:%b)"\s*:\s*(\d{1,%d})(?=\s*[,}]))'
    % (f"{_TEXTS}|{_PADDING}".encode(), _NUMBERS.encode(), NUMBER_DIGITS)
)


class Hole(IntEnum):
    """What may stand in a hole. No text is empty: whether there is one is what a class may hang on."""

    COUNTED = 0
    """The inside of a JSON string, whose code points the reader sees."""
    UNCOUNTED = 1
    """The inside of a JSON string that adds nothing to what the reader sees."""
    NUMBER = 2
    """Up to 15 digits, without a zero in front."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A whole SSE block with holes. literals: what stands before, between and behind them, one more than there are.

    fixed_chars: visible code points that are no hole's.
    """

    literals: tuple[bytes, ...]
    holes: tuple[Hole, ...]
    event_class: EventClass
    fixed_chars: int


def shape_of(event: Event, reading: Reading, read: Read) -> Shape | None:
    """The shape of an event that reads so; None where it has none that can be relied on. read: total, and forgets."""
    sites = list(_SITE.finditer(event.data)) if may_be_learnt(event, reading) else []
    if not 0 < len(sites) <= HOLES:
        return None
    spans = [site.span(site.lastindex or 0) for site in sites]
    edges = [0, *(edge for span in spans for edge in span), len(event.data)]
    literals = [event.data[start:stop] for start, stop in zip(edges[::2], edges[1::2], strict=True)]
    short = [b"x" if site.lastindex == 1 else b"0" for site in sites]
    shortest = _read_with(event, literals, short, read)
    if not _is_like(shortest, reading):
        return None
    holes = []
    for number, site in enumerate(sites):
        longer = [*short]
        longer[number] = b"x \\u00e9" if site.lastindex == 1 else b"9" * NUMBER_DIGITS
        changed = _read_with(event, literals, longer, read)
        more_chars = changed.visible_chars - shortest.visible_chars
        if not _is_like(changed, reading) or more_chars not in ((0, 2) if site.lastindex == 1 else (0,)):
            return None
        holes.append(Hole.NUMBER if site.lastindex == 2 else Hole.COUNTED if more_chars else Hole.UNCOUNTED)
    fixed_chars = shortest.visible_chars - holes.count(Hole.COUNTED)
    head = b"event: %b\ndata: " % event.name if event.name else b"data: "
    return Shape(
        (head + literals[0], *literals[1:-1], literals[-1] + b"\n\n"), tuple(holes), reading.event_class, fixed_chars
    )


def may_be_learnt(event: Event, reading: Reading) -> bool:
    """Nothing hangs on the event but its class, its length, and what was taken over from the ones before."""
    return (
        reading.event_class in OUTPUT
        and (reading.finish, reading.usage, reading.is_end) == (None, None, False)
        and len(event.data) <= SHAPE_BYTES
        and not (event.is_cut or event.id or b"\n" in event.data)
    )


def _read_with(event: Event, literals: Sequence[bytes], fillings: Sequence[bytes], read: Read) -> Reading:
    """The reading of the event with other values in its holes."""
    filled = b"".join(part for pair in zip(literals, fillings, strict=False) for part in pair) + literals[-1]
    return read(event._replace(data=filled))


def _is_like(one: Reading, other: Reading) -> bool:
    """Whether two readings differ in their length at most."""
    return replace(one, visible_chars=other.visible_chars) == other


class Learner:
    """When a shape is worth learning: it costs as much as some ten events, and saves one with each that fits."""

    __slots__ = ("_from_count", "_wait_count")

    def __init__(self) -> None:
        self._from_count = 2  # an answer of one piece has no use for it
        self._wait_count = 1

    def shape(self, event: Event, reading: Reading, read: Read, *, count: int) -> Shape | None:
        """What to take for the usual event from now on, None for what it was. count: events so far. Where the usual one
        changes again and again, it is looked at ever more rarely."""
        if count < self._from_count or not may_be_learnt(event, reading):
            return None
        self._wait_count *= 2
        self._from_count = count + self._wait_count
        return shape_of(event, reading, read)
