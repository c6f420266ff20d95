"""What can be planted: a fault in words, `HOP:KIND=SECONDS`, and the rules for what fits where.

The fault travels with the request in a header, so one running path serves requests with different faults, and
a person can plant one with curl. Every app looks whether the fault is its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

HEADER: Final = "x-demo-fault"

WORKER: Final = "model-worker"
PROXY: Final = "inference-proxy"
GATEWAY: Final = "gateway"
HOPS: Final = (WORKER, PROXY, GATEWAY)
"""The hops that have a sidecar, source first."""
CLIENT: Final = "client"

LIMIT_S: Final = 60.0
"""Longest fault in seconds. Past it somebody waits for a demo, and the limits of real hops come into play."""
UNNOTICED_S: Final = 0.25
"""What any hop or reader may add in seconds before a verdict names it: the floor of `otel.findings.Policy`."""
SLOW_FIRST_S: Final = 1.0
"""From here on in seconds the demo's collector calls a source's first event slow: lower than its default, so that a
short demo shows one."""
SKEW_LIMIT_S: Final = 10 * 365 * 86_400.0
"""Largest shift of a wall clock in seconds: ten years is more wrong than any clock, and every time stays in range."""


class Kind(StrEnum):
    """What goes wrong."""

    STALL = "stall"
    SLOW_FIRST = "slow-first"
    CUT = "cut"
    BUFFER = "buffer"
    FREEZE = "freeze"
    SLOW_READ = "slow-read"


MEANING: Final = {
    Kind.STALL: "holds one event in mid-stream for S",
    Kind.SLOW_FIRST: "holds the first event for S",
    Kind.CUT: "breaks off after S",
    Kind.BUFFER: "after the first events holds what comes, and flushes every S",
    Kind.FREEZE: "the model worker's process is stopped for S in mid-stream",
    Kind.SLOW_READ: "the client reads nothing for S after its window has closed",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One planted fault. str() gives back the words it was parsed from."""

    hop: str
    kind: Kind
    seconds: float

    def __str__(self) -> str:
        return f"{self.hop}:{self.kind}={self.seconds:g}"


class FaultError(ValueError):
    """The fault cannot be planted. `errors` lists every rule that it breaks."""

    def __init__(self, errors: Sequence[str]) -> None:
        super().__init__("; ".join(errors))
        self.errors = tuple(errors)


def parse(text: str, *, is_scripted: bool = True) -> Fault | None:
    """The fault of `HOP:KIND=SECONDS`, None for `none`. Raises FaultError.

    is_scripted: the model worker is ours; a real engine cannot be told to misbehave, only be stopped.
    """
    if text == "none":
        return None
    place, equals, amount = text.partition("=")
    hop, colon, word = place.partition(":")
    if not (equals and colon):
        raise FaultError([f"{text!r} is not HOP:KIND=SECONDS or none"])
    errors = []
    if hop not in (*HOPS, CLIENT):
        errors.append(f"{hop!r}: the hop must be one of {', '.join((*HOPS, CLIENT))}")
    if word not in set(Kind):
        errors.append(f"{word!r}: the kind must be one of {', '.join(Kind)}")
    elif hop in (*HOPS, CLIENT):
        errors += _misfits(hop, Kind(word), is_scripted=is_scripted)
    seconds = _number(amount)
    if seconds is None or not 0 < seconds <= LIMIT_S:
        errors.append(f"{amount!r}: the seconds must be a number above 0 and at most {LIMIT_S:g}")
    if errors or seconds is None:
        raise FaultError(errors)
    return Fault(hop, Kind(word), seconds)


def parse_skew(text: str) -> tuple[str, float]:
    """(hop, seconds) of `HOP=SECONDS`: how far the wall clock of that hop's sidecar is wrong. Raises FaultError."""
    hop, equals, amount = text.partition("=")
    seconds = _number(amount)
    errors = []
    if not equals:
        errors.append(f"{text!r} is not HOP=SECONDS")
    elif hop not in HOPS:
        errors.append(f"{hop!r}: the hop must be one of {', '.join(HOPS)}")
    if equals and (seconds is None or abs(seconds) > SKEW_LIMIT_S):
        errors.append(f"{amount!r}: the seconds must be a number within ±{SKEW_LIMIT_S:g}")
    if errors or seconds is None:
        raise FaultError(errors)
    return hop, seconds


def unnoticed(fault: Fault) -> str | None:
    """Why no verdict would name the fault: it is no longer than what is usual there. None when it is longer."""
    match fault.kind:
        case Kind.CUT:
            return None
        case Kind.SLOW_FIRST if fault.hop == WORKER:
            least_s, allowed = SLOW_FIRST_S, "a model may take to its first output"
        case _:
            least_s, allowed = UNNOTICED_S, "a hop or reader may add unnoticed"
    if fault.seconds > least_s:
        return None
    return f"{fault}: must be more than {least_s:g} s, which {allowed}"


def planted(header: str | None, *, is_scripted: bool = True) -> Fault | None:
    """The fault that a request's header asks some hop for, if any. Raises FaultError."""
    fault = None if header is None else parse(header, is_scripted=is_scripted)
    if fault is not None and fault.kind is Kind.FREEZE:
        raise FaultError([f"{fault.hop}:{Kind.FREEZE}: no hop can stop itself; `gapline demo --fault` does it"])
    return fault


def _misfits(hop: str, kind: Kind, *, is_scripted: bool) -> list[str]:
    if (kind is Kind.SLOW_READ) != (hop == CLIENT):
        return [f"{hop}:{kind}: a client can only {Kind.SLOW_READ}, and only a client can"]
    if kind is Kind.FREEZE and hop != WORKER:
        return [f"{hop}:{kind}: only the {WORKER} can be frozen"]
    if hop == WORKER and kind is not Kind.FREEZE and not is_scripted:
        return [f"{hop}:{kind}: a real engine cannot be told to; {WORKER}:{Kind.FREEZE} stops its process"]
    if kind is Kind.SLOW_READ and not is_scripted:
        return [f"{hop}:{kind}: needs the larger events of the scripted worker"]
    return []


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
