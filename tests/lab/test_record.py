"""The reader's record says what its receipts say, and lines up with what the sidecars saw."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel import decompose
from otel.demo.answer import Answer, Receipt
from otel.hop import Ending, EventClass, Side
from otel.join import join
from otel.lineup import line_up
from tests.lab.record import record
from tests.support.chain import Chain, S, run

HOPS = run(Chain())
GATEWAY = HOPS[-1]


def answer(*receipts: Receipt, **more: object) -> Answer:
    made = Answer(200, receipts, (receipts[-1].at_s if receipts else 0.0) + 0.25, is_whole=True, is_done=True)
    return replace(made, **more)  # type: ignore[arg-type]  # whoever names a field gives its type


SAID = answer(Receipt(0.1, 0), Receipt(0.2, 0, has_thought=True), Receipt(0.3, 5), Receipt(0.4, 7), Receipt(0.4, 0))


def test_each_receipt_is_an_event_received_and_consumed_at_once():
    hop = record(SAID, outermost=GATEWAY, is_exact=True)
    assert [(s.seq, s.arrived_ns, s.taken_ns) for s in hop.timeline.stamps][2] == (2, 300_000_000, 300_000_000)
    assert [s.position for s in hop.timeline.stamps] == [0, 0, 5, 12, 12]
    assert [s.event_class for s in hop.timeline.stamps] == [
        EventClass.CONTROL,
        EventClass.REASONING,
        EventClass.CONTENT,
        EventClass.CONTENT,
        EventClass.TERMINAL,
    ]


@pytest.mark.parametrize(
    ("seen", "has_left", "expected"),
    [
        (SAID, False, (Ending.COMPLETE, Side.UPSTREAM)),
        (replace(SAID, is_done=False), False, (Ending.MISSING_TERMINAL, Side.UPSTREAM)),
        (replace(SAID, is_whole=False), False, (Ending.UPSTREAM_CUT, Side.UPSTREAM)),
        (replace(SAID, is_whole=False), True, (Ending.CLIENT_DISCONNECT, Side.DOWNSTREAM)),
    ],
)
def test_its_end_is_what_the_reader_saw_of_it(seen, has_left, expected):
    hop = record(seen, outermost=GATEWAY, has_left=has_left)
    assert hop.end is not None
    assert (hop.end.ending, hop.end.ended_by) == expected
    assert hop.end.idle_ns == 250_000_000
    assert (hop.moments.client_left_ns is not None) is has_left


def test_an_answer_without_an_event_has_a_record_too():
    hop = record(answer(is_whole=False, is_done=False), outermost=GATEWAY)
    assert not hop.timeline.stamps
    assert hop.end is not None
    assert hop.end.ending is Ending.UPSTREAM_CUT


@given(st.booleans(), st.integers(1, 200), st.sampled_from([1, 3, 50]))
def test_it_lines_up_with_the_taps_by_its_receipts_alone(is_exact, late_ms, chars):
    hops = run(Chain(is_exact=is_exact, chars=(chars,)))
    taken = [s.taken_ns or 0 for s in hops[-1].timeline.stamps]
    seen = answer(*(Receipt(ns / S + late_ms / 1e3, chars) for ns in taken))
    path = join([*hops, record(seen, outermost=hops[-1], is_exact=is_exact)])
    lineup, unaligned = line_up(path.taps)
    assert lineup is not None
    assert not unaligned
    assert lineup.by_ordinal
    assert not lineup.rewriters
    wait = decompose.gap_before(lineup, 60)
    assert sum(wait.terms.values()) == wait.gap_ns
    assert all(abs(ns) < 1_000_000 for segment, ns in wait.terms.items() if segment.label != "source")
