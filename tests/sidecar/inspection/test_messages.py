"""Messages of a WebSocket: stamped in both directions, and never a word of what they say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.hop import EventClass, Exchange, Traffic
from sidecar.inspection.messages import Messages

TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA


def received(*rows: tuple[int, int, int]) -> Messages:
    found = Messages()
    for opcode, size_bytes, at_ns in rows:
        found.received(opcode, size_bytes, at_ns, is_wasted=False)
    return found


def test_data_is_opaque_and_control_is_control():
    found = received((TEXT, 5, 10), (PING, 2, 20), (BINARY, 9, 30), (PONG, 2, 40), (CLOSE, 4, 50))

    stamps = found.stamper.stamps()
    assert [(s.arrived_ns, s.event_class) for s in stamps] == [
        (10, EventClass.OPAQUE),
        (20, EventClass.CONTROL),
        (30, EventClass.OPAQUE),
        (40, EventClass.CONTROL),
        (50, EventClass.CONTROL),
    ]
    assert (found.size_bytes, found.progress_ns, found.terminal_seq) == (22, 30, 4)


def test_the_first_close_of_the_upstream_marks_the_end():
    assert received((TEXT, 5, 10)).terminal_seq is None
    assert received((CLOSE, 4, 10), (CLOSE, 4, 20)).terminal_seq == 0


def test_what_the_reader_says_has_a_timeline_of_its_own():
    found = received((TEXT, 5, 10))
    found.passed_up(TEXT, 3, 4, 6)
    found.passed_up(PING, 2, 8, 9)

    assert found.counts == (1, 2)
    assert [(s.arrived_ns, s.taken_ns, s.event_class) for s in found.sent_since(0).stamps] == [
        (4, 6, EventClass.OPAQUE),
        (8, 9, EventClass.CONTROL),
    ]
    assert [s.seq for s in found.sent_since(1).stamps] == [1]
    assert not found.has_reader_closed
    found.passed_up(CLOSE, 4, 10, 11)
    assert found.has_reader_closed


def test_what_comes_after_the_reader_left_is_wasted_and_marks_no_end():
    found = received((TEXT, 5, 10))
    found.received(TEXT, 5, 20, is_wasted=True)
    found.received(CLOSE, 4, 30, is_wasted=True)

    assert (found.wasted_count, found.terminal_seq, found.progress_ns, found.stamper.count) == (2, None, 10, 3)


def test_muted_it_counts_bytes_and_nothing_else():
    found = received((TEXT, 5, 10))
    found.mute()
    found.received(CLOSE, 4, 20, is_wasted=False)
    found.passed_up(CLOSE, 4, 20, 21)

    assert (found.size_bytes, found.counts, found.terminal_seq, found.has_reader_closed) == (9, (1, 0), None, False)
    assert found.has_begun


def test_bytes_without_messages_are_an_opaque_event_each():
    found = Messages()
    found.arrived(b"abc", 10, is_wasted=False)

    assert [s.event_class for s in found.stamper.stamps()] == [EventClass.OPAQUE]
    assert found.size_bytes == 3


def test_it_is_recorded_as_a_websocket_whose_end_nothing_has_to_mark():
    exchange = received((TEXT, 5, 10)).exchange(Exchange(method="GET", path="/", model="asked"))
    assert (exchange.framing, exchange.dialect, exchange.is_stream, exchange.has_terminal_rule) == (
        "websocket",
        "opaque",
        False,
        False,
    )
    assert (exchange.model, exchange.response_model) == ("asked", None)


@pytest.mark.parametrize("is_wasted", [False, True])
@given(rows=st.lists(st.tuples(st.integers(0, 15), st.integers(0, 1 << 40), st.integers(0, 1 << 40)), max_size=20))
def test_whatever_the_opcode_every_message_is_counted_and_stamped(rows, is_wasted):
    found = Messages()
    for opcode, size_bytes, at_ns in rows:
        found.received(opcode, size_bytes, at_ns, is_wasted=is_wasted)

    traffic = found.traffic(Traffic())
    assert (traffic.bytes_in, traffic.event_count) == (sum(size for _, size, _ in rows), len(rows))
    assert traffic.wasted_count == (len(rows) if is_wasted else 0)
