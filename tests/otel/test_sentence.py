"""The sentence: one for every cause, saying no more than the evidence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from otel.findings import Cause, Policy, Status
from otel.hop import EventClass, KernelSample
from otel.join import join
from otel.query import verdict_answer
from otel.sentence import owner, sentence
from otel.verdict import judge
from tests.support.chain import GATEWAY, MS, NAMES, PEAK, PROXY, WORKER, Chain, S, run

CASES = {
    Cause.SOURCE_STALL: (Chain(stalls=[("source", 60, 2 * S)]), "Model-worker app sent nothing for 2.02 s"),
    Cause.APP_STALL: (Chain(stalls=[(GATEWAY, 60, 2 * S)]), "Gateway app held the answer for 2.00 s"),
    Cause.SLOW_FIRST_EVENT: (Chain(slow_first=[(PROXY, 2 * S)]), "wait for the first output"),
    Cause.SLOW_READER: (Chain(slow_reader=(60, 2 * S)), "The reader behind gateway did not take the answer for"),
    Cause.NETWORK: (Chain(lossy=(WORKER, 60, 2 * S)), "The network between model-worker and inference-proxy held"),
    Cause.BUFFERING: (Chain(events=400, buffers=[(PROXY, 2 * S)]), "held output back and released it in bursts"),
    Cause.THROTTLING: (
        Chain(paces=[(PROXY, 60_000_000)]),
        "passed the answer on more slowly than it came, 4.17 s in all",
    ),
    Cause.SELF: (Chain(freeze=(PROXY, 60, 2 * S)), "Our own sidecar at inference-proxy held the answer for"),
    Cause.TRUNCATED: (Chain(cut=(PROXY, 40)), "Inference-proxy app broke the answer off after 40 events"),
    Cause.CLIENT_DISCONNECT: (Chain(leave=40), "The client left after 40 events"),
    Cause.NONE: (Chain(), "No hop held this answer up"),
}


@pytest.mark.parametrize("cause", CASES)
def test_every_cause_has_its_sentence(cause):
    chain, expected = CASES[cause]
    path = join(run(chain))
    verdict = judge(path, Policy(first_event_ns=S))
    assert verdict.cause is cause
    text = sentence(path, verdict)
    assert expected in text
    assert text.endswith(".")
    assert "\n" not in text


def test_a_missing_tap_is_named_with_its_neighbour():
    path = join([h for h in run(Chain(stalls=[(PROXY, 60, 2 * S)])) if h.place.hop != PROXY], expected_path=NAMES)
    verdict = judge(path)
    assert owner(path, verdict.findings[0].segment) == f"{PROXY} or {GATEWAY} app"
    assert verdict.findings[0].confidence < 0.7


def test_an_unknown_rhythm_says_what_would_tell():
    path = join(run(Chain(schedule=[100_000] * 29 + [800_000_000], events=60)))
    assert "rhythm of this source is unknown" in sentence(path, judge(path))


class TestSeveralFaults:
    """What else made the reader wait is told behind the largest, in order, and not at any length."""

    def told(self, *stalls, **more):
        path = join(run(Chain(stalls=stalls, **more)))
        return sentence(path, judge(path))

    def test_two_of_them_are_told_with_their_seconds(self):
        text = self.told(("source", 20, 3 * S), (PROXY, 50, 4 * S), (GATEWAY, 80, 2 * S))
        assert text.startswith("Inference-proxy app held the answer for 4.00 s")
        assert text.endswith("; model-worker app added 3.02 s, gateway app added 2.00 s as well.")

    def test_of_more_the_number_is_told(self):
        text = self.told(("source", 20, 3 * S), (PROXY, 50, 4 * S), (GATEWAY, 80, 2 * S), freeze=(GATEWAY, 110, S))
        assert text.endswith("; model-worker app added 3.02 s, gateway app added 2.00 s and 1 more as well.")

    def test_what_came_before_a_cut_had_been_added(self):
        text = self.told((PROXY, 20, 2 * S), (GATEWAY, 30, S), cut=(PROXY, 60))
        assert text.endswith("; before that, inference-proxy app had added 2.00 s, gateway app had added 1.00 s.")

    def test_output_that_the_reader_does_not_see_is_nobodys_addition(self):
        hidden = {"events": 460, "phases": [(EventClass.REASONING, 400)], "strips": {GATEWAY: EventClass.REASONING}}
        path = join(run(Chain(stalls=[(GATEWAY, 430, 2 * S)], **hidden)))
        verdict = judge(path)
        assert Cause.HIDDEN_OUTPUT in {f.cause for f in verdict.findings}
        assert sentence(path, verdict).endswith("and no other hop added as much.")


def test_a_source_that_is_slow_all_through_is_told_where_nothing_is_wrong():
    path = join(run(Chain(gap=400_000_000)))
    assert sentence(path, judge(path)).endswith(
        "it was slow all through, half of the gaps at model-worker were 0.40 s or longer."
    )


def test_a_reader_that_left_unread_what_it_had_is_told_of_where_nobody_made_it_wait():
    *inner, last = run(Chain())
    looks = [KernelSample(at * 100 * MS, 121, 0, 0, PEAK if at < 10 else PEAK // 5, 0, 0, 0) for at in range(20)]
    path = join([*inner, replace(last, timeline=replace(last.timeline, samples=tuple(looks)))])
    verdict = judge(path)
    assert (verdict.status, verdict.cause) == (Status.HEALTHY, Cause.NONE)
    said = "; for 0.90 s the reader left unread what it had, its window down to 20% of its peak"
    assert f"whether it was read was not observed{said};" in sentence(path, verdict)
    assert verdict_answer(path, verdict, as_of="2026-01-01T00:00:00Z", is_final=True)["evidence"]["reader_window"] == {
        "unread_from_s": 1.0,
        "unread_for_s": 0.9,
        "window_bytes": PEAK // 5,
        "window_peak_bytes": PEAK,
    }


def test_the_window_of_a_hop_without_a_record_says_nothing_of_the_reader():
    *inner, last = run(Chain())
    looks = [KernelSample(at * 100 * MS, 121, 0, 0, PEAK if at < 10 else 0, 0, 0, 0) for at in range(20)]
    hops = [*inner, replace(last, timeline=replace(last.timeline, samples=tuple(looks)))]
    assert judge(join(hops)).unread is not None
    assert judge(join(hops, expected_path=[*NAMES, "edge"])).unread is None


@pytest.mark.parametrize(
    ("chain", "is_told"), [(Chain(stalls=[(PROXY, 40, 2 * S)]), True), (Chain(slow_reader=(40, 5 * S)), False)]
)
def test_it_is_told_beside_another_cause_and_not_twice(chain, is_told):
    *inner, last = run(chain)
    looks = [KernelSample(at * 100 * MS, 121, 0, 0, PEAK if at < 2 else 0, 0, 0, 0) for at in range(9)]
    samples = last.timeline.samples or tuple(looks)
    path = join([*inner, replace(last, timeline=replace(last.timeline, samples=samples))])
    verdict = judge(path)
    assert (verdict.status, verdict.unread is None) == (Status.NAMED, False)
    assert ("left unread" in sentence(path, verdict)) is is_told
