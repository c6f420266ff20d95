"""The backlog: bounded in bytes, in order, and nothing leaves it uncounted."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from otel import schema
from otel.hop import State
from otel.otlp import decode_request, encode_request
from otel.span import Span, hop_to_span
from sidecar.backlog import Backlog
from tests.support.builders import a_hop

FINAL = hop_to_span(a_hop())
SEGMENT = hop_to_span(a_hop(state=State.OPEN))
SIZE = len(encode_request([FINAL]))


def numbered(span: Span, number: int) -> Span:
    return replace(span, span_id=f"{number:016x}")


def numbers(body: bytes) -> list[int]:
    return [int(span.span_id, 16) for span in decode_request(body)]


def backlog(*spans: Span, room_for: float = 100) -> Backlog:
    made = Backlog(limit_bytes=int(SIZE * room_for))
    for number, span in enumerate(spans, 1):
        made.offer(numbered(span, number), at_ns=number)
    return made


def is_balanced(queue: Backlog) -> bool:
    now = queue.counters(0)
    return now.offered == now.accepted + now.rejected + sum(now.dropped.values()) + now.queued


def test_a_batch_is_one_request_in_the_order_of_offers():
    assert numbers(backlog(FINAL, SEGMENT, FINAL).take(1 << 20)) == [1, 2, 3]


def test_a_batch_holds_what_fits_and_at_least_one():
    queue = backlog(FINAL, FINAL, FINAL)
    assert numbers(queue.take(2 * SIZE)) == [1, 2]
    queue.put_back()
    assert numbers(queue.take(1)) == [1]


def test_what_was_put_back_stands_where_it_stood():
    queue = backlog(FINAL, SEGMENT, FINAL, SEGMENT)
    queue.take(2 * SIZE)
    queue.put_back()
    assert numbers(queue.take(1 << 20)) == [1, 2, 3, 4]


def test_what_is_in_flight_still_counts_as_queued_and_has_its_age():
    queue = backlog(FINAL, FINAL)
    queue.take(SIZE)
    assert queue.counters(now_ns=3_000_000_001).queued == 2
    assert queue.counters(now_ns=3_000_000_001).queued_bytes == 2 * SIZE
    assert queue.counters(now_ns=3_000_000_001).oldest_age_s == 3.0


def test_an_empty_backlog_has_no_age():
    assert backlog().counters(now_ns=1).oldest_age_s is None


def test_settled_spans_are_gone_and_counted_as_what_they_became():
    queue = backlog(FINAL, FINAL, FINAL)
    queue.take(1 << 20)
    assert queue.settle(rejected=1) == 1
    counters = queue.counters(0)
    assert (counters.accepted, counters.rejected, counters.queued, counters.queued_bytes) == (2, 1, 0, 0)


def test_a_receiver_cannot_reject_more_than_it_was_sent():
    queue = backlog(FINAL)
    queue.take(SIZE)
    assert queue.settle(rejected=7) == 1
    queue = backlog(FINAL)
    queue.take(SIZE)
    assert queue.settle(rejected=-7) == 0


class TestWithoutRoom:
    def test_the_oldest_segments_give_way_to_a_final_record(self):
        queue = backlog(SEGMENT, FINAL, SEGMENT, FINAL, room_for=3)
        assert numbers(queue.take(1 << 20)) == [2, 3, 4]
        assert queue.dropped == {"segment_gave_way": 1}

    def test_an_older_segment_gives_way_to_a_newer_one(self):
        assert numbers(backlog(SEGMENT, SEGMENT, SEGMENT, room_for=2.2).take(1 << 20)) == [2, 3]

    def test_a_final_record_among_final_records_is_refused(self):
        queue = backlog(FINAL, FINAL, room_for=2.5)
        assert not queue.offer(FINAL, at_ns=9)
        assert numbers(queue.take(1 << 20)) == [1, 2]
        assert queue.dropped == {"queue_full": 1}

    def test_no_segment_gives_way_in_vain(self):
        queue = backlog(FINAL, FINAL, SEGMENT, room_for=3)
        large = replace(FINAL, name="x" * 3 * SIZE)
        assert not queue.offer(large, at_ns=9)
        assert numbers(queue.take(1 << 20)) == [1, 2, 3]

    def test_what_is_in_flight_does_not_give_way(self):
        queue = backlog(SEGMENT, SEGMENT, room_for=2)
        queue.take(1 << 20)
        assert not queue.offer(FINAL, at_ns=9)
        assert queue.settle(rejected=0) == 0
        assert queue.counters(0).accepted == 2


def test_a_span_that_cannot_be_encoded_is_dropped_and_counted():
    queue = backlog()
    assert not queue.offer(replace(FINAL, trace_id="nonsense"), at_ns=0)
    assert queue.dropped == {"unencodable": 1}
    assert is_balanced(queue)


def test_a_span_too_large_for_the_receiver_loses_its_timeline_once():
    queue = backlog(FINAL)
    queue.take(SIZE)
    assert queue.lighten()
    assert not queue.lighten()
    queue.put_back()
    (span,) = decode_request(queue.take(SIZE))
    timeline = next(event for event in span.events if event.name == schema.TIMELINE_EVENT).attributes
    assert timeline["gapline.timeline.left_out"] is True
    assert not [name for name in timeline if name.startswith(schema.PART_PREFIX)]
    assert queue.counters(0).timelines_left_out == 1
    assert queue.counters(0).queued_bytes < SIZE


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("offer"), st.sampled_from((FINAL, SEGMENT, replace(FINAL, trace_id="")))),
        st.tuples(st.just("deliver"), st.integers(1, 4 * SIZE), st.sampled_from(("put_back", "settle", "lighten"))),
    ),
    max_size=40,
)


@given(STEPS, st.integers(0, 5))
def test_the_counts_add_up_and_the_bytes_stay_bounded_whatever_happens(steps, rejected):
    queue = Backlog(limit_bytes=3 * SIZE)
    for step in steps:
        match step:
            case ("offer", span):
                queue.offer(span, at_ns=0)
            case ("deliver", limit_bytes, what) if queue.held_bytes:
                assert queue.take(limit_bytes)
                assert is_balanced(queue)
                if what == "settle":
                    queue.settle(rejected=rejected)
                elif what == "lighten" and queue.flight_count == 1:
                    queue.lighten()
                queue.put_back()
        assert is_balanced(queue)
        assert 0 <= queue.held_bytes <= 3 * SIZE
        assert (queue.counters(0).queued == 0) is (queue.held_bytes == 0)
