"""Tones that can be read on dark and on light, marks that differ, and lines that come out as they went in."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.view.palette import ASCII, UNICODE, Look, Piece, Strip, Tone, badge, render
from otel.view.text import cells
from tests.support.screen import SGR, columns

PLAIN, COLOUR = Look(), Look(is_colour=True)
LANE_MARKS = ("content", "reasoning", "other", "error", "terminal", "open", "void", "blocked", "lag", "held")


def rgb(number: int) -> tuple[float, float, float]:
    """A colour of xterm's cube or grey ramp."""
    if number >= 232:
        return ((8 + (number - 232) * 10) / 255,) * 3
    steps = (0, 95, 135, 175, 215, 255)
    number -= 16
    return steps[number // 36] / 255, steps[number // 6 % 6] / 255, steps[number % 6] / 255


def luminance(colour: tuple[float, float, float]) -> float:
    """Relative luminance as WCAG 2 defines it."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


@pytest.mark.parametrize("tone", [tone for tone in Tone if "38;5" in tone.value and "48;5" not in tone.value])
def test_tones_are_readable_on_black_and_on_white(tone):
    light = luminance(rgb(int(re.search(r"38;5;(\d+)", tone.value)[1])))
    assert contrast(light, 0.0) >= 3.5
    assert contrast(light, 1.0) >= 3.5


@pytest.mark.parametrize("tone", [Tone.FAULT_BADGE, Tone.DOUBT_BADGE, Tone.FINE_BADGE])
def test_badges_are_readable_on_their_own_ground(tone):
    ink, ground = (luminance(rgb(int(n))) for n in re.findall(r"[34]8;5;(\d+)", tone.value))
    assert contrast(ink, ground) >= 4.5


@pytest.mark.parametrize("marks", [UNICODE, ASCII])
def test_every_kind_of_mark_in_a_lane_has_its_own_shape(marks):
    shapes = "".join(getattr(marks, name) for name in LANE_MARKS)
    assert len(set(shapes)) == len(shapes)


@pytest.mark.parametrize("marks", [UNICODE, ASCII])
def test_marks_take_one_column_each(marks):
    for field in fields(marks):
        mark = getattr(marks, field.name)
        assert columns(mark) == len(mark)
        if field.name not in {"content", "reasoning", "arrow"}:
            assert len(mark) == 1
    assert all(ord(c) < 128 for field in fields(ASCII) for c in getattr(ASCII, field.name))


@given(st.lists(st.tuples(st.text("ab ", max_size=5), st.sampled_from(list(Tone))), max_size=6))
def test_colour_changes_no_text(pieces):
    line = tuple(Piece(text, tone) for text, tone in pieces)
    assert SGR.sub("", render([line], COLOUR)) == render([line], PLAIN)


def test_lines_have_no_blanks_at_their_ends():
    assert render([(Piece("a "), Piece("  ", Tone.QUIET)), ()], PLAIN) == "a\n\n"


def test_ascii_keeps_what_is_lined_up():
    assert render([(Piece("→中|"),)], Look(is_ascii=True)) == ">??|\n"


def test_a_badge_has_the_same_width_with_and_without_colour():
    assert badge("self", Tone.FAULT_BADGE, PLAIN).text == "[self]"
    assert cells(badge("self", Tone.FAULT_BADGE, COLOUR).text) == 6


@given(st.integers(1, 30), st.lists(st.tuples(st.integers(-5, 40), st.text("xyz", max_size=8)), max_size=5))
def test_a_strip_is_as_wide_as_it_was_made(width, writes):
    strip = Strip(width)
    for column, text in writes:
        strip.put(column, text)
    assert sum(len(piece.text) for piece in strip.pieces()) == width


def test_later_marks_cover_earlier_ones_and_text_is_no_mark():
    strip = Strip(9)
    strip.fill(range(2, 9), "-")
    assert strip.label(range(2, 9), "abc")
    strip.fill([0], "#")
    assert "".join(piece.text for piece in strip.pieces()) == "# - abc -"
    assert strip.drawn == {"#", "-"}
    assert strip.mark_at(0) == "#"


def test_a_label_needs_a_mark_on_either_side():
    strip = Strip(10)
    assert not strip.label(range(6), "abc")
    assert "".join(piece.text for piece in strip.pieces()).strip() == ""
