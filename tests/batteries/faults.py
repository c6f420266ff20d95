"""Every fault at every hop of the demo's real chain: how often is the verdict right, how exact are its terms?

    python -m tests.batteries.faults --runs 5 --healthy 20

One line per fault; exit code 0 when every verdict named the planted hop and cause, every check of terms and sums
held, and no healthy answer was accused.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

HOPS = ("model-worker", "inference-proxy", "gateway")
FAULTS = [f"{hop}:{kind}" for kind in ("stall", "slow-first", "buffer", "cut") for hop in HOPS] + ["client:slow-read"]
SECONDS = 2
SKEWED = ["--skew", "model-worker=3600", "--skew", "gateway=-3600"]


def demo(fault: str, *, runs: int, more: Sequence[str] = ()) -> dict[str, Any]:
    """What `gapline demo --json` says of this fault over so many requests."""
    command = [sys.executable, "-m", "sidecar.cli", "demo", "--fault", fault, "--runs", str(runs), "--json", *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60 + 30 * runs)
    if not done.stdout.strip():
        raise SystemExit(f"gapline demo --fault {fault}: {done.stderr.strip()}")
    told = json.loads(done.stdout)
    results = told.get("results", [told])
    return {
        "runs": len(results),
        "named": sum(bool(r["named_right"]) for r in results),
        "caused": sum(bool(r["cause_right"]) for r in results),
        "exact": sum(all(check is None or check["ok"] for check in r["checks"].values()) for r in results),
        "term_error_s": worst(r["checks"]["term"] for r in results),
        "sum_error_s": worst(r["checks"]["sum"] for r in results),
    }


def worst(checks: Any) -> float | None:
    errors = [abs(check["error_s"]) for check in checks if check is not None]
    return max(errors, default=None)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=1, help="requests per fault [1]")
    parser.add_argument("--healthy", type=int, default=3, help="requests without a fault [3]")
    arguments = parser.parse_args(argv)
    passed = failed = 0
    print(f"{'fault':<42}{'hop':>5}{'cause':>7}{'exact':>7}{'term error':>11}{'sum error':>11}")
    rows = [(f"{fault}={SECONDS}", arguments.runs, ()) for fault in FAULTS]
    rows += [(f"inference-proxy:stall={SECONDS}", 1, SKEWED), ("none", arguments.healthy, ())]
    for fault, runs, more in rows:
        told = demo(fault, runs=runs, more=more)
        right = told["named"] == told["caused"] == told["exact"] == runs
        passed, failed = passed + right, failed + (not right)
        cells = [f"{told[key]}/{runs}" for key in ("named", "caused", "exact")]
        errors = ["-" if told[key] is None else f"{told[key] * 1e3:.0f} ms" for key in ("term_error_s", "sum_error_s")]
        name = fault + (" (clocks ±1 h)" if more else "")
        print(f"{name:<42}{cells[0]:>5}{cells[1]:>7}{cells[2]:>7}{errors[0]:>11}{errors[1]:>11}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
