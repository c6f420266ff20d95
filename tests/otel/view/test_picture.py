"""`gapline timeline` as a picture: kept examples, lanes that line up, zoom, and any answer within its width."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.view.answers import read_timeline
from otel.view.palette import Look
from otel.view.picture import extent, timeline
from tests.support import any_answers
from tests.support.answers import ANSWERS, thirty_thousand_events
from tests.support.golden import FOLDER, golden
from tests.support.screen import assert_fits


def answer_of(name):
    return read_timeline(json.loads((FOLDER / f"answers/{name}.json").read_text("utf-8")))


def drawn(name, start_s=None, end_s=None, **look):
    return timeline(answer_of(name), Look(**look), start_s=start_s, end_s=end_s)


def lane(text, name):
    return next(line for line in text.splitlines() if line.startswith(name + " "))


@pytest.mark.parametrize("name", ANSWERS)
def test_examples_look_as_they_are_kept(name):
    text = drawn(name)
    assert golden(f"views/{name}.timeline.txt", text) == text


@pytest.mark.parametrize("width", [80, 160])
def test_at_other_widths_it_looks_as_it_is_kept(width):
    text = drawn("app_stall_at_the_proxy", width=width)
    assert golden(f"views/app_stall_at_the_proxy.timeline_{width}.txt", text) == text


def test_in_ascii_it_looks_as_it_is_kept():
    text = drawn("slow_reader", width=80, is_ascii=True)
    assert golden("views/slow_reader.timeline_80_ascii.txt", text) == text


def test_a_zoomed_picture_looks_as_it_is_kept():
    text = drawn("source_stall", start_s=2.5, end_s=5.0)
    assert golden("views/source_stall.timeline_zoomed.txt", text) == text


def test_thirty_thousand_events_look_as_they_are_kept():
    text = timeline(read_timeline(thirty_thousand_events()), Look())
    assert golden("views/thirty_thousand_events.timeline.txt", text) == text


@pytest.mark.parametrize("width", [60, 80, 100, 160])
@pytest.mark.parametrize("name", ANSWERS)
def test_examples_fit(name, width):
    assert_fits(drawn(name, width=width), width)
    assert_fits(drawn(name, width=width, is_colour=True), width)
    assert_fits(drawn(name, width=width, is_ascii=True), width)


windows = st.one_of(st.none(), st.floats(-10, 200), st.floats(-1e9, 1e9))


@given(any_answers.timelines, any_answers.widths, windows, windows)
def test_any_answer_fits_in_any_window(answer, width, start_s, end_s):
    assert_fits(timeline(read_timeline(answer), Look(width=width), start_s=start_s, end_s=end_s), width)


@given(any_answers.timelines)
def test_any_answer_in_ascii_is_ascii(answer):
    text = timeline(read_timeline(answer), Look(is_ascii=True))
    assert text.isascii()
    assert_fits(text, 100)


def test_the_source_is_at_the_top_and_the_reader_at_the_bottom():
    text = drawn("source_stall")
    at = [text.index(f"\n{name} ") for name in ("model-worker", "inference-proxy", "gateway", "to the reader")]
    assert at == sorted(at)


def test_a_stall_begins_in_the_lane_where_it_was_made():
    text = drawn("app_stall_at_the_proxy")
    assert "╌" not in lane(text, "model-worker")
    assert "╌ 2.03 s ╌" in lane(text, "inference-proxy")
    assert "╌ 2.03 s ╌" in lane(text, "gateway")
    between = text[text.index("\nmodel-worker ") : text.index("\ninference-proxy ")]
    assert "▼ app_stall  +2.00 s  inference-proxy app" in between


def test_clocks_that_are_an_hour_off_change_nothing():
    assert drawn("skewed_clocks") == drawn("source_stall")


def test_voids_of_all_lanes_stand_under_each_other():
    text = drawn("skewed_clocks", width=160)
    starts = [lane(text, name).index("╌") for name in ("model-worker", "inference-proxy", "gateway")]
    assert max(starts) - min(starts) <= 1


def test_the_wait_is_bracketed_under_the_void_of_the_reader():
    lines = drawn("app_stall_at_the_proxy").splitlines()
    index = next(i for i, line in enumerate(lines) if line.startswith("to the reader"))
    void, wait = lines[index], lines[index + 1]
    assert "waited 2.03 s" in wait
    assert abs(void.index("╌") - wait.index("└")) <= 1
    assert abs(void.rindex("╌") - wait.rindex("┘")) <= 1


def test_a_wait_outside_of_the_window_is_said():
    assert "waited 2.03 s, outside of this window" in drawn("source_stall", start_s=0.0, end_s=1.0)


def test_a_wait_too_narrow_to_read_can_be_enlarged():
    text = timeline(read_timeline(thirty_thousand_events()), Look())
    assert "└┘ waited 2.03 s" in text
    assert "gapline timeline req-long --from 418.14 --to 424.21   the wait, enlarged" in text


def test_an_ordinary_pause_is_not_drawn_as_a_wait():
    text = drawn("healthy")
    assert "waited" not in text
    assert "who made it" not in text


def test_the_legend_has_what_is_drawn_and_nothing_else():
    assert "blocked: the next one did not read" in drawn("slow_reader")
    assert "blocked" not in drawn("source_stall")
    assert "reasoning only" in drawn("hidden_output")
    assert "reasoning only" not in drawn("source_stall", is_ascii=True)


def test_the_reader_is_a_lane_of_its_own():
    text = drawn("slow_reader")
    assert "╌" not in lane(text, "gateway")
    assert "╌ 2.93 s ╌" in lane(text, "to the reader")


@pytest.mark.parametrize(
    ("width", "said"), [(100, "  complete, 240 events"), (80, "  complete, 240 ev."), (60, "  complete")]
)
def test_a_lane_says_how_it_ended_and_what_the_number_counts(width, said):
    text = drawn("source_stall", width=width)
    assert text.count(f"\n{said}\n") == 3


def test_the_head_can_stand_above_already_and_nobody_be_there_to_ask():
    whole = drawn("source_stall")
    text = timeline(answer_of("source_stall"), Look(), has_head=False, has_commands=False)
    assert text.startswith("▼ source_stall")
    assert text in whole
    assert "gapline" not in text


def test_the_extent_is_what_was_recorded():
    begin, end = extent(answer_of("source_stall").taps)
    assert (begin, round(end, 2)) == (0.0, 8.17)


def test_a_thinned_lane_says_so():
    answer = answer_of("source_stall")
    answer = replace(answer, taps=(replace(answer.taps[0], is_thinned=True), *answer.taps[1:]))
    assert "complete, thinned" in timeline(answer, Look())


def test_without_taps_there_is_a_sentence_and_what_to_try():
    text = timeline(replace(answer_of("source_stall"), taps=(), wait=None), Look())
    assert "There is nothing to draw" in text
    assert "gapline timeline req-7f3a9c21" in text
