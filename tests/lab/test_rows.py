"""One recorded case in several ways: each row has the evidence that it says, and no row names an innocent for sure."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.demo.answer import Answer, Receipt
from otel.findings import Policy
from otel.known import Known
from tests.lab.rows import Judged, Row, judged, table
from tests.support.chain import GATEWAY, MS, NAMES, PROXY, WORKER, Chain, S, run

CONFIDENT = 0.8
POLICY = Policy(first_event_ns=1 * S)


class Mark(StrEnum):
    RIGHT = "right"
    MISSED = "missed"


def rows(chain: Chain, **more: object) -> list[Judged]:
    """The rows of a chain whose reader consumed as its record says; the taps have no part in that record."""
    *hops, own = run(replace(chain, has_record=True))
    stamps = own.timeline.stamps
    steps = zip(stamps, [0, *(s.position for s in stamps)], strict=False)
    receipts = tuple(Receipt((s.taken_ns or 0) / S, s.position - before) for s, before in steps)
    seen = Answer(200, receipts, own.moments.closed_ns / S, is_whole=True, is_done=True)
    return list(judged(hops, answer=seen, policy=POLICY, expected_path=chain.names, **more))  # type: ignore[arg-type]


def by_row(found: list[Judged]) -> dict[Row, list[Judged]]:
    return {row: [each for each in found if each.row is row] for row in Row}


def said(judged: Judged) -> tuple[str, str | None]:
    return judged.verdict["cause"], judged.verdict["first_hop"]


def test_each_row_has_the_taps_that_it_says():
    found = by_row(rows(Chain(egress=[PROXY])))
    whole = (WORKER, f"{PROXY} egress", PROXY, GATEWAY)
    assert [each.taps for each in found[Row.TAPS]] == [whole]
    assert [each.taps for each in found[Row.RECORD]] == [(*whole, "client")]
    assert [each.taps for each in found[Row.QUANTISED]] == [whole]
    assert found[Row.EXACT] == []
    assert [each.taps for each in found[Row.TAP_AWAY]] == [
        (WORKER, PROXY, GATEWAY),
        (WORKER, f"{PROXY} egress", GATEWAY),
    ]
    assert [each.taps for each in found[Row.EGRESS_AWAY]] == [NAMES]


def test_what_was_recorded_exactly_is_judged_both_ways():
    found = by_row(rows(Chain(is_exact=True, merge={PROXY: 7}, stalls=[(GATEWAY, 5, 2 * S)])))
    exact, coarse = found[Row.EXACT][0], found[Row.QUANTISED][0]
    assert said(exact) == said(coarse) == ("app_stall", GATEWAY)
    assert exact.verdict["evidence"]["position_quantum"] == 1
    assert coarse.verdict["evidence"]["position_quantum"] == 32


def test_only_the_record_shows_a_reader_that_stopped_while_its_kernel_took_everything():
    found = by_row(rows(Chain(unread=(60, 2 * S))))
    assert found[Row.TAPS][0].verdict["status"] == "healthy"
    assert found[Row.TAPS][0].verdict["observed_to"] == "reader_kernel"
    assert said(found[Row.RECORD][0]) == ("slow_reader", "client")
    assert found[Row.RECORD][0].verdict["observed_to"] == "consumed"


def test_without_the_tap_in_between_the_owners_of_what_it_told_apart_are_named_together():
    (away,) = by_row(rows(Chain(stalls=[(PROXY, 60, 2 * S)])))[Row.TAP_AWAY]
    assert said(away) == ("app_stall", GATEWAY)
    assert away.verdict["owner"] == f"{PROXY} or {GATEWAY} app"
    assert away.verdict["confidence"] < CONFIDENT


def test_a_hop_of_which_only_the_inner_tap_is_there_is_not_taken_for_observed():
    _, outer_away = by_row(rows(Chain(egress=[PROXY], stalls=[(PROXY, 60, 2 * S)])))[Row.TAP_AWAY]
    assert outer_away.verdict["owner"] == f"{PROXY} or {GATEWAY} app"
    assert outer_away.verdict["confidence"] < CONFIDENT


def test_what_the_answers_before_showed_is_known_to_every_row():
    bursts = Chain(schedule=[100_000] * 29 + [800 * MS], events=60)
    known = Known()
    assert rows(bursts)[0].verdict["status"] == "inconclusive"
    for _ in range(6):
        found = rows(bursts, known=known)
    assert {each.verdict["status"] for each in found} == {"healthy"}


@given(
    st.sampled_from(["source", PROXY, GATEWAY, "client"]),
    st.integers(10, 100),
    st.integers(400 * MS, 20 * S),
    st.builds(
        Chain,
        events=st.just(200),
        is_exact=st.booleans(),
        merge=st.sampled_from([{}, {PROXY: 5}, {GATEWAY: 9}]),
        egress=st.sampled_from([(), (PROXY,), (PROXY, GATEWAY)]),
    ),
)
def test_no_row_names_for_sure_whoever_did_not_do_it(where, event, size, chain):
    if where == "client":
        chain = replace(chain, unread=(event // 10, size))
    else:
        chain = replace(chain, stalls=[(where, event, size)])
    guilty = WORKER if where == "source" else where
    for each in rows(chain):
        is_sure = each.verdict["status"] == "named" and each.verdict["confidence"] >= CONFIDENT
        assert not is_sure or each.verdict["first_hop"] == guilty, each


@pytest.mark.parametrize("marks", [[], [(Row.RECORD, Mark.MISSED), (Row.TAPS, Mark.RIGHT), (Row.TAPS, Mark.RIGHT)]])
def test_the_table_counts_the_marks_of_each_row(marks):
    lines = table(marks).splitlines()
    assert lines[2:] == (["| taps alone | 2 |  |", "| with the reader's record |  | 1 |"] if marks else [])
