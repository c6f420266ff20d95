"""Faults drawn from a seed, planted in real chains of processes: is every verdict right?

    python -m tests.lab --seed 7 --cases 40
    python -m tests.lab --seed 7 --case 23 --out DIR      one case again, with its verdict and its stamps

Fault, place, size and traffic shape are drawn, and so are the chains of three to five hops: apps of ours and real
proxies in the middle, where they are there, clocks up to an hour wrong, a hop without a sidecar or with two taps. The
reader stamps for itself what it waited for.
Exit code 1 when a verdict was wrong with a confidence of 0.8 or more.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from otel.demo.processes import exit_on_signals
from tests.lab import bench, draw, report
from tests.lab.installed import programs
from tests.lab.marks import WRONG, Marked
from tests.lab.namespaces import missing


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--seed", type=int, default=1, help="of all that is drawn [1]")
    parser.add_argument("--cases", type=int, default=10, metavar="N", help="how many [10]")
    parser.add_argument("--case", type=int, action="append", metavar="K", help="only this one of the seed; repeatable")
    parser.add_argument("--healthy", action="store_true", help="plant nothing: is nobody accused?")
    parser.add_argument("--at-once", type=int, default=bench.AT_ONCE, metavar="N", help="in one chain [%(default)s]")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep verdict and stamps of what was wrong")
    parser.add_argument("--json", type=Path, metavar="FILE", help="everything, for programs")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="the tables alone")
    parser.add_argument("--install", action="store_true", help="the Debian packages of real proxies, where root may")
    parser.add_argument("--heavy", action="store_true", help="LiteLLM and vllm-router stand in chains, too")
    options = parser.parse_args(argv)
    exit_on_signals()
    say = partial(print, flush=True)
    found = programs(may_install=options.install, heavy=options.heavy)
    for name, why in found.missing.items():
        say(f"no {name} in these chains: {why}")
    if (why_no_links := missing()) is not None:
        say(f"no links between hosts: {why_no_links}")
    here = draw.Here(frozenset(found.parts), has_links=why_no_links is None, has_heavy=options.heavy)
    numbers = options.case or range(options.cases)
    cases = [draw.case(options.seed, number, here, is_healthy=options.healthy) for number in numbers]
    results: list[Marked] = []
    rows: list[report.Judged] = []
    began_s = time.monotonic()
    try:
        for result in bench.run(cases, paths=found.paths, at_once=options.at_once, say=say):
            results.append(result.marked)
            rows += result.rows
            say(report.line(result.marked))
            if options.out is not None and (options.case or result.marked.mark in WRONG):
                options.out.mkdir(parents=True, exist_ok=True)
                file = options.out / f"{options.seed}-{result.marked.case.number}.json"
                file.write_text(json.dumps(result.timeline, indent=1))
    finally:  # a run that breaks off says what it found until then
        _tell(results, rows, options, took_s=time.monotonic() - began_s)
    return 0 if report.is_passed(results, rows) else 1


def _tell(
    results: Sequence[Marked], rows: Sequence[report.Judged], options: argparse.Namespace, *, took_s: float
) -> None:
    print("\n" + report.report(results, rows, seed=options.seed))
    print(f"\n{len(results)} cases in {took_s:.0f} s", flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(report.as_json(results, rows, seed=options.seed, took_s=took_s), indent=1))
    if options.markdown is not None:
        options.markdown.write_text(report.markdown(results, rows) + "\n")


if __name__ == "__main__":
    sys.exit(main())
