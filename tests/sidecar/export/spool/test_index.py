"""The index of one file: its counts are those of a plain list, whatever changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sidecar.export.spool.index import FileIndex, State

STATES = st.sampled_from(list(State))
CHANGES = st.lists(st.tuples(st.integers(0, 100), STATES), max_size=30)


def an_index(states) -> FileIndex:
    index = FileIndex(is_open=False)
    for number, state in enumerate(states):
        assert index.add(100 + number, offset=10 * number, size_bytes=10, state=state) == number
    return index


@given(st.lists(STATES, min_size=1, max_size=20), CHANGES)
def test_counts_and_the_oldest_follow_every_change(states, changes):
    index = an_index(states)
    for at, state in changes:
        states[at % len(states)] = state
        index.set_state(at % len(states), state)
        assert len(index) == len(states)
        assert index.waiting_count == sum(each is not State.DONE for each in states)
        assert index.on_disk_count == states.count(State.ON_DISK)
        if State.ON_DISK in states:
            assert index.first_on_disk() == states.index(State.ON_DISK)
            assert index.oldest_on_disk() == 100 + states.index(State.ON_DISK)


def test_a_record_costs_less_than_thirty_bytes():
    index = an_index([State.ON_DISK] * 10_000)
    arrays = (index.numbers, index.offsets, index.sizes, index._states)
    assert sum(each.__sizeof__() for each in arrays) < 30 * 10_000
