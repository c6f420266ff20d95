"""`gapline stalls` as text: aligned, an id never cut, and an empty list that explains itself."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given

from otel.view.answers import read_stalls
from otel.view.listing import stalls
from otel.view.palette import Look
from tests.support import any_answers
from tests.support.answers import stalls as example
from tests.support.golden import golden
from tests.support.screen import assert_fits

ANSWER = read_stalls(example())
QUESTION = "in the last 1 h"
UUID = "1b4e28ba-2fa1-41d2-883f-0016d3cca427"


def drawn(answer=ANSWER, **look):
    return stalls(answer, Look(**look), question=QUESTION)


@pytest.mark.parametrize(("name", "look"), [("stalls", {"width": 160}), ("stalls_80", {"width": 80})])
def test_a_list_looks_as_it_is_kept(name, look):
    text = drawn(**look)
    assert golden(f"views/{name}.txt", text) == text


def test_an_empty_list_explains_itself():
    text = stalls(replace(ANSWER, stalls=()), Look(), question="in the last 1 h, hop gateway")
    assert golden("views/stalls_none.txt", text) == text


@pytest.mark.parametrize("width", [60, 80, 100, 120, 160])
def test_a_list_fits_and_cuts_no_id(width):
    text = drawn(width=width)
    assert_fits(text, width)
    assert all(row.request_id in text for row in ANSWER.stalls)


@given(any_answers.stalls, any_answers.widths)
def test_any_list_fits(answer, width):
    assert_fits(stalls(read_stalls(answer), Look(width=width), question=QUESTION), width)


def test_the_newest_is_first_and_another_day_is_said():
    lines = drawn(width=160).splitlines()
    assert lines[1].startswith("03:12:09")
    assert lines[4].startswith("01-16 23:40:10")


def test_an_id_too_long_for_its_row_has_a_line_of_its_own():
    long_id = "r" * 150
    answer = replace(ANSWER, stalls=(replace(ANSWER.stalls[0], request_id=long_id),))
    assert f"\n  {long_id}\n" in drawn(answer, width=155)


def test_an_open_stream_and_an_unknown_cause_are_told_apart():
    text = drawn(width=160)
    assert "source_stall (open)" in text
    assert "cannot tell" in text


@pytest.mark.parametrize("width", [80, 139])
def test_a_sentence_is_left_out_where_it_would_be_cut_to_nothing(width):
    answer = replace(ANSWER, stalls=ANSWER.stalls[2:])  # with short ids
    assert "what happened" not in drawn(answer, width=width)
    assert "Inference-proxy app" not in drawn(answer, width=width)
    assert "what happened" in drawn(answer, width=140)


@pytest.mark.parametrize(("gap_s", "waited"), [(0.0, "-"), (1.5, "1.50 s")])
def test_an_answer_that_broke_off_shows_its_cause_and_what_was_waited(gap_s, waited):
    broken_off = replace(ANSWER.stalls[2], gap_s=gap_s, wait=None)
    row = drawn(replace(ANSWER, stalls=(broken_off,)), width=160).splitlines()[1]
    assert re.search(rf"truncated +inference-proxy +{re.escape(waited)} +broken off ", row)


def test_a_hop_that_went_on_for_nobody_broke_nothing_off():
    went_on = replace(ANSWER.stalls[2], cause="cancel_ignored", gap_s=0.0, wait=None)
    row = drawn(replace(ANSWER, stalls=(went_on,)), width=160).splitlines()[1]
    assert re.search(r"cancel_ignored +inference-proxy +- +went on ", row)


def test_that_there_is_more_is_said():
    assert "raise --limit" in drawn(replace(ANSWER, has_more=True))
    assert "raise --limit" not in drawn()
