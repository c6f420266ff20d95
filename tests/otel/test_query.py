"""Answers as plain data: complete, JSON-able, adding up, and free of clocks."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.findings import Policy
from otel.hop import End, Ending, Phase, Side
from otel.join import join
from otel.query import timeline_answer, verdict_answer
from otel.verdict import judge
from tests.support.broken import cut_in_silence, departed, silenced, tried_again
from tests.support.builders import a_conversation, a_hop
from tests.support.chain import GATEWAY, MS, NAMES, PROXY, Chain, S, run
from tests.support.golden import golden, names, pretty

BROKEN = {
    "timed_out": silenced(2),
    "idle_timer": cut_in_silence(2, after_ns=60 * S + 3 * MS),
    "cancel_ignored": departed(gateway_ns=8 * S),
    "retry": tried_again(),
}
KEYS = {
    "request_id",
    "trace_id",
    "status",
    "verdict_final",
    "open",
    "as_of",
    "since",
    "cause",
    "first_hop",
    "owner",
    "segment",
    "gap_s",
    "at_seq",
    "at_position",
    "at_position_exact",
    "wait",
    "contributions",
    "others",
    "confidence",
    "missing",
    "observed_to",
    "evidence",
    "hops",
    "sentence",
}
AS_OF = "2026-01-01T00:00:00Z"


def answers(chain: Chain):
    path = join(run(chain))
    verdict = judge(path, Policy(first_event_ns=S))
    answer = verdict_answer(path, verdict, as_of=AS_OF, is_final=True)
    return answer, timeline_answer(path, verdict, answer)


def test_the_answer_has_every_key_of_its_contract():
    assert set(answers(Chain())[0]) == KEYS


@pytest.mark.parametrize("cause", BROKEN)
def test_what_is_told_of_a_broken_answer_looks_as_it_is_kept(cause):
    path = join(BROKEN[cause], expected_path=NAMES)
    answer = verdict_answer(path, judge(path, Policy(first_event_ns=S)), as_of=AS_OF, is_final=True)
    told = pretty(answer | {"hops": []}) + "\n"  # what is said of each hop is tested by itself
    assert answer["cause"] == cause
    assert golden(f"verdicts/{cause}.json", told) == told


def test_every_kept_verdict_has_its_broken_answer():
    assert names("verdicts") == {f"{cause}.json" for cause in BROKEN}


def test_a_hop_says_what_was_asked_and_how_it_ended():
    worker, talk = a_hop("model-worker"), a_conversation("gateway", sent_s=[0.4, 0.5])
    cut = replace(
        worker,
        exchange=replace(worker.exchange, prompt_bucket="<16K"),
        traffic=replace(worker.traffic, missing_bytes=7),
        end=End(Ending.UPSTREAM_CUT, Side.UPSTREAM, Phase.EVENTS, 0, cut="reset"),
    )
    told = {}
    for hop in (cut, talk):
        path = join([hop])
        (told[hop.place.hop],) = verdict_answer(path, judge(path), as_of=AS_OF, is_final=True)["hops"]

    asked = told["model-worker"]
    assert (asked["outcome"], asked["cut"], asked["bytes_missing"]) == ("upstream_cut", "reset", 7)
    assert (asked["prompt"], asked["messages_sent"]) == ("<16K", None)
    assert (told["gateway"]["messages_sent"], told["gateway"]["cut"]) == (2, None)


def test_falling_behind_is_told_with_the_gaps_at_each_tap():
    answer, timeline = answers(Chain(paces=[(PROXY, 60 * MS)]))
    assert (answer["cause"], answer["wait"], answer["at_seq"]) == ("throttling", "pace", 1)
    assert answer["gap_s"] == round(sum(term["seconds"] for term in answer["contributions"]), 6)
    assert answer["evidence"]["median_gap_s"] == {"model-worker": 0.025, PROXY: 0.06, GATEWAY: 0.06}
    assert answer["evidence"]["p90_gap_s"][PROXY] == 0.06
    assert timeline["wait"]["end_s"] - timeline["wait"]["start_s"] == pytest.approx(answer["gap_s"])
    assert "median_gap_s" not in answers(Chain())[0]["evidence"]
    slow, _ = answers(Chain(gap=400 * MS))
    assert (slow["cause"], slow["evidence"]["median_gap_s"][PROXY]) == ("none", 0.4)


def test_a_stall_is_told_in_one_sentence_with_its_numbers():
    answer, _ = answers(Chain(stalls=[(PROXY, 60, 2 * S)]))
    assert answer["sentence"].startswith(
        "Inference-proxy app held the answer for 2.00 s: a 2.02 s gap after 60 events (240 characters)"
    )
    assert (answer["owner"], answer["segment"]) == (f"{PROXY} app", {"from": "model-worker", "to": PROXY})


def test_contributions_add_up_to_the_gap():
    answer, _ = answers(Chain(stalls=[(GATEWAY, 60, 2 * S)]))
    assert abs(sum(c["seconds"] for c in answer["contributions"]) - answer["gap_s"]) < 1e-5


def test_a_healthy_answer_says_how_far_the_evidence_reaches():
    answer, _ = answers(Chain())
    assert answer["status"] == "healthy"
    assert "whether it was read was not observed" in answer["sentence"]


def test_lanes_of_different_clocks_line_up_in_the_picture():
    for same_clock in (True, False):
        _, picture = answers(Chain(same_clock=same_clock))
        sent = [tap["shift_s"] + tap["stamps"][50][2] for tap in picture["taps"]]
        assert [tap["hop"] for tap in picture["taps"]] == list(NAMES)
        assert sent == sorted(sent)
        assert sent[-1] - sent[0] < 0.005


def test_the_wait_lies_where_the_stall_was():
    _, picture = answers(Chain(stalls=[(PROXY, 60, 2 * S)]))
    gaps = picture["taps"][-1]["gaps"]
    assert len(gaps) == 1
    assert abs(picture["wait"]["start_s"] - gaps[0]["start_s"]) < 0.001
    assert abs(picture["wait"]["end_s"] - gaps[0]["end_s"]) < 0.001


@given(
    st.sampled_from(["source", PROXY, GATEWAY]),
    st.integers(1, 110),
    st.integers(0, 5_000),
    st.integers(1, 4),
    st.none() | st.integers(2, 20),
)
def test_every_answer_is_plain_json(where, at, ms, merge, leave):
    for part in answers(Chain(stalls=[(where, at, ms * MS)], merge={PROXY: merge}, leave=leave)):
        assert json.loads(json.dumps(part, allow_nan=False)) == part


def test_the_evidence_has_what_the_upstream_said_of_its_error_and_which_limits_passed():
    hops = [
        replace(
            hop,
            exchange=replace(
                hop.exchange,
                error_type="server_error",
                error_code="500",
                error_detail="CUDA out of memory",
                guard_fired=("next_event_timeout",) if hop.place.hop == GATEWAY else (),
            ),
            end=End(Ending.ERROR_EVENT, Side.UPSTREAM, Phase.EVENTS, MS),
        )
        for hop in run(Chain())
    ]
    path = join(hops)
    evidence = verdict_answer(path, judge(path), as_of=AS_OF, is_final=True)["evidence"]

    assert evidence["error_said"] == "server_error 500: CUDA out of memory"
    assert evidence["limits_passed"] == f"next_event_timeout at {GATEWAY}"


def test_what_a_sidecar_said_itself_is_no_error_of_the_upstream():
    first, *others = run(Chain())
    first = replace(
        first,
        exchange=replace(first.exchange, status=504, error_type="first_event_timeout"),
        end=End(Ending.TIMED_OUT_FIRST_EVENT, Side.SIDECAR, Phase.HEADERS, MS),
    )
    path = join([first, *others])

    assert "error_said" not in verdict_answer(path, judge(path), as_of=AS_OF, is_final=True)["evidence"]
