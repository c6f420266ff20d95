"""The engine's numbers are shown with a silence of its own worker, in that very wait, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.findings import Policy
from otel.hop import EngineEvidence, EngineSnapshot, TapRole
from otel.join import join
from otel.query import verdict_answer
from otel.verdict import judge
from otel.view.answers import read_verdict
from otel.view.facts import evidence_lines
from tests.support.broken import silenced
from tests.support.builders import engines
from tests.support.chain import GATEWAY, MS, PROXY, WORKER, Chain, S, run

STALL = Chain(stalls=[("source", 60, 4 * S)])
LATE = Chain(slow_first=[("source", 9 * S)])


def snapshot(asked_ns, running=9, waiting=3, share=0.97, preemptions=14):
    return EngineSnapshot(
        asked_ns=asked_ns,
        running_count=running,
        waiting_count=waiting,
        kv_cache_share=share,
        preemption_count=preemptions,
    )


def last_event_ns(chain):
    """When the worker's tap saw the last event before its longest silence."""
    stamps = run(chain)[0].timeline.stamps
    at = max(range(1, len(stamps)), key=lambda i: stamps[i].arrived_ns - stamps[i - 1].arrived_ns)
    return stamps[at - 1].arrived_ns


def evidence(since_ns, *, asked_ns=None, earlier=None, **numbers):
    during = snapshot(since_ns + 2 * S if asked_ns is None else asked_ns, **numbers)
    return EngineEvidence(server="vllm", silent_since_ns=since_ns, during=during, earlier=earlier)


def shown(chain, engine, *, at=WORKER):
    """The engine's part of the answer's evidence, when the hop of that name has it in its record."""
    hops = [replace(hop, engine=engine) if hop.place.hop == at else hop for hop in run(chain)]
    path = join(hops)
    answer = verdict_answer(path, judge(path, Policy(first_event_ns=S)), as_of="2026-01-01T00:00:00Z", is_final=True)
    return answer["cause"], answer["evidence"].get("engine"), answer


def of_broken(hops):
    """The engine's part of an answer that broke off after a silence of three seconds or more."""
    since_ns = hops[0].timeline.stamps[-1].arrived_ns
    path = join([replace(hops[0], engine=evidence(since_ns)), *hops[1:]])
    answer = verdict_answer(path, judge(path), as_of="2026-01-01T00:00:00Z", is_final=True)
    return answer["cause"], answer["evidence"].get("engine")


def test_a_silence_of_the_worker_that_a_limit_ended_carries_them_too():
    cause, facts = of_broken(silenced(2))
    assert cause == "timed_out"
    assert (facts["running"], facts["asked_after_s"]) == (9, 2.0)


def test_a_limit_that_ended_the_silence_of_another_hop_carries_none():
    assert of_broken(silenced(2, held_by=2)) == ("timed_out", None)


def words(answer):
    lines = dict(evidence_lines(read_verdict(answer).evidence))
    return lines.get("engine")


def test_a_stall_of_the_worker_carries_the_engines_numbers():
    since_ns = last_event_ns(STALL)
    earlier = snapshot(since_ns - S, running=4, waiting=0, share=0.5, preemptions=12)
    cause, facts, answer = shown(STALL, evidence(since_ns, earlier=earlier))

    assert cause == "source_stall"
    assert facts == {
        "server": "vllm",
        "running": 9,
        "waiting": 3,
        "kv_cache_share": 0.97,
        "preemptions_since_last_event": 2,
        "asked_after_s": 2.0,
        "before_running": 4,
        "before_waiting": 0,
        "before_kv_cache_share": 0.5,
    }
    assert words(answer) == (
        "vLLM, 9 running, 3 waiting, KV cache 97%, 2 preemptions since the last event, asked 2.00 s into the silence, "
        "4 running before, 0 waiting before, KV cache 50% before"
    )


def test_so_does_a_first_event_that_is_late():
    earlier = snapshot(-3 * S, preemptions=13)
    cause, facts, answer = shown(LATE, evidence(MS, earlier=earlier))

    assert cause == "slow_first_event"
    assert facts["preemptions_meanwhile_at_most"] == 1
    assert "at most 1 preemption meanwhile" in words(answer)


