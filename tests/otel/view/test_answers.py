"""The collector's answers are read whole, and a missing key is named."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given

from otel.findings import Policy
from otel.join import join
from otel.query import timeline_answer, verdict_answer
from otel.verdict import judge
from otel.view.answers import Segment, read_stalls, read_timeline, read_verdict
from otel.view.keys import AnswerError
from tests.support import any_answers
from tests.support.answers import ANSWERS, source_stall, stalls
from tests.support.chain import PROXY, Chain, S, run
from tests.support.golden import golden, names, pretty

VERDICT_KEYS = sorted(set(source_stall()["verdict"]))


@pytest.mark.parametrize("name", ANSWERS)
def test_the_examples_are_as_they_are_kept(name):
    answer = ANSWERS[name]()
    assert json.loads(golden(f"answers/{name}.json", pretty(answer) + "\n")) == answer


def test_the_list_of_stalls_is_as_it_is_kept():
    assert json.loads(golden("answers/stalls.json", pretty(stalls()) + "\n")) == stalls()


def test_every_kept_answer_is_in_use():
    assert names("answers") == {f"{name}.json" for name in (*ANSWERS, "stalls")}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_examples_have_no_key_that_is_not_known(name):
    assert read_timeline(ANSWERS[name]()).strangers == ()


@pytest.mark.parametrize(
    "chain",
    [Chain(), Chain(stalls=[(PROXY, 60, 2 * S)]), Chain(cut=(PROXY, 60)), Chain(leave=60), Chain(merge={PROXY: 4})],
    ids=["healthy", "stall", "cut", "leave", "merge"],
)
def test_what_this_collector_answers_is_read_without_strangers(chain):
    path = join(run(chain))
    verdict = judge(path, Policy(first_event_ns=S))
    answer = verdict_answer(path, verdict, as_of="2026-01-01T00:00:00Z", is_final=True)
    read = read_timeline(timeline_answer(path, verdict, answer))
    assert read.strangers == ()
    assert [tap.hop for tap in read.taps] == [hop.hop for hop in read.verdict.hops]


@pytest.mark.parametrize("key", VERDICT_KEYS)
def test_a_verdict_without_a_key_is_an_error_that_names_it(key):
    answer = source_stall()["verdict"]
    del answer[key]
    with pytest.raises(AnswerError, match=f"^{key}: missing from the answer"):
        read_verdict(answer)


def test_keys_inside_are_named_with_their_place():
    answer = source_stall()
    del answer["verdict"]["hops"][2]["blocked_s"]
    with pytest.raises(AnswerError, match=r"^verdict.hops\[2\].blocked_s: missing"):
        read_timeline(answer)
    answer = source_stall()
    answer["taps"][1]["stamps"][7][1] = "late"
    with pytest.raises(AnswerError, match=r"^taps\[1\].stamps\[7\]: must be a number"):
        read_timeline(answer)


def test_keys_of_a_newer_collector_are_no_error():
    answer = source_stall()
    answer["verdict"]["mood"] = "calm"
    answer["taps"][0]["colour"] = "blue"
    assert read_timeline(answer).strangers == ("verdict.mood", "taps[].colour")


def test_evidence_of_any_shape_is_facts_in_groups():
    answer = source_stall()["verdict"]
    answer["evidence"] = {
        "attempts": 2,
        "kernel": {"window_bytes": 0, "deep": {"er": True}},
        "tags": ["a", "b"],
        "list": [{"x": 1}, {"x": None}],
        "ends": None,
    }
    assert read_verdict(answer).evidence == (
        ("", (("attempts", 2), ("ends", None))),
        ("kernel", (("window_bytes", 0), ("deep er", True))),
        ("tags", (("", "a, b"),)),
        ("list", (("0 x", 1), ("1 x", None))),
    )


def test_segments_and_nulls():
    read = read_verdict(source_stall()["verdict"])
    assert read.segment == Segment("source", "model-worker")
    healthy = read_verdict(ANSWERS["healthy"]()["verdict"])
    assert (healthy.segment, healthy.first_hop, healthy.at_seq) == (None, None, None)


@given(any_answers.timelines)
def test_any_valid_timeline_is_read_and_left_alone(answer):
    before = copy.deepcopy(answer)
    assert read_timeline(answer).strangers == ()
    assert answer == before


@given(any_answers.stalls)
def test_any_valid_list_of_stalls_is_read(answer):
    assert len(read_stalls(answer).stalls) == len(answer["stalls"])
