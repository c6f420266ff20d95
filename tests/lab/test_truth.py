"""The marks: what a verdict is called when the truth is known."""

from __future__ import annotations

from typing import Any

import pytest

from otel.demo.answer import Answer, Receipt
from tests.lab.draw import Case, Chain, Kind, Part
from tests.lab.shapes import EVENTS, Shape, answer, texts_s
from tests.lab.truth import Mark, Marked, mark, truth

APPS = Chain()


def case(kind: Kind = Kind.NONE, hop: str | None = None, seconds: float = 0.0, **changes: Any) -> Case:
    shape = changes.pop("shape", Shape.STEADY)
    return Case(0, 5, changes.pop("chain", APPS), shape, EVENTS[shape], kind, hop, seconds)


def seen(of: Case, *, held_s: float = 0.0, at: int = 60, **changes: Any) -> Answer:
    """What a reader stamps when the text from this one on is late by so much, and comes at the pace of the script."""
    calm = answer(of.shape, request_id="", events=of.events, seed=of.seed)
    times_s = [at_s + (held_s if index >= at else 0.0) for index, at_s in enumerate(texts_s(calm))]
    receipts = tuple(Receipt(at_s, has_text=True) for at_s in times_s)
    return Answer(200, receipts, times_s[-1], **{"is_whole": True, "is_done": True, **changes})


def verdict(cause: str = "none", hop: str | None = None, **changes: Any) -> dict[str, Any]:
    said = {
        "status": "healthy" if hop is None else "named",
        "first_hop": hop,
        "cause": cause,
        "wait": None,
        "gap_s": None,
        "contributions": [],
        "others": [],
        "observed_to": "reader_kernel",
        "confidence": 0.9,
    }
    return {**said, **changes}


def marked(of: Case, said: dict[str, Any], reader: Answer) -> Marked:
    return mark(of, said, reader)


STALL = case(Kind.STALL, "gateway", 2.0)
LATE = seen(STALL, held_s=2.0)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (verdict("app_stall", "gateway"), Mark.RIGHT),
        (verdict("network", "gateway"), Mark.WRONG_CAUSE),
        (verdict("app_stall", "inference-proxy"), Mark.WRONG_HOP),
        (
            verdict("self", "gateway-2", others=[{"cause": "app_stall", "first_hop": "gateway"}]),
            Mark.SECOND,
        ),
        (verdict(), Mark.MISSED),
        (verdict(status="inconclusive", confidence=0.0), Mark.INCONCLUSIVE),
    ],
)
def test_verdicts_on_a_stall_that_the_reader_felt(said: dict[str, Any], expected: Mark) -> None:
    assert marked(STALL, said, LATE).mark is expected


@pytest.mark.parametrize(("confidence", "is_accusation"), [(0.79, False), (0.8, True)])
def test_what_is_wrong_is_an_accusation_from_a_confidence_on(confidence: float, is_accusation: bool) -> None:
    said = verdict("app_stall", "inference-proxy", confidence=confidence)
    assert marked(STALL, said, LATE).is_confidently_wrong == is_accusation


def test_a_fault_that_the_reader_did_not_feel_may_be_missed() -> None:
    assert marked(case(Kind.STALL, "gateway", 0.35), verdict(), seen(STALL, held_s=0.2)).mark is Mark.UNFELT


def test_who_is_named_for_nothing_is_accused_unless_the_reader_waited_all_the_same() -> None:
    none, said = case(), verdict("app_stall", "gateway")
    assert marked(none, said, seen(none)).mark is Mark.ACCUSED
    assert marked(none, said, seen(none, held_s=1.0)).mark is Mark.DISTURBED
    assert marked(none, verdict(), seen(none)).mark is Mark.HEALTHY


def test_a_stall_within_the_rhythm_of_the_source_is_not_shown() -> None:
    of = case(Kind.STALL, "model-worker", 0.8, shape=Shape.BURSTY)
    assert not truth(of, seen(of, held_s=0.4)).is_shown
    assert truth(of, seen(of, held_s=2.0)).is_shown


