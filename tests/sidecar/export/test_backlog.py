"""The backlog: bounded in bytes, in order, and nothing leaves it uncounted, with a disk behind it or without one."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel import schema
from otel.hop import State
from otel.otlp import decode_request, encode_request
from otel.span import Span, hop_to_span
from sidecar.export.backlog import Backlog
from sidecar.export.spool import Spool
from sidecar.export.spool.turn import Condition, Place, Record, Turned
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
    left = now.accepted + now.rejected + sum(now.dropped.values()) + now.queued + now.spooled
    return now.offered + now.restored == left and 0 <= now.unspooled <= now.queued


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


class TestWithADisk:
    """Turns by hand: what the disk has done is what the test says."""

    @staticmethod
    def turn(queue: Backlog, *, takes: int = 1_000, loaded=(), lost=None, restored: int = 0) -> list[int]:
        """One turn of a disk that takes so many of the fresh; the numbers of those that it was given."""
        asked = queue.turn()
        places = [Place(1, record.number) for record in asked.fresh][:takes]
        queue.turned(
            Turned(places=places, loaded=loaded, lost=lost or {}, restored=restored), at_ns=0, wall_ns=10_000_000_000
        )
        return [record.number for record in asked.fresh]

    def test_what_is_written_is_no_longer_fresh_and_is_sent_all_the_same(self):
        queue = backlog(FINAL, SEGMENT, FINAL)
        assert queue.counters(0).unspooled == 3
        assert self.turn(queue) == [1, 2, 3]
        assert queue.counters(0).unspooled == 0
        assert not queue.has_fresh
        assert numbers(queue.take(1 << 20)) == [1, 2, 3]

    def test_what_the_disk_does_not_take_stays_fresh_and_is_offered_to_it_again(self):
        queue = backlog(FINAL, SEGMENT, FINAL)
        assert self.turn(queue, takes=1) == [1, 2, 3]
        assert self.turn(queue, takes=0) == [2, 3]
        assert queue.counters(0).unspooled == 2
        assert numbers(queue.take(1 << 20)) == [1, 2, 3]

    def test_what_half_of_the_memory_does_not_hold_is_on_disk_only(self):
        queue = backlog(*[FINAL] * 6, room_for=8)
        self.turn(queue)
        counters = queue.counters(0)
        assert (counters.queued, counters.spooled) == (4, 2)
        assert numbers(queue.take(1 << 20)) == [1, 2, 3, 4]
        assert queue.turn().released == [Place(1, 5), Place(1, 6)]

    def test_as_long_as_something_is_on_disk_only_what_is_younger_waits_for_it(self):
        queue = backlog(*[FINAL] * 6, room_for=8)
        self.turn(queue)
        queue.offer(numbered(FINAL, 7), at_ns=7)
        queue.take(1 << 20)
        queue.settle(rejected=0)
        assert queue.sendable_bytes == 0
        assert queue.take(1 << 20) == b""
        assert queue.is_short
        old = queue.turn()
        queue.turned(
            Turned(places=[Place(1, 7)], loaded=[(Place(1, n), a_record(n)) for n in (5, 6)]), at_ns=0, wall_ns=0
        )
        assert old.load_bytes > 0
        assert numbers(queue.take(1 << 20)) == [5, 6, 7]
        assert is_balanced(queue)

    def test_unless_the_disk_is_stuck(self):
        queue = backlog(*[FINAL] * 6, room_for=8)
        self.turn(queue)
        queue.offer(numbered(FINAL, 7), at_ns=7)
        queue.take(1 << 20)
        queue.settle(rejected=0)
        queue.disk_stuck()
        assert numbers(queue.take(1 << 20)) == [7]
        assert queue.counters(0).spool_failures == {"stuck": 1}

    def test_what_was_delivered_is_forgotten_by_the_disk_also_when_it_was_just_being_written(self):
        queue = backlog(FINAL, FINAL)
        self.turn(queue)
        queue.take(SIZE)
        queue.settle(rejected=0)
        assert queue.turn().done == [Place(1, 1)]
        queue.offer(numbered(FINAL, 3), at_ns=3)
        asked = queue.turn()
        queue.take(1 << 20)
        queue.settle(rejected=1)
        assert not queue.has_fresh
        queue.turned(Turned(places=[Place(1, 3) for _ in asked.fresh]), at_ns=0, wall_ns=0)
        assert queue.turn().done == [Place(1, 2), Place(1, 3)]
        assert queue.is_empty
        assert is_balanced(queue)

    def test_what_was_written_in_flight_and_comes_back_is_ready(self):
        queue = backlog(FINAL, SEGMENT)
        asked = queue.turn()
        queue.take(1 << 20)
        queue.turned(Turned(places=[Place(1, 1), Place(1, 2)]), at_ns=0, wall_ns=0)
        queue.put_back()
        assert len(asked.fresh) == 2
        assert not queue.has_fresh
        assert queue.counters(0).unspooled == 0
        assert numbers(queue.take(1 << 20)) == [1, 2]

    def test_a_segment_that_gives_way_while_it_is_written_is_forgotten(self):
        queue = backlog(SEGMENT, SEGMENT, room_for=2.2)
        queue.turn()
        queue.offer(numbered(FINAL, 3), at_ns=3)
        queue.turned(Turned(places=[Place(1, 1), Place(1, 2)]), at_ns=0, wall_ns=0)
        asked = queue.turn()
        assert asked.done == [Place(1, 1)]
        assert queue.dropped == {"segment_gave_way": 1}
        assert is_balanced(queue)

    def test_what_the_disk_can_never_hold_waits_in_memory(self):
        queue = backlog(FINAL)
        asked = queue.turn()
        queue.turned(Turned(places=[None for _ in asked.fresh]), at_ns=0, wall_ns=0)
        assert not queue.has_fresh
        assert numbers(queue.take(1 << 20)) == [1]
        queue.settle(rejected=0)
        assert queue.turn().is_empty

    def test_what_the_disk_has_lost_is_counted_by_reason(self):
        queue = backlog(*[FINAL] * 6, room_for=8)
        self.turn(queue)
        self.turn(queue, lost={"spool_unreadable": 2})
        assert queue.dropped == {"spool_unreadable": 2}
        assert is_balanced(queue)
        assert queue.counters(0).spooled == 0

    def test_what_others_left_counts_apart_and_tells_its_age(self):
        queue = backlog()
        assert queue.turn(is_adopting=True).load_bytes > 0
        self.turn(queue, restored=1, loaded=[(Place(1, 0), a_record(4_000_000_000))])
        counters = queue.counters(0)
        assert (counters.restored, counters.offered, counters.queued) == (1, 0, 1)
        assert counters.oldest_age_s == 6.0
        assert is_balanced(queue)

    def test_what_is_offered_stands_behind_what_others_left_also_if_their_clock_was_ahead(self):
        queue = backlog()
        queue.turned(Turned(restored=3, highest=500), at_ns=0, wall_ns=0)
        queue.offer(FINAL, at_ns=0, wall_ns=400)
        assert [record.number for record in queue.turn().fresh] == [501]

    def test_without_further_turns_what_only_the_disk_had_is_given_up(self):
        queue = backlog(*[FINAL] * 6, room_for=8)
        self.turn(queue)
        queue.offer(numbered(FINAL, 7), at_ns=7)
        queue.disk_gone()
        assert queue.dropped == {"spool_given_up": 2}
        assert numbers(queue.take(1 << 20)) == [1, 2, 3, 4, 7]
        assert is_balanced(queue)

    def test_a_turn_is_bounded(self, monkeypatch):
        monkeypatch.setattr("sidecar.export.backlog.WRITE_BYTES", 2 * SIZE)
        queue = backlog(*[FINAL] * 6)
        assert self.turn(queue) == [1, 2]
        assert self.turn(queue) == [3, 4]

    def test_nothing_is_written_while_that_makes_no_sense(self):
        queue = backlog(FINAL)
        assert queue.turn(is_writing=False).is_empty

    def test_the_disk_is_as_it_said_last(self):
        queue = backlog()
        queue.turned(Turned(condition=Condition(7, 2, {"full": 1})), at_ns=0, wall_ns=0)
        counters = queue.counters(0)
        assert (counters.spooled_bytes, counters.torn, counters.spool_failures) == (7, 2, {"full": 1})


LARGE = 1 << 30


def a_record(number: int) -> Record:
    return Record(number, is_open=False, body=encode_request([numbered(FINAL, number)]))


LIFE = st.lists(
    st.one_of(
        st.tuples(st.just("offer"), st.sampled_from((FINAL, FINAL, SEGMENT))),
        st.tuples(st.just("deliver"), st.integers(1, 4 * SIZE), st.sampled_from(("put_back", "settle", "reject"))),
        st.tuples(st.just("turn"), st.booleans()),
        st.tuples(st.just("write_slowly"), st.sampled_from(("put_back", "settle"))),
        st.tuples(st.just("full_disk")),
        st.tuples(st.just("restart")),
    ),
    max_size=40,
)


@given(LIFE, st.integers(4, 12), st.one_of(st.integers(3, 12).map((SIZE + 60).__mul__), st.just(LARGE)))
def test_with_a_real_spool_nothing_is_lost_uncounted_and_the_order_is_kept(steps, memory, room):
    """A life of several processes: every span is delivered, dropped by a counted reason, or still there at the end."""
    root = Path(tempfile.mkdtemp())
    life = Life(root, memory=memory * SIZE, room=room)
    try:
        for step in steps:
            match step:
                case ("offer", span):
                    life.offer(span)
                case ("deliver", limit_bytes, what):
                    life.deliver(limit_bytes, what)
                case ("turn", is_writing):
                    life.turn(is_writing=is_writing)
                case ("write_slowly", what):
                    asked = life.queue.turn()
                    life.deliver(2 * SIZE, what)
                    life.turned(life.spool.turn(asked))
                case ("full_disk",):
                    with pytest.MonkeyPatch.context() as patch:
                        patch.setattr(os, "pwrite", full)
                        life.turn()
                case ("restart",):
                    life.restart()
            life.check()
        for _ in range(200):
            life.turn()
            life.deliver(3 * SIZE, "settle")
            life.check()
        now = life.queue.counters(0)
        assert (now.queued, now.spooled) == (0, 0)
        life.turn()
        assert life.queue.counters(0).spooled_bytes == 0
        assert len(life.delivered) + life.lost == life.offered
    finally:
        life.spool.close()
        shutil.rmtree(root)


PWRITE = os.pwrite


def full(opened: int, data: bytes, offset: int) -> int:
    """As a full disk does it: what is overwritten needs no room."""
    if len(data) > 1:
        raise OSError(errno.ENOSPC, "No space left on device")
    return PWRITE(opened, data, offset)


class Life:
    """A backlog on a spool, and what became of every span that was ever offered to it or to those before it."""

    def __init__(self, root: Path, *, memory: int, room: int) -> None:
        self.root, self.memory, self.room = root, memory, room
        self.offered = self.segments = self.lost = 0
        self.delivered: set[int] = set()
        self.start()

    def start(self) -> None:
        self.queue = Backlog(limit_bytes=self.memory)
        self.spool = Spool(self.root, limit_bytes=self.room)
        self.turn(is_adopting=True)
        self.last = 0

    def restart(self) -> None:
        """As after kill -9 once all that could be is on disk; what is not is gone with the process.

        So are segments whose files gave way while memory had them too.
        """
        self.turn()
        self.turn()
        now = self.queue.counters(0)
        self.spool.close()
        self.start()
        gave_way = now.queued + now.spooled - now.unspooled - self.queue.counters(0).restored
        assert 0 <= gave_way <= (self.segments if self.room < LARGE else 0)
        self.lost += now.unspooled + gave_way

    def offer(self, span: Span) -> None:
        self.offered += 1
        self.segments += span is SEGMENT
        before = sum(self.queue.dropped.values())
        self.queue.offer(numbered(span, self.offered), at_ns=0, wall_ns=self.offered)
        self.lost += sum(self.queue.dropped.values()) - before

    def turn(self, *, is_writing: bool = True, is_adopting: bool = False) -> None:
        self.turned(self.spool.turn(self.queue.turn(is_writing=is_writing, is_adopting=is_adopting)))

    def turned(self, turned: Turned) -> None:
        self.lost += sum(turned.lost.values())
        self.queue.turned(turned, at_ns=0, wall_ns=0)

    def deliver(self, limit_bytes: int, what: str) -> None:
        found = numbers(self.queue.take(limit_bytes))
        assert found == sorted(found)
        if found and what != "put_back":
            assert found[0] > self.last
            assert not self.delivered & set(found)
            self.last = found[-1]
            self.delivered |= set(found)
            self.queue.settle(rejected=1 if what == "reject" else 0)
        self.queue.put_back()

    def check(self) -> None:
        assert is_balanced(self.queue)
        assert self.queue.held_bytes <= self.memory + SIZE
        assert self.queue.counters(0).spooled_bytes <= self.room


def test_a_span_from_the_disk_that_cannot_be_read_is_not_lost_for_being_too_large():
    backlog = Backlog(limit_bytes=1 << 20)
    backlog.turn(is_adopting=True)
    foreign = Record(5, is_open=False, body=b"\xff of another version")
    backlog.turned(Turned(loaded=[(Place(1, 0), foreign)], restored=1, highest=5), at_ns=0, wall_ns=0)
    backlog.take(1)

    assert not backlog.lighten()
    backlog.put_back()
    counters = backlog.counters(0)
    assert counters.restored == counters.queued + counters.spooled == 1