@pytest.mark.parametrize(
    ("before_s", "count", "key"),
    [
        (1.0, 2, "preemptions_since_last_event"),
        (-0.5, 2, "preemptions_since_last_event"),
        (1.1, 2, "preemptions_since_last_event_at_most"),
        (9.0, 0, "preemptions_since_last_event"),
    ],
)
def test_preemptions_are_exact_where_they_were_counted_from_the_last_event_on(before_s, count, key):
    since_ns = last_event_ns(STALL)
    earlier = snapshot(since_ns - round(before_s * S), preemptions=14 - count)
    _, facts, _ = shown(STALL, evidence(since_ns, waiting=3 if count else 0, earlier=earlier))

    assert {name: value for name, value in facts.items() if name.startswith("preemptions")} == {key: count}


def test_no_preemption_is_not_said_while_requests_wait():
    since_ns = last_event_ns(STALL)
    _, facts, _ = shown(STALL, evidence(since_ns, waiting=2, earlier=snapshot(since_ns, preemptions=14)))
    assert facts["waiting"] == 2
    assert not any(name.startswith("preemptions") for name in facts)


def test_an_engine_that_was_started_anew_is_not_compared_with_what_it_was():
    since_ns = last_event_ns(STALL)
    _, facts, _ = shown(STALL, evidence(since_ns, earlier=snapshot(since_ns, preemptions=400)))

    assert facts == {"server": "vllm", "running": 9, "waiting": 3, "kv_cache_share": 0.97, "asked_after_s": 2.0}


def test_what_an_engine_does_not_say_is_not_shown():
    since_ns = last_event_ns(STALL)
    unsaid = {"share": None, "preemptions": None}
    _, facts, answer = shown(STALL, evidence(since_ns, earlier=snapshot(since_ns, **unsaid), **unsaid))

    assert facts.keys() == {"server", "running", "waiting", "asked_after_s", "before_running", "before_waiting"}
    assert words(answer).startswith("vLLM, 9 running, 3 waiting, asked 2.00 s into the silence")


def test_numbers_of_another_silence_are_not_shown():
    since_ns = last_event_ns(STALL)
    for asked_ns in (since_ns - MS, since_ns + 5 * S):
        assert shown(STALL, evidence(since_ns, asked_ns=asked_ns))[1] is None
    assert shown(LATE, evidence(MS, asked_ns=11 * S))[1] is None


@pytest.mark.parametrize("chain", [Chain(), Chain(stalls=[(PROXY, 60, 4 * S)]), Chain(slow_reader=(60, 4 * S))])
def test_with_any_other_verdict_there_is_nothing_of_the_engine(chain):
    engine = evidence(last_event_ns(STALL))
    cause, facts, answer = shown(chain, engine)

    assert cause != "source_stall"
    assert facts is None
    assert words(answer) is None


def test_only_the_tap_nearest_the_source_stands_beside_the_engine():
    engine = evidence(last_event_ns(STALL))
    for name in (PROXY, GATEWAY):
        assert shown(STALL, engine, at=name)[1] is None
    (worker, *others) = run(STALL)
    beyond = replace(worker, place=replace(worker.place, role=TapRole.EGRESS), engine=engine)
    path = join([beyond, *others])
    answer = verdict_answer(path, judge(path), as_of="2026-01-01T00:00:00Z", is_final=True)
    assert "engine" not in answer["evidence"]


PLAIN = shown(STALL, None)[2]
SINCE_NS = last_event_ns(STALL)


@given(engines(), st.integers(-S, 5 * S))
def test_whatever_it_said_and_whenever_it_changes_nothing_else_of_an_answer(engine, asked_after_ns):
    moved_ns = SINCE_NS + asked_after_ns - engine.during.asked_ns
    during = replace(engine.during, asked_ns=engine.during.asked_ns + moved_ns)
    earlier = engine.earlier and replace(engine.earlier, asked_ns=engine.earlier.asked_ns + moved_ns)
    engine = replace(engine, silent_since_ns=SINCE_NS, during=during, earlier=earlier)
    _, facts, answer = shown(STALL, engine)

    assert (facts is not None) is (0 <= asked_after_ns <= 4 * S + 25 * MS)
    if facts is not None:
        assert words(answer).startswith({"vllm": "vLLM", "sglang": "SGLang", "tgi": "TGI"}[engine.server])
        assert all(value >= 0 for value in facts.values() if not isinstance(value, str))
    assert {**answer, "evidence": None} == {**PLAIN, "evidence": None}
