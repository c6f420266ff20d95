"""What the client measured of an answer."""

from __future__ import annotations

from otel.demo.answer import Answer, Receipt


def answer(*receipts: Receipt, ended_s: float) -> Answer:
    return Answer(200, receipts, ended_s, is_whole=True, is_done=True)


def test_waits_are_those_between_texts_and_other_events_do_not_count() -> None:
    seen = answer(
        Receipt(0.1, 0),
        Receipt(0.2, 6),
        Receipt(0.9, 0),
        Receipt(1.2, 6),
        Receipt(1.2, 6),
        Receipt(1.3, 0),
        ended_s=1.5,
    )
    assert seen.first_text_s == 0.2
    assert seen.longest_gap_s == 1.0
    assert round(seen.end_s, 6) == 0.3


def test_an_answer_without_text_has_no_first_text_and_no_gap() -> None:
    seen = answer(Receipt(0.1, 0), ended_s=0.5)
    assert (seen.first_text_s, seen.longest_gap_s, seen.end_s) == (None, 0.0, 0.5)
