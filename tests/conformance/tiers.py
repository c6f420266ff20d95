"""The whole contract of the proxy over every tier: what starts a sidecar, drawn bytes, case collections, a soak.

    python -m tests.conformance.tiers [--tier pull] [--compiled off] [--suite faults] [--brief]
        [--cases FOLDER] [--streams 20000] [--soak-minutes 10]

Each suite is the one that runs over the default tier elsewhere; the variables of `tests.support.tiers` have its
sidecars take another, each with the compiled parts, where these are built, and with their twins. `--brief` tries each
tier once, and of the default one little. Prints what failed, then a table; exit code 1 when anything did.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from sidecar.flow import Tier
from sidecar.native import COMPILED
from tests.support.processes import LEASH, ROOT

USES_A_SIDECAR: Final = tuple(f"from tests.support.{name} import" for name in ("script", "exchanges", "processes"))
PYTEST: Final = ("pytest", "-q", "-p", "no:cacheprovider")
END_TO_END: Final = ("bytes", "transparency", "slow_reader", "websocket", "workers", "canary", "log")
"""Of tests/e2e, what is about the proxy: the rest is about what is made of its records."""
WITHIN_S: Final = 900.0
"""Longest that a suite may take beside its own length."""
SHOWN_LINES: Final = 60
"""Of what a suite said that failed: pytest's summary and the last of its reasons."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way of passing bodies on."""

    tier: str
    compiled: str

    def __str__(self) -> str:
        return f"{self.tier}, compiled {self.compiled}"


BRIEF: Final = {
    Way("splice", "off"): ("streams",),
    Way("push", "on"): ("edges", "streams", "soak"),
    Way("pull", "off"): ("edges", "streams"),
}
"""Each tier once, with compiled parts or their twins; the default is tried by every other run. Four minutes."""


@dataclass(frozen=True, slots=True)
class Suite:
    """One of the suites: the words behind `python -m`, and how long it may take."""

    name: str
    words: tuple[str, ...]
    within_s: float = WITHIN_S

    @property
    def is_pytest(self) -> bool:
        return self.words[0] == "pytest"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a suite. said: the last of it, where it failed."""

    way: Way
    suite: str
    passed: int
    failed: int
    skipped: int
    took_s: float
    said: str


def edges() -> list[str]:
    """Every test of a module of the sidecar that starts a whole one."""
    files = sorted((ROOT / "tests/sidecar").rglob("test_*.py"))
    return [
        path.relative_to(ROOT).as_posix()
        for path in files
        if any(line.startswith(USES_A_SIDECAR) for line in path.read_text("utf-8").splitlines())
    ]


def suites(*, streams: int, soak_minutes: float, cases: Path | None) -> Iterator[Suite]:
    """All of them, the shortest first."""
    yield Suite("edges", (*PYTEST, *edges()))
    yield Suite("streams", ("tests.batteries.bytes", "--streams", str(streams)))
    if cases is not None:
        yield Suite("cases", ("tests.batteries.http_cases", str(cases)))
        yield Suite("captures", ("tests.batteries.captures", str(cases)))
    yield Suite("faults", (*PYTEST, "tests/faults"))
    yield Suite("e2e", (*PYTEST, *(f"tests/e2e/test_{name}.py" for name in END_TO_END)))
    yield Suite("soak", ("tests.soak", "--minutes", f"{soak_minutes:g}"), soak_minutes * 60 + WITHIN_S)


def ways(tiers: Sequence[str], compiled: Sequence[str]) -> list[Way]:
    return [Way(tier, parts) for tier, parts in product(tiers, compiled)]


def run(suite: Suite, way: Way) -> Outcome:
    """One suite over one tier, in a process of its own that ends with us."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        words = [*suite.words, f"--junitxml={report}"] if suite.is_pytest else suite.words
        code, said = _said(
            words, {"GAPLINE_TEST_TIER": way.tier, "GAPLINE_TEST_COMPILED": way.compiled}, suite.within_s
        )
        passed, failed, skipped = counts_of(report.read_text("utf-8")) if report.exists() else (0, 0, 0)
    if not suite.is_pytest or bool(code) != bool(failed):  # a run that did not get to its tests has failed, too
        passed, failed = (passed, max(1, failed)) if code else (1, 0)
    shown = "\n".join(said.splitlines()[-SHOWN_LINES:]) if failed else ""
    return Outcome(way, suite.name, passed, failed, skipped, time.monotonic() - began, shown)


