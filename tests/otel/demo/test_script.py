"""The scripted answer: deterministic, in the form of the OpenAI chat stream, and late exactly where planted."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.demo import script
from otel.demo.faults import CLIENT, WORKER, Fault, Kind
from otel.demo.script import Script

seeds = st.integers(0, 2**32)
counts = st.integers(script.FEWEST_EVENTS, 200)
planted = st.one_of(
    st.none(),
    st.builds(Fault, st.just(WORKER), st.sampled_from([Kind.STALL, Kind.SLOW_FIRST, Kind.BUFFER]), st.floats(0.2, 5.0)),
)


def write(*, events: int = 120, seed: int = 1, fault: Fault | None = None) -> Script:
    return script.script(request_id="r-1", model="m", events=events, seed=seed, fault=fault)


def gaps_s(answer: Script) -> list[float]:
    return [later.at_s - earlier.at_s for earlier, later in pairwise(answer.events)]


def payloads(answer: Script) -> list[dict[str, object]]:
    return [json.loads(due.data.removeprefix(b"data: ")) for due in answer.events[:-1]]


@given(counts, seeds)
def test_the_same_seed_gives_the_same_answer(events: int, seed: int) -> None:
    assert write(events=events, seed=seed) == write(events=events, seed=seed)


def test_another_seed_gives_another() -> None:
    assert write(seed=1) != write(seed=2)


def test_role_content_finish_usage_and_the_mark_of_the_end_in_this_order() -> None:
    answer = write(events=20)
    role, *content, finish, usage = payloads(answer)
    assert role["choices"] == [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]
    assert all(payload["choices"][0]["delta"]["content"] for payload in content)
    assert len(content) == 20
    assert finish["choices"][0]["finish_reason"] == "stop"
    assert usage["usage"]["completion_tokens"] == 20
    assert answer.events[-1].data == b"data: [DONE]\n\n"
    assert {payload["id"] for payload in payloads(answer)} == {"chatcmpl-r-1"}


@given(counts, seeds, planted)
def test_times_never_run_backwards_and_no_fault_changes_a_byte(events: int, seed: int, fault: Fault | None) -> None:
    answer = write(events=events, seed=seed, fault=fault)
    assert min(gaps_s(answer)) >= 0
    assert [due.data for due in answer.events] == [due.data for due in write(events=events, seed=seed).events]


@given(seeds)
def test_a_healthy_answer_keeps_its_pace(seed: int) -> None:
    shortest_s, longest_s = script.PACE_S
    role, *content = gaps_s(write(seed=seed))[:120]
    assert role == 0
    assert all(shortest_s - 1e-9 <= gap <= longest_s + 1e-9 for gap in content)


@given(seeds, st.floats(0.5, 10))
def test_a_stall_is_one_silence_of_exactly_its_length(seed: int, seconds: float) -> None:
    gaps = gaps_s(write(seed=seed, fault=Fault(WORKER, Kind.STALL, seconds)))
    assert gaps[script.middle_of(120) - 1] == pytest.approx(seconds)
    assert sorted(gaps)[-2] < 0.031


def test_a_slow_first_event_is_late_and_all_others_with_it() -> None:
    answer = write(fault=Fault(WORKER, Kind.SLOW_FIRST, 2.0))
    assert answer.events[0].at_s == 2.0
    assert gaps_s(answer) == pytest.approx(gaps_s(write()))


def test_a_cut_ends_at_its_time_and_is_not_whole() -> None:
    answer = write(fault=Fault(WORKER, Kind.CUT, 2.0))
    assert not answer.is_whole
    assert 1.9 < answer.events[-1].at_s <= 2.0
    assert answer.events == write().events[: len(answer.events)]


def test_a_buffer_opens_on_time_and_then_flushes_at_every_beat() -> None:
    fault = Fault(WORKER, Kind.BUFFER, 1.0)
    answer = write(events=script.events_needed(fault), fault=fault)
    flushes = [gap for gap in gaps_s(answer) if gap > 0.04]
    assert flushes[:3] == pytest.approx([1.0, 1.0, 1.0])
    assert answer.events[script.OPENING_EVENTS - 1].at_s < 1.4


@pytest.mark.parametrize("kind", list(Kind))
def test_the_events_needed_outlast_the_fault(kind: Kind) -> None:
    fault = Fault(CLIENT if kind is Kind.SLOW_READ else WORKER, kind, 2.0)
    answer = write(events=script.events_needed(fault))
    assert kind not in {Kind.CUT, Kind.BUFFER, Kind.SLOW_READ} or answer.events[-1].at_s > 2.5


def test_a_client_that_reads_slowly_gets_larger_events() -> None:
    large = write(fault=Fault(CLIENT, Kind.SLOW_READ, 2.0)).events[1]
    assert len(large.data) > 10 * len(write().events[1].data)
