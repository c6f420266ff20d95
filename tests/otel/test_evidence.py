"""Where the bytes were: loss before window, time and not samples, and an honest `not sampled`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.align import lane_of
from otel.evidence import UNREAD_NS, Unread, Whereabouts, stuck, unread, whereabouts, whereabouts_over
from otel.hop import EventClass, KernelSample
from tests.support.chain import MS, PEAK, Chain, S, run

CONTENT = frozenset({EventClass.CONTENT})
HOP = run(Chain(events=10, gap=S))[-1]
AT = HOP.timeline.stamps[5].taken_ns


def lane(*samples: KernelSample, peak: int | None = PEAK):
    return lane_of(replace(HOP, timeline=replace(HOP.timeline, samples=samples, window_peak_bytes=peak)), CONTENT)


def series(*, acked=5, flying=1, unsent=0, window=PEAK, lost=0, state=0, backoff=0, count=10):
    return [KernelSample(AT + i * 100 * MS, acked, flying, unsent, window, lost, state, backoff) for i in range(count)]


def test_acknowledged_bytes_lay_with_the_peer():
    assert whereabouts(lane(*series(acked=9)), [5], S)[0] is Whereabouts.PEER


def test_no_sample_means_that_nothing_was_outstanding():
    assert whereabouts(lane(), [5], S)[0] is Whereabouts.PEER


def test_a_connection_that_was_never_sampled_says_nothing():
    assert whereabouts(lane(peak=None), [5], S) == (Whereabouts.UNKNOWN, None)


@pytest.mark.parametrize("closed_ms", [60, 120, 400])
def test_the_last_look_says_nothing_of_the_time_after_the_exchange_was_closed(closed_ms):
    """Lab seed 5, case 41: the end was on its way for a moment, and the record closed when it had been acknowledged."""
    last = replace(series(acked=10, count=1)[0], offset_ns=HOP.moments.downstream_ended_ns + MS)
    closed = replace(HOP.moments, closed_ns=last.offset_ns + closed_ms * MS)
    timeline = replace(HOP.timeline, samples=(last,), window_peak_bytes=PEAK)
    found, kernel = whereabouts(
        lane_of(replace(HOP, timeline=timeline, moments=closed), CONTENT), [9], 450 * MS, is_end=True
    )
    assert kernel.stuck_ns == min(closed_ms, 250) * MS
    assert found is (Whereabouts.NETWORK if closed_ms > 225 else Whereabouts.PEER)


@given(first_ms=st.integers(0, 900), count=st.integers(1, 4), round_trip_ms=st.sampled_from([0, 4, 40, 200]))
def test_a_look_that_finds_an_event_late_speaks_for_all_the_time_since_it_was_sent(first_ms, count, round_trip_ms):
    """Lab seed 6, case 56: looks are kept from when something is late; the time before them counted as the reader's."""
    sent = HOP.timeline.stamps[5].arrived_ns
    looks = [replace(each, offset_ns=each.offset_ns - AT + sent + first_ms * MS) for each in series(count=count)]
    over = replace(looks[-1], offset_ns=looks[-1].offset_ns + 100 * MS, acked_count=9)
    of = far(*looks, over, round_trip_ms=round_trip_ms)
    found = stuck(of, of.seq[5], sent, sent + 2 * S, is_sent=True)
    is_late = first_ms + (count - 1) * 100 >= 200 + round_trip_ms
    assert found.stuck_ns == (count * 100 + (first_ms if is_late else 0)) * MS
    assert stuck(of, of.seq[5], sent, sent + 2 * S).stuck_ns == count * 100 * MS


OPEN = KernelSample(AT - 500 * MS, 5, 0, 0, PEAK, 0, 0, 0)


