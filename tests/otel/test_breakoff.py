"""Broken answers: upstream ends are charged from the source on, departures from the reader on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from otel.breakoff import broken_off
from otel.findings import Cause
from otel.hop import End, Ending, Phase, Side
from otel.join import join
from tests.support.chain import GATEWAY, MS, PROXY, WORKER, Chain, run

C, CUT, LEFT = Ending.COMPLETE, Ending.UPSTREAM_CUT, Ending.CLIENT_DISCONNECT


def found(*endings: Ending, status: int = 200):
    hops = [
        replace(
            hop,
            exchange=replace(hop.exchange, status=status),
            end=End(ending, Side.UPSTREAM, Phase.EVENTS, MS),
        )
        for hop, ending in zip(run(Chain()), endings, strict=True)
    ]
    findings = broken_off(join(hops), None)
    return (findings[0].cause, findings[0].first_hop) if findings else None


@pytest.mark.parametrize(
    ("endings", "cause", "hop"),
    [
        ((CUT, CUT, CUT), Cause.TRUNCATED, WORKER),
        ((CUT, Ending.MISSING_TERMINAL, C), Cause.TRUNCATED, WORKER),
        ((LEFT, CUT, CUT), Cause.TRUNCATED, PROXY),
        ((LEFT, LEFT, CUT), Cause.TRUNCATED, GATEWAY),
        ((C, C, Ending.MISSING_TERMINAL), Cause.TRUNCATED, GATEWAY),
        ((Ending.REFUSED, Ending.COMPLETE, Ending.COMPLETE), Cause.TRUNCATED, WORKER),
        ((Ending.ERROR_EVENT, Ending.ERROR_EVENT, Ending.ERROR_EVENT), Cause.ERROR_EVENT, WORKER),
        ((C, Ending.ERROR_EVENT, Ending.ERROR_EVENT), Cause.ERROR_EVENT, PROXY),
        ((LEFT, LEFT, LEFT), Cause.CLIENT_DISCONNECT, "client"),
        ((LEFT, C, C), Cause.ABORTED, PROXY),
        ((LEFT, LEFT, C), Cause.ABORTED, GATEWAY),
        ((C, Ending.DRAINED, Ending.DRAINED), Cause.SELF, GATEWAY),
    ],
)
def test_a_broken_answer_is_charged_to(endings, cause, hop):
    assert found(*endings) == (cause, hop)


@pytest.mark.parametrize(
    ("given_up", "cause", "hop"),
    [(0, Cause.ABORTED, PROXY), (1, Cause.ABORTED, GATEWAY), (2, Cause.CLIENT_DISCONNECT, "client")],
)
def test_a_downstream_that_was_given_up_is_charged_like_one_that_closed(given_up, cause, hop):
    """What is nearer the reader saw an upstream that broke off, which was that sidecar's doing."""
    hops = list(run(Chain()))
    for n in range(given_up + 1, len(hops)):
        hops[n] = replace(hops[n], end=End(CUT, Side.UPSTREAM, Phase.EVENTS, MS, cut="reset"))
    hops[given_up] = replace(hops[given_up], end=End(LEFT, Side.SIDECAR, Phase.EVENTS, MS, cut="timeout"))
    (finding,) = broken_off(join(hops), None)

    assert (finding.cause, finding.first_hop) == (cause, hop)
    assert finding.detail.endswith("gave up its downstream, which took nothing")


def test_a_whole_answer_is_nobodys():
    assert found(C, C, C) is None


def test_an_error_status_is_an_error_of_the_first_app_that_answered_it():
    assert found(C, C, C, status=503) == (Cause.ERROR_EVENT, WORKER)


@pytest.mark.parametrize(
    ("endings", "hop"),
    [
        ((Ending.DRAINED, CUT, CUT), WORKER),
        ((C, Ending.LOST, CUT), PROXY),
        ((C, C, Ending.LOST), GATEWAY),
        ((LEFT, Ending.DRAINED, CUT), PROXY),
    ],
)
def test_what_a_sidecar_ended_itself_is_its_own(endings, hop):
    assert found(*endings) == (Cause.SELF, hop)


def test_a_sidecar_that_refused_is_not_the_error_of_the_app_behind_it():
    assert found(Ending.REJECTED, C, C, status=503) == (Cause.SELF, WORKER)
