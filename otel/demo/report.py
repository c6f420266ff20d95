"""What the demo tells at the end: one object for programs, a few lines for people, and what to try next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from otel.demo import check, faults
from otel.demo.answer import Answer
from otel.demo.check import Comparison
from otel.demo.conduct import Run
from otel.demo.faults import MEANING
from otel.demo.topology import Topology

GONE: Final = "This path is gone now. To ask for yourself: gapline demo --keep"


def run_object(run: Run) -> dict[str, Any]:
    """One run for programs."""
    fault, outcome = run.question.fault, run.outcome
    return {
        "request_id": run.request_id,
        "fault": str(fault) if fault else "none",
        "events": run.question.events,
        "seed": run.question.seed,
        "expected": asdict(outcome.expected),
        "named_right": outcome.is_named_right,
        "cause_right": outcome.is_cause_right,
        "checks": {"term": _comparison(outcome.term), "sum": _comparison(outcome.total)},
        "reader": _reader(run),
        "verdict": run.verdict,
    }


def runs_object(runs: Sequence[Run]) -> dict[str, Any]:
    """Many runs for programs: how many were right, the largest errors, and every run."""
    return {
        "runs": len(runs),
        "named_right": sum(run.outcome.is_named_right for run in runs),
        "cause_right": sum(run.outcome.is_cause_right for run in runs),
        "largest_term_error_s": _largest([run.outcome.term for run in runs]),
        "largest_sum_error_s": _largest([run.outcome.total for run in runs]),
        "results": [run_object(run) for run in runs],
    }


def planted(run_fault: faults.Fault | None) -> str:
    """What is about to go wrong, in a line."""
    if run_fault is None:
        return "planted: nothing; the answer should be healthy"
    meaning = MEANING[run_fault.kind].replace(" S", f" {run_fault.seconds:g} s")
    return f"planted: {run_fault} ({meaning})"


def received(answer: Answer) -> str:
    """What the client saw, in a line."""
    end = "" if answer.is_done and answer.is_whole else ", and then it broke off"
    return (
        f"client: {len(answer.receipts)} events in {answer.ended_s:.2f} s, first text after "
        f"{answer.first_text_s or 0:.2f} s, longest wait {answer.longest_gap_s:.2f} s{end}"
    )


def judged(run: Run) -> str:
    """Whether the verdict was right, in a line per check."""
    verdict, outcome = run.verdict, run.outcome
    said = verdict["status"] if verdict["first_hop"] is None else f"{verdict['first_hop']}, {verdict['cause']}"
    wanted = outcome.expected.first_hop or outcome.expected.status
    lines = [f"{'RIGHT' if outcome.is_named_right else 'WRONG'}: planted was {wanted}, the verdict says {said}"]
    if outcome.is_named_right and not outcome.is_cause_right:
        lines.append(f"       but the cause should be {' or '.join(outcome.expected.causes)}")
    if outcome.term is not None:
        lines.append(f"       its term: {_compared(outcome.term, 'planted')}")
    if outcome.total is not None:
        lines.append(f"       all terms: {_compared(outcome.total, 'measured by the client')}")
    return "\n".join(lines)


def summary(runs: Sequence[Run]) -> str:
    """Many runs in two lines."""
    result = runs_object(runs)
    errors = [
        f"largest error of {name} {result[key] * 1000:.0f} ms"
        for name, key in (("the term", "largest_term_error_s"), ("the sum", "largest_sum_error_s"))
        if result[key] is not None
    ]
    right = f"{result['named_right']}/{len(runs)} named right, {result['cause_right']}/{len(runs)} with the right cause"
    return "\n".join([right, *errors])


def what_to_try(topology: Topology, request_id: str) -> str:
    """Commands for somebody who keeps the path running."""
    at = f"--collector {topology.collector_url}"
    return f"""\
everything keeps running; Ctrl-C ends it. Try:

  curl -N {topology.gateway_url}/v1/chat/completions -H 'content-type: application/json' \\
      -H 'x-request-id: mine-1' -H '{faults.HEADER}: gateway:stall=3' \\
      -d '{{"model": "m", "stream": true, "max_tokens": 120, "messages": [{{"role": "user", "content": "hi"}}]}}'
  gapline why mine-1 {at}
  gapline timeline {request_id} {at}
  gapline stalls --since 1h {at}
  gapline live --watch {at}     (in another shell, while curl reads)
"""


def _reader(run: Run) -> dict[str, Any]:
    answer = run.answer
    return {
        "status": answer.status,
        "events": len(answer.receipts),
        "duration_s": answer.ended_s,
        "first_text_s": answer.first_text_s,
        "longest_gap_s": answer.longest_gap_s,
        "end_s": answer.end_s,
        "held_off_s": answer.held_off_s,
        "is_whole": answer.is_whole,
        "is_done": answer.is_done,
        "waited_s": check.waited(answer, run.verdict["wait"]),
    }


def _comparison(comparison: Comparison | None) -> dict[str, Any] | None:
    if comparison is None:
        return None
    return {**asdict(comparison), "error_s": comparison.error_s, "ok": comparison.is_within}


def _compared(comparison: Comparison, by: str) -> str:
    mark = "" if comparison.is_within else f"  MORE THAN {comparison.limit_s * 1000:.0f} ms"
    return f"{comparison.verdict_s:.3f} s, {by} {comparison.known_s:.3f} s ({comparison.error_s * 1000:+.0f} ms){mark}"


def _largest(comparisons: Sequence[Comparison | None]) -> float | None:
    return max((abs(each.error_s) for each in comparisons if each is not None), default=None)
