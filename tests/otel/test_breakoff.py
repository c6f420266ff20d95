"""Broken answers: upstream ends are charged from the source on, departures from the reader on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel.breakoff import broken_off
from otel.findings import Cause
from otel.hop import Blocked, End, Ending, EventClass, Phase, Side
from otel.join import join
from otel.sentence import sentence
from otel.verdict import judge
from tests.support.broken import silenced
from tests.support.chain import GATEWAY, MS, NAMES, PROXY, WORKER, Chain, S, run, shifted

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


@pytest.mark.parametrize("by", [0, 1, 2])
def test_a_limit_that_passed_is_charged_to_where_the_silence_began_not_to_the_hop_that_ended_it(by):
    path = join(silenced(by))
    (finding,) = broken_off(path, None)

    assert (finding.cause, finding.first_hop) == (Cause.TIMED_OUT, WORKER)
    assert finding.facts == {
        "limit_fired": {"limit": "next_event_timeout", "at": path.taps[by].place.tap, "silence_s": 3.0}
    }
    assert (
        finding.detail == f"the sidecar of {path.taps[by].place.hop} ended the answer after 3.00 s of silence "
        "(next_event_timeout)"
    )
    text = sentence(path, judge(path))
    assert text.startswith("Model-worker app fell silent after 60 events")
    assert "before that" not in text, "the silence is told once"


@pytest.mark.parametrize(("held_by", "hop"), [(1, PROXY), (2, GATEWAY)])
def test_a_limit_that_passed_is_charged_to_the_app_that_kept_what_still_came(held_by, hop):
    (finding,) = broken_off(join(silenced(2, held_by=held_by)), None)

    assert finding.first_hop == hop


@given(
    by=st.integers(0, 2),
    held_by=st.none() | st.integers(1, 2),
    waited=st.integers(2_000, 600_000),
    order=st.permutations([0, 1, 2]),
    hours=st.lists(st.integers(-48, 48), min_size=3, max_size=3),
)
def test_whose_silence_it_was_depends_on_no_wall_clock_and_no_order(by, held_by, waited, order, hours):
    held_by = None if held_by is None or held_by > by else held_by
    hops = silenced(by, held_by=held_by, waited=waited * MS)
    hops = [shifted(hops[n], wall_ns=hours[n] * 3_600 * S) for n in order]
    (finding,) = broken_off(join(hops, expected_path=NAMES), None)

    assert (finding.cause, finding.first_hop) == (Cause.TIMED_OUT, NAMES[held_by or 0])
    assert finding.facts["limit_fired"]["at"] == NAMES[by]


def test_pings_do_not_hide_where_the_content_ended():
    hops = silenced(2, token="content_timeout")
    for n, hop in enumerate(hops):
        last = hop.timeline.stamps[-1]
        ping = replace(last, seq=last.seq + 1, arrived_ns=last.arrived_ns + 2900 * MS, event_class=EventClass.KEEPALIVE)
        timeline = replace(hop.timeline, stamps=(*hop.timeline.stamps, ping))
        hops[n] = replace(hop, timeline=timeline, end=replace(hop.end, idle_ns=100 * MS))
    (finding,) = broken_off(join(hops), None)

    assert finding.first_hop == WORKER
    assert "3.00 s of silence (content_timeout)" in finding.detail


def test_an_app_that_did_not_read_is_charged_with_the_silence_behind_it():
    hops = silenced(2)
    inner = hops[1]
    last_ns = inner.timeline.stamps[-1].arrived_ns
    blocked = (Blocked(last_ns, last_ns + 2900 * MS, 1),)
    hops[1] = replace(inner, timeline=replace(inner.timeline, blocked=blocked))
    (finding,) = broken_off(join(hops), None)

    assert finding.first_hop == GATEWAY


def test_a_whole_answer_that_an_app_did_not_pass_on_is_charged_to_it():
    hops = silenced(2)
    for n in (0, 1):
        hops[n] = replace(hops[n], end=End(C, Side.UPSTREAM, Phase.DRAIN, 0))
    (finding,) = broken_off(join(hops), None)

    assert finding.first_hop == GATEWAY
