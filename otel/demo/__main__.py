"""`gapline demo`: start a whole serving path here, plant a fault, ask for the verdict, and say whether it is right."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from otel.demo import faults, report, script
from otel.demo.conduct import NoVerdictError, Question, Run, conduct
from otel.demo.faults import CLIENT, HOPS, MEANING, WORKER, Fault, FaultError
from otel.demo.processes import PortTakenError, Processes, StartError, exit_on_signals, free_ports
from otel.demo.topology import PORTS, Topology, topology
from otel.view import commands

RIGHT, WRONG, USAGE = 0, 1, 2
START_TRIES: Final = 3
"""Ports are found and then used, and in between somebody else may take one."""
RUNS_LIMIT: Final = 1_000
LLAMA_EVENTS: Final = 240
"""Tokens asked of the real engine: several seconds on the tiny model."""
LLAMA_HASTE: Final = 2
"""The tiny model may be so many times faster than our script, and a fault must still fall into its stream."""
LLAMA_EVENTS_LIMIT: Final = 900
"""What fits the tiny model's context of 1,024 tokens beside the question."""
LOOK_EVERY_S: Final = 0.5
_KINDS: Final = "\n".join(f"  {kind:12}{meaning}" for kind, meaning in MEANING.items())
_EPILOG: Final = f"""\
hops: {", ".join(HOPS)}, and for slow-read {CLIENT}
kinds of fault, with S the seconds, at most 60:
{_KINDS}

examples:
  gapline demo --fault gateway:stall=2
  gapline demo --fault model-worker:cut=2 --skew gateway=-3600 --json
  gapline demo --worker llama --fault model-worker:freeze=3
  gapline demo --fault none --keep

Exit code 0 when every verdict names the hop of the planted fault (for none: calls the answer healthy), else 1.
"""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What the command line asked for. model: the file that llama.cpp serves, where it is not the tiny random one."""

    fault: Fault | None
    skew: dict[str, float]
    is_scripted: bool
    model: Path | None
    events: int
    seed: int
    runs: int
    is_kept: bool
    is_json: bool


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    try:
        plan = _plan(arguments)
    except FaultError as error:
        for line in error.errors:
            print(f"gapline demo: {line}", file=sys.stderr)
        return USAGE
    exit_on_signals()
    say: Say = _silent if plan.is_json else partial(print, flush=True)
    try:
        with tempfile.TemporaryDirectory(prefix="gapline-demo-", ignore_cleanup_errors=True) as folder:
            return _demonstrate(plan, Path(folder), say)
    except (StartError, NoVerdictError, OSError) as error:
        print(f"gapline demo: {error}", file=sys.stderr)
        return WRONG
    except KeyboardInterrupt:
        return 130


def _demonstrate(plan: Plan, folder: Path, say: Say) -> int:
    with Processes(folder) as processes:
        placed = _start(plan, folder, processes, say)
        say(report.planted(plan.fault))
        runs = []
        for index in range(plan.runs):
            question = Question(
                plan.fault,
                events=plan.events,
                seed=plan.seed + index,
                worker_pid=processes.pid(WORKER),
                is_scripted=plan.is_scripted,
            )
            run = conduct(
                question,
                gateway_url=placed.gateway_url,
                collector_url=placed.collector_url,
                on_answer=lambda answer: say(report.received(answer)),
            )
            runs.append(run)
            if plan.runs > 1:
                say(f"run {index + 1}: {report.judged(run)}")
        _print_result(plan, runs, placed)
        if plan.is_kept:
            print(report.what_to_try(placed, runs[-1].request_id), file=sys.stderr, flush=True)
            _keep(processes)
    return RIGHT if all(run.outcome.is_named_right for run in runs) else WRONG


def _start(plan: Plan, folder: Path, processes: Processes, say: Say) -> Topology:
    """Start everything at once and return when all of it answers."""
    began_s = time.monotonic()
    model = None if plan.is_scripted else plan.model or folder / "tiny-random.gguf"
    for attempt in range(START_TRIES):
        placed = topology(ports=free_ports(PORTS), folder=folder, skew=plan.skew, model=model)
        for command in placed.commands:
            processes.start(command)
        try:
            processes.wait_ready(lambda name: say(f"  {time.monotonic() - began_s:4.1f} s  {name} is ready"))
        except PortTakenError:
            processes.stop()
            if attempt + 1 == START_TRIES:
                raise
        else:
            return placed
    raise AssertionError("the last try returns or raises")


def _print_result(plan: Plan, runs: Sequence[Run], placed: Topology) -> None:
    """One object; or for people what `gapline why` and `gapline timeline` say, and whether that is right."""
    if plan.is_json:
        print(json.dumps(report.run_object(runs[0]) if plan.runs == 1 else report.runs_object(runs), indent=2))
        return
    if plan.runs > 1:
        print(report.summary(runs))
    else:
        asked = (runs[0].request_id, "--collector", placed.collector_url)
        for name in ("why", "timeline"):
            print(f"\n$ gapline {name} {' '.join(asked)}\n", flush=True)
            if name == "why":
                commands.why(asked, has_commands=plan.is_kept)
            else:
                commands.timeline(asked, has_head=False, has_commands=plan.is_kept)
        print(f"\n{report.judged(runs[0])}")
    if not plan.is_kept:
        print(f"\n{report.GONE}")


def _keep(processes: Processes) -> None:
    """Return at a Ctrl-C. Raises StartError when a process has ended by itself."""
    try:
        while not processes.ended():
            time.sleep(LOOK_EVERY_S)
    except KeyboardInterrupt:
        return
    raise StartError(f"ended unasked: {', '.join(processes.ended())}")


def _silent(_: str) -> None:
    """Say nothing: standard output belongs to the one JSON object."""


def _plan(arguments: argparse.Namespace) -> Plan:
    """The plan, or FaultError with everything that is wrong with the command line."""
    errors: list[str] = []
    is_scripted = arguments.worker == "scripted"
    fault = None
    try:
        fault = faults.parse(arguments.fault, is_scripted=is_scripted)
    except FaultError as error:
        errors += (f"--fault: {line}" for line in error.errors)
    if fault is not None and (why_not := faults.unnoticed(fault)):
        errors.append(f"--fault: {why_not}")
    skew = {}
    for text in arguments.skew:
        try:
            hop, seconds = faults.parse_skew(text)
            skew[hop] = seconds
        except FaultError as error:
            errors += (f"--skew: {line}" for line in error.errors)
    needed = script.events_needed(fault) * (1 if is_scripted else LLAMA_HASTE)
    events = arguments.events
    if events is None:
        events = max(needed, script.DEFAULT_EVENTS if is_scripted else LLAMA_EVENTS)
    if events < needed:
        errors.append(f"--events: {events}: {fault or 'an answer'} needs {needed} or more")
    if events > LLAMA_EVENTS_LIMIT and not is_scripted and arguments.model is None:
        errors.append(f"--events: {events}: the tiny model has room for {LLAMA_EVENTS_LIMIT}; plant fewer seconds")
    if not is_scripted and not all(map(find_spec, ("xllamacpp", "gguf"))):
        errors.append("--worker: llama needs what comes with: pip install 'gapline[llama]'")
    if not 1 <= arguments.runs <= RUNS_LIMIT:
        errors.append(f"--runs: {arguments.runs}: must be from 1 to {RUNS_LIMIT}")
    if arguments.model is not None and is_scripted:
        errors.append("--model: needs --worker llama")
    if arguments.model is not None and not arguments.model.is_file():
        errors.append(f"--model: {str(arguments.model)!r}: no such file")
    if errors:
        raise FaultError(errors)
    return Plan(
        fault=fault,
        skew=skew,
        is_scripted=is_scripted,
        model=arguments.model.resolve() if arguments.model else None,
        events=events,
        seed=arguments.seed,
        runs=arguments.runs,
        is_kept=arguments.keep,
        is_json=arguments.json,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gapline demo",
        description="A whole serving path on this machine with a fault planted at one hop: does the verdict name it?",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--fault", default="inference-proxy:stall=2", metavar="HOP:KIND=S", help="what to plant, or none [%(default)s]")
    add(
        "--skew",
        action="append",
        default=[],
        metavar="HOP=S",
        help="shift the clocks of this hop's sidecar; repeatable",
    )
    add(
        "--worker",
        choices=("scripted", "llama"),
        default="scripted",
        help="llama: the real llama.cpp server [scripted]",
    )
    add("--model", type=Path, metavar="FILE.gguf", help="what llama.cpp serves [a tiny random model]")
    add(
        "--events",
        type=int,
        default=None,
        metavar="N",
        help=f"content events of the answer [{script.DEFAULT_EVENTS} or more]",
    )
    add("--seed", type=int, default=1, metavar="N", help="of the scripted answer and its pauses [%(default)s]")
    add("--runs", type=int, default=1, metavar="N", help="ask so many times on the same path [%(default)s]")
    add("--keep", action="store_true", help="leave everything running until Ctrl-C")
    add("--json", action="store_true", help="print one JSON object")
    return parser


if __name__ == "__main__":
    sys.exit(main())
