"""The queue of log records: news before heartbeats, bounded, and every record accounted for at every moment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sidecar.export.log_queue import LOST, LogQueue

STREAMS = st.sampled_from("abcd")
BODIES = st.binary(min_size=1, max_size=30)


def a_queue(limit_bytes: int = 1_000) -> LogQueue:
    return LogQueue(limit_bytes=limit_bytes)


def lost(queue: LogQueue) -> dict[str, int]:
    return {reason: count for reason, count in queue.counters(retried=0).lost.items() if count}


def test_news_goes_before_heartbeats_and_each_in_its_order():
    queue = a_queue()
    queue.put_heartbeat("a", b"1")
    queue.put_news(b"2")
    queue.put_heartbeat("b", b"3")
    queue.put_news(b"4")
    assert queue.take(1_000) == [b"2", b"4", b"1", b"3"]


def test_a_batch_has_at_least_one_and_no_more_than_fit():
    queue = a_queue()
    for body in (b"12345", b"12", b"34"):
        queue.put_news(body)
    assert queue.take(4) == [b"12345"]
    queue.settle(rejected=0)
    assert queue.take(4) == [b"12", b"34"]


def test_the_younger_heartbeat_takes_the_place_of_the_older():
    queue = a_queue()
    for stream, body in (("a", b"1"), ("b", b"2"), ("a", b"33")):
        queue.put_heartbeat(stream, body)
    assert queue.counters(retried=0).queued_bytes == 3
    assert queue.take(1_000) == [b"33", b"2"]
    assert lost(queue) == {"superseded": 1}


def test_a_heartbeat_that_comes_back_from_a_failed_request_gives_way_to_a_younger_one():
    queue = a_queue()
    queue.put_heartbeat("a", b"1")
    queue.put_heartbeat("b", b"2")
    queue.take(1_000)
    queue.put_heartbeat("a", b"3")
    queue.put_back()
    assert queue.take(1_000) == [b"2", b"3"]
    assert lost(queue) == {"superseded": 1}


def test_news_of_a_stream_makes_its_heartbeat_needless():
    queue = a_queue()
    queue.put_heartbeat("a", b"1")
    queue.supersede("a")
    queue.supersede("b")
    assert queue.is_empty
    assert lost(queue) == {"superseded": 1}


def test_heartbeats_give_way_to_news_the_oldest_first():
    queue = a_queue(4)
    for stream in "abcd":
        queue.put_heartbeat(stream, stream.encode())
    queue.put_news(b"12")
    assert queue.take(1_000) == [b"12", b"c", b"d"]
    assert lost(queue) == {"heartbeat_gave_way": 2}


def test_what_finds_no_room_is_lost_and_what_is_there_stays():
    queue = a_queue(4)
    queue.put_news(b"1234")
    queue.put_news(b"5")
    queue.put_heartbeat("a", b"6")
    assert queue.take(1_000) == [b"1234"]
    assert lost(queue) == {"queue_full": 2}
    assert queue.dropped_count == 2


def test_what_the_receiver_refused_is_counted_and_no_more_than_there_was():
    queue = a_queue()
    for _ in range(3):
        queue.put_news(b"x")
    queue.take(1_000)
    assert queue.settle(rejected=99) == 3
    assert lost(queue) == {"rejected": 3}
    assert queue.dropped_count == 0


def test_all_can_be_lost_at_once():
    queue = a_queue()
    queue.put_news(b"1")
    queue.take(1_000)
    queue.put_news(b"2")
    queue.put_heartbeat("a", b"3")
    queue.lose_all("left")
    assert queue.is_empty
    assert lost(queue) == {"left": 3}


@given(st.lists(st.tuples(STREAMS, BODIES)), st.integers(0, 100))
def test_heartbeats_alone_are_one_for_each_stream(beats, limit_bytes):
    queue = a_queue(limit_bytes)
    for stream, body in beats:
        queue.put_heartbeat(stream, body)
    assert len(queue.take(1_000)) <= len({stream for stream, _ in beats})


class Accounts(RuleBasedStateMachine):
    """Whatever is done: what was offered is accepted, lost or still there, and never more than the limit is held."""

    LIMIT = 60

    def __init__(self) -> None:
        super().__init__()
        self.queue = a_queue(self.LIMIT)
        self.offered = 0

    @rule(body=BODIES)
    def news(self, body):
        self.queue.put_news(body)
        self.offered += 1

    @rule(stream=STREAMS, body=BODIES)
    def heartbeat(self, stream, body):
        self.queue.put_heartbeat(stream, body)
        self.offered += 1

    @rule(stream=STREAMS)
    def supersede(self, stream):
        self.queue.supersede(stream)

    @rule(reason=st.sampled_from(LOST))
    def lose(self, reason):
        self.queue.lose(reason)
        self.offered += 1

    @rule(reason=st.sampled_from(LOST))
    def lose_all(self, reason):
        self.queue.lose_all(reason)

    @rule(limit_bytes=st.integers(1, 80), rejected=st.none() | st.integers(0, 5), is_settled=st.booleans())
    def send(self, limit_bytes, rejected, is_settled):
        taken = self.queue.take(limit_bytes)
        assert len(taken) == self.queue.flight_count
        assert len(taken) <= 1 or sum(map(len, taken)) <= limit_bytes
        if is_settled:
            self.queue.settle(rejected=rejected)
        self.queue.put_back()
        assert self.queue.flight_count == 0

    @rule(body=BODIES, stream=STREAMS)
    def more_comes_during_a_request(self, body, stream):
        self.queue.take(40)
        self.queue.put_heartbeat(stream, body)
        self.queue.put_news(body)
        self.offered += 2
        self.queue.put_back()

    @invariant()
    def accounts(self):
        counters = self.queue.counters(retried=0)
        assert counters.offered == self.offered == counters.accepted + sum(counters.lost.values()) + counters.queued
        assert 0 <= counters.queued_bytes <= self.LIMIT
        assert (counters.queued == 0) is self.queue.is_empty
        assert (counters.queued_bytes == 0) is self.queue.is_empty
        assert set(counters.lost) == set(LOST)


TestAccounts = Accounts.TestCase
