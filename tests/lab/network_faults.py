"""Faults of real links, one after the other, under streams of all kinds: is each named `network`, at the right link?

    python -m tests.lab.network_faults --seed 1 --faults 24

A chain of three hops and a reader stands in network namespaces. For a while one link is a black hole, loses packets or
is slow. Several readers feel each fault, with events of their own size and pace; half of the chains have small receive
buffers. Exit code 1 where a verdict is wrong with a confidence of 0.8 or more, or a slow reader is named at all.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Final

from otel.demo.conduct import wait_for_verdict
from otel.demo.faults import CLIENT, HOPS
from otel.demo.processes import exit_on_signals
from tests.lab.linked import QUERY, Linked, connected, running
from tests.lab.marks import CONFIDENT
from tests.lab.namespaces import CONTROL, Network
from tests.lab.stopping import Reading, read
from tests.readers.reading import Missing

READERS: Final = 3
"""Streams that feel the same fault: more would have two cores add waits of their own."""
PLACES: Final = (*HOPS, CLIENT)
SMALL_BYTES: Final = 16_384
FAULT_AT_S: Final = 1.5
"""After the question: a rhythm is known by then."""
CALM_S: Final = 2.0
"""So long it goes on behind the fault."""
FELT_S: Final = 0.6
"""From so much lateness on a verdict has to name somebody; less may be several waits, each too short for that."""


class Kind(StrEnum):
    """What is wrong with a link for a while."""

    BLACK_HOLE = "black hole"
    LOSS = "loss"
    RATE = "rate"


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to which link. amount: the share that is lost, or the bits a second that still pass."""

    number: int
    kind: Kind
    between: tuple[str, str]
    seconds: float
    amount: float
    has_small_buffers: bool

    def __str__(self) -> str:
        rate = f" of {self.amount / 1e3:.0f} kbit/s"
        much = {Kind.BLACK_HOLE: "", Kind.LOSS: f" of {self.amount:.0%}", Kind.RATE: rate}
        where = f"{' > '.join(self.between)}{', small buffers' if self.has_small_buffers else ''}"
        return f"{self.kind}{much[self.kind]} for {self.seconds:.1f} s at {where}"


@dataclass(frozen=True, slots=True)
class Stream:
    """What one reader asks for."""

    chars: int
    pace_ms: float
    lasts_s: float

    @property
    def events(self) -> int:
        return round(self.lasts_s * 1e3 / self.pace_ms)

    @property
    def body(self) -> dict[str, object]:
        return {"events": self.events, "chars": self.chars, "pace_ms": self.pace_ms}


class Mark(StrEnum):
    """What a verdict is worth."""

    RIGHT = "network, at this link"
    UNFELT = "healthy, and nothing was felt"
    MISSED = "healthy, and it was felt"
    UNSURE = "inconclusive"
    WRONG_CAUSE = "this segment, another cause"
    WRONG_LINK = "another segment"
    BROKEN = "the answer did not come whole"


WRONG: Final = frozenset({Mark.MISSED, Mark.WRONG_CAUSE, Mark.WRONG_LINK, Mark.BROKEN})


@dataclass(frozen=True, slots=True)
class Result:
    """One stream under one fault: what its reader felt, and what the verdict says."""

    fault: Fault
    stream: Stream
    felt_s: float
    is_whole: bool
    request_id: str
    verdict: Mapping[str, Any]
    timeline: Mapping[str, Any]

    @property
    def mark(self) -> Mark:
        return mark(self.fault, self.felt_s, self.verdict) if self.is_whole else Mark.BROKEN

    @property
    def is_failed(self) -> bool:
        """Confidently wrong, or a reader is accused who reads."""
        is_confident = self.mark is Mark.MISSED or self.verdict["confidence"] >= CONFIDENT
        return (self.mark in WRONG and is_confident) or self.verdict["cause"] == "slow_reader"


