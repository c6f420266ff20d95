"""Streams of every API, from `spoken.txt`: their events, as bodies, and what is to be known of them afterwards.

SPOKEN["gemini"].wire()             # as it comes from the upstream
SPOKEN["gemini"].wire(change=more)  # with every JSON value in it changed
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from otel.hop import EventClass, Usage
from sidecar.inspection.body import Body
from sidecar.inspection.events import Event, Unit

SPOKEN_FILE = Path(__file__).with_name("spoken.txt")
CLASSES = {
    "c": EventClass.CONTENT,
    "r": EventClass.REASONING,
    "t": EventClass.TOOL,
    "k": EventClass.CONTROL,
    "b": EventClass.KEEPALIVE,
    "u": EventClass.USAGE,
    "e": EventClass.ERROR,
    ".": EventClass.TERMINAL,
    "o": EventClass.OPAQUE,
}
CONTENT_TYPES = {
    "sse": "text/event-stream; charset=utf-8",
    "ndjson": "application/x-ndjson",
    "json_array": "application/json; charset=UTF-8",
    "eventstream": "application/vnd.amazon.eventstream",
}
LETTERS = {value: key for key, value in CLASSES.items()}

Change = Callable[[Any], Any]


@dataclass(frozen=True, kw_only=True)
class Spoken:
    """One stream of `spoken.txt`: name and data of each event, and the facts.

    end_count: the events at the end without which nothing says that the stream is over; None: nothing ever does.
    """

    dialect: str
    events: tuple[tuple[bytes, Any], ...]
    classes: str
    chars: int
    framing: str
    path: str = "/"
    model: str | None = None
    response_id: str | None = None
    finish: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    end_count: int | None = None
    ids: bytes = b""

    def wire(self, *, count: int | None = None, change: Change = lambda value: value) -> bytes:
        """The first `count` events as a body."""
        events = [(name, payload_of(data, change)) for name, data in self.events[:count]]
        return wire(events, self.framing, ids=self.ids)

    def seen(self, body: bytes | Sequence[bytes], **options: Any) -> Body:
        reads = [body] if isinstance(body, bytes) else body
        return seen(reads, content_type=CONTENT_TYPES[self.framing], path=self.path, **options)


def payload_of(data: Any, change: Change = lambda value: value) -> bytes:
    if isinstance(data, bytes):
        return data
    if isinstance(data, Wrapped):
        inner = base64.b64encode(json.dumps(change(data.inner)).encode()).decode()
        return json.dumps(change({"bytes": inner, "p": "abcdef"})).encode()
    return json.dumps(change(data)).encode()


@dataclass(frozen=True)
class Wrapped:
    """What a model on Bedrock says, as it stands in a frame."""

    inner: Any


def wire(events: Sequence[tuple[bytes, bytes]], framing: str, *, ids: bytes = b"") -> bytes:
    match framing:
        case "sse":
            blocks = []
            for number, (name, data) in enumerate(events):
                head = b"event: " + name + b"\n" if name else b""
                head += b"id: " + ids + b"%d\n" % number if ids else b""
                blocks.append(head + b"".join(b"data: " + line + b"\n" for line in data.split(b"\n")) + b"\n")
            return b"".join(blocks)
        case "ndjson":
            return b"".join(data + b"\n" for _, data in events)
        case "json_array":
            return b"[" + b",\r\n".join(data for _, data in events) + b"\n]"
        case "eventstream":
            return b"".join(frame(data, name) for name, data in events)
    raise AssertionError(framing)


def frame(payload: bytes, name: bytes = b"event/chunk") -> bytes:
    """One event-stream frame of this message type and type."""
    kind, _, name = name.partition(b"/")
    headers = header(b":message-type", kind) + header(b":content-type", b"application/json")
    headers += header({b"event": b":event-type", b"exception": b":exception-type"}.get(kind, b":error-code"), name)
    head = (len(payload) + len(headers) + 16).to_bytes(4) + len(headers).to_bytes(4)
    head += zlib.crc32(head).to_bytes(4)
    return head + headers + payload + zlib.crc32(head + headers + payload).to_bytes(4)


def header(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + b"\x07" + len(value).to_bytes(2) + value


def seen(reads: Sequence[bytes], *, content_type: str, path: str = "/", is_clean: bool = True, **options: Any) -> Body:
    """A body after these reads, and its end."""
    body = Body(path, content_type=content_type, content_encoding=None, **options)
    for at_ns, data in enumerate(reads):
        body.arrived(data, at_ns, is_wasted=False)
    body.ended(is_clean=is_clean)
    return body


def classes(body: Body) -> str:
    """The classes of its events, a letter for each."""
    return "".join(LETTERS[stamp.event_class] for stamp in body.stamper.stamps())


def event(data: Any, name: bytes = b"", *, event_id: bytes = b"", is_cut: bool = False) -> Event:
    """One event, of JSON or of bytes."""
    payload = payload_of(data)
    return Event(Unit.EVENT, payload, name, event_id, len(payload) + 8, is_cut)


def _spoken() -> dict[str, Spoken]:
    found = {}
    for section in SPOKEN_FILE.read_text("utf-8").split("\n[")[1:]:
        name, _, lines = section.partition("]\n")
        head, *rows = lines.strip().splitlines()
        facts = json.loads(head.removeprefix("facts "))
        events = [row.split(" ", 2) for row in rows]
        found[name] = Spoken(
            dialect=facts.pop("dialect"),
            events=tuple((b"" if word == "-" else word.encode(), _data(text)) for _, word, text in events),
            classes="".join(letter for letter, _, _ in events),
            end_count=facts.pop("end"),
            finish=tuple(facts.pop("finish", ())),
            usage=counts(*facts.pop("usage", (None, None, None))),
            ids=facts.pop("ids", "").encode(),
            **facts,
        )
    return found


def _data(text: str) -> Any:
    word, _, rest = text.partition(" ")
    if word == "text":
        return json.loads(rest).encode()
    return Wrapped(json.loads(rest)) if word == "wrapped" else json.loads(text)


def counts(inputs: int | None, outputs: int | None, total: int | None = None) -> Usage:
    return Usage(input_tokens=inputs, output_tokens=outputs, total_tokens=total)


SPOKEN = _spoken()
