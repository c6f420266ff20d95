"""The report: the matrix, what was wrong and how to have it again, and when the run has failed."""

from __future__ import annotations

import json
from dataclasses import replace

from otel.demo.check import Comparison
from tests.lab import report
from tests.lab.chain import Chain
from tests.lab.draw import Case
from tests.lab.marks import Mark, Marked
from tests.lab.middles import Part
from tests.lab.rows import Row
from tests.lab.shapes import Shape
from tests.lab.told import Kind, Planted

STALL = Planted(Kind.STALL, "gateway", 2.0)


def marked(
    mark: Mark,
    named: str,
    *faults: Planted,
    confidence: float = 0.9,
    number: int = 0,
    true: str = "app_stall @ gateway",
    term: Comparison | None = None,
) -> Marked:
    case = Case(number, 1, Chain.of(Part.APP, Part.APP), Shape.STEADY, 120, faults=faults or (STALL,))
    return Marked(case, mark, named, true, confidence, True, 2.0, 0.0, term, None)


RIGHT = marked(Mark.RIGHT, "app_stall @ gateway")
WRONG = marked(Mark.WRONG_HOP, "app_stall @ inference-proxy", number=7)
UNSURE = marked(Mark.WRONG_HOP, "app_stall @ inference-proxy", number=8, confidence=0.5)


def test_the_matrix_counts_what_was_named_for_what_was_planted() -> None:
    told = report.matrix([RIGHT, RIGHT, WRONG])
    assert "| planted | app_stall | app_stall @ |" in told
    assert "| stall at a hop | 2 | 1 |" in told


def test_the_matrix_says_what_makes_a_chain_harder_to_see_through() -> None:
    blind = replace(RIGHT, case=replace(RIGHT.case, chain=Chain.of(Part.MERGER, Part.APP).without("gateway")))
    assert "| stall at a hop, a tap missing, a hop buffers | 1 |" in report.matrix([blind])


def test_only_what_is_confidently_wrong_fails_a_run_with_whatever_evidence() -> None:
    assert report.is_passed([RIGHT, UNSURE], [(Row.RECORD, UNSURE)])
    assert not report.is_passed([RIGHT, WRONG], [])
    assert not report.is_passed([RIGHT], [(Row.TAP_AWAY, WRONG)])
    assert "confidently" in report.line(WRONG)
    assert "confidently" not in report.line(UNSURE)


def test_what_was_wrong_can_be_had_again() -> None:
    told = report.report([RIGHT, WRONG, UNSURE], [], seed=3)
    assert "python -m tests.lab --seed 3 --case 7" in told
    assert "python -m tests.lab --seed 3 --case 8" in told
    assert "--case 0" not in told


def test_a_row_of_evidence_has_its_marks_and_its_wrong_verdicts() -> None:
    told = report.report([RIGHT], [(Row.RECORD, RIGHT), (Row.TAP_AWAY, WRONG)], seed=3)
    assert "| evidence | right | wrong hop |" in told
    assert f"wrong hop, confidently, {Row.TAP_AWAY}" in told


def test_the_figures_leave_out_what_no_tap_could_tell_and_what_the_machine_did() -> None:
    beyond, disturbed = (marked(mark, "inconclusive") for mark in (Mark.BEYOND, Mark.DISTURBED))
    told = report.report([RIGHT, RIGHT, UNSURE, beyond, disturbed], [], seed=3)
    assert "to be told: 3, of them right by cause and hop: 2 (66.7 %)" in told
    assert "confidently wrong: 0" in told
    assert "disturbed: " in told  # an excuse is listed, too


def test_only_answers_that_the_reader_calls_healthy_count_as_healthy() -> None:
    case = Case(0, 1, RIGHT.case.chain, Shape.STEADY, 120)

    def calm(mark: Mark, late_s: float = 0.1) -> Marked:
        return Marked(case, mark, mark, "healthy", 0.9, False, late_s, 0.0, None, None)

    results = [calm(Mark.HEALTHY), calm(Mark.HEALTHY, 0.5), calm(Mark.DISTURBED), calm(Mark.DISTURBED, 0.9), RIGHT]
    told = report.report(results, [], seed=3)
    assert "healthy by the reader's own stamps: 2, of them called so: 1, accused: 0, excused for the machine: 1" in told


def test_errors_of_seconds_are_told_and_those_beyond_the_limit_listed() -> None:
    exact = [
        marked(Mark.RIGHT, "app_stall @ gateway", term=Comparison(2.0 + error_s, 2.0, 0.05))
        for error_s in (0.01, -0.06)
    ]
    told = report.report(exact, [], seed=3)
    assert "2 of 2 right ones compared, 1 off by more than 50 ms" in told
    assert "worst 60 ms" in told
    assert "term off by -60 ms" in told


def test_programs_read_the_same_from_one_object() -> None:
    made = json.loads(json.dumps(report.as_json([RIGHT, WRONG], [(Row.RECORD, RIGHT)], seed=3, took_s=2.0)))
    assert (made["cases"], made["felt"], made["felt_right"], made["confidently_wrong"]) == (2, 2, 1, [7])
    assert made["marks"] == {"right": 1, "wrong hop": 1}
    assert [row["row"] for row in made["rows"]] == ["with the reader's record"]
    assert made["results"][1]["named"] == "app_stall @ inference-proxy"
