"""Readers that stop, and readers that only have a bad link: is each told of while it stops, and nobody else ever?

    python -m tests.lab.slow_readers --seed 1 --stopped 60 --healthy 40

Real readers on real links of their own: near, 200 ms away with 1 % loss, lossy, slow. Size and pace of the events, the
receive buffer, when the reader stops and for how long are drawn. The reader knows its own window, and so when the rule
must tell: soon after it has fallen to half of its peak, else within 2 s of a write that blocks. Exit code 1 where one
is told too late, or a healthy one at all.
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any, Final

from otel.demo.conduct import wait_for_verdict
from otel.demo.faults import CLIENT, WORKER
from otel.demo.processes import exit_on_signals
from otel.store.sqlite import SqliteStore
from otel.view.openapi import LIVE_PATH
from tests.lab.linked import QUERY, Linked, connected, running, watched
from tests.lab.links import Line
from tests.lab.namespaces import CONTROL, Network
from tests.lab.stopping import Reading, Stop, read
from tests.readers.reading import Missing

AT_ONCE: Final = 4
SLOW_READER: Final = "slow_reader"
NETWORK: Final = "network"
LOOK_EVERY_S: Final = 0.05
MS: Final = 1_000_000
EARLY_S: Final = 0.75
"""A quarter of a second of the rule, two looks of the sidecar and one of ours, and what a busy machine adds."""
LATE_S: Final = 2.0
LIVE_S: Final = 1.0
"""So much later the collector shows it, too: news waits for company before it is sent."""


class Way(StrEnum):
    """What lies between the sidecar and the reader."""

    NEAR = "near"
    FAR = "200 ms, 1 % loss"
    LOSSY = "40 ms, 3 % loss"
    SLOW = "1 Mbit/s"


LINES: Final = {
    Way.NEAR: Line(),
    Way.FAR: Line(delay_ns=100 * MS, loss_share=0.01),
    Way.LOSSY: Line(delay_ns=20 * MS, loss_share=0.03),
    Way.SLOW: Line(delay_ns=20 * MS, bits_per_s=1e6),
}
BUFFERS: Final = (4_096, 16_384, 65_536, 262_144, None)
"""SO_RCVBUF of the reader; None lets the kernel choose and grow it, as most do."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One reader. stop: None where it reads all the time."""

    number: int
    way: Way
    receive_bytes: int | None
    chars: int
    pace_ms: float
    lasts_s: float
    stop: Stop | None = None

    @property
    def body(self) -> dict[str, object]:
        return {"events": round(self.lasts_s * 1e3 / self.pace_ms), "chars": self.chars, "pace_ms": self.pace_ms}

    def __str__(self) -> str:
        buffer = "the kernel's" if self.receive_bytes is None else f"{self.receive_bytes:,} B"
        what = "reads" if self.stop is None else f"stops for {self.stop.seconds:.1f} s"
        return f"{what}, {self.way}, buffer {buffer}, {self.chars} characters every {self.pace_ms:.0f} ms"


@dataclass(slots=True)
class Told:
    """When what was told of one reader, in seconds of the monotonic clock: by the sidecar's list, by the collector's
    and in the log.

    blocked_s: when a write was seen to be blocked while the reader had stopped. verdict: the cause named in the end.
    is_kept: the verdict says, by whatever words, that the reader did not read.
    """

    listed_s: list[float] = field(default_factory=list)
    collected_s: list[float] = field(default_factory=list)
    logged_s: list[float] = field(default_factory=list)
    blocked_s: list[float] = field(default_factory=list)
    verdict: str = "none"
    is_kept: bool = False


class Mark(StrEnum):
    """What a trial came to."""

    EARLY = "told before a write blocked"
    LATE = "told after a write had blocked, in time"
    UNSEEN = "the stop left no trace: all fitted into the reader's buffer, or it was too short to tell"
    MISSED = "told too late, or not in all places"
    MISNAMED = "the verdict names the network, and the link lost nothing"
    FORGOTTEN = "told while it stopped, and the verdict knows nothing of it"
    QUIET = "healthy, and nothing told"
    ACCUSED = "healthy, and told of"
    BROKEN = "the answer did not come whole"


WRONG: Final = frozenset({Mark.MISSED, Mark.MISNAMED, Mark.FORGOTTEN, Mark.ACCUSED, Mark.BROKEN})


def trial(seed: int, number: int, *, is_stopped: bool) -> Trial:
    """The same for the same seed and number."""
    draw = random.Random(f"{seed} {number} {is_stopped}")
    lasts_s = draw.uniform(6.0, 8.0)
    chars, pace_ms = round(10 ** draw.uniform(0.8, 3.5)), draw.uniform(8, 40)
    ways = [Way.NEAR, Way.NEAR, Way.FAR, Way.LOSSY] if is_stopped else list(Way)
    stop = Stop(draw.uniform(1.5, 2.5), draw.uniform(1.5, 4.0)) if is_stopped else None
    return Trial(number, draw.choice(ways), draw.choice(BUFFERS), chars, pace_ms, lasts_s, stop)


