"""Looks at a connection in arithmetic: what is told of its reader, when, and what never is."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.recording.taking import CALM_NS, EARLY_NS, LATE_NS, Cause, Holdup, Look, Sign, Taking
from sidecar.rounds import TICKS

MS = 1_000_000
TICK_NS = 100 * MS
PEAK_BYTES = 64_000
UNSENT_BYTES = 4_000
"""What our kernel takes beyond what the reader has room for; then our write is blocked."""


def look(tick, **fields):
    """Everything is acknowledged and the window open, but for what is said."""
    return Look(**{"at_ns": tick * TICK_NS, "acked_bytes": 100 * tick, "window_bytes": PEAK_BYTES} | fields)


def told(looks, taking=None):
    """The holdup after each look."""
    taking = taking or Taking()
    found = []
    for each in looks:
        taking.seen(each)
        found.append(taking.holdup)
    return found


def reading(bytes_per_tick, stops, *, ticks=100, room_bytes=PEAK_BYTES):
    """The looks at a reader with so much room, which reads all there is at each tick, but not within the stops."""
    unread = unsent = acked = 0
    looks = []
    for tick in range(ticks):
        if not any(start <= tick < end for start, end in stops):
            unread = 0
        unsent += bytes_per_tick if unsent < UNSENT_BYTES else 0
        sent = min(unsent, room_bytes - unread)
        unsent, unread, acked = unsent - sent, unread + sent, acked + sent
        is_blocked = unsent >= UNSENT_BYTES
        window = room_bytes - unread
        looks.append(look(tick, acked_bytes=acked, window_bytes=window, unsent_bytes=unsent, is_blocked=is_blocked))
    return looks


@given(st.integers(1, PEAK_BYTES // 3))
def test_who_reads_whatever_comes_is_never_told_of(bytes_per_tick):
    assert set(told(reading(bytes_per_tick, []))) == {None}


def test_a_window_that_stays_small_is_seen_also_by_looks_that_come_once_a_round_and_a_little_late():
    rounds = [look(0)] + [look(1.1 * TICKS * count, window_bytes=PEAK_BYTES // 3) for count in (1, 2)]

    assert told(rounds)[-1] == Holdup(Cause.SLOW_READER, Sign.WINDOW, 1.1 * TICKS * TICK_NS)


def test_a_window_that_is_small_after_two_bursts_was_not_small_between_them():
    bursts = [look(0), look(1, window_bytes=PEAK_BYTES // 3), look(50, window_bytes=PEAK_BYTES // 3)]
    stays = [look(tick, window_bytes=PEAK_BYTES // 3) for tick in (51, 52, 53)]
    taking = Taking()
    assert told(bursts, taking) == [None] * 3
    assert told(stays, taking) == [None, None, Holdup(Cause.SLOW_READER, Sign.WINDOW, 50 * TICK_NS)]


@given(st.integers(500, PEAK_BYTES // 3), st.integers(5, 20), st.integers(0, 60))
def test_a_reader_that_stops_is_told_of_while_it_does_once_its_window_has_been_half_for_a_while(rate, start, length):
    found = told(reading(rate, [(start, start + length)]))
    is_half = start + max(0, -(-(PEAK_BYTES // 2) // rate) - 2)  # the tick before the one that may be the first
    latest = is_half + 3 + EARLY_NS // TICK_NS + 1
    assert found[:is_half] == [None] * is_half
    if start + length > latest:
        assert (found[latest].cause, found[latest].sign) == (Cause.SLOW_READER, Sign.WINDOW)
        assert is_half * TICK_NS <= found[latest].since_ns <= (is_half + 3) * TICK_NS
    over = start + length + CALM_NS // TICK_NS + 1
    assert set(found[over:]) == {None}


def test_a_reader_that_reads_in_fits_and_starts_is_told_of_once():
    found = told(reading(16_000, [(start, start + 9) for start in range(10, 80, 10)], ticks=90))
    first = next(tick for tick, each in enumerate(found) if each is not None)
    assert len(set(found[first:80])) == 1


def test_when_it_takes_again_is_known_when_it_has_done_so_for_a_while():
    taking = Taking()
    found = told(reading(8_000, [(10, 40)], ticks=60), taking)
    assert found[48] is not None
    assert found[55] is None
    assert taking.freed_ns == 40 * TICK_NS


@given(
    st.lists(
        st.tuples(
            st.integers(0, PEAK_BYTES),
            st.booleans(),
            st.sampled_from([{"congestion_state": 3}, {"congestion_state": 4}, {"lost_segments": 2}, {"backoff": 1}]),
            st.booleans(),
        ),
        max_size=60,
    )
)
def test_loss_never_makes_a_slow_reader(looks):
    acked, lossy = 0, [look(0)]
    for tick, (window, is_moving, loss, is_blocked) in enumerate(looks, start=1):
        acked += 100 * is_moving
        fields = {"acked_bytes": acked, "window_bytes": window, "in_flight_segments": 3, "is_blocked": is_blocked}
        lossy.append(look(tick, **fields, **loss))
    assert Cause.SLOW_READER not in {each.cause for each in told(lossy) if each is not None}


@pytest.mark.parametrize("is_blocked", [False, True])
def test_where_nothing_comes_through_the_network_is_named(is_blocked):
    standing = {"acked_bytes": 0, "in_flight_segments": 9, "is_blocked": is_blocked}
    looks = [look(0, acked_bytes=0), look(1, **standing), look(2, **standing)]
    looks += [look(tick, **standing, lost_segments=1, backoff=tick // 4) for tick in range(3, 30)]
    found = told(looks)
    late = 1 + LATE_NS // TICK_NS
    assert found[late - 1] is None
    sign = Sign.BLOCKED if is_blocked else Sign.UNACKNOWLEDGED
    assert set(found[late:]) == {Holdup(Cause.NETWORK, sign, TICK_NS)}


def test_a_window_that_is_full_while_something_is_lost_for_a_part_of_it_is_the_networks():
    standing = {"acked_bytes": 0, "in_flight_segments": 9, "window_bytes": 9_000}
    looks = [look(0, acked_bytes=0), *(look(tick, **standing, lost_segments=tick % 3 == 1) for tick in range(1, 30))]
    assert {each and each.cause for each in told(looks)} == {None, Cause.NETWORK}


def test_a_link_on_which_nothing_is_lost_and_nothing_moves_is_the_network_too():
    standing = {"acked_bytes": 0, "in_flight_segments": 9, "unsent_bytes": 5_000}
    assert told([look(tick, **standing) for tick in range(30)])[-1].cause is Cause.NETWORK


def test_bytes_that_wait_with_nothing_in_flight_wait_for_the_reader_whatever_its_window_says():
    standing = {"acked_bytes": 0, "unsent_bytes": 5_000, "backoff": 3, "is_blocked": True}
    found = told([look(0, acked_bytes=0), *(look(tick, **standing) for tick in range(1, 40))])
    late = 1 + LATE_NS // TICK_NS
    assert found[late - 1] is None
    assert set(found[late:]) == {Holdup(Cause.SLOW_READER, Sign.BLOCKED, TICK_NS)}
    assert LATE_NS + TICK_NS < 2_000 * MS


def test_a_far_path_that_loses_the_same_segment_twice_is_no_stall():
    """200 ms there and back: the segment is sent again after 0.4 s, and once more after 0.8 s."""
    looks = [look(tick) for tick in range(5)]
    for tick in range(5, 19):
        fields = {"acked_bytes": 400, "in_flight_segments": 6}
        looks.append(look(tick, **fields, **({"congestion_state": 4, "backoff": 1} if tick > 8 else {})))
    looks += [look(tick) for tick in range(19, 40)]
    assert set(told(looks)) == {None}


def test_a_slow_line_that_moves_is_no_stall():
    slow = [look(tick, acked_bytes=1_448 * (tick // 8), in_flight_segments=9, is_blocked=True) for tick in range(80)]
    assert set(told(slow)) == {None}


def test_a_window_that_is_small_while_something_is_lost_counts_from_when_it_is_not():
    small = {"window_bytes": PEAK_BYTES // 4}
    looks = [look(0), *(look(tick, **small, congestion_state=3) for tick in range(1, 8))]
    found = told([*looks, *(look(tick, **small) for tick in range(8, 14))])
    assert found[9] is None
    assert found[-1] == Holdup(Cause.SLOW_READER, Sign.WINDOW, 8 * TICK_NS)


def test_the_cause_of_what_stands_is_known_before_it_is_told():
    taking = Taking()
    told([look(0, acked_bytes=0), look(1, acked_bytes=0)], taking)
    assert taking.cause() is None
    told([look(tick, acked_bytes=0, unsent_bytes=9, is_blocked=True) for tick in (2, 3)], taking)
    assert (taking.cause(), taking.holdup) == (Cause.SLOW_READER, None)


@given(st.integers(500, PEAK_BYTES // 3), st.integers(0, 10**15))
def test_when_it_happens_changes_nothing(rate, later_ns):
    looks = reading(rate, [(5, 40)])
    shifted = told([each._replace(at_ns=each.at_ns + later_ns) for each in looks])
    moved = [each and replace(each, since_ns=each.since_ns + later_ns) for each in told(looks)]
    assert shifted == moved


def far(start, *, ticks=50, **fields):
    """The looks at a reader 400 ms away that takes what the path carries: something is always on its way to it, and
    most looks find nothing acknowledged since the last one."""
    return [
        look(tick, **{"acked_bytes": 10_000 + tick // 5, "in_flight_segments": 2, "round_trip_ns": 400 * MS} | fields)
        for tick in range(start, start + ticks)
    ]


def test_a_far_reader_that_takes_again_is_no_longer_told_of_though_its_bytes_are_long_on_their_way():
    stopped = [look(tick, window_bytes=PEAK_BYTES // 4) for tick in range(10, 20)]
    found = told([look(0), *stopped, *far(20)])
    assert found[10] is not None
    assert set(found[11 + CALM_NS // TICK_NS + 1 :]) == {None}


@pytest.mark.parametrize("loss", [{"congestion_state": 3}, {"lost_segments": 2}, {"backoff": 1}])
def test_what_is_lost_when_the_reader_takes_again_does_not_keep_it_named(loss):
    stopped = [look(tick, window_bytes=PEAK_BYTES // 4) for tick in range(10, 20)]
    stuck = far(20, acked_bytes=9_000, **loss)
    found = told([look(0), *stopped, *stuck])
    assert {each.cause for each in found[11 + CALM_NS // TICK_NS + 1 :] if each is not None} == {Cause.NETWORK}


def test_a_reader_that_takes_nothing_for_longer_than_the_way_is_still_told_of():
    shut = far(20, acked_bytes=9_000, window_bytes=PEAK_BYTES // 4 * 3, unsent_bytes=5_000, in_flight_segments=0)
    stopped = [look(tick, window_bytes=PEAK_BYTES // 4) for tick in range(10, 20)]
    assert None not in told([look(0), *stopped, *shut])[10:]
