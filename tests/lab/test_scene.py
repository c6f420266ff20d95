"""What the reader's stamps show of a fault, what a hop that holds may hide of it, and what nobody planted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from otel.demo.faults import CLIENT, GATEWAY, PROXY, WORKER
from tests.lab.chain import Chain
from tests.lab.middles import Part
from tests.lab.shapes import Shape
from tests.lab.test_felt import seen as seen_of
from tests.lab.test_truth import case, fault, known, seen
from tests.lab.told import Kind
from tests.lab.truth import truth


def test_a_stall_is_shown_when_the_reader_waited_longer_than_a_healthy_path_adds() -> None:
    of = case(fault(Kind.STALL, GATEWAY))
    assert known(of, held_s=2.0).is_shown
    assert not known(of, held_s=0.2).is_shown


def test_a_stall_within_the_rhythm_of_the_source_is_not_shown_and_a_hop_has_none() -> None:
    for hop, is_shown in ((WORKER, False), (GATEWAY, True)):
        of = case(fault(Kind.STALL, hop), shape=Shape.BURSTY)
        assert known(of, held_s=0.4).is_shown == is_shown
        assert known(of, held_s=2.0).is_shown


def test_a_hop_that_no_tap_tells_from_the_source_has_its_rhythm() -> None:
    of = case(fault(Kind.STALL, PROXY), shape=Shape.BURSTY)
    assert not known(of, PROXY, GATEWAY, held_s=0.4).is_shown
    assert known(of, WORKER, GATEWAY, held_s=0.4).is_shown


def test_a_source_that_shows_no_rhythm_cannot_be_told_from_its_habit() -> None:
    assert not known(case(fault(Kind.STALL, WORKER), shape=Shape.AT_ONCE)).is_tellable
    assert known(case(fault(Kind.STALL, GATEWAY), shape=Shape.AT_ONCE)).is_tellable


def test_a_source_that_sends_many_events_at_a_time_may_do_so_on_purpose() -> None:
    assert not known(case(fault(Kind.BUFFER, WORKER))).is_shown
    assert known(case(fault(Kind.BUFFER, GATEWAY))).is_shown


@pytest.mark.parametrize("change", [{"is_whole": False, "is_done": False}, {"is_done": False}])
def test_a_cut_is_shown_by_a_missing_end_and_by_a_missing_mark(change: dict[str, bool]) -> None:
    of = case(fault(Kind.CUT, WORKER))
    [broken] = truth(of, seen(of, **change)).faults
    [whole] = truth(of, seen(of)).faults
    assert (broken.is_shown, whole.is_shown) == (True, False)


def test_of_two_faults_each_is_looked_for_where_it_is() -> None:
    late, early = replace(fault(Kind.STALL, GATEWAY), at_chars=500), fault(Kind.STALL, PROXY)
    of = case(early, late)
    first, second = truth(of, seen(of, held_s=2.0)).faults
    assert (first.is_shown, second.is_shown) == (True, False)


def test_what_a_hop_that_holds_much_may_hide_is_shown_where_it_stands_out_from_what_that_hop_holds() -> None:
    chain = Chain.of(Part.APP, Part.WINDOW)
    for hop, held_s, is_shown in ((WORKER, 2.0, True), (WORKER, 0.2, False), (GATEWAY, 2.0, True)):
        of = case(fault(Kind.STALL, hop), chain=chain)
        reader = seen_of(of.told.calm(), held_s=held_s, at_chars=100, merged=12)
        assert truth(of, reader).faults[0].is_shown == is_shown
    of = case(fault(Kind.STALL, WORKER), chain=chain)
    in_one_piece = seen_of(of.told.calm(), held_s=2.0, at_chars=100, merged=1_000)
    assert not truth(of, in_one_piece).faults[0].is_shown
    receipts = seen_of(of.told.calm()).receipts
    at_once = replace(in_one_piece, receipts=tuple(replace(each, at_s=in_one_piece.ended_s) for each in receipts))
    assert not truth(of, at_once).faults[0].is_shown, "also where the reader takes it apart"
    broken = case(fault(Kind.CUT, WORKER), chain=chain)
    assert truth(broken, seen(broken, is_whole=False, is_done=False)).faults[0].is_shown


def test_what_a_hop_keeps_while_the_source_stops_hides_another_fault() -> None:
    late, stopped = fault(Kind.SLOW_FIRST, PROXY), fault(Kind.STALL, WORKER)
    for part, is_shown in ((Part.WINDOW, False), (Part.APP, True)):
        of = case(late, stopped, shape=Shape.AT_ONCE, chain=Chain.of(part, Part.APP))
        in_one_piece = seen_of(of.told.calm(), held_s=2.0, merged=1_000)
        assert truth(of, in_one_piece).faults[0].is_shown == is_shown
    alone = case(late, shape=Shape.AT_ONCE, chain=Chain.of(Part.WINDOW, Part.APP))
    assert truth(alone, seen_of(alone.told.calm(), held_s=2.0, merged=1_000)).faults[0].is_shown


def test_what_a_hop_gathers_of_a_few_events_is_no_part_of_a_fault() -> None:
    of = case(fault(Kind.RATE, GATEWAY), chain=Chain.of(Part.APP, Part.MERGER))
    alone = case(fault(Kind.RATE, GATEWAY))
    for held_s, is_shown in ((0.35, False), (0.45, True)):
        merged = seen_of(of.told.calm(), held_s=held_s, at_chars=100, merged=4)
        assert truth(of, merged).faults[0].is_shown == is_shown
        assert truth(alone, merged).faults[0].is_shown, "where no hop does so, all of it is the fault's"


def test_how_long_holding_alone_made_the_reader_wait() -> None:
    chain = Chain.of(Part.APP, Part.WINDOW)
    held = {
        kind: truth(of, seen_of(of.told.calm(), held_s=2.0, at_chars=100, merged=12)).held_s
        for kind, of in {
            "nothing": case(chain=chain),
            "a stall": case(fault(Kind.STALL, GATEWAY), chain=chain),
            "a freeze": case(fault(Kind.FREEZE, GATEWAY), chain=chain),
            "a buffer": case(fault(Kind.BUFFER, GATEWAY), chain=chain),
            "pieces of the source": case(fault(Kind.BUFFER, WORKER), chain=chain),
            "no holder": case(),
        }.items()
    }
    assert held.pop("nothing") > 1.9
    assert held.pop("pieces of the source") == held.pop("no holder") == 0.0
    assert all(0.2 < alone_s < 0.4 for alone_s in held.values())


def test_what_nobody_planted_is_the_machines() -> None:
    none = case()
    assert truth(none, seen(none, held_s=1.0)).excess_s == pytest.approx(1.0, abs=0.05)
    of = case(fault(Kind.STALL, GATEWAY))
    assert truth(of, seen(of, held_s=2.0)).excess_s == pytest.approx(0.0, abs=0.05)
    assert truth(of, seen(of, held_s=2.7)).excess_s == pytest.approx(0.7, abs=0.05)
    frozen = case(fault(Kind.FREEZE, GATEWAY))
    assert truth(frozen, seen(frozen, held_s=2.0)).excess_s == pytest.approx(0.0, abs=0.05)
    slow = case(fault(Kind.SLOW_READ, CLIENT))
    assert truth(slow, seen(slow, held_s=2.0)).excess_s is None
