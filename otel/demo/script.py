"""What the scripted model worker says and when: an OpenAI chat stream as a list of events with their times.

The worker's own faults are changes of this list. Text, pauses and order follow from the seed alone.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from otel.demo.faults import Fault, Kind

DEFAULT_EVENTS: Final = 120
"""Content events of an answer: three seconds, long enough for a rhythm to show."""
FEWEST_EVENTS: Final = 20
"""With fewer a source shows no rhythm, and no wait can be charged to it."""
PACE_S: Final = (0.020, 0.030)
"""Shortest and longest pause between two content events in seconds: about forty tokens a second."""
MEAN_PACE_S: Final = sum(PACE_S) / 2
THINKING_S: Final = 0.1
"""Seconds from the request to the first event: a short prefill."""
EVENT_CHARS: Final = 6
"""Visible characters of an ordinary event, one word."""
OPENING_EVENTS: Final = 40
"""Events that pass before a hop begins to hold events back: a rhythm to differ from, and no late first event."""
SLOW_READ_EVENT_CHARS: Final = 1_600
"""The same for a client that reads slowly: its kernel's buffer has to fill while it does not read."""
SLOW_READ_HASTE: Final = 2.5
"""For such a client events also come so many times faster: the last whole one lies close before the full buffer."""

_WORDS: Final = ("amber", "birch", "cedar", "dunes", "ember", "fjord", "grove", "heath", "inlet", "knoll", "ledge")


@dataclass(frozen=True, slots=True)
class Due:
    """One event of the stream and when it is sent, in seconds after the request arrived."""

    at_s: float
    data: bytes


@dataclass(frozen=True, slots=True)
class Script:
    """An answer. is_whole: it ends as the protocol says; otherwise the connection closes after the last event."""

    events: tuple[Due, ...]
    is_whole: bool = True


def events_needed(fault: Fault | None) -> int:
    """The fewest content events with which the fault happens in mid-stream and leaves a trace."""
    match fault:
        case Fault(kind=Kind.CUT):
            lasts_s = fault.seconds + 1
        case Fault(kind=Kind.BUFFER):
            lasts_s = OPENING_EVENTS * MEAN_PACE_S + 3.5 * fault.seconds  # three full flushes are no single stall
        case Fault(kind=Kind.SLOW_READ):
            lasts_s = (fault.seconds + 2) * SLOW_READ_HASTE
        case _:
            return FEWEST_EVENTS
    return math.ceil(lasts_s / MEAN_PACE_S)


def middle_of(events: int) -> int:
    """The event that a stall holds: its index among all events of an answer with so many content events."""
    return max(1, events // 2)


def script(*, request_id: str, model: str, events: int, seed: int, fault: Fault | None = None) -> Script:
    """The answer to one request: the role, the content, the finish reason, the usage, and the mark of the end.

    fault: the worker's own, or the client's `slow-read`, for which events are larger and faster.
    """
    draw = random.Random(seed)
    is_hasty = fault is not None and fault.kind is Kind.SLOW_READ
    chars, haste = (SLOW_READ_EVENT_CHARS, SLOW_READ_HASTE) if is_hasty else (EVENT_CHARS, 1.0)
    frame = frame_of(request_id=request_id, model=model)
    at_s = THINKING_S
    dues = [Due(at_s, chunk(frame, {"role": "assistant", "content": ""}))]
    for index in range(events):
        at_s += draw.uniform(*PACE_S) / haste if index else 0.0  # the role is sent when the first text is there
        text = "".join(f"{draw.choice(_WORDS)} " for _ in range(chars // EVENT_CHARS))
        dues.append(Due(at_s, chunk(frame, {"content": text})))
    dues += ending(frame, at_s=at_s, events=events)
    return planted(Script(tuple(dues)), fault, middle=middle_of(events))


def ending(frame: Mapping[str, object], *, at_s: float, events: int) -> list[Due]:
    """What follows the content: the finish reason, the usage, and the mark of the end."""
    usage = {"prompt_tokens": 1, "completion_tokens": events, "total_tokens": events + 1}
    ends = (
        chunk(frame, {}, finish_reason="stop"),
        event({**frame, "choices": [], "usage": usage}),
        b"data: [DONE]\n\n",
    )
    return [Due(at_s, data) for data in ends]


def planted(answer: Script, fault: Fault | None, *, middle: int) -> Script:
    """The answer with the worker's fault in it; any other fault changes nothing."""
    match fault:
        case Fault(kind=Kind.SLOW_FIRST, seconds=seconds):
            return held(answer, 0, until_s=seconds)
        case Fault(kind=Kind.STALL, seconds=seconds):
            return held(answer, middle, until_s=answer.events[middle - 1].at_s + seconds)
        case Fault(kind=Kind.BUFFER, seconds=seconds):
            return flushed(answer, OPENING_EVENTS, every_s=seconds)
        case Fault(kind=Kind.CUT, seconds=seconds):
            return cut(answer, after_s=seconds)
        case _:
            return answer


def held(answer: Script, index: int, *, until_s: float) -> Script:
    """The event at the index waits until that time, and all after it are later by as much."""
    events = answer.events
    late_s = max(0.0, until_s - events[index].at_s)
    return replace(answer, events=(*events[:index], *(replace(due, at_s=due.at_s + late_s) for due in events[index:])))


def flushed(answer: Script, index: int, *, every_s: float) -> Script:
    """From the event at the index on each waits for the next flush; the last flush is at the end."""
    opening, waiting = answer.events[:index], answer.events[index:]
    start_s, end_s = opening[-1].at_s, answer.events[-1].at_s

    def flush_s(at_s: float) -> float:
        return min(start_s + math.ceil((at_s - start_s) / every_s) * every_s, end_s)

    return replace(answer, events=(*opening, *(replace(due, at_s=flush_s(due.at_s)) for due in waiting)))


def cut(answer: Script, *, after_s: float) -> Script:
    """It breaks off so many seconds after the request."""
    return Script(tuple(due for due in answer.events if due.at_s <= after_s), is_whole=False)


def frame_of(*, request_id: str, model: str) -> dict[str, object]:
    """What every chunk of one answer says."""
    return {
        "id": f"chatcmpl-{request_id}",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": model,
    }


def chunk(frame: Mapping[str, object], delta: Mapping[str, object], *, finish_reason: str | None = None) -> bytes:
    return event({**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})


def event(payload: Mapping[str, object]) -> bytes:
    return b"data: " + json.dumps(payload, separators=(",", ":")).encode() + b"\n\n"
