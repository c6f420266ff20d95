"""A slower source is found where it was slower, and never in a stream that only has pauses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.hop import Blocked, EventClass, Hop, Interval
from otel.join import join
from otel.query import verdict_answer
from otel.tempo import BURSTS, tempo_of
from otel.timeline import thinned
from otel.verdict import judge
from tests.support.chain import MS, WORKER, Chain, S, run

SLOWED = Chain(schedule=[30 * MS] * 150 + [90 * MS] * 150, events=301)


def source(chain: Chain) -> Hop:
    return run(chain)[0]


def tempo(chain: Chain, usual_ns: int | None = None):
    found = tempo_of(source(chain), usual_ns=usual_ns)
    assert found is not None
    return found


class TestInTheMiddle:
    def test_the_place_and_both_paces_are_told(self):
        slowed = tempo(SLOWED).slowed
        assert slowed is not None
        assert slowed.at_seq == pytest.approx(151, abs=2)
        assert (slowed.before_ns, slowed.after_ns) == (
            pytest.approx(30 * MS, rel=0.01),
            pytest.approx(90 * MS, rel=0.01),
        )

    @pytest.mark.parametrize(
        "schedule",
        [
            [90 * MS] * 150 + [30 * MS] * 150,  # it became faster
            [30 * MS] * 150 + [50 * MS] * 150,  # less than twice
            [30 * MS] * 290 + [90 * MS] * 10,  # too few to show a pace
            [6 * MS] * 60 + [15 * MS] * 60,  # half a second lost in all
            [30 * MS] * 280 + [3 * S] + [30 * MS] * 19,  # a stall is no pace
            [30 * MS] * 280 + [2 * S] * 2 + [30 * MS] * 18,
        ],
    )
    def test_nothing_else_is(self, schedule):
        assert tempo(Chain(schedule=schedule, events=len(schedule) + 1)).slowed is None

    def test_events_that_bring_more_text_each_are_no_slower(self):
        larger = replace(SLOWED, chars=[4] * 150 + [12] * 151)
        assert tempo(larger).slowed is None

    def test_neither_are_thoughts_of_which_no_text_is_seen(self):
        thoughts = replace(SLOWED, phases=[(EventClass.REASONING, 301)])
        assert tempo(thoughts).slowed is not None

    @given(st.lists(st.sampled_from([0, 1, 20, 30, 40]), min_size=60, max_size=60), st.integers(2, 6))
    def test_a_schedule_that_repeats_itself_never_slows_down(self, gaps_ms, times):
        found = tempo_of(source(Chain(schedule=[ms * MS for ms in gaps_ms], events=60 * times + 1)))
        assert found is None or found.slowed is None

    @given(st.integers(5, 60), st.integers(3, 8), st.integers(60, 200))
    def test_the_more_it_slows_down_the_more_is_told(self, pace_ms, times, events):
        schedule = [pace_ms * MS] * events + [pace_ms * times * MS] * events
        slowed = tempo(Chain(schedule=schedule, events=2 * events + 1)).slowed
        is_felt = pace_ms * (times - 1) * events >= 1_100
        assert not is_felt or (slowed is not None and slowed.after_ns >= 2 * slowed.before_ns)


class TestAgainstItsOthers:
    @pytest.mark.parametrize(("usual_ms", "is_slow"), [(None, False), (5, True), (12, True), (14, False), (90, False)])
    def test_twice_the_usual_time_per_event_is_slow(self, usual_ms, is_slow):
        found = tempo(Chain(events=120), None if usual_ms is None else usual_ms * MS)
        assert (found.is_slow, found.pace_ns) == (is_slow, pytest.approx(25 * MS, rel=0.01))

    def test_what_nobody_felt_is_not_slow(self):
        assert not tempo(Chain(gap=10 * MS, events=60), 1 * MS).is_slow

    def test_a_stall_does_not_make_a_source_slow(self):
        assert not tempo(Chain(stalls=[("source", 60, 40 * S)]), 20 * MS).is_slow


class TestWhereNothingIsShown:
    @pytest.mark.parametrize("events", [1, BURSTS])
    def test_of_few_bursts(self, events):
        assert tempo_of(source(Chain(events=events))) is None

    def test_of_a_flood_there_is_no_burst(self):
        assert tempo_of(source(Chain(gap=1 * MS, events=500))) is None

    @pytest.mark.parametrize(
        "change",
        [
            {"blocked": (Blocked(1 * S, 2 * S, None),)},
            {"lag": (Interval(1 * S, 2 * S),)},
        ],
    )
    def test_where_the_tap_itself_may_have_held_the_source(self, change):
        hop = source(SLOWED)
        assert tempo_of(replace(hop, timeline=replace(hop.timeline, **change))) is None

    def test_where_events_were_left_out(self):
        hop = source(SLOWED)
        assert tempo_of(replace(hop, timeline=thinned(hop.timeline))) is None

    def test_of_an_answer_that_is_no_stream(self):
        hop = source(SLOWED)
        assert tempo_of(replace(hop, exchange=replace(hop.exchange, is_stream=False))) is None


def test_a_slower_source_is_told_beside_a_verdict_that_names_nobody():
    path = join(run(SLOWED))
    verdict = judge(path)
    answer = verdict_answer(path, verdict, as_of="2030-01-01T00:00:00.000Z", is_final=True)
    assert answer["status"] == "healthy"
    assert f"{WORKER} slowed down after 151 events, from one every 30 ms to one every 90 ms" in answer["sentence"]
    assert answer["evidence"]["source_pace"] == {
        "pace_s": pytest.approx(0.055, abs=0.01),
        "usual_pace_s": None,
        "slowed_after_events": 151,
        "pace_before_s": 0.03,
        "pace_after_s": 0.09,
    }


def test_the_prompts_of_others_interrupt_a_source_and_hide_no_change():
    interrupted = [30 * MS] * 9 + [600 * MS]
    steady, slower = interrupted * 15, [3 * ns for ns in interrupted[:-1]] + [600 * MS]
    assert tempo(Chain(schedule=steady * 2, events=301)).slowed is None
    assert tempo(Chain(schedule=steady + slower * 15, events=301)).slowed is not None
