"""Is the hop that buffers named, whatever the traffic, and nobody where all passes at once?

    python -m tests.lab.buffering [--install] [--part nginx-gzip] [--heavy] [--out DIR] [--brief]

Every part stands at the gateway and at the inference proxy, with a tap at each hop, and is asked for healthy answers
of several shapes, an engine's that sends every so manieth token among them. What a hop holds is known from its
script, what was felt of it from the reader's stamps. Exit code 1 when a hold that was felt is not named, or somebody
is accused of a healthy stream. --brief: the parts that hold nothing stand four in a row, those that hold at the
gateway alone, and each chain is asked for three of the shapes: a minute and a half.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from importlib.util import find_spec
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

from otel.demo.conduct import wait_for_verdict
from otel.demo.processes import Processes, StartError, exit_on_signals, get
from otel.demo.topology import Topology
from tests.lab.canary import Canary
from tests.lab.chain import NAMES, Chain
from tests.lab.holding import MEANING, WRONG, Mark, expected, felt, mark, waited
from tests.lab.installed import Programs, programs
from tests.lab.middles import MIDDLES, PARTS, WORKERS, Hold, Part, Rewrites
from tests.lab.noise import noise_from_now
from tests.lab.readers import Reader, read
from tests.lab.shapes import BULKY_WORDS, Shape
from tests.lab.starting import started
from tests.lab.told import Told
from tests.lab.topology import ports_of, topology

AT_ONCE: Final = 3
"""Answers at a time: more would have two cores add waits of their own."""
_FIRST_LINE: Final = (__doc__ or "").split("\n", 1)[0]
TRAFFIC: Final = {
    Shape.STEADY: (300, 1),
    Shape.GROUPED: (320, 1),
    Shape.BURSTY: (300, 1),
    Shape.EXPONENTIAL: (200, 1),
    Shape.SPECULATIVE: (420, 1),
    Shape.INTERLEAVED: (300, 1),
    Shape.LONG: (6_000, 1),
    Shape.BULKY: (700, BULKY_WORDS),
}
"""Events of an answer of each shape, and words in each: seven seconds, so that most of what holds releases thrice."""
ENGINES: Final = (Shape.STEADY,)
"""What an engine is asked for: nobody tells it when to speak, and a second answer would wait for the first."""
IN_A_ROW: Final = max(NAMES) - 1
"""Parts of one chain behind its worker, where they share one."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One chain, which of its parts are on trial, and the shapes of the answers it is asked for.

    words: that an event has at least, but for those of a long answer.
    """

    chain: Chain
    parts: tuple[Part, ...]
    shapes: tuple[Shape, ...]
    words: int = 1

    def told(self, shape: Shape, *, seed: int) -> Told:
        events, words = TRAFFIC[shape]
        return Told(shape, events, words if shape is Shape.LONG else max(words, self.words), seed=seed)

    @property
    def holders(self) -> list[str]:
        return [place.name for place in self.chain.hops if PARTS[place.part].holds]

    @property
    def hold(self) -> Hold | None:
        """What the one part that holds does, where it is one."""
        holds = [hold for place in self.chain.hops if (hold := PARTS[place.part].holds)]
        return holds[0] if len(holds) == 1 else None

    @property
    def readers(self) -> list[Reader]:
        """Who can ask: what packs answers packs none for ours."""
        packs = any(Rewrites.CODING in PARTS[place.part].rewrites for place in self.chain.hops)
        return [reader for reader in Reader if reader.is_here and not (packs and reader is Reader.OURS)]


@dataclass(frozen=True, slots=True)
class Trial:
    """One answer that was asked for, and what became of it. is_held: a part may have held it.

    worst_s, holds and gaps: what the reader felt.
    """

    parts: tuple[Part, ...]
    chain: Chain
    shape: Shape
    reader: Reader
    is_held: bool
    mark: Mark
    said: str
    confidence: float
    worst_s: float
    holds: int
    gaps: int
    timeline: dict[str, Any]

    def __str__(self) -> str:
        felt_of_it = f"felt {self.holds} holds, {self.gaps} of them gaps, {self.worst_s:.2f} s"
        return f"{self.mark:<17}{self.shape:<14}{self.reader:<14}{self.said} ({self.confidence:g}); {felt_of_it}"


def each_alone(parts: Iterable[Part], shapes: Sequence[Shape], here: Programs) -> Iterator[Plan]:
    """A part at each place. What packs answers needs somebody before it who lets the reader ask for that.

    An engine has nothing behind it that holds, and then a window.
    """
    for part in parts:
        if part in WORKERS:
            of_worker = [Chain.of(Part.APP, behind, worker=part) for behind in (Part.APP, Part.WINDOW)]
            yield from (Plan(chain, (part,), ENGINES) for chain in of_worker)
            continue
        chains = [Chain.of(Part.APP, part)]
        if Rewrites.CODING not in MIDDLES[part].rewrites:
            chains.append(Chain.of(part, Part.APP))
        elif "node" in here.paths:
            chains.append(Chain.of(part, Part.NODE))
        at_gateway, *elsewhere = chains
        yield Plan(at_gateway, (part,), tuple(shapes), words=_words(part))
        yield from (Plan(chain, (part,), tuple(shapes)) for chain in elsewhere)


def together(parts: Sequence[Part], shapes: Sequence[Shape]) -> Iterator[Plan]:
    """Each part once, and every shape: what holds at the gateway, all else in as few chains as it fits into."""
    holding = [part for part in parts if PARTS[part].holds]
    passing = [part for part in parts if part not in {*holding, *WORKERS}]
    rows = [passing[index : index + IN_A_ROW] for index in range(0, len(passing), IN_A_ROW)]
    in_turn = cycle(shapes)
    for row in rows:
        fill = [Part.APP] * (min(NAMES) - 1 - len(row))
        yield Plan(Chain.of(*row, *fill), tuple(row), tuple(islice(in_turn, AT_ONCE)))
    for part in holding:
        yield Plan(Chain.of(Part.APP, part), (part,), tuple(islice(in_turn, AT_ONCE)), words=_words(part))


def _words(part: Part) -> int:
    """gzip packs a whole ordinary answer into one release, which cannot be told from a stall."""
    return BULKY_WORDS if Rewrites.CODING in MIDDLES[part].rewrites else 1


def trials(plan: Plan, here: Programs, canary: Canary, *, seed: int) -> list[Trial]:
    """One answer of each shape through the plan's chain."""
    with (
        tempfile.TemporaryDirectory(prefix="gapline-lab-", ignore_cleanup_errors=True) as folder,
        Processes(Path(folder)) as processes,
    ):
        of_chain = partial(_placed, plan.chain, Path(folder), here)
        placed = started(processes, of_chain, ports=ports_of(plan.chain))
        running = _Running(plan, placed, processes, canary)
        first = [place.name for place in plan.chain.hops if PARTS[place.part].holds_first]
        made = []
        if first:
            made.append(running.trial(plan.shapes[0], plan.readers[0], holders=[*first, *plan.holders], seed=seed))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            ask = partial(running.trial, holders=plan.holders, seed=seed)
            made += pool.map(ask, plan.shapes, cycle(plan.readers))
        if ended := processes.ended():
            raise StartError(f"ended unasked: {', '.join(ended)}")
        return made


