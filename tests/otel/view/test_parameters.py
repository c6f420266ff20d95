from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.ids import recorded
from otel.live import OpenStream
from otel.store.base import SECOND_NS, Cursor, StallQuery, key_of
from otel.view.parameters import (
    LiveQuery,
    ParameterError,
    live_query,
    no_parameters,
    read_cursor,
    request_id,
    stall_query,
    write_cursor,
)
from tests.support.glances import a_glance

NOW_NS = 1_800_000_000 * SECOND_NS


def query(**parameters: str) -> StallQuery:
    return stall_query(list(parameters.items()), now_ns=NOW_NS)


def test_no_parameters_ask_for_everything():
    assert query() == StallQuery()


def test_every_parameter_has_its_place():
    cursor = Cursor(7, "1" * 32, "abc")
    made = query(
        since="900",
        model="m/1",
        hop="client",
        cause="app_stall",
        min_gap="250ms",
        limit="7",
        before=write_cursor(cursor),
    )

    assert made == StallQuery(
        since_ns=NOW_NS - 900 * SECOND_NS,
        model="m/1",
        hop="client",
        cause="app_stall",
        min_gap_s=0.25,
        limit=7,
        before=cursor,
    )


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("1.5", 1.5), ("15m", 900), ("2.592e+06", 2_592_000), ("7d", 604_800)]
)
def test_times_are_seconds_or_have_a_unit(text: str, seconds: float):
    assert query(min_gap=text).min_gap_s == seconds


def test_an_empty_value_is_none_at_all():
    assert query(since="", model="", hop="", cause="", min_gap="", limit="", before="") == StallQuery()


def test_longer_ago_than_the_epoch_is_the_epoch():
    assert stall_query([("since", "1e9")], now_ns=5).since_ns == 0


def test_everything_that_is_wrong_is_said_at_once():
    given_ = [("since", "soon"), ("limit", "0"), ("hop", "a"), ("hop", "b"), ("sinse", "1"), ("cause", "bad luck")]
    with pytest.raises(ParameterError) as caught:
        stall_query(given_, now_ns=NOW_NS)

    said = str(caught.value).split("; ")
    assert [error.split(":")[0] for error in said] == ["since", "hop", "cause", "limit", "'sinse'"]
    assert "must be one of source_stall, " in said[2]
    assert said[1] == "hop: is given 2 times"


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "1e300", "1e10"])
def test_a_time_that_is_none_is_refused(value: str):
    with pytest.raises(ParameterError, match=r"^min_gap: "):
        query(min_gap=value)


@pytest.mark.parametrize("value", ["1001", "-1", "1.5", "9" * 5_000, "١"])
def test_a_limit_that_is_none_is_refused(value: str):
    with pytest.raises(ParameterError, match=r"^limit: "):
        query(limit=value)


@given(
    st.builds(
        Cursor,
        at_ns=st.integers(0, (1 << 63) - 1),
        trace_id=st.text("0123456789abcdef"),
        request_key=st.text("a-:%\"'"),
    )
)
def test_a_cursor_survives_its_travel(cursor: Cursor):
    assert read_cursor(write_cursor(cursor)) == cursor


@given(st.one_of(st.text(), st.text("ABCDwxyz0189-_=")))
def test_any_other_word_is_no_cursor(text: str):
    try:
        assert write_cursor(read_cursor(text)) == text
    except ValueError as error:
        assert str(error) == "is not a place that a Link header gave"  # noqa: PT017  # either is right


@given(st.lists(st.tuples(st.text(max_size=8), st.text(max_size=12)), max_size=5))
def test_whatever_is_asked_it_is_a_query_or_a_parameter_error(parameters: list[tuple[str, str]]):
    try:
        assert stall_query(parameters, now_ns=NOW_NS).limit >= 1
    except ParameterError as error:
        assert str(error)  # noqa: PT017  # either is right


def test_a_question_without_parameters_refuses_them():
    no_parameters([])
    with pytest.raises(ParameterError, match=r"^'pretty': no such parameter$"):
        no_parameters([("pretty", "1")])


@pytest.mark.parametrize("asked", ["req-1", "a/b", "a%2Fb", "naïve", "..", "a b", "\0", "x" * 4_096])
def test_the_id_is_the_decoded_part_of_the_path(asked: str):
    assert request_id(f"/v1/requests/{quote(asked, safe='')}/verdict") == asked


def test_an_id_that_is_no_utf_8_is_found_as_the_hop_recorded_it():
    assert key_of(request_id("/v1/requests/caf%E9/verdict")) == recorded("caf\udce9")


def test_an_endless_id_is_refused():
    with pytest.raises(ParameterError, match=r"^id: has 5000 characters, at most 4096 are looked up$"):
        request_id(f"/v1/requests/{'x' * 5_000}/verdict")


def test_a_question_for_live_streams_has_its_parameters():
    assert live_query([]) == LiveQuery(is_stalled=False, min_silence_s=0.0, limit=1_000)
    asked = [("stalled", "on"), ("min_silence", "1m"), ("limit", "3")]
    assert live_query(asked) == LiveQuery(is_stalled=True, min_silence_s=60.0, limit=3)


@pytest.mark.parametrize(
    ("query", "is_taken"),
    [
        (LiveQuery(is_stalled=False, min_silence_s=0.0, limit=1), True),
        (LiveQuery(is_stalled=True, min_silence_s=0.0, limit=1), False),
        (LiveQuery(is_stalled=False, min_silence_s=5.0, limit=1), True),
        (LiveQuery(is_stalled=False, min_silence_s=5.1, limit=1), False),
    ],
)
def test_a_stream_is_asked_for_by_its_silence(query: LiveQuery, is_taken: bool):
    stream = OpenStream(glance=a_glance(), age_s=20.0, silent_s=5.0, told_s=0.0)
    assert query.takes(stream) is is_taken
