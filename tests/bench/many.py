"""Ten thousand streams held open by one sidecar: what they take of memory and processor, and whether all still work.

    python -m tests.bench.many [--streams 10000] [--only nginx] [--flag=--tier=push]

Each brings one event, then nothing for some seconds, then another one and its end; every byte is checked.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from otel.demo.processes import StartError, exit_on_signals
from tests.bench.building import built
from tests.bench.contenders import OURS, Contender, contenders
from tests.bench.loads import many
from tests.bench.machine import here, stand_aside
from tests.bench.measured import Measured
from tests.bench.measuring import measure
from tests.bench.stage import staged
from tests.lab.installed import found
from tests.readers.reading import Missing

STREAMS: Final = 10_000
SPARE_DESCRIPTORS: Final = 160
"""What a proxy needs beside two for each stream."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.many", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--streams", type=int, default=STREAMS, metavar="N", help="held open [%(default)s]")
    parser.add_argument("--only", default=OURS, metavar="NAME", help="the contender that holds them [%(default)s]")
    parser.add_argument("--flag", action="append", default=[], help="one more word for it; repeatable")
    options = parser.parse_args(argv)
    exit_on_signals()
    try:
        contender = named(options.only)
        measured = held(contender, streams=options.streams, flags=tuple(options.flag))
    except (Missing, StartError) as error:
        print(f"nothing was measured: {error}")
        return 1
    print(told(contender, measured))
    return 1 if measured.faults else 0


def named(name: str) -> Contender:
    """Raises Missing."""
    known = contenders()
    for contender in known:
        if contender.name == name:
            return contender
    raise Missing(f"{name} is none of {', '.join(each.name for each in known)}")


def held(contender: Contender, *, streams: int, flags: tuple[str, ...]) -> Measured:
    """What it takes to hold them. Raises Missing, StartError."""
    paths = dict(built())
    if contender.program is not None:
        programs = found([contender.program], may_install=False)
        if contender.program in programs.missing:
            raise Missing(programs.missing[contender.program])
        paths |= programs.paths
    cores = here()
    stand_aside(cores)
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if (needed := 2 * streams + SPARE_DESCRIPTORS) > descriptors:
        raise Missing(f"{streams} streams need {needed} descriptors, and we may have {descriptors}")
    with (
        tempfile.TemporaryDirectory(prefix="gapline-bench-") as folder,
        staged(folder=Path(folder), cores=cores, paths=paths) as stage,
        stage.running([contender], flags=flags) as running,
    ):
        return measure(stage, running, contender, many(streams))


def told(contender: Contender, measured: Measured) -> str:
    """In one line."""
    if measured.faults:
        return f"{contender.title} does not hold {measured.streams:,} streams: {'; '.join(measured.faults)}"
    return (
        f"{contender.title}: {measured.streams:,} streams, {measured.grown_bytes / 1e6:.0f} MB more than before, "
        f"{measured.kb_per_stream:.1f} KB each; {measured.cpu_share:.1%} of a core while they rest; woken at once, all "
        f"had their event and their end after {measured.woken_s:.2f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
