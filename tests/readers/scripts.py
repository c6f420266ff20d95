"""What every API says in a stream, with as much in it as its own SDK wants, before it is spelled as SSE."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.support.dialects import SPOKEN, Spoken, payload_of

WORDS = (
    "Hello",
    " wörld",
    "\n",
    "\u2028",
    " \u0085",
    "🙂",
    " data: x",
    "\t",
    "[DONE]",
    ": ",
    "\\n",
    " ",
    "東京",
    "\ufeff",
    "",
)


@dataclass(frozen=True, slots=True)
class Script:
    """One answer: the API whose SDK reads it, its path, and name and data of each event.

    over: the number of the event that says that it is over, where one does.
    """

    api: str
    path: str
    said: tuple[tuple[str, str], ...]
    over: int | None = None


def any_text(rng: random.Random) -> str:
    return "".join(rng.choice(WORDS) for _ in range(rng.randint(0, 6)))


def _json(rng: random.Random, value: Any) -> str:
    return json.dumps(value, ensure_ascii=rng.random() < 0.4, separators=rng.choice((None, (",", ":"))))


def _turns(rng: random.Random) -> range:
    return range(rng.choice((1, 3, 8, 8, 20)))


def chat(rng: random.Random) -> Script:
    about = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "m-1"}

    def chunk(delta: Any, finish: str | None = None) -> tuple[str, str]:
        return "", _json(rng, about | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    said = [("", _json(rng, about | {"choices": []}))] * (rng.random() < 0.2)
    said += [chunk({"role": "assistant", "content": ""})]
    said += [chunk({"content": any_text(rng)}) for _ in _turns(rng)]
    if rng.random() < 0.3:
        function = {"name": "look", "arguments": ""}
        said += [chunk({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]})]
        said += [chunk({"tool_calls": [{"index": 0, "function": {"arguments": part}}]}) for part in ('{"a":', "1}")]
    said += [chunk({}, "stop")]
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    said += [("", _json(rng, about | {"choices": [], "usage": usage}))] * (rng.random() < 0.5)
    return Script("chat", "/v1/chat/completions", (*said, ("", "[DONE]")), len(said))


def completions(rng: random.Random) -> Script:
    about = {"id": "cmpl-1", "object": "text_completion", "created": 1_700_000_000, "model": "m"}

    def chunk(text: str, finish: str | None = None) -> tuple[str, str]:
        choice = {"index": 0, "text": text, "finish_reason": finish, "logprobs": None}
        return "", _json(rng, about | {"choices": [choice]})

    said = [*(chunk(any_text(rng)) for _ in _turns(rng)), chunk("", "stop")]
    return Script("completions", "/v1/completions", (*said, ("", "[DONE]")), len(said))


def responses(rng: random.Random) -> Script:
    parts = [any_text(rng) for _ in _turns(rng)]
    content = {"type": "output_text", "text": "".join(parts), "annotations": [], "logprobs": []}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [content]}
    response = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": "o-1",
        "status": "in_progress",
        "output": [],
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "error": None,
    }
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    empty = content | {"text": ""}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": response},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": message | {"status": "in_progress", "content": []},
        },
        {"type": "response.content_part.added", **place, "part": empty},
        *({"type": "response.output_text.delta", **place, "delta": part, "logprobs": []} for part in parts),
        {"type": "response.output_text.done", **place, "text": "".join(parts), "logprobs": []},
        {"type": "response.output_item.done", "output_index": 0, "item": message},
        {"type": "response.completed", "response": response | {"status": "completed", "output": [message]}},
    ]
    said = [(event["type"], _json(rng, event | {"sequence_number": at})) for at, event in enumerate(events)]
    return Script("responses", "/v1/responses", tuple(said), len(said) - 1)


def messages(rng: random.Random) -> Script:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "c-1", "content": []}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 11, "output_tokens": 1}}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    ]
    for _ in _turns(rng):
        events += [{"type": "ping"}] * (rng.random() < 0.1)
        delta = {"type": "text_delta", "text": any_text(rng)}
        events += [{"type": "content_block_delta", "index": 0, "delta": delta}]
    events += [
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 4},
        },
        {"type": "message_stop"},
    ]
    said = [(event["type"], _json(rng, event)) for event in events]
    return Script("messages", "/v1/messages", tuple(said), len(said) - 1)


def spoken(told: Spoken) -> Callable[[random.Random], Script]:
    """A stream of `spoken.txt`, its events in part repeated."""

    def script(rng: random.Random) -> Script:
        said = [
            (name.decode(), payload_of(data).decode())
            for (name, data), letter in zip(told.events, told.classes, strict=True)
            for _ in range(rng.randint(1, 4) if letter in "cr" else 1)
        ]
        return Script("", told.path if told.path != "/" else "/v1/stream", tuple(said))

    return script


APIS: dict[str, Callable[[random.Random], Script]] = {
    "openai chat": chat,
    "openai completions": completions,
    "openai responses": responses,
    "anthropic messages": messages,
    **{name: spoken(told) for name, told in SPOKEN.items() if told.framing == "sse"},
}


def free_lines(rng: random.Random) -> list[str]:
    """Lines of no API: whatever the standard knows, and what it tells readers to ignore."""
    names = ("data", "data", "data", "event", "id", "retry", "", "unknown", "Data", "data ", "event\u2028")
    lines = []
    for _ in range(rng.randint(1, 60)):
        value = rng.choice(("", " ", "1", "a:b", "  two", any_text(rng).replace("\n", "\\n"), "nul\0"))
        line = rng.choice(names) + rng.choice((":", ": ", "")) + value
        lines.append("" if rng.random() < 0.35 else line)
    return [*lines, "data: last", ""]
