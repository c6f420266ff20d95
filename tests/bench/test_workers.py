"""What more workers bring and cost: one column for each count, and the reason where there is no figure."""

from __future__ import annotations

from tests.bench import workers
from tests.bench.contenders import Contender
from tests.bench.loads import ANCHOR
from tests.bench.measured import Measured
from tests.bench.results import Results

ONE, TWO = workers._of(1), workers._of(2)


def results(*, faults: tuple[str, ...] = ()) -> Results:
    found = Results()
    for contender, busiest in ((ONE, 1.0), (TWO, 0.6)):
        for load in {each for each, *_ in workers.FIGURES}:
            measured = Measured(
                window_s=1.0,
                cpu_s=0.5,
                load_share=0.1,
                streams=10,
                busiest=busiest,
                events=10_000,
                requests=400,
                expected_events=10_000,
                grown_bytes=10_240,
                faults=faults if contender is TWO and load == ANCHOR.name else (),
            )
            found.add(load, contender.name, measured)
    return found


def test_each_count_is_a_sidecar_that_is_told_so() -> None:
    assert TWO.arguments[-2:] == ("--workers", "2")
    assert (ONE.title, TWO.title) == ("1 worker", "2 workers")


def test_figures_stand_side_by_side() -> None:
    columns: dict[int, Contender] = {1: ONE, 2: TWO}
    lines = workers.table(results(), columns).splitlines()
    assert lines[0] == "| figure | 1 worker | 2 workers |"
    assert "| anchor: % of it in the busiest | 100 | 60 |" in lines
    assert "| anchor: CPU µs/event | 50.0 | 50.0 |" in lines
    assert "| short: requests/s | 400 | 400 |" in lines
    assert "| idle: KB a stream | 1.0 | 1.0 |" in lines


def test_what_was_wrong_is_told_below() -> None:
    told = workers.table(results(faults=("2 × cut",)), {1: ONE, 2: TWO})
    assert "| anchor: CPU µs/event | 50.0 | – |" in told
    assert told.endswith(f"2 workers, {ANCHOR.title}: 2 × cut")
