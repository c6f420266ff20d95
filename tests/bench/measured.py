"""What one measurement of one contender says; one in which anything was wrong has no figure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from tests.bench.loads import Kind, Load


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What the readers counted and found. left: streams of a flood that they left, whole as far as they had come."""

    events: int
    window_events: int
    window_bytes: int
    window_requests: int
    requests: int
    streams: int
    whole: int
    left: int
    p50_us: float
    p90_us: float
    p99_us: float
    most_us: float
    wrong: Mapping[str, int]

    @classmethod
    def of(cls, said: str) -> Self:
        """The object that they print. Raises ValueError for anything else."""
        told = json.loads(said)
        if not isinstance(told, dict) or told.keys() != {field.name for field in fields(cls)}:
            raise ValueError(f"the readers said {said[:200]!r}, not what they count")
        return cls(**told)

    def faults(self, *, sent_events: int | None) -> tuple[str, ...]:
        """What was wrong. sent_events: what the upstream made, None where that is not to be compared."""
        found = [f"{count} × {kind}" for kind, count in self.wrong.items()]
        if not found and self.whole + self.left != self.streams:
            found.append(f"{self.whole} of {self.streams} whole")
        if not found and not self.left and sent_events is not None and sent_events != self.events:
            found.append(f"{self.events} events of {sent_events} came")
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One contender under one load, once.

    cpu_s: processor time within window_s, of all threads. busiest: the part of it of the busiest process. load_share:
    how busy the other core was. grown_bytes: resident memory that came with the streams, woken_s: how long it took
    until each had its last event and its end when all were woken; both of loads of memory only. all_cpu_s and
    all_events: from before the first request until it rested again, so with requests, ends and records. faults: why
    there is no figure.
    """

    window_s: float
    cpu_s: float
    load_share: float
    streams: int
    busiest: float = 1.0
    events: int = 0
    requests: int = 0
    expected_events: float = 0.0
    p50_us: float = 0.0
    p99_us: float = 0.0
    grown_bytes: int = 0
    woken_s: float = 0.0
    all_cpu_s: float = 0.0
    all_events: int = 0
    faults: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, counted: Counted, load: Load, *, window_s: float, cpu_s: float, load_share: float, sent_events: int | None
    ) -> Self:
        """What the readers counted within the window that was asked for, and the processor within window_s, which
        is longer or shorter by what it takes to look."""
        is_short = load.kind is Kind.SHORT
        faults = counted.faults(sent_events=None if is_short else sent_events)
        if not faults and not (counted.window_requests if is_short else counted.window_events):
            faults = ("nothing came within the window",)
        return cls(
            window_s=load.window_s,
            cpu_s=cpu_s * load.window_s / window_s,
            load_share=load_share,
            streams=counted.streams,
            events=counted.window_events,
            requests=counted.window_requests,
            expected_events=load.streams * load.rate * load.window_s,
            p50_us=counted.p50_us,
            p99_us=counted.p99_us,
            all_events=counted.events,
            faults=faults,
        )

    @property
    def cpu_us_per_event(self) -> float:
        return self.cpu_s * 1e6 / self.events

    @property
    def all_cpu_us_per_event(self) -> float:
        return self.all_cpu_s * 1e6 / self.all_events

    @property
    def cpu_us_per_request(self) -> float:
        return self.cpu_s * 1e6 / self.requests

    @property
    def cpu_share(self) -> float:
        """Of one core."""
        return self.cpu_s / self.window_s

    @property
    def delivered(self) -> float:
        """Events within the window, of those that were due in it."""
        return self.events / self.expected_events

    @property
    def events_per_core_s(self) -> float:
        """Events in a second in which its core is busy."""
        return self.events / self.cpu_s

    @property
    def kb_per_stream(self) -> float:
        return self.grown_bytes / 1024 / self.streams

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        return cls(**{**told, "faults": tuple(told["faults"])})
