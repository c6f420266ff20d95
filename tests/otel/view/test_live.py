"""The list of open streams: read from a collector or a sidecar, oldest silence first, and harmless to a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.view.keys import AnswerError
from otel.view.live import live, of_sidecar, read_live
from otel.view.palette import Look
from tests.support.any_answers import HOSTILE, counts, instants, maybe, texts, times
from tests.support.screen import assert_fits

WIDE, NARROW = Look(width=140), Look(width=60)
STREAM = {
    "request_id": "7f3a9c21-40d2-4e6b-9d6f-1c4be0aa8f10",
    "trace_id": "ab" * 16,
    "hop": "inference-proxy",
    "listener": "listen",
    "model": "llama-3",
    "status": 200,
    "phase": "events",
    "age_s": 42.0,
    "silent_s": 0.02,
    "told_s": 3.0,
    "events": 1_234,
    "is_blocked": False,
    "is_stalled": False,
}
STALLED = STREAM | {"request_id": "stuck", "silent_s": 31.5, "is_stalled": True, "is_blocked": True, "status": None}


def an_answer(*streams: dict, **more: object) -> dict:
    return {"as_of": "2026-01-17T03:12:09Z", "streams": list(streams), "open": len(streams), "has_more": False} | more


def shown(answer: dict, look: Look = WIDE, **more) -> str:
    return live(read_live(answer), look, **{"where": ""} | more)


def test_a_row_says_all_there_is():
    text = shown(an_answer(STALLED, STREAM))
    first, second = text.splitlines()[1:3]
    assert first.split() == [
        *(WIDE.marks.guilty, "31.5", "s", "42.0", "s", "events", "inference-proxy", "stuck", "1,234", "blocked"),
        *("llama-3", "3.00", "s", "ago", "-", "listen"),
    ]
    assert "20 ms" in second
    assert "2 open streams, 1 stalled." in text


@pytest.mark.parametrize("cause", ["slow_reader", "network"])
def test_why_its_readers_side_holds_it_up_stands_in_the_column_of_the_reader(cause):
    held, plain = shown(an_answer(STALLED | {"stall_cause": cause}, STREAM)).splitlines()[1:3]
    assert cause in held.split()
    assert "blocked" not in held
    assert cause not in plain
    own = of_sidecar(
        {"streams": [OWN | {"stall_cause": cause}]}, as_of="", is_stalled=False, min_silence_s=0.0, limit=9
    )
    assert own["streams"][0]["stall_cause"] == cause


def test_a_narrow_terminal_has_the_id_below_and_whole():
    text = shown(an_answer(STREAM), NARROW)
    assert_fits(text, 60)
    assert f"    {STREAM['request_id']}\n" in text


def test_a_stalled_stream_is_marked_without_colour():
    marked, plain = shown(an_answer(STALLED, STREAM), Look(width=140, is_ascii=True)).splitlines()[1:3]
    assert (marked[0], plain[0]) == (">", " ")


@pytest.mark.parametrize(("silent_s", "sgr"), [(0.5, ""), (2.0, "\x1b[38;5;133m"), (10.0, "\x1b[1;38;5;166m")])
def test_a_long_silence_has_a_colour(silent_s, sgr):
    text = shown(an_answer(STREAM | {"silent_s": silent_s}), Look(width=140, is_colour=True))
    line = text.splitlines()[1]
    assert (sgr in line) if sgr else ("38;5;133" not in line and "38;5;166" not in line)


@pytest.mark.parametrize(
    ("answer", "more", "said"),
    [
        (an_answer(), {}, "No open stream was told of: a sidecar tells of one that stalls or runs for longer"),
        (an_answer(), {"where": " at http://127.0.0.1:24090"}, "No stream is open at http://127.0.0.1:24090."),
        (an_answer(open=1), {"question": "stalled"}, "1 stream is open, none stalled."),
        (an_answer(open=1_500), {"question": "stalled"}, "1,500 streams are open, none stalled."),
        (an_answer(STALLED, open=9), {"question": "stalled"}, "9 open streams, 1 stalled."),
        (an_answer(STALLED, open=9, has_more=True), {}, "Only 1 of them are shown: the oldest silences."),
        (an_answer(STALLED, open=9, has_more=True), {"question": "stalled"}, "9 open streams, 1 and more stalled."),
    ],
)
def test_what_was_asked_and_found_is_said(answer, more, said):
    assert said in shown(answer, **more).replace("\n", " ")


@pytest.mark.parametrize("look", [WIDE, NARROW])
@pytest.mark.parametrize("height", [5, 8, 15, 23])
def test_a_screen_is_not_overrun_and_what_is_hidden_is_counted(look, height):
    text = shown(an_answer(*[STREAM | {"silent_s": float(number)} for number in range(40, 0, -1)]), look, height=height)
    lines = text.splitlines()
    assert len(lines) <= height
    rows = sum(" s " in line and "inference" in line for line in lines)
    assert f"  … {40 - rows} more" in lines


@pytest.mark.parametrize("height", range(4, 25))
def test_what_fits_a_screen_is_whole(height):
    text = shown(an_answer(STREAM, STREAM, STREAM), height=height)
    assert text.count("inference-proxy") == 3
    assert "more" not in text


def test_without_news_of_sidecars_there_is_no_column_for_their_age():
    assert "told" not in shown(an_answer(STREAM | {"told_s": 0.0}))


def test_a_probe_is_labelled_where_there_are_any():
    assert "probe" not in shown(an_answer(STREAM | {"is_probe": False}))
    text = shown(an_answer(STREAM | {"is_probe": True}, STREAM))
    assert [line.split()[-1] for line in text.splitlines()[:3]] == ["probe", "probe", "-"]


def test_a_queued_stream_says_so():
    assert " queued " in shown(an_answer(STREAM | {"is_queued": True, "phase": "connect"}))


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("look", [WIDE, NARROW, Look(width=140, is_colour=True, is_ascii=True)])
def test_nothing_that_others_chose_moves_the_terminal(hostile, look):
    row = STREAM | dict.fromkeys(("request_id", "hop", "listener", "model", "phase"), hostile)
    assert_fits(shown(an_answer(row, STALLED), look), look.width)


STREAMS = st.fixed_dictionaries(
    {
        "request_id": texts,
        "trace_id": texts,
        "hop": texts,
        "listener": maybe(texts),
        "model": maybe(texts),
        "status": maybe(counts),
        "phase": texts,
        "age_s": times,
        "silent_s": times,
        "told_s": times,
        "events": counts,
        "is_blocked": st.booleans(),
        "is_stalled": st.booleans(),
        "stall_cause": st.none() | st.text(max_size=20),
    }
)


@given(
    st.fixed_dictionaries(
        {"as_of": instants, "streams": st.lists(STREAMS, max_size=6), "open": counts, "has_more": st.booleans()}
    ),
    st.builds(Look, width=st.integers(60, 200), is_colour=st.booleans(), is_ascii=st.booleans()),
    st.none() | st.integers(3, 30),
)
def test_every_answer_fits_every_terminal(answer, look, height):
    assert_fits(live(read_live(answer), look, where="", question="stalled", height=height), look.width)


@pytest.mark.parametrize("key", sorted(STREAM.keys() - {"trace_id"}))
def test_a_key_that_is_missing_is_named(key):
    with pytest.raises(AnswerError, match=rf"streams\[0\]\.{key}: missing"):
        read_live(an_answer({name: value for name, value in STREAM.items() if name != key}))


def test_keys_of_a_later_version_are_told():
    assert read_live(an_answer(STREAM | {"mood": 1}, more=2)).strangers == ("more", "streams[].mood")


OWN = {name: value for name, value in STREAM.items() if name not in {"told_s", "is_stalled"}} | {
    "method": "POST",
    "path": "/v1/chat/completions",
    "buffered_bytes": 0,
    "is_queued": False,
    "probe": True,
    "dimensions": [["client", "openai-python"]],
    "span_id": "cd" * 8,
}


def asked(*streams: dict, is_stalled: bool = False, min_silence_s: float = 0.0, limit: int = 10) -> dict:
    return of_sidecar(
        {"streams": list(streams)},
        as_of="2026-01-17T03:12:09Z",
        is_stalled=is_stalled,
        min_silence_s=min_silence_s,
        limit=limit,
    )


def test_a_sidecar_answers_as_a_collector_does():
    own = [OWN | {"silent_s": 1.0}, OWN | {"silent_s": 70.0, "worker": 1}]
    read = read_live(asked(*own))
    assert [(row.silent_s, row.is_stalled, row.told_s) for row in read.rows] == [(70.0, True, 0.0), (1.0, False, 0.0)]
    assert (read.open_count, read.has_more, read.strangers) == (2, False, ())


@pytest.mark.parametrize(
    ("question", "silences"),
    [
        ({"is_stalled": True}, [70.0, 3.0]),
        ({"min_silence_s": 3.0}, [70.0, 3.0]),
        ({"min_silence_s": 3.1}, [70.0]),
        ({"limit": 1}, [70.0]),
    ],
)
def test_what_is_asked_of_a_sidecar_is_picked_here(question, silences):
    answer = asked(*(OWN | {"silent_s": silent_s} for silent_s in (0.5, 3.0, 70.0)), **question)
    assert [stream["silent_s"] for stream in answer["streams"]] == silences
    assert (answer["open"], answer["has_more"]) == (3, question == {"limit": 1})


def test_a_sidecar_that_says_whether_a_stream_is_stalled_is_believed():
    answer = asked(OWN | {"silent_s": 90.0, "is_stalled": False}, OWN | {"silent_s": 0.0, "is_stalled": True})
    assert [stream["is_stalled"] for stream in answer["streams"]] == [False, True]


def test_who_waits_for_a_place_is_not_stalled():
    assert asked(OWN | {"silent_s": 90.0, "is_queued": True}, is_stalled=True)["streams"] == []


@pytest.mark.parametrize("answer", [{}, {"streams": 1}, {"streams": [1]}, {"streams": [{"silent_s": "x"}]}, [], None])
def test_what_is_no_list_of_streams_is_refused(answer):
    with pytest.raises(AnswerError):
        of_sidecar(answer, as_of="2026-01-17T03:12:09Z", is_stalled=False, min_silence_s=0, limit=1)
