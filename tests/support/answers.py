"""Answers of a collector to show: streams of a simple model, with one thing wrong, in the JSON of the query API.

Every hop hands an event on 2 ms after it arrived. What is wrong is a `Hold`: a segment keeps event `seq` for some
seconds and everything behind it waits. The numbers of an answer follow from the stamps, as the collector's would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

HOPS: Final = ("model-worker", "inference-proxy", "gateway")
TRAVEL_S: Final = 0.002
GAP_S: Final = 0.25

Answer = dict[str, Any]


@dataclass(frozen=True)
class Hold:
    """The segment at this index keeps event seq for seconds. Segments run source, self, between, self, …, reader."""

    segment: int
    seq: int
    seconds: float


@dataclass(frozen=True)
class Stream:
    """What the source sends: when, and of which class."""

    hops: Sequence[str] = HOPS
    events: int = 240
    every_s: float = 0.025
    first_s: float = 0.18
    holds: Sequence[Hold] = ()
    classes: Callable[[int], str] = lambda seq: "control" if seq == 0 else "content"
    ends: bool = True
    skew_s: Sequence[float] = ()

    @property
    def labels(self) -> list[str]:
        made = ["source"]
        for hop, after in zip(self.hops, [*self.hops[1:], "client"], strict=True):
            made += [f"self:{hop}", f"{hop}>{after}"]
        return made

    @property
    def owners(self) -> list[str]:
        made = [f"{self.hops[0]} app"]
        for hop, after in zip(self.hops, [*self.hops[1:], ""], strict=True):
            made += [f"{hop} sidecar", f"{after} app" if after else "client"]
        return made

    def times(self) -> list[list[float]]:
        """For every segment the instant at which each event left it, by the clock of the picture."""
        times: list[float] = []
        for seq in range(self.events):
            jitter = ((seq * 37) % 11 - 5) * self.every_s / 25
            times.append(self.first_s + seq * self.every_s + jitter)
        left: list[list[float]] = []
        for segment in range(len(self.labels)):
            travel = 0.0 if segment == 0 else TRAVEL_S / 20 if segment % 2 else TRAVEL_S
            times = [at + travel for at in times]
            for hold in self.holds:
                if hold.segment == segment:
                    until = times[hold.seq] + hold.seconds
                    late = hold.seconds if segment == 0 else 0.0  # a source goes on at its pace, others catch up
                    times = [at if seq < hold.seq else max(at + late, until) for seq, at in enumerate(times)]
            left.append(times)
        return left

    def class_of(self, seq: int) -> str:
        return "terminal" if self.ends and seq == self.events - 1 else self.classes(seq)


@dataclass
class Case:
    """One answer in the making: the stream, and what the collector says of it."""

    stream: Stream
    request_id: str = "req-7f3a9c21"
    model: str | None = "llama-3.3-70b"
    said: Answer = field(default_factory=dict)
    outcomes: Sequence[str | None] = ()
    blocked: dict[str, list[list[float]]] = field(default_factory=dict)
    lag: dict[str, list[list[float]]] = field(default_factory=dict)
    tail_s: float = 0.004
    wait_of: int | None = None
    wait_from: int | None = None  # of a stretch the event before it, else the one before wait_of

    @property
    def wait_after(self) -> int | None:
        return self.wait_from if self.wait_from is not None else self.wait_of - 1 if self.wait_of else None

    def timeline(self) -> Answer:
        left = self.stream.times()
        taps = [self._tap(index, left) for index in range(len(self.stream.hops))]
        verdict = self._verdict(left, taps)
        wait = None
        if self.wait_of is not None and verdict["contributions"]:
            start = 0.0 if self.wait_after is None else left[-2][self.wait_after]
            wait = {
                "start_s": _r(start - taps[-1]["shift_s"]),
                "end_s": _r(left[-1][self.wait_of] - taps[-1]["shift_s"]),
            }
        return {
            "request_id": self.request_id,
            "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
            "verdict": verdict,
            "taps": taps,
            "wait": wait,
        }

    def _outcome(self, index: int) -> str | None:
        return self.outcomes[index] if self.outcomes else "complete"

    def _tap(self, index: int, left: list[list[float]]) -> Answer:
        hop = self.stream.hops[index]
        zero = _r((len(self.stream.hops) - 1 - index) * TRAVEL_S)  # the request came from the reader's side
        arrived = [_r(at - zero) for at in left[2 * index]]
        blocked = self.blocked.get(hop, [])
        taken = [_r(max([at - zero, *(b for a, b in blocked if a <= at - zero < b)])) for at in left[2 * index + 1]]
        end = taken[-1] + self.tail_s
        return {
            "hop": hop,
            "role": "ingress",
            "shift_s": zero,
            "duration_s": _r(end),
            "outcome": self._outcome(index),
            "stamps": [
                [seq, at, until, self.stream.class_of(seq), seq * 32]
                for seq, (at, until) in enumerate(zip(arrived, taken, strict=True))
            ],
            "blocked": blocked,
            "lag": self.lag.get(hop, []),
            "gaps": [
                {"seq": seq + 1, "start_s": a, "end_s": b}
                for seq, (a, b) in enumerate(pairwise(arrived))
                if b - a >= GAP_S
            ],
            "is_thinned": False,
        }

    def _verdict(self, left: list[list[float]], taps: list[Answer]) -> Answer:
        terms = self._terms(left)
        gap_s = _r(sum(term["seconds"] for term in terms))
        base: Answer = {
            "request_id": self.request_id,
            "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
            "status": "healthy",
            "verdict_final": True,
            "open": False,
            "as_of": "2026-01-17T03:12:09.482Z",
            "since": "2026-01-17T03:12:02.710Z" if terms else None,
            "cause": "none",
            "first_hop": None,
            "owner": None,
            "segment": None,
            "gap_s": gap_s,
            "at_seq": None,
            "at_position": None,
            "at_position_exact": None,
            "wait": "gap" if terms else None,
            "contributions": terms,
            "others": [],
            "confidence": 0.9,
            "missing": [],
            "observed_to": "reader_kernel",
            "evidence": self._evidence(),
            "hops": [self._hop(index, tap) for index, tap in enumerate(taps)],
            "sentence": "",
        }
        said = dict(self.said)
        if "sentence" in said:
            said["sentence"] = said["sentence"].replace("GAP", f"{gap_s:.2f} s")
        return base | said

    def _terms(self, left: list[list[float]]) -> list[Answer]:
        if self.wait_of is None:
            return []
        after = self.wait_after
        silences = [times[self.wait_of] - (0.0 if after is None else times[after]) for times in left]
        before = 0.0
        terms = []
        for label, owner, silence in zip(self.stream.labels, self.stream.owners, silences, strict=True):
            terms.append({"segment": label, "owner": owner, "seconds": _r(silence - before)})
            before = silence
        return terms

    def _evidence(self) -> Answer:
        return {
            "alignment": "ordinal",
            "position_quantum": 32,
            "source_limit_s": 0.25,
            "source_rhythm_s": 0.03,
            "blocked_s": {hop: _r(sum(b - a for a, b in self.blocked.get(hop, []))) for hop in self.stream.hops},
            "lag_s": {hop: _r(sum(b - a for a, b in self.lag.get(hop, []))) for hop in self.stream.hops},
            "attempts": 0,
        } | self.said.get("evidence", {})

    def _hop(self, index: int, tap: Answer) -> Answer:
        outcome = self._outcome(index)
        arrived = [stamp[1] for stamp in tap["stamps"]]
        skew_s = self.stream.skew_s[index] if self.stream.skew_s else 0.0
        return {
            "hop": tap["hop"],
            "role": tap["role"],
            "events": len(arrived),
            "outcome": outcome,
            "ended_by": None if outcome is None else "downstream" if outcome == "client_disconnect" else "upstream",
            "phase": None if outcome is None else "terminal" if outcome == "complete" else "events",
            "hold_s": _r(max(stamp[2] - stamp[1] for stamp in tap["stamps"])),
            "bytes_in": 214 * len(arrived),
            "bytes_out": 214 * len(arrived),
            "status": 200,
            "model": self.model,
            "duration_s": tap["duration_s"],
            "first_event_s": arrived[0],
            "longest_gap_s": _r(max((b - a for a, b in pairwise(arrived)), default=0.0)),
            "blocked_s": _r(sum(b - a for a, b in tap["blocked"])),
            "lag_s": _r(sum(b - a for a, b in tap["lag"])),
            "comments": 0,
            "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
            "span_id": f"{index + 1:016x}",
            "started_at": f"2026-01-17T{3 + round(skew_s / 3600):02}:12:01.{100 + index}Z",
        }


def _r(value: float) -> float:
    return round(value, 6) + 0.0


def _named(cause: str, hop: str, owner: str, ends: tuple[str, str], sentence: str, **more: Any) -> Answer:
    return {
        "status": "named",
        "cause": cause,
        "first_hop": hop,
        "owner": owner,
        "segment": {"from": ends[0], "to": ends[1]},
        "confidence": 0.95,
        "sentence": sentence,
        **more,
    }


def _at(seq: int) -> str:
    return f"a GAP gap after {seq} events ({seq * 32:,} characters) at the reader"


def source_stall() -> Answer:
    sentence = f"Model-worker app sent nothing for GAP: {_at(101)}, and no other hop added as much."
    said = _named("source_stall", "model-worker", "model-worker app", ("source", "model-worker"), sentence)
    said |= {"at_seq": 101, "at_position": 3232, "at_position_exact": True}
    answer = Case(Stream(holds=[Hold(0, 101, 2.0)]), said=said, wait_of=101).timeline()
    answer["verdict"]["evidence"]["engine"] = {
        "server": "vllm",
        "running": 9,
        "waiting": 3,
        "kv_cache_share": 0.97,
        "preemptions_since_last_event": 2,
        "asked_after_s": 2.0,
        "before_running": 4,
        "before_waiting": 0,
        "before_kv_cache_share": 0.51,
    }
    return answer


def app_stall_at_the_proxy() -> Answer:
    sentence = f"Inference-proxy app held the answer for 2.00 s: {_at(101)}, and no other hop added as much."
    ends = ("model-worker", "inference-proxy")
    said = _named("app_stall", "inference-proxy", "inference-proxy app", ends, sentence)
    said |= {
        "at_seq": 101,
        "at_position": 3232,
        "at_position_exact": True,
        "evidence": {
            "detail": "one long hold",
            "bytes_were": "with the peer",
            "kernel": {
                "sampled_s": 2.0,
                "unacknowledged_s": 0.0,
                "lost_share": 0.0,
                "window_shrunk_share": 0.0,
                "window_bytes": 65536,
                "window_peak_bytes": 65536,
            },
        },
    }
    return Case(Stream(holds=[Hold(2, 101, 2.0)]), said=said, wait_of=101).timeline()


def slow_reader() -> Answer:
    sentence = (
        "The reader behind gateway did not take the answer for 3.00 s: a GAP gap after 131 events (4,192 "
        "characters) at the reader, and no other hop added as much."
    )
    said = _named("slow_reader", "client", "client", ("gateway", "client"), sentence, confidence=0.9)
    said |= {
        "at_seq": 131,
        "at_position": 4192,
        "at_position_exact": True,
        "evidence": {
            "detail": None,
            "bytes_were": "with the peer",
            "kernel": {
                "sampled_s": 3.05,
                "unacknowledged_s": 2.98,
                "lost_share": 0.0,
                "window_shrunk_share": 0.97,
                "window_bytes": 0,
                "window_peak_bytes": 131072,
            },
        },
    }
    return Case(
        Stream(holds=[Hold(6, 131, 3.0)]),
        said=said,
        wait_of=131,
        blocked={"gateway": [[3.52, 6.44]], "inference-proxy": [[5.1, 6.46]]},
    ).timeline()


def truncated() -> Answer:
    sentence = (
        "Inference-proxy app broke the answer off after 140 events (4,448 characters): its upstream "
        "had not ended, and no end mark was sent."
    )
    ends = ("model-worker", "inference-proxy")
    said = _named("truncated", "inference-proxy", "inference-proxy app", ends, sentence)
    said |= {"at_seq": 139, "at_position": 4448, "gap_s": 0.0, "wait": None}
    case = Case(
        Stream(events=140, ends=False),
        said=said,
        outcomes=["client_disconnect", "upstream_cut", "missing_terminal"],
    )
    return case.timeline()


def healthy() -> Answer:
    sentence = (
        "No hop held this answer up: it was delivered to the reader's machine on time; whether it was read was not "
        "observed; its longest pause was 0.03 s."
    )
    return Case(Stream(), said={"sentence": sentence}, wait_of=101).timeline()


def inconclusive() -> Answer:
    missing = [
        "no tap between model-worker and gateway: inference-proxy was expected and sent nothing",
        (
            "the rhythm of this source is unknown: the answer shows fewer than five bursts, and no other answer of "
            "model-worker has been seen"
        ),
    ]
    said = {
        "status": "inconclusive",
        "confidence": 0.0,
        "missing": missing,
        "sentence": f"Cannot tell which hop held this answer up: {'; '.join(missing)}.",
        "others": [
            {
                "cause": "source_stall",
                "first_hop": "model-worker",
                "owner": "model-worker app",
                "segment": {"from": "source", "to": "model-worker"},
                "seconds": 1.388,
                "wait": "gap",
                "gap_s": 1.388,
                "at_seq": 3,
            }
        ],
        "evidence": {"source_limit_s": 5.0, "source_rhythm_s": None},
        "observed_to": "our_kernel",
    }
    stream = Stream(hops=("model-worker", "gateway"), events=5, every_s=0.4, holds=[Hold(0, 3, 1.1)])
    return Case(stream, said=said, wait_of=3).timeline()


def open_stream() -> Answer:
    sentence = (
        "Model-worker app sent nothing for 12.00 s so far: a 12.00 s gap after 79 events (2,528 "
        "characters) at the reader, and no other hop added as much."
    )
    said = _named("source_stall", "model-worker", "model-worker app", ("source", "model-worker"), sentence)
    said |= {
        "open": True,
        "verdict_final": False,
        "at_seq": 79,
        "at_position": 2528,
        "at_position_exact": True,
        "gap_s": 12.0,
        "wait": "gap",
        "contributions": [
            {"segment": label, "owner": owner, "seconds": 12.0 if label == "source" else 0.0}
            for label, owner in zip(Stream().labels, Stream().owners, strict=True)
        ],
    }
    stream = Stream(events=80, ends=False)
    answer = Case(stream, said=said, outcomes=[None, None, None], tail_s=12.0).timeline()
    last = answer["taps"][-1]
    return answer | {"wait": {"start_s": last["stamps"][-1][2], "end_s": last["duration_s"]}}


def self_hold() -> Answer:
    sentence = f"Our own sidecar at inference-proxy held the answer for 1.20 s: {_at(121)}."
    ends = ("inference-proxy", "inference-proxy")
    said = _named("self", "inference-proxy", "inference-proxy sidecar", ends, sentence)
    said |= {"at_seq": 121, "at_position": 3872}
    return Case(
        Stream(holds=[Hold(3, 121, 1.2)]), said=said, wait_of=121, lag={"inference-proxy": [[3.2, 4.39]]}
    ).timeline()


def slow_first_event() -> Answer:
    sentence = (
        "Gateway app held the answer for 3.20 s: a GAP wait for the first output at the reader, and no other hop "
        "added as much."
    )
    said = _named("slow_first_event", "gateway", "gateway app", ("inference-proxy", "gateway"), sentence)
    said |= {"at_seq": 0, "at_position": 0, "wait": "first_event"}
    return Case(Stream(holds=[Hold(4, 0, 3.2)]), said=said, wait_of=0).timeline()


def buffering_at_the_gateway() -> Answer:
    sentence = (
        "Gateway app held output back and released it in bursts, up to 0.97 s each time: a GAP gap after "
        "161 events (5,152 characters) at the reader, and no other hop added as much."
    )
    said = _named("buffering", "gateway", "gateway app", ("inference-proxy", "gateway"), sentence)
    said |= {"at_seq": 161, "at_position": 5152}
    holds = [Hold(4, seq, 1.0) for seq in (1, 41, 81, 121, 161, 201)]
    return Case(Stream(holds=holds), said=said, wait_of=161).timeline()


def throttling_at_the_proxy() -> Answer:
    sentence = (
        "Inference-proxy app passed the answer on more slowly than it came, 4.16 s in all: GAP without one long gap, "
        "from after 121 events (3,872 characters) on, at the reader, and no other hop added as much."
    )
    ends = ("model-worker", "inference-proxy")
    said = _named("throttling", "inference-proxy", "inference-proxy app", ends, sentence)
    said |= {
        "at_seq": 121,
        "at_position": 3872,
        "wait": "pace",
        "evidence": {
            "median_gap_s": {"model-worker": 0.025, "inference-proxy": 0.03, "gateway": 0.03},
            "p90_gap_s": {"model-worker": 0.029, "inference-proxy": 0.06, "gateway": 0.06},
        },
    }
    holds = [Hold(2, seq, 0.06) for seq in range(120, 240)]
    return Case(Stream(holds=holds), said=said, wait_of=239, wait_from=120).timeline()


def hidden_output() -> Answer:
    sentence = (
        "Nothing stalled: model-worker app sent reasoning or control events all through a 3.02 s gap after 150 "
        "events (960 characters) at the reader."
    )

    def classes(seq: int) -> str:
        return "reasoning" if 30 <= seq < 150 else "keepalive" if seq % 40 == 20 else "content"

    said = _named("hidden_output", "model-worker", "model-worker app", ("source", "model-worker"), sentence)
    said |= {"at_seq": 150, "at_position": 960, "gap_s": 3.02, "contributions": []}
    answer = Case(Stream(classes=classes), said=said, wait_of=150).timeline()
    stamps = answer["taps"][-1]["stamps"]
    return answer | {"wait": {"start_s": stamps[29][2], "end_s": stamps[150][2]}}


FIVE_HOPS: Final = ("vllm-0", "model-router", "safety-filter", "tenant-gateway", "edge-gateway.eu-central-1")


def five_hops() -> Answer:
    sentence = (
        "Safety-filter app held the answer for 1.70 s: a GAP gap after 201 events (6,432 "
        "characters) at the reader, and no other hop added as much; edge-gateway.eu-central-1 app added 0.40 s as well."
    )
    said = _named("app_stall", "safety-filter", "safety-filter app", ("model-router", "safety-filter"), sentence)
    said |= {
        "at_seq": 201,
        "at_position": 6432,
        "others": [
            {
                "cause": "app_stall",
                "first_hop": "edge-gateway.eu-central-1",
                "owner": "edge-gateway.eu-central-1 app",
                "segment": {"from": "tenant-gateway", "to": "edge-gateway.eu-central-1"},
                "seconds": 0.4,
                "wait": "gap",
                "gap_s": 2.118,
                "at_seq": 201,
            }
        ],
    }
    stream = Stream(hops=FIVE_HOPS, events=400, holds=[Hold(0, 200, 0.2), Hold(4, 201, 1.7), Hold(8, 201, 0.4)])
    case = Case(stream, request_id="1b4e28ba-2fa1-41d2-883f-0016d3cca427", said=said, wait_of=201)
    return case.timeline()


def skewed_clocks() -> Answer:
    """The wall clocks of two hops are an hour off, one each way; the lanes line up all the same."""
    answer = source_stall()
    for hop, start in zip(answer["verdict"]["hops"], ("02:12:01", "04:12:01", "03:12:01"), strict=True):
        hop["started_at"] = f"2026-01-17T{start}.100Z"
    return answer


def thirty_thousand_events() -> Answer:
    sentence = (
        "Model-worker app sent nothing for GAP: a GAP gap after 21,000 events (672,000 "
        "characters) at the reader, and no other hop added as much."
    )
    said = _named("source_stall", "model-worker", "model-worker app", ("source", "model-worker"), sentence)
    said |= {"at_seq": 21_000, "at_position": 672_000}
    stream = Stream(events=30_000, every_s=0.02, holds=[Hold(0, 21_000, 2.0)])
    return Case(stream, request_id="req-long", said=said, wait_of=21_000).timeline()


ANSWERS: Final[dict[str, Callable[[], Answer]]] = {
    made.__name__: made
    for made in (
        source_stall,
        app_stall_at_the_proxy,
        slow_reader,
        truncated,
        healthy,
        inconclusive,
        open_stream,
        self_hold,
        slow_first_event,
        buffering_at_the_gateway,
        throttling_at_the_proxy,
        hidden_output,
        five_hops,
        skewed_clocks,
    )
}
"""The timelines (each with its verdict inside) that are kept in tests/golden/answers."""


STALL_KEYS: Final = (
    *("request_id", "trace_id", "status", "cause", "first_hop", "owner", "wait", "gap_s", "confidence", "open"),
    "sentence",
)


def stalls() -> Answer:
    """Four requests of the last hour, as a list."""
    made = [
        ("1b4e28ba-2fa1-41d2-883f-0016d3cca427", "2026-01-17T03:12:09.100Z", five_hops),
        ("chatcmpl-AsPqh7YtXNZtNyqp", "2026-01-17T03:08:41.000Z", open_stream),
        ("req-7f3a9c21", "2026-01-17T02:59:00.250Z", truncated),
        ("req-02", "2026-01-16T23:40:10.000Z", inconclusive),
    ]
    rows = []
    for request_id, at, example in made:
        answer = example()["verdict"] | {"request_id": request_id}
        rows.append({"at": at, "model": answer["hops"][0]["model"], **{key: answer[key] for key in STALL_KEYS}})
    return {"as_of": "2026-01-17T03:12:30Z", "stalls": rows, "has_more": False}
