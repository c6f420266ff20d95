"""The truth of a case: who may be named by the taps that are there, and what the reader's stamps show."""

from __future__ import annotations

from dataclasses import replace

import pytest

from otel.demo.answer import Answer
from otel.demo.faults import CLIENT, GATEWAY, PROXY, WORKER
from tests.lab.chain import Chain, Links, Tap
from tests.lab.draw import Case
from tests.lab.middles import Part
from tests.lab.shapes import EVENTS, Shape
from tests.lab.test_felt import seen as seen_of
from tests.lab.told import Kind, Planted
from tests.lab.truth import Blame, Known, truth

APPS = Chain.of(Part.APP, Part.APP)
TWO_TAPS = Chain(tuple(replace(p, tap=Tap.BOTH) if p.name == GATEWAY else p for p in APPS.hops))


def case(*faults: Planted, shape: Shape = Shape.STEADY, chain: Chain = APPS) -> Case:
    return Case(0, 5, chain, shape, EVENTS[shape], faults=faults)


def fault(kind: Kind, hop: str, seconds: float = 2.0) -> Planted:
    return Planted(kind, hop, seconds, 100)


def seen(of: Case, *, held_s: float = 0.0, **changes: object) -> Answer:
    """What a reader stamps when the text from the fault on is late by so much."""
    at_chars = of.faults[0].at_chars if of.faults else 100
    return replace(seen_of(of.told.calm(), held_s=held_s, at_chars=at_chars), **changes)


def known(of: Case, *taps: str, held_s: float = 2.0) -> Known:
    [only] = truth(of, seen(of, held_s=held_s), taps or None).faults
    return only


@pytest.mark.parametrize(
    ("kind", "hop", "blame"),
    [
        (Kind.STALL, GATEWAY, Blame(GATEWAY, "app_stall")),
        (Kind.STALL, WORKER, Blame(WORKER, "source_stall")),
        (Kind.SLOW_FIRST, PROXY, Blame(PROXY, "slow_first_event")),
        (Kind.END_HOLD, PROXY, Blame(PROXY, "end_hold")),
        (Kind.CUT, WORKER, Blame(WORKER, "truncated")),
        (Kind.FREEZE, GATEWAY, Blame(GATEWAY, "app_stall")),
        (Kind.SELF, GATEWAY, Blame(GATEWAY, "self")),
        (Kind.SLOW_READ, CLIENT, Blame(CLIENT, "slow_reader")),
        (Kind.LEAVE, CLIENT, Blame(CLIENT, "client_disconnect")),
        (Kind.BLACK_HOLE, GATEWAY, Blame(GATEWAY, "network")),
        (Kind.LOSS, CLIENT, Blame(CLIENT, "network")),
    ],
)
def test_with_all_taps_the_planted_hop_and_its_cause_are_right(kind: Kind, hop: str, blame: Blame) -> None:
    assert known(case(fault(kind, hop))).blames == {blame}


@pytest.mark.parametrize(
    ("taps", "hop", "right"),
    [
        ((WORKER, GATEWAY), PROXY, Blame(GATEWAY, None)),
        ((WORKER, GATEWAY), GATEWAY, Blame(GATEWAY, None)),
        ((WORKER, PROXY), GATEWAY, Blame(CLIENT, None)),
        ((PROXY, GATEWAY), WORKER, Blame(PROXY, None)),
        ((PROXY, GATEWAY), GATEWAY, Blame(GATEWAY, "app_stall")),
    ],
)
def test_where_a_tap_is_missing_the_merged_segment_is_right(taps: tuple[str, ...], hop: str, right: Blame) -> None:
    assert known(case(fault(Kind.STALL, hop)), *taps).blames == {right}


def test_between_two_egress_taps_the_app_whose_own_tap_is_missing_is_named_with_any_cause() -> None:
    chain = Chain(tuple(replace(p, tap=Tap.BOTH) if p.name != WORKER else p for p in APPS.hops))
    taps = (WORKER, f"{PROXY} egress", f"{GATEWAY} egress", GATEWAY)
    for kind, hop in ((Kind.STALL, PROXY), (Kind.BLACK_HOLE, GATEWAY)):
        assert known(case(fault(kind, hop), chain=chain), *taps).blames == {Blame(PROXY, None)}
    assert known(case(fault(Kind.STALL, GATEWAY), chain=chain), *taps).blames == {Blame(GATEWAY, "app_stall")}


def test_a_sidecar_that_is_not_asked_is_part_of_the_segment_around_it() -> None:
    of = case(fault(Kind.SELF, PROXY))
    assert known(of, WORKER, GATEWAY).blames == {Blame(GATEWAY, None)}
    assert known(of, WORKER, GATEWAY).segment is None


