"""Draw SSE streams in every spelling that the standard allows, and know what a reader has to make of each.

stream = draw(seed, 7)
stream.body, stream.writes   # as the upstream sends it, and in which pieces
stream.events                # as the WHATWG algorithm dispatches them

A stream is drawn as lines; its bytes and its events are both made from these, so neither comes from a parser of ours.
"""

from __future__ import annotations

import json
import random
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from tests.readers.scripts import APIS, Script, any_text, free_lines

BOM = b"\xef\xbb\xbf"
ENDS = ("\n", "\r\n", "\r")
REST_S = 0.3
"""How long the upstream rests: longer than a keepalive waits, with the time between two looks for one."""
SMALL_BYTES = 4_096
"""Up to here a body may be written byte by byte."""
SSE = "text/event-stream"
CONTENT_TYPES = (*(SSE,) * 14, *(f"{SSE}; charset=utf-8",) * 5, "Text/Event-Stream")
PATHS = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}
RESTS = (0, 1, 2, 2, 3)
NAMES = (*APIS, *[name for name in APIS if " " in name] * 3, "free", "free", "free")
"""Of what is drawn: mostly what an SDK reads."""


class After(Enum):
    """What the upstream does when it has written everything."""

    END = "ends the answer"
    SILENCE = "keeps silent"
    CUT = "closes the connection in mid-answer"
    NO_HEAD = "has not even begun to answer, and keeps silent"


