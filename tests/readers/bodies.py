"""Take the keepalives out of a body again, and say what is wrong with what is left and with the places they had."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tests.readers.streams import BOM, Stream

_LINE = re.compile(rb"([^\r\n]*)(\r\n|\r|\n)")
_ID = re.compile(rb"(^|[\r\n])id(?:: ?([^\r\n\0]*))?(?=[\r\n])")
SHIELDED = b":" + BOM + b"\n"


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A body without the keepalives, and where in it each of them had been."""

    body: bytes
    places: tuple[int, ...]


def cleaned(body: bytes, text: str) -> Cleaned:
    """text: that of the comment; no upstream's comment may be like it. Before an id it has a blank line behind it."""
    places: list[int] = []
    rest = bytearray()
    comment, end = f": {text}\n".encode(), 0
    while (start := body.find(comment, end)) >= 0:
        rest += body[end:start]
        places.append(len(rest))
        end = start + len(comment)
        if not has_id(rest) and body[end : end + 1] == b"\n":
            end += 1
    rest += body[end:]
    if places and rest.startswith(SHIELDED):  # a byte order mark behind what we said ourselves
        rest[: len(SHIELDED)] = BOM
        places = [max(0, place - 2) if place else 0 for place in places]
    return Cleaned(bytes(rest), tuple(places))


def differences(stream: Stream, got: bytes, text: str) -> str:
    """What is wrong with a body as it arrived, in words; empty: nothing."""
    found = cleaned(got, text)
    sent = b"".join(stream.writes)
    if found.body != sent:
        at = next((at for at, (a, b) in enumerate(zip(found.body, sent, strict=False)) if a != b), len(found.body))
        return f"{len(found.body)} bytes beside the keepalives, not {len(sent)}; the first difference at {at}"
    if found.places and not stream.may_get_keepalives:
        return f"{len(found.places)} keepalives in a body that may have none"
    misplaced = [place for place in found.places if not may_stand(sent, place, over_at=stream.over_at)]
    return f"a keepalive at {misplaced[0]} of {len(sent)} bytes: {around(sent, misplaced[0])}" if misplaced else ""


def around(body: bytes, place: int) -> str:
    return f"{body[max(0, place - 30) : place]!r} | {body[place : place + 10]!r}"


def has_id(body: bytes) -> bool:
    """Whether an id is in force behind these lines."""
    ids = [found[2] or b"" for found in _ID.finditer(body.removeprefix(BOM))]
    return any(ids[-1:])


def may_stand(body: bytes, place: int, *, over_at: int | None) -> bool:
    """Whether a comment here is between two blocks, before the end, and within no CRLF."""
    before = body[:place].removeprefix(BOM)
    if over_at is not None and place > over_at:
        return False
    if before.endswith(b"\r") and body[place : place + 1] == b"\n":
        return False
    lines = [found[1] for found in _LINE.finditer(before)]
    is_whole = not before or before[-1:] in {b"\r", b"\n"}
    return is_whole and not _open_fields(lines)


def _open_fields(lines: Sequence[bytes]) -> list[bytes]:
    """The fields since the last blank line."""
    fields: list[bytes] = []
    for line in lines:
        if not line:
            fields = []
        elif not line.startswith(b":"):
            fields.append(line)
    return fields
