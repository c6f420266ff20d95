"""What an event costs by us and by other proxies: the same loads, one contender after the other, ratios of pairs.

    python -m tests.bench --install                     everything but LiteLLM, half an hour
    python -m tests.bench --quick                       nginx, a plain aiohttp proxy and ours, figures 1 to 5
    python -m tests.bench --load anchor --only ours --only nginx --json a.json
    python -m tests.bench --read a.json --read b.json   the tables of what was measured before

Each repetition runs every contender once, forwards and backwards in turn; ratios are taken within a repetition, and
told as medians with their least and most. The proxy has one core, upstream and readers another. The readers check
every byte: a contender that does anything wrong has no figure.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from otel.demo.processes import StartError, exit_on_signals
from sidecar.native import COMPILED
from tests.bench import report
from tests.bench.building import built
from tests.bench.contenders import NGINX, OURS, PLAIN, UNSTAMPED, Contender, contenders
from tests.bench.goals import rows
from tests.bench.loads import ANCHOR, BUSY, LOADS, Kind
from tests.bench.machine import here, machine, stand_aside
from tests.bench.measuring import WARM_UP, measure
from tests.bench.order import Turn, turns
from tests.bench.results import Results
from tests.bench.stage import Running, Stage, staged
from tests.bench.stored import stored
from tests.lab.installed import found
from tests.readers.reading import Missing

Say = Callable[[str], None]

QUICK = (NGINX, PLAIN, OURS, UNSTAMPED)
QUICK_LOADS = (ANCHOR, BUSY)
SEED = 1
"""Of the answers whose timelines are weighed."""


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    exit_on_signals()
    say = partial(print, flush=True)
    results, about = Results(), machine()
    for file in options.read:
        told = json.loads(file.read_text())
        results.replace(Results.from_json(told["results"]))
        about = told["about"]
    known = contenders()
    try:
        if not options.read:
            about |= {"where": here().told}
            _run(options, known, results, say)
    except (Missing, StartError) as error:
        say(f"nothing was measured: {error}")
        return 1
    finally:  # a run that breaks off says what it found until then
        goals = rows(has_compiled=COMPILED is not None)
        weighed = stored(seed=SEED) if results.taken else []
        told = report.markdown(results, known, goals, subject=options.subject, stored=weighed, about=about)
        say(f"\n{told}")
        if options.markdown is not None:
            options.markdown.write_text(told + "\n")
        if options.json is not None:
            told_json = report.as_json(results, goals, subject=options.subject, stored=weighed, about=about)
            options.json.write_text(json.dumps(told_json, indent=1))
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}; 3 repetitions")
    parser.add_argument("--all", action="store_true", help="get LiteLLM, too: 900 MB, and minutes")
    parser.add_argument("--install", action="store_true", help="get the programs that are missing, where we may")
    parser.add_argument("--only", action="append", metavar="NAME", help="this contender; repeatable [all]")
    parser.add_argument("--load", action="append", choices=LOADS, metavar="NAME", help=f"of {', '.join(LOADS)} [all]")
    parser.add_argument("--repetitions", type=int, metavar="N", help="of each [5; 3 with --quick]")
    parser.add_argument("--subject", default=OURS, metavar="NAME", help="who has to reach the figures [%(default)s]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="everything, for programs")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="the tables")
    parser.add_argument(
        "--read", type=Path, action="append", default=[], metavar="FILE", help="measure nothing; repeatable"
    )
    return parser.parse_args(argv)


def _run(options: argparse.Namespace, known: Sequence[Contender], results: Results, say: Say) -> None:
    wanted = options.only or (QUICK if options.quick else [each.name for each in known])
    if unknown := set(wanted) - {each.name for each in known}:
        raise Missing(f"{', '.join(sorted(unknown))} is none of {', '.join(each.name for each in known)}")
    names = options.load or ([load.name for load in QUICK_LOADS] if options.quick else list(LOADS))
    loads = [LOADS[name] for name in names]
    chosen = [each for each in known if each.name in wanted and not each.loads.isdisjoint(names)]
    say("compiling the upstream and the readers, where that was not done before")
    paths, missing = built(), {}
    for is_heavy in (False, True):
        needed = [each.program for each in chosen if each.program is not None and each.is_heavy is is_heavy]
        programs = found(needed, may_install=options.install and (options.all or not is_heavy))
        paths |= programs.paths
        missing |= programs.missing
    for name, path in paths.items():
        say(f"{name}: {path}")
    for name, why in missing.items():
        say(f"no {name} in this run: {why}")
    chosen = [each for each in chosen if each.program is None or each.program in paths]
    own = here()
    say(own.told)
    stand_aside(own)
    few = 3 if options.quick else 5
    with (
        tempfile.TemporaryDirectory(prefix="gapline-bench-") as folder,
        staged(folder=Path(folder), cores=own, paths=paths) as stage,
    ):
        chosen = list(_able(stage, chosen, say))
        _windows(stage, list(turns(chosen, loads, repetitions=options.repetitions or few)), results, say)
        _alone(stage, list(turns(chosen, loads, repetitions=options.repetitions or few)), results, say)


def _able(stage: Stage, chosen: Sequence[Contender], say: Say) -> Iterator[Contender]:
    """Those that start, and pass a few streams on."""
    for contender in chosen:
        try:
            with stage.running([contender]) as running:
                faults = measure(stage, running, contender, WARM_UP).faults
        except StartError as error:
            faults = (str(error),)
        if faults:
            say(f"no {contender.title} in this run: {'; '.join(faults)}")
        else:
            yield contender


def _windows(stage: Stage, all_turns: Sequence[Turn], results: Results, say: Say) -> None:
    chosen = {turn.contender.name: turn.contender for turn in all_turns if not turn.load.is_alone}
    with stage.running(chosen.values()) as running:
        for turn in all_turns:
            if not turn.load.is_alone:
                _take(stage, running, turn, results, say)


def _alone(stage: Stage, all_turns: Sequence[Turn], results: Results, say: Say) -> None:
    for turn in all_turns:
        if turn.load.is_alone:
            with stage.running([turn.contender]) as running:
                _take(stage, running, turn, results, say)


def _take(stage: Stage, running: Running, turn: Turn, results: Results, say: Say) -> None:
    measured = measure(stage, running, turn.contender, turn.load)
    results.add(turn.load.name, turn.contender.name, measured)
    if measured.faults:
        said = f"no figure: {'; '.join(measured.faults)}"
    elif turn.load.is_of_memory:
        said = f"{measured.kb_per_stream:8.1f} KB a stream"
    elif turn.load.kind is Kind.FLOOD:
        said = f"{measured.events_per_core_s / 1e6:8.2f} M events/s of a core, CPU {measured.cpu_share:4.0%}"
    elif measured.events:
        said = f"{measured.cpu_us_per_event:8.2f} µs/event, CPU {measured.cpu_share:4.0%}, p50 {measured.p50_us:.0f} µs"
    else:
        said = f"{measured.cpu_us_per_request:8.1f} µs/request, CPU {measured.cpu_share:4.0%}"
    say(f"{turn.repetition + 1}  {turn.load.name:<7} {turn.contender.title:<30} {said}")


if __name__ == "__main__":
    sys.exit(main())