def test_a_hop_that_no_tap_tells_from_the_source_has_its_rhythm() -> None:
    of = case(Kind.STALL, "inference-proxy", 0.4, shape=Shape.BURSTY, chain=Chain(blind="model-worker"))
    assert not truth(of, seen(of, held_s=0.4)).is_shown
    assert truth(of, seen(of, held_s=2.0)).is_shown


def test_a_hop_has_no_rhythm() -> None:
    of = case(Kind.STALL, "gateway", 0.4, shape=Shape.BURSTY)
    assert truth(of, seen(of, held_s=0.4)).is_shown


def test_long_thoughts_hide_no_stall_between_texts() -> None:
    of = case(Kind.STALL, "model-worker", 0.5, shape=Shape.INTERLEAVED)
    assert truth(of, seen(of, held_s=0.5, at=30)).is_shown


@pytest.mark.parametrize(
    ("blind", "hop", "right"),
    [
        ("inference-proxy", "inference-proxy", "gateway"),
        ("inference-proxy", "gateway", "gateway"),
        ("gateway", "gateway", "client"),
        ("model-worker", "model-worker", "inference-proxy"),
        ("model-worker", "gateway", "gateway"),
    ],
)
def test_where_a_tap_is_missing_the_merged_segment_is_right(blind: str, hop: str, right: str) -> None:
    of = case(Kind.STALL, hop, 2.0, chain=Chain(blind=blind))
    assert marked(of, verdict("app_stall", right), LATE).mark is Mark.RIGHT
    if hop != right:
        assert marked(of, verdict("app_stall", hop), LATE).mark is Mark.WRONG_HOP


def test_behind_the_last_tap_healthy_is_no_miss_where_it_says_how_far_it_saw() -> None:
    of = case(Kind.STALL, "gateway", 2.0, chain=Chain(blind="gateway"))
    assert marked(of, verdict(observed_to="our_kernel"), LATE).mark is Mark.BEYOND
    assert marked(of, verdict(observed_to="reader_kernel"), LATE).mark is Mark.MISSED
    assert marked(STALL, verdict(observed_to="our_kernel"), LATE).mark is Mark.MISSED


def test_a_hop_that_always_buffers_is_right_to_be_named_besides_what_was_planted() -> None:
    buffering = Chain(gateway=Part.NGINX_BUFFERING)
    none, stalled = case(chain=buffering), case(Kind.STALL, "model-worker", 2.0, chain=buffering)
    assert marked(none, verdict("buffering", "gateway"), seen(none, held_s=0.6)).mark is Mark.RIGHT
    assert marked(none, verdict(), seen(none, held_s=0.6)).mark is Mark.MISSED
    for said in (verdict("buffering", "gateway"), verdict("source_stall", "model-worker")):
        assert marked(stalled, said, LATE).mark is Mark.RIGHT


def test_a_cut_is_shown_by_a_missing_end_and_by_a_missing_mark() -> None:
    of = case(Kind.CUT, "model-worker", 1.0)
    assert truth(of, seen(of, is_whole=False, is_done=False)).is_shown
    assert truth(of, seen(of, is_done=False)).is_shown


def test_seconds_are_compared_with_what_was_planted_and_with_what_the_reader_stamped() -> None:
    terms = [{"segment": "source", "seconds": 0.025}, {"segment": "inference-proxy>gateway", "seconds": 1.96}]
    said = verdict("app_stall", "gateway", wait="gap", gap_s=1.985, contributions=terms)
    result = marked(STALL, said, LATE)
    assert result.term is not None
    assert result.term.error_s == pytest.approx(-0.04)
    assert result.total is not None
    assert result.total.known_s == pytest.approx(LATE.longest_gap_s)
    assert not result.total.is_within


def test_of_a_source_in_a_pause_the_planted_seconds_are_those_of_its_script() -> None:
    """A stall that is shorter than the pause it falls into adds nothing."""
    of = case(Kind.STALL, "model-worker", 0.001, shape=Shape.STEADY)
    assert truth(of, seen(of)).term_s == pytest.approx(0.025, abs=0.006)
