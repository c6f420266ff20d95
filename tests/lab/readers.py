"""Readers of the lab's answers: our own, openai-python and curl, each with the stamps of what it gave its caller.

Ours is the demo's: it alone can let its window close. The others take compressed answers, as most readers do.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

import openai

from otel.demo.answer import Answer, Receipt
from otel.demo.reader import READ_BYTES, TIMEOUT_S, Pause, ask, receipt

PATH: Final = "/v1/chat/completions"
KNOWN: Final = frozenset({"model", "messages", "stream", "stream_options", "max_tokens", "seed"})
"""Members of a body that the SDK has parameters for; the rest travels beside them."""


class Reader(StrEnum):
    """Who asks and reads."""

    OURS = "ours"
    OPENAI = "openai-python"
    CURL = "curl"

    @property
    def is_here(self) -> bool:
        return self is not Reader.CURL or shutil.which("curl") is not None


@dataclass(slots=True)
class _Reading:
    """What all readers do with an event: stamp it, tell of it, sleep behind it, or leave."""

    pause: Pause | None
    leave_at: int | None
    on_event: Callable[[int], None] | None
    receipts: list[Receipt] = field(default_factory=list)

    def took(self, got: Receipt) -> bool:
        """Whether the reader goes on."""
        self.receipts.append(got)
        if self.on_event is not None:
            self.on_event(len(self.receipts))
        if self.pause is not None and len(self.receipts) == self.pause.at_event:
            time.sleep(self.pause.seconds)
        return self.leave_at is None or len(self.receipts) < self.leave_at


def read(
    reader: Reader,
    url: str,
    *,
    headers: Mapping[str, str],
    body: Mapping[str, object],
    pause: Pause | None = None,
    leave_at: int | None = None,
    on_event: Callable[[int], None] | None = None,
) -> Answer:
    """Ask for a chat answer at this origin and read it to the end, or leave when so many events have come.

    pause: ours lets its window close and then sleeps; the others sleep, and what their buffers take still comes.
    Only ours knows how long nothing came for that.
    """
    if reader is Reader.OURS:
        asked = urlsplit(url)
        options: dict[str, Any] = {"pause": pause, "leave_at": leave_at, "on_event": on_event}
        return ask(asked.hostname or "", asked.port or 0, headers=headers, body=body, **options)
    reading = _Reading(pause, leave_at, on_event)
    return (_by_openai if reader is Reader.OPENAI else _by_curl)(url, headers, body, reading)


def _by_openai(url: str, headers: Mapping[str, str], body: Mapping[str, object], reading: _Reading) -> Answer:
    """Without retries: a retry would be another request. The SDK tells no [DONE]; a finish reason stands for it."""
    known: dict[str, Any] = {name: body[name] for name in body if name in KNOWN}
    more = {name: body[name] for name in body if name not in KNOWN}
    status, is_whole, is_done = int(HTTPStatus.OK), False, False
    with (
        openai.DefaultHttpxClient(timeout=TIMEOUT_S, trust_env=False) as http,
        openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, http_client=http) as client,
    ):
        start_s = time.monotonic()
        try:
            with client.chat.completions.create(**known, extra_headers=headers, extra_body=more) as stream:
                for chunk in stream:
                    deltas = [choice.delta for choice in chunk.choices]
                    is_done = is_done or any(choice.finish_reason for choice in chunk.choices)
                    chars = sum(len(delta.content or "") for delta in deltas)
                    has_thought = any((delta.model_extra or {}).get("reasoning_content") for delta in deltas)
                    if not reading.took(Receipt(time.monotonic() - start_s, chars, has_thought)):
                        break
                else:
                    is_whole = True
        except openai.APIStatusError as error:
            status = error.status_code
        except openai.APIError:
            pass
        ended_s = time.monotonic() - start_s
    return Answer(status, tuple(reading.receipts), ended_s, is_whole, is_done)


def _by_curl(url: str, headers: Mapping[str, str], body: Mapping[str, object], reading: _Reading) -> Answer:
    """curl says at the end how long it all took; one that we end says nothing, and counts from its start."""
    words = ["curl", "--no-buffer", "--silent", "--compressed", "--noproxy", "*", "--max-time", f"{TIMEOUT_S:g}"]
    for name, value in {"Content-Type": "application/json", "Expect": "", **headers}.items():
        words += ["--header", f"{name}: {value}"]
    words += ["--data-binary", "@-", "--write-out", "%{stderr}%{http_code} %{time_pretransfer} %{time_total}"]
    start_s = time.monotonic()
    with subprocess.Popen(
        [*words, url + PATH], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as curl:
        assert curl.stdin is not None
        assert curl.stdout is not None
        assert curl.stderr is not None
        curl.stdin.write(json.dumps(body).encode())
        curl.stdin.close()
        got, ended_s, goes_on = _read_pipe(curl.stdout.fileno(), reading)
        if not goes_on:
            curl.terminate()
        said = curl.stderr.read().split()
    is_whole = goes_on and curl.returncode == 0
    status = int(HTTPStatus.OK)
    if len(said) == 3:
        status = int(said[0])
        asked_s = ended_s - (float(said[2]) - float(said[1]))
        start_s = min([asked_s, *(at_s for at_s, _ in got[:1])])  # we saw its end a moment later than curl did
    receipts = tuple(receipt(event, at_s=at_s - start_s) for at_s, event in got)
    return Answer(status, receipts, ended_s - start_s, is_whole, any(event == b"data: [DONE]" for _, event in got))


def _read_pipe(pipe: int, reading: _Reading) -> tuple[list[tuple[float, bytes]], float, bool]:
    """The events with the time of their read, the time of the end, and whether the reader stayed until then."""
    got: list[tuple[float, bytes]] = []
    pending = b""
    while data := os.read(pipe, READ_BYTES):
        at_s = time.monotonic()
        *events, pending = (pending + data).split(b"\n\n")
        for event in events:
            got.append((at_s, event))
            if not reading.took(Receipt(at_s, 0)):
                return got, at_s, False
    return got, time.monotonic(), True
