"""The readers of Python: what openai, anthropic, httpx-sse and httpx2 make of a stream, events and final objects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anthropic
import httpx
import httpx2
import httpx_sse
import openai
from openai.lib.streaming.chat import ChatCompletionStreamState

from tests.readers.reading import Read, Reader
from tests.readers.streams import Stream

KEY = "no-key"
ASKED: dict[str, Any] = {"model": "m", "stream": True}
SAID = [{"role": "user", "content": "?"}]
WITHIN_S = 60.0
CONNECTIONS = 256

Reads = Callable[[str, Stream, "Told"], Awaitable[None]]


class Told:
    """What a reader has given so far; it is kept also when it stops with an error."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.final: Any = None


@dataclass(frozen=True, slots=True)
class Library:
    """One library as a reader; `apis` is what it can ask for, empty: whatever is SSE, of which one in `every`."""

    name: str
    apis: frozenset[str]
    reads: Reads
    every: int = 1

    def takes(self, stream: Stream) -> bool:
        return (not self.apis or stream.api in self.apis) and stream.number % self.every == 0

    async def read(self, origin: str, stream: Stream) -> Read:
        told, error = Told(), ""
        try:
            await self.reads(origin, stream, told)
        except Exception as raised:
            error = described(raised)
        return Read.of({"events": told.events, "final": told.final, "error": error})


def described(error: Exception) -> str:
    """Its class, with what an SDK knows of an error that the upstream told."""
    known = [getattr(error, name, None) for name in ("status_code", "type", "code", "body")]
    cause = f" from {type(error.__cause__).__name__}" if error.__cause__ else ""
    facts = "".join(f" {fact}" for fact in known if fact is not None)
    return f"{type(error).__name__}{cause}{facts}: {str(error)[:300]}"


@asynccontextmanager
async def python_readers() -> AsyncIterator[list[Reader]]:
    """All of them, each with connections of its own that are used again."""
    limits = {"max_connections": CONNECTIONS, "max_keepalive_connections": CONNECTIONS}
    async with (
        httpx.AsyncClient(limits=httpx.Limits(**limits), timeout=WITHIN_S) as client,
        httpx2.AsyncClient(limits=httpx2.Limits(**limits), timeout=WITHIN_S) as client2,
    ):
        options: dict[str, Any] = {"api_key": KEY, "max_retries": 0, "http_client": client2}
        chat = openai.AsyncOpenAI(base_url="http://set.later", **options)
        claude = anthropic.AsyncAnthropic(base_url="http://set.later", **options)

        async def with_openai(origin: str, stream: Stream, told: Told) -> None:
            await read_openai(chat.with_options(base_url=f"{origin}/v1"), stream, told)

        async def with_anthropic(origin: str, stream: Stream, told: Told) -> None:
            await read_anthropic(claude.with_options(base_url=origin), stream, told)

        async def with_httpx_sse(origin: str, stream: Stream, told: Told) -> None:
            async with httpx_sse.aconnect_sse(client, "POST", url_of(origin, stream), json=ASKED) as source:
                async for sse in source.aiter_sse():
                    told.events.append([sse.event, sse.data, sse.id, sse.retry])

        async def with_httpx2(origin: str, stream: Stream, told: Told) -> None:
            async with client2.stream("POST", url_of(origin, stream), json=ASKED) as response:
                async for sse in httpx2.EventSource(response):
                    told.events.append([sse.event, sse.data, sse.id, sse.retry])

        yield [
            Library("openai-python", frozenset({"chat", "completions", "responses"}), with_openai),
            Library("anthropic", frozenset({"messages"}), with_anthropic),
            Library("httpx-sse", frozenset(), with_httpx_sse),
            Library("httpx2", frozenset(), with_httpx2, every=4),
        ]


def url_of(origin: str, stream: Stream) -> str:
    return f"{origin}{stream.path}?n={stream.number}"


async def read_openai(client: openai.AsyncOpenAI, stream: Stream, told: Told) -> None:
    query = {"n": str(stream.number)}
    match stream.api:
        case "chat":
            state: ChatCompletionStreamState[Any] = ChatCompletionStreamState()
            async for chunk in await client.chat.completions.create(messages=SAID, extra_query=query, **ASKED):
                told.events.append(dumped(chunk))
                state.handle_chunk(chunk)
            told.final = dumped(state.get_final_completion())
        case "completions":
            async for chunk in await client.completions.create(prompt="?", extra_query=query, **ASKED):
                told.events.append(dumped(chunk))
        case "responses":
            async for event in await client.responses.create(input="?", extra_query=query, **ASKED):
                told.events.append(dumped(event))
                told.final = dumped(event.response) if event.type == "response.completed" else told.final


async def read_anthropic(client: anthropic.AsyncAnthropic, stream: Stream, told: Told) -> None:
    query = {"n": str(stream.number)}
    async with client.messages.stream(model="m", max_tokens=9, messages=SAID, extra_query=query) as events:
        async for event in events:
            told.events.append(dumped(event))
        told.final = dumped(await events.get_final_message())


def dumped(value: Any) -> Any:
    return value.model_dump(mode="json", warnings=False)
