"""Every dispatched event gets one stamp, offsets never decrease, and the columns are bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.hop import EventClass, Stamp
from sidecar.inspection.events import Event, Reading, Unit
from tests.support.parts import each_kind


def unit(kind=Unit.EVENT):
    return Event(kind, b"", b"", b"", 10)


def content(chars):
    return unit(), Reading(EventClass.CONTENT, visible_chars=chars)


@each_kind()
def test_an_event_gets_its_times_its_class_and_its_position(parts):
    stamper = parts.stamper()

    stamper.events([(unit(), Reading(EventClass.CONTROL))], 5)
    stamper.taken(6, 100)
    stamper.events([content(3)], 8)

    assert stamper.stamps() == (
        Stamp(seq=0, arrived_ns=5, taken_ns=6, event_class=EventClass.CONTROL, position=0, is_exact=True),
        Stamp(seq=1, arrived_ns=8, taken_ns=None, event_class=EventClass.CONTENT, position=3, is_exact=True),
    )
    assert (stamper.count, stamper.position, stamper.is_cut_short) == (2, 3, False)


@each_kind()
def test_events_of_one_read_share_their_time_and_keep_their_places(parts):
    stamper = parts.stamper()

    stamper.events([content(1), content(2), content(0)], 7)

    assert [(stamp.arrived_ns, stamp.position) for stamp in stamper.stamps()] == [(7, 1), (7, 3), (7, 3)]


@each_kind()
@pytest.mark.parametrize("kind", [Unit.COMMENT, Unit.DATALESS, Unit.TAIL])
def test_what_dispatches_no_event_gets_no_number(parts, kind):
    stamper = parts.stamper()

    stamper.events([(unit(kind), Reading(EventClass.CONTENT, visible_chars=9)), content(1)], 1)

    assert [(stamp.seq, stamp.position) for stamp in stamper.stamps()] == [(0, 1)]
    assert stamper.count == 1


@each_kind()
def test_what_is_taken_is_everything_handed_over_so_far(parts):
    stamper = parts.stamper()

    stamper.events([content(1)], 1)
    stamper.events([content(1), content(1)], 2)
    stamper.taken(9, 300)
    stamper.events([content(1)], 10)

    assert [stamp.taken_ns for stamp in stamper.stamps()] == [9, 9, 9, None]


@each_kind()
def test_taking_nothing_new_changes_nothing(parts):
    stamper = parts.stamper()
    stamper.taken(1, 10)
    stamper.events([content(1)], 2)
    stamper.taken(3, 20)

    before = stamper.stamps()
    stamper.taken(4, 30)

    assert stamper.stamps() == before
    assert stamper.acked_count(25) == 1


@each_kind()
def test_an_event_is_acknowledged_when_the_last_byte_that_may_be_its_own_is(parts):
    stamper = parts.stamper()
    stamper.events([content(1)], 1)
    stamper.taken(1, 100)
    stamper.events([content(1), content(1)], 2)
    stamper.taken(2, 250)
    stamper.events([content(1)], 3)

    assert [stamper.acked_count(acked) for acked in (0, 99, 100, 249, 250, 10_000)] == [0, 0, 1, 1, 3, 3]


@each_kind()
def test_events_of_one_read_end_one_behind_the_other(parts):
    stamper = parts.stamper()
    stamper.events([content(1), content(1), content(1)], 1, behind_bytes=(60, 20, 0))
    assert stamper.acked_count(1_000) == 0  # none has been handed over yet
    stamper.taken(1, 100)
    stamper.events([content(1), content(1)], 2, behind_bytes=(150, 5))  # more than was written: cannot be true
    stamper.taken(2, 200)

    assert [stamper.acked_count(acked) for acked in (39, 40, 79, 80, 99, 100, 194, 195)] == [0, 1, 1, 2, 2, 4, 4, 5]


@each_kind()
def test_a_clock_that_goes_back_stands_still_instead(parts):
    stamper = parts.stamper()
    stamper.events([content(1)], 10)
    stamper.taken(9, 100)
    stamper.events([content(1)], 8)
    stamper.taken(7, 90)

    assert [(stamp.arrived_ns, stamp.taken_ns) for stamp in stamper.stamps()] == [(10, 10), (10, 10)]
    assert [stamper.acked_count(acked) for acked in (95, 100)] == [0, 2]


@each_kind()
def test_the_times_of_taking_do_not_decrease_either(parts):
    stamper = parts.stamper()
    stamper.events([content(1)], 1)
    stamper.taken(20, 100)
    stamper.events([content(1)], 2)
    stamper.taken(15, 200)

    assert [(stamp.arrived_ns, stamp.taken_ns) for stamp in stamper.stamps()] == [(1, 20), (2, 20)]


@each_kind()
def test_past_the_limit_events_are_counted_and_no_longer_stamped(parts):
    stamper = parts.stamper(limit_count=2)

    for at_ns in range(5):
        stamper.events([content(1)], at_ns)
        stamper.taken(at_ns, at_ns)

    assert (stamper.count, stamper.position, stamper.is_cut_short) == (5, 5, True)
    assert [(s.seq, s.arrived_ns, s.taken_ns, s.position) for s in stamper.stamps()] == [
        (0, 0, 0, 1),
        (1, 1, 1, 2),
        (4, 4, 4, 5),
    ]
    assert [stamper.stamps(since=since) for since in (1, 3, 5)] == [stamper.stamps()[1:], stamper.stamps()[2:], ()]


@each_kind()
def test_past_the_limit_the_last_event_too_is_taken_when_it_is(parts):
    stamper = parts.stamper(limit_count=1)
    stamper.events([content(1), content(1), content(1)], 5)
    assert [stamp.taken_ns for stamp in stamper.stamps()] == [None, None]
    stamper.taken(7, 100)
    stamper.taken(8, 100)
    assert [stamp.taken_ns for stamp in stamper.stamps()] == [7, 7]
    stamper.events([content(1)], 4)
    assert [(stamp.arrived_ns, stamp.taken_ns) for stamp in stamper.stamps()] == [(5, 7), (5, None)]


@each_kind()
def test_past_the_limit_what_is_acknowledged_is_told_with_the_last_event_and_never_taken_back(parts):
    stamper = parts.stamper(limit_count=2)
    for number in range(5):
        stamper.events([content(1)], number)
        stamper.taken(number, 100 * (number + 1))

    assert [stamper.acked_count(acked) for acked in (99, 100, 300, 499, 500)] == [0, 1, 2, 2, 5]
    stamper.events([content(1)], 9)
    assert stamper.acked_count(550) == 5
    stamper.taken(9, 600)
    assert [stamper.acked_count(acked) for acked in (599, 600)] == [5, 6]


@each_kind()
def test_exactly_the_limit_is_not_past_it(parts):
    stamper = parts.stamper(limit_count=2)

    stamper.events([content(1), content(1)], 1)

    assert not stamper.is_cut_short


@each_kind()
def test_stamps_can_be_asked_from_a_number_on(parts):
    stamper = parts.stamper()
    stamper.events([content(1), content(1), content(1)], 1)

    assert stamper.stamps(since=2) == stamper.stamps()[2:]
    assert stamper.stamps(since=3) == ()


_READS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from(list(Unit)), st.sampled_from(list(EventClass)), st.integers(0, 40))),
        st.integers(0, 1_000),
        st.booleans(),
    ),
    max_size=12,
)


@each_kind()
@given(_READS)
def test_there_are_as_many_stamps_as_events_and_nothing_decreases(parts, reads):
    stamper = parts.stamper()
    classes = []
    for number, (units, at_ns, is_taken) in enumerate(reads):
        stamper.events([(unit(kind), Reading(event_class, chars)) for kind, event_class, chars in units], at_ns)
        classes += [event_class for kind, event_class, _ in units if kind is Unit.EVENT]
        if is_taken:
            stamper.taken(at_ns, number)
    stamps = stamper.stamps()

    assert [stamp.event_class for stamp in stamps] == classes
    assert [stamp.seq for stamp in stamps] == list(range(stamper.count))
    for column in (
        [stamp.arrived_ns for stamp in stamps],
        [stamp.position for stamp in stamps],
        [stamp.taken_ns for stamp in stamps if stamp.taken_ns is not None],
    ):
        assert column == sorted(column)
    assert all(stamp.taken_ns is None or stamp.taken_ns >= stamp.arrived_ns for stamp in stamps)
    assert stamper.acked_count(len(reads)) == sum(stamp.taken_ns is not None for stamp in stamps)
