"""The judge of the demo: what a right verdict says, and when its seconds agree."""

from __future__ import annotations

from typing import Any

import pytest

from otel.demo import check, faults
from otel.demo.answer import Answer, Receipt


def verdict(**changes: Any) -> dict[str, Any]:
    return {
        "status": "named",
        "first_hop": "gateway",
        "cause": "app_stall",
        "wait": "gap",
        "contributions": [
            {"segment": "source", "owner": "model-worker app", "seconds": 0.025},
            {"segment": "self:model-worker", "owner": "model-worker sidecar", "seconds": 0.0},
            {"segment": "model-worker>inference-proxy", "owner": "inference-proxy app", "seconds": 0.001},
            {"segment": "inference-proxy>gateway", "owner": "gateway app", "seconds": 1.999},
            {"segment": "gateway>client", "owner": "client", "seconds": 0.0},
        ],
        **changes,
    }


def answer(*, gap_s: float = 2.027, held_off_s: float | None = None) -> Answer:
    receipts = (Receipt(0.5, 6), Receipt(0.5 + gap_s, 6))
    return Answer(200, receipts, 0.51 + gap_s, is_whole=True, is_done=True, held_off_s=held_off_s)


def outcome(fault: str, said: dict[str, Any], seen: Answer | None = None) -> check.Outcome:
    return check.judge(faults.parse(fault), said, seen or answer())


@pytest.mark.parametrize(
    ("fault", "first_hop", "cause"),
    [
        ("model-worker:stall=2", "model-worker", "source_stall"),
        ("inference-proxy:stall=2", "inference-proxy", "app_stall"),
        ("gateway:slow-first=2", "gateway", "slow_first_event"),
        ("model-worker:buffer=2", "model-worker", "source_stall"),
        ("gateway:buffer=2", "gateway", "buffering"),
        ("gateway:cut=2", "gateway", "truncated"),
        ("model-worker:freeze=3", "model-worker", "source_stall"),
        ("client:slow-read=2", "client", "slow_reader"),
    ],
)
def test_the_right_hop_with_a_fitting_cause_is_right(fault: str, first_hop: str, cause: str) -> None:
    result = outcome(fault, verdict(first_hop=first_hop, cause=cause))
    assert (result.is_named_right, result.is_cause_right) == (True, True)


def test_the_right_hop_with_another_cause_is_named_right_only() -> None:
    result = outcome("gateway:stall=2", verdict(cause="network"))
    assert (result.is_named_right, result.is_cause_right) == (True, False)


@pytest.mark.parametrize(
    "said",
    [verdict(first_hop="inference-proxy"), verdict(status="inconclusive", first_hop=None), verdict(status="healthy")],
)
def test_another_hop_or_no_answer_is_wrong(said: dict[str, Any]) -> None:
    result = outcome("gateway:stall=2", said)
    assert (result.is_named_right, result.is_cause_right) == (False, False)


def test_healthy_is_right_exactly_when_nothing_was_planted() -> None:
    healthy = verdict(status="healthy", first_hop=None, cause="none")
    assert outcome("none", healthy).is_cause_right
    assert not outcome("none", verdict()).is_named_right


def test_the_term_of_the_planted_segment_is_compared_with_the_planted_delay() -> None:
    term = outcome("gateway:stall=2", verdict()).term
    assert term is not None
    assert (term.verdict_s, term.known_s, term.is_within) == (1.999, 2.0, True)


@pytest.mark.parametrize(
    ("fault", "seconds"),
    [("model-worker:stall=2", 0.025), ("inference-proxy:stall=2", 0.001), ("client:slow-read=2", 0)],
)
def test_each_place_has_its_own_segment(fault: str, seconds: float) -> None:
    term = outcome(fault, verdict()).term
    assert term is not None
    assert term.verdict_s == seconds


def test_a_term_off_by_more_than_the_limit_is_told() -> None:
    term = outcome("gateway:stall=1.9", verdict()).term
    assert term is not None
    assert not term.is_within


def test_the_sum_is_compared_with_the_wait_that_the_client_measured() -> None:
    total = outcome("gateway:stall=2", verdict(), answer(gap_s=2.030)).total
    assert total is not None
    assert total.error_s == pytest.approx(-0.005)
    assert total.is_within


def test_a_client_that_paused_knows_its_pause() -> None:
    total = outcome("client:slow-read=2", verdict(), answer(gap_s=2.1, held_off_s=2.02)).total
    assert total is not None
    assert total.known_s == 2.02


def test_without_a_fault_there_is_no_sum_to_check() -> None:
    healthy = verdict(status="healthy", first_hop=None, cause="none")
    assert outcome("none", healthy, answer(gap_s=2.3)).total is None


def test_a_cut_has_no_times_to_compare() -> None:
    result = outcome("gateway:cut=2", verdict(cause="truncated", wait=None, contributions=[]))
    assert (result.term, result.total) == (None, None)


@pytest.mark.parametrize(("wait", "seconds"), [("gap", 2.0), ("first_event", 0.5), ("end", 0.01), (None, None)])
def test_every_kind_of_wait_has_its_measurement(wait: str | None, seconds: float | None) -> None:
    assert check.waited(answer(gap_s=2.0), wait) == pytest.approx(seconds)