def counts_of(report: str) -> tuple[int, int, int]:
    """Tests that passed, failed and were skipped, of a report in JUnit's form."""
    (suite,) = ET.fromstring(report).iter("testsuite")
    count, failed, errors, skipped = (int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped"))
    return count - failed - errors - skipped, failed + errors, skipped


def table(outcomes: Sequence[Outcome]) -> str:
    rows = [f"{'tier':<8}{'compiled':<10}{'suite':<10}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}"]
    for each in outcomes:
        counts = f"{each.passed:>8}{each.failed:>8}{each.skipped:>9}{each.took_s:>9.0f}"
        rows.append(f"{each.way.tier:<8}{each.way.compiled:<10}{each.suite:<10}{counts}")
    return "\n".join(rows)


def _said(words: Sequence[str], variables: dict[str, str], within_s: float) -> tuple[int, str]:
    """The exit code of a module of Python's, and all that it said."""
    leash = (sys.executable, "-I", "-S", "-c", LEASH, str(os.getpid()))
    try:
        done = subprocess.run(
            (*leash, sys.executable, "-m", *words),
            cwd=ROOT,
            env=os.environ | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=within_s,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        return 1, (late.output or b"").decode("utf-8", "replace") + f"\nnot within {within_s:g} s"
    return done.returncode, done.stdout.decode("utf-8", "replace")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance.tiers", description=(__doc__ or "").split("\n", 1)[0]
    )
    tiers = [tier.value for tier in Tier]
    built = ["off"] if COMPILED is None else ["on", "off"]
    parser.add_argument("--tier", choices=tiers, action="append", help="[all of them]")
    parser.add_argument("--compiled", choices=("on", "off"), action="append", help="[both, where they are built]")
    parser.add_argument("--suite", action="append", help="by its name [all of them]")
    parser.add_argument("--brief", action="store_true", help="a little of each")
    parser.add_argument("--cases", type=Path, help="a folder of case collections [without]")
    parser.add_argument("--streams", type=int, help="drawn ones [20000; brief: 1000]")
    parser.add_argument("--soak-minutes", type=float, help="[2; brief: 0.2]")
    options = parser.parse_args(arguments)
    found = {
        suite.name: suite
        for suite in suites(
            streams=options.streams or (1_000 if options.brief else 20_000),
            soak_minutes=options.soak_minutes or (0.2 if options.brief else 2.0),
            cases=options.cases,
        )
    }
    if strange := set(options.suite or ()) - found.keys():
        parser.error(f"--suite {', '.join(sorted(strange))}: must be one of {', '.join(found)}")
    if COMPILED is None:
        print("the compiled parts are not built here: only their twins are tried")
    outcomes = []
    for way, names in _plan(options, tiers, built, list(found)).items():
        for name in names:
            outcomes.append(outcome := run(found[name], way))
            print(f"{way}: {name} {'FAILS' if outcome.failed else 'passes'}, {outcome.took_s:.0f} s", flush=True)
            if outcome.said:
                print(outcome.said, flush=True)
    print(table(outcomes))
    return int(any(each.failed for each in outcomes))


def _plan(
    options: argparse.Namespace, tiers: Sequence[str], built: Sequence[str], names: Sequence[str]
) -> dict[Way, Sequence[str]]:
    """Which suites run over which ways. What is named is run; else brief, or all."""
    if options.brief and not (options.tier or options.compiled):
        brief = {way if way.compiled in built else Way(way.tier, "off"): some for way, some in BRIEF.items()}
        return {way: options.suite or some for way, some in brief.items()}
    chosen = options.suite or (("edges", "streams", "soak") if options.brief else names)
    return dict.fromkeys(ways(options.tier or tiers, options.compiled or built), chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