def test_two_taps_of_a_hop_split_its_app_from_its_link() -> None:
    stalled = known(case(fault(Kind.STALL, GATEWAY), chain=TWO_TAPS))
    assert (stalled.blames, stalled.segment) == ({Blame(GATEWAY, "app_stall")}, "gateway egress>gateway")
    cut_off = known(case(fault(Kind.BLACK_HOLE, GATEWAY), chain=TWO_TAPS))
    assert cut_off.blames == {Blame(GATEWAY, "network")}


def test_behind_the_last_tap_nothing_can_be_told() -> None:
    of = case(fault(Kind.STALL, GATEWAY), chain=APPS.without(GATEWAY))
    assert not known(of).is_tellable
    assert known(case(fault(Kind.STALL, PROXY), chain=of.chain)).is_tellable


def test_a_hop_that_always_buffers_may_be_named_besides_what_was_planted_and_no_seconds_are_known() -> None:
    of = case(fault(Kind.STALL, WORKER), chain=Chain.of(Part.APP, Part.NGINX_BUFFERING))
    true = truth(of, seen(of, held_s=2.0))
    assert {Blame(GATEWAY, "buffering"), Blame(WORKER, "source_stall")} <= true.blames
    assert true.faults[0].term_s is None


def test_behind_a_hop_that_merges_a_hold_is_called_by_the_wait_in_which_the_reader_felt_it() -> None:
    chain = Chain.of(Part.APP, Part.MERGER)
    of = case(fault(Kind.END_HOLD, GATEWAY), chain=chain)
    late_text = seen_of(of.told.calm(), held_s=2.0, at_chars=of.told.calm().length)
    [end] = truth(of, late_text).faults
    assert end.blames == {Blame(GATEWAY, "end_hold"), Blame(GATEWAY, "app_stall")}
    assert known(case(fault(Kind.STALL, WORKER), chain=chain)).blames == {Blame(WORKER, "source_stall")}
    first = replace(fault(Kind.STALL, WORKER), at_chars=3)
    [early] = truth(case(first, chain=chain), seen(case(first, chain=chain), held_s=2.0)).faults
    assert Blame(WORKER, "slow_first_event") in early.blames


def test_a_hop_that_waits_for_a_few_events_hides_nothing_of_a_lively_answer() -> None:
    chain = Chain.of(Part.APP, Part.MERGER)
    held = [truth(of, seen(of)).is_held for of in (case(shape=s, chain=chain) for s in (Shape.STEADY, Shape.BURSTY))]
    assert held == [False, True]


# ----------------------------------------------------------------------------------- its seconds


@pytest.mark.parametrize(
    ("kind", "hop", "label", "seconds"),
    [
        (Kind.STALL, GATEWAY, "inference-proxy>gateway", 2.0),
        (Kind.STALL, WORKER, "source", 2.0),
        (Kind.SELF, GATEWAY, "self:gateway", 2.0),
        (Kind.SLOW_READ, CLIENT, "gateway>client", 2.0),
    ],
)
def test_the_planted_segment_and_its_seconds(kind: Kind, hop: str, label: str, seconds: float) -> None:
    one = known(case(fault(kind, hop)))
    assert (one.segment, one.term_s) == (label, pytest.approx(seconds))


def test_what_else_lies_in_a_segment_is_known_where_it_does() -> None:
    links = Links((0.0, 0.02, 0.0))
    linked = replace(APPS, links=links)
    assert known(case(fault(Kind.STALL, GATEWAY))).slack_s == 0.0
    assert known(case(fault(Kind.SLOW_FIRST, GATEWAY), chain=linked)).slack_s == pytest.approx(0.08)
    assert known(case(fault(Kind.STALL, GATEWAY), chain=linked)).slack_s == 0.0
    assert known(case(fault(Kind.SLOW_FIRST, WORKER), chain=linked)).slack_s == 0.0
    assert 0.02 < known(case(fault(Kind.BUFFER, GATEWAY))).slack_s < 0.031
    assert known(case(fault(Kind.SLOW_READ, CLIENT), chain=linked)).term_s is None
    assert known(case(fault(Kind.SLOW_READ, CLIENT)), held_s=2.3).slack_s == pytest.approx(0.3, abs=0.05)
    split = Chain.of(Part.APP, Part.SPLITTER)
    exact = replace(split, is_exact=True)
    assert 0.02 < known(case(fault(Kind.STALL, PROXY), chain=split)).slack_s < 0.031
    assert known(case(fault(Kind.STALL, PROXY), chain=exact)).slack_s == 0.0


def test_a_stall_that_is_shorter_than_the_pause_it_falls_into_adds_nothing() -> None:
    assert known(case(fault(Kind.STALL, WORKER, 0.001))).term_s == pytest.approx(0.025, abs=0.006)