def test_a_window_shrunk_to_a_quarter_of_its_own_peak_is_the_peer():
    where, found = whereabouts(lane(OPEN, *series(window=PEAK // 8, unsent=9_000)), [5], S)
    assert where is Whereabouts.PEER
    assert found is not None
    assert (found.window_bytes, found.window_peak_bytes) == (PEAK // 8, PEAK)


def test_what_a_window_grows_to_later_does_not_make_it_small_before():
    """When a slow line lets go of what it held, the reader takes it all at once, and its kernel makes more room."""
    grown = KernelSample(AT + 2_000 * MS, 9, 0, 0, 8 * PEAK, 0, 0, 0)
    held = replace(OPEN, window_bytes=PEAK)
    assert whereabouts(lane(held, *series(), grown, peak=8 * PEAK), [5], S)[0] is Whereabouts.NETWORK
    over = whereabouts_over(lane(held, *series(acked=6), grown, peak=8 * PEAK), 5, 6, is_delivered=False)
    assert over[0] is Whereabouts.NETWORK


class TestOverAStretch:
    """Which bytes were outstanding does not matter, only for how long and in what company."""

    def over(self, *samples, peak: int | None = PEAK, is_delivered: bool = False):
        return whereabouts_over(lane(*samples, peak=peak), 5, 6, is_delivered=is_delivered)[0]

    def test_what_was_acknowledged_in_time_lay_with_the_peer(self):
        assert self.over(*series(acked=6), is_delivered=True) is Whereabouts.PEER

    def test_an_open_window_and_bytes_in_flight_are_the_network(self):
        assert self.over(*series(acked=6)) is Whereabouts.NETWORK

    def test_a_window_that_is_mostly_shut_is_the_peer(self):
        assert self.over(*series(acked=6, window=0, unsent=9_000)) is Whereabouts.PEER

    def test_loss_is_the_network_all_the_same(self):
        assert self.over(*series(acked=6, window=0, lost=1)) is Whereabouts.NETWORK

    def test_a_window_that_is_shut_now_and_then_tells_neither(self):
        mixed = series(acked=6)[:9] + series(acked=6, window=0)[9:]
        assert self.over(*mixed) is Whereabouts.UNKNOWN

    @pytest.mark.parametrize(("peak", "where"), [(300, Whereabouts.WINDOW), (500, Whereabouts.NETWORK)])
    def test_a_window_that_lets_no_more_pass_in_a_round_trip_is_neither_the_network_nor_a_slow_peer(self, peak, where):
        """One event of 200 bytes in each second, which is the round trip."""
        found = far(*series(acked=6, window=peak), round_trip_ms=1_000, peak=peak)
        assert whereabouts_over(found, 5, 6, is_delivered=False)[0] is where

    def test_a_full_window_is_not_to_blame_where_something_is_lost_or_the_peer_does_not_read(self):
        for fields, where in (({"lost": 1}, Whereabouts.NETWORK), ({"window": 0}, Whereabouts.PEER)):
            found = far(OPEN, *series(**{"acked": 6, "window": 300} | fields), round_trip_ms=1_000, peak=300)
            assert whereabouts_over(found, 5, 6, is_delivered=False)[0] is where

    def test_without_samples_nothing_is_known(self):
        assert self.over() is Whereabouts.UNKNOWN
        assert self.over(*series(flying=0)) is Whereabouts.UNKNOWN
        assert self.over(*series(), peak=None, is_delivered=True) is Whereabouts.UNKNOWN


def test_loss_is_the_network_whatever_the_window_says():
    assert whereabouts(lane(*series(window=0, lost=1, state=4)), [5], S)[0] is Whereabouts.NETWORK


def far(*samples: KernelSample, round_trip_ms: int, peak: int = PEAK):
    found = lane(*samples, peak=peak)
    timeline = replace(found.hop.timeline, round_trip_ns=round_trip_ms * MS)
    return lane_of(replace(found.hop, timeline=timeline), CONTENT)


def test_a_loss_on_a_far_path_that_only_one_look_shows_is_the_networks():
    """Held for a round trip and 100 ms before it is kept, and sent again by then: 50 ms of a wait of 340 ms."""
    (look,) = series(lost=1, state=3, count=1)
    seen = replace(look, offset_ns=AT + 340 * MS)
    assert whereabouts(far(seen, round_trip_ms=200), [5], 340 * MS)[0] is Whereabouts.NETWORK
    assert whereabouts(far(seen, round_trip_ms=0), [5], 340 * MS)[0] is Whereabouts.NETWORK


def test_a_look_that_comes_a_round_trip_behind_the_wait_belongs_to_it():
    (look,) = series(lost=1, state=3, count=1)
    seen = replace(look, offset_ns=AT + 450 * MS)
    assert whereabouts(far(seen, round_trip_ms=200), [5], 335 * MS)[0] is Whereabouts.NETWORK
    assert whereabouts(far(seen, round_trip_ms=0), [5], 335 * MS) == (Whereabouts.PEER, None)


def test_a_moment_of_loss_does_not_explain_a_long_wait():
    (look,) = series(lost=1, state=3, count=1)
    after = replace(look, offset_ns=AT + 100 * MS, acked_count=9, lost_segments=0, congestion_state=0)
    assert whereabouts(far(look, after, round_trip_ms=200), [5], 2 * S)[0] is Whereabouts.PEER


def test_without_loss_bytes_that_only_one_look_shows_lay_with_the_peer():
    (look,) = series(count=1)
    seen = replace(look, offset_ns=AT + 340 * MS)
    after = replace(look, offset_ns=AT + 440 * MS, acked_count=9)
    assert whereabouts(far(seen, after, round_trip_ms=200), [5], 340 * MS)[0] is Whereabouts.PEER


class TestUnheard:
    """A link that lost something lost perhaps the word that there is room again, until our kernel asked for it."""

    def of(self, *before: KernelSample, looks: int) -> Whereabouts:
        shut = series(window=0, flying=0, unsent=9_000, count=looks)
        over = replace(OPEN, offset_ns=AT + looks * 100 * MS, acked_count=9)
        return whereabouts(far(OPEN, *before, *shut, over, round_trip_ms=40), [5], looks * 100 * MS)[0]

    LOST = replace(OPEN, offset_ns=AT - 300 * MS, lost_segments=1, congestion_state=3, in_flight_segments=1)

    @pytest.mark.parametrize(
        ("looks", "where"), [(3, Whereabouts.UNHEARD), (5, Whereabouts.UNHEARD), (8, Whereabouts.PEER)]
    )
    def test_a_window_that_was_shut_for_no_longer_is_no_proof_of_a_slow_reader(self, looks, where):
        assert self.of(self.LOST, looks=looks) is where

    def test_where_nothing_is_ever_lost_the_peer_was_heard(self):
        assert self.of(looks=3) is Whereabouts.PEER


def test_back_off_with_bytes_in_flight_is_the_network():
    assert whereabouts(lane(*series(backoff=3)), [5], S)[0] is Whereabouts.NETWORK


def test_bytes_in_flight_under_an_open_window_are_the_network():
    assert whereabouts(lane(*series()), [5], S)[0] is Whereabouts.NETWORK


def test_shares_are_of_time_and_not_of_samples():
    early = [KernelSample(AT + i * MS, 5, 1, 0, 0, 0, 0, 0) for i in range(50)]
    late = [KernelSample(AT + 50 * MS + i * 100 * MS, 5, 1, 0, PEAK, 1, 4, 0) for i in range(4)]
    found = stuck(lane(*early, *late), 5, AT, AT + 450 * MS)
    assert found is not None
    assert found.lost_share > 0.85


@given(
    st.lists(
        st.tuples(st.integers(0, 3 * S), st.integers(0, 9), st.integers(0, 3), st.integers(0, PEAK), st.integers(0, 2))
    )
)
def test_any_samples_give_shares_between_nought_and_one(rows):
    samples = [KernelSample(AT + t, a, f, 0, w, n, 0, 0) for t, a, f, w, n in sorted(rows)]
    counts = sorted(s.acked_count for s in samples)
    samples = [replace(s, acked_count=c) for s, c in zip(samples, counts, strict=True)]
    found = stuck(lane(*samples), 5, AT, AT + 2 * S)
    if found is not None:
        assert 0 <= found.lost_share <= 1.0001
        assert 0 <= found.shrunk_share <= 1.0001
        assert found.stuck_ns <= found.covered_ns


class TestUnread:
    """A window at half of its own peak or less, for a while and with nothing lost, is a reader's that does not read."""

    def of(self, *samples: KernelSample) -> Unread | None:
        return unread(lane(*samples).hop)

    def test_a_window_that_was_shut_at_every_look_is_held_against_what_it_ever_was(self):
        shut = series(window=0, count=5)
        assert self.of(*shut) == Unread(AT, 400 * MS, 0, PEAK)
        never = lane(*shut, peak=None).hop
        assert unread(never) is None

    def test_the_longest_such_time_is_told_with_how_small_the_window_was(self):
        small = [replace(s, offset_ns=s.offset_ns + S) for s in series(window=PEAK // 4, count=5)]
        small[2] = replace(small[2], window_bytes=PEAK // 8)
        half = series(window=PEAK // 2, count=4)
        again = replace(OPEN, offset_ns=AT + 500 * MS)
        assert self.of(OPEN, *half, again, *small) == Unread(AT + S, 400 * MS, PEAK // 8, PEAK)

    def test_what_it_grows_to_later_does_not_make_it_small(self):
        assert self.of(*series(window=PEAK // 4), replace(OPEN, offset_ns=AT + 2 * S)) is None

    def test_a_moment_says_nothing(self):
        assert self.of(OPEN, *series(window=0, count=3)) is None
        assert self.of(OPEN, series(window=0, count=1)[0], replace(OPEN, offset_ns=AT + S)) is None

    def test_a_time_without_looks_counts_for_as_long_as_one_speaks(self):
        first, second = series(window=0, count=2)
        found = self.of(OPEN, first, replace(second, offset_ns=AT + 9 * S))
        assert found is not None
        assert found.lasted_ns == UNREAD_NS

    @pytest.mark.parametrize("loss", [{"lost": 1}, {"state": 3}, {"backoff": 1}])
    def test_what_is_lost_fills_a_small_window_as_well(self, loss):
        assert self.of(OPEN, *series(window=0, **loss)) is None

    @given(st.lists(st.integers(PEAK // 2 + 1, PEAK), max_size=40))
    def test_a_window_above_half_of_its_peak_never_tells(self, windows):
        looks = series(count=len(windows))
        assert self.of(*(replace(s, window_bytes=w) for s, w in zip(looks, windows, strict=True))) is None