def _placed(chain: Chain, folder: Path, here: Programs, ports: Sequence[int]) -> Topology:
    return topology(chain, ports=ports, folder=folder, paths=here.paths)


@dataclass(frozen=True, slots=True)
class _Running:
    """A chain that answers."""

    plan: Plan
    placed: Topology
    processes: Processes
    canary: Canary

    def trial(self, shape: Shape, reader: Reader, *, holders: Sequence[str], seed: int) -> Trial:
        told = self.plan.told(shape, seed=seed)
        request_id = str(uuid.uuid4())
        made_noise = noise_from_now(self.canary, self._pids)
        headers, body = told.question(request_id)
        answer = read(reader, self.placed.gateway_url, headers=headers, body=body)
        noise = made_noise()
        chain = self.plan.chain
        if answer.status != HTTPStatus.OK or not answer.is_whole:
            raise StartError(f"{chain}: the answer was {answer.status}, {'' if answer.is_whole else 'not '}whole")
        verdict = wait_for_verdict(self.placed.collector_url, request_id, taps=chain.taps)
        _, timeline = get(f"{self.placed.collector_url}/v1/requests/{request_id}/timeline")
        is_scripted = chain.hops[0].part is Part.SCRIPTED
        was = felt(answer, told.calm()) if is_scripted else waited(answer)
        due = expected(told.calm(), self.plan.hold) if is_scripted and self.plan.hold else None
        source = None if is_scripted else chain.names[0]
        named = verdict["status"] == "named"
        return Trial(
            self.plan.parts,
            chain,
            shape,
            reader,
            bool(holders),
            mark(verdict, was, holders=holders, due=due, source=source, is_noise=noise.has_made(verdict, chain)),
            f"{verdict['cause']} @ {verdict['first_hop']}" if named else verdict["status"],
            verdict["confidence"],
            was.worst_s,
            was.holds,
            was.gaps,
            json.loads(timeline) | {"verdict": verdict},
        )

    @property
    def _pids(self) -> dict[str, int]:
        return {run.name: self.processes.pid(run.name) for run in self.placed.commands}


