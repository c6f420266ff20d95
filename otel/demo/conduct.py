"""One request through the running path: plant the fault, read the answer, wait for the verdict, compare."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from otel.demo import check, faults, script
from otel.demo.answer import Answer
from otel.demo.check import Outcome
from otel.demo.faults import HOPS, Fault, Kind
from otel.demo.processes import get
from otel.demo.reader import Pause, ask
from otel.hop import EGRESS, TapRole

VERDICT_WITHIN_S: Final = 15.0
"""Longest wait in seconds for the records of all hops; a record may stay open for 5 s behind a slow reader."""
LOOK_EVERY_S: Final = 0.1


class NoVerdictError(RuntimeError):
    """The collector had no answer in time."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked. worker_pid: the process that a freeze stops. is_scripted: the worker plays our script."""

    fault: Fault | None
    events: int
    seed: int
    worker_pid: int
    is_scripted: bool = True


@dataclass(frozen=True, slots=True)
class Run:
    """One request from question to judgement; `verdict` is the collector's answer as it came."""

    question: Question
    request_id: str
    answer: Answer
    verdict: dict[str, Any]
    outcome: Outcome


def conduct(question: Question, *, gateway_url: str, collector_url: str, on_answer: Callable[[Answer], None]) -> Run:
    """Ask, wait and compare. on_answer is called when the answer has been read. Raises NoVerdictError."""
    fault = question.fault
    request_id = str(uuid.uuid4())
    headers = {"x-request-id": request_id, "traceparent": f"00-{uuid.uuid4().hex}-{uuid.uuid4().hex[:16]}-01"}
    if fault is not None and fault.kind is not Kind.FREEZE:  # that one we do ourselves
        headers[faults.HEADER] = str(fault)
    frozen_s, paused_s = _seconds(fault, Kind.FREEZE), _seconds(fault, Kind.SLOW_READ)
    middle = script.middle_of(question.events)
    freeze = None if frozen_s is None else Freeze(question.worker_pid, at_event=middle, seconds=frozen_s)
    asked = urlsplit(gateway_url)
    answer = ask(
        asked.hostname or "",
        asked.port or 0,
        headers=headers,
        body=_body(question),
        pause=None if paused_s is None else Pause(script.OPENING_EVENTS, paused_s),
        on_event=freeze.saw if freeze else None,
    )
    on_answer(answer)
    verdict = wait_for_verdict(collector_url, request_id)
    return Run(question, request_id, answer, verdict, check.judge(fault, verdict, answer))


def wait_for_verdict(
    collector_url: str, request_id: str, *, taps: Collection[str] = HOPS, within_s: float = VERDICT_WITHIN_S
) -> dict[str, Any]:
    """The verdict once the closed records of all these taps are in, or the last one there was in time."""
    until_s = time.monotonic() + within_s
    verdict: dict[str, Any] | None = None
    while time.monotonic() < until_s:
        status, body = get(f"{collector_url}/v1/requests/{request_id}/verdict", timeout_s=within_s)
        if status == HTTPStatus.INTERNAL_SERVER_ERROR:
            raise NoVerdictError(f"the collector answered {status} for {request_id}: {body.decode(errors='replace')}")
        if status == HTTPStatus.OK:
            verdict = json.loads(body)
            seen = {hop["hop"] + (EGRESS if hop["role"] == TapRole.EGRESS else "") for hop in verdict["hops"]}
            if not verdict["open"] and seen >= set(taps):
                return verdict
        time.sleep(LOOK_EVERY_S)
    if verdict is None:
        raise NoVerdictError(f"the collector has no verdict on {request_id} after {within_s:g} s")
    return verdict


def stopped(pid: int, *, after_s: float, seconds: float) -> None:
    """Wait, stop a process, and let it go on after some seconds, however the wait ends."""
    time.sleep(after_s)
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        os.kill(pid, signal.SIGCONT)


class Freeze:
    """Stops a process when the reader has its n-th event, and lets it go on after some seconds."""

    def __init__(self, pid: int, *, at_event: int, seconds: float) -> None:
        self._pid = pid
        self._at_event = at_event
        self._seconds = seconds

    def saw(self, events: int) -> None:
        if events == self._at_event:
            os.kill(self._pid, signal.SIGSTOP)
            thaw = threading.Timer(self._seconds, os.kill, (self._pid, signal.SIGCONT))
            thaw.daemon = True  # when we end first, the process is ended and needs no thaw
            thaw.start()


def _body(question: Question) -> dict[str, object]:
    return {
        "model": "scripted" if question.is_scripted else "llama",
        "messages": [{"role": "user", "content": "Tell me a story."}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": question.events,
        "seed": question.seed,
    }


def _seconds(fault: Fault | None, kind: Kind) -> float | None:
    return fault.seconds if fault is not None and fault.kind is kind else None
