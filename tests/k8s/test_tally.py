"""What was counted is shown, and what can be known beforehand stands at 0 from the start."""

from __future__ import annotations

from k8s.decisions import Reason, Skip
from k8s.facts import Facts
from k8s.planner import plan
from k8s.tally import Tally
from otel.exposition import exposition
from tests.support import pods


def shown(tally):
    lines = [line for line in exposition(tally.series()).splitlines() if not line.startswith("#")]
    return dict(line.rsplit(" ", 1) for line in lines)


def test_every_reason_has_its_line_from_the_start():
    lines = shown(Tally())
    for reason in Reason:
        assert lines[f'gapline_injector_decisions_total{{result="skipped",reason="{reason.value}"}}'] == "0"
    assert lines['gapline_injector_decisions_total{result="injected",reason="named"}'] == "0"
    assert lines['gapline_injector_reviews_total{result="malformed"}'] == "0"
    assert not [line for line in lines if "not_after" in line]


def test_what_happened_is_counted():
    tally = Tally(certificate_ends_s=1_800_000_000)
    tally.decided(Skip(Reason.JOB, "x"))
    tally.decided(plan(pods.pod(), namespace=pods.ASKED, facts=Facts(), config=pods.config()))
    tally.answered(3_000_000)
    tally.answered(9_000_000_000)
    lines = shown(tally)
    assert lines['gapline_injector_decisions_total{result="skipped",reason="job"}'] == "1"
    assert lines['gapline_injector_decisions_total{result="injected",reason="named"}'] == "1"
    assert lines['gapline_injector_review_seconds_bucket{le="0.0025"}'] == "0"
    assert lines['gapline_injector_review_seconds_bucket{le="0.005"}'] == "1"
    assert lines['gapline_injector_review_seconds_bucket{le="+Inf"}'] == "2"
    assert float(lines["gapline_injector_review_seconds_sum"]) == 9.003
    assert lines["gapline_injector_certificate_not_after_seconds"] == "1800000000"
