"""The decomposition as bars: steps that follow each other, parts that fill the width, seconds that add up."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.view.answers import Term, read_verdict
from otel.view.bars import bar_lines, label_of, readable, wait_title, waterfall, waterfall_lines
from otel.view.palette import Look, Tone, render
from tests.support.answers import ANSWERS
from tests.support.screen import assert_fits, columns

LOOK = Look(width=100)
STALL = read_verdict(ANSWERS["app_stall_at_the_proxy"]()["verdict"])
parts = st.lists(st.integers(-5_000, 5_000), min_size=1, max_size=11)
widths = st.integers(1, 120)


def bar_of(line):
    return "".join(piece.text for piece in line)


def terms(*seconds):
    labels = ["source", "self:a", "a>b", "self:b", "b>client", *(f"h{n}>h{n + 1}" for n in range(10))]
    return tuple(Term(label, f"owner {label}", each) for label, each in zip(labels, seconds, strict=False))


@given(parts, widths)
def test_a_waterfall_steps_from_nothing_to_the_sum(values, width):
    *bars, sum_bar = waterfall(values, width, LOOK)
    assert len(bars) == len(values)
    forward = sum(bar_of(bar).count("█") for bar in bars)
    back = sum(bar_of(bar).count("◂") for bar in bars)
    length = len(bar_of(sum_bar).strip())
    assert abs(forward - back) == (length if abs(forward - back) > 1 else abs(forward - back))
    assert all(len(bar_of(bar)) == width for bar in (*bars, sum_bar))


@given(st.lists(st.integers(1, 5_000), min_size=1, max_size=11), widths)
def test_every_step_of_a_waterfall_begins_where_the_one_before_it_ended(values, width):
    solid = [bar_of(bar) for bar in waterfall(values, width, LOOK)[:-1]]
    filled = [bar for bar in solid if "█" in bar]
    assert sum(bar.count("█") for bar in solid) == width
    for before, after in pairwise(filled):
        assert before.rindex("█") + 1 == after.index("█")


def test_a_part_that_gave_time_back_runs_back():
    assert [bar_of(bar) for bar in waterfall([4, -2, 6], 8, LOOK)] == ["████    ", "  ◂◂    ", "  ██████", "└──────┘"]


def test_a_part_too_small_to_see_is_a_sliver():
    assert [bar_of(bar) for bar in waterfall([1, 999], 4, LOOK)] == ["▏   ", "████", "└──┘"]


@given(parts, st.integers(20, 120))
def test_the_one_bar_is_exactly_as_wide_as_it_may_be(values, width):
    verdict = replace(STALL, contributions=terms(*(value / 1000 for value in values)))
    bar, *legend = bar_lines(verdict, width, LOOK)
    assert columns(bar_of(bar)) == (width if max(values) > 0 else 0)
    assert all(columns(bar_of(line)) <= width for line in legend)


@given(parts)
def test_the_seconds_that_are_shown_add_up_to_the_sum_that_is_shown(values):
    verdict = replace(STALL, contributions=terms(*(value / 1000 + 0.0004 for value in values)))
    *rows, total = [float(re.search(r"(-?[0-9.]+) s", bar_of(line))[1]) for line in waterfall_lines(verdict, LOOK)]
    assert sum(round(row * 1000) for row in rows) == round(total * 1000)


def test_the_named_part_is_marked_and_coloured():
    lines = waterfall_lines(STALL, LOOK)
    marked = [line for line in lines if bar_of(line).startswith("▶")]
    assert len(marked) == 1
    assert bar_of(marked[0]).split()[1:3] == ["inference-proxy", "app"]
    assert marked[0][0].tone is Tone.FAULT


def test_a_narrow_list_leaves_the_segments_out():
    assert "model-worker → inference-proxy" in render(waterfall_lines(STALL, LOOK), LOOK)
    assert "→" not in render(waterfall_lines(STALL, Look(width=80)), LOOK)


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_a_list_fits(width):
    look = Look(width=width)
    assert_fits(render(waterfall_lines(STALL, look), look), width)


def test_without_terms_there_is_no_bar():
    verdict = replace(STALL, contributions=())
    assert waterfall_lines(verdict, LOOK) == bar_lines(verdict, 50, LOOK) == []


@pytest.mark.parametrize("name", ANSWERS)
def test_the_named_segment_has_a_label_among_the_contributions(name):
    verdict = read_verdict(ANSWERS[name]()["verdict"])
    if verdict.segment and verdict.contributions:
        assert label_of(verdict.segment) in {term.label for term in verdict.contributions}


def test_labels_for_people():
    assert readable("a>b") == "a → b"
    assert readable("self:gateway") == "inside gateway"
    assert readable("source") == "source"


@pytest.mark.parametrize(
    ("change", "title"),
    [
        ({}, "The wait: 2.03 s between two deliveries, after 101 events (3,232 characters)"),
        ({"at_position": 0}, "The wait: 2.03 s between two deliveries, after 101 events"),
        ({"wait": "first_event", "at_seq": 0}, "The wait: 2.03 s for the first output"),
        ({"wait": "end", "at_seq": None}, "The wait: 2.03 s for the end"),
    ],
)
def test_the_wait_in_words(change, title):
    assert wait_title(replace(STALL, **change)) == title
