"""The report: the matrix, what was wrong and how to have it again, and when the run has failed."""

from __future__ import annotations

from otel.demo.check import Comparison
from tests.lab import report
from tests.lab.draw import Case, Chain, Kind
from tests.lab.shapes import Shape
from tests.lab.truth import Mark, Marked


def marked(mark: Mark, named: str, *, confidence: float = 0.9, number: int = 0, **changes: object) -> Marked:
    fields = {"kind": Kind.STALL, "hop": "gateway", "seconds": 2.0, **changes}
    case = Case(number, 1, Chain(), Shape.STEADY, 120, **fields)  # type: ignore[arg-type]
    return Marked(case, mark, named, "app_stall @ gateway", confidence, None, None)


RIGHT = marked(Mark.RIGHT, "app_stall @ gateway")
WRONG = marked(Mark.WRONG_HOP, "app_stall @ inference-proxy", number=7)
UNSURE = marked(Mark.WRONG_HOP, "app_stall @ inference-proxy", number=8, confidence=0.5)


def test_the_matrix_counts_what_was_named_for_what_was_planted() -> None:
    told = report.report([RIGHT, RIGHT, WRONG], seed=3)
    assert "| planted | app_stall | app_stall @ |" in told
    assert "| stall @ gateway | 2 | 1 |" in told


def test_only_what_is_confidently_wrong_fails_a_run() -> None:
    assert report.is_passed([RIGHT, UNSURE])
    assert not report.is_passed([RIGHT, WRONG])
    assert "confidently" in report.line(WRONG)
    assert "confidently" not in report.line(UNSURE)


def test_what_was_wrong_can_be_had_again() -> None:
    told = report.report([RIGHT, WRONG, UNSURE], seed=3)
    assert "python -m tests.lab --seed 3 --case 7" in told
    assert "python -m tests.lab --seed 3 --case 8" in told
    assert "--case 0" not in told


def test_errors_of_seconds_are_told_and_those_beyond_the_limit_listed() -> None:
    def exact(error_s: float) -> Marked:
        term = Comparison(2.0 + error_s, 2.0, 0.05)
        return Marked(RIGHT.case, Mark.RIGHT, RIGHT.named, RIGHT.truth, 0.9, term, None)

    told = report.report([exact(0.01), exact(-0.06)], seed=3)
    assert "2 compared, 1 off by more than 50 ms, worst 60 ms" in told
    assert "term off by -60 ms" in told
