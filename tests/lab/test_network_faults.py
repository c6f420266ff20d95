"""How a verdict on a link's fault is marked, and two faults of real links."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.lab import namespaces
from tests.lab.network_faults import (
    PLACES,
    Fault,
    Kind,
    Mark,
    Result,
    Stream,
    fault,
    felt_s,
    main,
    mark,
    report,
    streams,
)
from tests.lab.stopping import Reading

HOLE = Fault(0, Kind.BLACK_HOLE, ("inference-proxy", "gateway"), 1.0, 1.0, has_small_buffers=False)
STREAM = Stream(chars=10, pace_ms=100.0, lasts_s=4.0)


def verdict(cause: str, first_hop: str | None, confidence: float = 0.9) -> dict[str, Any]:
    status = "named" if first_hop else "healthy" if cause == "none" else "inconclusive"
    return {"status": status, "cause": cause, "first_hop": first_hop, "confidence": confidence, "gap_s": 1.0}


@pytest.mark.parametrize(
    ("said", "felt", "expected"),
    [
        (verdict("network", "gateway"), 1.0, Mark.RIGHT),
        (verdict("app_stall", "gateway"), 1.0, Mark.WRONG_CAUSE),
        (verdict("network", "client"), 1.0, Mark.WRONG_LINK),
        (verdict("none", None), 0.1, Mark.UNFELT),
        (verdict("none", None), 1.0, Mark.MISSED),
        (verdict("unknown", None), 1.0, Mark.UNSURE),
    ],
)
def test_a_verdict_is_right_only_where_cause_and_link_are(said: dict[str, Any], felt: float, expected: Mark) -> None:
    assert mark(HOLE, felt, said) is expected


def a_result(said: dict[str, Any], *, is_whole: bool = True) -> Result:
    return Result(HOLE, STREAM, 1.0, is_whole, "r", said, {})


def is_failed(said: dict[str, Any], *, is_whole: bool = True) -> bool:
    return a_result(said, is_whole=is_whole).is_failed


def test_it_fails_where_it_is_sure_and_wrong_or_accuses_a_reader() -> None:
    assert not is_failed(verdict("network", "gateway"))
    assert is_failed(verdict("app_stall", "gateway"))
    assert not is_failed(verdict("app_stall", "gateway", confidence=0.5))
    assert is_failed(verdict("slow_reader", "client", confidence=0.1))
    assert is_failed(verdict("none", None))
    assert is_failed(verdict("network", "gateway"), is_whole=False)


def test_felt_is_how_far_behind_the_source_the_reader_fell() -> None:
    on_time = [(0.2 + 0.1 * n, n) for n in range(1, 41)]
    assert felt_s(Reading(0.0, reads=on_time), STREAM) == pytest.approx(0.0)
    held = [(at_s, n) for at_s, n in on_time if not 2.05 < at_s < 2.95]  # what came meanwhile comes at 3.0 in one read
    assert felt_s(Reading(0.0, reads=held), STREAM) == pytest.approx(3.0 - 2.1)
    assert felt_s(Reading(5.0, reads=[(at_s + 5.0, n) for at_s, n in held]), STREAM) == pytest.approx(0.9)


def test_every_kind_meets_every_link_with_large_and_small_buffers() -> None:
    drawn = [fault(1, number) for number in range(18)]
    links = set(itertools.pairwise(PLACES))
    assert {(each.kind, each.between, each.has_small_buffers) for each in drawn} == {
        (kind, link, is_small) for kind in Kind for link in links for is_small in (False, True)
    }
    assert fault(1, 5) == fault(1, 5) != fault(2, 5)
    assert streams(1, drawn[0]) == streams(1, drawn[0]) != streams(1, drawn[1])


def test_the_report_has_a_row_for_each_kind_and_link() -> None:
    text = report([a_result(verdict("network", "gateway"))] * 2)
    assert "black hole  inference-proxy > gateway      2 network, at this link" in text


@pytest.mark.e2e
@pytest.mark.timeout(120)
@pytest.mark.skipif((why := namespaces.missing()) is not None, reason=str(why))
def test_a_black_hole_is_named_at_its_own_link(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "1", "--fault", "3"]) == 0
    assert "RIGHT" in capsys.readouterr().out
