"""Response bodies whose every byte is known, in the pieces in which a worker sends them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from itertools import cycle

ODD_SIZES = (1, 2, 3, 5, 7, 11, 13, 64, 129, 1_021)


def chat_chunk(delta: dict[str, object], *, finish: str | None = None, model: str = "tiny", answer: str = "1") -> str:
    """One chunk of an OpenAI chat stream, as JSON; what is not ASCII stands in it as it is."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": f"chatcmpl-{answer}", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": model}
    return json.dumps({**chunk, "choices": [choice]}, ensure_ascii=False, separators=(",", ":"))


def chat_event(delta: dict[str, object], **about: str) -> bytes:
    return f"data: {chat_chunk(delta, **about)}\n\n".encode()


def chat_events(count: int, *, model: str = "tiny", answer: str = "1") -> list[bytes]:
    """A whole chat stream with so many events of content."""
    about = {"model": model, "answer": answer}
    content = [chat_event({"content": f"word {number} "}, **about) for number in range(count)]
    return [
        chat_event({"role": "assistant", "content": ""}, **about),
        *content,
        chat_event({}, finish="stop", **about),
        b"data: [DONE]\n\n",
    ]


def awkward_chat() -> bytes:
    """A valid chat stream with everything that a proxy might tidy up: comments, three kinds of line ends, emoji."""
    family, flag, halves = "👩‍👩‍👧‍👦", "🇫🇷", r"\ud83d\ude00"
    parts = [
        "\ufeff: a comment before anything\r\n\r\n",
        f"data: {chat_chunk({'role': 'assistant', 'content': ''})}\r\n\r\n",
        f"event: message\r\ndata: {chat_chunk({'content': 'Grüße, '})}\r\n\r\n",
        ": ping\r\r",
        f"data:{chat_chunk({'content': family})}\n\n",
        *(f"data: {chat_chunk({'content': text})}\r\r" for text in ("日本", "語 ", flag, " é")),
        f": keep-alive {family}\n\n",
        "data: " + chat_chunk({"content": "HALVES"}).replace("HALVES", halves) + "\r\n\r\n",
        "data: " + chat_chunk({"content": "two lines"}).replace(',"choices"', '\r\ndata: ,"choices"') + "\r\n\r\n",
        "data: " + chat_chunk({"content": "\u2028\u0085 · "}) + "\n\n",
        "data: " + chat_chunk({"content": "x" * 20_000}) + "\n\n",
        "unknown: field\n\n",
        f"data: {chat_chunk({}, finish='stop')}\r\n\r\n",
        "data: [DONE]\r\n\r\n",
    ]
    return "".join(parts).encode()


def ndjson() -> bytes:
    lines = [
        json.dumps({"response": text, "done": False}, ensure_ascii=False) for text in ("a", "é", "🚀", "y" * 9_000)
    ]
    return ("\n".join([*lines, '{"done": true}']) + "\r\n").encode()


def binary(size_bytes: int) -> bytes:
    """Every byte value, and no period that a buffer size divides."""
    block = bytes(range(256)) + b"\r\n0\r\n\r\n" + bytes(255)
    return (block * (size_bytes // len(block) + 1))[:size_bytes]


def cut(body: bytes, sizes: Sequence[int] = ODD_SIZES) -> list[bytes]:
    """The body in pieces of these sizes, again and again: through lines, events and characters."""

    def pieces() -> Iterator[bytes]:
        at = 0
        for size in cycle(sizes):
            if at >= len(body):
                return
            yield body[at : at + size]
            at += size

    return list(pieces())


def gzipped(pieces: Sequence[bytes]) -> list[bytes]:
    """One gzip body that can be read piece by piece: each is flushed."""
    deflate = zlib.compressobj(6, zlib.DEFLATED, 31)
    flushed = [deflate.compress(piece) + deflate.flush(zlib.Z_SYNC_FLUSH) for piece in pieces]
    return [*flushed, deflate.flush()]
