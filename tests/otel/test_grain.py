"""What leaves of a timeline: rounded so that no word can be told, thinned so that no gap is lost."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.grain import EXACT_POSITIONS, EXACT_UNIT_NS, LEFT_OUT, NOISE_NS, QUANTUM, UNIT_NS, quantised, thinned
from otel.hop import EventClass, Stamp, Timeline
from otel.timeline import decode, encode
from tests.support.builders import a_timeline, raw_timelines, timelines

OUTPUT = {EventClass.CONTENT, EventClass.REASONING, EventClass.TOOL, EventClass.OPAQUE}
MS = 1_000_000


def exact(timeline: Timeline) -> list[int]:
    return [stamp.seq for stamp in timeline.stamps if stamp.is_exact]


def words(lengths: list[int], pauses_ms: list[int]) -> Timeline:
    """A source of one word an event, as recorded."""
    stamps = []
    at_ns = position = 0
    for seq, (length, pause_ms) in enumerate(zip(lengths, pauses_ms, strict=True)):
        at_ns, position = at_ns + pause_ms * MS, position + length
        stamps.append(Stamp(seq, at_ns, at_ns, EventClass.CONTENT, position, is_exact=True))
    return Timeline(unit_ns=1, quantum=1, stamps=tuple(stamps))


@st.composite
def slow_sources(draw: st.DrawFn) -> Timeline:
    """Sources whose every pause counts as a gap."""
    lengths = draw(st.lists(st.integers(1, 20), min_size=1, max_size=120))
    pauses_ms = st.lists(st.integers(250, 400), min_size=len(lengths), max_size=len(lengths))
    return words(lengths, draw(pauses_ms))


class TestQuantised:
    @given(raw_timelines())
    def test_rounds_down_by_less_than_a_unit_and_errors_never_add_up(self, raw):
        for before, after in zip(raw.stamps, quantised(raw).stamps, strict=True):
            assert 0 <= before.arrived_ns - after.arrived_ns < UNIT_NS
            assert 0 <= before.position - after.position < QUANTUM

    @given(raw_timelines(), st.sampled_from(((UNIT_NS, QUANTUM), (EXACT_UNIT_NS, 1))), st.booleans())
    def test_twice_is_once(self, raw, grain, is_open):
        unit_ns, quantum = grain
        once = quantised(raw, unit_ns=unit_ns, quantum=quantum, is_open=is_open)
        assert quantised(once, unit_ns=unit_ns, quantum=quantum, is_open=is_open) == once

    def test_steps_of_positions_hide_which_token_it_was(self):
        timeline = a_timeline([0.30, 0.32, 0.34, 0.36], chars=[5, 6, 30, 7])
        assert [s.position for s in timeline.stamps] == [0, 0, 32, 32]

    @given(raw_timelines())
    def test_can_be_encoded_always(self, raw):
        assert decode(encode(quantised(raw))) == quantised(raw)

    @given(raw_timelines())
    def test_changes_nothing_else(self, raw):
        made = quantised(raw)
        assert replace(made, unit_ns=1, quantum=1, stamps=(), blocked=(), lag=(), samples=()) == replace(
            raw, stamps=(), blocked=(), lag=(), samples=()
        )


class TestExactPositions:
    def test_one_is_kept_before_a_gap(self):
        timeline = a_timeline([0.30, 0.32, 0.34, 3.36, 3.38, 3.40], chars=[5, 6, 7, 8, 9, 10])
        assert [(s.position, s.is_exact) for s in timeline.stamps] == [
            (0, False),
            (0, False),
            (18, True),
            (0, False),
            (32, False),
            (32, False),
        ]

    def test_what_comes_in_between_without_output_does_not_end_the_gap(self):
        kinds = [EventClass.CONTENT] * 3 + [EventClass.KEEPALIVE] * 2 + [EventClass.CONTENT] * 2
        timeline = a_timeline([0.3, 0.32, 0.34, 0.5, 0.6, 3.4, 3.42], chars=7, classes=kinds)
        assert exact(timeline) == [2]

    @given(raw_timelines() | slow_sources(), st.booleans())
    def test_are_few_stand_before_gaps_and_have_no_neighbours(self, raw, is_open):
        outputs = [s for s in quantised(raw, is_open=is_open).stamps if s.event_class in OUTPUT]
        at = [i for i, stamp in enumerate(outputs) if stamp.is_exact]

        assert len(at) <= EXACT_POSITIONS
        assert all(b - a > 1 for a, b in pairwise([-1, *at]))
        assert all(outputs[i + 1].arrived_ns - outputs[i].arrived_ns >= NOISE_NS for i in at)

    @given(slow_sources(), st.data())
    def test_no_length_of_a_word_can_be_told_from_the_final_record_and_all_its_segments(self, raw, data):
        cuts = sorted(data.draw(st.sets(st.integers(0, len(raw.stamps)), max_size=4)))
        parts = [raw.stamps[a:b] for a, b in pairwise([0, *cuts, len(raw.stamps)])]
        told = set(exact(quantised(raw)))
        for part in parts:
            told |= set(exact(quantised(replace(raw, stamps=part), is_open=True)))

        assert not [seq for seq in told if seq + 1 in told or seq == 0]

    def test_are_those_before_the_longest_gaps(self):
        draw = random.Random(1)
        pauses_ms = [draw.choice((300, 320, 340)) if seq % 2 else 20 for seq in range(400)]
        pauses_ms[101], pauses_ms[301] = 4_000, 3_000
        raw = words([draw.randrange(1, 12) for _ in pauses_ms], pauses_ms)

        told = exact(quantised(raw))
        assert len(told) == EXACT_POSITIONS
        assert {100, 300} < set(told)
        assert {pauses_ms[seq + 1] for seq in told} <= {4_000, 3_000, 340}

    def test_a_source_of_three_words_a_second_tells_none(self):
        timeline = quantised(words([3, 7, 2, 9, 4, 1, 8], [300] * 7))
        assert exact(timeline) == []

    def test_events_that_were_left_out_make_no_gap(self):
        raw = words([5] * 6, [20] * 5 + [9_000])
        assert exact(quantised(raw)) == [4]
        cut = replace(raw, is_cut_short=True, stamps=(*raw.stamps[:5], replace(raw.stamps[5], seq=99)))
        assert exact(quantised(cut)) == []

    def test_the_last_gap_of_a_segment_may_be_shorter_than_the_next_one(self):
        raw = words([5] * 6, [20] * 5 + [9_000])
        assert exact(quantised(raw, is_open=True)) == []

    @given(raw_timelines())
    def test_are_all_where_that_was_asked_for(self, raw):
        made = quantised(raw, unit_ns=EXACT_UNIT_NS, quantum=1)
        assert [s.position for s in made.stamps] == [s.position for s in raw.stamps]
        assert all(s.is_exact for s in made.stamps)


class TestThinned:
    @given(timelines())
    def test_keeps_both_sides_of_every_gap_and_says_that_it_is_thinned(self, timeline):
        thin = thinned(timeline)
        kept = {stamp.seq: stamp for stamp in thin.stamps}
        outputs = [stamp for stamp in timeline.stamps if stamp.event_class in OUTPUT]
        for before, after in (*pairwise(timeline.stamps), *pairwise(outputs)):
            if after.arrived_ns - before.arrived_ns >= NOISE_NS:
                assert kept[before.seq] == before
                assert kept[after.seq] == after
        assert thin.stamps[:1] == timeline.stamps[:1]
        assert thin.stamps[-1:] == timeline.stamps[-1:]
        assert replace(thin, stamps=()) == replace(timeline, stamps=(), is_thinned=True)

    @given(timelines())
    def test_twice_is_once(self, timeline):
        assert thinned(thinned(timeline)) == thinned(timeline)

    @given(timelines())
    def test_keeps_every_exact_position(self, timeline):
        if timeline.quantum > 1:
            assert set(exact(timeline)) <= {stamp.seq for stamp in thinned(timeline).stamps}

    def test_shows_where_one_that_was_cut_short_was_cut(self):
        timeline = a_timeline([0.02 * i for i in range(10)])
        assert [s.seq for s in thinned(timeline).stamps] == [0, 9]
        assert [s.seq for s in thinned(replace(timeline, is_cut_short=True)).stamps] == [0, 8, 9]


@pytest.mark.parametrize("flag", ["is_thinned", "is_evidence_thinned"])
def test_what_was_left_out_proves_nothing(flag):
    assert getattr(LEFT_OUT, flag)
    assert decode(encode(LEFT_OUT)) == LEFT_OUT
