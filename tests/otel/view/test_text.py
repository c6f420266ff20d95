"""Text for a terminal: nothing hostile passes, and what passes is measured right."""

from __future__ import annotations

import shlex
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.view.text import (
    cells,
    clean,
    count,
    cut,
    milliseconds,
    pad,
    pad_left,
    plain_ascii,
    seconds,
    shell_lines,
    size,
    wrap,
)
from tests.support.any_answers import HOSTILE
from tests.support.screen import columns

any_text = st.one_of(st.text(), st.sampled_from(HOSTILE), st.text(st.characters(codec=None), max_size=30))
clean_text = any_text.map(clean)


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x9bm", r"\x9bm"),
        ("two\nlines\r\t", r"two\nlines\r\t"),
        ("\u202eabc", r"\u202eabc"),
        ("a\u0301b\u0301", "áb\\u0301"),
        ("\u05d0", r"\u05d0"),
        ("zero\u200bwidth", r"zero\u200bwidth"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
        ("plain · → 中", "plain · → 中"),
    ],
)
def test_what_is_not_plainly_printable_is_escaped(hostile, shown):
    assert clean(hostile) == shown


@given(any_text)
def test_clean_text_is_ink_that_stays_in_its_place(text):
    cleaned = clean(text)
    assert cleaned.isprintable()
    assert not any(unicodedata.category(c).startswith("M") for c in cleaned)
    assert not any(unicodedata.bidirectional(c) in {"R", "AL", "AN", "RLO", "LRO", "RLE"} for c in cleaned)
    assert not any("\u1160" <= c <= "\u11ff" for c in cleaned)


@given(any_text)
def test_cleaning_twice_changes_nothing(text):
    assert clean(clean(text)) == clean(text)


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_printable_ascii_passes_as_it_is(text):
    assert clean(text) == text


@given(clean_text)
def test_ascii_has_the_same_width(text):
    assert plain_ascii(text).isascii()
    assert cells(plain_ascii(text)) == cells(text) == columns(text)


@given(clean_text, st.integers(0, 60))
def test_padded_text_has_exactly_its_width(text, width):
    assert cells(pad(text, width)) == cells(pad_left(text, width)) == width
    assert cells(cut(text, width)) <= width


@given(clean_text, st.integers(0, 60))
def test_only_longer_text_is_cut_and_says_so(text, width):
    shown = cut(text, width)
    assert shown == text if cells(text) <= width else shown.endswith("…") or width == 0


@given(clean_text, st.integers(2, 60), st.integers(0, 10))
def test_wrapped_lines_fit_and_lose_no_ink(text, width, taken):
    first, *rest = wrap(text, width, taken=min(taken, width))
    assert cells(first) <= max(width - taken, 0)
    assert all(cells(line) <= width for line in rest)
    assert "".join([first, *rest]).replace(" ", "") == "".join(text.split())


words = st.lists(any_text.map(clean), min_size=1, max_size=5)


@given(words, st.integers(60, 100))
def test_a_command_on_many_lines_is_the_command(words, width):
    command = shlex.join(words)
    lines = shell_lines(command, width)
    assert all(cells(line) <= width for line in lines)
    assert all(line.endswith("\\") for line in lines[:-1])
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == words


def test_a_command_is_broken_before_an_option_where_it_can_be():
    command = "gapline stalls --since 1h --cause source_stall --hop model-worker --collector http://10.0.0.1:24070"
    assert shell_lines(command, 60) == [
        "  gapline stalls --since 1h --cause source_stall \\",
        "    --hop model-worker --collector http://10.0.0.1:24070",
    ]
    assert shell_lines("gapline why " + "r" * 70, 60) == ["  gapline why \\", "    " + "r" * 54 + "\\", "r" * 16]


def test_a_number_stays_with_its_unit():
    assert wrap("it waited for 2.03 s: there", 17) == ["it waited for", "2.03 s: there"]


def test_a_word_too_long_for_a_line_is_broken():
    assert wrap("ab cdefgh", 4) == ["ab", "cdef", "gh"]
    assert wrap("中 a", 1) == ["中", "a"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0 s"),
        (0.0004, "<1 ms"),
        (0.004, "4 ms"),
        (0.0995, "0.10 s"),
        (2, "2.00 s"),
        (9.996, "10.0 s"),
        (99.96, "100 s"),
        (599.4, "599 s"),
        (725, "12m 05s"),
        (10 * 3600 + 120, "10h 02m"),
        (4 * 86_400 + 5 * 3600, "4d 05h"),
        (1e12, ">999d"),
        (-2, "-2.00 s"),
    ],
)
def test_a_time_is_said_as_people_say_it(value, said):
    assert seconds(value) == said


@given(st.floats(-1e12, 1e12))
def test_no_time_is_longer_than_its_place(value):
    assert len(seconds(value)) <= 9
    assert len(milliseconds(round(value))) <= 11


@given(st.integers(-(10**15), 10**15))
def test_no_count_and_no_size_is_longer_than_its_place(value):
    assert len(count(value)) <= 16
    assert len(size(value)) <= 11


def test_what_no_request_has_is_short_all_the_same():
    assert (size(1e300), size(2**55), count(10**300)) == (">9999 PiB", "32 PiB", "1.00e+300")


def test_sizes_are_in_binary_units():
    assert [size(n) for n in (0, 1023, 1024, 131_072, 5 << 30)] == ["0 B", "1023 B", "1.0 KiB", "128.0 KiB", "5.0 GiB"]


def test_milliseconds_can_be_added_up_by_hand():
    assert (milliseconds(2004), milliseconds(-12), milliseconds(0)) == ("2.004 s", "-0.012 s", "0.000 s")