@dataclass(frozen=True, slots=True)
class Message:
    """One event as a page would get it."""

    type: str
    data: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One answer of the upstream, and what is to be read from it.

    events: None: not known. over_at: where the event begins behind which nothing more is said; None: none does.
    head_rest_s: how long the head of the answer is waited for. after: what comes behind the last write.
    """

    number: int
    name: str
    api: str
    """chat, completions, responses or messages: what an SDK asks for; empty: no SDK reads it."""
    path: str
    body: bytes
    writes: tuple[bytes, ...]
    rests: frozenset[int]
    framing: str
    events: tuple[Message, ...] | None
    over_at: int | None
    content_type: str = SSE
    is_encoded: bool = False
    head_rest_s: float = 0.0
    after: After = After.END

    @property
    def may_get_keepalives(self) -> bool:
        """Whether a sidecar may say any in it. Before the head of an answer it does not know of a length."""
        has_length = self.framing == "length" and not self.head_rest_s
        return not has_length and not self.is_encoded and self.content_type.lower().startswith(SSE)

    @property
    def event_types(self) -> list[str]:
        return sorted({event.type for event in self.events or ()})


def draw(seed: int, number: int) -> Stream:
    """The stream of this number; the same for the same seed."""
    rng = random.Random(f"{seed}/{number}")
    name = rng.choice(NAMES)
    script = APIS[name](rng) if name in APIS else Script("", "/v1/stream", ())
    lines, over_line = _lines(rng, script) if name in APIS else (free_lines(rng), None)
    if has_bom := rng.random() < 0.15:
        lines = [": to begin with", "", *lines]
        over_line = None if over_line is None else over_line + 2
    body, starts = _rendered(rng, lines)
    if rng.random() < 0.08:  # the last event is never finished, and is none therefore
        lines.pop()
        body = body[: starts[-1]]
    over_at = None if over_line is None else starts[over_line]
    if has_bom:
        body, over_at = BOM + body, None if over_at is None else over_at + len(BOM)
    framing = rng.choice(("chunked",) * 7 + ("close", "length"))
    writes = _cut(rng, body)
    rests = _rests(rng, writes)
    is_encoded = rng.random() < 0.06
    return Stream(
        number=number,
        name=name,
        api=script.api,
        path=script.path,
        body=body,
        writes=tuple(_encoded(writes) if is_encoded else writes),
        rests=rests,
        framing=framing,
        events=tuple(dispatched(lines)),
        over_at=over_at,
        content_type=rng.choice(CONTENT_TYPES),
        is_encoded=is_encoded,
    )


def recorded(number: int, name: str, body: bytes, *, api: str, content_type: str, seed: int) -> Stream:
    """A recorded body as such a stream, in pieces drawn for it; what is to be read from it is not known."""
    rng = random.Random(f"{seed}/{number}")
    writes = _cut(rng, body)
    rests = frozenset(rng.sample(range(len(writes)), min(2, len(writes)))) | _rests(rng, writes)
    return Stream(
        number=number,
        name=name,
        api=api,
        path=PATHS.get(api, "/v1/stream"),
        body=body,
        writes=tuple(writes),
        rests=rests,
        framing="chunked",
        events=None,
        over_at=None,
        content_type=content_type,
    )


def plainly(number: int, name: str, script: Script, said: Sequence[tuple[str, str]]) -> Stream:
    """These events as most servers write them, one a write."""
    heads = [f"event: {kind}\n" if kind else "" for kind, _ in said]
    writes = tuple(f"{head}data: {payload}\n\n".encode() for head, (_, payload) in zip(heads, said, strict=True))
    return Stream(
        number=number,
        name=name,
        api=script.api,
        path=script.path,
        body=b"".join(writes),
        writes=writes,
        rests=frozenset(),
        framing="chunked",
        events=tuple(Message(kind or "message", payload, "") for kind, payload in said),
        over_at=None,
    )


def dispatched(lines: Iterable[str]) -> list[Message]:
    """The events of whole lines, by the standard (HTML, 9.2.6)."""
    found: list[Message] = []
    data: list[str] = []
    kind = last_id = ""
    for line in lines:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                found.append(Message(kind or "message", "\n".join(data), last_id))
            data, kind = [], ""
        elif name == "data":
            data.append(value)
        elif name == "event":
            kind = value
        elif name == "id" and "\0" not in value:
            last_id = value
    return found


# ------------------------------------------------------------------------------------------------------- the lines


def _lines(rng: random.Random, script: Script) -> tuple[list[str], int | None]:
    """What is said, as lines, and the line with which the last of it begins."""
    with_ids = rng.random() < 0.2
    with_comments = rng.random() < 0.5
    lines: list[str] = []
    over_line = None
    for number, (name, payload) in enumerate(script.said):
        # Readers that dispatch at a blank line behind an id, whatever is before it, would choke on such a comment.
        if with_comments and not with_ids and rng.random() < 0.3:
            lines += [_comment(rng), ""] if rng.random() < 0.7 else [_comment(rng)]
        if number == script.over:
            over_line = len(lines)
        lines += _block(rng, name, payload, event_id=f"{number}" if with_ids else None, with_comments=with_comments)
    return lines, over_line


def _block(
    rng: random.Random, name: str, payload: str, *, event_id: str | None = None, with_comments: bool
) -> list[str]:
    pretty = rng.random() < 0.2 and payload.startswith("{")
    text = json.dumps(json.loads(payload), indent=1, ensure_ascii=False) if pretty else payload
    lines = [field_line(rng, "data", part) for part in text.split("\n")]
    others = [field_line(rng, "event", name)] if name else []
    others += [field_line(rng, "id", event_id)] if event_id is not None else []
    others += ["retry: 3000"] * (rng.random() < 0.03) + ["x-unknown: data: 1"] * (rng.random() < 0.03)
    others += [_comment(rng)] * (with_comments and rng.random() < 0.1)
    for line in others:
        lines.insert(rng.choice((0, 0, 0, rng.randint(0, len(lines)))), line)
    return [*lines, ""]


def field_line(rng: random.Random, name: str, value: str) -> str:
    return f"{name}:{value}" if rng.random() < 0.25 and not value.startswith(" ") else f"{name}: {value}"


def _comment(rng: random.Random) -> str:
    return rng.choice((":", ": ping", ":data: no", ": PROCESSING", f": {any_text(rng)}".replace("\n", " ")))


def _rendered(rng: random.Random, lines: Sequence[str]) -> tuple[bytes, list[int]]:
    """Their bytes, and where each line begins."""
    style = rng.choice((*ENDS, "\n", "\n", "\r\n", "mixed"))
    body, starts, last = bytearray(), [], ""
    for line in lines:
        end = rng.choice(ENDS) if style == "mixed" else style
        if last == "\r" and not line and end == "\n":
            end = "\r"  # a LF would belong to the CR before it
        starts.append(len(body))
        body += (line + end).encode()
        last = end
    return bytes(body), starts


# ------------------------------------------------------------------------------------------------------ the writes


def _cut(rng: random.Random, body: bytes) -> list[bytes]:
    how: list[Callable[[], Sequence[int]]] = [
        lambda: (),
        lambda: rng.sample(range(1, len(body)), min(len(body) - 1, rng.randint(1, 40))),
        lambda: [found.end() for found in re.finditer(rb"(?:\r\n|\r|\n)(?:\r\n|\r|\n)", body)],
        lambda: [found.start() + 1 for found in re.finditer(rb"\r\n|\n\n|\r\r", body)],
    ]
    if len(body) <= SMALL_BYTES:
        how.append(lambda: range(1, len(body)))
    places = [0, *sorted(set(rng.choice(how)())), len(body)]
    return [body[start:end] for start, end in pairwise(places) if start < end]


def _rests(rng: random.Random, writes: Sequence[bytes]) -> frozenset[int]:
    """Behind which writes the upstream rests: mostly at the end of a block, where a keepalive may stand."""
    count = rng.choice(RESTS)
    sent, between = bytearray(), []
    for number, piece in enumerate(writes[:-1]):
        sent += piece
        if re.search(rb"(?:\n\n|\r\n\r\n|\r\r\n?|\r\n\r|\n\r)$", sent[-4:]):
            between.append(number)
    places = [
        rng.choice(between) if between and rng.random() < 0.7 else rng.randrange(len(writes)) for _ in range(count)
    ]
    return frozenset(places)


def _encoded(writes: Sequence[bytes]) -> list[bytes]:
    deflate = zlib.compressobj(6, zlib.DEFLATED, 31)
    pieces = [deflate.compress(piece) + deflate.flush(zlib.Z_SYNC_FLUSH) for piece in writes]
    pieces[-1] += deflate.flush()
    return pieces
