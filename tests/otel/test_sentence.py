"""The sentence: one for every cause, saying no more than the evidence."""

from __future__ import annotations

import pytest

from otel.findings import Cause, Policy
from otel.hop import EventClass
from otel.join import join
from otel.sentence import owner, sentence
from otel.verdict import judge
from tests.support.chain import GATEWAY, NAMES, PROXY, WORKER, Chain, S, run

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