def due_s(trial: Trial, reading: Reading, told: Told) -> float | None:
    """Until when it must have been told; None where nothing need be, or the reader went on before."""
    far_s = LINES[trial.way].delay_ns / 1e9
    patience_s = LATE_S if LINES[trial.way].loss_share else EARLY_S  # where something is lost, that has to be over
    dues = [reading.half_s + patience_s + far_s] if reading.half_s is not None else []
    dues += [min(told.blocked_s) + LATE_S] if told.blocked_s else []
    due = min(dues, default=None)
    return None if due is None or reading.resumed_s is None or due > reading.resumed_s else due


def mark(trial: Trial, reading: Reading, told: Told) -> Mark:
    """Whether what was told is what the reader knows of itself."""
    if not reading.is_whole:
        return Mark.BROKEN
    if told.verdict == NETWORK and trial.way is Way.NEAR:
        return Mark.MISNAMED
    all_told = [*told.listed_s, *told.collected_s, *told.logged_s]
    if reading.stopped_s is None or reading.resumed_s is None:
        return Mark.ACCUSED if all_told or told.verdict == SLOW_READER else Mark.QUIET
    if any(at_s < reading.stopped_s for at_s in all_told):
        return Mark.ACCUSED
    due = due_s(trial, reading, told)
    if due is None and not told.listed_s:
        return Mark.UNSEEN
    if due is not None and not (_is_by(told.listed_s, due) and _is_by(told.logged_s, due)):
        return Mark.MISSED
    if due is not None and due + LIVE_S < reading.resumed_s and not _is_by(told.collected_s, due + LIVE_S):
        return Mark.MISSED
    if not told.is_kept:
        return Mark.FORGOTTEN
    is_early = not told.blocked_s or min(told.listed_s) < min(told.blocked_s)
    return Mark.EARLY if is_early else Mark.LATE


def _is_by(times_s: Iterable[float], due: float) -> bool:
    return min(times_s, default=due + 1) <= due


def run(
    trials: Sequence[Trial], *, seed: int, say: Callable[[str], None], out: Path | None = None
) -> Iterator[tuple[Trial, Reading, Told]]:
    """All of them, way by way. out: where to keep the evidence. Raises `Missing` where there are no such networks."""
    for way, group in groupby(sorted(trials, key=lambda trial: trial.way), key=lambda trial: trial.way):
        say(f"-- {way}")
        lines = {(WORKER, CLIENT): LINES[way]}
        with (
            tempfile.TemporaryDirectory(prefix="gapline-readers-", ignore_cleanup_errors=True) as folder,
            Network((WORKER, CLIENT), lines=lines, seed=seed) as network,
            running(network, Path(folder)) as linked,
            ThreadPoolExecutor(AT_ONCE) as pool,
        ):
            yield from _run(linked, list(group), pool, out)


def _run(
    linked: Linked, trials: Sequence[Trial], pool: ThreadPoolExecutor, out: Path | None
) -> Iterator[tuple[Trial, Reading, Told]]:
    told: dict[str, Told] = {}
    readings: dict[str, Reading] = {}
    ids = {trial: uuid.uuid4().hex for trial in trials}
    ends = [
        watched(partial(look, linked, told), every_s=LOOK_EVERY_S) for look in (_look_at_sidecar, _look_at_collector)
    ]
    try:
        for each, reading in zip(trials, pool.map(partial(_read, linked, ids), trials), strict=True):
            readings[ids[each]] = reading
    finally:
        for end in ends:
            end()
    for line in linked.logged(WORKER, "stream stalled"):
        if line["stall_cause"] == SLOW_READER:
            at_s = datetime.fromisoformat(line["time"]).timestamp() - time.time() + time.monotonic()
            told.setdefault(line["request_id"], Told()).logged_s.append(at_s)
    for each in trials:
        reading, of_it = readings[ids[each]], told.get(ids[each], Told())
        if reading.stopped_s is not None and reading.resumed_s is not None:
            of_it.blocked_s = [at_s for at_s in of_it.blocked_s if reading.stopped_s <= at_s <= reading.resumed_s]
        with linked.network.inside(CONTROL):
            verdict = wait_for_verdict(f"http://127.0.0.1:{QUERY}", ids[each], taps=linked.hops)
        of_it.verdict = verdict["cause"]
        of_it.is_kept = verdict["cause"] == SLOW_READER or "reader_window" in verdict["evidence"]
        if out is not None:
            _keep(out, linked, each, reading, verdict)
        yield each, reading, of_it


