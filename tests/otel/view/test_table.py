"""Tables: what matters least goes first, and nothing is wider than it may be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from otel.view.palette import Look, Piece, render
from otel.view.table import Column, flow, table
from otel.view.text import cells


def text_of(columns, width):
    return render(table(columns, width), Look()).splitlines()


def a_column(title, *values, **more):
    return Column(title, [Piece(value) for value in values], **more)


def test_numbers_stand_right_and_words_left():
    assert text_of([a_column("hop", "a", "long"), a_column("n", "1", "22", is_number=True)], 40) == [
        "hop    n",
        "a      1",
        "long  22",
    ]


def test_the_highest_rank_is_dropped_first():
    columns = [a_column("keep", "k"), a_column("second", "s", rank=1), a_column("first", "f", rank=2)]
    assert text_of(columns, 19) == ["keep  second  first", "k     s       f"]
    assert text_of(columns, 18) == ["keep  second", "k     s"]
    assert text_of(columns, 11) == ["keep", "k"]


def test_what_can_be_cut_is_cut_when_nothing_is_left_to_drop():
    columns = [a_column("hop", "inference-proxy", least=6), a_column("id", "1234")]
    assert text_of(columns, 16) == ["hop         id", "inference…  1234"]


def test_a_column_that_can_go_makes_itself_small_first():
    columns = [a_column("id", "1234"), a_column("", "a long sentence about it", rank=1, least=8)]
    assert text_of(columns, 16) == ["id", "1234  a long se…"]


@given(
    st.lists(
        st.builds(
            lambda title, values, rank, least, is_number: a_column(
                title, *values, rank=rank, least=least, is_number=is_number
            ),
            st.text("abc", max_size=8),
            st.lists(st.text("xyz中", max_size=30), min_size=2, max_size=2),
            st.integers(0, 3),
            st.one_of(st.none(), st.integers(1, 10)),
            st.booleans(),
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 100),
)
def test_no_row_is_wider_than_the_table(columns, width):
    for line in table(columns, width):
        assert sum(cells(piece.text) for piece in line) <= width


@given(st.lists(st.text("ab ", max_size=30), max_size=8), st.integers(4, 50))
def test_parts_flow_within_the_width_and_none_is_lost(parts, width):
    lines = flow(parts, width)
    assert all(cells(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == "".join(parts).replace(" ", "")
