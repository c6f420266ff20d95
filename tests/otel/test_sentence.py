"""The sentence: one for every cause, saying no more than the evidence."""

from __future__ import annotations

import pytest

from otel.findings import Cause, Policy
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


def test_a_source_that_is_slow_all_through_is_told_where_nothing_is_wrong():
    path = join(run(Chain(gap=400_000_000)))
    assert sentence(path, judge(path)).endswith(
        "it was slow all through, half of the gaps at model-worker were 0.40 s or longer."
    )
