"""The marks: what a verdict is called when the truth is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from otel.demo.faults import GATEWAY, PROXY, WORKER
from tests.lab.chain import Chain, Links
from tests.lab.marks import Mark, mark
from tests.lab.middles import Part
from tests.lab.noise import Noise
from tests.lab.shapes import Shape
from tests.lab.test_truth import APPS, case, fault, seen
from tests.lab.told import Kind, Planted

STALL = case(fault(Kind.STALL, GATEWAY))
LATE = seen(STALL, held_s=2.0)


def verdict(cause: str = "none", hop: str | None = None, *others: tuple[str, str], **changes: Any) -> dict[str, Any]:
    said = {
        "status": "healthy" if hop is None else "named",
        "first_hop": hop,
        "cause": cause,
        "wait": None,
        "gap_s": None,
        "contributions": [],
        "others": [{"cause": other, "first_hop": where} for other, where in others],
        "observed_to": "reader_kernel",
        "confidence": 0.9,
    }
    return {**said, **changes}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (verdict("app_stall", GATEWAY), Mark.RIGHT),
        (verdict("network", GATEWAY), Mark.WRONG_CAUSE),
        (verdict("app_stall", PROXY), Mark.WRONG_HOP),
        (verdict("app_stall", PROXY, ("app_stall", GATEWAY)), Mark.SECOND),
        (verdict(), Mark.MISSED),
        (verdict(status="inconclusive", confidence=0.0), Mark.INCONCLUSIVE),
    ],
)
def test_verdicts_on_a_stall_that_the_reader_felt(said: dict[str, Any], expected: Mark) -> None:
    assert mark(STALL, said, LATE).mark is expected


@pytest.mark.parametrize(("confidence", "is_accusation"), [(0.79, False), (0.8, True)])
def test_what_is_wrong_is_an_accusation_from_a_confidence_on(confidence: float, is_accusation: bool) -> None:
    said = verdict("app_stall", PROXY, confidence=confidence)
    assert mark(STALL, said, LATE).is_confidently_wrong == is_accusation


def test_a_fault_that_the_reader_did_not_feel_may_be_missed() -> None:
    assert mark(STALL, verdict(), seen(STALL, held_s=0.2)).mark is Mark.UNFELT


def test_of_two_faults_the_one_is_named_and_the_other_beside_it() -> None:
    first, second = fault(Kind.SLOW_FIRST, PROXY), fault(Kind.STALL, GATEWAY)
    of = case(second, first)
    reader = seen(of, held_s=2.0)
    receipts = tuple(replace(receipt, at_s=receipt.at_s + 2) for receipt in reader.receipts)
    both = replace(reader, receipts=receipts, ended_s=reader.ended_s + 2)
    named, beside = ("app_stall", GATEWAY), ("slow_first_event", PROXY)
    assert mark(of, verdict(*named, beside), both).mark is Mark.RIGHT
    assert mark(of, verdict(*beside, named), both).mark is Mark.RIGHT
    assert mark(of, verdict(*named), both).mark is Mark.HALF
    assert mark(of, verdict(*named), reader).mark is Mark.RIGHT


def test_behind_the_last_tap_it_is_right_to_say_that_nothing_was_seen() -> None:
    of = case(fault(Kind.STALL, GATEWAY), chain=APPS.without(GATEWAY))
    assert mark(of, verdict(status="inconclusive"), LATE).mark is Mark.BEYOND
    assert mark(of, verdict(observed_to="our_kernel"), LATE).mark is Mark.BEYOND
    assert mark(of, verdict(), LATE).mark is Mark.MISSED
    assert mark(of, verdict("network", "client", confidence=0.54), LATE).mark is Mark.RIGHT
    assert mark(STALL, verdict(observed_to="our_kernel"), LATE).mark is Mark.MISSED


@pytest.mark.parametrize(("confidence", "expected"), [(0.79, Mark.RIGHT), (0.8, Mark.TOO_SURE)])
def test_a_segment_that_hides_a_hop_may_not_be_named_as_surely_as_one_that_hides_none(
    confidence: float, expected: Mark
) -> None:
    of = case(fault(Kind.STALL, PROXY), chain=APPS.without(PROXY))
    result = mark(of, verdict("app_stall", GATEWAY, confidence=confidence), LATE)
    assert (result.mark, result.is_confidently_wrong) == (expected, expected is Mark.TOO_SURE)


def test_a_source_without_a_rhythm_may_not_be_called_healthy() -> None:
    of = case(fault(Kind.STALL, WORKER), shape=Shape.AT_ONCE)
    reader = seen(of, held_s=2.0)
    assert mark(of, verdict(status="inconclusive"), reader).mark is Mark.BEYOND
    assert mark(of, verdict("source_stall", WORKER), reader).mark is Mark.RIGHT
    assert mark(of, verdict(), reader).mark is Mark.MISSED


def test_a_hop_that_always_buffers_is_right_to_be_named_and_may_hide_a_fault() -> None:
    chain = Chain.of(Part.APP, Part.NGINX_BUFFERING)
    none, stalled = case(chain=chain), case(fault(Kind.STALL, WORKER), chain=chain)
    buffering, source = ("buffering", GATEWAY), ("source_stall", WORKER)
    assert mark(none, verdict(*buffering), seen(none, held_s=0.6)).mark is Mark.RIGHT
    assert mark(none, verdict(), seen(none, held_s=0.6)).mark is Mark.MISSED
    assert mark(none, verdict(), seen(none)).mark is Mark.HEALTHY
    assert mark(stalled, verdict(*buffering, source), seen(stalled, held_s=2.0)).mark is Mark.RIGHT
    assert mark(stalled, verdict(*buffering), seen(stalled, held_s=2.0)).mark is Mark.HALF
    assert mark(stalled, verdict(*buffering), seen(stalled, held_s=0.2)).mark is Mark.RIGHT
    assert mark(stalled, verdict(), seen(stalled, held_s=2.0)).mark is Mark.MISSED
    assert mark(stalled, verdict("app_stall", PROXY), seen(stalled, held_s=2.0)).mark is Mark.WRONG_HOP


def test_who_holds_need_not_be_named_for_what_a_source_sends_in_pieces() -> None:
    of = case(fault(Kind.BUFFER, WORKER), chain=Chain.of(Part.APP, Part.NGINX_BUFFERING))
    assert mark(of, verdict(), seen(of, held_s=0.6)).mark is Mark.UNFELT


def test_what_a_hop_that_merges_does_wrong_is_told_by_its_hold() -> None:
    of = case(fault(Kind.STALL, GATEWAY), chain=Chain.of(Part.APP, Part.MERGER))
    assert mark(of, verdict("buffering", GATEWAY), seen(of, held_s=2.0)).mark is Mark.RIGHT


# ------------------------------------------------------------------------------- the machine's own noise


def held_up(seconds: float) -> list[dict[str, Any]]:
    return [{"segment": "source", "seconds": 0.1}, {"segment": "model-worker>inference-proxy", "seconds": seconds}]


def test_who_is_named_for_nothing_is_accused_unless_the_reader_waited_all_the_same() -> None:
    none, said = case(), verdict("app_stall", GATEWAY, contributions=held_up(0.9))
    assert mark(none, said, seen(none)).mark is Mark.ACCUSED
    assert mark(none, said, seen(none), noise=Noise(9.0, {GATEWAY: 9.0})).mark is Mark.ACCUSED
    assert mark(none, said, seen(none, held_s=1.0)).mark is Mark.DISTURBED
    assert mark(none, said, seen(none, held_s=0.5)).mark is Mark.ACCUSED
    assert mark(none, verdict("truncated", GATEWAY), seen(none, held_s=1.0)).mark is Mark.ACCUSED
    assert mark(none, verdict(), seen(none)).mark is Mark.HEALTHY


def test_noise_excuses_no_verdict_that_does_not_tell_the_planted_fault() -> None:
    reader = seen(STALL, held_s=3.0)
    both = verdict("app_stall", PROXY, ("app_stall", GATEWAY), contributions=held_up(0.9))
    assert mark(STALL, both, reader).mark is Mark.DISTURBED
    assert mark(STALL, verdict("app_stall", PROXY), reader).mark is Mark.WRONG_HOP
    assert mark(STALL, verdict(), reader).mark is Mark.MISSED


def test_where_the_readers_stamps_cannot_tell_the_time_does_that_a_process_waited_for_a_core() -> None:
    of = case(fault(Kind.SLOW_READ, "client"))
    reader = seen(of, held_off_s=2.0)
    said = verdict("app_stall", PROXY, ("slow_reader", "client"), contributions=held_up(0.5))
    for name, waited_s, expected in (
        (PROXY, 0.45, Mark.DISTURBED),
        (PROXY, 0.3, Mark.SECOND),
        (f"{WORKER} sidecar", 0.45, Mark.DISTURBED),
        (GATEWAY, 0.45, Mark.SECOND),
    ):
        assert mark(of, said, reader, noise=Noise(0.0, {name: waited_s})).mark is expected


# ---------------------------------------------------------------------------------------------- seconds


def test_seconds_are_compared_with_what_was_planted_and_with_what_the_reader_stamped() -> None:
    terms = [{"segment": "source", "seconds": 0.025}, {"segment": "inference-proxy>gateway", "seconds": 1.96}]
    said = verdict("app_stall", GATEWAY, wait="gap", gap_s=1.985, contributions=terms)
    result = mark(STALL, said, LATE)
    assert result.term is not None
    assert result.term.error_s == pytest.approx(-0.04)
    assert result.total is not None
    assert result.total.known_s == pytest.approx(LATE.longest_gap_s)
    assert not result.total.is_within
    assert mark(STALL, said, LATE, noise=Noise(0.05)).total is None


def test_no_sum_is_compared_where_a_hop_without_a_tap_stands_before_the_reader() -> None:
    terms = [{"segment": "inference-proxy>gateway", "seconds": 1.96}]
    said = verdict("app_stall", PROXY, wait="gap", gap_s=1.96, contributions=terms)
    of = case(fault(Kind.STALL, PROXY), chain=APPS.without(GATEWAY))
    assert mark(of, said, LATE).mark is Mark.RIGHT
    assert mark(of, said, LATE).total is None


@pytest.mark.parametrize(("hop", "is_compared"), [("client", False), (GATEWAY, True)])
def test_no_sum_is_compared_where_acknowledgements_of_the_reader_are_lost_as_well(hop: str, is_compared: bool) -> None:
    of = case(fault(Kind.LOSS, hop), chain=replace(APPS, links=Links((0.0, 0.0, 0.02))))
    said = verdict("network", hop, wait="gap", gap_s=2.0, contributions=[{"segment": "source", "seconds": 2.0}])
    assert (mark(of, said, LATE).total is not None) == is_compared


@pytest.mark.parametrize(("hop", "limit_s"), [("client", 0.3), (GATEWAY, 0.1)])
def test_behind_a_slow_link_an_acknowledgement_may_be_late_unseen(hop: str, limit_s: float) -> None:
    of = case(fault(Kind.RATE, hop), chain=replace(APPS, links=Links((0.0, 0.0, 0.0))))
    said = verdict("network", hop, wait="gap", gap_s=2.0, contributions=[{"segment": "source", "seconds": 2.0}])
    total = mark(of, said, LATE).total
    assert total is not None
    assert total.limit_s == pytest.approx(limit_s)


def test_a_small_window_may_take_a_round_trip_that_no_tap_sees() -> None:
    limits_s = []
    for receive_bytes in (None, 16_384):
        of = case(fault(Kind.STALL, GATEWAY), chain=replace(APPS, links=Links((0.0, 0.0, 0.02), receive_bytes)))
        terms = [{"segment": "inference-proxy>gateway", "seconds": 2.0}]
        total = mark(of, verdict("app_stall", GATEWAY, wait="gap", gap_s=2.0, contributions=terms), LATE).total
        assert total is not None
        limits_s.append(total.limit_s)
    assert limits_s == [pytest.approx(0.02), pytest.approx(0.06)]


def test_a_sum_is_compared_with_no_wait_that_the_script_explains() -> None:
    of = case(fault(Kind.STALL, GATEWAY), shape=Shape.BURSTY)
    reader = seen(of, held_s=2.0)
    said = verdict("app_stall", GATEWAY, wait="gap", gap_s=0.3, contributions=[{"segment": "source", "seconds": 0.3}])
    result = mark(of, said, reader)
    assert result.total is not None
    assert result.total.known_s == pytest.approx(reader.longest_gap_s)


def test_of_two_faults_no_seconds_are_compared_with_one() -> None:
    of = case(fault(Kind.STALL, GATEWAY), Planted(Kind.STALL, PROXY, 2.0, 500))
    said = verdict("app_stall", GATEWAY, contributions=[{"segment": "inference-proxy>gateway", "seconds": 2.0}])
    result = mark(of, said, LATE)
    assert (result.mark, result.term) == (Mark.RIGHT, None)
