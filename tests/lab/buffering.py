"""Is the hop that buffers named, whatever the traffic, and nobody where all passes at once?

    python -m tests.lab.buffering [--install] [--part nginx-gzip] [--heavy] [--out DIR]

Every part stands at the gateway and at the inference proxy, with a tap at each hop, and is asked for healthy answers
of several shapes, an engine's that sends every so manieth token among them. What a hop holds is known from its
script, what was felt of it from the reader's stamps. Exit code 1 when a hold that was felt is not named, or somebody
is accused of a healthy stream.
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
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from otel.demo.conduct import wait_for_verdict
from otel.demo.processes import PortTakenError, Processes, StartError, exit_on_signals, free_ports, get
from otel.demo.topology import Topology
from tests.lab.chain import Chain
from tests.lab.holding import MEANING, WRONG, Mark, expected, felt, mark
from tests.lab.installed import Programs, programs
from tests.lab.middles import MIDDLES, PARTS, Part, Rewrites
from tests.lab.readers import Reader, read
from tests.lab.shapes import BULKY_WORDS, Shape, model_of
from tests.lab.told import HEADER, Told
from tests.lab.topology import ports_of, topology

AT_ONCE: Final = 3
"""Answers at a time: more would have two cores add waits of their own."""
START_TRIES: Final = 3
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


@dataclass(frozen=True, slots=True)
class Trial:
    """One answer that was asked for, and what became of it. worst_s, holds and gaps: what the reader felt."""

    part: Part
    chain: Chain
    shape: Shape
    reader: Reader
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


def chains(part: Part, here: Programs) -> Iterator[Chain]:
    """The part at each place. What packs answers needs somebody before it who lets the reader ask for that."""
    yield Chain.of(Part.APP, part)
    if Rewrites.CODING not in MIDDLES[part].rewrites:
        yield Chain.of(part, Part.APP)
    elif "node" in here.paths:
        yield Chain.of(part, Part.NODE)


def trials(part: Part, chain: Chain, shapes: Sequence[Shape], here: Programs, *, seed: int) -> list[Trial]:
    """One answer of each shape through this chain."""
    with (
        tempfile.TemporaryDirectory(prefix="gapline-lab-", ignore_cleanup_errors=True) as folder,
        Processes(Path(folder)) as processes,
    ):
        placed = _start(chain, Path(folder), processes, here)
        packs = any(Rewrites.CODING in PARTS[place.part].rewrites for place in chain.hops)
        readers = [reader for reader in Reader if reader.is_here and not (packs and reader is Reader.OURS)]
        ask = partial(_trial, part, chain, placed, seed=seed)
        holders = [place.name for place in chain.hops if PARTS[place.part].holds]
        first = [place.name for place in chain.hops if PARTS[place.part].holds_first]
        made = [ask(shapes[0], readers[0], holders=[*first, *holders])] if first else []
        with ThreadPoolExecutor(AT_ONCE) as pool:
            made += pool.map(partial(ask, holders=holders), shapes, cycle(readers))
        if ended := processes.ended():
            raise StartError(f"ended unasked: {', '.join(ended)}")
        return made


def _start(chain: Chain, folder: Path, processes: Processes, here: Programs) -> Topology:
    for attempt in range(START_TRIES):
        placed = topology(chain, ports=free_ports(ports_of(chain)), folder=folder, paths=here.paths)
        for command in placed.commands:
            processes.start(command)
        try:
            processes.wait_ready(lambda _: None)
        except PortTakenError:
            processes.stop()
            if attempt + 1 == START_TRIES:
                raise
        else:
            return placed
    raise AssertionError("the last try returns or raises")


def _trial(
    part: Part, chain: Chain, placed: Topology, shape: Shape, reader: Reader, *, holders: Sequence[str], seed: int
) -> Trial:
    told = Told(shape, *TRAFFIC[shape], seed=seed)
    request_id = str(uuid.uuid4())
    answer = read(
        reader,
        placed.gateway_url,
        headers={
            "x-request-id": request_id,
            "traceparent": f"00-{uuid.uuid4().hex}-{uuid.uuid4().hex[:16]}-01",
            HEADER: told.header(),
        },
        body={
            "model": model_of(shape),
            "messages": [{"role": "user", "content": "Tell me a story."}],
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": told.events,
        },
    )
    if answer.status != HTTPStatus.OK or not answer.is_whole:
        raise StartError(f"{chain}: the answer was {answer.status}, {'' if answer.is_whole else 'not '}whole")
    verdict = wait_for_verdict(placed.collector_url, request_id, hops=chain.taps)
    _, timeline = get(f"{placed.collector_url}/v1/requests/{request_id}/timeline")
    calm = told.calm()
    was = felt(answer, calm)
    hold = MIDDLES[part].holds
    named = verdict["status"] == "named"
    return Trial(
        part,
        chain,
        shape,
        reader,
        mark(verdict, was, holders=holders, due=expected(calm, hold) if hold else None),
        f"{verdict['cause']} @ {verdict['first_hop']}" if named else verdict["status"],
        verdict["confidence"],
        was.worst_s,
        was.holds,
        was.gaps,
        json.loads(timeline) | {"verdict": verdict},
    )


def report(done: Sequence[Trial]) -> str:
    """A row for every part: how often its holds were felt, and what was said of them."""
    lines = ["| part | answers | holds felt | hop named | called buffering | nobody named | accused, missed |"]
    lines.append("|---|" + "---:|" * 6)
    for part in dict.fromkeys(trial.part for trial in done):
        of = [trial for trial in done if trial.part is part]
        counts = Counter(trial.mark for trial in of)
        named = counts[Mark.NAMED] + counts[Mark.CALLED_OTHERWISE]
        cells = [
            len(of),
            sum(trial.holds > 0 for trial in of) if MIDDLES[part].holds else "",
            named,
            sum(trial.said.startswith("buffering") for trial in of),
            counts[Mark.HEALTHY] + counts[Mark.UNFELT],
            counts[Mark.ACCUSED] + counts[Mark.MISSED] + counts[Mark.WRONG_HOP],
        ]
        lines.append(f"| {part} | " + " | ".join(str(cell or "") for cell in cells) + " |")
    counts = Counter(trial.mark for trial in done)
    lines += ["", *(f"{counts[each]:>5} {each:<17}{MEANING[each]}" for each in Mark if counts[each])]
    return "\n".join(lines)


def is_passed(done: Iterable[Trial]) -> bool:
    return not any(trial.mark in WRONG for trial in done)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab.buffering", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--part", type=Part, choices=list(MIDDLES), action="append", help="only this one; repeatable")
    parser.add_argument("--shape", type=Shape, choices=list(TRAFFIC), action="append", help="only this; repeatable")
    parser.add_argument("--seed", type=int, default=1, help="of the answers [1]")
    parser.add_argument("--heavy", action="store_true", help="also parts of hundreds of megabytes")
    parser.add_argument("--install", action="store_true", help="real parts that are not here, where it may be")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep verdict and stamps of what was wrong")
    options = parser.parse_args(arguments)
    exit_on_signals()
    here = programs(may_install=options.install, heavy=options.heavy)
    for name, why in here.missing.items():
        print(f"no {name}: {why}", flush=True)
    done: list[Trial] = []
    for part in options.part or here.parts:
        if not set(MIDDLES[part].needs) <= here.paths.keys():
            continue
        for chain in chains(part, here):
            print(f"-- {chain}", flush=True)
            made = trials(part, chain, options.shape or list(TRAFFIC), here, seed=options.seed)
            done += made
            print("\n".join(map(str, made)), flush=True)
            for trial in made:
                if options.out is not None and trial.mark in WRONG:
                    options.out.mkdir(parents=True, exist_ok=True)
                    file = options.out / f"{part}-{chain.hops[-1].part}-{trial.shape}-{options.seed}.json"
                    file.write_text(json.dumps(trial.timeline, indent=1))
    print("\n" + report(done))
    return 0 if is_passed(done) else 1


if __name__ == "__main__":
    sys.exit(main())
