"""Streams whose events are alike, more or less: to compare ways of taking them.

`bodies` draws from the streams of `spoken.txt`: with texts and numbers of their own, in whatever form of JSON, a few of
their bytes changed, cut anywhere. `runs` draws events that differ in nothing else.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.support.dialects import SPOKEN, payload_of

TEXT_KEYS = frozenset(
    {
        "content",
        "text",
        "delta",
        "completion",
        "reasoning_content",
        "reasoning",
        "thinking",
        "partial_json",
        "arguments",
    }
)
SPOKEN_SSE = sorted(name for name, spoken in SPOKEN.items() if spoken.framing == "sse")
PLAIN_TEXTS = st.sampled_from(["a", " hello", "\n", "é", '"quoted" \\', "😀 of two", "\u2028", "x" * 40])
ODD_TEXTS = st.text(max_size=6) | st.sampled_from(
    ["", "\n\n", "a\\", '\\"', "\ud83d", "\udc00\ud83d", "\x7f", "\0", "data: [DONE]", "{", "x" * 300]
)
PLAIN_NUMBERS = st.sampled_from([0, 1, 1_764_500_000, 10**14])
ODD_NUMBERS = st.integers(0, 10**17) | st.sampled_from([-1, 1.5, 1e300, True, None, "1", 10**15])
BROKEN = [
    b"",
    b"\n",
    b"\r",
    b"\0",
    b'"',
    b"\\",
    b"\\x",
    b"\\u12",
    b"\\ud83d",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xf0\x9f\x98",
]
WHOLE = [
    b"\n\n",
    b"x",
    b"{",
    b"}",
    b",",
    b"0",
    b"\\u00e9",
    b"id: 1\n\n",
    b": x\n\n",
    b"data: x\n\n",
    b"data: [DONE]\n\n",
]
PIECES = st.sampled_from([*BROKEN, *WHOLE])
MEDDLINGS = st.lists(st.tuples(st.floats(0, 1), PIECES, st.integers(0, 2)), max_size=3)


@st.composite
def bodies(draw: st.DrawFn) -> tuple[str, list[bytes]]:
    """The path of a request, and the reads of an answer to it."""
    spoken = SPOKEN[draw(st.sampled_from(SPOKEN_SSE))]
    space = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    is_ascii = draw(st.booleans())
    is_numbered, is_odd = draw(st.booleans()), draw(st.booleans())
    texts = PLAIN_TEXTS | ODD_TEXTS if is_odd else PLAIN_TEXTS
    numbers = PLAIN_NUMBERS | ODD_NUMBERS if is_odd else PLAIN_NUMBERS
    blocks = []
    again = draw(st.lists(st.sampled_from(spoken.events), max_size=4))  # output behind a finish, or behind the end
    for name, data in (*spoken.events, *again):
        for _ in range(draw(st.integers(1, 6))):
            payload = payload_of(data)
            if not isinstance(data, bytes):
                changed = _changed(data, lambda key: draw(texts if key in TEXT_KEYS else numbers))
                if is_numbered and isinstance(changed, dict):
                    changed = {"created": draw(numbers), **changed, "obfuscation": draw(PLAIN_TEXTS)}
                payload = json.dumps(changed, separators=space, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
            lines = b"".join(b"data: " + line + b"\n" for line in payload.split(b"\n"))
            blocks.append((b"event: " + name + b"\n" if name else b"") + lines + b"\n")
    body = b"".join(blocks)
    for share, piece, dropped in draw(MEDDLINGS) if is_odd else []:
        at = int(share * len(body))
        body = body[:at] + piece + body[at + dropped :]
    shares = draw(st.lists(st.floats(0, 1), max_size=8))
    cuts = {0, len(body), *(int(share * len(body)) for share in shares)}
    if draw(st.integers(0, 3)):  # mostly a read for each event
        cuts |= {found.end() for found in re.finditer(rb"\n\n", body)}
    places = sorted(cuts)
    return spoken.path, [body[start:stop] for start, stop in itertools.pairwise(places)]


@st.composite
def runs(draw: st.DrawFn) -> tuple[str, list[bytes]]:
    """The same for events that differ in their texts and numbers only, after one that tells the API."""
    spoken = SPOKEN[draw(st.sampled_from(SPOKEN_SSE))]
    told = [(name, data) for name, data in spoken.events if isinstance(data, dict)]
    name, data = draw(st.sampled_from(told))
    texts, numbers = (
        draw(st.sampled_from([PLAIN_TEXTS, PLAIN_TEXTS | ODD_TEXTS])),
        draw(st.sampled_from([PLAIN_NUMBERS, ODD_NUMBERS])),
    )
    is_ascii = draw(st.booleans())
    blocks = [spoken.wire(count=1)]
    for _ in range(draw(st.integers(3, 20))):
        changed = _changed(data, lambda key: draw(texts if key in TEXT_KEYS else numbers))
        changed = {"sequence_number": draw(numbers), **changed, "p": draw(texts)}
        payload = json.dumps(changed, separators=(",", ":"), ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
        blocks.append((b"event: " + name + b"\n" if name else b"") + b"data: " + payload + b"\n\n")
    if draw(st.booleans()):
        return spoken.path, blocks
    size = draw(st.integers(1, 2_000))
    body = b"".join(blocks)
    return spoken.path, [body[start : start + size] for start in range(0, len(body), size)]


def _changed(value: Any, drawn: Callable[[str], Any]) -> Any:
    """The same with other texts and numbers in the members that differ from event to event."""
    if isinstance(value, dict):
        return {
            key: drawn(key)
            if (key in TEXT_KEYS and isinstance(inner, str) and inner)
            or (key in {"created", "sequence_number", "index"})
            else _changed(inner, drawn)
            for key, inner in value.items()
        }
    return [_changed(inner, drawn) for inner in value] if isinstance(value, list) else value
