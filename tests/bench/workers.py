"""What more workers of one sidecar bring and cost: the same loads with one and with several processes.

    python -m tests.bench.workers [--workers 1 --workers 2] [--repetitions 3]

All cores but one are the sidecar's. Where that is a single one, workers share it: then the figures say what several
cost, and not what they bring.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from otel.demo.processes import StartError, exit_on_signals
from tests.bench.building import built
from tests.bench.contenders import Contender, ours
from tests.bench.loads import ANCHOR, BUSY, IDLE, SHORT
from tests.bench.machine import here, stand_aside
from tests.bench.measured import Measured
from tests.bench.measuring import measure
from tests.bench.order import turns
from tests.bench.results import Figure, Results
from tests.bench.stage import staged
from tests.readers.reading import Missing

LOADS: Final = (ANCHOR, BUSY, SHORT)


def _cpu_us(measured: Measured) -> float:
    return measured.cpu_us_per_event


def _request_us(measured: Measured) -> float:
    return measured.cpu_us_per_request


def _busiest(measured: Measured) -> float:
    return measured.busiest * 100


def _per_s(measured: Measured) -> float:
    return measured.requests / measured.window_s


def _delivered(measured: Measured) -> float:
    return measured.delivered * 100


FIGURES: Final[Sequence[tuple[str, str, Figure, str]]] = (
    (ANCHOR.name, "CPU µs/event", _cpu_us, "{:.1f}"),
    (ANCHOR.name, "% of it in the busiest", _busiest, "{:.0f}"),
    (BUSY.name, "CPU µs/event", _cpu_us, "{:.1f}"),
    (BUSY.name, "delivered %", _delivered, "{:.1f}"),
    (SHORT.name, "CPU µs/request", _request_us, "{:.0f}"),
    (SHORT.name, "requests/s", _per_s, "{:,.0f}"),
    (IDLE.name, "KB a stream", lambda measured: measured.kb_per_stream, "{:.1f}"),
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.workers", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--workers", type=int, action="append", metavar="N", help="so many; repeatable [1, 2]")
    parser.add_argument("--repetitions", type=int, default=3, metavar="N", help="of each [%(default)s]")
    options = parser.parse_args(argv)
    exit_on_signals()
    counts = options.workers or [1, 2]
    cores = here(most=max(counts))
    print(cores.told, flush=True)
    try:
        paths = built()
        stand_aside(cores)
        results = Results()
        with (
            tempfile.TemporaryDirectory(prefix="gapline-bench-") as folder,
            staged(folder=Path(folder), cores=cores, paths=paths) as stage,
        ):
            contenders = {count: _of(count) for count in counts}
            for turn in turns(list(contenders.values()), [*LOADS, IDLE], repetitions=options.repetitions):
                with stage.running([turn.contender]) as running:
                    results.add(turn.load.name, turn.contender.name, measure(stage, running, turn.contender, turn.load))
    except (Missing, StartError) as error:
        print(f"nothing was measured: {error}")
        return 1
    print(table(results, contenders))
    return 0


def _of(count: int) -> Contender:
    return ours(f"workers-{count}", f"{count} worker" + "s" * (count > 1), "--workers", str(count))


def table(results: Results, contenders: Mapping[int, Contender]) -> str:
    """A line for each figure, a column for each count."""
    heads = ["figure", *(each.title for each in contenders.values())]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for load, title, figure, form in FIGURES:
        spreads = [results.alone(load, each.name, figure) for each in contenders.values()]
        cells = ["–" if spread is None else spread.text(form) for spread in spreads]
        lines.append(f"| {load}: {title} | {' | '.join(cells)} |")
    lines += [
        f"\n{each.title}, {load.title}: {'; '.join(faults)}"
        for each in contenders.values()
        for load in (*LOADS, IDLE)
        if (faults := results.faults(load.name, each.name))
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
