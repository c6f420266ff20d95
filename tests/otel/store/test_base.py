from hypothesis import given
from hypothesis import strategies as st

from otel.hop import Ending, State
from otel.ids import recorded
from otel.store.base import (
    KEYS_PER_HOP,
    SECOND_NS,
    RetentionPolicy,
    is_abnormal,
    key_of,
    keys_of,
    most_overdue,
    spent_share,
)
from tests.support.builders import a_hop

NOW_NS = 1_000_000 * SECOND_NS
POLICY = RetentionPolicy(healthy_s=100, abnormal_s=1_000, verdicts_s=10_000)


def ago(seconds: float) -> int:
    return NOW_NS - round(seconds * SECOND_NS)


def overdue(*oldest_s: float | None, is_over_size: bool = False) -> int | None:
    oldest = [None if seconds is None else ago(seconds) for seconds in oldest_s]
    return most_overdue(oldest, NOW_NS, POLICY, is_over_size=is_over_size)


def test_nothing_is_deleted_before_its_time():
    assert overdue(100, 1_000, 10_000) is None
    assert overdue(None, None, None) is None


def test_what_is_past_its_time_goes_the_most_overdue_first():
    assert overdue(101, 1, 1) == 0
    assert overdue(101, 1_100, 1) == 1
    assert overdue(101, 1_100, 12_000) == 2
    assert overdue(None, 1_001, None) == 1


def test_past_the_size_what_has_used_most_of_its_time_goes():
    assert overdue(50, 400, 1_000, is_over_size=True) == 0
    assert overdue(30, 400, 1_000, is_over_size=True) == 1
    assert overdue(None, None, 1, is_over_size=True) == 2
    assert overdue(None, None, None, is_over_size=True) is None


def test_a_time_of_zero_is_over_at_once():
    assert spent_share(ago(1), NOW_NS, limit_s=0) > 1


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_an_id_has_one_key_however_often_it_was_recorded(text: str):
    assert key_of(text) == key_of(recorded(text))
    assert key_of(text).isascii()


def test_a_hop_has_the_keys_of_all_its_ids_once_and_not_endlessly_many():
    hop = a_hop(request_id="chatcmpl-A", aliases=("a", "B", "b"))
    assert keys_of(hop) == ("a", hop.trace_id, "b")

    crowded = a_hop(aliases=tuple(f"alias-{i}" for i in range(100)))
    assert keys_of(crowded)[:2] == ("1", crowded.trace_id)
    assert len(keys_of(crowded)) == KEYS_PER_HOP


def test_an_ending_shows_whether_something_went_wrong():
    well = {ending for ending in Ending if not is_abnormal(a_hop(ending=ending))}

    assert well == {Ending.COMPLETE, Ending.UNKNOWN_END}
    assert not is_abnormal(a_hop(state=State.OPEN))
