"""Who is looked at in which tick: few every time, many in turn, and nobody is forgotten."""

from hypothesis import given
from hypothesis import strategies as st

from sidecar.rounds import A_TICK, BATCH, TICKS, Rounds


def looked_at(rounds, everybody):
    batches = list(rounds.turn(everybody))
    assert all(0 < len(batch) <= BATCH for batch in batches)
    return [each for batch in batches for each in batch]


def test_few_are_looked_at_at_every_tick():
    rounds = Rounds()
    for count in (0, 1, BATCH, A_TICK):
        assert looked_at(rounds, range(count)) == list(range(count))


def test_of_many_a_part_is_looked_at_and_all_within_a_second():
    rounds, everybody = Rounds(), range(A_TICK * TICKS * 2 + 1)
    turns = [looked_at(rounds, everybody) for _ in range(TICKS)]

    assert sorted(each for turn in turns for each in turn) == list(everybody)
    assert max(map(len, turns)) <= -(-len(everybody) // TICKS)


def test_one_that_comes_within_a_round_has_its_turn_in_the_next():
    rounds = Rounds()
    looked_at(rounds, range(A_TICK + 1))
    assert looked_at(rounds, ["late"]) == [A_TICK]
    assert looked_at(rounds, ["late"]) == ["late"]


@given(st.lists(st.integers(0, 6_000), min_size=1, max_size=30))
def test_whoever_stays_is_looked_at_at_least_once_in_two_rounds(counts):
    rounds, waited = Rounds(), 0
    for count in counts:
        waited = 0 if "stays" in looked_at(rounds, ["stays", *range(count)]) else waited + 1
        assert waited < 2 * TICKS