def _keep(out: Path, linked: Linked, trial: Trial, reading: Reading, verdict: Mapping[str, Any]) -> None:
    """Everything that the verdict on one reader rests on, and what it knew of itself."""
    with closing(SqliteStore(linked.folder / "data")) as store:
        hops = [
            {"hop": hop.place.tap, "anchor_ns": hop.anchor.monotonic_ns, "timeline": asdict(hop.timeline)}
            for hop in store.hops_of(verdict["request_id"])
        ]
    kept = {"trial": str(trial), "verdict": verdict, "reader": asdict(reading), "hops": hops}
    kind = "healthy" if trial.stop is None else "stopped"
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{kind}-{trial.number}.json").write_text(json.dumps(kept))


def _read(linked: Linked, ids: Mapping[Trial, str], trial: Trial) -> Reading:
    with connected(linked, receive_bytes=trial.receive_bytes) as wire:
        return read(wire, request_id=ids[trial], body=trial.body, stop=trial.stop)


def _look_at_sidecar(linked: Linked, told: dict[str, Told]) -> None:
    streams, at_s = linked.running(WORKER), time.monotonic()
    for stream in streams:
        of_it = told.setdefault(stream["request_id"], Told())
        if stream["is_blocked"]:
            of_it.blocked_s.append(at_s)
        if stream["stall_cause"] == SLOW_READER:
            of_it.listed_s.append(at_s)


def _look_at_collector(linked: Linked, told: dict[str, Told]) -> None:
    rows: list[dict[str, Any]] = linked.collected(LIVE_PATH)["streams"]
    for row in rows:
        if row["stall_cause"] == SLOW_READER:
            told.setdefault(row["request_id"], Told()).collected_s.append(time.monotonic())


def report(results: Sequence[tuple[Trial, Reading, Told]]) -> str:
    """The counts, and how soon."""
    marks = Counter(mark(*each) for each in results)
    lines = [f"{marks[each]:4d}  {each}" for each in Mark if marks[each]]
    after_half = [
        min(told.listed_s) - reading.half_s
        for _, reading, told in results
        if told.listed_s and reading.half_s is not None
    ]
    over = [
        max(told.listed_s) - reading.resumed_s
        for _, reading, told in results
        if told.listed_s and reading.resumed_s is not None
    ]
    if after_half:
        lines.append(
            f"told {median(after_half):.2f} s after the window had fallen to half (longest {max(after_half):.2f})"
        )
    if over:
        lines.append(f"over {median(over):.2f} s after the reader went on (longest {max(over):.2f})")
    stopped = [each for each in results if each[0].stop is not None]
    for what, has_trace in (("were told of", True), ("left no trace", False)):
        verdicts = Counter(told.verdict for _, _, told in stopped if bool(told.listed_s) is has_trace)
        named = ", ".join(f"{n} {cause}" for cause, n in verdicts.most_common())
        lines.append(f"verdicts on those that stopped and {what}: {named or '-'}")
    if told_count := marks[Mark.EARLY] + marks[Mark.LATE]:
        lines.append(f"{marks[Mark.EARLY]} of {told_count} told before a write blocked")
    return "\n".join(lines)


def line(trial: Trial, reading: Reading, told: Told) -> str:
    """One trial: its mark, when the window was at half, shut, told in the list and at the collector, since the stop."""
    since_s = reading.stopped_s or reading.begun_s
    whens = [reading.half_s, reading.shut_s]
    whens += [min(times, default=None) for times in (told.blocked_s, told.listed_s, told.logged_s, told.collected_s)]
    shown = " ".join("   - " if when is None else f"{when - since_s:5.2f}" for when in whens)
    return f"{trial.number:4d} {mark(trial, reading, told).name:7s} {shown}  {told.verdict:11s}  {trial}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab.slow_readers", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--seed", type=int, default=1, help="of all that is drawn [1]")
    parser.add_argument("--stopped", type=int, default=20, metavar="N", help="readers that stop [20]")
    parser.add_argument("--healthy", type=int, default=20, metavar="N", help="readers that do not [20]")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep verdicts, stamps and looks of all")
    options = parser.parse_args(argv)
    exit_on_signals()
    say = partial(print, flush=True)
    trials = [trial(options.seed, number, is_stopped=True) for number in range(options.stopped)]
    trials += [trial(options.seed, number, is_stopped=False) for number in range(options.healthy)]
    results = []
    say("number, mark; seconds after the stop: half, shut, blocked, listed, logged, collected; verdict")
    try:
        for result in run(trials, seed=options.seed, say=say, out=options.out):
            results.append(result)
            say(line(*result))
    except Missing as why:
        say(f"skipped: {why}")
        return 0
    say("\n" + report(results))
    return 1 if any(mark(*result) in WRONG for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