def report(done: Sequence[Trial]) -> str:
    """A row for every part: how often its holds were felt, and what was said of them."""
    heads = ("answers", "holds felt", "hop named", "called buffering", "nobody named", "machine busy", "wrong")
    lines = [f"| part | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for part in dict.fromkeys(part for trial in done for part in trial.parts):
        of = [trial for trial in done if part in trial.parts]
        counts = Counter(trial.mark for trial in of)
        named = counts[Mark.NAMED] + counts[Mark.CALLED_OTHERWISE]
        cells = [
            len(of),
            sum(trial.holds > 0 for trial in of if trial.is_held),
            named,
            sum(trial.said.startswith("buffering") for trial in of),
            counts[Mark.HEALTHY] + counts[Mark.UNFELT],
            counts[Mark.DISTURBED],
            sum(counts[each] for each in WRONG),
        ]
        lines.append(f"| {part} | " + " | ".join(str(cell or "") for cell in cells) + " |")
    counts = Counter(trial.mark for trial in done)
    lines += ["", *(f"{counts[each]:>5} {each:<17}{MEANING[each]}" for each in Mark if counts[each])]
    return "\n".join(lines)


def is_passed(done: Iterable[Trial]) -> bool:
    return not any(trial.mark in WRONG for trial in done)


def _keep(wrong: Iterable[Trial], folder: Path, *, seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for trial in wrong:
        stands = "-".join(place.part for place in trial.chain.hops[1:])
        (folder / f"{stands}-{trial.shape}-{seed}.json").write_text(json.dumps(trial.timeline, indent=1))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab.buffering", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument(
        "--part", type=Part, choices=[*MIDDLES, Part.LLAMA], action="append", help="only this one; repeatable"
    )
    parser.add_argument("--shape", type=Shape, choices=list(TRAFFIC), action="append", help="only this; repeatable")
    parser.add_argument("--seed", type=int, default=1, help="of the answers [1]")
    parser.add_argument("--heavy", action="store_true", help="also parts of hundreds of megabytes")
    parser.add_argument("--install", action="store_true", help="real parts that are not here, where it may be")
    parser.add_argument("--brief", action="store_true", help="each part once, in as few chains as it goes")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep verdict and stamps of what was wrong")
    options = parser.parse_args(arguments)
    exit_on_signals()
    here = programs(may_install=options.install, heavy=options.heavy)
    for name, why in here.missing.items():
        print(f"no {name}: {why}", flush=True)
    has_llama = find_spec("xllamacpp") is not None
    if not has_llama:
        print("no llama: xllamacpp is not installed; `make demo-llama` gets it", flush=True)
    asked = options.part or [*here.parts, Part.LLAMA]
    parts = [p for p in asked if set(PARTS[p].needs) <= here.paths.keys() and (has_llama or p is not Part.LLAMA)]
    shapes = options.shape or list(TRAFFIC)
    plans = together(parts, shapes) if options.brief else each_alone(parts, shapes, here)
    done: list[Trial] = []
    with Canary() as canary:
        for plan in plans:
            print(f"-- {plan.chain}", flush=True)
            made = trials(plan, here, canary, seed=options.seed)
            done += made
            print("\n".join(map(str, made)), flush=True)
            if options.out is not None:
                _keep([trial for trial in made if trial.mark in WRONG], options.out, seed=options.seed)
    print("\n" + report(done))
    return 0 if is_passed(done) else 1


if __name__ == "__main__":
    sys.exit(main())