def fault(seed: int, number: int) -> Fault:
    draw = random.Random(f"{seed} fault {number}")
    kind, link = list(Kind)[number % 3], number // 3 % len(HOPS)
    amount = {Kind.BLACK_HOLE: 1.0, Kind.LOSS: draw.uniform(0.3, 0.6), Kind.RATE: 10 ** draw.uniform(4.2, 4.9)}[kind]
    seconds = draw.uniform(0.5, 2.5) if kind is Kind.BLACK_HOLE else draw.uniform(1.0, 3.0)
    return Fault(number, kind, (PLACES[link], PLACES[link + 1]), seconds, amount, number // 9 % 2 == 1)


def streams(seed: int, fault: Fault) -> list[Stream]:
    draw = random.Random(f"{seed} streams {fault.number}")
    lasts_s = FAULT_AT_S + fault.seconds + CALM_S
    return [Stream(round(10 ** draw.uniform(0.8, 3.0)), draw.uniform(15, 40), lasts_s) for _ in range(READERS)]


def felt_s(reading: Reading, stream: Stream) -> float:
    """By how much more than at its best before the fault the reader was behind the source, at the worst."""
    counts = [0, *(events for _, events in reading.reads)]
    late = [
        (at_s - reading.begun_s, at_s - reading.begun_s - before * stream.pace_ms / 1e3)
        for (at_s, events), before in zip(reading.reads, counts, strict=False)
        if before < events and before < stream.events  # by the first event that it brought
    ]
    usual_s = min((late_s for at_s, late_s in late if at_s < FAULT_AT_S), default=0.0)
    return max((late_s - usual_s for at_s, late_s in late if at_s >= FAULT_AT_S), default=0.0)


def mark(fault: Fault, felt: float, verdict: Mapping[str, Any]) -> Mark:
    """Whether the verdict is what happened, as far as the reader felt it."""
    if verdict["status"] == "inconclusive":
        return Mark.UNSURE
    if verdict["status"] == "healthy":
        return Mark.MISSED if felt > FELT_S else Mark.UNFELT
    if verdict["first_hop"] != fault.between[1]:
        return Mark.WRONG_LINK
    return Mark.RIGHT if verdict["cause"] == "network" else Mark.WRONG_CAUSE


def run(faults: Sequence[Fault], *, seed: int, say: Callable[[str], None]) -> Iterator[Result]:
    """All of them, in two chains. Raises `Missing` where there are no such networks."""
    for is_small, group in groupby(
        sorted(faults, key=lambda f: f.has_small_buffers), key=lambda f: f.has_small_buffers
    ):
        say(f"-- {'small buffers' if is_small else 'buffers as the kernel likes them'}")
        with (
            tempfile.TemporaryDirectory(prefix="gapline-links-", ignore_cleanup_errors=True) as folder,
            Network(PLACES, receive_bytes=SMALL_BYTES if is_small else None, seed=seed) as network,
            running(network, Path(folder)) as linked,
            ThreadPoolExecutor(READERS) as pool,
        ):
            for each in group:
                yield from _under(linked, each, streams(seed, each), pool)


def _under(linked: Linked, fault: Fault, asked: Sequence[Stream], pool: ThreadPoolExecutor) -> Iterator[Result]:
    ids = [uuid.uuid4().hex for _ in asked]
    reading = [pool.submit(_read, linked, request_id, stream) for request_id, stream in zip(ids, asked, strict=True)]
    time.sleep(FAULT_AT_S)
    network = linked.network
    match fault.kind:
        case Kind.BLACK_HOLE:
            network.black_hole(fault.between, fault.seconds)
        case Kind.LOSS:
            network.loss(fault.between, fault.amount, fault.seconds)
        case Kind.RATE:
            network.rate(fault.between, fault.amount, fault.seconds)
    for request_id, stream, each in zip(ids, asked, [future.result() for future in reading], strict=True):
        with network.inside(CONTROL):
            verdict = wait_for_verdict(f"http://127.0.0.1:{QUERY}", request_id)
        timeline = linked.collected(f"/v1/requests/{request_id}/timeline")
        yield Result(fault, stream, felt_s(each, stream), each.is_whole, request_id, verdict, timeline)


def _read(linked: Linked, request_id: str, stream: Stream) -> Reading:
    with connected(linked) as wire:
        return read(wire, request_id=request_id, body=stream.body)


def report(results: Sequence[Result]) -> str:
    """A matrix of kinds and links, and what was wrong."""
    lines = [f"{len(results)} streams under {len({result.fault.number for result in results})} faults"]
    for kind in Kind:
        for link in pairwise(PLACES):
            marks = Counter(r.mark for r in results if r.fault.kind is kind and r.fault.between == link)
            words = ", ".join(f"{count} {mark}" for mark, count in marks.most_common())
            lines += [f"{kind:11s} {' > '.join(link):30s} {words}"] if marks else []
    totals = Counter(result.mark for result in results)
    lines.append(", ".join(f"{totals[mark]} {mark}" for mark in Mark if totals[mark]))
    return "\n".join(lines)


def line(result: Result) -> str:
    verdict = result.verdict
    said = f"{verdict['cause']} @ {verdict['first_hop']} ({verdict['confidence']:.2f}, {verdict['gap_s'] or 0:.2f} s)"
    stream = f"{result.stream.chars} characters every {result.stream.pace_ms:.0f} ms"
    felt = f"{result.fault.number:4d} {result.mark.name:11s} felt {result.felt_s:5.2f} s"
    return f"{felt}  {said:48s} {result.fault}; {stream}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab.network_faults", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--seed", type=int, default=1, help="of all that is drawn [1]")
    parser.add_argument(
        "--faults", type=int, default=9, metavar="N", help=f"how many, each under {READERS} streams [9]"
    )
    parser.add_argument("--fault", type=int, action="append", metavar="K", help="only this one of the seed; repeatable")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep verdict and stamps of what failed")
    options = parser.parse_args(argv)
    exit_on_signals()
    say = partial(print, flush=True)
    results = []
    try:
        for result in run(
            [fault(options.seed, n) for n in options.fault or range(options.faults)], seed=options.seed, say=say
        ):
            results.append(result)
            say(line(result))
            if options.out is not None and result.is_failed:
                options.out.mkdir(parents=True, exist_ok=True)
                file = options.out / f"{options.seed}-{result.fault.number}-{result.request_id[:8]}.json"
                file.write_text(json.dumps(result.timeline, indent=1))
    except Missing as why:
        say(f"skipped: {why}")
        return 0
    say("\n" + report(results))
    return 1 if any(result.is_failed for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
