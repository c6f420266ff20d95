"""Which of the engine's answers belong to a silence, in times that the test gives."""

from hypothesis import given
from hypothesis import strategies as st

from otel.hop import EngineEvidence, EngineSnapshot
from sidecar.engine.history import KEPT, NEAR_NS, YOUNG_NS, History, Silences
from sidecar.engine.reading import Seen

S = 1_000_000_000


def seen(asked_ns, *, server="vllm", preemptions=0):
    return Seen(server, EngineSnapshot(asked_ns=asked_ns, preemption_count=preemptions))


def a_history(*asked_s, server="vllm"):
    history = History()
    for number, at_s in enumerate(asked_s):
        history.add(seen(round(at_s * S), server=server, preemptions=number))
    return history


def earlier_s(history, since_s, during_s):
    evidence = history.evidence(seen(round(during_s * S)), since_ns=round(since_s * S), anchor_ns=0)
    return None if evidence.earlier is None else evidence.earlier.asked_ns / S


def test_the_newest_answer_holds_for_a_second_where_the_silence_had_begun_by_then():
    history = a_history(3, 10)
    assert history.young(10 * S + YOUNG_NS, since_ns=9 * S) == seen(10 * S, preemptions=1)
    assert history.young(10 * S + YOUNG_NS + 1, since_ns=9 * S) is None
    assert history.young(10 * S, since_ns=10 * S) is None
    assert History().young(10 * S, since_ns=9 * S) is None


def test_a_silence_is_compared_with_the_last_answer_before_it():
    assert earlier_s(a_history(1, 4, 6), since_s=5, during_s=7) == 4
    assert earlier_s(a_history(1, 5, 6), since_s=5, during_s=7) == 5


def test_where_there_is_none_before_it_the_first_near_its_beginning_will_do():
    near_s = 5 + NEAR_NS / S
    assert earlier_s(a_history(near_s), since_s=5, during_s=7) == near_s
    assert earlier_s(a_history(near_s + 0.001), since_s=5, during_s=7.5) is None
    assert earlier_s(a_history(5.25, 5.5), since_s=5, during_s=7) == 5.25


def test_an_answer_is_not_compared_with_itself_nor_with_another_engine():
    assert earlier_s(a_history(5.5), since_s=5, during_s=5.5) is None
    assert earlier_s(a_history(1, server="tgi"), since_s=5, during_s=7) is None


def test_times_are_offsets_to_the_millisecond_and_may_lie_before_the_anchor():
    history = a_history(1)
    evidence = history.evidence(seen(7 * S + 1_999_999), since_ns=5 * S + 123_456, anchor_ns=3 * S)
    assert evidence.silent_since_ns == 2 * S
    assert evidence.during.asked_ns == 4 * S + 1_000_000
    assert evidence.earlier.asked_ns == -2 * S


@given(st.lists(st.integers(0, 100 * S), max_size=KEPT).map(sorted), st.integers(0, 100 * S), st.integers(1, 10 * S))
def test_what_is_earlier_is_before_the_silence_or_near_its_beginning(times, since_ns, after_ns):
    history = History()
    for at_ns in times:
        history.add(seen(at_ns))
    during_ns = since_ns + after_ns
    evidence = history.evidence(seen(during_ns), since_ns=since_ns, anchor_ns=0)

    before = [at_ns for at_ns in times if at_ns <= since_ns and at_ns < during_ns]
    near = [at_ns for at_ns in times if since_ns < at_ns <= since_ns + NEAR_NS and at_ns < during_ns]
    wanted = max(before) if before else min(near, default=None)
    found = evidence.earlier
    assert (None if found is None else found.asked_ns) == (None if wanted is None else wanted // 10**6 * 10**6)


def test_history_forgets_what_is_old():
    assert earlier_s(a_history(*range(KEPT + 5)), since_s=4, during_s=200) == 5


def a_silence(since_s):
    return EngineEvidence(server="vllm", silent_since_ns=since_s * S, during=EngineSnapshot(asked_ns=(since_s + 2) * S))


def test_of_a_streams_silences_the_longest_is_kept_and_one_that_lasts_counts_so_far():
    silences = Silences()
    silences.told(a_silence(1))
    assert silences.longest(3 * S) == a_silence(1)
    silences.over(5 * S)
    assert silences.longest(6 * S) == a_silence(1)

    silences.told(a_silence(10))
    assert silences.longest(13 * S) == a_silence(1)
    assert silences.longest(15 * S) == a_silence(10)
    silences.over(13 * S)
    silences.over(100 * S)  # of a silence in which nothing was told
    assert silences.longest(100 * S) == a_silence(1)

    silences.told(a_silence(20))
    silences.over(30 * S)
    assert silences.longest(31 * S) == a_silence(20)


def test_without_a_word_of_the_engine_there_is_nothing_to_keep():
    silences = Silences()
    silences.over(5 * S)
    assert silences.longest(6 * S) is None
